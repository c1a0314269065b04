"""What all items of a scale share: one slope, the population; and their errors with those of the items.

The model's ability is z ~ N(0, 1) with logit s z + d_j (1PL); a Rasch item is read by theta = s z, with slope 1 and
intercept d_j, and ability N(0, s^2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from irtbench.estimation.marginal.m_step import item_derivatives, shared_solver
from irtbench.estimation.marginal.observed_information import (
    blocks_of,
    invert,
    natural_by_steps,
    observed_information,
)
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.tensors import ItemTensors

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


@dataclass(frozen=True)
class Errors:
    """Sampling error of items and population, on the scale on which they are read.

    Parameters
    ----------
    items
        Covariance of each item's parameters, shape (n_items, width, width); those of anchors their own.
    joint
        Of all items with each other, shape (n_items, width, n_items, width); None where items are too many.
    loose
        Items that are not determined, shape (n_items,).
    moments
        Standard errors of the population's mean and standard deviation, where these are estimated.
    """

    items: NDArray[np.float64]
    joint: NDArray[np.float64] | None
    loose: Tensor
    moments: tuple[float, float] = (0.0, 0.0)


def slope_of_all(problem: Problem, items: ItemTensors) -> float:
    """The slope that all items have, the standard deviation of a Rasch model's ability; no less than `LEAST_SD`."""
    assert problem.prior.shared is not None
    return max(float(problem.prior.shared.nearest(items.linear)[0]), LEAST_SD)


def ability_vanishes(problem: Problem, items: ItemTensors) -> bool:
    """Whether the slope of all items has gone to its bound 0."""
    shared = problem.prior.shared
    return shared is not None and float(shared.nearest(items.linear)[0].abs()) <= LEAST_SD


def shared_errors(problem: Problem, items: ItemTensors) -> Errors:
    """The errors of items of one slope, from the observed information of all up to `MOST_COUPLED_ITEMS`.

    Beyond they are from the information of the M step, in which the missing information is linear in theta: the items'
    standard errors are the same to half a percent, that of the common slope comes out a tenth too small.
    """
    joint = None
    if len(items) > MOST_COUPLED_ITEMS:
        derivatives = item_derivatives(problem, items, problem.counts(items))
        assert derivatives.missing is not None
        with_slope, loose = shared_solver(problem, derivatives).covariance(derivatives.missing)
        each, of_slope = with_slope[:, :3, :3].cpu().numpy(), with_slope[0, 3, 3]
    else:
        free, by_estimated = problem.free, problem.by_estimated
        determined = by_estimated[free.flatten()]
        inverse, undetermined = invert(determined.T @ observed_information(problem, items) @ determined)
        moved = natural_by_steps(problem, items) @ by_estimated.view(*free.shape, -1)
        loose = (moved[:, :, undetermined] != 0).flatten(1).any(dim=1)
        whole = moved.flatten(0, 1) @ inverse @ moved.flatten(0, 1).T
        joint = whole.view(*free.shape, *free.shape).cpu().numpy()
        joint[np.abs(joint) < NOTHING] = 0.0
        each, of_slope = blocks_of(joint), inverse[-1, -1]  # the common slope is estimated last
    if problem.prior.by_theta:
        each[:, 0, :] = each[:, :, 0] = 0.0
        if joint is not None:
            joint[:, 0] = joint[:, :, :, 0] = 0.0
    each[np.abs(each) < NOTHING] = 0.0
    return Errors(each, joint, loose, (0.0, float(of_slope.sqrt())))
