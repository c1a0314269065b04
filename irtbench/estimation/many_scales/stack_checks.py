"""What is asked of every scale where it has converged: are its nodes right, is it a scale of ability."""

from __future__ import annotations

import torch
from torch import Tensor

from irtbench.estimation.doubts import CLEARLY, MOST_NEGATIVE
from irtbench.estimation.many_scales.stack_problem import StackCounts, StackProblem
from irtbench.estimation.marginal.nodes import COARSEST, EDGE_MASS, STEEPEST, WIDTHS_A_STEP, information
from irtbench.models.pyro_model.item_tensors import ItemTensors


def nodes_are_right(problem: StackProblem, items: ItemTensors, counts: StackCounts) -> Tensor:
    """Whether the bounds of `nodes.with_right_nodes` say so of the usual grid, shape (n_scales,).

    No posterior can be narrow, no item is steep, and nobody is near an end. Where it is not so the likelihood on other
    nodes decides.
    """
    most = problem.by_scale(information(problem, items)).sum(dim=1).amax(dim=1)
    steepest = problem.by_scale(items.slope[:, 0].abs()).amax(dim=1).clamp(min=1e-300)
    wide = (WIDTHS_A_STEP * (1 + most).rsqrt() >= COARSEST) & (STEEPEST / steepest >= COARSEST)
    at_ends = counts.respondents[:, 0] + counts.respondents[:, -1]
    return wide & (at_ends < EDGE_MASS * problem.stack.n_observed.sum(dim=1))


def rises_with_correct(problem: StackProblem, items: ItemTensors) -> Tensor:
    """Whether the expected number of correct responses rises with theta, shape (n_scales,)."""
    nodes = problem.nodes
    knows = torch.sigmoid(items.logits(nodes.basis)) * (1 - items.guessing[:, None])
    n_correct = (problem.by_scale(knows) * problem.stack.items[:, :, None]).sum(dim=1)
    return n_correct @ (nodes.log_weights.exp() * nodes.theta[:, 0]) >= 0


def is_clearly_ability(problem: StackProblem, items: ItemTensors, counts: StackCounts) -> Tensor:
    """Whether nearly all items go with theta and have slopes that say so, see `doubts.find_doubts`; (n_scales,)."""
    stack = problem.stack
    negative = (problem.by_scale(items.slope[:, 0]) < 0).sum(dim=1) / stack.items.sum(dim=1)
    share = stack.n_correct / stack.n_observed.clamp(min=1)
    expected = problem.by_scale(counts.n @ problem.nodes.theta)[:, :, 0]
    covariance = problem.by_scale(counts.right[:, 0]) - share * expected
    clear = covariance.sum(dim=1).abs() > CLEARLY * covariance.abs().sum(dim=1)
    return clear & (negative <= MOST_NEGATIVE)
