"""The mode of items and of populations of several groups, on nodes that reach all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from irtbench.estimation.estimate import Estimate
from irtbench.estimation.marginal.designed_problem import DesignedProblem
from irtbench.estimation.marginal.group_problem import GroupProblem
from irtbench.estimation.marginal.mode import find_mode
from irtbench.estimation.marginal.nodes import information
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.quadrature import normal_grid

BOUND = 8.0  # nodes reach that far, or further where a group lies there
REACH = 6.0  # standard deviations of a population that nodes are to cover
FURTHEST = 60.0
NARROW = 0.12  # posteriors narrower than this need nodes closer to each other than the usual .2
MOST_NODES = 2_001

AnyProblem = TypeVar("AnyProblem", bound=Problem)


def find_group_mode(
    problem: AnyProblem,
    start: ItemTensors,
    *,
    tolerance: float,
    max_steps: int,
    find: Callable[..., Estimate] = find_mode,
) -> tuple[AnyProblem, Estimate]:
    """The mode of items and populations by `find`, found again where these turn out to need other nodes."""
    steps = 0
    while True:
        mode = find(problem, start=start, tolerance=tolerance, max_steps=max_steps)
        steps += mode.status.steps
        nodes = nodes_needed(groups_of(problem), problem.whole(mode.items)) if mode.status.converged else None
        if nodes is None:
            return problem, replace(mode, status=replace(mode.status, steps=steps))
        start, problem = mode.items, replace(problem, nodes=nodes)


def nodes_needed(problem: GroupProblem, parameters: ItemTensors) -> NodeTensors | None:
    """Nodes that reach further, where a population does, or are closer, where posteriors are narrow; None if not.

    A posterior is no narrower than 1 / sqrt(1 / s^2 + I(theta)) where the test's information I is largest.
    """
    nodes = problem.nodes
    theta = nodes.theta[:, 0]
    mean, log_deviation = problem.group_prior.populations(parameters)
    bound = float(theta[-1])
    furthest = min(float((mean.abs() + REACH * log_deviation.exp()).max()), FURTHEST)
    narrowest = math.inf
    for (part, items), (_, own) in zip(problem.each(parameters), problem.log_moments(parameters), strict=True):
        if part.rows.n_responses == 0:
            continue
        of_items, trials = information(part, items), part.rows.most_trials
        told = float((of_items if trials is None else of_items * trials[:, None]).sum(dim=0).max())
        narrowest = min(narrowest, (told + float(torch.exp(-2 * own))) ** -0.5)
    step = float(theta[1] - theta[0])
    finer = step > narrowest / NARROW * 0.2 + 1e-9 and len(theta) < MOST_NODES
    if furthest <= bound and not finer:
        return None
    # a little more than is needed now, since the next mode is another
    wider = bound if furthest <= bound else min(1.1 * furthest, FURTHEST)
    return group_nodes(wider, 0.9 * narrowest if finer else step, nodes.dtype, theta.device)


def group_nodes(bound: float, step: float, dtype: torch.dtype, device: torch.device) -> NodeTensors:
    """Nodes on [-bound, bound], no further than a step from each other, with the weights of N(0, 1)."""
    n_nodes = min(2 * math.ceil(bound / step - 1e-9) + 1, MOST_NODES)
    return NodeTensors.from_quadrature(normal_grid(n_nodes, bound=bound), dtype=dtype, device=device)


def designed_in_groups(problem: GroupProblem, matrix: Tensor) -> DesignedProblem:
    """The same with the items' parameters made by a matrix; differences and populations are parameters of their own."""
    n_items, width = len(problem.group_prior.differs), problem.group_prior.width
    others = problem.free.clone()
    others[:n_items, -width:] = False
    own = torch.nonzero(others.reshape(-1))[:, 0]
    n_free = matrix.shape[1]
    whole = matrix.new_zeros(problem.free.numel(), n_free + len(own))
    whole.view(*problem.free.shape, -1)[:n_items, -width:, :n_free] = matrix.view(n_items, width, n_free)
    whole[own, n_free + torch.arange(len(own), device=own.device)] = 1.0
    return DesignedProblem.made_of(problem, whole)


def groups_of(problem: Problem) -> GroupProblem:
    """The problem of the groups, whose parameters may be made of fewer."""
    found = problem.own if isinstance(problem, DesignedProblem) else problem
    assert isinstance(found, GroupProblem)
    return found
