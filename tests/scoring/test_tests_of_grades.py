"""Adaptive tests and forms of items in categories: of two they are those of the 2PL; of more they tell ability."""

import numpy as np
import pytest

from builders.refusals import is_refused
from builders.scales import grades, of_two_categories, scale_of
from irtbench import Adaptive, ItemParameters, assemble_forms, estimate_ability
from irtbench.models.curves import information, simulate_responses
from irtbench.scoring.adaptive_paths import replay_adaptive, simulate_adaptive


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
    items = grades(np.random.default_rng(2), 30, ("poor", "fair", "good")).as_items()
    test = Adaptive(items, most_items=8, se=None)
    drawn = items.categories.simulate([0.7], rng=np.random.default_rng(3))
    while (item := test.next_item()) is not None:
        test.record(item, drawn[item].iloc[0])
    asked = test.table()["item_id"].tolist()
    whole = estimate_ability(drawn[asked], items.select(asked))
    assert (test.theta, test.standard_error) == pytest.approx((whole.theta[0], whole.standard_error[0]), abs=1e-6)
    is_refused("expected poor, fair, good or None but got 'bad'", Adaptive(items).record, "g00", "bad")


@pytest.mark.parametrize("rule", ["information", "variance"])
def test_few_chosen_grades_tell_as_much_as_more_drawn_ones_and_no_more_than_they_say(rule: str) -> None:
    rng = np.random.default_rng(4)
    items, theta = grades(rng, 60).as_items(), rng.normal(size=80)
    found = simulate_adaptive(items, theta, rule=rule, se=None, most_items=6, seed=5)
    z = (found.theta - theta) / found.standard_error
    assert 0.85 < z.std() < 1.15
    some = items.select([items.item_ids[k] for k in rng.choice(60, 6, replace=False)])
    drawn = estimate_ability(simulate_responses(theta, some, rng=rng), some)
    assert found.standard_error.mean() < 0.85 * drawn.standard_error.mean()


def test_the_most_informative_form_of_grades_is_the_best_of_all_and_of_two_categories_the_2pls() -> None:
    rng = np.random.default_rng(6)
    items = grades(rng, 12).as_items()
    found = assemble_forms(items, length=3, theta=(-0.5, 0.5))
    each = information([-0.5, 0.5], items)
    best = max(each[:, [i, j, k]].sum(axis=1).min() for i in range(12) for j in range(i) for k in range(j))
    assert found.objective == pytest.approx(best, rel=1e-6)
    two = ItemParameters.from_difficulty(rng.uniform(0.8, 2, 25), rng.normal(size=25))
    for wishes in ({"length": 8}, {"reliability": 0.8}, {"length": 8, "objective": "accuracy"}):
        forms = [assemble_forms(each, **wishes) for each in (two, of_two_categories(two))]
        assert forms[0].forms == forms[1].forms
        assert forms[0].objective == pytest.approx(forms[1].objective, rel=1e-5)


def test_a_form_of_grades_for_their_mean_beats_forms_by_chance() -> None:
    rng = np.random.default_rng(7)
    items = grades(rng, 40).as_items()
    found = assemble_forms(scale_of(items), length=8, objective="accuracy")
    systems = simulate_responses(rng.normal(size=400), items, rng=rng)
    form = [items.item_ids.index(item) for item in found.forms[0]]
    whole = systems.shares.mean(axis=1)

    def left(of: list[int]) -> float:
        part = systems.shares[:, of].mean(axis=1)
        return float(np.std(whole - np.polyval(np.polyfit(part, whole, 1), part)))

    by_chance = np.median([left(list(rng.choice(40, 8, replace=False))) for _ in range(40)])
    assert left(form) < 0.95 * by_chance
    assert found.objective == pytest.approx(left(form), rel=0.5)
