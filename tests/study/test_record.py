"""A study on disk gives its page again: graded responses, several trials, no scale retained, a real crowd."""

from pathlib import Path

import numpy as np
import pytest
from report_study import FULL, PLAIN, simulated_files

from irtbench.config import read_study
from irtbench.report.html import render_report
from irtbench.study.results import Study, load_study, save_study
from irtbench.study.run import run_study


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study")
    simulated_files(path)
    return path


def again(study: Study, folder: Path) -> Study:
    save_study(study, folder / "study.json")
    return load_study(folder)


@pytest.mark.slow
@pytest.mark.parametrize("text", [FULL, PLAIN], ids=["answers and a system", "graded, and no scale"])
def test_the_page_is_the_same_to_the_last_byte(folder: Path, tmp_path: Path, text: str) -> None:
    (folder / "study.toml").write_text(text, encoding="utf-8")
    study = run_study(read_study(folder / "study.toml"))
    read = again(study, tmp_path)
    assert render_report(read) == render_report(study)
    save_study(read, tmp_path / "twice.json")
    assert (tmp_path / "twice.json").read_bytes() == (tmp_path / "study.json").read_bytes()
    for one, other in zip(study.scales, read.scales, strict=True):
        np.testing.assert_array_equal(one.responses.correct, other.responses.correct)
        assert one.responses.respondent_ids == other.responses.respondent_ids


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:item fit. no degree of freedom is left:RuntimeWarning")
def test_several_trials_of_an_item_are_kept(folder: Path, tmp_path: Path) -> None:
    text = PLAIN.replace("[data]", '[data]\ntrials = "count"')
    header, *rows = (folder / "responses.csv").read_text().splitlines()
    trials = [f"{row},1" for row in rows] + [f"{row},2" for row in rows]
    (folder / "responses.csv").write_text("\n".join([f"{header},trial", *trials]) + "\n")
    (folder / "trials.toml").write_text(text, encoding="utf-8")
    study = run_study(read_study(folder / "trials.toml"))
    assert study.scales[0].responses.trials is not None
    read = again(study, tmp_path)
    np.testing.assert_array_equal(study.scales[0].responses.trials, read.scales[0].responses.trials)
    assert render_report(read) == render_report(study)


def test_only_what_the_page_says_is_kept(folder: Path, tmp_path: Path) -> None:
    (folder / "study.toml").write_text(FULL, encoding="utf-8")
    study = run_study(read_study(folder / "study.toml"))
    pairs = study.scales[0].pruning.rounds[0].local_dependence
    read = again(study, tmp_path)
    kept = read.scales[0].pruning.rounds[0].local_dependence
    assert len(kept.item_1) <= 2 < len(pairs.item_1)
    assert np.nanmin(kept.p_adjusted) == np.nanmin(pairs.p_adjusted)
    assert read.bank is not None
    assert study.bank is not None
    assert [scale.name for scale in read.bank.scales] == [scale.name for scale in study.bank.scales]
