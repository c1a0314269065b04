"""The mode of the items of a model with several abilities, on nodes that are right, and at a maximum.

The steps are those of one ability (`fisher_scoring`). They start on coarse nodes; nodes are then placed for the
posteriors, and the result is checked as with one ability, against finer and wider ones. Steps uphill may end at a
saddle, such as two abilities on which all items have the same slopes: the observed information is then not positive
definite, and the steps go on in the direction in which the likelihood rises.

Where axes may turn, or items share a slope, the information is that in the directions of which the responses tell;
standard errors are under the constraints that name one solution (Silvey, 1959).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from irtbench.estimation.marginal.fisher_scoring import MOST_PLACINGS, find_mode
from irtbench.estimation.marginal.m_step import moved
from irtbench.estimation.marginal.nodes import MOST_ERROR, change_of_likelihood
from irtbench.estimation.marginal.observed_information import (
    MOST_INFLATION,
    natural_by_steps,
    observed_information,
    of_estimated,
)
from irtbench.estimation.marginal.problem import Estimate, Problem
from irtbench.estimation.status import Stop
from irtbench.models.pyro_model.categories import CategoryItems
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors

FIRST_STEPS, FIRST_TOLERANCE = 30, 0.05  # on the nodes to begin with
NEWTON_STEPS = 20  # with one information, where it is known; where slopes grow without end it leads nowhere
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
        In the free parameters, shape (n_free, n_free).
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
class Abilities(ABC):
    """Several abilities behind the responses of a problem, of items without a prior of their slopes.

    Parameters
    ----------
    problem
        Of the items.
    scale
        The items and their models; slopes are the first columns of their parameters.
    """

    problem: Problem
    scale: CategoryItems
    coarse_first: ClassVar[bool] = True  # whether nodes are placed roughly before they are placed in earnest
    bounded: bool = True  # whether the error of the integral is known to be small

    @property
    def n_shared(self) -> int:
        """How many parameters fewer there are than the items' own, because items share some."""
        return int(self.problem.free.sum()) - self.problem.n_estimated

    @abstractmethod
    def starts(self) -> list[ItemTensors]:
        """Items to start from, of which the best is gone on from."""

    @abstractmethod
    def placed(self, items: ItemTensors, *, room: float) -> Self:
        """With nodes for the posteriors at these items, so many standard deviations of the narrowest apart."""

    @abstractmethod
    def others(self, items: ItemTensors, *, room: float) -> NodeTensors:
        """Nodes against which those of `placed` are checked."""

    @property
    @abstractmethod
    def words(self) -> str:
        """Which nodes these are."""

    def on(self, nodes: NodeTensors) -> Self:
        """On these nodes, in the precision of those that it had."""
        return replace(self, problem=replace(self.problem, nodes=replace(nodes, dtype=self.problem.nodes.dtype)))

    def inverse_information(self, items: ItemTensors) -> Tensor | None:
        """The covariance by which Newton steps are taken, see `FisherScoring`; None for steps at expected counts."""
        return None

    @abstractmethod
    def named(self, items: ItemTensors) -> ItemTensors:
        """The solution that is reported, of those that are the same but for axes."""

    def determined(self, items: ItemTensors) -> Tensor:
        """Directions of what is estimated of which responses tell, as columns."""
        return torch.eye(self.problem.n_estimated, dtype=torch.float64, device=self.problem.free.device)

    def reported(self, items: ItemTensors) -> Tensor:
        """Directions that the constraints on the named solution leave it."""
        return self.determined(items)

    def information(self, items: ItemTensors) -> Tensor:
        """Negative Hessian of the log-likelihood by what is estimated, shape (n_estimated, n_estimated)."""
        return of_estimated(self.problem, observed_information(self.problem.in_float64(), items))

    def curvature(self, items: ItemTensors) -> Curvature | None:
        """The information at these items; None where it would be too large."""
        information, determined = self.information(items), self.determined(items)
        sizes, directions = torch.linalg.eigh(determined.T @ information @ determined)
        return Curvature(information, sizes, determined @ directions)

    def along(self, values: Tensor) -> Tensor:
        """Values of what is estimated as a step."""
        return self.problem.by_estimated(values[:, None]).view(self.problem.free.shape)

    def items_moved(self, values: Tensor) -> Tensor:
        """The items that a step in what is estimated moves, shape (n_items,)."""
        return (self.along(values) != 0).any(dim=1)

    def covariance(self, items: ItemTensors, found: Curvature) -> Tensor:
        """Sampling covariance of each item's parameters as they are read, shape (n_items, width, width)."""
        reported = self.reported(items)
        within = torch.linalg.inv(reported.T @ found.information @ reported)
        each = self.problem.by_estimated(reported).view(*self.problem.free.shape, -1)
        each = (natural_by_steps(self.problem, items) @ each)[:, : self.scale.width]
        return each @ within @ each.mT


def with_slopes(items: ItemTensors, slopes: Tensor) -> ItemTensors:
    """The items with other slopes, shape (n_items, n_abilities)."""
    return ItemTensors.from_matrix(torch.cat([slopes, items.matrix[:, slopes.shape[1] :]], dim=1))


#: On the nodes at the end, the estimate (exploratory slopes on principal axes, the covariance of what is read), and the
#: error of the log-likelihood a response.
FoundAbilities = tuple[Abilities, Estimate, float]


def find_mode_of_abilities(
    abilities: Abilities, *, tolerance: float, max_steps: int, standard_errors: bool
) -> FoundAbilities:
    """The mode on nodes that are right for everybody, its curvature tested.

    Parameters
    ----------
    abilities
        On nodes to begin with.
    tolerance, max_steps
        As for `find_mode`.
    standard_errors
        Whether a covariance is wanted.
    """
    first = [
        find_mode(abilities.problem, start=start, tolerance=FIRST_TOLERANCE, max_steps=min(FIRST_STEPS, max_steps))
        for start in abilities.starts()
    ]
    start = max(first, key=lambda mode: mode.log_posterior).items
    steps, saddles, error = sum(mode.status.steps for mode in first), 0, float("nan")
    room = COARSE_ROOM if abilities.coarse_first else ROOM
    for _ in range(1 + MOST_PLACINGS + MOST_SADDLES):
        abilities = abilities.placed(start, room=room)
        rough = room == COARSE_ROOM and abilities.bounded
        enough = max(COARSE_TOLERANCE, tolerance) if rough else tolerance
        if (covariance := abilities.inverse_information(start)) is not None:
            near = find_mode(
                abilities.problem,
                start=start,
                tolerance=enough,
                max_steps=min(NEWTON_STEPS, max_steps),
                covariance=covariance,
            )
            start, steps = near.items, steps + near.status.steps
        mode = find_mode(abilities.problem, start=start, tolerance=enough, max_steps=max_steps)
        steps += mode.status.steps
        start, mode = mode.items, replace(mode, status=replace(mode.status, steps=steps))
        if rough:
            room = ROOM
            continue
        if not mode.status.converged:
            return abilities, replace(mode, items=abilities.named(start)), error
        others = abilities.others(start, room=room)
        error = change_of_likelihood(abilities.problem, start, mode.log_likelihood, others)
        if abilities.bounded and not error < MOST_ERROR:
            room *= FINER
            continue
        start = abilities.named(start)
        mode, found = replace(mode, items=start), abilities.curvature(start)
        if found is not None and found.saddle and saddles < MOST_SADDLES:
            start, saddles = off_the_saddle(abilities, start, found), saddles + 1
            continue
        if found is not None and not found.definite:
            loose = abilities.items_moved(found.loose.to(torch.float64))
            mode, found = replace(mode, status=mode.status.unless_loose(loose.tolist())), None
        if found is not None and standard_errors:
            mode = replace(mode, covariance=abilities.covariance(start, found))
        return abilities, mode, error
    mode = replace(mode, items=abilities.named(start), status=replace(mode.status, stop=Stop.NODES_NOT_RIGHT))
    return abilities, mode, error


def off_the_saddle(abilities: Abilities, items: ItemTensors, found: Curvature) -> ItemTensors:
    """The best of a few points in the direction in which the likelihood rises most."""
    direction = abilities.along(found.directions[:, 0])
    direction = direction / direction.abs().max()
    tried = [moved(items, sign * stride * direction) for stride in STRIDES for sign in (-1.0, 1.0)]
    problem = abilities.problem.in_float64()
    return max(tried, key=lambda items: problem.log_likelihood(items) + float(problem.prior.log_density(items)))
