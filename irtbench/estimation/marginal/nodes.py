"""Nodes where they are needed: finer and fewer when items are many.

With a thousand items a respondent's posterior is narrower than the spacing of a grid made for thirty. The trapezoid
rule on equally spaced nodes is exact to exp(-2 pi^2 s^2 / h^2) for a normal density of standard deviation s, so nodes
one standard deviation apart suffice; and only those near some respondent's posterior have any weight. Nodes shared by
all respondents keep the sums over respondents and items matrix products.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.items import ItemTensors
from irtbench.models.pyro_model.nodes import NodeTensors

BOUND = 8.0  # abilities beyond this many standard deviations of the population are left out
REACH = 8.0  # standard deviations of a posterior on either side that nodes are to cover
NARROW = 0.12  # a posterior narrower than this needs finer nodes than the usual grid, whose spacing is .2
COARSEST = 0.2  # spacing of the usual grid


def posterior_widths(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor]:
    """Each respondent's likely ability and the standard deviation of its posterior, each of shape (n_respondents,).

    The ability is the node with the largest posterior; the standard deviation there is 1 / sqrt(1 + I), I the
    information of the items answered.
    """
    nodes = replace(problem.nodes, dtype=torch.float64)
    row = replace(problem, nodes=nodes).row(items)
    p, q = -torch.expm1(row.log_q), row.log_q.exp()
    slope_p = items.slope * torch.sigmoid(items.logits(nodes.basis)) * q
    information = slope_p**2 / (p * q).clamp(min=1e-300)
    places, widths = [], []
    for batch in problem.batches(dtype=torch.float64):
        best = row.log_shape(batch.correct, batch.observed).argmax(dim=1)
        places.append(nodes.theta[best, 0])
        at_nodes = batch.observed_sums(information).expand(len(best), -1)
        widths.append((1 + at_nodes.gather(1, best[:, None])[:, 0]).rsqrt())
    return torch.cat(places), torch.cat(widths)


def nodes_near(places: Tensor, widths: Tensor, *, dtype: torch.dtype) -> NodeTensors:
    """Equally spaced nodes as far apart as the narrowest posterior is wide, wherever one of them reaches.

    The weights are the standard normal density times the spacing: the integral over the nodes left out is nothing.
    """
    step = min(float(widths.min()), COARSEST)
    n_nodes = 2 * math.ceil(BOUND / step) + 1
    grid = torch.linspace(-BOUND, BOUND, n_nodes, dtype=torch.float64, device=places.device)
    step = 2 * BOUND / (n_nodes - 1)
    first = ((places - REACH * widths + BOUND) / step).floor().clamp(0, n_nodes - 1).to(torch.int64)
    last = ((places + REACH * widths + BOUND) / step).ceil().clamp(0, n_nodes - 1).to(torch.int64)
    # +1 where a respondent's range begins, -1 behind its end: the running sum counts who reaches a node
    change = torch.zeros(n_nodes + 1, dtype=torch.int64, device=places.device)
    change.index_add_(0, first, torch.ones_like(first))
    change.index_add_(0, last + 1, -torch.ones_like(last))
    needed = change.cumsum(0)[:-1] > 0
    theta = grid[needed]
    log_weights = -0.5 * theta**2 - 0.5 * math.log(2 * math.pi) + math.log(step)
    return NodeTensors(theta[:, None], log_weights, dtype)


def with_adapted_nodes(problem: Problem, items: ItemTensors, *, shrink: float) -> Problem:
    """Place finer nodes where the posteriors are, if they are narrow; `shrink` leaves them room to become narrower."""
    # a 3PL item tells less than a 2PL item, and that at most a^2 / 4
    if float(items.slope[:, 0].square().sum()) / 4 <= NARROW**-2 - 1:
        return problem
    places, widths = posterior_widths(problem, items)
    if float(widths.min()) >= NARROW:
        return problem
    return replace(problem, nodes=nodes_near(places, shrink * widths, dtype=problem.nodes.dtype))


def describe_nodes(nodes: NodeTensors) -> str:
    """Say which nodes these are: the usual grid, or finer ones where the posteriors lie."""
    theta = nodes.theta[:, 0]
    steps = torch.diff(theta)
    if float(steps.max() - steps.min()) < 1e-9 and float(steps[0]) > NARROW:
        return f"grid of {len(theta)} nodes on +-{float(theta[-1]):g}"
    return f"adaptive: {len(theta)} nodes {float(steps.min()):.2g} apart where posteriors lie"
