"""The mode of the items of a model with several abilities, on nodes that are right, and at a maximum.

The steps are those of one ability (`marginal.mode`). They start on coarse nodes; nodes are then placed for the
posteriors, and the result is checked as with one ability, against finer and wider ones. Steps uphill may end at a
saddle, such as two abilities on which all items have the same slopes: the observed information is then not positive
definite, and the steps go on in the direction in which the likelihood rises.

Where axes may turn, or items share a slope, the information is that in the directions of which the responses tell;
standard errors are under the constraints that name one solution (Silvey, 1959).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import torch
from torch import Tensor

from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.marginal.m_step import moved
from irtbench.estimation.marginal.mode import MOST_PLACINGS, find_mode
from irtbench.estimation.marginal.nodes import MOST_ERROR, change_of_likelihood
from irtbench.estimation.marginal.observed_information import MOST_INFLATION, observed_information
from irtbench.estimation.marginal.problem import Estimate, Problem
from irtbench.estimation.status import Stop
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.item_tensors import LINEAR, ItemTensors
from irtbench.models.pyro_model.model import logistic_model
from irtbench.models.pyro_model.node_tensors import NodeTensors

FIRST_STEPS, FIRST_TOLERANCE = 30, 0.05  # on the nodes to begin with
COARSE_ROOM, COARSE_TOLERANCE = 1.6, 0.02  # standard deviations of the narrowest posterior that nodes are apart
ROOM, FINER = 1.3, 0.7  # the same in earnest, and the share of it where nodes were found wrong
MOST_SADDLES = 5
STRIDES = (0.1, 0.3, 1.0)  # logits in the direction in which the likelihood rises
SMALLEST_CURVATURE = 1e-7  # of the largest: with less a direction counts as flat


@dataclass(frozen=True)
class Curvature:
    """The information in the directions of which responses tell.

    Parameters
    ----------
    information
        In the free slopes and intercepts, item by item, shape (n_free, n_free).
    sizes, directions
        Eigenvalues in these directions, rising, and the eigenvectors as columns, shape (n_free, n_directions).
    """

    information: Tensor
    sizes: Tensor
    directions: Tensor

    @property
    def definite(self) -> bool:
        """Whether these parameters are a maximum."""
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


@dataclass(frozen=True)
class AbilitiesProblem(Problem):
    """A problem of several abilities, without a prior."""

    coarse_first = True  # whether nodes are placed roughly before they are placed in earnest
    bounded = True  # whether the error of the integral is known to be small

    def starts(self) -> list[ItemTensors]:
        """Items to start from, of which the best is gone on from."""
        raise NotImplementedError

    def placed(self, items: ItemTensors, *, room: float) -> Self:
        """With nodes for the posteriors at these items, so many standard deviations of the narrowest apart."""
        raise NotImplementedError

    def others(self, items: ItemTensors, *, room: float) -> NodeTensors:
        """Nodes against which those of `placed` are checked."""
        raise NotImplementedError

    @property
    def words(self) -> str:
        """Which nodes these are."""
        raise NotImplementedError

    def nearer(self, items: ItemTensors, tolerance: float) -> tuple[ItemTensors, int]:
        """Items to take the steps from, and the number of steps that led there."""
        return items, 0

    def named(self, items: ItemTensors) -> ItemTensors:
        """The solution that is reported, of those that are the same but for axes."""
        raise NotImplementedError

    def determined(self, items: ItemTensors) -> Tensor:
        """Directions of the free parameters of which responses tell, as columns."""
        raise NotImplementedError

    def reported(self, items: ItemTensors) -> Tensor:
        """Directions that the constraints on the named solution leave it."""
        return self.determined(items)

    def curvature(self, items: ItemTensors) -> Curvature | None:
        """The information at these items; None where it would be too large."""
        return curvature(self, items)


def curvature(problem: AbilitiesProblem, items: ItemTensors) -> Curvature:
    """The information at these items on the problem's nodes."""
    information, determined = observed_information(problem.in_float64(), items), problem.determined(items)
    sizes, directions = torch.linalg.eigh(determined.T @ information @ determined)
    return Curvature(information, sizes, determined @ directions)


def flat_model(responses: ResponseMatrix, device: torch.device) -> Callable[..., None]:
    """The Pyro model of a 2PL without a prior."""
    zeros = torch.zeros(responses.n_items, dtype=torch.float64, device=device)
    return partial(
        logistic_model, priors=Priors.named("none"), guessing_free=zeros.to(torch.bool), guessing_fixed=zeros
    )


@dataclass(frozen=True)
class AbilitiesMode:
    """Items of a model with several abilities.

    Parameters
    ----------
    mode
        The estimate; exploratory slopes are on principal axes.
    covariance
        Of slopes and intercept of each item, shape (n_items, n_factors + 1, n_factors + 1); None if not computed.
    nodes
        The nodes in words.
    integration_error
        Of the log-likelihood a response.
    """

    mode: Estimate
    covariance: Tensor | None
    nodes: str
    integration_error: float


def find_mode_of_abilities(
    problem: AbilitiesProblem, *, tolerance: float, max_steps: int, standard_errors: bool
) -> AbilitiesMode:
    """The mode on nodes that are right for everybody, its curvature tested.

    Parameters
    ----------
    problem
        Of several abilities, on nodes to begin with.
    tolerance, max_steps
        As for `find_mode`.
    standard_errors
        Whether a covariance is wanted.
    """
    first = [
        find_mode(problem, start=start, tolerance=FIRST_TOLERANCE, max_steps=min(FIRST_STEPS, max_steps))
        for start in problem.starts()
    ]
    start = max(first, key=lambda mode: mode.log_posterior).items
    steps, saddles, error = sum(mode.status.steps for mode in first), 0, float("nan")
    room = COARSE_ROOM if problem.coarse_first else ROOM
    for _ in range(1 + MOST_PLACINGS + MOST_SADDLES):
        problem = problem.placed(start, room=room)
        rough = room == COARSE_ROOM and problem.bounded
        start, newton_steps = problem.nearer(start, tolerance)
        enough = max(COARSE_TOLERANCE, tolerance) if rough else tolerance
        mode = find_mode(problem, start=start, tolerance=enough, max_steps=max_steps)
        steps += mode.status.steps + newton_steps
        start, mode = mode.items, replace(mode, status=replace(mode.status, steps=steps))
        if rough:
            room = ROOM
            continue
        if not mode.status.converged:
            return AbilitiesMode(replace(mode, items=problem.named(start)), None, problem.words, error)
        error = change_of_likelihood(problem, start, mode.log_likelihood, problem.others(start, room=room))
        if problem.bounded and not error < MOST_ERROR:
            room *= FINER
            continue
        start = problem.named(start)
        mode, found = replace(mode, items=start), problem.curvature(start)
        if found is not None and found.saddle and saddles < MOST_SADDLES:
            start, saddles = off_the_saddle(problem, start, found), saddles + 1
            continue
        if found is not None and not found.definite:
            loose = along(problem, found.loose.to(torch.float64)).any(dim=1)
            mode, found = replace(mode, status=mode.status.unless_loose(loose.tolist())), None
        covariance = covariance_of(problem, start, found) if found is not None and standard_errors else None
        return AbilitiesMode(mode, covariance, problem.words, error)
    mode = replace(mode, items=problem.named(start), status=replace(mode.status, stop=Stop.NODES_NOT_RIGHT))
    return AbilitiesMode(mode, None, problem.words, error)


def off_the_saddle(problem: AbilitiesProblem, items: ItemTensors, found: Curvature) -> ItemTensors:
    """The best of a few points in the direction in which the likelihood rises most."""
    direction = along(problem, found.directions[:, 0])
    direction = direction / direction.abs().max()
    tried = [moved(items, sign * stride * direction) for stride in STRIDES for sign in (-1.0, 1.0)]
    return max(tried, key=problem.in_float64().log_likelihood)


def along(problem: Problem, values: Tensor) -> Tensor:
    """Values of the free slopes and intercepts as a step of items, shape (n_items, n_factors + 2)."""
    return values.new_zeros(problem.free.shape).masked_scatter(problem.free, values)


def covariance_of(problem: AbilitiesProblem, items: ItemTensors, found: Curvature) -> Tensor:
    """Sampling covariance of slopes and intercept of each item, shape (n_items, n_factors + 1, n_factors + 1)."""
    reported, free = problem.reported(items), problem.free[:, LINEAR]
    within = torch.linalg.inv(reported.T @ found.information @ reported)
    each = reported.new_zeros(free.numel(), reported.shape[1])
    each[free.flatten()] = reported
    each = each.view(*free.shape, -1)
    return each @ within @ each.mT
