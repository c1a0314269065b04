"""Weighted draws: a known density from a guide that is too narrow, and what is refused."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import norm, t

from irtbench.estimation.variational.importance_weights import (
    WIDER,
    WIDER_FREEDOM,
    WIDER_SHARE,
    WeightedDraws,
    divergence,
    elbo_draws,
    log_mixture,
    weighted_draws,
)
from irtbench.estimation.variational.item_guide import Spread


class SkewedTarget:
    """Exponential of a normal, less its mode: of three independent coordinates, each item one of them."""

    SIGMA = 0.5

    def __init__(self, width: float = 1.0) -> None:
        spread = Spread(torch.tensor([[0.0, math.log(width), 0.0]] * 3, dtype=torch.float64))
        normals = torch.Generator().manual_seed(0)
        draws = (torch.randn(4, generator=normals, dtype=torch.float64) for _ in itertools.count())
        items = SimpleNamespace(cells=torch.arange(0, 9, 3))  # a slope of each of three items
        self.guide = SimpleNamespace(spread=spread, normals=draws, coordinates=items)
        self.problem = SimpleNamespace(free=torch.ones(3, 3), prior=SimpleNamespace(shared=None))

    def log_density(self, u: torch.Tensor) -> torch.Tensor:
        # y = (exp(s v) - 1) / s with v standard normal: v = log(1 + s y) / s, dv / dy = 1 / (1 + s y)
        inside = 1 + self.SIGMA * u
        if bool((inside <= 0).any()):
            return u.new_tensor(-math.inf)
        v = inside.log() / self.SIGMA
        return (-0.5 * v**2 - inside.log()).sum() - 1.5 * math.log(2 * math.pi)

    def evaluate(self, draws: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.stack([draws] * 3, dim=2), torch.stack([self.log_density(u) for u in draws])


@pytest.mark.slow
def test_moments_are_those_of_the_target_and_not_of_the_guide() -> None:
    target = SkewedTarget()
    found = weighted_draws(target, seed=1)  # type: ignore[arg-type]
    assert found.effective > 1000
    mean, covariance = found.moments(found.values)
    s = SkewedTarget.SIGMA
    expected = (math.exp(s**2 / 2) - 1) / s
    deviation = math.exp(s**2 / 2) * math.sqrt(math.exp(s**2) - 1) / s
    assert deviation > 1.15  # the guide's is 1
    np.testing.assert_allclose(mean[:, 0], expected, atol=4 * deviation / math.sqrt(found.effective))
    np.testing.assert_allclose(covariance[:, 0, 0].sqrt(), deviation, rtol=0.08)
    # the target is normalised: the mean of the weights before they are, is one
    assert float(torch.logsumexp(found.log_ratios, 0)) - math.log(len(found)) == pytest.approx(0, abs=0.05)


@pytest.mark.slow
def test_a_seed_gives_the_same_draws() -> None:
    first, again = (weighted_draws(SkewedTarget(), seed=3) for _ in range(2))  # type: ignore[arg-type]
    assert torch.equal(first.log_ratios, again.log_ratios)


@pytest.mark.slow
def test_a_guide_that_is_nowhere_near_is_of_no_use() -> None:
    far = SkewedTarget(width=0.02)
    assert divergence(elbo_draws(far)) > 0  # type: ignore[arg-type]
    assert weighted_draws(far, seed=1) is None  # type: ignore[arg-type]


def test_the_mixture_is_half_normal_and_half_a_wider_t() -> None:
    z = torch.linspace(-30, 30, 601, dtype=torch.float64)[:, None]
    density = log_mixture(z, torch.eye(1, dtype=torch.float64), torch.zeros(1, dtype=torch.int64)).exp()
    at = z[:, 0].numpy()
    expected = (1 - WIDER_SHARE) * norm.pdf(at) + WIDER_SHARE * t.pdf(at, WIDER_FREEDOM, scale=WIDER)
    np.testing.assert_allclose(density.numpy(), expected, rtol=1e-10)


def test_weights_are_cut_and_add_up_to_one() -> None:
    ratios = torch.zeros(100, dtype=torch.float64)
    ratios[0] = 50.0
    draws = WeightedDraws(torch.zeros(100, 1, 3), ratios)
    assert float(draws.weights.sum()) == pytest.approx(1)
    # all mass on one draw, cut to the root of their number: .1, alone in what is left
    assert draws.effective == pytest.approx(1, abs=1e-6)
    assert WeightedDraws(torch.zeros(100, 1, 3), torch.zeros(100)).effective == pytest.approx(100)
