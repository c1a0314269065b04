"""Item fit with several trials of an item, and what is not available with them."""

import warnings

import numpy as np
import pytest

from irtbench import InputError, ItemParameters, ResponseMatrix, empirical_curve, fit_model, global_fit, item_fit
from irtbench.diagnostics.local_dependence import PairTables, local_dependence, with_bootstrap
from irtbench.diagnostics.person_fit import mean_squares
from irtbench.models.curves import simulate_responses
from irtbench.models.quadrature import normal_grid
from irtbench.scoring.ability import estimate_ability


def tried(seed: int, *, alike: float = 0.0, bent: bool = False) -> ResponseMatrix:
    """300 x 20, 1 to 4 trials, at each of which somebody has the same for an item; or one item's curve is bent."""
    rng = np.random.default_rng(seed)
    a, b, theta = rng.lognormal(0, 0.3, 20), rng.normal(size=20), rng.normal(size=300)
    z = a * (theta[:, None] - b) + alike * rng.normal(size=(300, 20))
    if bent:
        z[:, 0] = 2 * np.abs(theta) - 1
    n = rng.integers(1, 5, z.shape)
    k = rng.binomial(n, 1 / (1 + np.exp(-z))).astype(float)
    return ResponseMatrix(k, tuple(f"s{i}" for i in range(300)), tuple(f"i{j}" for j in range(20)), n)


def test_mean_squares_of_numbers_right_by_hand() -> None:
    items = ItemParameters.from_difficulty([1.0, 2.0], [0.0, 0.5])
    theta = np.array([0.3, -1.0])
    k, n = np.array([[3.0, 0.0], [np.nan, 2.0]]), np.array([[4, 2], [0, 2]])
    p = 1 / (1 + np.exp(-items.discrimination * (theta[:, None] - items.difficulty)))
    square, variance = (k - n * p) ** 2, n * p * (1 - p)
    infit, outfit = mean_squares(k, theta, items, over="respondents", trials=n)
    np.testing.assert_allclose(infit, np.nansum(square, axis=0) / variance.sum(axis=0))
    np.testing.assert_allclose(outfit, np.nanmean(square / np.where(n > 0, variance, 1), axis=0))
    # one trial each is the plain mean square
    x = np.array([[1.0, 0.0], [np.nan, 1.0]])
    plain = mean_squares(x, theta, items, over="items")
    np.testing.assert_allclose(mean_squares(x, theta, items, over="items", trials=(~np.isnan(x)).astype(int)), plain)


@pytest.mark.filterwarnings("ignore:item fit")
def test_level_and_power_of_the_score_statistic() -> None:
    p = []
    for seed in range(4):
        responses = tried(seed)
        found = item_fit(responses, fit_model(responses).items)
        assert found.statistic == "score"
        p.append(found.p)
    assert (np.concatenate(p) < 0.05).sum() < 10  # of 80; 10 or more have a probability of .01
    bent = tried(0, bent=True)
    found = item_fit(bent, fit_model(bent).items)
    assert found.p_adjusted[0] < 1e-6
    assert (found.p_adjusted[1:] > 0.05).all()


def test_trials_that_are_alike_raise_mean_squares_and_the_fit_says_so() -> None:
    plain, alike = tried(1), tried(1, alike=1.5)
    for responses, expected in ((plain, False), (alike, True)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            fitted = fit_model(responses)
        infit = item_fit(responses, fitted.items, theta=estimate_ability(responses, fitted.items).theta).infit
        assert (infit.mean() > 1.2) == expected
        assert any("more alike than independent ones" in doubt for doubt in fitted.doubts) == expected


def test_pairs_by_products_of_shares() -> None:
    # 1 of 2 and 2 of 2: the cells 11, 10, 01, 00 are 1/2, 0, 1/2, 0; a second respondent is right in all, a third has
    # answered the first item alone
    right, tried = np.array([[1.0, 2.0], [3.0, 1.0], [1.0, np.nan]]), np.array([[2, 2], [3, 1], [2, 0]])
    responses = ResponseMatrix(right, ("r", "s", "t"), ("a", "b"), tried)
    items = ItemParameters.from_difficulty([1.0, 1.0], [0.0, 0.0], item_ids=("a", "b"))
    np.testing.assert_allclose(PairTables.of(responses, items, normal_grid()).observed[2:, :2], [[0, 0], [0.5, 1.5]])
    found = local_dependence(responses, items, theta=np.array([0.0, 1.0, 0.0]))
    assert found.n_respondents.tolist() == [2]
    assert np.isnan(found.p).all()  # no chi-square; the bootstrap has a p
    assert np.isfinite(found.q3).all()


@pytest.mark.slow
def test_items_that_share_more_than_ability_are_found() -> None:
    rng = np.random.default_rng(4)
    n = rng.integers(0, 5, (600, 15))
    theta, b = rng.normal(size=(600, 1)), rng.normal(size=15)
    z = 1.2 * (theta - b)
    z[:, :2] += rng.normal(0, 1.5, (600, 1))  # the first two share a deviation of each respondent
    correct = np.where(n > 0, rng.binomial(n, 1 / (1 + np.exp(-z))), np.nan)
    responses = ResponseMatrix(correct, [f"r{i}" for i in range(600)], [f"i{j}" for j in range(15)], n)
    items = fit_model(responses, standard_errors=False).items
    found = with_bootstrap(
        local_dependence(responses, items), responses, items,
        lambda sample: fit_model(sample, standard_errors=False).items, rng=rng, n_samples=39,
    )  # fmt: skip
    assert found.p_bootstrap_adjusted[0] <= 0.05
    assert (found.p_bootstrap_adjusted[1:] > 0.05).mean() > 0.95


def test_the_empirical_curve_of_trials_is_that_of_the_trials_one_by_one() -> None:
    items = ItemParameters.from_difficulty(np.ones(3), [-1.0, 0.0, 1.0])
    theta = np.linspace(-2, 2, 40)
    counted = simulate_responses(theta, items, rng=np.random.default_rng(0), trials=3)
    right = (np.arange(3) < counted.correct[:, :, None]).astype(float)  # respondent, item, trial
    single = ResponseMatrix(right.transpose(0, 2, 1).reshape(120, 3), [f"s{i}" for i in range(120)], items.item_ids)
    found = empirical_curve(counted, items, "item2", theta)
    apart = empirical_curve(single, items, "item2", np.repeat(theta, 3))
    np.testing.assert_allclose(found.proportion, apart.proportion, atol=1e-6)
    np.testing.assert_allclose(found.upper, apart.upper, atol=1e-6)
    # what is of one response each says so
    with pytest.raises(InputError, match="for which this is not available"):
        _ = counted.values
    whole = global_fit(counted, items)
    assert np.isnan(whole.m2)
    assert "several trials" in whole.reason
