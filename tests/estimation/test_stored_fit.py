"""A fit to responses or grades on disk is the fit to the same in memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.refusals import is_refused
from builders.simulated import simulated
from builders.stored import on_disk
from irtbench import ItemParameters, ResponseMatrix, StoredResponses, as_responses, fit_model
from irtbench.data.stored_responses import StoredScores
from irtbench.estimation import threads
from irtbench.estimation.marginal import e_step


def assert_same_fit(given: StoredResponses, responses: ResponseMatrix, **settings: object) -> None:
    found, exact = fit_model(given, **settings), fit_model(responses, **settings)
    assert found.converged == exact.converged
    assert found.status.steps == exact.status.steps
    assert found.log_likelihood == pytest.approx(exact.log_likelihood, rel=1e-12)
    for name in ("discrimination", "intercept", "guessing", "covariance"):
        np.testing.assert_allclose(getattr(found.items, name), getattr(exact.items, name), rtol=1e-8, atol=1e-10)
    assert found.summary().keys() == exact.summary().keys()
    np.testing.assert_array_equal(found.n_by_item, exact.n_by_item)


@pytest.mark.parametrize(
    ("settings", "size", "missing"),
    [
        ({}, (200, 8), 0.3),
        ({"model": "1pl"}, (200, 8), 0.3),
        ({"model": "3pl", "tolerance": 1e-3}, (200, 8), 0.0),
        ({"model": "4pl", "tolerance": 1e-3}, (200, 8), 0.3),
        ({"guessing": 0.1, "prior": "weak"}, (200, 8), 0.0),
        ({"population": "estimated", "tolerance": 1e-3}, (200, 8), 0.0),
        ({"dtype": "float32"}, (200, 8), 0.3),
        ({}, (150, 150), 0.0),  # narrow posteriors: nodes are placed by a pass that keeps numbers of each respondent
    ],
)
def test_every_model(
    settings: dict[str, object], size: tuple[int, int], missing: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    responses, _, _ = simulated(*size, seed=11, missing=missing)
    monkeypatch.setitem(e_step.BATCH_CELLS, "cpu", 61 * 50)  # batches of fifty respondents
    assert_same_fit(on_disk(responses, tmp_path), responses, **settings)


def test_with_anchors_and_a_start_and_from_some_of_very_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    responses, items, _ = simulated(500, 10, seed=12)
    stored = on_disk(responses, tmp_path)
    assert_same_fit(stored, responses, anchors=items.select(items.item_ids[:4]))
    assert_same_fit(stored, responses, start=items)
    monkeypatch.setattr("irtbench.estimation.marginal.fisher_scoring.SAMPLE", 100)
    assert_same_fit(stored, responses)


def test_chosen_items_and_respondents(tmp_path: Path) -> None:
    responses, _, _ = simulated(400, 9, seed=14, missing=0.8)
    kept = responses.select_respondents(responses.n_by_respondent > 0)
    given = on_disk(kept, tmp_path)
    some = kept.select_items(kept.item_ids[2:7])
    answered = some.n_by_respondent > 0
    assert not answered.all()
    chosen = given.select_items(kept.item_ids[2:7])
    assert_same_fit(chosen.select_respondents(answered), some.select_respondents(answered), prior="weak")


def test_what_needs_all_responses_and_what_is_refused_in_memory_is_refused(tmp_path: Path) -> None:
    responses, _, _ = simulated(100, 5, seed=17)
    given = on_disk(responses, tmp_path)
    for settings, named in (
        ({"prior": "hierarchical"}, "prior hierarchical"),
        ({"posterior": "normal", "prior": "weak"}, "posterior"),
        ({"optimiser": "adam"}, "optimiser adam"),
    ):
        is_refused(f"{named} needs all responses in memory", fit_model, given, **settings)
    constant = on_disk(as_responses(np.where(np.arange(5) == 2, 1, responses.values)), tmp_path / "constant")
    is_refused("all responses are the same for item item3", fit_model, constant)
    is_refused("start is of other items", fit_model, given, start=ItemParameters.from_difficulty([1.0], [0.0]))


def grades(n: int = 240, n_items: int = 6, *, seed: int = 1, missing: float = 0.3) -> pd.DataFrame:
    """Grades 1 to 4; nobody has a 2 on q2, and q3 has two categories."""
    rng = np.random.default_rng(seed)
    theta, slopes = rng.normal(size=(n, 1, 1)), rng.uniform(1, 2, (n_items, 1))
    steps = np.linspace(-1, 1, n_items)[:, None] + np.array([-1.0, 0.0, 1.0])
    given = 1.0 + (slopes * (theta - steps) + rng.logistic(size=(n, n_items, 1)) > 0).sum(axis=2)
    given[:, 1] = np.where(given[:, 1] == 2, 3, given[:, 1])
    given[:, 2] = np.where(given[:, 2] <= 2, 2, 4)
    given[rng.random(given.shape) < missing] = np.nan
    given[np.isnan(given).all(axis=1), 0] = 1
    return pd.DataFrame(given, columns=[f"q{k + 1}" for k in range(n_items)], index=[f"r{k:04d}" for k in range(n)])


def grades_on_disk(
    table: pd.DataFrame, folder: Path, levels: Sequence[Any] | None = None, *, long: bool = False
) -> StoredScores:
    frame = table.rename_axis("respondent_id").reset_index()
    if long:
        frame = frame.melt("respondent_id", var_name="item_id", value_name="score").dropna()
    frame.to_parquet(folder / "grades.parquet")
    return irtbench.encode_scores(irtbench.LargeTable.open(folder / "grades.parquet"), folder / "cache", levels)


def assert_same_fit_of_grades(stored: StoredScores, table: pd.DataFrame, model: Any, **words: Any) -> None:
    levels = words.pop("levels", None)
    found, exact = (
        irtbench.fit_categories(stored, model, **words),
        irtbench.fit_categories(table, model, levels=levels, **words),
    )
    assert found.status.steps == exact.status.steps
    assert found.log_likelihood == pytest.approx(exact.log_likelihood, rel=1e-12)
    assert found.items.categories == exact.items.categories
    np.testing.assert_allclose(found.parameters, exact.parameters, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.covariance, exact.covariance, rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(found.n_by_item, exact.n_by_item)
    if exact.groups is not None:
        pd.testing.assert_frame_equal(found.groups, exact.groups)


@pytest.mark.parametrize(
    ("model", "words", "long"),
    [
        ("grm", {}, True),
        ("gpcm", {"prior": "weak"}, True),
        ("pcm", {}, False),
        ("nominal", {}, True),
        ("grm", {"population": "estimated", "tolerance": 1e-3}, False),
        ("grm", {"groups": ["a", "b"] * 120}, True),
        ({"q1": "grm", "q2": "gpcm", "q3": "2pl", "q4": "grm", "q5": "nominal", "q6": "grm"}, {}, False),
    ],
)
def test_every_model_of_grades(
    model: Any, words: dict[str, Any], long: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(e_step.BATCH_CELLS, "cpu", 61 * 50)  # batches of fifty respondents
    table = grades()
    stored = grades_on_disk(table, tmp_path, long=long)
    assert stored.categories[1:3] == ((1, 3, 4), (2, 4))
    assert_same_fit_of_grades(stored, table[list(stored.item_ids)], model, **words)


def test_grades_beside_anchors(tmp_path: Path) -> None:
    table = grades(missing=0.0)
    known = irtbench.fit_categories(table, "grm").items
    assert_same_fit_of_grades(grades_on_disk(table, tmp_path), table, "grm", anchors=known.select(known.item_ids[:3]))


def test_starting_values_and_threads_of_very_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = grades(300)
    stored = grades_on_disk(table, tmp_path)
    monkeypatch.setattr("irtbench.estimation.marginal.fisher_scoring.SAMPLE", 100)
    assert_same_fit_of_grades(stored, table, "grm")
    alone = irtbench.fit_categories(stored, "grm")
    monkeypatch.setattr(threads, "FEW_CELLS", 0)
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    assert irtbench.fit_categories(stored, "grm").log_likelihood == pytest.approx(alone.log_likelihood, rel=1e-10)


def test_labels_have_the_order_of_the_levels(tmp_path: Path) -> None:
    levels = ["poor", "fair", "good", "very good"]
    table = grades().map(lambda value: None if np.isnan(value) else levels[int(value) - 1])
    stored = grades_on_disk(table, tmp_path, levels)
    assert stored.categories[1] == ("poor", "good", "very good")
    assert_same_fit_of_grades(stored, table, "grm", levels=levels)


def test_a_matrix_has_the_points_and_chosen_respondents_the_categories_of_all(tmp_path: Path) -> None:
    table = grades()
    exact, stored = irtbench.fit_categories(table, "grm").items.matrix(table), grades_on_disk(table, tmp_path)
    part = stored.part(0, 240)
    np.testing.assert_array_equal(part.correct, exact.correct)
    np.testing.assert_array_equal(part.trials, exact.trials)
    assert part.respondent_ids == exact.respondent_ids
    some = stored.select_respondents(np.arange(240) < 3)
    assert (some.n_respondents, some.categories) == (3, stored.categories)
    assert some.n_by_level.sum() == some.n_by_item.sum()


def test_what_is_encoded_is_taken_up_by_its_levels(tmp_path: Path) -> None:
    table = grades()
    grades_on_disk(table, tmp_path)
    data = tmp_path / "cache" / "responses.bin"
    before = data.stat().st_mtime_ns
    assert grades_on_disk(table, tmp_path).levels == (1, 2, 3, 4)
    assert data.stat().st_mtime_ns == before
    assert grades_on_disk(table, tmp_path, [4, 3, 2, 1]).categories[2] == (4, 2)
    assert data.stat().st_mtime_ns > before


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ([1, 2, 3], "item q[12]: 4.0 is none of its categories; expected 1, 2, 3"),
        ([1], "levels: 1; expected 2 to 100"),
        ([1, 1, 2], "levels"),
    ],
)
def test_grades_of_no_level_are_an_error(levels: list[Any], message: str, long: bool, tmp_path: Path) -> None:
    is_refused(message, grades_on_disk, grades(), tmp_path, levels, long=long)


def test_labels_without_levels_and_what_needs_all_in_memory_are_refused(tmp_path: Path) -> None:
    words = pd.DataFrame({"q1": ["a", "b"], "q2": ["b", "b"]}, index=["r1", "r2"])
    is_refused("'a' is no number; expected numbers, or levels", grades_on_disk, words, tmp_path)
    stored = grades_on_disk(grades(), tmp_path)
    is_refused("optimiser adam needs all responses in memory", irtbench.fit_categories, stored, "grm", optimiser="adam")
    is_refused("have their levels", irtbench.fit_categories, stored, "grm", levels=[1, 2, 3, 4])
    with pytest.raises(irtbench.InputError, match="item q2: all responses are the same"):
        irtbench.fit_categories(grades_on_disk(grades().assign(q2=3.0), tmp_path), "grm")


def test_the_table_counts_what_each_item_was_given(tmp_path: Path) -> None:
    table = pd.DataFrame({"respondent_id": list("abcd"), "i": [0, 1, 1, 2], "j": [2, 0, 0, np.nan]})
    table.to_parquet(tmp_path / "scores.parquet", index=False)
    found = irtbench.encode_scores(irtbench.LargeTable.open(tmp_path / "scores.parquet"), tmp_path / "cache").table()
    assert found.to_dict("list") == {
        "item_id": ["i", "i", "i", "j", "j"], "level": [0, 1, 2, 0, 2], "n": [1, 2, 1, 2, 1]
    }  # fmt: skip
