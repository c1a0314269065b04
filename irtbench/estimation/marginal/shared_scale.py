"""Items that share parameters: their covariance, and the scale on which they are told.

The model's ability is z ~ N(0, 1), and theta = m + s z: with a' and d' the slope and intercept by z,

    a = a' / s,   d = d' - m a' / s,

whose standard errors are by the delta method, for they rest on s and m too.

Beside known items (anchors) all of these rest on the anchors' parameters y = (a, d, c) as well, which have an error of
their own, of covariance S, if they come from a bank. With H the observed information of what is estimated, x, and
C = -d2l / dx dy, the estimate moves by -H^-1 C dy, so that its covariance is

    V = H^-1 + H^-1 C S C' H^-1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.estimation.marginal.m_step import item_derivatives, shared_solver
from irtbench.estimation.marginal.observed_information import invert, observed_information
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.joint_error import JointError
from irtbench.models.pyro_model.item_tensors import GUESSING, INTERCEPT, LINEAR, SLOPES, ItemTensors
from irtbench.models.pyro_model.shared import COMMON_SLOPE, POPULATION_MEAN, POPULATION_SD

#: How the anchors' own error enters standard errors: by their joint covariance, by that of each, or not at all.
AnchorError = Literal["joint", "by item", "taken as known"]

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


@dataclass(frozen=True, eq=False)
class KnownItems:
    """Anchors: items whose parameters are held, and the sampling error that these have.

    Parameters
    ----------
    items
        The anchors.
    places
        Their positions among the items of the fit.
    covariance
        Of (a, d, c) of all of them with each other, shape (n_anchors, 3, n_anchors, 3); None where it is not known, and
        they are taken as known.
    joint
        The joint error that this is from; None where it is that of each item by itself, or there is none.
    """

    items: ItemParameters
    places: tuple[int, ...]
    covariance: NDArray[np.float64] | None = None
    joint: JointError | None = None


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


@dataclass(frozen=True)
class SharedErrors:
    """What is known of the errors of items that share parameters.

    Parameters
    ----------
    joint
        Covariance of (a', d', c) of each item and the shared parameters, shape (n_items, 3 + n_shared, 3 + n_shared).
    loose
        Items that are not determined, shape (n_items,).
    each
        Derivatives of these by all that is estimated, shape (n_items, 3 + n_shared, n_estimated); None for more than
        `MOST_COUPLED_ITEMS`, whose covariance is approximate.
    estimated
        Covariance of all that is estimated, shape (n_estimated, n_estimated); None as before.
    by_known
        Derivatives of it by (a, d, c) of the anchors, shape (n_estimated, n_anchors, 3); None where these are taken as
        known.
    """

    joint: Tensor
    loose: Tensor
    each: Tensor | None = None
    estimated: Tensor | None = None
    by_known: Tensor | None = None


def shared_errors(problem: Problem, items: ItemTensors, anchors: KnownItems | None = None) -> SharedErrors:
    """The errors from the observed information of all up to `MOST_COUPLED_ITEMS`, those of the anchors included.

    Beyond they are from the information of the M step, in which the missing information is linear in theta, and take
    anchors as known: the items' standard errors are the same to half a percent, that of a common slope comes out a
    tenth too small.
    """
    if len(items) > MOST_COUPLED_ITEMS:
        derivatives = item_derivatives(problem, items, problem.counts(items))
        assert derivatives.missing is not None
        joint, loose = shared_solver(problem, derivatives).covariance(derivatives.missing)
        return SharedErrors(joint, loose)
    each, inverse, loose = by_estimated(problem, items)
    by_known = None
    if anchors is not None and anchors.covariance is not None:
        by_known = -torch.einsum("ef,fak->eak", inverse, cross_information(problem, items, anchors))
        error = torch.from_numpy(np.array(anchors.covariance)).to(inverse)
        inverse = inverse + torch.einsum("eak,akbl,fbl->ef", by_known, error, by_known)
    return SharedErrors(each @ inverse @ each.transpose(1, 2), loose, each, inverse, by_known)


def cross_information(problem: Problem, items: ItemTensors, anchors: KnownItems) -> Tensor:
    """C, minus the second derivatives of the log-likelihood by what is estimated and by (a, d, c) of the anchors.

    By an anchor's a' = s a and d' = d + m a these are the observed information of all, x' I y, less the gradient by a'
    and d' where these are products of s or m and a. Shape (n_estimated, n_anchors, 3).
    """
    shared = problem.prior.shared
    assert shared is not None
    c, places = items.guessing, torch.tensor(anchors.places, device=items.guessing.device)
    sd, mean = shared_values(problem, items)
    known = torch.zeros_like(problem.guessing_free)
    known[places] = c[places] > 0
    if bool(known.any()):  # as if guessing were estimated there; no prior has a part in it
        densities = {name: density for name, density in problem.prior.densities.items() if name != "guessing_logit"}
        prior = replace(problem.prior, densities=densities, guessing_free=problem.guessing_free | known)
        information = observed_information(replace(problem, prior=prior), items)
        free = problem.free.clone()
        free[:, GUESSING] |= known
    else:
        information, free = observed_information(problem, items), problem.free
    n_items, width = free.shape
    by_free = free_parameters(problem)
    by_known = torch.zeros(n_items, width, len(places), 3, dtype=torch.float64, device=c.device)
    each = torch.arange(len(places), device=c.device)
    by_known[places, 0, each, 0], by_known[places, INTERCEPT, each, 0] = sd, mean
    by_known[places, INTERCEPT, each, 1] = 1.0
    by_known[places, GUESSING, each, 2] = torch.where(known, 1 / (c * (1 - c)), 0.0)[places]
    chosen = free.flatten()
    varying, moved = by_free[: n_items * width][chosen], by_known.flatten(2).flatten(0, 1)[chosen]
    cross = (varying.T @ information @ moved).reshape(-1, len(places), 3)
    gradient = item_derivatives(problem, items, problem.counts(items)).gradient[places]
    n_own = by_free.shape[1] - len(shared.names)
    cross[n_own, :, 0] -= gradient[:, SLOPES][:, 0]
    cross[n_own + 1, :, 0] -= gradient[:, INTERCEPT]
    return cross


def by_estimated(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor, Tensor]:
    """Derivatives of (a', d', c) of each item and the shared parameters by all that is estimated, and its covariance.

    Shapes (n_items, 3 + n_shared, n_estimated) and (n_estimated, n_estimated); and the items not determined.
    """
    n_items, width = problem.free.shape
    by_free = free_parameters(problem)
    varying = by_free[: n_items * width][problem.free.flatten()]
    inverse, loose = invert(varying.T @ observed_information(problem, items) @ varying)
    scale = torch.ones(n_items, width, dtype=torch.float64, device=by_free.device)
    scale[:, GUESSING] = items.guessing * (1 - items.guessing)  # dc = c (1 - c) dlogit
    by_free[: n_items * width] *= scale.flatten()[:, None]
    below = by_free[n_items * width :].expand(n_items, -1, -1)
    each = torch.cat([by_free[: n_items * width].reshape(n_items, width, -1), below], dim=1)
    return each, inverse, (each[:, :width, loose] != 0).flatten(1).any(dim=1)


def free_parameters(problem: Problem) -> Tensor:
    """Derivatives of (a', d', logit c) of every item, and below of what they share, by all that is estimated.

    Shape (3 n_items + n_shared, n_estimated); the shared parameters are estimated last.
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


def theta_covariance(
    items: ItemTensors, joint: Tensor, names: tuple[str, ...], mean: float, sd: float
) -> NDArray[np.float64]:
    """Covariance of each item's (a, d, c) where theta has this mean and standard deviation, shape (n_items, 3, 3).

    Parameters
    ----------
    items
        By z.
    joint
        See `SharedErrors`.
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
    problem: Problem,
    items: ItemTensors,
    names: tuple[str, ...],
    mean: float,
    sd: float,
    errors: SharedErrors | None = None,
    anchors: KnownItems | None = None,
) -> NDArray[np.float64]:
    """The same of all items with each other, the anchors by what is known of them, (n_items, 3, n_items, 3)."""
    if errors is None or errors.each is None or errors.estimated is None:
        each, estimated, _ = by_estimated(problem, items)
    else:
        each, estimated = errors.each, errors.estimated
    by = (by_shared(items, each.shape[1], names, mean, sd) @ each).flatten(0, 1)
    covariance = (by @ estimated @ by.T).reshape(len(items), 3, len(items), 3)
    if errors is not None and errors.by_known is not None:
        assert anchors is not None
        error = torch.from_numpy(np.array(anchors.covariance)).to(covariance)
        moved = torch.einsum("pe,eak,akbl->pbl", by, errors.by_known, error).reshape(len(items), 3, -1, 3)
        places = torch.tensor(anchors.places, device=covariance.device)
        covariance[:, :, places], covariance[places] = moved, moved.permute(2, 3, 0, 1)
        covariance[places[:, None], :, places[None, :]] = error.permute(0, 2, 1, 3)
    found: NDArray[np.float64] = covariance.cpu().numpy()
    found[np.abs(found) < NOTHING] = 0.0
    return found


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
    """The population with its standard errors, from `SharedErrors.joint`."""
    errors = {
        name: float("nan") if joint is None else float(joint[0, place, place].sqrt())
        for place, name in enumerate(names, start=3)
    }
    of_sd = errors[COMMON_SLOPE if COMMON_SLOPE in errors else POPULATION_SD]
    return NormalMoments(mean, sd, errors.get(POPULATION_MEAN, 0.0), of_sd)
