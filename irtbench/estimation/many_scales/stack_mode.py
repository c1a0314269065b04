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


@dataclass(frozen=True)
class StackModes:
    """Where the scales ended.

    Parameters
    ----------
    matrix
        Slopes, intercepts and guessing of the items of all scales one after the other, shape (n_scales * width, 3).
    counts
        There.
    converged
        Whether by the criterion of a single fit, shape (n_scales,); the others are to be fitted alone.
    steps, gradient, change
        See `Status`, shape (n_scales,).
    """

    matrix: Tensor
    counts: StackCounts
    converged: Tensor
    steps: Tensor
    gradient: Tensor
    change: Tensor

    @property
    def items(self) -> ItemTensors:
        """The items of all scales one after the other."""
        return ItemTensors.from_matrix(self.matrix)

    def estimate(self, k: int, n_items: int, tolerance: float) -> Estimate:
        """That of one scale, of so many items, which has converged."""
        counts, first = self.counts, k * (len(self.matrix) // len(self.steps))
        own, likelihood = slice(first, first + n_items), float(counts.log_likelihoods[k])
        r = None if counts.r is None else counts.r[own]
        its_counts = Counts(likelihood, counts.n[own], counts.right[own], r, counts.respondents[k])
        size, change = float(self.gradient[k]), float(self.change[k])
        status = Status(Stop.CONVERGED, int(self.steps[k]), size, change, tolerance=tolerance)
        return Estimate(ItemTensors.from_matrix(self.matrix[own]), "mode", likelihood, likelihood, status, its_counts)


def find_modes(problem: StackProblem, start: ItemTensors, *, tolerance: float, max_steps: int) -> StackModes:
    """Maximise the log-posterior of every scale: first on half the nodes in single precision, then on all."""
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


def climb(way: StackClimb, steps: Tensor, *, tolerance: float, max_steps: int) -> StackModes:
    """Take steps until every scale has left: it has converged by the criterion of `FisherScoring`, or is in trouble."""
    left: list[tuple[StackClimb, Tensor, Tensor]] = []
    while len(way.which):
        size, away = way.size, way.problem.by_scale(torch.stack(way.run_away).any(dim=0)).any(dim=1)
        lost = ~(size < math.inf) | away | (way.refused >= ALONE) | (steps[way.which] >= max_steps)
        there = (size < tolerance) & (way.change < 100 * tolerance) & ~lost
        leaving = there | lost
        if bool(leaving.any()):
            gone, stay = (torch.nonzero(which)[:, 0] for which in (leaving, ~leaving))
            left.append((way.of_scales(gone), there[gone], size[gone]))
            way = way.of_scales(stay)
        if len(way.which):
            steps[way.which] += way.advance()
    ways = [way for way, _, _ in left]
    order = torch.cat([one.which for one in ways]).argsort()
    matrix = torch.cat([one.problem.by_scale(one.items.matrix) for one in ways])[order].flatten(0, 1)
    counts = ways[0].counts.mapped(lambda *parts: torch.cat(parts)[order], *(one.counts for one in ways[1:]))
    numbers = [there for _, there, _ in left], [size for _, _, size in left], [one.change for one in ways]
    converged, gradient, change = (torch.cat(parts)[order] for parts in numbers)
    return StackModes(matrix, counts, converged, steps, gradient, change)
