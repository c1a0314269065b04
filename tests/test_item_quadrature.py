"""Posteriors of items whose respondents' abilities are known, against integration on a fine grid."""

import numpy as np
import pytest
import torch

from irtbench.estimation.item_quadrature import item_quadrature, known_abilities, likelier_signs
from irtbench.estimation.mode import Problem
from irtbench.estimation.response_rows import encode_responses
from irtbench.estimation.svi import SVISettings, fit_model
from irtbench.models.item_response import ItemParameters, simulate_responses
from irtbench.models.logistic import NodeTensors
from irtbench.models.priors import Hierarchy, Priors
from irtbench.models.quadrature import normal_grid

PRIOR = Hierarchy((0.1, 0.2), (0.3, 1.2), 0.3)


def few(n: int, n_items: int, *, seed: int = 0) -> tuple[np.ndarray, ItemParameters, Problem]:
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=n)
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), rng.normal(0, 1, n_items))
    cpu = torch.device("cpu")
    responses = simulate_responses(theta, items, rng=rng, missing=0.1)
    problem = Problem(
        encode_responses(responses, cpu),
        NodeTensors.from_quadrature(normal_grid(), dtype=torch.float64, device=cpu),
        Priors("hierarchical", hierarchy=PRIOR),
        torch.zeros(n_items, dtype=torch.bool),
        torch.zeros(n_items, dtype=torch.float64),
    )
    return theta, items, problem


@pytest.mark.parametrize("n", [12, 100])
def test_moments_and_evidence_are_those_of_a_fine_grid(n: int) -> None:
    theta, _, problem = few(n, 3)
    start = torch.tensor([[1.0, 0.0, 0.0]] * 3, dtype=torch.float64)
    quadrature = item_quadrature(problem, start, torch.from_numpy(theta), PRIOR)
    mean, covariance = quadrature.moments(PRIOR)
    log_a, d = np.linspace(-1.6, 1.8, 341), np.linspace(-7, 7, 561)
    grid = np.stack(np.meshgrid(log_a, d, indexing="ij"), axis=-1).reshape(-1, 2)
    precision = np.linalg.inv(PRIOR.covariance)
    excess = grid - PRIOR.mean
    log_prior = -0.5 * np.einsum("gk,kl,gl->g", excess, precision, excess)
    evidence = []
    for j, row in enumerate(problem.rows.values.T.numpy()):  # type: ignore[union-attr]
        z = np.exp(grid[:, :1]) * theta + grid[:, 1:]
        level = np.where(row == 1, -np.logaddexp(0, -z), np.where(row == 0, -np.logaddexp(0, z), 0)).sum(axis=1)
        mass = np.exp(level + log_prior)
        evidence.append(np.log(mass.sum()))
        values = np.c_[np.exp(grid[:, 0]), grid[:, 1]]
        expected = mass @ values / mass.sum()
        np.testing.assert_allclose(mean[j], expected, atol=3e-3)
        spread = (values - expected).T @ ((values - expected) * mass[:, None]) / mass.sum()
        np.testing.assert_allclose(covariance[j], spread, atol=0.01)
    ours = quadrature.log_evidence(PRIOR).numpy()
    np.testing.assert_allclose(ours - ours[0], np.array(evidence) - evidence[0], atol=5e-3)


def test_a_sign_that_is_chance_is_turned_and_one_that_is_not_stays() -> None:
    theta, items, problem = few(60, 40, seed=3)
    values = problem.rows.values  # type: ignore[union-attr]
    values[:, 0] = torch.where(values[:, 0] == -1, values[:, 0], 1 - values[:, 0])  # a key that is reversed
    parameters = torch.tensor(np.c_[items.discrimination, items.intercept, np.zeros(40)])
    parameters[:2, 0] *= -1.0  # of the first rightly, of the second by chance
    found = likelier_signs(problem, parameters, torch.from_numpy(theta), PRIOR)
    assert found[0, 0] < 0
    assert bool((found[1:, 0] > 0).all())


def test_abilities_are_taken_as_known_with_many_items_only() -> None:
    for n_items, known in ((30, False), (600, True)):
        theta, items, problem = few(40, n_items)
        parameters = torch.tensor(np.c_[items.discrimination, items.intercept, np.zeros(n_items)])
        found = known_abilities(problem, parameters)
        assert (found is not None) == known
        if found is not None:
            assert np.corrcoef(found.numpy(), theta)[0, 1] > 0.99


def test_a_dozen_respondents_and_thousands_of_items() -> None:
    rng = np.random.default_rng(0)
    a, b, theta = rng.lognormal(0.2, 0.3, 3000), rng.normal(0, 1, 3000), rng.normal(size=12)
    responses = simulate_responses(theta, ItemParameters.from_difficulty(a, b), rng=rng)
    fitted = fit_model(responses, SVISettings(prior="hierarchical"))
    assert fitted.converged
    assert fitted.stopped_because.endswith("estimates are posterior means")
    mean, deviation = theta.mean(), theta.std()
    a, b = a * deviation, (b - mean) / deviation
    errors = fitted.items.standard_errors()["discrimination"]
    # the standard deviation of a is .31 in truth, of b 1.4: what twelve answers can add to these is little
    assert np.sqrt(np.mean((fitted.items.discrimination - a) ** 2)) < 0.4
    assert np.sqrt(np.mean((fitted.items.difficulty - b) ** 2)) < 0.7
    assert 0.92 < np.mean(np.abs(fitted.items.discrimination - a) < 1.96 * errors) < 0.99
