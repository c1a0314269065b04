"""The response matrix and the item table: what they refuse, and that nothing is lost between their forms."""

import re
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from builders.refusals import is_refused
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix


def matrix(values):
    values = np.array(values, dtype=float)
    return ResponseMatrix(
        values, tuple(f"r{i}" for i in range(len(values))), tuple(f"q{j}" for j in range(values.shape[1]))
    )


def long(*rows):
    return pd.DataFrame(rows, columns=["respondent_id", "item_id", "response"])


@pytest.mark.parametrize(
    ("respondents", "items", "message"),
    [
        (("a", "a"), ("x", "y"), "respondent_id must be unique but a is repeated"),
        (("a", "b"), ("y", "y"), "item_id must be unique but y is repeated"),
        (("a",), ("x", "y"), r"shape \(2, 2\) does not fit 1 respondents x 2 items"),
    ],
)
def test_ids_that_do_not_fit_and_values_other_than_1_0_and_nan_are_refused(respondents, items, message):
    is_refused(message, ResponseMatrix, np.ones((2, 2)), respondents, items)
    for value in (2.0, -1.0, 0.5, np.inf):
        saying = f"respondent r1, item q0: expected 1, 0 or missing but got {value:g}"
        is_refused(re.escape(saying), matrix, [[1, np.nan], [value, 0]])


def test_matrix_is_a_copy_that_cannot_be_written_and_of_which_parts_are_selected():
    values = np.ones((1, 2))
    responses = ResponseMatrix(values, ("a",), ("x", "y"))
    values[0, 0] = 0
    assert responses.values[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        responses.values[0, 0] = 0
    responses = matrix([[1, 0, np.nan], [0, 1, 1], [1, 1, 1]])
    chosen = responses.select_items(["q2", "q0"]).select_respondents(np.array([True, False, True]))
    assert (chosen.item_ids, chosen.respondent_ids) == (("q2", "q0"), ("r0", "r2"))
    np.testing.assert_array_equal(chosen.values, [[np.nan, 1], [1, 1]])
    is_refused("unknown item z, y", responses.select_items, ["z", "q0", "y"])


def test_rows_and_columns_are_in_order_of_appearance_or_as_asked():
    table = long(("b", "y", 1), ("a", "x", 0), ("b", "x", np.nan))
    responses = ResponseMatrix.from_long(table)
    assert (responses.respondent_ids, responses.item_ids) == (("b", "a"), ("y", "x"))
    np.testing.assert_array_equal(responses.values, [[1, np.nan], [np.nan, 0]])
    responses = ResponseMatrix.from_long(table, item_ids=("x", "z", "y"))
    np.testing.assert_array_equal(responses.values, [[np.nan, np.nan, 1], [0, np.nan, np.nan]])


@pytest.mark.parametrize(
    ("rows", "item_ids", "saying"),
    [
        ([("a", "x", 1), ("a", "w", 0)], ("x",), "unknown item w"),
        ([], None, "empty"),
        ([("a", "x", 1), (None, "x", 0)], None, "in every row but one is missing"),
        ([("a", "x", 3)], None, "respondent a, item x: expected 1, 0 or missing but got 3"),
    ],
)
def test_wrong_long_tables_are_refused(rows, item_ids, saying):
    is_refused(saying, ResponseMatrix.from_long, long(*rows), item_ids=item_ids)


def test_duplicates_are_refused_naming_five_pairs_or_resolved_as_asked():
    table = long(*[("a", f"q{j}", right) for right in (1, 0) for j in range(7)])
    message = "(a, q0), (a, q1), (a, q2), (a, q3), (a, q4) and 2 more; expected one each"
    is_refused(re.escape(message), ResponseMatrix.from_long, table)
    for which, right in (("first", 1.0), ("last", 0.0)):
        assert ResponseMatrix.from_long(table, duplicates=which).values.tolist() == [[right] * 7]


def test_scales_go_by_label_without_attention_checks_and_selected_items_keep_all_that_is_known():
    items = ItemTable(
        ("x", "y", "z"), key=("1", "2", "3"), label=("b", "a", "b"), group=("g", None, "h"), text=("s", "t", "u"),
        attention=(False, False, True),
    )  # fmt: skip
    assert items.scales() == {"b": ("x",), "a": ("y",)}
    assert (items.scale_items, items.attention_items) == (("x", "y"), ("z",))
    assert ItemTable.plain(["x", "y"]).scales() == {"all": ("x", "y")}
    chosen = ItemTable(("z", "x"), ("3", "1"), ("b", "b"), ("h", "g"), ("u", "s"), (True, False))
    assert vars(items.select(["z", "x"])) == vars(chosen)
    is_refused("unknown item w, v", items.select, ["w", "x", "v"])


def test_responses_take_a_byte_each() -> None:
    found = matrix([[1, np.nan], [0, 1]])
    assert found.coded_responses.dtype == np.int8
    assert found.coded_responses.tolist() == [[1, -1], [0, 1]]
    assert not found.coded_responses.flags.writeable
    assert not found.correct.flags.writeable
    assert sum(part.nbytes for part in vars(found).values() if isinstance(part, np.ndarray)) == 4


@pytest.mark.parametrize("kind", [np.bool_, np.int64])
def test_whole_numbers_never_take_more_than_they_need(kind: type) -> None:
    values: NDArray[Any] = (np.random.default_rng(0).random((5_000, 200)) < 0.5).astype(kind)
    names = tuple(f"r{i}" for i in range(5_000)), tuple(f"i{j}" for j in range(200))
    tracemalloc.start()
    found = ResponseMatrix(values, *names)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.coded_responses.dtype == np.int8
    np.testing.assert_array_equal(found.correct, values)
    assert most < 4 * values.size  # eight as floating point numbers


@pytest.mark.parametrize(("right", "kind"), [(127, np.int8), (128, np.int32), (300, np.int32)])
def test_many_trials_take_what_they_need(right: int, kind: type) -> None:
    found = ResponseMatrix(np.array([[right, np.nan], [0, 1]]), ("r", "s"), ("x", "y"), np.array([[300, 0], [2, 1]]))
    assert found.coded_responses.dtype == kind
    np.testing.assert_array_equal(found.correct, [[right, np.nan], [0, 1]])
    assert found.select_items(["x"]).coded_responses.dtype == kind


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, np.nan]), min_size=3, max_size=3), min_size=1, max_size=8))
def test_counts_of_coded_responses_are_those_of_the_numbers(rows: list[list[float]]) -> None:
    found, values = matrix(rows), np.array(rows)
    seen, n = ~np.isnan(values), (~np.isnan(values)).sum(axis=0)
    with np.errstate(invalid="ignore"):  # NaN where nobody answered
        share = np.nansum(values, axis=0) / n
    for ours, expected in (
        (found.correct, values), (found.observed, seen), (found.n_by_item, n), (found.n_responses, seen.sum()),
        (found.n_correct_by_item, np.nansum(values, axis=0)), (found.proportion_correct(), share),
        (found.n_correct_by_respondent, np.nansum(values, axis=1)), (found.is_complete, seen.all()),
    ):  # fmt: skip
        np.testing.assert_array_equal(ours, expected)
