"""The curvature of a model with several abilities, and the sampling covariance it gives.

Where axes may turn the observed information is singular. Standard errors are then those of the solution named: slopes
on principal axes satisfy sum_j a_jk a_jm = 0, and the covariance is that under these constraints (Silvey, 1959).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from irtbench.estimation.marginal.observed_information import MOST_INFLATION, observed_information
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.several_abilities.rotation_freedom import turns
from irtbench.models.pyro_model.item_tensors import LINEAR, ItemTensors

SMALLEST_CURVATURE = 1e-7  # of the largest: with less a direction counts as flat


@dataclass(frozen=True)
class Curvature:
    """The information in the directions in which axes do not turn.

    Parameters
    ----------
    information
        In the free slopes and intercepts, item by item, shape (n_free, n_free).
    turns
        Directions in which axes turn, shape (n_turns, n_free).
    sizes, directions
        Eigenvalues in the other directions, rising, and the eigenvectors as columns, shape (n_free, n_others).
    """

    information: Tensor
    turns: Tensor
    sizes: Tensor
    directions: Tensor

    @property
    def definite(self) -> bool:
        """Whether these parameters are a maximum, but for turns."""
        return not bool(self.loose.any())

    @property
    def loose(self) -> Tensor:
        """Free parameters that the responses do not determine, see `observed_information.invert`, shape (n_free,)."""
        if float(self.sizes[0]) <= SMALLEST_CURVATURE * float(self.sizes[-1]):
            lowest = self.directions[:, 0].abs()
            return lowest > lowest.max() / 2
        variance = (self.directions**2 / self.sizes).sum(dim=1)
        return self.information.diagonal() * variance > MOST_INFLATION

    @property
    def saddle(self) -> bool:
        """Whether the likelihood rises in some direction."""
        return float(self.sizes[0]) < -SMALLEST_CURVATURE * float(self.sizes[-1])


def curvature(problem: Problem, items: ItemTensors) -> Curvature:
    """The information at these items, split into directions in which axes turn and others."""
    information = observed_information(problem.in_float64(), items)
    free = problem.free[:, LINEAR]
    turning = turns(items.slope, free[:, :-1])
    turning = torch.nn.functional.pad(turning, (0, 1)).flatten(1)[:, free.flatten()]
    others = complement(turning)
    sizes, directions = torch.linalg.eigh(others.T @ information @ others)
    return Curvature(information, turning, sizes, others @ directions)


def complement(rows: Tensor) -> Tensor:
    """Orthonormal columns that span what is orthogonal to some rows."""
    if not len(rows):
        return torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)
    return torch.linalg.qr(rows.T, mode="complete").Q[:, len(rows) :]


def along(problem: Problem, values: Tensor) -> Tensor:
    """Values of the free slopes and intercepts as a step of items, shape (n_items, n_factors + 2)."""
    step = values.new_zeros(problem.free.shape)
    chosen = problem.free.clone()
    step[chosen] = values
    return step


def covariance_of(problem: Problem, items: ItemTensors, found: Curvature, *, on_principal_axes: bool) -> Tensor:
    """Sampling covariance of slopes and intercept of each item, shape (n_items, n_factors + 1, n_factors + 1).

    Parameters
    ----------
    problem, items
        The model, and its maximum; on principal axes if so said.
    found
        The information there, which must be definite.
    on_principal_axes
        Whether slopes are fixed to be on principal axes; otherwise axes are held where the pattern lets them turn.
    """
    free = problem.free[:, LINEAR]
    fixed = found.turns
    if on_principal_axes:
        constraints = []
        for k, m in itertools.combinations(range(problem.n_factors), 2):
            gradient = items.slope.new_zeros(free.shape)
            gradient[:, k], gradient[:, m] = items.slope[:, m], items.slope[:, k]
            constraints.append(gradient.flatten())
        fixed = torch.stack(constraints)[:, free.flatten()]
    others = complement(fixed)
    within = torch.linalg.inv(others.T @ found.information @ others)
    whole = items.slope.new_zeros(free.numel(), free.numel())
    chosen = torch.nonzero(free.flatten())[:, 0]
    whole[chosen[:, None], chosen[None, :]] = others @ within @ others.T
    each = torch.arange(len(items), device=free.device)
    return whole.reshape(*free.shape, *free.shape)[each, :, each, :]
