"""The response matrix and the item table: what they refuse, and that nothing is lost between their forms."""

import re
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.responses import ResponseMatrix


def matrix(values):
    values = np.array(values, dtype=float)
    return ResponseMatrix(
        values, tuple(f"r{i}" for i in range(len(values))), tuple(f"q{j}" for j in range(values.shape[1]))
    )


def long(*rows):
    return pd.DataFrame(rows, columns=["respondent_id", "item_id", "response"])


# --- the matrix


@pytest.mark.parametrize("value", [2.0, -1.0, 0.5, np.inf])
def test_values_other_than_1_0_and_nan_are_refused(value):
    with pytest.raises(
        InputError, match=re.escape(f"respondent r1, item q0: expected 1, 0 or missing but got {value:g}")
    ):
        matrix([[1, np.nan], [value, 0]])


@pytest.mark.parametrize(
    ("respondents", "items", "message"),
    [
        (("a", "a"), ("x", "y"), "respondent_id must be unique but a is repeated"),
        (("a", "b"), ("y", "y"), "item_id must be unique but y is repeated"),
        (("a",), ("x", "y"), r"shape \(2, 2\) does not fit 1 respondents x 2 items"),
        (("a", "b"), ("x", "y", "z"), r"shape \(2, 2\) does not fit 2 respondents x 3 items"),
    ],
)
def test_ids_that_do_not_fit_are_refused(respondents, items, message):
    with pytest.raises(InputError, match=message):
        ResponseMatrix(np.ones((2, 2)), respondents, items)


def test_matrix_is_a_copy_that_cannot_be_written():
    values = np.ones((1, 2))
    responses = ResponseMatrix(values, ("a",), ("x", "y"))
    values[0, 0] = 0
    assert responses.values[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        responses.values[0, 0] = 0


def test_items_are_selected_in_the_order_asked_for():
    chosen = matrix([[1, 0, np.nan], [0, 1, 1]]).select_items(["q2", "q0"])
    assert chosen.item_ids == ("q2", "q0")
    np.testing.assert_array_equal(chosen.values, [[np.nan, 1], [1, 0]])
    with pytest.raises(InputError, match="unknown item z, y"):
        chosen.select_items(["z", "q0", "y"])


def test_respondents_are_selected_in_their_order():
    chosen = matrix([[1], [0], [np.nan]]).select_respondents(np.array([True, False, True]))
    assert chosen.respondent_ids == ("r0", "r2")
    np.testing.assert_array_equal(chosen.values, [[1], [np.nan]])


# --- the long form


def test_rows_and_columns_are_in_order_of_appearance_or_as_asked():
    table = long(("b", "y", 1), ("a", "x", 0), ("b", "x", np.nan))
    responses = ResponseMatrix.from_long(table)
    assert (responses.respondent_ids, responses.item_ids) == (("b", "a"), ("y", "x"))
    np.testing.assert_array_equal(responses.values, [[1, np.nan], [np.nan, 0]])
    responses = ResponseMatrix.from_long(table, item_ids=("x", "z", "y"))
    np.testing.assert_array_equal(responses.values, [[np.nan, np.nan, 1], [0, np.nan, np.nan]])


def test_ids_that_look_like_numbers_stay_apart():
    assert ResponseMatrix.from_long(long(("1", "01", 1), ("01", "1", 0))).respondent_ids == ("1", "01")


def test_unknown_items_empty_tables_and_missing_names_are_refused():
    table = long(("a", "x", 1), ("a", "w", 0))
    with pytest.raises(InputError, match="unknown item w"):
        ResponseMatrix.from_long(table, item_ids=("x",))
    with pytest.raises(InputError, match="empty"):
        ResponseMatrix.from_long(table[:0])
    with pytest.raises(InputError, match="in every row but one is missing"):
        ResponseMatrix.from_long(long(("a", "x", 1), (None, "x", 0)))
    with pytest.raises(InputError, match="respondent a, item x: expected 1, 0 or missing but got 3"):
        ResponseMatrix.from_long(long(("a", "x", 3)))


def test_duplicates_are_refused_naming_five_pairs_or_resolved_as_asked():
    table = long(*[("a", f"q{j}", 1) for j in range(7)], *[("a", f"q{j}", 0) for j in range(7)])
    message = "(a, q0), (a, q1), (a, q2), (a, q3), (a, q4) and 2 more; expected one each"
    with pytest.raises(InputError, match=re.escape(message)):
        ResponseMatrix.from_long(table)
    assert ResponseMatrix.from_long(table, duplicates="first").values.tolist() == [[1.0] * 7]
    assert ResponseMatrix.from_long(table, duplicates="last").values.tolist() == [[0.0] * 7]


@st.composite
def matrices(draw):
    n_respondents, n_items = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    cells = st.sampled_from([0.0, 1.0, np.nan])
    rows = st.lists(st.lists(cells, min_size=n_items, max_size=n_items), min_size=n_respondents, max_size=n_respondents)
    return matrix(draw(rows))


@given(matrices(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_long_form_in_any_order_gives_the_matrix_back(responses, random):
    table = responses.to_long()
    assert len(table) == responses.n_responses
    if table.empty:
        return
    order = list(range(len(table)))
    random.shuffle(order)
    again = ResponseMatrix.from_long(table.iloc[order], item_ids=responses.item_ids)
    answered = responses.observed.any(axis=1)
    back = dict(zip(again.respondent_ids, again.values, strict=True))
    assert set(back) == {name for name, any_seen in zip(responses.respondent_ids, answered, strict=True) if any_seen}
    for name, row in zip(responses.respondent_ids, responses.values, strict=True):
        np.testing.assert_array_equal(back.get(name, np.full(responses.n_items, np.nan)), row)


# --- items


def item_table(**columns):
    given_columns = {"item_ids": ("x", "y", "z"), **columns}
    nothing = (None,) * 3
    blank = {"key": nothing, "label": nothing, "group": nothing, "text": nothing, "attention": (False,) * 3}
    return ItemTable(**{**blank, **given_columns})


def test_scales_go_by_label_without_attention_checks():
    items = item_table(label=("b", "a", "b"), attention=(False, False, True))
    assert items.scales() == {"b": ("x",), "a": ("y",)}
    assert (items.scale_items, items.attention_items) == (("x", "y"), ("z",))
    assert ItemTable.plain(["x", "y"]).scales() == {"all": ("x", "y")}


def test_selected_items_keep_all_that_is_known_of_them():
    items = item_table(
        key=("1", "2", "3"),
        label=("a", "b", "c"),
        group=("g", None, "h"),
        text=("s", "t", "u"),
        attention=(True, False, False),
    )
    chosen = items.select(["z", "x"])
    assert (chosen.item_ids, chosen.key, chosen.label) == (("z", "x"), ("3", "1"), ("c", "a"))
    assert (chosen.group, chosen.text, chosen.attention) == (("h", "g"), ("u", "s"), (False, True))
    with pytest.raises(InputError, match="unknown item w, v"):
        items.select(["w", "x", "v"])


# --- at a byte a response


def test_responses_take_a_byte_each() -> None:
    found = matrix([[1, np.nan], [0, 1]])
    assert found.coded_responses.dtype == np.int8
    assert found.coded_responses.tolist() == [[1, -1], [0, 1]]
    np.testing.assert_array_equal(found.correct, [[1, np.nan], [0, 1]])
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
    np.testing.assert_array_equal(found.correct, values)
    np.testing.assert_array_equal(found.observed, ~np.isnan(values))
    np.testing.assert_array_equal(found.n_correct_by_item, np.nansum(values, axis=0))
    np.testing.assert_array_equal(found.n_correct_by_respondent, np.nansum(values, axis=1))
    np.testing.assert_array_equal(found.n_by_item, (~np.isnan(values)).sum(axis=0))
    assert found.n_responses == (~np.isnan(values)).sum()
    with np.errstate(invalid="ignore"):  # NaN where nobody answered
        share = np.nansum(values, axis=0) / (~np.isnan(values)).sum(axis=0)
    np.testing.assert_array_equal(found.proportion_correct(), share)
    assert found.is_complete == (not np.isnan(values).any())
