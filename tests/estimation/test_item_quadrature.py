"""Posteriors of items whose respondents' abilities are known, against integration on a fine grid."""

import numpy as np
import pytest
import torch

from irtbench.estimation.few_respondents.item_quadrature import (
    ItemModes,
    item_quadrature,
    posterior_quantiles,
)
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.priors import Hierarchy
from irtbench.models.pyro_model.rows import DenseRows, encode_responses
from irtbench.models.simulation import simulate_responses

PRIOR = Hierarchy((0.1, 0.2), (0.3, 1.2), 0.3, of="difficulty")


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("n", [12, pytest.param(100, marks=pytest.mark.slow)])
def test_moments_and_evidence_are_those_of_a_fine_grid(n: int, sign: float) -> None:
    rng = np.random.default_rng(n)
    theta = rng.normal(size=n)
    items = ItemParameters.from_difficulty(sign * rng.lognormal(0.2, 0.3, 3), rng.normal(0, 1, 3))
    rows = encode_responses(simulate_responses(theta, items, rng=rng, missing=0.1), torch.device("cpu"))
    assert isinstance(rows, DenseRows)
    start = ItemModes(torch.zeros(3, 2, dtype=torch.float64), torch.full((3,), sign, dtype=torch.float64))
    quadrature = item_quadrature(rows, torch.from_numpy(theta), start, PRIOR)
    mean, covariance = quadrature.moments(PRIOR)
    quantiles = posterior_quantiles(rows, torch.from_numpy(theta), quadrature, PRIOR)
    log_a, b = np.linspace(-1.6, 1.8, 341), np.linspace(-7, 7, 561)
    grid = np.stack(np.meshgrid(log_a, b, indexing="ij"), axis=-1).reshape(-1, 2)
    area = (log_a[1] - log_a[0]) * (b[1] - b[0])
    excess = grid - PRIOR.mean
    density = np.exp(-0.5 * np.einsum("gk,kl,gl->g", excess, np.linalg.inv(PRIOR.covariance), excess))
    density /= 2 * np.pi * np.sqrt(np.linalg.det(PRIOR.covariance))
    slope = sign * np.exp(grid[:, 0])
    values = np.c_[slope, -slope * grid[:, 1]]
    evidence = quadrature.log_evidence(PRIOR)
    for j, row in enumerate(rows.values.T.numpy()):
        z = slope[:, None] * (theta - grid[:, 1:])
        level = np.where(row == 1, -np.logaddexp(0, -z), np.where(row == 0, -np.logaddexp(0, z), 0)).sum(axis=1)
        mass = np.exp(level) * density * area
        assert float(evidence[j]) == pytest.approx(np.log(mass.sum()), abs=2e-3)
        mass /= mass.sum()
        expected = mass @ values
        np.testing.assert_allclose(mean[j], expected, atol=3e-3)
        np.testing.assert_allclose(
            covariance[j], (values - expected).T @ ((values - expected) * mass[:, None]), atol=0.01
        )
        on_axes = mass.reshape(len(log_a), len(b))
        for k, (places, share) in enumerate(((sign * np.exp(log_a), on_axes.sum(axis=1)), (b, on_axes.sum(axis=0)))):
            order = places.argsort()
            below = share[order].cumsum() - share[order] / 2
            spread = np.sqrt(share @ places**2 - (share @ places) ** 2)
            ends = np.interp((0.025, 0.5, 0.975), below, places[order])
            np.testing.assert_allclose(quantiles[:, j, k], ends, atol=0.06 * spread)
