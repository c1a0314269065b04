"""Sparse responses: the same fit as from the full matrix, and the long form checked like it."""

from math import comb, log
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.refusals import is_refused
from irtbench.data.readers.long_table import summarise
from irtbench.data.readers.recognise import read_answers, read_responses
from irtbench.data.responses import ResponseMatrix
from irtbench.data.sparse_responses import SparseResponses, responses_from_long
from irtbench.estimation.fit import fit_model
from irtbench.models.curves import simulate_responses
from irtbench.models.item_parameters import ItemParameters


def both(*, n: int = 400, n_items: int = 30, missing: float = 0.7) -> tuple[ResponseMatrix, SparseResponses]:
    rng = np.random.default_rng(4)
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), rng.normal(size=n_items))
    drawn = simulate_responses(rng.normal(size=n), items, rng=rng, missing=missing)
    table = drawn.to_long().sample(frac=1, random_state=1)  # rows of one respondent need not be adjacent
    return ResponseMatrix.from_long(table), SparseResponses.from_long(table)


def test_the_sparse_form_and_its_parts_hold_what_the_matrix_holds() -> None:
    matrix, sparse = both()
    assert (sparse.respondent_ids, sparse.item_ids) == (matrix.respondent_ids, matrix.item_ids)
    np.testing.assert_array_equal(sparse.to_matrix().values, matrix.values)
    for name in ("n_by_item", "n_by_respondent", "n_correct_by_item"):
        np.testing.assert_array_equal(getattr(sparse, name), getattr(matrix, name))
    np.testing.assert_allclose(sparse.proportion_correct(), matrix.proportion_correct())
    matrix, sparse = both(n=40)
    wanted, keep = [sparse.item_ids[k] for k in (7, 2, 19)], np.arange(40) % 3 == 1
    ours = sparse.select_items(wanted).select_respondents(keep).to_matrix()
    theirs = matrix.select_items(wanted).select_respondents(keep)
    assert ours.respondent_ids == theirs.respondent_ids
    np.testing.assert_array_equal(ours.values, theirs.values)
    is_refused("unknown item nowhere", sparse.select_items, ["nowhere"])


def assert_same_errors(thin: ItemParameters, dense: ItemParameters) -> None:
    for name, error in thin.standard_errors().items():
        np.testing.assert_allclose(error, dense.standard_errors()[name], rtol=1e-4)


def test_a_sparse_fit_equals_the_dense_one() -> None:
    # they start from different places
    dense, thin = (
        fit_model(given, kind="4pl", prior="weak", tolerance=1e-6) for given in both(n_items=15, missing=0.5)
    )
    assert dense.converged
    assert thin.converged
    assert thin.log_likelihood == pytest.approx(dense.log_likelihood, abs=1e-6)
    np.testing.assert_allclose(thin.items.discrimination, dense.items.discrimination, atol=1e-5)
    np.testing.assert_allclose(thin.items.intercept, dense.items.intercept, atol=1e-5)
    assert_same_errors(thin.items, dense.items)


def test_many_items_get_their_own_information_from_a_sparse_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irtbench.estimation.marginal.observed_information.MOST_COUPLED_ITEMS", 20)
    assert_same_errors(*(fit_model(given, prior="weak").items for given in both()))


def test_a_small_or_full_table_becomes_a_matrix_and_a_large_empty_one_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    table = both(missing=0.95)[0].to_long()
    assert isinstance(responses_from_long(table), ResponseMatrix)
    monkeypatch.setattr("irtbench.data.sparse_responses.MOST_DENSE_CELLS", 1000)
    assert isinstance(responses_from_long(table), SparseResponses)
    assert isinstance(responses_from_long(both(missing=0.5)[0].to_long()), ResponseMatrix)
    table = pd.DataFrame([("r1", "i1", 1), ("r2", "i1", np.nan)], columns=["respondent_id", "item_id", "response"])
    sparse = SparseResponses.from_long(table)
    assert (sparse.n_respondents, sparse.n_responses) == (2, 1)  # who has no response is kept
    wrong, saying = table.rename(columns={"item_id": "item"}), "column item_id missing; it has: respondent_id, item, re"
    for build in (responses_from_long, ResponseMatrix.from_long):
        is_refused(saying, build, wrong)


NAN = np.nan
TRIED = ResponseMatrix(
    np.array([[2.0, 0.0, NAN], [1.0, NAN, 3.0]]), ("s", "t"), ("a", "b", "c"), np.array([[4, 1, 0], [1, 0, 3]])
)


def test_counts_by_hand() -> None:
    assert (TRIED.n_responses, TRIED.is_complete) == (9, False)
    for name, expected in (
        ("n_by_respondent", [5, 4]), ("n_items_by_respondent", [2, 2]), ("n_by_item", [5, 1, 3]),
        ("n_correct_by_item", [3, 0, 3]),
    ):  # fmt: skip
        assert getattr(TRIED, name).tolist() == expected
    assert TRIED.accuracy().tolist() == [(2 / 4 + 0) / 2, 1.0]
    assert TRIED.proportion_correct().tolist() == [3 / 5, 0, 1]
    assert TRIED.log_coefficients() == pytest.approx(log(comb(4, 2)))


def test_parts_and_the_long_form_keep_the_trials() -> None:
    part = TRIED.select_items(["c", "a"]).select_respondents(np.array([False, True]))
    assert part.trials is not None
    assert (part.correct.tolist(), part.trials.tolist()) == ([[3, 1]], [[3, 1]])
    table = TRIED.to_long()
    assert list(table) == ["respondent_id", "item_id", "n_correct", "n_trials"]
    again = ResponseMatrix.from_long(table, item_ids=TRIED.item_ids)
    np.testing.assert_array_equal(again.correct, TRIED.correct)
    np.testing.assert_array_equal(again.trials, TRIED.trials)
    sparse = SparseResponses.from_long(table)
    for name in ("n_by_item", "n_by_respondent", "n_correct_by_item"):
        np.testing.assert_array_equal(getattr(sparse, name), getattr(TRIED, name))
    assert sparse.log_coefficients() == pytest.approx(TRIED.log_coefficients())
    np.testing.assert_array_equal(sparse.respondents(1, 2).select_items(["c"]).to_matrix().trials, [[3]])


@pytest.mark.parametrize(
    ("correct", "trials", "saying"),
    [
        ([[3.0]], [[2]], "expected a whole number right of a whole number of trials"),
        ([[0.5]], [[2]], "but got 0.5 of 2"),
        ([[-1.0]], [[2]], "but got -1 of 2"),
        ([[NAN]], [[2]], "missing where that is 0, but got nan of 2"),
        ([[0.0]], [[0]], "but got 0 of 0"),
        ([[1.0]], [[2, 2]], r"trials of shape \(1, 2\)"),
        ([[2.0]], [[1]], "but got 2 of 1"),
    ],
)
def test_counts_that_cannot_be_are_refused(correct: list[list[float]], trials: list[list[int]], saying: str) -> None:
    is_refused(saying, ResponseMatrix, np.array(correct), ("s",), ("a",), np.array(trials))


CELLS = st.lists(
    st.tuples(st.sampled_from("rs"), st.sampled_from("ab"), st.sampled_from([0.0, 1.0, NAN])), min_size=1, max_size=12
)


@settings(max_examples=15)
@given(CELLS)
def test_rows_that_a_trial_distinguishes_are_counted(cells: list[tuple[str, str, float]]) -> None:
    table = pd.DataFrame(cells, columns=["respondent_id", "item_id", "response"])
    table["trial"] = table.groupby(["respondent_id", "item_id"]).cumcount()
    found = ResponseMatrix.from_long(table)
    for i, respondent in enumerate(found.respondent_ids):
        for j, item in enumerate(found.item_ids):
            own = [x for r, c, x in cells if (r, c) == (respondent, item) and not np.isnan(x)]
            assert found.n_trials[i, j] == len(own)
            assert np.nan_to_num(found.correct[i, j]) == sum(own)


COUNTS = "respondent_id,item_id,n_correct,n_trials"


def counted(folder: Path, text: str, **options: Any) -> pd.DataFrame:
    (folder / "t.csv").write_text(text)
    return read_responses(folder / "t.csv", **{"trials": "count"} | options).frame


def test_a_table_of_counts_is_read_reduced_and_summed(tmp_path: Path) -> None:
    text = f"{COUNTS}\ns,a,2,4\ns,b,0,1\nt,a,3,4\nt,b,,0\n"
    assert ResponseMatrix.from_long(counted(tmp_path, text)).trials is not None
    found = summarise(read_responses(tmp_path / "t.csv", trials="count"))
    assert (found.content, found.n_responses, found.n_trials, found.proportion_correct) == ("response", 9, 4, 5 / 9)
    for trials, threshold, expected in (
        ("any", None, [1, 0, 1, -1]), ("majority", None, [0, 0, 1, -1]), ("mean", 0.5, [1, 0, 1, -1])
    ):  # fmt: skip
        reduced = counted(tmp_path, text, trials=trials, threshold=threshold)
        assert reduced["response"].fillna(-1).tolist() == expected
    (row,) = counted(tmp_path, f"{COUNTS},trial\ns,a,2,4,x\ns,a,1,3,y\n").to_dict("records")
    assert (row["n_correct"], row["n_trials"]) == (3, 7)
    names = {"respondent_id": "system", "item_id": "question", "n_correct": "k", "n_trials": "n"}
    assert counted(tmp_path, "system,question,k,n\ns,a,2,4\n", columns=names)["n_trials"].tolist() == [4]


def test_trials_a_row_each_are_counted_and_without_them_nothing_changes(tmp_path: Path) -> None:
    frame = counted(tmp_path, "respondent_id,item_id,trial,response\ns,a,1,1\ns,a,2,0\ns,b,1,1\n")
    assert frame[["n_correct", "n_trials"]].to_numpy().tolist() == [[1, 2], [1, 1]]
    assert "n_trials" not in counted(tmp_path, "respondent_id,item_id,response\ns,a,1\ns,b,1\n")
    (tmp_path / "a.csv").write_text("respondent_id,item_id,trial,answer\ns,a,1,x\ns,a,2,y\n")
    assert len(read_answers(tmp_path / "a.csv", trials="count").frame) == 2  # counted once they are graded


@pytest.mark.parametrize(
    ("text", "options", "saying"),
    [
        (f"{COUNTS}\ns,a,2,4\n", {"trials": "error"}, "counted without their order; choose mean, majority or any"),
        (f"{COUNTS}\ns,a,2,4\n", {"trials": "first"}, "counted without their order; choose mean, majority or any"),
        (f"{COUNTS}\ns,a,2,4\ns,a,1,3\n", {}, r"duplicate .* pairs that no trial distinguishes: \(s, a\)"),
        ("respondent_id,item_id,response\ns,a,1\ns,a,1\n", {}, "that no trial distinguishes"),
        (f"{COUNTS}\ns,a,5,4\n", {}, "a whole number right of a whole number of trials but got 5 of 4"),
        (f"{COUNTS}\na,i1,1,{'9' * 38}\n", {}, r"of trials, at most 1,000,000, but got 1 of 1e\+38"),
    ],
)
def test_wrong_tables_of_counts_are_refused(tmp_path: Path, text: str, options: dict[str, str], saying: str) -> None:
    is_refused(saying, counted, tmp_path, text, **options)
