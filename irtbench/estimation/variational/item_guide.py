"""A normal Pyro guide over all item parameters, in coordinates in which their posterior is nearly normal.

The posterior of a slope has a long tail to the right; intercept and guessing depend on it and on each other along
curves. With eta = d / sqrt(1 + a^2 / 1.7^2), a share of about p = c + (1 - c) / (1 + exp(-eta)) of the responses to an
item is correct, and far less curved are

    t = asinh(a / .5),   m = logit p,   s = logit(c / p).

t grows like log a where a is large, like a near 0, where a slope may have either sign; m is known best, nearly
independently of the rest; c < p always. Where c is fixed, eta takes the place of m. Under a hierarchy the
model draws log |a|, which takes the place of t. The way there and back from (eta, logit c) is

    s = logit c + log(1 + exp(-eta)),   m = eta + log(1 + exp(s)),

which keeps volumes. An upper asymptote lies above p, at p + (1 - p) Phi(r), which has no tail towards 1; with q =
1 / (1 + exp(-eta)) the share that is right without guessing,

    (u - c) / (1 - c) = q + (1 - q) Phi(r),   and eta - log Phi(r) takes the place of eta in d.

In these coordinates psi, with psi* the parameters' mode, M the matrix of what items share (one slope of all is one
parameter) and I the observed information there,

    psi = psi* + M (M'IM)^(-1/2) u,

so that u has about mean 0 and covariance 1 to begin with, and little is left to learn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from pyro.infer.autoguide import AutoContinuous
from pyro.infer.autoguide.initialization import init_to_value
from torch import Tensor
from torch.distributions.transforms import Transform
from torch.func import jacrev
from torch.nn.functional import logsigmoid, softplus
from torch.special import ndtri

from irtbench.data.input_error import InputError
from irtbench.estimation.marginal.observed_information import MOST_COUPLED_ITEMS, observed_information, own_information
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.tensors import ItemTensors

NEAR_ZERO = 0.5  # slopes much smaller are taken as they are, much larger ones by their logarithm
LOGISTIC_SCALE = 1.7  # a logistic curve is about the normal ogive of 1 / 1.7 the slope
SMALL_FACTOR = 0.05  # size of the low-rank part at the start: at 0 its gradient would be 0
SOBOL_BLOCK = 256  # vectors made at a time
SMALLEST_UNIFORM = 1e-12


def attenuation(slope: Tensor) -> Tensor:
    """sqrt(1 + a^2 / 1.7^2), so that d is eta times it."""
    return (1 + (slope / LOGISTIC_SCALE) ** 2).sqrt()


def log_normal_cdf(x: Tensor) -> Tensor:
    """Log Phi(x), of functions that `torch.vmap` knows (it has no rule for log_ndtr)."""
    below, above = x.clamp(max=0.0), x.clamp(min=0.0)
    lower = (0.5 * torch.special.erfcx(-below / math.sqrt(2.0))).log() - 0.5 * below**2
    return torch.where(x < 0, lower, torch.log1p(-0.5 * torch.erfc(above / math.sqrt(2.0))))


def natural_parameters(psi: Tensor, sign: Tensor | None, guesses: Tensor) -> Tensor:
    """(a, d, logit c) from psi = (t, m, s) in the last dimension, (t, eta, 0) where c is fixed, and logit u with r.

    `guesses` says which asymptotes are estimated, shape (..., 1) or (..., 2).
    """
    t, m, s, *rest = psi.unbind(-1)
    slope = NEAR_ZERO * torch.sinh(t) if sign is None else sign * t.exp()
    lower, upper = guesses[..., 0], []
    eta = torch.where(lower, m - softplus(s), m)
    logit_c = torch.where(lower, s + logsigmoid(eta), s)
    for r in rest:
        share = torch.logaddexp(logsigmoid(eta), logsigmoid(-eta) + log_normal_cdf(r))  # log of (u - c) / (1 - c)
        logit_u = torch.logaddexp(logit_c, share) - logsigmoid(-eta) - log_normal_cdf(-r)
        upper.append(torch.where(guesses[..., 1], logit_u, r))
        eta = torch.where(guesses[..., 1], eta - log_normal_cdf(r), eta)
    return torch.stack([slope, eta * attenuation(slope), logit_c, *upper], dim=-1)


def coordinates_of(parameters: Tensor, sign: Tensor | None, guesses: Tensor) -> Tensor:
    """The way back: psi from (a, d, logit c), and logit u, in the last dimension."""
    slope, intercept, logit_c, *rest = parameters.unbind(-1)
    eta, lower, upper = intercept / attenuation(slope), guesses[..., 0], []
    for logit_u in rest:
        slip = log_slip(logit_c, logit_u).exp()
        p = (1 - slip) * torch.sigmoid(eta)
        upper.append(torch.where(guesses[..., 1], -ndtri(slip / (1 - p)), logit_u))
        eta = torch.where(guesses[..., 1], torch.logit(p), eta)
    s = torch.where(lower, logit_c - logsigmoid(eta), logit_c)
    t = torch.asinh(slope / NEAR_ZERO) if sign is None else slope.abs().log()
    return torch.stack([t, torch.where(lower, eta + softplus(s), eta), s, *upper], dim=-1)


def log_slip(logit_c: Tensor, logit_u: Tensor) -> Tensor:
    """Log of (1 - u) / (1 - c)."""
    return logsigmoid(-logit_u) - logsigmoid(-logit_c)


def natural_derivatives(psi: Tensor, sign: Tensor | None, guesses: Tensor) -> Tensor:
    """Derivatives of `natural_parameters` (rows) by psi (columns), shape (n_items, width, width)."""
    return jacrev(lambda at: natural_parameters(at, sign, guesses).sum(dim=0))(psi).transpose(0, 1)


class ItemCoordinates(Transform):
    """The model's parameters phi as a function of u.

    Vectors of all of the model's parameters are in the order of its sample statements; "cells" are the flattened array
    of (slope, intercept, logit guessing, perhaps logit u) by item, where parameters fixed have a place as well.

    Parameters
    ----------
    mode
        psi* of each item, shape (n_items, width).
    slope_sign
        Signs of the slopes under a hierarchy, shape (n_items,); None without one.
    guesses
        Which asymptotes are estimated, shape (n_items, width - 2).
    cells
        The cell of each of the model's parameters, the first of those that share it, shape (n_latent,).
    places
        Which of these parameters each cell has, n_latent where it is fixed, shape (n_items * width,).
    roots
        M (M'IM)^(-1/2), zero rows for what is fixed: one block over all cells, shape (1, n_cells, n_cells), or one for
        each item, shape (n_items, width, width).
    log_volume
        Log determinant of (M'IM)^(-1/2).
    """

    domain = codomain = constraints.real_vector
    bijective = True

    def __init__(
        self, mode: Tensor, problem: Problem, cells: Tensor, places: Tensor, roots: Tensor, log_volume: Tensor
    ) -> None:
        super().__init__(cache_size=1)  # so that the density of a draw needs no way back
        self.mode, self.slope_sign, self.guesses = mode, problem.prior.slope_sign, problem.free[:, 2:]
        self.cells, self.places, self.roots, self.log_volume = cells, places, roots, log_volume

    def to_cells(self, values: Tensor) -> Tensor:
        """Spread values of shape (n_latent, k) over the blocks' cells, 0 elsewhere, shape (n_blocks, width, k)."""
        spread = values.new_zeros(self.mode.numel(), values.shape[1])
        return spread.index_copy(0, self.cells, values).unflatten(0, self.roots.shape[:2])

    def psi(self, u: Tensor) -> Tensor:
        """Coordinates of the items, shape (n_items, width)."""
        return self.mode + (self.roots @ self.to_cells(u[:, None])).view_as(self.mode)

    def _call(self, u: Tensor) -> Tensor:
        psi = self.psi(u)
        drawn = natural_parameters(psi, self.slope_sign, self.guesses)
        if self.slope_sign is not None:
            drawn = torch.cat([psi[:, :1], drawn[:, 1:]], dim=1)
        return drawn.flatten()[self.cells]

    def natural(self, phi: Tensor) -> Tensor:
        """(a, d, logit c) of each item, and logit u, from the model's parameters, shape (n_items, width)."""
        drawn = torch.cat([phi, phi.new_zeros(1)])[self.places].view_as(self.mode)
        drawn = torch.cat([drawn[:, :2], torch.where(self.guesses, drawn[:, 2:], self.mode[:, 2:])], dim=1)
        if self.slope_sign is None:
            return drawn
        return torch.cat([(self.slope_sign * drawn[:, 0].exp())[:, None], drawn[:, 1:]], dim=1)

    def log_abs_det_jacobian(self, u: Tensor, phi: Tensor) -> Tensor:
        """Logarithm of |dphi / du|, the model's parameter being log |a| itself under a hierarchy."""
        slope, _, logit_c, *rest = self.natural(phi).unbind(1)
        total = self.log_volume + attenuation(slope).log().sum()
        for logit_u in rest:
            r, share = self.psi(u)[:, 3], torch.log(-torch.expm1(log_slip(logit_c, logit_u)))
            density = -(r.square() + math.log(2 * math.pi)) / 2 - log_normal_cdf(r) - log_normal_cdf(-r)
            total = total + (density + share - logsigmoid(logit_u))[self.guesses[:, 1]].sum()
        own_slopes = phi[self.cells % self.mode.shape[1] == 0]
        return total if self.slope_sign is not None else total + (NEAR_ZERO**2 + own_slopes**2).log().sum() / 2


def latent_cells(problem: Problem) -> tuple[Tensor, Tensor]:
    """Cells and places of the model's parameters, see `ItemCoordinates`, in the order of its sample statements."""
    free, shared, sign = problem.free, problem.prior.shared, problem.prior.slope_sign
    first, width = torch.arange(free.numel(), device=free.device), free.shape[1]
    for design in () if shared is None else shared.design.flatten(1):
        together = torch.nonzero(design)[:, 0]
        first[together] = together[0]
    cells = first[free.flatten()].unique()
    item, column = cells // width, cells % width
    if sign is not None:  # slope and intercept are drawn in pairs
        item, column = 2 * item + column.clamp(max=1), column.clamp(min=1)
    cells = cells[(column * 2 * len(free) + item).argsort()]
    latent = torch.full_like(first, len(cells)).index_copy(0, cells, torch.arange(len(cells), device=free.device))
    return cells, torch.where(free.flatten(), latent[first], len(cells))


def item_coordinates(problem: Problem, items: ItemTensors) -> ItemCoordinates:
    """Coordinates about the mode, whitened by the observed information there.

    Raises
    ------
    InputError
        If the observed information is not positive definite.
    """
    (n_items, width), guesses, sign = problem.free.shape, problem.free[:, 2:], problem.prior.slope_sign
    mode = coordinates_of(problem.unbounded(items), sign, guesses)
    change, (cells, places) = natural_derivatives(mode, sign, guesses), latent_cells(problem)
    blocks = n_items > MOST_COUPLED_ITEMS and problem.prior.shared is None
    if blocks:
        information = change.transpose(1, 2) @ own_information(problem, items) @ change
    else:
        free = torch.nonzero(problem.free.flatten())[:, 0]
        full = torch.zeros(n_items * width, n_items * width, dtype=torch.float64, device=free.device)
        full[free[:, None], free] = observed_information(problem, items)
        full = torch.einsum("jak,jalb,lbm->jklm", change, full.view(n_items, width, n_items, width), change)
        spread = torch.eye(len(cells) + 1, dtype=torch.float64, device=free.device)[places, :-1]
        information = (spread.T @ full.view(len(spread), -1) @ spread)[None]
    sizes, directions = torch.linalg.eigh(information)
    if not float(sizes.min()) > 0:
        raise InputError(
            "posterior: the observed information is not positive definite, so these parameters are no maximum or the "
            "data do not determine them; expected a converged fit (with prior weak every item is determined)"
        )
    roots = (directions * sizes.rsqrt()[:, None, :]) @ directions.transpose(1, 2)
    if blocks:
        roots = torch.where(problem.estimated_pairs, roots, 0.0)
    else:
        roots = torch.zeros_like(full.view(1, len(spread), -1)).index_copy(2, cells, spread @ roots)
    return ItemCoordinates(mode, problem, cells, places, roots, -0.5 * sizes.log().sum())


@dataclass(frozen=True)
class Spread:
    """Parameters of the density of u, N(mean, diag(exp(2 log_scale)) + factor factor').

    Parameters
    ----------
    values
        Columns mean, log_scale and those of factor, none for independent coordinates, shape (n_latent, 2 + rank).
    """

    values: Tensor

    @property
    def mean(self) -> Tensor:
        """Shape (n_latent,)."""
        return self.values[:, 0]

    @property
    def log_scale(self) -> Tensor:
        """Shape (n_latent,)."""
        return self.values[:, 1]

    @property
    def factor(self) -> Tensor:
        """Shape (n_latent, rank)."""
        return self.values[:, 2:]

    def at(self, normals: Tensor) -> Tensor:
        """The vector u made of independent standard normal values, shape (n_latent + rank,)."""
        n_latent = len(self.mean)
        return self.mean + self.log_scale.exp() * normals[:n_latent] + self.factor @ normals[n_latent:]

    def density(self) -> dist.TorchDistribution:
        """The distribution of the whole vector u, without gradients to its parameters."""
        fixed = Spread(self.values.detach())
        if fixed.factor.shape[1] == 0:
            return dist.Normal(fixed.mean, fixed.log_scale.exp()).to_event(1)
        return dist.LowRankMultivariateNormal(fixed.mean, fixed.factor, (2 * fixed.log_scale).exp())


def normal_vectors(size: int, seed: int, like: Tensor) -> Iterator[Tensor]:
    """Standard normal vectors from a scrambled Sobol sequence (Owen, 1998): averages over many settle sooner."""
    engine = torch.quasirandom.SobolEngine(size, scramble=True, seed=seed)
    while True:
        uniform = engine.draw(SOBOL_BLOCK, dtype=torch.float64).clamp(SMALLEST_UNIFORM, 1 - SMALLEST_UNIFORM)
        yield from ndtri(uniform).to(like).unbind(0)


class PathDerivative(dist.TransformedDistribution):
    """The density of phi; draws carry gradients to its parameters, their log density only through the draw.

    The part of the ELBO's gradient left out, the expected score, is 0; without it the gradient has no noise where the
    guide is the posterior (Roeder, Wu & Duvenaud, 2017).

    Parameters
    ----------
    spread
        The density of u.
    coordinates
        phi as a function of u.
    normals
        Where draws come from.
    """

    def __init__(self, spread: Spread, coordinates: ItemCoordinates, normals: Iterator[Tensor]) -> None:
        self.spread, self.coordinates, self.normals = spread, coordinates, normals
        super().__init__(spread.density(), [coordinates], validate_args=False)

    def rsample(self, sample_shape: torch.Size = torch.Size()) -> Tensor:  # noqa: B008 - torch's own signature
        """One draw."""
        assert not sample_shape
        return self.coordinates(self.spread.at(next(self.normals)))


class ItemGuide(AutoContinuous):
    """A normal density of u, for a model of items.

    Parameters
    ----------
    problem
        Data, population and priors.
    items
        The mode.
    rank
        Columns of the low-rank part; 0 for independent coordinates of u.
    seed
        Of the draws.
    """

    def __init__(self, problem: Problem, items: ItemTensors, rank: int, seed: int) -> None:
        super().__init__(problem.model, init_loc_fn=init_to_value(values=problem.prior.values_of(items)))
        self.coordinates = item_coordinates(problem, items)
        n_latent = len(self.coordinates.cells)
        start = items.intercept.new_zeros(n_latent)
        self.normals = normal_vectors(n_latent + rank, seed, start)
        factor = [SMALL_FACTOR * next(self.normals)[:n_latent] for _ in range(rank)]
        self.values = torch.nn.Parameter(torch.stack([start, start, *factor], dim=1))

    @property
    def spread(self) -> Spread:
        """The parameters that are learnt."""
        return Spread(self.values)

    def get_posterior(self, *args: Any, **kwargs: Any) -> PathDerivative:
        """Density of the model's parameters."""
        return PathDerivative(self.spread, self.coordinates, self.normals)

    @torch.no_grad()
    def moments(self, spread: Spread) -> tuple[Tensor, Tensor]:
        """Mean and covariance of each item's psi, (n_items, width) and (n_items, width, width), 0 for what is fixed."""
        to_cells, roots = self.coordinates.to_cells, self.coordinates.roots
        rows = roots.unflatten(1, (-1, self.coordinates.mode.shape[1]))
        variances = to_cells((2 * spread.log_scale).exp()[:, None])[:, None, None, :, 0]
        loadings = (roots @ to_cells(spread.factor)).unflatten(1, (-1, rows.shape[2]))
        covariance = (rows * variances) @ rows.transpose(2, 3) + loadings @ loadings.transpose(2, 3)
        return self.coordinates.psi(spread.mean), covariance.flatten(0, 1)
