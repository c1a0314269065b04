"""A normal Pyro guide over all item parameters, in coordinates whitened by the Laplace approximation.

With phi the parameters as the model draws them, phi* their mode and I the observed information there,

    phi = phi* + I^(-1/2) u,

so that u has mean 0 and covariance 1 to begin with, and what is left to learn is small: how far the posterior's mean
lies from its mode, how its widths differ from the curvature's, and (low rank) what else is correlated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from pyro.infer.autoguide import AutoContinuous
from pyro.infer.autoguide.initialization import init_to_value
from torch import Tensor
from torch.distributions.transforms import Transform

from irtbench.data.input_error import InputError
from irtbench.estimation.mode import Problem
from irtbench.estimation.uncertainty import observed_information, own_information
from irtbench.models.logistic import logistic_model

MOST_COUPLED_ITEMS = 500  # the whole information of more would be a matrix of gigabytes
SOBOL_BLOCK = 256  # vectors made at a time
SMALLEST_UNIFORM = 1e-12
SMALL_FACTOR = 0.05  # size of the low-rank part at the start: at 0 its gradient would be 0


class Whitening(Transform):
    """phi = phi* + I^(-1/2) u, one block for all items or one for each.

    Parameters
    ----------
    mode
        phi*, in the order of the model's sample statements, shape (n_latent,).
    cells
        Where each of them stands in the flattened array of (slope, intercept, logit guessing) by item,
        shape (n_latent,).
    roots
        Symmetric roots of the inverse information over those cells, zero rows for what is held fixed,
        shape (1, 3 n_items, 3 n_items) or (n_items, 3, 3).
    log_volume
        Log determinant of I^(-1/2).
    """

    domain = codomain = constraints.real_vector
    bijective = True

    def __init__(self, mode: Tensor, cells: Tensor, roots: Tensor, log_volume: Tensor) -> None:
        super().__init__(cache_size=1)
        self.mode, self.cells, self.roots, self.log_volume = mode, cells, roots, log_volume

    def to_cells(self, u: Tensor) -> Tensor:
        """Spread values of shape (n_latent, ...) over the blocks' cells, 0 elsewhere, (n_blocks, width, ...)."""
        spread = u.new_zeros(self.roots.shape[0] * self.roots.shape[1], *u.shape[1:])
        return spread.index_copy(0, self.cells, u).unflatten(0, self.roots.shape[:2])

    def _call(self, u: Tensor) -> Tensor:
        return self.mode + (self.roots @ self.to_cells(u)[:, :, None]).flatten()[self.cells]

    def _inverse(self, phi: Tensor) -> Tensor:
        moved = self.to_cells(phi - self.mode)[:, :, None]
        return (torch.linalg.pinv(self.roots, hermitian=True) @ moved).flatten()[self.cells]

    def log_abs_det_jacobian(self, u: Tensor, phi: Tensor) -> Tensor:
        """The same everywhere."""
        return self.log_volume


def whitening(problem: Problem, parameters: Tensor) -> Whitening:
    """The Laplace approximation at the mode.

    Under a hierarchy the model draws log |a|, so the information is taken over to it: da = a dlog |a|, and the second
    derivative of a has no share in it where the gradient is 0.

    Raises
    ------
    InputError
        If the observed information is not positive definite.
    """
    n_items = len(parameters)
    first = 3 * torch.arange(n_items, device=parameters.device)
    values, scale = parameters.clone(), torch.ones_like(parameters)
    if problem.priors.hierarchy is None:
        cells = torch.cat([first, first + 1])
    else:
        cells = torch.stack([first, first + 1], dim=1).flatten()
        values[:, 0] = parameters[:, 0].abs().log()
        scale[:, 0] = parameters[:, 0]
    cells = torch.cat([cells, first[problem.guessing_free] + 2])
    with torch.no_grad():
        if n_items > MOST_COUPLED_ITEMS:
            information = own_information(problem, parameters)
        else:
            information = torch.eye(3 * n_items, dtype=torch.float64, device=parameters.device)
            chosen = torch.nonzero(problem.free.flatten())[:, 0]
            information[chosen[:, None], chosen] = observed_information(problem, parameters)
            information = information[None]
        scale = scale.reshape(len(information), -1)
        sizes, directions = torch.linalg.eigh(information * scale[:, :, None] * scale[:, None, :])
        if not float(sizes.min()) > 0:
            raise InputError(
                "posterior: the observed information is not positive definite, so that these parameters are no maximum "
                "or the data do not determine them; expected a converged fit (prior weak determines every item)"
            )
        held = ~problem.free.reshape(len(information), -1)
        roots = (directions * sizes.rsqrt()[:, None, :]) @ directions.transpose(1, 2)
        roots = roots.masked_fill(held[:, :, None] | held[:, None, :], 0.0)
    return Whitening(values.flatten()[cells], cells, roots, -0.5 * sizes.log().sum())


@dataclass(frozen=True)
class Spread:
    """Parameters of the density of u, N(mean, diag(exp(2 log_scale)) + factor factor').

    Parameters
    ----------
    mean, log_scale
        Shape (n_latent,).
    factor
        Shape (n_latent, rank), rank 0 for independent coordinates.
    """

    mean: Tensor
    log_scale: Tensor
    factor: Tensor

    def plus(self, other: Spread) -> Spread:
        """Sum of two, for averages; without gradients."""
        with torch.no_grad():
            return Spread(self.mean + other.mean, self.log_scale + other.log_scale, self.factor + other.factor)

    def scaled(self, by: float) -> Spread:
        """Times a number, for averages; without gradients."""
        with torch.no_grad():
            return Spread(by * self.mean, by * self.log_scale, by * self.factor)

    def at(self, normals: Tensor) -> Tensor:
        """u made of independent standard normal values, shape (n_latent + rank,)."""
        n_latent = len(self.mean)
        return self.mean + self.log_scale.exp() * normals[:n_latent] + self.factor @ normals[n_latent:]

    def density(self) -> dist.TorchDistribution:
        """As a distribution of the whole vector u."""
        if self.factor.shape[1] == 0:
            return dist.Normal(self.mean, self.log_scale.exp()).to_event(1)
        return dist.LowRankMultivariateNormal(self.mean, self.factor, (2 * self.log_scale).exp())


class Normals:
    """Standard normal vectors from a scrambled Sobol sequence (Owen, 1998): averages over many settle sooner.

    Parameters
    ----------
    size
        Length of a vector.
    seed
        Of the scrambling.
    like
        Where the vectors go.
    """

    def __init__(self, size: int, seed: int, like: Tensor) -> None:
        self.engine = torch.quasirandom.SobolEngine(size, scramble=True, seed=seed)
        self.like = like
        self.ahead: list[Tensor] = []

    def draw(self) -> Tensor:
        """The next vector."""
        if not self.ahead:
            uniform = self.engine.draw(SOBOL_BLOCK, dtype=torch.float64)
            normal = torch.special.ndtri(uniform.clamp(SMALLEST_UNIFORM, 1 - SMALLEST_UNIFORM))
            self.ahead = list(normal.to(self.like).flip(0).unbind(0))
        return self.ahead.pop()


class PathDerivative(dist.TorchDistribution):
    """A density of phi whose draws carry gradients to its parameters, while its log density does not.

    The part of the ELBO's gradient left out, the expected score, is 0; without it the gradient has no noise where the
    guide is the posterior (Roeder, Wu & Duvenaud, 2017).

    Parameters
    ----------
    spread
        The density of u.
    whitening
        phi as a function of u.
    normals
        Source of independent standard normal values, `Normals.draw`.
    """

    arg_constraints: ClassVar[dict[str, object]] = {}
    has_rsample = True
    support = constraints.real_vector

    def __init__(self, spread: Spread, whitening: Whitening, normals: Normals) -> None:
        self.spread, self.whitening, self.normals = spread, whitening, normals
        self.weighed = dist.TransformedDistribution(spread.scaled(1.0).density(), [whitening])
        super().__init__(torch.Size(), spread.mean.shape, validate_args=False)

    def rsample(self, sample_shape: torch.Size = torch.Size()) -> Tensor:  # noqa: B008 - torch's own signature
        """One draw, with gradients to the spread."""
        assert not sample_shape
        return self.whitening(self.spread.at(self.normals.draw()))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density; gradients through the value alone."""
        return self.weighed.log_prob(value)


class WhitenedGuide(AutoContinuous):
    """phi = phi* + I^(-1/2) u with a normal density of u, for `models.logistic.logistic_model`.

    Parameters
    ----------
    problem
        Data, population and priors.
    parameters
        The mode, shape (n_items, 3).
    rank
        Columns of the low-rank part; 0 for independent coordinates of u.
    seed
        Of the draws.
    """

    def __init__(self, problem: Problem, parameters: Tensor, rank: int, seed: int) -> None:
        if problem.priors.hierarchy is None:
            values = {"slope": parameters[:, :1], "intercept": parameters[:, 1]}
        else:
            logs = torch.stack([parameters[:, 0].abs().log(), parameters[:, 1]], dim=1)
            values = {"log_slope_and_intercept": logs}
        if bool(problem.guessing_free.any()):
            values["guessing_logit"] = parameters[problem.guessing_free, 2]
        super().__init__(logistic_model, init_loc_fn=init_to_value(values=values))
        self.whitening = whitening(problem, parameters)
        n_latent = len(self.whitening.cells)
        mode = self.whitening.mode
        self.mean = torch.nn.Parameter(torch.zeros_like(mode))
        self.log_scale = torch.nn.Parameter(torch.zeros_like(mode))
        self.normals = Normals(n_latent + rank, seed, mode)
        factor = (
            torch.stack([self.normals.draw()[:n_latent] for _ in range(rank)], dim=1) if rank else mode[:, None][:, :0]
        )
        self.factor = torch.nn.Parameter(SMALL_FACTOR * factor)

    @property
    def spread(self) -> Spread:
        """The parameters that are learnt."""
        return Spread(self.mean, self.log_scale, self.factor)

    @torch.no_grad()
    def set_spread(self, spread: Spread) -> None:
        """Take these parameters."""
        self.mean.copy_(spread.mean)
        self.log_scale.copy_(spread.log_scale)
        self.factor.copy_(spread.factor)

    def get_posterior(self, *args: Any, **kwargs: Any) -> PathDerivative:
        """Density of phi."""
        return PathDerivative(self.spread, self.whitening, self.normals)

    @torch.no_grad()
    def moments(self, spread: Spread) -> tuple[Tensor, Tensor]:
        """Mean and covariance of each item's own parameters, on the scales that the model draws them on.

        Returns
        -------
        mean
            Shape (n_items, 3), 0 where a parameter is held fixed.
        covariance
            Shape (n_items, 3, 3), zeros there.
        """
        by_latent = self.whitening
        roots = by_latent.roots
        mean = torch.zeros(roots.shape[0] * roots.shape[1], dtype=roots.dtype, device=roots.device)
        mean[by_latent.cells] = by_latent(spread.mean)
        rows = roots.unflatten(1, (-1, 3))
        variances = by_latent.to_cells((2 * spread.log_scale).exp())
        covariance = (rows * variances[:, None, None, :]) @ rows.transpose(2, 3)
        loadings = (roots @ by_latent.to_cells(spread.factor)).unflatten(1, (-1, 3))
        covariance = covariance + loadings @ loadings.transpose(2, 3)
        return mean.reshape(-1, 3), covariance.flatten(0, 1)
