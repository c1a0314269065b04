"""Differences of ability, ranks and ties: by hand, and against what is known to be so."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from builders.refusals import is_refused
from builders.scales import scale_of
from irtbench import ItemParameters, Norms, Quadrature, ResponseMatrix, Scale, simulate_responses
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
    found = compare_abilities(scale, np.stack([one, one, np.ones(60)]), rng=np.random.default_rng(2)).pairs()
    twins, far = found.loc[0], found.loc[1]
    assert twins["theta_p"] == pytest.approx(1, abs=1e-6)
    assert twins["theta_lower"] < 0 < twins["theta_upper"]
    assert far["theta_p"] < 1e-5
    assert (far[["theta_upper", "percentile_upper"]] < 0).all()


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
        compare_abilities(scale_of(items), [[1.0], [1.0]], rng=rng, n_draws=4000, n_item_draws=n).theta
        for n in (400, 0)
    )
    assert np.corrcoef(shared)[0, 1] > 0.05 > abs(np.corrcoef(fixed)[0, 1])
    assert shared.std() > fixed.std()


def test_ranking_by_hand() -> None:
    # four draws of three systems: c leads in three, b in one; a is last always
    theta = np.array([[0.0] * 4, [1.0, 1.0, 1.0, 3.0], [2.0] * 4])
    found = AbilityComparison("s", ("a", "b", "c"), theta, theta, np.full((3, 3), 0.5), 0.95)
    ranking = found.ranking(np.array([0.01, 0.01, 0.2]))  # pairs ab, ac, bc
    names = ["respondent_id", "probability_best", "rank", "rank_lower", "rank_upper", "indistinguishable_from", "theta"]
    assert ranking[names].to_numpy().tolist() == [
        ["c", 0.75, 1, 1, 2, "b", 2.0], ["b", 0.25, 2, 1, 2, "c", 1.5], ["a", 0.0, 3, 3, 3, "", 0.0]
    ]  # fmt: skip


def test_the_chance_of_a_false_difference_is_the_stated_one() -> None:
    # two people of one ability drawn anew each time, prior N(0, 1): the posterior's p is conservative, since it
    # shrinks both to the mean; at theta 0 about 2 to 5% below .05 (200 pairs, sd 1.5%)
    scale = make_scale(40, variance=1e-6)
    rng = np.random.default_rng(6)
    low = 0
    for _ in range(10):
        responses = simulate_responses(np.zeros(40), scale.items, rng=rng)
        found = compare_abilities(scale, responses, rng=rng, n_item_draws=0, n_draws=2)
        low += sum(2 * min(found.better[i, i + 1], found.better[i + 1, i]) < 0.05 for i in range(0, 40, 2))
    assert 0.005 < low / 200 < 0.07


def test_pairs_that_the_prior_alone_draws_apart_are_named() -> None:
    """All right on 5 and on 200 easy items: the likelihoods of neither leave out the other, their posteriors do."""
    items = ItemParameters.from_difficulty([1.5] * 200, [0.0] * 200)
    responses = np.ones((2, 200))
    responses[0, 5:] = np.nan
    with pytest.warns(RuntimeWarning, match="r1 and r2 on all: abilities differ significantly only since"):
        found = compare_abilities(scale_of(items), responses, rng=np.random.default_rng(0), n_item_draws=0)
    assert found.pairs()["theta_p"][0] < 0.05
    responses[0, :5] = 0.0  # all wrong is another matter
    assert (
        compare_abilities(scale_of(items), responses, rng=np.random.default_rng(0), n_item_draws=0).better[0, 1] < 0.01
    )


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
    scale, rng = make_scale(5), np.random.default_rng(9)
    responses = simulate_responses([0.0, 1.0], scale.items, rng=rng)
    is_refused("at least two systems but got 1", compare_abilities, scale, responses.part(0, 1), rng=rng)
    unknown = replace(scale, items=replace(scale.items, covariance=None))
    is_refused("no covariance is known", compare_abilities, unknown, responses, rng=rng)
