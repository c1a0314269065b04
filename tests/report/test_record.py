"""A study on disk gives its page again: graded responses, several trials, no scale retained, a real crowd."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_study import render_report

from irtbench.data.responses import ResponseMatrix
from irtbench.study.results import Study, load_study, save_study


def again(study: Study, folder: Path) -> Study:
    save_study(study, folder / "study.json")
    return load_study(folder)


@pytest.mark.parametrize("of", ["study", "plain_study"])
def test_the_page_is_the_same_to_the_last_byte(of: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    study = request.getfixturevalue(of)
    read = again(study, tmp_path)
    assert render_report(read) == render_report(study)
    save_study(read, tmp_path / "twice.json")
    assert (tmp_path / "twice.json").read_bytes() == (tmp_path / "study.json").read_bytes()
    for one, other in zip(study.scales, read.scales, strict=True):
        np.testing.assert_array_equal(one.responses.correct, other.responses.correct)
        assert one.responses.respondent_ids == other.responses.respondent_ids


def test_several_trials_of_an_item_are_kept(plain_study: Study, tmp_path: Path) -> None:
    (scale,) = plain_study.scales
    once, trials = scale.responses, np.where(scale.responses.observed, 2, 0)
    twice = ResponseMatrix(2 * once.correct, once.respondent_ids, once.item_ids, trials)
    study = replace(plain_study, scales=(replace(scale, responses=twice),))
    read = again(study, tmp_path)
    np.testing.assert_array_equal(read.scales[0].responses.trials, trials)
    np.testing.assert_array_equal(read.scales[0].responses.correct, twice.correct)


def test_only_what_the_page_says_is_kept(study: Study, tmp_path: Path) -> None:
    pairs = study.scales[0].pruning.rounds[0].local_dependence
    read = again(study, tmp_path)
    kept = read.scales[0].pruning.rounds[0].local_dependence
    assert len(kept.item_1) <= 2 < len(pairs.item_1)
    assert np.nanmin(kept.p_adjusted) == np.nanmin(pairs.p_adjusted)
    assert read.bank is not None
    assert study.bank is not None
    assert [scale.name for scale in read.bank.scales] == [scale.name for scale in study.bank.scales]
