"""One slope for all items: its errors with those of the items, and the scale on which they are read.

The model's ability is z ~ N(0, 1) with logit s z + d_j (1PL); a Rasch item is read by theta = s z, with slope 1 and
intercept d_j, and ability N(0, s^2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.estimation.marginal.m_step import item_derivatives, shared_solver
from irtbench.estimation.marginal.observed_information import invert, observed_information
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.item_tensors import GUESSING, LINEAR, ItemTensors

MOST_COUPLED_ITEMS = 1000  # with more the standard errors of what they share are approximate
LEAST_SD = 1e-3  # of ability: below it the likelihood is highest where ability does not vary
NOTHING = 1e-15  # variance that rounding leaves of a parameter that does not vary


@dataclass(frozen=True)
class NormalMoments:
    """The population on the scale of theta, with standard errors; 0 where a moment is fixed, NaN where not known.

    Parameters
    ----------
    mean, sd
        Of ability.
    se_mean, se_sd
        Their standard errors.
    """

    mean: float
    sd: float
    se_mean: float
    se_sd: float


def slope_of_all(problem: Problem, items: ItemTensors) -> float:
    """The slope that all items have, the standard deviation of a Rasch model's ability; no less than `LEAST_SD`."""
    assert problem.prior.shared is not None
    return max(float(problem.prior.shared.nearest(items.linear)[0]), LEAST_SD)


def ability_vanishes(problem: Problem, items: ItemTensors) -> bool:
    """Whether the slope of all items has gone to its bound 0."""
    shared = problem.prior.shared
    return shared is not None and float(shared.nearest(items.linear)[0].abs()) <= LEAST_SD


@dataclass(frozen=True)
class SharedErrors:
    """What is known of the errors of items of one slope.

    Parameters
    ----------
    joint
        Covariance of (a, d, c) of each item and the common slope, shape (n_items, 4, 4).
    loose
        Items that are not determined, shape (n_items,).
    whole
        Covariance of (a, d, c) of all items with each other, shape (n_items, 3, n_items, 3); None for more than
        `MOST_COUPLED_ITEMS`.
    """

    joint: Tensor
    loose: Tensor
    whole: Tensor | None = None

    def read(self, *, unit_slopes: bool) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Covariances of each item's (a, d, c), and of all with each other; slopes have none where they are 1."""
        found = []
        for own, axes in ((self.joint[:, :3, :3], (1, 2)), (self.whole, (1, 3))):
            read = None if own is None else own.cpu().numpy().copy()
            if read is not None:
                read[np.abs(read) < NOTHING] = 0.0
                for axis in axes if unit_slopes else ():
                    np.moveaxis(read, axis, 0)[0] = 0.0
            found.append(read)
        assert found[0] is not None
        return found[0], found[1]


def shared_errors(problem: Problem, items: ItemTensors) -> SharedErrors:
    """The errors from the observed information of all up to `MOST_COUPLED_ITEMS`.

    Beyond they are from the information of the M step, in which the missing information is linear in theta: the items'
    standard errors are the same to half a percent, that of the common slope comes out a tenth too small.
    """
    if len(items) > MOST_COUPLED_ITEMS:
        derivatives = item_derivatives(problem, items, problem.counts(items))
        assert derivatives.missing is not None
        return SharedErrors(*shared_solver(problem, derivatives).covariance(derivatives.missing))
    n_items, width = problem.free.shape
    by_free = free_parameters(problem)
    varying = by_free[: n_items * width][problem.free.flatten()]
    inverse, loose = invert(varying.T @ observed_information(problem, items) @ varying)
    scale = torch.ones(n_items, width, dtype=torch.float64, device=by_free.device)
    scale[:, GUESSING] = items.guessing * (1 - items.guessing)  # dc = c (1 - c) dlogit
    by_free[: n_items * width] *= scale.flatten()[:, None]
    below = by_free[n_items * width :].expand(n_items, -1, -1)
    each = torch.cat([by_free[: n_items * width].reshape(n_items, width, -1), below], dim=1)
    not_told = (each[:, :width, loose] != 0).flatten(1).any(dim=1)
    flat = each[:, :width].flatten(0, 1)
    whole = (flat @ inverse @ flat.T).view(n_items, width, n_items, width)
    return SharedErrors(each @ inverse @ each.transpose(1, 2), not_told, whole)


def free_parameters(problem: Problem) -> Tensor:
    """Derivatives of (a, d, logit c) of every item, and below of the common slope, by all that is estimated.

    Shape (3 n_items + 1, n_estimated); the common slope is estimated last.
    """
    shared = problem.prior.shared
    assert shared is not None
    n_items, width = problem.free.shape
    own = torch.zeros(n_items, width, dtype=torch.bool, device=problem.free.device)
    own[:, LINEAR], own[:, GUESSING] = shared.own, problem.guessing_free
    n_own, n_shared = int(own.sum()), len(shared.names)
    by_free = torch.zeros(n_items * width + n_shared, n_own + n_shared, dtype=torch.float64, device=own.device)
    by_free[torch.nonzero(own.flatten())[:, 0], torch.arange(n_own, device=own.device)] = 1.0
    design = torch.zeros(n_items, width, n_shared, dtype=torch.float64, device=own.device)
    design[:, LINEAR] = shared.design.permute(1, 2, 0)
    by_free[: n_items * width, n_own:] = design.flatten(0, 1)
    by_free[n_items * width :, n_own:] = torch.eye(n_shared, dtype=torch.float64, device=own.device)
    return by_free
