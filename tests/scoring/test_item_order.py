"""Items in the order of a test that may end at any place, and abilities without some of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import irtbench
from builders.refusals import is_refused
from irtbench.models.curves import simulate_responses
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.theta_posterior import STANDARD_NORMAL
from irtbench.scoring.ability import estimate_ability
from irtbench.scoring.ability_comparison import leave_items_out

GOAL = 0.6


def test_each_item_is_the_one_that_comes_nearest_to_the_goal() -> None:
    rng = np.random.default_rng(0)
    items = irtbench.ItemParameters.from_difficulty(rng.lognormal(0.7, 0.4, 6), rng.normal(size=6))
    order = list(irtbench.item_order(items, se=GOAL))
    assert sorted(order) == sorted(items.item_ids)

    def reached(asked: list[str]) -> float:
        total = 1 + irtbench.information(STANDARD_NORMAL.nodes, items.select(asked)).sum(axis=1)
        return float(STANDARD_NORMAL.weights @ np.minimum(total, GOAL**-2))

    for n in range(6):
        nearest = max(reached([*order[:n], item]) for item in order[n:])
        assert reached(order[: n + 1]) == pytest.approx(nearest, abs=1e-4)


def test_reversed_items_come_last_and_none_is_lost() -> None:
    items = irtbench.ItemParameters.from_difficulty([-2.0, 1.0, 1.0], [0.0, 2.0, 0.0])
    assert irtbench.item_order(items) == ("item3", "item2", "item1")
    is_refused("se must be above 0 but got 0", irtbench.item_order, items, se=0)


def items_of(n_items: int, seed: int = 0) -> ItemParameters:
    rng = np.random.default_rng(seed)
    return ItemParameters.from_difficulty(rng.uniform(0.8, 2, n_items), rng.normal(0, 1, n_items))


def test_abilities_are_those_of_either_set_of_items() -> None:
    items = items_of(12)
    responses = simulate_responses(np.linspace(-2, 2, 30), items, rng=np.random.default_rng(1), missing=0.2)
    found = leave_items_out(responses, items, ["item2", "item9"])
    kept = [item for item in items.item_ids if item not in ("item2", "item9")]
    table = found.table()
    whole = estimate_ability(responses, items, method="wle").theta
    without = estimate_ability(responses.select_items(kept), items, method="wle").theta
    np.testing.assert_array_equal(table["theta"], whole)
    np.testing.assert_array_equal(table["theta_without"], without)
    np.testing.assert_allclose(table["percentile_change"], 100 * (norm.cdf(without) - norm.cdf(whole)), atol=1e-9)
    row = found.by_group().iloc[0]
    assert row["mean_change"] == pytest.approx(np.mean(without - whole))
    assert abs(row["largest_change"]) == pytest.approx(np.abs(without - whole).max())
    assert row["largest_of"] == responses.respondent_ids[int(np.argmax(np.abs(without - whole)))]


@pytest.mark.parametrize("method", ["wle", "eap"])
def test_leaving_clean_items_out_moves_no_group_by_warms_estimates(method: str) -> None:
    items, rng = items_of(20, seed=3), np.random.default_rng(5)
    theta = np.concatenate([rng.normal(0, 1, 1500), rng.normal(1.2, 0.6, 1500)])
    found = leave_items_out(
        simulate_responses(theta, items, rng=rng), items, ["item1", "item7", "item13", "item19"],
        groups=["people"] * 1500 + ["machines"] * 1500, method=method,
    ).by_group()  # fmt: skip
    z = (found["mean_change"] / found["se_mean_change"]).to_numpy()
    if method == "wle":
        assert np.abs(z).max() < 3
    else:  # a prior draws the able down, further with fewer items: that would be taken for the items' doing
        assert z[1] < -4


def test_leaving_biased_items_out_gives_the_group_its_ability_back() -> None:
    items, rng = items_of(20, seed=3), np.random.default_rng(6)
    biased = ["item2", "item5", "item11"]
    harder = replace(items, intercept=items.intercept - items.discrimination * np.isin(items.item_ids, biased) * 1.5)
    theta = rng.normal(0, 0.8, 1500)
    values = [simulate_responses(theta, part, rng=rng).values for part in (items, harder)]
    found = leave_items_out(np.vstack(values), items, biased, groups=["people"] * 1500 + ["machines"] * 1500)
    people, machines = found.by_group().set_index("group").loc[["people", "machines"]].to_dict("records")
    assert abs(people["mean_change"]) < 0.03
    assert machines["mean_change"] > 0.1  # three of twenty items, 1.5 harder
    assert machines["mean_percentile_change"] > 3
    assert found.without.theta[1500:].mean() == pytest.approx(theta.mean(), abs=0.05)


@pytest.mark.parametrize(
    ("left_out", "groups", "saying"),
    [
        (["nine"], None, "nine is not among the responses"),
        ([], None, "all or none"),
        (["item1", "item2"], None, "all or none"),
        (["item1"], ["a"], "1 groups for 2 respondents"),
    ],
)
def test_wrong_input_is_named(left_out: list[str], groups: list[str] | None, saying: str) -> None:
    is_refused(saying, leave_items_out, [[1, 0], [0, 1]], items_of(2), left_out, groups=groups)
