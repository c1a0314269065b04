"""The estimated density of ability: right for a skewed crowd, and not needed for a normal one."""

import numpy as np
import pytest
import torch

from irtbench import FitSettings, ItemParameters, ResponseMatrix, fit_model, simulate_responses
from irtbench.estimation.marginal.population import LEAST_DEVIATION, NormalMixture
from irtbench.models.quadrature import normal_grid

ESTIMATED = FitSettings(population="estimated")


def crowd(n_respondents: int, *, skewed: bool, seed: int) -> tuple[ItemParameters, ResponseMatrix]:
    """A crowd of mean 0 and standard deviation 1, a fifth of it careless where skewed."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=n_respondents)
    if skewed:
        careless = rng.random(n_respondents) < 0.2
        theta = np.where(careless, rng.normal(-2.0, 0.4, n_respondents), rng.normal(0.5, 0.45, n_respondents))
        theta = (theta - theta.mean()) / theta.std()
    items = ItemParameters.from_difficulty(rng.uniform(0.8, 2.0, 25), rng.uniform(-2, 1.5, 25))
    return items, simulate_responses(theta, items, rng=rng)


def test_a_skewed_crowd_is_recognised_and_its_bias_removed() -> None:
    truth, responses = crowd(2500, skewed=True, seed=1)
    normal, estimated = fit_model(responses), fit_model(responses, ESTIMATED)
    assert estimated.converged

    def error(fitted) -> float:
        return float(np.sqrt(np.mean((fitted.items.difficulty - truth.difficulty) ** 2)))

    assert error(estimated) < 0.75 * error(normal)
    assert estimated.bic < normal.bic - 100
    assert estimated.n_parameters in (normal.n_parameters + 3, normal.n_parameters + 6)  # 2 or 3 components
    assert "normal components by BIC" in estimated.stopped_because
    nodes, weights = estimated.quadrature.nodes, estimated.quadrature.weights
    assert weights @ nodes == pytest.approx(0.0, abs=5e-3)
    assert weights @ nodes**2 == pytest.approx(1.0, abs=5e-3)
    # true skewness of the mixture, about -1
    assert weights @ nodes**3 < -0.7


def test_a_normal_crowd_is_left_normal() -> None:
    _, responses = crowd(2000, skewed=False, seed=2)
    normal, estimated = fit_model(responses), fit_model(responses, ESTIMATED)
    assert estimated.log_likelihood == pytest.approx(normal.log_likelihood, abs=1e-6)
    assert estimated.n_parameters == normal.n_parameters
    np.testing.assert_allclose(normal.items.discrimination, estimated.items.discrimination, atol=1e-6)
    np.testing.assert_allclose(estimated.quadrature.weights, normal_grid().weights, atol=1e-9)
    assert "normal by BIC" in estimated.stopped_because


def test_a_mixture_is_found_in_its_own_counts() -> None:
    theta, parts = torch.from_numpy(normal_grid().nodes), ([0.3, 0.7], [-1.4, 0.8], [0.4, 0.6])
    truth = NormalMixture(*(torch.tensor(part, dtype=torch.float64) for part in parts))
    counts = 1000 * truth.log_weights(theta).exp()
    found = NormalMixture.slices(2, theta.device)
    for _ in range(20):
        found = found.fitted_to(theta, counts)
    for name in ("share", "mean", "deviation"):
        np.testing.assert_allclose(getattr(found, name), getattr(truth, name), atol=2e-3)
    # at the maximum likelihood, moments of the mixture are those of the counts
    weights = found.log_weights(theta).exp()
    for k in (1, 2):
        assert float(weights @ theta**k) == pytest.approx(float(counts @ theta**k / 1000), abs=1e-4)


def test_no_component_is_narrower_than_may_be() -> None:
    theta = torch.from_numpy(normal_grid().nodes)
    counts = (theta.abs() < 0.05).double() * 100 + torch.exp(-0.5 * theta**2)
    assert float(NormalMixture.slices(2, theta.device).fitted_to(theta, counts).deviation.min()) == LEAST_DEVIATION
    narrow = NormalMixture.at(torch.tensor([0.0, 0.0, -1.0, 1.0, -5.0, 0.0], dtype=torch.float64))
    again, _, _ = narrow.standardised()  # else every accelerated update is taken back
    assert float(again.deviation.min()) == pytest.approx(LEAST_DEVIATION, rel=1e-8)
    assert again.moments == pytest.approx((0, 1))  # and standardised all the same


def test_ten_items_settle_a_density_in_fewer_updates_than_plain_ones() -> None:
    """Which take more than 60: four hundred respondents, in two clusters, of ten items."""
    rng = np.random.default_rng(2)
    low = rng.random(400) < 0.3
    theta = np.where(low, rng.normal(-1.6, 0.5, 400), rng.normal(0.69, 0.5, 400)) / 1.16
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 10), rng.normal(size=10))
    found = fit_model(simulate_responses(theta, items, rng=rng), population="estimated", standard_errors=False)
    assert found.converged
    assert found.status.learning.updates <= 30
    nodes, weights = found.quadrature.nodes, found.quadrature.weights
    assert weights @ nodes == pytest.approx(0.0, abs=1e-3)
    assert weights @ nodes**2 == pytest.approx(1.0, abs=1e-3)
