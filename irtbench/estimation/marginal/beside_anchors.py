"""Items beside known ones (anchors), which stay as they are: these respondents' mean and standard deviation of ability
are estimated with the other items.

They are one of two groups (`GroupProblem`), of which the other, of N(0, 1) on the anchors' scale, has no responses. All
of that rests on the anchors' parameters y as well, which have an error of their own, of covariance S, if they come from
a bank. With x what is estimated, all parameters E x + Y y, and I their observed information, the estimate moves by B dy
with B = -(E'IE)^-1 E'IY, and all parameters by T dy with T = E B + Y, so that their covariance is

    V = E (E'IE)^-1 E' + T S T'.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.estimation.marginal.designed_problem import DesignedProblem
from irtbench.estimation.marginal.group_problem import (
    BOUND,
    GroupProblem,
    designed_in_groups,
    find_group_mode,
    group_nodes,
    groups_of,
    scores,
)
from irtbench.estimation.marginal.mode import find_mode
from irtbench.estimation.marginal.observed_information import (
    invert,
    observed_information,
    own_information,
    told_scale,
)
from irtbench.estimation.marginal.problem import Estimate, Problem
from irtbench.estimation.marginal.shared_scale import LEAST_SD, NormalMoments
from irtbench.estimation.marginal.start import starting_values
from irtbench.models.item_parameters import ItemParameters, JointError
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.rows import MISSING, DenseRows, ResponseRows, SparseRows

#: How the anchors' own error enters standard errors: by their joint covariance, by that of each, or not at all.
AnchorError = Literal["joint", "by item", "taken as known"]

MOST_COUPLED_ITEMS = 1000  # with more each item's error is that beside a population that is known
FEW, SAMPLE = 0.05, 2_000  # a tolerance for a start, and respondents it is from
DIFFERENCE = 1e-4  # of a mean or a log standard deviation


@dataclass(frozen=True, eq=False)
class KnownItems:
    """Anchors: their places among the items of a fit, and the sampling error that they have.

    Parameters
    ----------
    items
        The anchors.
    places
        Their positions among the items of the fit.
    covariance
        Of their parameters with each other, shape (n_anchors, width, n_anchors, width); None where it is not known, and
        they are taken as known.
    joint
        The joint error that this is from; None where it is that of each item by itself, or there is none.
    """

    items: ItemParameters
    places: tuple[int, ...]
    covariance: NDArray[np.float64] | None = None
    joint: JointError | None = None

    @property
    def error(self) -> AnchorError:
        """How it enters the standard errors."""
        if self.covariance is None or len(self.places) > MOST_COUPLED_ITEMS:
            return "taken as known"
        return "by item" if self.joint is None else "joint"


@dataclass(frozen=True)
class Placed:
    """Where the likelihood of items beside known ones is largest.

    Parameters
    ----------
    problem
        Of the two groups, perhaps with a design.
    parameters
        Of items and population, as steps are taken in.
    respondents
        The problem of the respondents alone, on the anchors' scale.
    found
        The items there.
    """

    problem: Problem
    parameters: ItemTensors
    respondents: Problem
    found: Estimate

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation of ability."""
        groups = groups_of(self.problem)
        mean, log_deviation = groups.prior.populations(self.problem.whole(self.parameters))
        return float(mean), float(log_deviation.exp())

    @property
    def ability_vanishes(self) -> bool:
        """Whether the standard deviation has gone to its bound 0."""
        return self.moments[1] <= LEAST_SD


def place_beside(
    problem: Problem,
    *,
    n_nodes: int,
    tolerance: float,
    max_steps: int,
    start: ItemTensors | None = None,
    design: Tensor | None = None,
    find: Callable[..., Estimate] = find_mode,
) -> Placed:
    """The mode of the items that are not known, and of the population.

    Parameters
    ----------
    problem
        Of one group, whose known items are constants.
    n_nodes, tolerance, max_steps
        As in `FitSettings`.
    start
        Items to start from, on the anchors' scale.
    design
        By which the items' parameters are made of fewer, see `DesignedProblem`.
    find
        Finds the mode.
    """
    nodes = group_nodes(BOUND, 12 / (n_nodes - 1), problem.nodes.dtype, problem.rows.device)
    n_items, width = problem.free.shape
    differs = torch.zeros(n_items, width, dtype=torch.bool, device=problem.free.device)

    def grouped(rows: ResponseRows) -> GroupProblem:
        both = (nothing(rows), rows)
        return GroupProblem.of_groups(replace(problem, rows=rows, nodes=nodes), both, differs)

    groups = grouped(problem.rows)
    at = groups.prior.joined(*(start_beside(problem) if start is None else (known_in_place(problem, start),)))
    stride = problem.rows.n_respondents // SAMPLE
    if stride >= 2 and not isinstance(problem.rows, SparseRows) and start is None:
        _, rough = find_group_mode(grouped(problem.rows.every(stride)), at, tolerance=FEW, max_steps=max_steps)
        at = rough.items if rough.status.converged else at
    whole: Problem = groups
    if design is not None:
        designed = designed_in_groups(groups, design)
        whole, at = designed, designed.free_of(at)
    whole, found = find_group_mode(whole, at, tolerance=tolerance, max_steps=max_steps, find=find)
    groups, parameters = groups_of(whole), found.items
    everything = whole.whole(parameters)
    items = groups.prior.items_of_group(everything, 1)
    part = replace(groups.part(1, groups.log_moments(everything)[1]), prior=problem.prior, model=problem.model)
    counts = None if found.counts is None else found.counts.each[1]  # type: ignore[attr-defined]
    return Placed(whole, parameters, part, replace(found, items=items, counts=counts))


def nothing(rows: ResponseRows) -> DenseRows:
    """A respondent who answered none of these items."""
    values = torch.full((1, rows.n_items), MISSING, dtype=torch.int8, device=rows.device)
    return DenseRows(values, torch.zeros_like(rows.n_correct), complete=False, categories=rows.categories)


def known_in_place(problem: Problem, items: ItemTensors) -> ItemTensors:
    """The items with the known parameters where these are known."""
    return ItemTensors.from_matrix(torch.where(problem.free, items.matrix, problem.prior.fixed.matrix))


def start_beside(problem: Problem) -> tuple[ItemTensors, Tensor, Tensor]:
    """Items, mean and log standard deviation to start from: by the anchors on their scale and on that of N(0, 1).

    With ability m + s z slopes by z are s a and intercepts d + m a: s and m by least squares.
    """
    start, known, free = starting_values(problem), problem.prior.fixed.matrix, problem.free
    held = ~free[:, 0] & problem.has_one_slope
    a, d = known[held, 0], known[held, 1]
    size = (a @ a).clamp(min=1e-6)
    if float(a @ start.matrix[held, 0]) < 0:
        start = problem.turned(start)
    mean, sd = (a @ (start.matrix[held, 1] - d)) / size, (a @ start.matrix[held, 0]) / size
    sd = sd.clamp(min=0.1) if bool(held.any()) else torch.ones_like(sd)
    placed = problem.rescaled(start, float(-mean / sd), float(1 / sd))
    return known_in_place(problem, placed), mean[None], sd.log()[None]


@dataclass(frozen=True)
class ErrorsBeside:
    """Sampling error of items and population, on the scale on which they are read.

    Parameters
    ----------
    items
        Covariance of each item's parameters, shape (n_items, width, width); those of the anchors their own.
    joint
        Of all items with each other, shape (n_items, width, n_items, width); None for more than `MOST_COUPLED_ITEMS`.
    moments
        Standard errors of the mean and the standard deviation.
    loose
        Items that are not determined, shape (n_items,).
    """

    items: NDArray[np.float64]
    joint: NDArray[np.float64] | None
    moments: tuple[float, float]
    loose: Tensor


def errors_beside(placed: Placed, anchors: KnownItems) -> ErrorsBeside:
    """The errors, with those of the anchors in them as far as these are known."""
    groups, everything = groups_of(placed.problem), placed.problem.whole(placed.parameters)
    n_items, width = placed.respondents.free.shape
    if n_items > MOST_COUPLED_ITEMS:
        return errors_of_many(placed)
    n_rows, n_columns = groups.free.shape
    scale = told_scale(groups, everything)
    thawed = groups.thawed(everything)
    chosen = torch.nonzero(thawed.free.reshape(-1))[:, 0]
    whole = torch.zeros(thawed.free.numel(), thawed.free.numel(), dtype=torch.float64, device=chosen.device)
    whole[chosen[:, None], chosen] = observed_information(thawed, everything)
    if isinstance(placed.problem, DesignedProblem):
        by_free = placed.problem.matrix
    else:
        by_free = torch.eye(len(whole), dtype=torch.float64, device=whole.device)[:, groups.free.reshape(-1)]
    inverse, loose = invert(by_free.T @ whole @ by_free)
    covariance = by_free @ inverse @ by_free.T
    if anchors.covariance is not None:
        places, own = torch.tensor(anchors.places, device=whole.device), slice(n_columns - width, None)
        by_known = torch.zeros(n_rows, n_columns, len(places), width, dtype=torch.float64, device=whole.device)
        each = torch.arange(len(places), device=whole.device)
        known = thawed.free[places, own]
        steps = torch.linalg.pinv(torch.where(known[:, :, None] & known[:, None], scale[places, own, own], 0.0))
        by_known[places, own, each] = steps
        moved = by_known.flatten(2).flatten(0, 1)
        moved = moved - by_free @ (inverse @ (by_free.T @ (whole @ moved)))
        error = torch.from_numpy(np.array(anchors.covariance)).to(whole).flatten(2).flatten(0, 1)
        covariance = covariance + moved @ error @ moved.T
    all_of_them = covariance.reshape(n_rows, n_columns, n_rows, n_columns)
    joint = torch.einsum("jab,jbkc,kdc->jakd", scale, all_of_them, scale)
    first = groups.prior.population_columns.start
    variances = [float(joint[n_items, k, n_items, k]) for k in (first, first + 1)]
    of_items = joint[:n_items, -width:, :n_items, -width:].cpu().numpy()
    each_item = np.arange(n_items)
    touched = (by_free[:, loose] != 0).any(dim=1).view(n_rows, n_columns)[:n_items].any(dim=1)
    touched |= bool(loose.any()) and not bool(touched.any())  # a population is determined by all
    return ErrorsBeside(
        of_items[each_item, :, each_item, :], of_items, (variances[0] ** 0.5, variances[1] ** 0.5), touched
    )


def errors_of_many(placed: Placed) -> ErrorsBeside:
    """The same of each item beside a population that is known, and of the population with items that are."""
    part, items, groups = placed.respondents, placed.found.items, groups_of(placed.problem)
    blocks, loose = invert(own_information(part, items))
    scale = told_scale(part, items)
    own = scale @ torch.where(part.estimated_pairs, blocks, 0.0) @ scale.mT
    at = groups.log_moments(placed.problem.whole(placed.parameters))[1]
    rows = []
    for step in DIFFERENCE * torch.eye(2, dtype=at.dtype, device=at.device):
        above, below = (scores(groups, 1, items, at + sign * step)[1] for sign in (1, -1))
        rows.append((below - above) / (2 * DIFFERENCE))
    mean, log_deviation = torch.linalg.inv(torch.stack(rows)).diagonal().clamp(min=0).sqrt().tolist()
    errors = (mean, log_deviation * placed.moments[1])
    return ErrorsBeside(own.cpu().numpy(), None, errors, loose.any(dim=1))


def moments_beside(placed: Placed, errors: ErrorsBeside | None) -> NormalMoments:
    """The population, with its standard errors where they are known."""
    return NormalMoments(*placed.moments, *((float("nan"), float("nan")) if errors is None else errors.moments))
