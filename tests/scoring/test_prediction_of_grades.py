"""The points on all items from some: intervals cover, errors are small, two categories are right and wrong."""

import numpy as np
import pandas as pd
import pytest

from irtbench.bank.scale import Scale
from irtbench.data.items import ItemTable
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.curves import simulate_responses
from irtbench.models.item_models.graded import Graded
from irtbench.models.item_models.partial_credit import PartialCredit
from irtbench.models.item_parameters import ItemParameters
from irtbench.scoring.prediction import learn_correction, predict_accuracy


def a_scale(rng: np.random.Generator, n: int = 60) -> Scale:
    """Grades 1 to 5, graded and of partial credit."""
    b = np.sort(rng.normal(0, 0.8, (n, 1)) + rng.normal(0, 0.9, (n, 4)), axis=1)
    table = pd.DataFrame(b, columns=[f"step_{k}" for k in range(1, 5)]).assign(
        item_id=[f"g{j:02d}" for j in range(n)], discrimination=rng.uniform(0.6, 1.8, n), categories="1|2|3|4|5"
    )
    items = CategoryParameters.from_table(table, [(Graded(), PartialCredit())[j % 2] for j in range(n)]).as_items()
    return Scale("all", items, ItemTable.plain(items.item_ids))


@pytest.mark.parametrize("learnt", [False, True])
@pytest.mark.parametrize("mean", [0.0, 1.5])
def test_intervals_cover_and_errors_are_smaller_than_those_of_the_part(learnt: bool, mean: float) -> None:
    rng = np.random.default_rng(1)
    scale = a_scale(rng)
    whole = simulate_responses(rng.normal(mean, 1.0 if mean == 0 else 0.4, 400), scale.items, rng=rng)
    form = [f"g{j:02d}" for j in rng.choice(60, 10, replace=False)]
    correction = None
    if learnt:
        correction = learn_correction(scale, simulate_responses(rng.normal(size=100), scale.items, rng=rng), form)
    part = whole.select_items(form)
    found = predict_accuracy(scale, part, correction=correction)
    truth = whole.shares.mean(axis=1)
    assert 0.92 < np.mean((found.lower <= truth) & (truth <= found.upper)) <= 1
    of_part = np.abs(part.shares.mean(axis=1) - truth).mean()
    assert np.abs(found.accuracy - truth).mean() < (0.97 if learnt else 0.92) * of_part
    assert abs(np.mean(found.accuracy - truth)) < (0.015 if mean == 0 else 0.045)


def test_scores_are_read_in_their_words_and_two_categories_are_right_and_wrong() -> None:
    rng = np.random.default_rng(2)
    items = ItemParameters.from_difficulty(rng.uniform(0.8, 2, 20), rng.normal(size=20))
    two = CategoryParameters.of_right_or_wrong(items).as_items()
    scales = [Scale("all", each, ItemTable.plain(each.item_ids)) for each in (items, two)]
    part = simulate_responses(rng.normal(size=8), items, rng=rng).select_items(items.item_ids[:7])
    scores = pd.DataFrame(part.correct, columns=part.item_ids, index=part.respondent_ids)
    expected, found = predict_accuracy(scales[0], part).table(), predict_accuracy(scales[1], scores).table()
    pd.testing.assert_frame_equal(found, expected, atol=1e-9)
