"""Which category is the most likely where, steps in reversed order, and grades that nobody was given; by hand."""

import numpy as np
import pandas as pd

from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.item_models.graded import Graded
from irtbench.models.item_models.partial_credit import PartialCredit
from irtbench.models.quadrature import normal_population


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
