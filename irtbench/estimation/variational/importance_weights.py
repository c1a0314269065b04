"""Draws weighted to the posterior itself: what the shape of a guide cannot follow, the weights make good.

A density fitted by the ELBO keeps out of tails, so that its standard deviations are too small where the posterior has
some. With w = p(x, u) / q(u) weighted averages over draws of q are averages over the posterior (importance sampling).
For the weights to be bounded in the tails, q is the guide for half of the draws, and for the other half the guide with
one coordinate, each in its turn, made twice as wide (a defensive mixture; Hesterberg, 1995).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.variational.item_guide import ItemGuide, Normals, bounded
from irtbench.models.pyro_model.rows import Batch

ELBO_DRAWS = 200  # of the guide alone
MOST_DIVERGENCE = 2.5  # nats: with more, next to none of the draws would count
WIDER, WIDER_SHARE = 2.0, 0.5
BLOCK, MOST_DRAWS = 4_000, 32_000
ENOUGH, FEWEST = 5_000.0, 1_000.0  # effective draws: that end the drawing, and without which the moments are no better


@dataclass(frozen=True)
class WeightedDraws:
    """Draws with what is needed to weight them.

    Parameters
    ----------
    values
        (a, d, logit c) of each item, shape (n_draws, n_items, 3).
    log_ratios
        log p(x, u) - log q(u), shape (n_draws,).
    """

    values: Tensor
    log_ratios: Tensor

    def __len__(self) -> int:
        return len(self.log_ratios)

    def joined(self, more: WeightedDraws) -> WeightedDraws:
        """Both together."""
        return WeightedDraws(torch.cat([self.values, more.values]), torch.cat([self.log_ratios, more.log_ratios]))

    @cached_property
    def weights(self) -> Tensor:
        """Weights w, none above their mean times the root of their number (Ionides, 2008), summing to 1."""
        ratio = torch.softmax(self.log_ratios, dim=0).clamp(max=len(self) ** -0.5)
        return ratio / ratio.sum()

    @property
    def effective(self) -> float:
        """Number of draws of the posterior that are worth as much, 1 / sum w^2."""
        return float(1 / self.weights.square().sum())

    def moments(self, natural: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and covariance of each item's parameters, shapes (n_items, 3) and (n_items, 3, 3).

        `natural` are the draws on the scale wanted, shape (n_draws, n_items, 3).
        """
        mean = natural[0] + torch.einsum(
            "s,sjk->jk", self.weights, natural - natural[0]
        )  # what is fixed stays as it is
        away = natural - mean
        return mean, torch.einsum("s,sjk,sjl->jkl", self.weights, away, away)


@dataclass(frozen=True)
class Target:
    """The posterior as a density of the guide's coordinates u, but for a constant.

    Parameters
    ----------
    guide
        Whose coordinates.
    problem
        Responses, population and prior.
    """

    guide: ItemGuide
    problem: Problem

    @cached_property
    def responses(self) -> Batch:
        """All responses, unpacked once."""
        (whole,) = self.problem.rows.batches(len(self.problem.rows), self.problem.nodes.dtype)
        return whole

    def log_density(self, u: Tensor) -> Tensor:
        """Log p(x, phi) + log |dphi / du|."""
        phi = self.guide.coordinates(u)
        items = bounded(self.problem, self.guide.coordinates.natural(phi))
        row = self.problem.row(items)
        likelihood = torch.logsumexp(row.log_joint(self.responses.correct, self.responses.observed), dim=1).sum()
        prior = self.problem.prior.log_density(items)
        return likelihood + prior + self.guide.coordinates.log_abs_det_jacobian(u, phi)

    def evaluate(self, draws: Tensor) -> tuple[Tensor, Tensor]:
        """(a, d, logit c) of each item and the log density, shapes (n_draws, n_items, 3) and (n_draws,).

        Written into memory taken at once: small results kept one by one between large ones that are freed would leave
        the freed memory in pieces.
        """
        natural = draws.new_empty(len(draws), self.problem.rows.n_items, 3)
        density = draws.new_empty(len(draws))
        for k, u in enumerate(draws):
            natural[k] = self.guide.coordinates.natural(self.guide.coordinates(u))
            density[k] = self.log_density(u)
        return natural, density


@torch.no_grad()
def elbo_draws(target: Target) -> Tensor:
    """Estimates of the evidence lower bound, each from one draw of the guide, shape (n_draws,)."""
    spread, normals = target.guide.spread, target.guide.normals
    drawn = torch.stack([spread.at(normals.draw()) for _ in range(ELBO_DRAWS)])
    return target.evaluate(drawn)[1] - spread.density().log_prob(drawn)


def divergence(log_ratios: Tensor) -> float:
    """Kullback-Leibler divergence of the density drawn from, in nats: log mean w - mean log w."""
    return float(torch.logsumexp(log_ratios, 0)) - math.log(len(log_ratios)) - float(log_ratios.mean())


@torch.no_grad()
def weighted_draws(target: Target, seed: int) -> WeightedDraws | None:
    """Weighted draws, as many as it takes; None if the weights stay too uneven.

    Parameters
    ----------
    target
        The posterior and the guide.
    seed
        Of the draws.
    """
    spread = target.guide.spread
    mean = spread.mean
    root = torch.linalg.cholesky(torch.diag((2 * spread.log_scale).exp()) + spread.factor @ spread.factor.T)
    n_latent = len(mean)
    normals = Normals(n_latent, seed, mean)
    generator = torch.Generator().manual_seed(seed)
    found: WeightedDraws | None = None
    while found is None or (found.effective < ENOUGH and len(found) < MOST_DRAWS):
        z = torch.stack([normals.draw() for _ in range(BLOCK)])
        wider = torch.nonzero(torch.rand(BLOCK, generator=generator) < WIDER_SHARE)[:, 0].to(mean.device)
        z[wider, torch.randint(n_latent, wider.shape, generator=generator).to(mean.device)] *= WIDER
        natural, density = target.evaluate(mean + z @ root.T)
        more = WeightedDraws(natural, density - log_mixture(z, root))
        found = more if found is None else found.joined(more)
    return found if found.effective >= FEWEST else None


def log_mixture(z: Tensor, root: Tensor) -> Tensor:
    """Log density of u = mean + root z, z standard normal but for one coordinate that may be wider."""
    n_latent = z.shape[1]
    normal = -0.5 * (z**2).sum(dim=1) - 0.5 * n_latent * math.log(2 * math.pi) - torch.diagonal(root).log().sum()
    by_coordinate = (0.5 * z**2 * (1 - WIDER**-2)).exp() / WIDER  # what making it wider does to the density
    return normal + torch.log(1 - WIDER_SHARE + WIDER_SHARE * by_coordinate.mean(dim=1))
