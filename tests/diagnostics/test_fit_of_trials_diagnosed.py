"""Item fit with several trials of an item, and what is not available with them."""

import warnings

import numpy as np
import pytest

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.empirical_curve import empirical_curve
from irtbench.diagnostics.global_fit import global_fit
from irtbench.diagnostics.item_fit import item_fit
from irtbench.diagnostics.local_dependence import local_dependence
from irtbench.diagnostics.residuals import mean_squares
from irtbench.estimation.fit import fit_model
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.simulation import simulate_responses
from irtbench.scoring.ability import eap


def tried(seed: int, *, alike: float = 0.0, bent: bool = False) -> ResponseMatrix:
    """300 x 20, 1 to 4 trials.

    ``alike`` is the standard deviation of what a respondent has for an item at every trial; ``bent`` gives the first
    item a curve that falls and rises.
    """
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
def test_level_and_power_of_x2_by_the_rest() -> None:
    p = []
    for seed in range(6):
        responses = tried(seed)
        found = item_fit(responses, fit_model(responses).items)
        assert found.statistic == "x2_by_rest"
        p.append(found.p)
    assert (np.concatenate(p) < 0.05).mean() < 0.1  # of 120; more than 12 have a probability of .01
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
        infit = item_fit(responses, fitted.items, theta=eap(responses, fitted.items).theta).infit
        assert (infit.mean() > 1.2) == expected
        assert any("more alike than independent ones" in doubt for doubt in fitted.doubts) == expected


def test_what_is_of_one_response_each_says_so() -> None:
    items = ItemParameters.from_difficulty(np.ones(20), np.linspace(-1, 1, 20), item_ids=[f"i{j}" for j in range(20)])
    responses = simulate_responses(np.linspace(-2, 2, 30), items, rng=np.random.default_rng(0), trials=3)
    theta = np.zeros(30)
    with pytest.raises(InputError, match="for which local dependence is not available; reduce them"):
        local_dependence(responses, items)
    with pytest.raises(InputError, match="for which the empirical curve is not available"):
        empirical_curve(responses, items, "i0", theta)
    with pytest.raises(InputError, match="for which this is not available"):
        _ = responses.values
    found = global_fit(responses, items)
    assert np.isnan(found.m2)
    assert "several trials" in found.reason
