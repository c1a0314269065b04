"""Adaptive tests and forms of items in categories: of two they are those of the 2PL; of more they tell ability."""

import numpy as np
import pandas as pd
import pytest

from irtbench.bank.scale import Scale
from irtbench.building.assembly import assemble_forms
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.curves import information, simulate_responses
from irtbench.models.item_models.graded import Graded
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_models.partial_credit import PartialCredit
from irtbench.models.item_parameters import ItemParameters
from irtbench.scoring.ability import estimate_ability
from irtbench.scoring.adaptive import Adaptive
from irtbench.scoring.adaptive_paths import replay_adaptive, simulate_adaptive


def of_two_categories(items: ItemParameters) -> ItemParameters:
    """The same items as of two categories each."""
    n = items.n_items
    steps = np.stack([items.discrimination, items.intercept], axis=1)
    return CategoryParameters(items.item_ids, (Logistic(),) * n, ((0, 1),) * n, steps, np.full(n, 2)).as_items()


def grades(rng: np.random.Generator, n: int, scores: tuple[object, ...] = (1, 2, 3, 4)) -> ItemParameters:
    """Graded items and such of partial credit by turns."""
    b = np.sort(rng.normal(size=(n, len(scores) - 1)) + rng.normal(size=(n, 1)), axis=1)
    table = pd.DataFrame(b, columns=[f"step_{k}" for k in range(1, len(scores))])
    table = table.assign(item_id=[f"g{j:02d}" for j in range(n)], discrimination=rng.uniform(0.7, 2.2, n),
                         categories="|".join(map(str, scores)))  # fmt: skip
    models = [Graded(), PartialCredit()] * n
    return CategoryParameters.from_table(table, models[:n]).as_items()


@pytest.mark.parametrize("rule", ["information", "posterior", "kullback", "variance", "difficulty"])
def test_of_two_categories_the_test_is_that_of_the_2pl(rule: str) -> None:
    rng = np.random.default_rng(1)
    items = ItemParameters.from_difficulty(rng.uniform(0.8, 2, 40), rng.normal(size=40))
    responses = simulate_responses(rng.normal(size=6), items, rng=rng)
    expected = replay_adaptive(items, responses, rule=rule, se=0.4)
    found = replay_adaptive(of_two_categories(items), responses.correct, rule=rule, se=0.4)
    assert found.paths["item_id"].tolist() == expected.paths["item_id"].tolist()
    np.testing.assert_allclose(found.paths["theta"], expected.paths["theta"], atol=1e-9)
    np.testing.assert_allclose(found.paths["response"], expected.paths["response"])


def test_ability_after_the_test_is_that_of_the_scores_it_asked_for() -> None:
    items = grades(np.random.default_rng(2), 30, ("poor", "fair", "good"))
    test = Adaptive(items, most_items=8, se=None)
    assert items.categories is not None
    drawn = items.categories.simulate([0.7], rng=np.random.default_rng(3))
    while (item := test.next_item()) is not None:
        test.record(item, drawn[item].iloc[0])
    asked = test.table()["item_id"].tolist()
    whole = estimate_ability(drawn[asked], items.select(asked))
    assert (test.theta, test.standard_error) == pytest.approx((whole.theta[0], whole.standard_error[0]), abs=1e-6)
    with pytest.raises(InputError, match="expected poor, fair, good or None but got 'bad'"):
        Adaptive(items).record("g00", "bad")


@pytest.mark.parametrize("rule", ["information", "kullback", "variance"])
def test_few_chosen_grades_tell_as_much_as_more_drawn_ones_and_no_more_than_they_say(rule: str) -> None:
    rng = np.random.default_rng(4)
    items, theta = grades(rng, 60), rng.normal(size=120)
    found = simulate_adaptive(items, theta, rule=rule, se=None, most_items=6, seed=5)
    z = (found.theta - theta) / found.standard_error
    assert 0.85 < z.std() < 1.15
    some = items.select([items.item_ids[k] for k in rng.choice(60, 6, replace=False)])
    drawn = estimate_ability(simulate_responses(theta, some, rng=rng), some)
    assert found.standard_error.mean() < 0.85 * drawn.standard_error.mean()


def test_the_most_informative_form_of_grades_is_the_best_of_all_and_of_two_categories_the_2pls() -> None:
    rng = np.random.default_rng(6)
    items = grades(rng, 12)
    found = assemble_forms(items, length=3, theta=(-0.5, 0.5))
    each = information([-0.5, 0.5], items)
    best = max(each[:, [i, j, k]].sum(axis=1).min() for i in range(12) for j in range(i) for k in range(j))
    assert found.objective == pytest.approx(best, rel=1e-6)
    two = ItemParameters.from_difficulty(rng.uniform(0.8, 2, 40), rng.normal(size=40))
    for wishes in ({"length": 8}, {"reliability": 0.8}, {"length": 8, "objective": "accuracy"}):
        forms = [assemble_forms(each, **wishes) for each in (two, of_two_categories(two))]
        assert forms[0].forms == forms[1].forms
        assert forms[0].objective == pytest.approx(forms[1].objective, rel=1e-5)


def test_a_form_of_grades_for_their_mean_beats_forms_by_chance() -> None:
    rng = np.random.default_rng(7)
    items = grades(rng, 40)
    scale = Scale("all", items, ItemTable.plain(items.item_ids))
    found = assemble_forms(scale, length=8, objective="accuracy")
    systems = simulate_responses(rng.normal(size=400), items, rng=rng)
    form = [items.item_ids.index(item) for item in found.forms[0]]
    whole = systems.shares.mean(axis=1)

    def left(of: list[int]) -> float:
        part = systems.shares[:, of].mean(axis=1)
        return float(np.std(whole - np.polyval(np.polyfit(part, whole, 1), part)))

    by_chance = np.median([left(list(rng.choice(40, 8, replace=False))) for _ in range(40)])
    assert left(form) < 0.95 * by_chance
    assert found.objective == pytest.approx(left(form), rel=0.5)
