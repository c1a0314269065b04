"""Draws weighted to the posterior itself: what the shape of a guide cannot follow, the weights make good.

A density fitted by the ELBO keeps out of tails, so that its standard deviations are too small where the posterior has
some. With w = p(x, u) / q(u) weighted averages over draws of q are averages over the posterior (importance sampling).
For the weights to be bounded in the tails, q is the guide for half of the draws, and for the other half the guide with
the coordinates of one item, each in its turn, drawn from a wide t density (a defensive mixture; Hesterberg, 1995): an
item of which the data say little may have mass where the guide never goes, and weights of draws that never go there
do not show it. The moments of each item are judged by themselves (`item_reliability`).

The effective number of draws is of all parameters together: it may be in the thousands while one item, of which the
data say little, has its width from a few draws far out. Judged item by item are the Monte Carlo error of each standard
deviation, and the shape k of a generalised Pareto density fitted to the largest terms w (x - mean)^2 that the variance
is made of: above .7 such a sum settles slowly, and what is missing from it does not show in its error (Vehtari,
Simpson, Gelman, Yao & Gabry, 2024). It errs on the safe side: standard deviations may be right all the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from pyro.ops.stats import fit_generalized_pareto
from torch import Tensor

from irtbench.estimation.few_respondents.item_grid import weighted_moments
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.variational.item_guide import ItemGuide, normal_vectors
from irtbench.models.pyro_model.rows import Batch

ELBO_DRAWS = 200  # of the guide alone
MOST_DIVERGENCE = 2.5  # nats: with more, next to none of the draws would count
WIDER, WIDER_SHARE, WIDER_FREEDOM = 1.5, 0.5, 3.0  # scale, share and degrees of freedom of the t density
BLOCK, MOST_DRAWS = 4_000, 32_000
AT_ONCE = 2**20  # draws x respondents x nodes that are evaluated together
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

    @cached_property
    def weights(self) -> Tensor:
        """Weights w, none above their mean times the root of their number (Ionides, 2008), summing to 1."""
        ratio = torch.softmax(self.log_ratios, dim=0).clamp(max=len(self) ** -0.5)
        return ratio / ratio.sum()

    @property
    def effective(self) -> float:
        """Number of draws of the posterior that are worth as much, 1 / sum w^2."""
        return float(1 / self.weights.square().sum())

    def quantiles(self, values: Tensor, levels: Sequence[float]) -> Tensor:
        """Posterior quantiles of functions of the draws, shape (n_levels, ...) for values of shape (n_draws, ...).

        A quantile is the smallest value that as much of the posterior, and half of its own weight, lies below.
        """
        flat = values.flatten(1)
        ordered, order = flat.sort(dim=0)
        below = self.weights[order].cumsum(dim=0) - 0.5 * self.weights[order]
        wanted = values.new_tensor(levels)[:, None].expand(-1, flat.shape[1]).T.contiguous()
        at = torch.searchsorted(below.T.contiguous(), wanted).clamp(max=len(self) - 1)
        return ordered.T.gather(1, at).T.reshape(len(levels), *values.shape[1:])

    def moments(self, natural: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and covariance of each item's parameters, shapes (n_items, 3) and (n_items, 3, 3).

        `natural` are the draws on the scale wanted, shape (n_draws, n_items, 3).
        """
        mean, covariance = weighted_moments(self.weights, (natural - natural[0]).transpose(0, 1))
        return natural[0] + mean, covariance  # what is fixed stays as it is


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
        items = self.problem.of_unbounded(self.guide.coordinates.natural(phi))
        row = self.problem.row(items)
        likelihood = torch.logsumexp(row.log_joint(self.responses.correct, self.responses.observed), dim=1).sum()
        prior = self.problem.prior.log_density(items)
        return likelihood + prior + self.guide.coordinates.log_abs_det_jacobian(u, phi)

    def evaluate(self, draws: Tensor) -> tuple[Tensor, Tensor]:
        """(a, d, logit c) of each item, and logit u, and the log density: (n_draws, n_items, width) and (n_draws,).

        Many draws at once, as many as keep densities of all respondents at all nodes small, into memory taken at
        once: small results kept one by one between large ones that are freed would leave that memory in pieces.
        """
        natural = draws.new_empty(len(draws), *self.problem.free.shape)
        density = draws.new_empty(len(draws))
        coordinates = self.guide.coordinates
        n = max(1, AT_ONCE // (len(self.problem.rows) * len(self.problem.nodes.theta)))
        for first in range(0, len(draws), n):
            some = slice(first, first + n)
            natural[some] = torch.vmap(lambda u: coordinates.natural(coordinates(u)))(draws[some])
            density[some] = torch.vmap(self.log_density)(draws[some])
        return natural, density


@torch.no_grad()
def elbo_draws(target: Target) -> Tensor:
    """Estimates of the evidence lower bound, each from one draw of the guide, shape (n_draws,)."""
    spread, normals = target.guide.spread, target.guide.normals
    drawn = torch.stack([spread.at(next(normals)) for _ in range(ELBO_DRAWS)])
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
    item_of = target.guide.coordinates.cells // target.problem.free.shape[1]
    normals = normal_vectors(n_latent, seed, mean)
    generator = torch.Generator().manual_seed(seed)
    found = WeightedDraws(mean.new_empty(0, *target.problem.free.shape), mean.new_empty(0))
    while len(found) == 0 or (found.effective < ENOUGH and len(found) < MOST_DRAWS):
        z = torch.stack([next(normals) for _ in range(BLOCK)])
        widened = with_one_item_wider(z, item_of, generator)
        natural, density = target.evaluate(mean + widened @ root.T)
        if target.problem.prior.shared is not None:  # one slope is positive: the mirror image is no other model
            density = density.masked_fill(natural[:, 0, 0] * target.guide.coordinates.mode[0, 0] < 0, -math.inf)
        log_ratios = density - log_mixture(widened, root, item_of)
        found = WeightedDraws(torch.cat([found.values, natural]), torch.cat([found.log_ratios, log_ratios]))
    return found if found.effective >= FEWEST else None


def with_one_item_wider(z: Tensor, item_of: Tensor, generator: torch.Generator) -> Tensor:
    """Make the coordinates of one item, in a share of the draws, those of a t density of a larger scale.

    Parameters
    ----------
    z
        Standard normal draws, shape (n_draws, n_latent).
    item_of
        The item of each coordinate, shape (n_latent,).
    generator
        Chooses draws, items and the scale of each, by which a normal value becomes one of the t density.
    """
    wider = torch.rand(len(z), generator=generator) < WIDER_SHARE
    item = torch.randint(int(item_of.max()) + 1, (len(z),), generator=generator)
    squares = torch.randn(len(z), int(WIDER_FREEDOM), generator=generator, dtype=torch.float64).square().sum(dim=1)
    scale = torch.where(wider, WIDER * (WIDER_FREEDOM / squares).sqrt(), 1.0).to(z)
    mine = item_of[None, :] == item.to(item_of)[:, None]
    return torch.where(mine, z * scale[:, None], z)


def log_mixture(z: Tensor, root: Tensor, item_of: Tensor) -> Tensor:
    """Log density of u = mean + root z, z standard normal but for the coordinates of one item that may be wider."""
    n_latent, n_items = z.shape[1], int(item_of.max()) + 1
    normal = -0.5 * (z**2).sum(dim=1) - 0.5 * n_latent * math.log(2 * math.pi) - torch.diagonal(root).log().sum()
    lengths = z.new_zeros(len(z), n_items).index_add(1, item_of, z**2)
    width = torch.bincount(item_of, minlength=n_items).to(z)
    half = 0.5 * (WIDER_FREEDOM + width)
    constant = torch.lgamma(half) - math.lgamma(0.5 * WIDER_FREEDOM) + 0.5 * width * math.log(2 / WIDER_FREEDOM)
    # what the t density has over the normal one, item by item
    by_item = constant - width * math.log(WIDER) - half * torch.log1p(lengths / (WIDER_FREEDOM * WIDER**2))
    by_item = by_item + 0.5 * lengths
    wide = torch.logsumexp(by_item, dim=1) - math.log(n_items) + math.log(WIDER_SHARE)
    return normal + torch.logaddexp(wide, torch.full_like(wide, math.log(1 - WIDER_SHARE)))


MOST_SD_ERROR, LARGEST_SHAPE = 0.1, 0.7
FEWEST_IN_TAIL = 25


@dataclass(frozen=True, eq=False)
class ItemReliability:
    """How far the standard deviations of weighted draws can be trusted.

    Parameters
    ----------
    sd_error
        Monte Carlo error of the standard deviation of (a, d, c), as a share of it, shape (n_items, 3); 0 where c is
        fixed.
    tail_shape
        The largest Pareto k of the item's three variances, shape (n_items,).
    """

    sd_error: NDArray[np.float64]
    tail_shape: NDArray[np.float64]

    @property
    def doubtful(self) -> NDArray[np.intp]:
        """Items whose standard deviations may be too small."""
        return np.flatnonzero((self.sd_error.max(axis=1) > MOST_SD_ERROR) | (self.tail_shape > LARGEST_SHAPE))


def item_reliability(weights: Tensor, values: Tensor) -> ItemReliability:
    """Judge weighted draws item by item.

    Parameters
    ----------
    weights
        Summing to 1, shape (n_draws,).
    values
        Draws of (a, d, c), shape (n_draws, n_items, 3).
    """
    away = (values - torch.einsum("s,sjk->jk", weights, values)).square()
    variance = torch.einsum("s,sjk->jk", weights, away)
    squared_error = torch.einsum("s,sjk->jk", weights.square(), (away - variance).square())
    known = variance > 1e-16
    sd_error = torch.where(known, squared_error.sqrt() / (2 * variance.clamp(min=1e-300)), 0.0)
    terms = weights[:, None, None] * away
    shapes = [
        max((pareto_shape(terms[:, j, k]) for k in range(values.shape[2]) if bool(known[j, k])), default=-math.inf)
        for j in range(values.shape[1])
    ]
    return ItemReliability(sd_error.cpu().numpy(), np.array(shapes))


def pareto_shape(terms: Tensor) -> float:
    """Shape k of a generalised Pareto density fitted to the largest terms (Zhang & Stephens, 2009).

    The tail is of min(n / 5, 3 sqrt(n)) terms; a weak prior of mean .5 and the weight of ten of them keeps k in place
    (Vehtari et al., 2024). Infinite where there are too few terms.
    """
    n_tail = int(min(len(terms) / 5, 3 * math.sqrt(len(terms))))
    if n_tail < FEWEST_IN_TAIL:
        return math.inf
    top = terms.sort().values[-n_tail - 1 :].cpu()
    x = top[1:] - top[0]
    x = x[x > 0]
    if len(x) < FEWEST_IN_TAIL:
        return -math.inf
    return float(fit_generalized_pareto(x)[0])
