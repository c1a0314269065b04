"""Nodes where they are needed, and a check that they are right.

With a thousand items a respondent's posterior is narrower than the spacing of a grid made for thirty. The trapezoid
rule on equally spaced nodes h apart is exact to 2 exp(-2 pi^2 s^2 / h^2) for a normal density of standard deviation s,
so nodes one standard deviation apart suffice; for a curve of slope a, whose poles lie pi / a from the real axis, it is
exact to exp(-2 pi^2 / (a h)) (Trefethen & Weideman, 2014). Only nodes near some respondent's posterior have any weight.
Nodes shared by all respondents keep the sums over respondents and items matrix products.

Whether the nodes are right is checked where a fit has converged: by these bounds where they suffice, and otherwise by
the likelihood on other nodes, halfway between these and half as far again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, singledispatch

import torch
from torch import Tensor

from irtbench.estimation.marginal.e_step import Counts
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.threads import least, total
from irtbench.models.pyro_model.rows import ResponseRows
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors, curve

BOUND = 8.0  # abilities beyond this many standard deviations of the population are left out
REACH = 8.0  # standard deviations of a posterior on either side that nodes are to cover
LOWEST = REACH**2 / 2  # log density, below the highest, that is so far away in a normal posterior
COARSEST = 0.2  # spacing of the usual grid
WIDTHS_A_STEP = 1.35  # standard deviations of a posterior between nodes of the usual grid: errs by 4e-5 a respondent
ROOM = 0.6  # standard deviations of the narrowest posterior that nodes are apart at the start, where it is narrow
FINER_ROOM = 0.5  # standard deviations of the narrowest posterior that nodes are apart where they were found wrong
STEEPEST = 1.4  # slope times spacing at which the trapezoid rule is exact to 1e-6
EDGE_MASS = 1e-7  # of the population at the ends of the usual grid, a response, that does no harm
MOST_ERROR = 1e-6  # of the log-likelihood, a response: with more a fit has not converged
MOST_NODES = 20_000


@dataclass(frozen=True)
class Posteriors:
    """Where each respondent's posterior is, and how wide; of respondents of this process.

    Parameters
    ----------
    places
        Likely abilities: the nodes with the largest posterior, shape (n_respondents,).
    widths
        Standard deviations there, 1 / sqrt(1 + I), I the information of the items answered, shape (n_respondents,).
    rows
        The respondents; None where no other process has more of them.
    below, above
        How far a posterior reaches on either side that is not normal, as it is flat between steep items that are far
        apart: to the first node that has nothing of it; shape (n_respondents,) each.
    """

    places: Tensor
    widths: Tensor
    rows: ResponseRows | None = None
    below: Tensor | float = 0.0
    above: Tensor | float = 0.0

    @cached_property
    def narrowest(self) -> float:
        """The smallest standard deviation of all processes."""
        return least(self.rows, self.widths)


def find_posteriors(problem: Problem, items: ItemTensors) -> Posteriors:
    """Find everybody's posterior in one pass."""
    nodes = replace(problem.nodes, dtype=torch.float64)
    row = replace(problem, nodes=nodes).row(items)
    at_items = information(problem, items)
    theta, numbers = nodes.theta[:, 0], torch.arange(len(nodes.theta), device=nodes.theta.device)
    found = [theta.new_empty(4, 0)]
    for batch in problem.batches(dtype=torch.float64):
        highest, best = (log_shape := row.log_shape(batch.correct, batch.observed)).max(dim=1)
        at_nodes = batch.observed_sums(at_items).expand(len(best), -1)
        width = (1 + at_nodes.gather(1, best[:, None])[:, 0]).rsqrt()
        there = torch.where(log_shape > highest[:, None] - LOWEST, numbers, best[:, None])
        first, last = (there.amin(dim=1) - 1).clamp(min=0), (there.amax(dim=1) + 1).clamp(max=len(theta) - 1)
        found.append(torch.stack([theta[best], width, theta[best] - theta[first], theta[last] - theta[best]]))
    places, widths, below, above = torch.cat(found, dim=1)
    return Posteriors(places, widths, problem.rows, below, above)


@singledispatch
def information(problem: Problem, items: ItemTensors) -> Tensor:
    """Fisher information of each item at each node, P'^2 / (P Q), shape (n_items, n_nodes)."""
    return items.slope**2 * curve(items.logits(problem.nodes.basis), items.guessing[:, None]).information_zz


def widest_step(problem: Problem, items: ItemTensors) -> float:
    """The spacing of nodes that is right for any respondent, whatever he answered: by all items, and the steepest."""
    # no response tells more than a^2 / 4, times the square of the highest category
    trials, squares = problem.rows.most_trials, problem.slopes(items).abs().amax(dim=1).square()
    most = float((squares if trials is None else squares * trials).sum()) / 4
    if WIDTHS_A_STEP / math.sqrt(1 + most) < COARSEST:
        each = information(problem, items)
        most = float((each if trials is None else each * trials[:, None]).sum(dim=0).max())
    return min(WIDTHS_A_STEP / math.sqrt(1 + most), steepest_step(problem, items))


def steepest_step(problem: Problem, items: ItemTensors) -> float:
    """The spacing of nodes that is right for the steepest item."""
    return STEEPEST / max(float(problem.slopes(items).abs().max()), 1e-300)


def nodes_near(
    posteriors: Posteriors,
    *,
    step: float,
    farther: float = 1.0,
    bound: float = BOUND,
    shifted: bool = False,
    dtype: torch.dtype = torch.float64,
) -> NodeTensors:
    """Equally spaced nodes, wherever a posterior reaches.

    The weights are the standard normal density times the spacing: the integral over the nodes left out is nothing.

    Parameters
    ----------
    posteriors
        Where they are, and how wide.
    step
        Distance of nodes, at most.
    farther
        By how much nodes reach farther than is needed, as a factor.
    bound
        Nodes lie between minus this and this.
    shifted
        Whether nodes lie halfway between those that they would be otherwise.
    dtype
        Of the sums over respondents.
    """
    n_nodes = min(2 * math.ceil(bound / step) + 1, MOST_NODES)
    device = posteriors.places.device
    grid = torch.linspace(-bound, bound, n_nodes, dtype=torch.float64, device=device)
    step = 2 * bound / (n_nodes - 1)
    if shifted:
        grid, bound, n_nodes = (grid[1:] + grid[:-1]) / 2, bound - step / 2, n_nodes - 1
    below, above = ((REACH * posteriors.widths).clamp(min=end) for end in (posteriors.below, posteriors.above))
    first = ((posteriors.places - farther * below + bound) / step).floor().clamp(0, n_nodes - 1).to(torch.int64)
    last = ((posteriors.places + farther * above + bound) / step).ceil().clamp(0, n_nodes - 1).to(torch.int64)
    # +1 where a respondent's range begins, -1 behind its end: the running sum counts who reaches a node
    change = torch.zeros(n_nodes + 1, dtype=torch.int64, device=device)
    change.index_add_(0, first, torch.ones_like(first))
    change.index_add_(0, last + 1, -torch.ones_like(last))
    (change,) = total(posteriors.rows, change)
    theta = grid[change.cumsum(0)[:-1] > 0]
    log_weights = -0.5 * theta**2 - 0.5 * math.log(2 * math.pi) + math.log(step)
    return NodeTensors(theta[:, None], log_weights, dtype)


def with_adapted_nodes(
    problem: Problem, items: ItemTensors, *, room: float, posteriors: Posteriors | None = None
) -> Problem:
    """Place nodes where the posteriors are, if the usual grid is too coarse for them.

    Parameters
    ----------
    problem, items
        Whose posteriors.
    room
        Share of the narrowest posterior's standard deviation that nodes are apart: below 1 it leaves posteriors room to
        become narrower.
    posteriors
        The posteriors at these items, if known.
    """
    if posteriors is None:
        if widest_step(problem, items) >= COARSEST:
            return problem
        posteriors = find_posteriors(problem, items)
        if min(WIDTHS_A_STEP * posteriors.narrowest, steepest_step(problem, items)) >= COARSEST:
            return problem
    step = room * min(posteriors.narrowest, steepest_step(problem, items))
    return replace(problem, nodes=nodes_near(posteriors, step=step, dtype=problem.nodes.dtype))


@singledispatch
def with_right_nodes(problem: Problem, items: ItemTensors, counts: Counts | None) -> Problem:
    """The same problem if its nodes are right for everybody at these items, else one with nodes placed anew.

    Right is a log-likelihood that is known to a millionth a response. On the usual grid the bounds say so where no
    posterior can be narrow, no item is steep, and nobody is near an end; otherwise `integration_error` does.
    """
    assert counts is not None
    if is_usual_grid(problem.nodes) and widest_step(problem, items) >= COARSEST:
        at_ends = float(counts.respondents[0] + counts.respondents[-1])
        if at_ends < EDGE_MASS * problem.rows.n_responses:
            return problem
    posteriors = find_posteriors(problem, items)
    if integration_error(problem, items, counts, posteriors) < MOST_ERROR:
        return problem
    return with_adapted_nodes(problem, items, room=FINER_ROOM, posteriors=posteriors)


def integration_error(problem: Problem, items: ItemTensors, counts: Counts, posteriors: Posteriors) -> float:
    """Error of the log-likelihood a response, against other nodes: halfway between these, and half as far again.

    The trapezoid rule on nodes and on their midpoints errs by about as much, with opposite signs.
    """
    step = min(float(problem.nodes.theta[:, 0].diff().min()), WIDTHS_A_STEP * posteriors.narrowest)
    others = nodes_near(posteriors, step=step, farther=1.5, bound=1.5 * BOUND, shifted=True)
    return change_of_likelihood(problem, items, counts.log_likelihood, others)


def change_of_likelihood(problem: Problem, items: ItemTensors, log_likelihood: float, others: NodeTensors) -> float:
    """Change of the log-likelihood a response on other nodes; by float64 on both, whatever it was found in."""
    if problem.nodes.dtype != torch.float64:
        log_likelihood = problem.in_float64().log_likelihood(items)
    return abs(replace(problem, nodes=others).log_likelihood(items) - log_likelihood) / problem.rows.n_responses


def is_usual_grid(nodes: NodeTensors) -> bool:
    """Whether nodes are those of `normal_grid`, not closer and not only where posteriors are."""
    steps = torch.diff(nodes.theta[:, 0])
    return float(steps.max() - steps.min()) < 1e-9 and float(steps[0]) > 0.75 * COARSEST


def describe_nodes(nodes: NodeTensors) -> str:
    """Say which nodes these are: the usual grid, or finer ones where the posteriors lie."""
    theta = nodes.theta[:, 0]
    if is_usual_grid(nodes):
        return f"grid of {len(theta)} nodes on +-{float(theta[-1]):g}"
    return f"adaptive: {len(theta)} nodes {float(theta.diff().min()):.2g} apart where posteriors lie"
