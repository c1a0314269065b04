"""Responses in categories, coded; and the table of which category is the most likely where, by hand."""

import numpy as np
import pandas as pd
import pytest

from builders.refusals import is_refused
from irtbench import CategoryParameters, InputError
from irtbench.models.coded_scores import CodedScores
from irtbench.models.item_models.graded import Graded
from irtbench.models.item_models.partial_credit import PartialCredit
from irtbench.models.quadrature import normal_population


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


def test_values_of_every_kind_are_categories_in_their_order() -> None:
    table = pd.DataFrame({"a": [True, False, True], "b": [2.5, np.nan, 1.0], "c": pd.array([3, None, 1], "Int64")})
    scores = CodedScores.of(table)
    assert scores.categories == ((0, 1), (1, 2.5), (1, 3))
    assert [type(value) for own in scores.categories for value in own] == [int, int, int, float, int, int]
    assert scores.codes.tolist() == [[1, 1, 1], [0, -1, -1], [1, 0, 0]]
    with pytest.raises(InputError, match="levels: poor is there twice; expected each once"):
        CodedScores.of(pd.DataFrame({"a": ["poor", "good"]}), levels=["poor", "good", "poor"])
    with pytest.raises(InputError, match="responses: 404 different ones; expected at most 100 of an item"):
        CodedScores.of(np.arange(404.0).reshape(202, 2) / 3)


def test_an_item_without_a_response_and_a_pair_of_two_are_named() -> None:
    wide = pd.DataFrame({"a": [0, 1], "b": [1, 2], "c": [2, 0]}, index=["ann", "bob"])
    is_refused("none to item c", known().scores, long_of(wide[["a", "b"]]))
    twice = pd.concat([long_of(wide), long_of(wide)])
    is_refused("several to an item by one respondent", known().scores, twice)
    for name in ("respondent_id", "item_id"):
        nobody = long_of(wide).reset_index(drop=True)
        nobody.loc[4, name] = None
        is_refused(f"row 4, column {name}: expected a name but it is missing", CodedScores.of, nobody)


def test_a_category_between_reversed_steps_is_nowhere_the_most_likely() -> None:
    """Partial credit: 0 and 2 are equally likely at the mean of the steps, where 1 is below both."""
    table = pd.DataFrame({"item_id": ["in order", "reversed"], "discrimination": 1.5, "step_1": [-1.0, 1.0],
                          "step_2": [0.5, -0.5]})  # fmt: skip
    items = CategoryParameters.from_table(table, [PartialCredit()] * 2)
    found = items.category_table(normal_population(0.0, 1.0)).set_index(["item_id", "category"])
    assert found["step_reversed"].tolist() == [0, 0, 0, 0, 0, 1]
    assert found["never_most_likely"].tolist() == [0, 0, 0, 0, 1, 0]
    ordered = found.loc["in order"]
    np.testing.assert_allclose(ordered["most_likely_to"].iloc[:2], [-1.0, 0.5], atol=0.006)  # where two are as likely
    np.testing.assert_allclose(ordered["most_likely_from"].iloc[1:], [-1.0, 0.5], atol=0.006)
    assert ordered["most_likely_from"].isna().iloc[0]
    assert ordered["most_likely_to"].isna().iloc[2]
    np.testing.assert_allclose(found.loc["reversed"]["most_likely_to"].iloc[0], 0.25, atol=0.006)
    np.testing.assert_allclose(found["expected_share"].groupby("item_id").sum(), 1.0, atol=1e-9)


def test_steps_of_graded_items_are_never_reversed_and_gaps_are_those_of_others() -> None:
    steps = {"step_1": -1.0, "step_2": 0.5, "step_3": [2.0, np.nan]}
    categories = ["1|2|3|4", "1|2|4"]
    table = pd.DataFrame({"item_id": ["a", "b"], "discrimination": 1.0, **steps, "categories": categories})
    items = CategoryParameters.from_table(table, [Graded()] * 2)
    assert items.gaps() == {"b": [3]}
    assert items.gaps([4, 2, 1, 3]) == {}
    assert not items.category_table(normal_population(0.0, 1.0))["step_reversed"].any()
