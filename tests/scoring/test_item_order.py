"""Items in the order of a test that may end at any place: by hand, at least as good as others, and complete."""

import numpy as np
import pytest

import irtbench
from irtbench.data.input_error import InputError
from irtbench.models.theta_posterior import STANDARD_NORMAL

GOAL = 0.4


def towards_goal(items: irtbench.ItemParameters, asked: list[str]) -> float:
    total = 1 + irtbench.information(STANDARD_NORMAL.nodes, items.select(asked)).sum(axis=1)
    return float(STANDARD_NORMAL.weights @ np.minimum(total, GOAL**-2))


def test_each_item_is_the_one_that_comes_nearest_to_the_goal() -> None:
    rng = np.random.default_rng(0)
    items = irtbench.ItemParameters.from_difficulty(rng.lognormal(0.7, 0.4, 6), rng.normal(size=6))
    order = list(irtbench.item_order(items, se=GOAL))
    assert sorted(order) == sorted(items.item_ids)
    for n in range(6):
        reached = {item: towards_goal(items, [*order[:n], item]) for item in order[n:]}
        assert reached[order[n]] == pytest.approx(max(reached.values()), abs=1e-4)


def test_reversed_items_come_last_and_none_is_lost() -> None:
    items = irtbench.ItemParameters.from_difficulty([-2.0, 1.0, 1.0], [0.0, 2.0, 0.0])
    assert irtbench.item_order(items) == ("item3", "item2", "item1")


def test_beyond_the_goal_information_goes_on_to_order_them() -> None:
    items = irtbench.ItemParameters.from_difficulty([1.0, 2.0, 3.0], [0.0, 0.0, 0.0])
    assert irtbench.item_order(items, se=5.0) == ("item3", "item2", "item1")


@pytest.mark.slow
def test_fewer_items_are_asked_than_in_the_order_of_information_alone() -> None:
    rng = np.random.default_rng(1)
    items = irtbench.ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 200), rng.normal(size=200))
    each = STANDARD_NORMAL.weights @ irtbench.information(STANDARD_NORMAL.nodes, items)
    alone = [items.item_ids[k] for k in np.argsort(-each)]
    theta = rng.normal(size=100)
    responses = irtbench.simulate_responses(theta, items, rng=rng)
    places = {item: k for k, item in enumerate(items.item_ids)}

    def asked(order: list[str]) -> float:
        numbers = []
        for row in responses.values:
            test = irtbench.Adaptive(items, se=0.35)
            for item in order:
                if test.stopped:
                    break
                test.record(item, row[places[item]])
            numbers.append(test.n_items)
        return float(np.mean(numbers))

    assert asked(list(irtbench.item_order(items, se=0.35))) < 0.95 * asked(alone)


def test_a_goal_that_is_none_is_named() -> None:
    with pytest.raises(InputError, match="se must be above 0 but got 0"):
        irtbench.item_order(irtbench.ItemParameters.from_difficulty([1.0], [0.0]), se=0)
