"""Arrays, tensors and data frames at the door: the same matrix from each, and errors that say where."""

import duckdb
import numpy as np
import pandas as pd
import pytest
import torch

from builders.refusals import is_refused
from irtbench.data.given import as_answers, as_any_responses, as_items, as_responses
from irtbench.data.responses import ResponseMatrix
from irtbench.data.sparse_responses import SparseResponses

VALUES = np.array([[1, 0, np.nan], [0, np.nan, 1]])
PEOPLE, ITEMS = ["ann", "bob"], ["i1", "i2", "i3"]
WIDE = pd.DataFrame(VALUES, index=PEOPLE, columns=ITEMS)
LONG = WIDE.rename_axis("respondent_id").reset_index().melt("respondent_id", var_name="item_id", value_name="response")


def same(found: ResponseMatrix, respondents=PEOPLE, items=ITEMS) -> bool:
    assert found.respondent_ids == tuple(respondents)
    assert found.item_ids == tuple(items)
    return bool(np.array_equal(found.values, VALUES, equal_nan=True))


@pytest.mark.parametrize(
    "given",
    [
        WIDE,
        WIDE.astype("Int64"),
        WIDE.astype("boolean"),
        WIDE.astype(object).where(WIDE.notna(), None),
        WIDE.rename_axis("respondent_id").reset_index(),
        LONG,
        LONG.astype({"response": "Int64"}),
        LONG.rename(columns={"respondent_id": "model", "response": "score"}),
        LONG.rename(columns={"respondent_id": "id", "item_id": "item", "response": "resp"}),
    ],
)
def test_every_data_frame_is_the_same_matrix(given) -> None:
    assert same(as_responses(given))
    assert same(as_any_responses(given))
    assert same(as_responses(as_responses(given).table()))


@pytest.mark.parametrize(
    "given",
    [
        VALUES,
        VALUES.astype(np.float32),
        VALUES.tolist(),
        np.where(np.isnan(VALUES), None, VALUES),
        np.ma.masked_invalid(VALUES),
        np.ma.masked_array(np.nan_to_num(VALUES).astype(int), np.isnan(VALUES)),
        torch.tensor(VALUES, requires_grad=True),
        torch.tensor(VALUES).to(torch.bfloat16),
    ],
)
def test_rows_and_columns_of_an_array_get_names(given) -> None:
    assert same(as_responses(given), ["r1", "r2"], ["item1", "item2", "item3"])
    assert same(as_responses(given, item_ids=ITEMS), ["r1", "r2"])


@pytest.mark.parametrize(
    ("bad", "saying"),
    [
        (np.array([[1, 0], [2, 1]]), r"^responses\[1, 0\]: expected 1, 0 or missing but got 2$"),
        (np.array([[1, -1]]), r"^responses\[0, 1\]: expected 1, 0 or missing but got -1$"),
        (np.array([[1, np.inf]]), r"\[0, 1\]: expected 1, 0 or missing but got inf$"),
        (WIDE.assign(i2=[0, 0.5]), r"^responses: row bob, column i2: expected 1, 0 or missing but got 0.5$"),
        (WIDE.assign(i2=["yes", 1]), r"row ann, column i2: expected 1, 0 or missing but got 'yes'"),
        (
            LONG.assign(response=[0, 1, 3, 1, 0, 0]),
            r"row 2 \(respondent ann, item i2\): expected 1, 0 or missing but got 3",
        ),
        (LONG.rename(columns={"response": "answer"}), r"no column of responses .* grades them by the items' key$"),
        (LONG.drop(columns="response"), r"no column of responses in the long table; it has: respondent_id, item_id$"),
        (
            LONG.assign(item_id=LONG["item_id"].where(LONG.index < 5)),
            r"row 5, column item_id: expected a name but it is missing$",
        ),
        (pd.concat([LONG, LONG]), "duplicate"),
        (pd.concat([WIDE, WIDE]), "respondent_id must be unique but ann, bob is repeated"),
        (
            np.array([1, 0]),
            r"expected a data frame or an array of shape \(n_respondents, n_items\) but got shape \(2,\)$",
        ),
        ([[1, 0], [1]], "expected rows of one length"),
        ("responses.csv", r"but got a path; expected what irtbench.read\('responses.csv'\) gives$"),
        (None, r"but got NoneType$"),
        ([[10**400, 1]], r"^responses\[0, 0\]: expected 1, 0 or missing but got inf$"),
        (np.eye(2).astype(np.complex128), "expected 1, 0 or missing but got values of type"),
        (pd.DataFrame(np.eye(2).astype("datetime64[ns]")), "expected 1, 0 or missing but got values of type"),
        (torch.tensor(VALUES).to_sparse(), "expected a dense tensor of numbers"),
        (torch.tensor(VALUES).to("meta"), "expected a dense tensor of numbers"),
        (SparseResponses.from_long(LONG), "to_matrix"),
        (duckdb.sql("SELECT 1 AS i1, 0 AS i2"), "but got DuckDBPyRelation"),
    ],
)
def test_an_error_says_where_and_what_was_expected(bad, saying) -> None:
    is_refused(saying, as_responses, bad)


def test_a_sparse_list_is_taken_where_it_serves_and_answers_are_long_whatever_they_came_as() -> None:
    sparse = SparseResponses.from_long(LONG)
    assert as_any_responses(sparse) is sparse
    is_refused("an array of 3 columns for 2 items", as_responses, VALUES, item_ids=["a", "b"])
    # answers are long whatever they came as
    wide = pd.DataFrame({"i1": ["yes", "no"], "i2": ["no", None]}, index=PEOPLE)
    rows = [("ann", "i1", "yes", 1), ("ann", "i2", "no", 2), ("bob", "i1", "no", 3)]
    long = pd.DataFrame(rows, columns=["worker", "task", "label", "seconds"])
    pd.testing.assert_frame_equal(as_answers(wide), as_answers(long).drop(columns="seconds"), check_dtype=False)
    assert as_answers(long)["seconds"].tolist() == [1, 2, 3]
    is_refused("expected a data frame, long or wide, but got list", as_answers, [["yes"]])
    is_refused("no column of answers in the long table", as_answers, long.drop(columns="label"))


def test_items_are_a_table_whatever_they_came_as() -> None:
    found = as_items(pd.DataFrame({"item_id": [1, 2], "gold": ["yes", None], "attention": [0, 1]}))
    assert (found.item_ids, found.key, found.attention) == (("1", "2"), ("yes", None), (False, True))
    assert as_items(found) is found
    assert as_items(found.table()).table().equals(found.table())
    is_refused("expected an ItemTable or a data frame but got dict", as_items, {"i1": "yes"})
