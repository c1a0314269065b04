"""The estimated density of ability: right for a skewed crowd, and not needed for a normal one."""

import numpy as np
import pytest
import torch

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.fit import fit_model
from irtbench.estimation.fixed_point import FixedPoint
from irtbench.estimation.marginal.population import powers, smooth, standardised
from irtbench.estimation.settings import FitSettings
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.quadrature import normal_grid
from irtbench.models.simulation import simulate_responses

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
    truth, responses = crowd(4000, skewed=True, seed=1)
    normal, estimated = fit_model(responses), fit_model(responses, ESTIMATED)
    assert estimated.converged

    def error(fitted) -> float:
        return float(np.sqrt(np.mean((fitted.items.difficulty - truth.difficulty) ** 2)))

    assert error(estimated) < 0.75 * error(normal)
    assert estimated.bic < normal.bic - 100
    assert estimated.n_parameters == normal.n_parameters + 4
    nodes, weights = estimated.quadrature.nodes, estimated.quadrature.weights
    assert weights @ nodes == pytest.approx(0.0, abs=5e-3)
    assert weights @ nodes**2 == pytest.approx(1.0, abs=5e-3)
    # true skewness of the mixture, about -1
    assert weights @ nodes**3 < -0.7


def test_a_normal_crowd_is_left_normal() -> None:
    _, responses = crowd(2000, skewed=False, seed=2)
    normal, estimated = fit_model(responses), fit_model(responses, ESTIMATED)
    assert estimated.log_likelihood > normal.log_likelihood - 0.05  # the larger model
    assert normal.bic < estimated.bic
    np.testing.assert_allclose(normal.items.discrimination, estimated.items.discrimination, atol=0.15)


def test_smoothing_keeps_the_moments_of_the_counts() -> None:
    theta = torch.from_numpy(normal_grid().nodes)
    counts = torch.exp(-0.5 * (theta - 0.7) ** 2) + 0.3 * torch.exp(-2 * (theta + 1.5) ** 2)
    weights = torch.softmax(powers(theta) @ smooth(theta, counts), dim=0)
    for k in range(1, 7):
        expected = float((counts / counts.sum()) @ (theta / 3) ** k)
        assert float(weights @ (theta / 3) ** k) == pytest.approx(expected, abs=1e-7)


def test_standardising_changes_no_curve() -> None:
    grid = normal_grid()
    theta = torch.from_numpy(grid.nodes)
    nodes = NodeTensors(theta[:, None], torch.from_numpy(grid.log_weights))
    counts = torch.exp(-0.5 * ((theta - 0.5) / 1.3) ** 2)
    items = ItemTensors.from_matrix(torch.tensor([[1.2, 0.4, 0.0]], dtype=torch.float64))
    _, moved = standardised(nodes, counts, items)
    # N(.5, 1.3): the item at theta = .5 + 1.3 t is a' t + d' with a' = 1.2 * 1.3, d' = .4 + 1.2 * .5
    assert float(moved.slope[0, 0]) == pytest.approx(1.56, abs=2e-3)
    assert float(moved.intercept[0]) == pytest.approx(1.0, abs=2e-3)


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(InputError, match="estimated population"):
        FitSettings(population="estimated", prior="hierarchical")


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_the_density_does_not_run_off_the_grid(seed: int) -> None:
    # in these crowds the polynomial, carried on beyond the nodes by the change of unit, once rose without limit
    rng = np.random.default_rng(seed)
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 30), rng.normal(0, 1, 30))
    responses = simulate_responses(rng.normal(size=1000), items, rng=rng)
    normal, estimated = (fit_model(responses, FitSettings(population=p, standard_errors=False))  # type: ignore[arg-type]
                         for p in ("normal", "estimated"))  # fmt: skip
    assert estimated.converged
    assert estimated.log_likelihood > normal.log_likelihood
    assert estimated.quadrature.weights.max() < 0.1


def few_items(seed: int) -> ResponseMatrix:
    """Four hundred respondents, in two clusters, of ten items."""
    rng = np.random.default_rng(seed)
    low = rng.random(400) < 0.3
    theta = np.where(low, rng.normal(-1.6, 0.5, 400), rng.normal(0.69, 0.5, 400)) / 1.16
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 10), rng.normal(size=10))
    return simulate_responses(theta, items, rng=rng)


def test_ten_items_settle_a_density_though_plain_updates_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    responses = few_items(2)
    settings = FitSettings(population="estimated", standard_errors=False)
    accelerated = fit_model(responses, settings)
    monkeypatch.setattr(FixedPoint, "after", lambda self, before, updated: updated)
    plain = fit_model(responses, settings)
    assert accelerated.converged
    assert not plain.converged
    assert "density not settled after 200 updates" in plain.stopped_because
    assert accelerated.log_likelihood > plain.log_likelihood - 0.01
    nodes, weights = accelerated.quadrature.nodes, accelerated.quadrature.weights
    assert weights @ nodes == pytest.approx(0.0, abs=1e-3)
    assert weights @ nodes**2 == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("seed", [0, 3])
def test_an_accelerated_density_is_where_plain_updates_lead(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _, responses = crowd(1000, skewed=True, seed=seed)
    settings = FitSettings(population="estimated", standard_errors=False)
    accelerated = fit_model(responses, settings)
    monkeypatch.setattr(FixedPoint, "after", lambda self, before, updated: updated)
    plain = fit_model(responses, settings)
    assert accelerated.converged
    assert accelerated.log_likelihood == pytest.approx(plain.log_likelihood, abs=0.01)
    apart = np.abs(np.cumsum(accelerated.quadrature.weights - plain.quadrature.weights)).max()
    assert apart < 5e-3
