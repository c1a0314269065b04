"""Differences of ability, ranks and ties: by hand, and against what is known to be so."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from builders.scales import scale_of
from irtbench import InputError, ItemParameters, Norms, Quadrature, ResponseMatrix, Scale, simulate_responses
from irtbench.scoring.ability_comparison import AbilityComparison, compare_abilities


def make_scale(n_items: int, *, variance: float = 0.01) -> Scale:
    rng = np.random.default_rng(n_items)
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), rng.normal(size=n_items))
    items = replace(items, covariance=np.broadcast_to(np.diag([variance, variance, 0.0]), (n_items, 3, 3)))
    return scale_of(items, Norms(rng.normal(size=500)))


def test_one_item_by_hand() -> None:
    # right against wrong on one symmetric item: by symmetry E(theta) = +-.413242 (2 E(theta P(theta)), Stein), and the
    # difference has mean .826484
    items = ItemParameters.from_difficulty([1.0], [0.0])
    rng = np.random.default_rng(0)
    found = compare_abilities(scale_of(items), [[1.0], [0.0]], rng=rng, n_item_draws=0, n_draws=40_000)
    pair = found.pairs().iloc[0]
    assert pair["theta_difference"] == pytest.approx(0.826484, abs=0.03)
    # P(theta_1 > theta_2) = E(1{t > s} 4 P(t) Q(s)) over t, s normal; by the draws within their error of .0025
    assert pair["probability_first_better"] == pytest.approx((found.theta[0] > found.theta[1]).mean(), abs=0.012)
    np.testing.assert_allclose(found.better + found.better.T, 1, atol=1e-9)
    assert pair["theta_p"] == pytest.approx(2 * (1 - pair["probability_first_better"]))


def test_p_and_interval_speak_alike() -> None:
    # twins of equal responses: difference 0, p 1; far apart: p tiny, far below what draws could tell
    scale = make_scale(60)
    one = simulate_responses([0.0], scale.items, rng=np.random.default_rng(1)).values[0]
    values = np.stack([one, one, np.ones(60)])
    responses = ResponseMatrix(values, ("one", "twin", "best"), scale.items.item_ids)
    found = compare_abilities(scale, responses, rng=np.random.default_rng(2)).pairs().set_index(["first", "second"])
    twins, far = found.loc[("one", "twin")], found.loc[("one", "best")]
    assert twins["theta_p"] == pytest.approx(1, abs=1e-6)
    assert twins["theta_lower"] < 0 < twins["theta_upper"]
    assert far["theta_p"] < 1e-5
    assert far["theta_upper"] < 0
    assert far["percentile_upper"] < 0


def test_the_order_of_systems_does_not_matter() -> None:
    scale = make_scale(20)
    responses = simulate_responses(np.linspace(-1, 1, 4), scale.items, rng=np.random.default_rng(1))
    turned = ResponseMatrix(responses.values[::-1], responses.respondent_ids[::-1], responses.item_ids)
    found, other = (compare_abilities(scale, each, rng=np.random.default_rng(2)) for each in (responses, turned))
    np.testing.assert_allclose(other.theta[::-1], found.theta, rtol=1e-9)
    np.testing.assert_allclose(other.percentile[::-1], found.percentile, rtol=1e-9)


def test_shared_item_error_does_not_blur_a_difference() -> None:
    # all items' intercepts wrong together: each system's ability moves with them, their difference does not. The
    # control is the spread of each ability, which the error does widen.
    rng = np.random.default_rng(3)
    items = replace(ItemParameters.from_difficulty([3.0], [0.0]), covariance=np.diag([0.0, 9.0, 0.0])[None])
    shared, fixed = (
        compare_abilities(scale_of(items), [[1.0], [1.0]], rng=rng, n_draws=4000, n_item_draws=n) for n in (400, 0)
    )
    assert np.corrcoef(shared.theta)[0, 1] > 0.05
    assert abs(np.corrcoef(fixed.theta)[0, 1]) < 0.05
    assert shared.theta.std() > fixed.theta.std()


def test_ranking_by_hand() -> None:
    # four draws of three systems: c leads in three, b in one; a is last always
    theta = np.array([[0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 3.0], [2.0, 2.0, 2.0, 2.0]])
    found = AbilityComparison("s", ("a", "b", "c"), theta, theta, np.full((3, 3), 0.5), 0.95)
    ranking = found.ranking(np.array([0.01, 0.01, 0.2]))  # pairs ab, ac, bc
    assert ranking["respondent_id"].tolist() == ["c", "b", "a"]
    assert ranking["probability_best"].tolist() == [0.75, 0.25, 0.0]
    assert ranking[["rank", "rank_lower", "rank_upper"]].to_numpy().tolist() == [[1, 1, 2], [2, 1, 2], [3, 3, 3]]
    assert ranking["indistinguishable_from"].tolist() == ["b", "c", ""]
    assert ranking["theta"].tolist() == [2.0, 1.5, 0.0]


def test_the_chance_of_a_false_difference_is_the_stated_one() -> None:
    # two people of one ability drawn anew each time, prior N(0, 1): the posterior's p is conservative, since it
    # shrinks both to the mean; at theta 0 about 2 to 5% below .05 (400 pairs, sd 1.1%)
    scale = make_scale(40, variance=1e-6)
    rng = np.random.default_rng(6)
    low = 0
    for _ in range(20):
        responses = simulate_responses(np.zeros(40), scale.items, rng=rng)
        found = compare_abilities(scale, responses, rng=rng, n_item_draws=0, n_draws=2)
        low += sum(2 * min(found.better[i, i + 1], found.better[i + 1, i]) < 0.05 for i in range(0, 40, 2))
    assert 0.005 < low / 400 < 0.07


def test_percentiles_of_an_estimated_population() -> None:
    # half the population at -1 and half at 1, nearly: a share of one half in between, where the normal one rises
    nodes = np.linspace(-6, 6, 121)
    density = np.exp(-(((nodes - 1) / 0.2) ** 2) / 2) + np.exp(-(((nodes + 1) / 0.2) ** 2) / 2)
    scale = replace(make_scale(40), population=Quadrature(nodes, np.log(density / density.sum())))
    responses = simulate_responses([-0.5, 0.5], scale.items, rng=np.random.default_rng(1))
    found = compare_abilities(scale, responses, rng=np.random.default_rng(0), n_item_draws=0)
    middle = np.abs(found.theta) < 0.3
    assert middle.any()
    np.testing.assert_allclose(found.percentile[middle], 50, atol=0.1)
    wanted = 50 * (ndtr((found.theta - 1) / 0.2) + ndtr((found.theta + 1) / 0.2))
    np.testing.assert_allclose(found.percentile, wanted, atol=0.05)


def test_bad_input_is_refused() -> None:
    scale = make_scale(5)
    rng = np.random.default_rng(9)
    responses = simulate_responses([0.0, 1.0], scale.items, rng=rng)
    with pytest.raises(InputError, match="at least two systems but got 1"):
        compare_abilities(scale, responses.select_respondents(np.array([True, False])), rng=rng)
    unknown = replace(scale, items=replace(scale.items, covariance=None))
    with pytest.raises(InputError, match="no covariance is known"):
        compare_abilities(unknown, responses, rng=rng)
