"""Screening of responses on disk is that in memory, whatever the sizes; what is known of all is known of the parts."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irtbench
from builders.stored import on_disk
from irtbench.data.responses import ResponseMatrix
from irtbench.data.screening import Screening, ScreeningOutcomes, ScreeningSettings, screen
from irtbench.study.person_screening import screen_respondents
from irtbench.study.study_data import StudyData

RULES = ScreeningSettings(min_responses=3, attention_share=0.5, chance_level=0.25, chance_p=0.4)


def crowd(n: int, missing: float, seed: int) -> tuple[ResponseMatrix, irtbench.ItemTable]:
    """Six items and two checks."""
    rng = np.random.default_rng(seed)
    items = irtbench.ItemParameters.from_difficulty(rng.uniform(1, 2, 6), np.linspace(-1.2, 1.2, 6))
    values = np.hstack([
        irtbench.simulate_responses(rng.normal(size=n), items, rng=rng).values, (rng.random((n, 2)) < 0.8).astype(float)
    ])  # fmt: skip
    values[rng.random(values.shape) < missing] = np.nan
    names = (*items.item_ids, "check1", "check2")
    matrix = ResponseMatrix(values, tuple(f"r{k}" for k in range(n)), names)
    return matrix, replace(irtbench.ItemTable.plain(names), attention=(False,) * 6 + (True,) * 2)


@pytest.mark.slow
@given(
    n=st.integers(60, 150), rows=st.integers(1, 160), missing=st.sampled_from([0.0, 0.2, 0.7]),
    seed=st.integers(0, 1000),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_part_by_part_it_is_the_screening_in_memory(
    tmp_path_factory: pytest.TempPathFactory, n: int, rows: int, missing: float, seed: int
) -> None:
    matrix, items = crowd(n, missing, seed)
    expected, folder = screen(matrix, items, RULES), tmp_path_factory.mktemp("store")
    (folder / "answers.csv").touch()
    (folder / "study.toml").write_text('[data]\nanswers = "answers.csv"\ncontent = "responses"\n')
    study = replace(irtbench.read_study(folder / "study.toml"), screening=RULES)
    parts: list[Screening] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("irtbench.data.stored_responses.StoredResponses.at_once", rows)
        patch.setattr("irtbench.study.person_screening.FEWEST_RESPONDENTS", 1)
        stored = on_disk(matrix, folder / "stored")
        found = screen_respondents(study, StudyData(None, stored, items), sample=50, each=parts.append)
    here = (
        pd.concat([part.table() for part in parts])
        .set_index("respondent_id")
        .loc[list(matrix.respondent_ids)]
        .reset_index()
    )
    pd.testing.assert_frame_equal(here, expected.table())
    answered = matrix.n_by_respondent > 0
    np.testing.assert_array_equal(found.kept, expected.kept[answered])
    counted, known = found.outcomes.table(), ScreeningOutcomes.of(expected).table()
    pd.testing.assert_frame_equal(counted, known, rtol=1e-12)
    assert (found.outcomes.n, found.outcomes.n_kept) == (n, expected.kept.sum())


def test_outcomes_by_hand() -> None:
    """Two kept with 1 and .5 right, one without a response, one with too few, none right."""
    values = np.array([[1, 1], [1, 0], [np.nan, np.nan], [0, np.nan]])
    found = screen(
        ResponseMatrix(values, ("a", "b", "c", "d"), ("i", "j")), irtbench.ItemTable.plain(("i", "j")), min_responses=2
    )
    table = ScreeningOutcomes.of(found).table()
    assert table["outcome"].tolist() == ["kept", "no response", "too few responses"]
    assert table["n_respondents"].tolist() == [2, 1, 1]
    assert table["share"].tolist() == [0.5, 0.25, 0.25]
    np.testing.assert_array_equal(table["accuracy"], [0.75, np.nan, 0])
    twice = ScreeningOutcomes.together([ScreeningOutcomes.of(found)] * 2, found.settings)
    np.testing.assert_array_equal(twice.table()["accuracy"], [0.75, np.nan, 0])
    assert repr(twice).startswith("<ScreeningOutcomes: 4 of 8 respondents kept, 2 no response")
