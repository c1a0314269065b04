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
from irtbench.estimation.marginal.observed_information import invert, observed_information, told_scale
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.item_tensors import ItemTensors

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
    free, by_estimated = problem.free, problem.by_estimated
    determined = by_estimated[free.flatten()]
    inverse, loose = invert(determined.T @ observed_information(problem, items) @ determined)
    each = told_scale(problem, items) @ by_estimated.view(*free.shape, -1)
    not_told = (each[:, :, loose] != 0).flatten(1).any(dim=1)
    whole = (each.flatten(0, 1) @ inverse @ each.flatten(0, 1).T).view(*free.shape, *free.shape)
    slope = torch.zeros_like(each[:, :1])
    slope[:, :, -1] = 1.0  # the common slope is estimated last
    with_slope = torch.cat([each, slope], dim=1)
    return SharedErrors(with_slope @ inverse @ with_slope.mT, not_told, whole)
