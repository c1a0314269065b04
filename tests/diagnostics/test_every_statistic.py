"""What M2, item fit, local dependence and person fit have in common: order is no matter, and wrong input is named."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from builders.refusals import is_refused
from builders.simulated import rearranged, simulated, with_values
from irtbench import (
    CategoryParameters,
    ItemParameters,
    ResponseMatrix,
    global_fit,
    item_fit,
    local_dependence,
    person_fit,
)

RESPONSES, ITEMS, THETA = simulated(200, 7, seed=33)
Statistic = Callable[[ResponseMatrix, ItemParameters, NDArray[np.float64]], pd.DataFrame]


def of_pairs(responses: ResponseMatrix, items: ItemParameters, theta: NDArray[np.float64]) -> pd.DataFrame:
    table = local_dependence(responses, items, theta=theta).table()
    pairs = [" ".join(sorted(pair)) for pair in zip(table.pop("item_1"), table.pop("item_2"), strict=True)]
    return table.set_index(pd.Index(pairs))


STATISTICS: dict[str, Statistic] = {
    "global fit": lambda responses, items, theta: global_fit(responses, items).table(),
    "item fit": lambda responses, items, theta: item_fit(responses, items, theta=theta).table().set_index("item_id"),
    "local dependence": of_pairs,
    "person fit": lambda responses, items, theta: (
        person_fit(responses, items, theta).table().set_index("respondent_id")
    ),
}


@pytest.mark.parametrize("statistic", STATISTICS)
@settings(max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_order_of_respondents_and_items_is_no_matter(statistic: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(200), rng.permutation(7)
    moved = rearranged(RESPONSES, rows, columns)
    found = STATISTICS[statistic](moved, ITEMS.select(moved.item_ids), THETA[rows])
    expected = STATISTICS[statistic](RESPONSES, ITEMS, THETA)
    pd.testing.assert_frame_equal(found.loc[expected.index], expected, rtol=1e-8)


@pytest.mark.parametrize("statistic", ["global fit", "item fit"])
def test_order_of_respondents_is_no_matter_where_the_expectation_is_simulated(statistic: str) -> None:
    # p of items moved by .1, of M2 by .03 in the rows of one data set
    rng = np.random.default_rng(5)
    holed = with_values(RESPONSES, np.where(rng.random((200, 7)) < 0.3, np.nan, RESPONSES.values))
    found, expected = (
        STATISTICS[statistic](rearranged(holed, rows, np.arange(7)), ITEMS, THETA[rows])
        for rows in (rng.permutation(200), np.arange(200))
    )
    pd.testing.assert_frame_equal(found, expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("statistic", "items", "theta", "saying"),
    [
        *((name, ITEMS.select(ITEMS.item_ids[::-1]), THETA, "column 1 is item1 in the responses but item7")
          for name in STATISTICS),
        ("item fit", ITEMS.select(ITEMS.item_ids[:6]), THETA, "7 items in the responses but 6 parameters"),
        ("item fit", ITEMS, THETA[1:], r"theta has shape \(199,\) for 200 respondents"),
        ("local dependence", ITEMS, THETA[1:], r"theta has shape \(199,\) for 200 respondents"),
        ("item fit", ITEMS, np.r_[0.0, 0.0, np.inf, THETA[3:]], "theta of respondent r3 must be finite but is inf"),
        ("person fit", ITEMS, np.r_[0.0, -np.inf, THETA[2:]], "theta of respondent r2 must be finite but is -inf"),
    ],
)  # fmt: skip
def test_wrong_items_and_abilities_are_named(
    statistic: str, items: ItemParameters, theta: NDArray[np.float64], saying: str
) -> None:
    is_refused(saying, STATISTICS[statistic], RESPONSES, items, theta)


def test_abilities_for_items_in_categories_are_checked_too() -> None:
    as_categories = CategoryParameters.of_right_or_wrong(ITEMS)
    given = as_categories.matrix(pd.DataFrame(RESPONSES.values.astype(int), columns=list(ITEMS.item_ids)))
    saying = r"theta has shape \(199,\) for 200 respondents"
    is_refused(saying, item_fit, given, as_categories.as_items(), theta=THETA[1:])
    is_refused("missing: expected 'scores' or 'groups'", item_fit, given, as_categories.as_items(), missing="no")
