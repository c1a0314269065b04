"""Responses in categories, coded: a long table and a wide one, items in another order, more of them than are known."""

import numpy as np
import pandas as pd
import pytest

from irtbench import CategoryParameters, InputError
from irtbench.models.coded_scores import CodedScores
from irtbench.models.item_models.graded import Graded


def known() -> CategoryParameters:
    table = pd.DataFrame({"item_id": ["c", "a", "b"], "discrimination": 1.3, "step_1": [-1.0, 0.0, 1.0], "step_2": 1.5})
    return CategoryParameters.from_table(table, [Graded()] * 3)


def long_of(wide: pd.DataFrame) -> pd.DataFrame:
    """A row a response, in no order."""
    named = wide.rename_axis("respondent_id").reset_index()
    return named.melt("respondent_id", var_name="item_id", value_name="score").sample(frac=1.0, random_state=1)


def test_a_long_table_is_read_by_the_names_of_its_items() -> None:
    items = known()
    wide = items.simulate(np.linspace(-2, 2, 30), rng=np.random.default_rng(1))
    wide.index = wide.index.astype(str)
    expected = items.scores(wide)
    found = items.scores(long_of(wide.assign(other=1)))
    found = found.set_index("respondent_id").loc[expected["respondent_id"]].reset_index()
    pd.testing.assert_frame_equal(found, expected)
    some = items.matrix(long_of(wide[["b", "c"]]))
    assert some.item_ids == ("c", "b")
    assert CodedScores.of(long_of(wide), ["a", "b"]).item_ids == ("a", "b")


def test_an_item_without_a_response_and_a_pair_of_two_are_named() -> None:
    wide = pd.DataFrame({"a": [0, 1], "b": [1, 2], "c": [2, 0]}, index=["ann", "bob"])
    with pytest.raises(InputError, match="none to item c"):
        known().scores(long_of(wide[["a", "b"]]))
    twice = pd.concat([long_of(wide), long_of(wide)])
    with pytest.raises(InputError, match="several to an item by one respondent"):
        known().scores(twice)
