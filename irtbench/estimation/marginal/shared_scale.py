"""Items that share parameters: their covariance, and the scale on which they are told.

The model's ability is z ~ N(0, 1), and theta = m + s z: with a' and d' the slope and intercept by z,

    a = a' / s,   d = d' - m a' / s,

whose standard errors are by the delta method, for they rest on s and m too.
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
from irtbench.models.pyro_model.shared import COMMON_SLOPE, POPULATION_MEAN, POPULATION_SD

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


def shared_values(problem: Problem, items: ItemTensors) -> Tensor:
    """Values of the shared parameters at these items, shape (n_shared,)."""
    assert problem.prior.shared is not None
    return problem.prior.shared.nearest(items.linear)


def population_of(problem: Problem, items: ItemTensors) -> tuple[float, float]:
    """Mean and standard deviation of theta: where slopes are told as 1, or beside known items."""
    assert problem.prior.shared is not None
    values = dict(zip(problem.prior.shared.names, shared_values(problem, items).tolist(), strict=True))
    if COMMON_SLOPE in values:
        return 0.0, max(values[COMMON_SLOPE], LEAST_SD)
    return values[POPULATION_MEAN], max(values[POPULATION_SD], LEAST_SD)


def ability_vanishes(problem: Problem, items: ItemTensors) -> bool:
    """Whether the standard deviation of ability, or the slope of all items, has gone to its bound 0."""
    return problem.prior.shared is not None and float(shared_values(problem, items)[0].abs()) <= LEAST_SD


def joint_covariance(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor]:
    """Covariance of (a', d', c) of each item and the shared parameters, and the items that are not determined.

    From the observed information of all up to `MOST_COUPLED_ITEMS`; beyond from that of the M step, in which the
    missing information is linear in theta: the items' standard errors are the same to half a percent, that of a
    common slope comes out a tenth too small. Shape (n_items, 3 + n_shared, 3 + n_shared).
    """
    if len(items) > MOST_COUPLED_ITEMS:
        derivatives = item_derivatives(problem, items, problem.counts(items))
        assert derivatives.missing is not None
        return shared_solver(problem, derivatives).covariance(derivatives.missing)
    each, inverse, loose = by_estimated(problem, items)
    return each @ inverse @ each.transpose(1, 2), loose


def by_estimated(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor, Tensor]:
    """Derivatives of (a', d', c) of each item and the shared parameters by all that is estimated, and its covariance.

    Shapes (n_items, 3 + n_shared, n_estimated) and (n_estimated, n_estimated); and the items not determined.
    """
    shared = problem.prior.shared
    assert shared is not None
    n_items, width = problem.free.shape
    own = torch.zeros(n_items, width, dtype=torch.bool, device=problem.free.device)
    own[:, LINEAR], own[:, GUESSING] = shared.own, problem.guessing_free
    n_own, n_shared = int(own.sum()), len(shared.names)
    # every parameter, and the shared ones below, by those that are estimated
    by_free = torch.zeros(n_items * width + n_shared, n_own + n_shared, dtype=torch.float64, device=own.device)
    by_free[torch.nonzero(own.flatten())[:, 0], torch.arange(n_own, device=own.device)] = 1.0
    design = torch.zeros(n_items, width, n_shared, dtype=torch.float64, device=own.device)
    design[:, LINEAR] = shared.design.permute(1, 2, 0)
    by_free[: n_items * width, n_own:] = design.flatten(0, 1)
    by_free[n_items * width :, n_own:] = torch.eye(n_shared, dtype=torch.float64, device=own.device)
    varying = by_free[: n_items * width][problem.free.flatten()]
    inverse, loose = invert(varying.T @ observed_information(problem, items) @ varying)
    scale = torch.ones(n_items, width, dtype=torch.float64, device=own.device)
    scale[:, GUESSING] = items.guessing * (1 - items.guessing)  # dc = c (1 - c) dlogit
    by_free[: n_items * width] *= scale.flatten()[:, None]
    below = by_free[n_items * width :].expand(n_items, -1, -1)
    each = torch.cat([by_free[: n_items * width].reshape(n_items, width, -1), below], dim=1)
    return each, inverse, (each[:, :width, loose] != 0).flatten(1).any(dim=1)


def theta_covariance(
    items: ItemTensors, joint: Tensor, names: tuple[str, ...], mean: float, sd: float
) -> NDArray[np.float64]:
    """Covariance of each item's (a, d, c) where theta has this mean and standard deviation, shape (n_items, 3, 3).

    Parameters
    ----------
    items
        By z.
    joint
        See `joint_covariance`.
    names
        The shared parameters that mean and standard deviation rest on, in the order of `joint`; empty if on none.
    mean, sd
        Of theta.
    """
    by = by_shared(items, joint.shape[1], names, mean, sd)
    covariance: NDArray[np.float64] = (by @ joint @ by.transpose(1, 2)).cpu().numpy()
    covariance[np.abs(covariance) < NOTHING] = 0.0
    return covariance


def whole_theta_covariance(
    problem: Problem, items: ItemTensors, names: tuple[str, ...], mean: float, sd: float
) -> NDArray[np.float64]:
    """The same of all items with each other, shape (n_items, 3, n_items, 3)."""
    each, inverse, _ = by_estimated(problem, items)
    by = (by_shared(items, each.shape[1], names, mean, sd) @ each).flatten(0, 1)
    covariance: NDArray[np.float64] = (by @ inverse @ by.T).reshape(len(items), 3, len(items), 3).cpu().numpy()
    covariance[np.abs(covariance) < NOTHING] = 0.0
    return covariance


def by_shared(items: ItemTensors, n_columns: int, names: tuple[str, ...], mean: float, sd: float) -> Tensor:
    """Derivatives of (a, d, c) by (a', d', c) and the shared parameters, shape (n_items, 3, n_columns)."""
    slope, width = items.slope[:, 0], 3
    by = torch.zeros(len(items), width, n_columns, dtype=torch.float64, device=slope.device)
    by[:, 0, 0], by[:, 1, 1], by[:, 2, 2] = 1 / sd, 1.0, 1.0
    by[:, 1, 0] = -mean / sd
    for place, name in enumerate(names, start=width):
        if name in (COMMON_SLOPE, POPULATION_SD):
            by[:, 0, place], by[:, 1, place] = -slope / sd**2, mean * slope / sd**2
        else:
            by[:, 1, place] = -slope / sd
    return by


def moments_of(names: tuple[str, ...], mean: float, sd: float, joint: Tensor | None) -> NormalMoments:
    """The population with its standard errors, from `joint_covariance`."""
    errors = {
        name: float("nan") if joint is None else float(joint[0, place, place].sqrt())
        for place, name in enumerate(names, start=3)
    }
    of_sd = errors[COMMON_SLOPE if COMMON_SLOPE in errors else POPULATION_SD]
    return NormalMoments(mean, sd, errors.get(POPULATION_MEAN, 0.0), of_sd)
