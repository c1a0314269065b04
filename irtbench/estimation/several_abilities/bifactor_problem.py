"""What a fit with testlets works on: the E step by dimension reduction, and nodes fine enough for it.

Given the general ability a respondent's testlets are independent, so that the posterior of the general ability and of
one specific ability is that of the former times that of the latter given it. An item's likelihood rests on these two
abilities alone: its expected counts are on the grid of both, and its M step is that of an item with two slopes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from irtbench.estimation.marginal.e_step import Counts
from irtbench.estimation.marginal.nodes import STEEPEST
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.bifactor_row import GENERAL, SPECIFIC, BifactorNodes, CollapsedBifactor, ItemGroups
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.rows import Batch

MOST_CELLS = {"cpu": 2**18, "cuda": 2**26}  # respondents x testlets x nodes held at once
LEAST_ROWS = 64  # at once, however many nodes there are
LEAST_EXPONENT = {torch.float64: -700.0, torch.float32: -80.0}  # exp() of less is a denormal number, which is slow
BOUND = 6.0  # abilities beyond are left out
COARSEST = 0.5  # spacing of nodes
MOST_NODES = 301  # on an axis


@dataclass(frozen=True)
class BifactorPosterior:
    """Posteriors of some respondents.

    Parameters
    ----------
    batch
        Their responses.
    log_likelihood
        Of each row, but for the constants that `CollapsedLogistic.log_shape` leaves out, shape (n_batch,).
    general
        Of the general ability, shape (n_batch, n_general).
    given_general
        Of each testlet's specific ability at each node of the general one, shapes (n_batch, n_general, n_specific).
    """

    batch: Batch
    log_likelihood: Tensor
    general: Tensor
    given_general: tuple[Tensor, ...]

    def joint(self, testlet: int) -> Tensor:
        """Of the general and a specific ability, shape (n_batch, n_general n_specific)."""
        return (self.given_general[testlet] * self.general[:, :, None]).flatten(1)


@dataclass(frozen=True)
class BifactorProblem(Problem):
    """A problem whose items have a slope on a general ability and one on that of their testlet.

    Parameters
    ----------
    testlets
        Which items are of one testlet.
    """

    testlets: ItemGroups | None = None

    @property
    def grid(self) -> BifactorNodes:
        """The nodes."""
        assert isinstance(self.nodes, BifactorNodes)
        return self.nodes

    @property
    def items_together(self) -> ItemGroups:
        """Which items are of one testlet."""
        assert self.testlets is not None
        return self.testlets

    def row(self, items: ItemTensors) -> CollapsedBifactor:
        """The distribution of a respondent's row at these items."""
        return CollapsedBifactor(items.slope, items.intercept, self.grid, self.items_together)

    def posteriors(self, items: ItemTensors, *, cells: int = 0) -> Iterator[BifactorPosterior]:
        """Posteriors of all respondents at these items, in batches; `cells` is what else is held for a respondent."""
        row, dtype = self.row(items), self.nodes.dtype
        least = LEAST_EXPONENT[dtype]
        held = max(len(self.items_together) * len(self.nodes.theta), self.rows.n_items, cells)
        most = max(LEAST_ROWS, MOST_CELLS[self.rows.device.type] // held)
        for batch in self.rows.batches(most, dtype):
            log_general, given_general = row.outside(batch.correct, batch.observed), []
            for testlet in range(len(self.items_together)):
                within = row.within(testlet, batch.correct, batch.observed)
                top = within.amax(dim=2, keepdim=True)
                within = within.sub_(top).clamp_(min=least).exp_()
                total = within.sum(dim=2, keepdim=True)
                given_general.append(within.div_(total))
                log_general += (top + total.log())[:, :, 0]
            log_likelihood = log_general.logsumexp(dim=1)
            general = (log_general - log_likelihood[:, None]).clamp_(min=least).exp_()
            yield BifactorPosterior(batch, log_likelihood, general, tuple(given_general))

    def counts(self, items: ItemTensors, *, at_nodes: bool = False) -> Counts:
        """The E step at these items; items in no testlet have their counts at the first node of a specific ability."""
        assert not at_nodes
        grid, together = self.grid, self.items_together
        n = grid.theta.new_zeros(self.rows.n_items, len(grid.theta))
        at_general = n.reshape(len(n), grid.n_general, grid.n_specific)
        right = grid.theta.new_zeros(self.rows.n_items, 3)
        right[:, -1] = self.rows.n_correct
        respondents = grid.theta.new_zeros(len(grid.theta))
        log_likelihood = self.rows.n_correct @ items.intercept
        general, theta = grid.general.to(grid.dtype), grid.theta.to(grid.dtype)
        for found in self.posteriors(items):
            batch, alone = found.batch, together.alone
            log_likelihood = log_likelihood + found.log_likelihood.sum(dtype=torch.float64)
            respondents += torch.outer(found.general.sum(dim=0), grid.log_specific.exp()).flatten()
            at_general[alone, :, 0] += sums_by_item(batch, alone, found.general)
            right[alone, GENERAL] += batch.correct_by_item[alone] @ (found.general @ general)
            for testlet, members in enumerate(together.members):
                joint = found.joint(testlet)
                n[members] += sums_by_item(batch, members, joint)
                right[members, :-1] += batch.correct_by_item[members] @ (joint @ theta)
        return Counts(float(log_likelihood), n, right, None, respondents)


def sums_by_item(batch: Batch, items: Tensor, values: Tensor) -> Tensor:
    """Sums of values over the responses to each of some items, shape (n_items, n_columns) or one row for all."""
    return values.sum(dim=0) if batch.observed_by_item is None else batch.observed_by_item[items] @ values


def grid_for(
    items: ItemTensors,
    testlets: ItemGroups,
    *,
    room: float,
    bound: float = BOUND,
    finer: float = 1.0,
    offset: float = 0.0,
) -> BifactorNodes:
    """Nodes close enough for the narrowest posterior that somebody may have, and for the steepest item.

    A posterior is no narrower than 1 / sqrt(1 + I), with I the largest information of all the items that the ability
    has slopes on, sum a^2 / 4.

    Parameters
    ----------
    items, testlets
        Whose posteriors.
    room
        Distance of nodes in standard deviations of the narrowest posterior.
    bound
        Abilities beyond are left out.
    finer
        Factor of both distances.
    offset
        How far nodes are moved, in spacings.
    """
    squares = items.slope.square()
    of_testlets = torch.stack([squares[members, SPECIFIC].sum() for members in testlets.members])
    axes = []
    for column, total in ((GENERAL, squares[:, GENERAL].sum()), (SPECIFIC, of_testlets.max())):
        narrowest = 1 / math.sqrt(1 + float(total) / 4)
        steepest = STEEPEST / max(float(items.slope[:, column].abs().max()), 1e-300)
        spacing = finer * min(room * narrowest, steepest * min(room, 1.0), COARSEST)
        spacing = max(spacing, 2 * bound / MOST_NODES)
        n_each = math.floor(bound / spacing)
        whole = torch.arange(-n_each, n_each + 1, dtype=torch.float64, device=squares.device)
        axes.append((whole + offset) * spacing)
    return BifactorNodes.grid(*axes)


def integration_error(problem: BifactorProblem, items: ItemTensors, log_likelihood: float, *, room: float) -> float:
    """Change of the log-likelihood a response on a grid that is finer, wider and moved."""
    grid = grid_for(items, problem.items_together, room=room, bound=1.25 * BOUND, finer=0.8, offset=0.37)
    if problem.nodes.dtype != torch.float64:
        log_likelihood = log_likelihood_on(problem, items, replace(problem.grid, dtype=torch.float64))
    return abs(log_likelihood_on(problem, items, grid) - log_likelihood) / problem.rows.n_responses


def log_likelihood_on(problem: BifactorProblem, items: ItemTensors, nodes: BifactorNodes) -> float:
    """Marginal log-likelihood of all respondents by these nodes."""
    there = replace(problem, nodes=nodes)
    total = sum(float(found.log_likelihood.sum()) for found in there.posteriors(items))
    return total + float(problem.rows.n_correct @ items.intercept)
