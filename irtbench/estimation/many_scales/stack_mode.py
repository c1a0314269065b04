"""The modes of many scales: the steps of `fisher_scoring`, taken by all at once, judged scale by scale.

A scale that has converged leaves, and so does one in trouble (a slope that runs away, no step that helps, no
convergence in time), which is to be fitted alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from irtbench.estimation.many_scales.stack_problem import StackCounts, StackProblem
from irtbench.estimation.marginal.e_step import Counts
from irtbench.estimation.marginal.fisher_scoring import SHORTENED, Climb
from irtbench.estimation.marginal.problem import Estimate
from irtbench.estimation.status import Status, Stop
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors
from irtbench.models.quadrature import normal_grid

COARSE_TOLERANCE = 3e-3  # standard errors; on half the nodes in single precision the gradient is known that well
MOST_COARSE, NEARLY_ALL = 30, 0.8  # steps there, and the share of the scales that are to be as near as that
MOST_BINS = 16  # of nodes in the missing information: as many steps as with 32 for scales of tens of items
ALONE = 2 * len(SHORTENED)  # steps that were taken back one after the other before a scale is fitted alone


@dataclass
class StackClimb(Climb):
    """Where scales are on their way."""

    problem: StackProblem
    counts: StackCounts

    def of_scales(self, which: Tensor) -> StackClimb:
        """The way of some of the scales, by their positions among these."""
        rows = self.problem.by_scale(torch.arange(len(self.items), device=which.device))[which].flatten()
        some = StackClimb(
            self.problem.of_scales(which), ItemTensors.from_matrix(self.items.matrix[rows]),
            self.counts.mapped(lambda own: own[which]), self.log_posterior[which], self.which[which],
            self.memory.of(which), self.change[which], self.refused[which],
        )  # fmt: skip
        some.derivatives, some.uphill = self.derivatives.of_items(rows), self.uphill[rows]
        return some

    def advance(self) -> Tensor:
        """Take the next step of each scale, where it is no worse; where that was, shape (n_scales,)."""
        return self.take(*self.problem.evaluated(self.next_items()))

    def estimate(self, k: int, steps: int, tolerance: float) -> Estimate:
        """That of a scale which has converged."""
        counts, first = self.counts, k * self.problem.stack.width
        own, likelihood = slice(first, first + int(self.problem.stack.items[k].sum())), float(counts.log_likelihoods[k])
        r = None if counts.r is None else counts.r[own]
        its_counts = Counts(likelihood, counts.n[own], counts.right[own], r, counts.respondents[k])
        status = Status(Stop.CONVERGED, steps, float(self.size[k]), float(self.change[k]), tolerance=tolerance)
        items = ItemTensors.from_matrix(self.items.matrix[own])
        return Estimate(items, "mode", likelihood, likelihood, status, its_counts)

    def move(self, taken: Tensor, items: ItemTensors, counts: Counts, log_posterior: Tensor) -> None:
        """Those that take the step go on to these items."""
        assert isinstance(counts, StackCounts)
        if not bool(taken.all()):

            def better(own: Tensor, other: Tensor) -> Tensor:
                return torch.where(taken.view(-1, *[1] * (own.dim() - 1)), other, own)

            matrix = better(*(self.problem.by_scale(each.matrix) for each in (self.items, items)))
            items, counts = ItemTensors.from_matrix(matrix.flatten(0, 1)), self.counts.mapped(better, counts)
            log_posterior = better(self.log_posterior, log_posterior)
        super().move(taken, items, counts, log_posterior)


def find_modes(
    problem: StackProblem, start: ItemTensors, *, tolerance: float, max_steps: int
) -> tuple[ItemTensors, list[Estimate | None]]:
    """Maximise the log-posterior of every scale: first on half the nodes in single precision, then on all.

    Returns the items of all scales one after the other, and the estimate of each; None where it is to be fitted alone.
    """
    start = problem.prior.items_of(problem.prior.values_of(start))
    coarse_grid, device = normal_grid(len(problem.nodes.theta) // 2 + 1), problem.nodes.theta.device
    coarse = replace(NodeTensors.from_quadrature(coarse_grid, dtype=torch.float32, device=device), most_bins=MOST_BINS)
    problem = replace(problem, nodes=replace(problem.nodes, most_bins=MOST_BINS))
    way = StackClimb.begin(replace(problem, nodes=coarse), *replace(problem, nodes=coarse).evaluated(start))
    steps = approach(way, most=min(MOST_COARSE, max_steps))
    way = StackClimb.begin(problem, *problem.evaluated(way.items), memory=way.memory)
    return climb(way, steps, tolerance=tolerance, max_steps=max_steps)


def approach(way: StackClimb, *, most: int) -> Tensor:
    """Take so many steps, or until nearly all scales are near their maxima; how many each took."""
    steps = torch.zeros_like(way.which)
    for _ in range(most):
        if float((way.size < COARSE_TOLERANCE).double().mean()) >= NEARLY_ALL:
            break
        steps += way.advance()
    return steps


def climb(
    way: StackClimb, steps: Tensor, *, tolerance: float, max_steps: int
) -> tuple[ItemTensors, list[Estimate | None]]:
    """Take steps until every scale has left: it has converged by the criterion of `FisherScoring`, or is in trouble."""
    found: list[Estimate | None] = [None] * len(way.which)
    matrix = torch.empty_like(way.problem.by_scale(way.items.matrix))
    while len(way.which):
        size, away = way.size, way.problem.by_scale(torch.stack(way.run_away).any(dim=0)).any(dim=1)
        lost = ~(size < math.inf) | away | (way.refused >= ALONE) | (steps[way.which] >= max_steps)
        there = (size < tolerance) & (way.change < 100 * tolerance) & ~lost
        matrix[way.which] = way.problem.by_scale(way.items.matrix)
        for k in torch.nonzero(there)[:, 0].tolist():
            place = int(way.which[k])
            found[place] = way.estimate(k, int(steps[place]), tolerance)
        if bool((there | lost).any()):
            way = way.of_scales(torch.nonzero(~(there | lost))[:, 0])
        if len(way.which):
            steps[way.which] += way.advance()
    return ItemTensors.from_matrix(matrix.flatten(0, 1)), found
