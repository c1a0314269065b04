"""The modes of many scales: the steps of `fisher_scoring`, taken by all at once, judged scale by scale.

Every scale climbs as it would alone: its step is accelerated by its own memory, taken back where it lowers its own
log-posterior, and its convergence is its own. A scale that has converged leaves, and so does one in trouble (a slope
that runs away, no step that helps, no convergence in time), which is to be fitted alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from irtbench.estimation.many_scales.stack_problem import StackCounts, StackProblem
from irtbench.estimation.marginal.acceleration import StepMemory
from irtbench.estimation.marginal.e_step import Counts
from irtbench.estimation.marginal.fisher_scoring import NEAREST_BOUND, SHORTENED, SLOPE_BOUND
from irtbench.estimation.marginal.m_step import (
    ItemDerivatives,
    distances,
    item_derivatives,
    moved,
    scoring_step,
    with_missing_information,
    with_second_step,
    within_bounds,
)
from irtbench.estimation.marginal.problem import Estimate
from irtbench.estimation.status import Status, Stop
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors
from irtbench.models.quadrature import normal_grid

COARSE_TOLERANCE = 3e-3  # standard errors; on half the nodes in single precision the gradient is known that well
MOST_COARSE, NEARLY_ALL = 30, 0.8  # steps there, and the share of the scales that are to be as near as that
MOST_BINS = 16  # of nodes in the missing information: as many steps as with 32 for scales of tens of items
ALONE = 2 * len(SHORTENED)  # steps that were taken back one after the other before a scale is fitted alone


@dataclass
class Climb:
    """Where scales are on their way.

    Parameters
    ----------
    problem
        The scales that are still on it.
    which
        Their positions among all, shape (n_scales,).
    items, counts, log_posterior
        The best so far.
    memory
        Of past steps.
    change
        Largest change of a parameter in the last step, shape (n_scales,).
    refused
        Number of steps that were taken back since the last one that was not, shape (n_scales,).
    """

    problem: StackProblem
    which: Tensor
    items: ItemTensors
    counts: StackCounts
    log_posterior: Tensor
    memory: StepMemory
    change: Tensor
    refused: Tensor

    @classmethod
    def begin(cls, problem: StackProblem, which: Tensor, items: ItemTensors, memory: StepMemory) -> Climb:
        """At these items."""
        counts = problem.counts(items)
        posterior = counts.log_likelihoods + problem.log_priors(items)
        refused = torch.zeros_like(which)
        return cls(problem, which, items, counts, posterior, memory, torch.full_like(posterior, math.inf), refused)

    def of_scales(self, which: Tensor) -> Climb:
        """The way of some of the scales, by their positions among these."""
        matrix = self.problem.by_scale(self.items.matrix)[which].flatten(0, 1)
        return Climb(
            self.problem.of_scales(which), self.which[which], ItemTensors.from_matrix(matrix),
            self.counts.mapped(lambda own: own[which]), self.log_posterior[which], self.memory.of(which),
            self.change[which], self.refused[which],
        )  # fmt: skip

    def step(self, derivatives: ItemDerivatives, uphill: Tensor) -> Tensor:
        """The step of each scale: the accelerated one, that without memory where it was no good, shorter and shorter.

        See `fisher_scoring.steps_to_try`; steps of the items alone are left to the fit of one scale.
        """
        problem, n_shares = self.problem, len(SHORTENED)
        own = with_second_step(problem, self.counts, derivatives, uphill)
        plain = with_missing_information(problem, derivatives, own)
        self.memory.add(self.items.matrix, derivatives.gradient, plain)
        accelerated = self.memory.accelerated()
        ascends = problem.by_scale((accelerated * derivatives.gradient).sum(dim=1)).sum(dim=1) > 0
        self.refused = torch.where(ascends, self.refused, self.refused.clamp(min=n_shares))
        without = self.refused >= n_shares
        if bool(without.any()):
            self.memory.forget(without.cpu())
        shares = self.items.intercept.new_tensor(SHORTENED)[self.refused % n_shares]
        chosen = torch.where(without[:, None, None], problem.by_scale(plain), problem.by_scale(accelerated))
        return within_bounds(problem, self.items, (shares[:, None, None] * chosen).flatten(0, 1))

    def take(self, step: Tensor) -> Tensor:
        """Take the step where it does not lower the log-posterior; where that was, shape (n_scales,)."""
        problem, tried = self.problem, moved(self.items, step)
        counts = problem.counts(tried)
        posterior = counts.log_likelihoods + problem.log_priors(tried)
        rounding = 1e-12 if problem.nodes.dtype == torch.float64 else 1e-7
        taken = posterior >= self.log_posterior - rounding * self.log_posterior.abs()
        if bool(taken.all()):
            self.items, self.counts, self.log_posterior = tried, counts, posterior
        else:

            def better(own: Tensor, other: Tensor) -> Tensor:
                return torch.where(taken.view(-1, *[1] * (own.dim() - 1)), other, own)

            matrix = better(problem.by_scale(self.items.matrix), problem.by_scale(tried.matrix))
            self.items, self.counts = ItemTensors.from_matrix(matrix.flatten(0, 1)), self.counts.mapped(better, counts)
            self.log_posterior = torch.where(taken, posterior, self.log_posterior)
        lengths = problem.by_scale(step.abs().amax(dim=1)).amax(dim=1)
        self.change = torch.where(taken, lengths, self.change)
        self.refused = torch.where(taken, 0, self.refused + 1)
        return taken


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
    everybody, memory = torch.arange(problem.n_scales, device=device), StepMemory(problem.n_scales)
    way = Climb.begin(replace(problem, nodes=coarse), everybody, start, memory)
    steps = approach(way, most=min(MOST_COARSE, max_steps))
    way = Climb.begin(problem, everybody, way.items, memory)
    return climb(way, steps, tolerance=tolerance, max_steps=max_steps)


def approach(way: Climb, *, most: int) -> Tensor:
    """Take so many steps, or until nearly all scales are near their maxima; how many each took."""
    steps = torch.zeros_like(way.which)
    for _ in range(most):
        derivatives = item_derivatives(way.problem, way.items, way.counts)
        uphill = scoring_step(way.problem, derivatives)
        near = distances(way.problem, derivatives, uphill) < COARSE_TOLERANCE
        if float(near.double().mean()) >= NEARLY_ALL:
            break
        steps += way.take(way.step(derivatives, uphill))
    return steps


def climb(way: Climb, steps: Tensor, *, tolerance: float, max_steps: int) -> StackModes:
    """Take steps until every scale has left: it has converged by the criterion of `FisherScoring`, or is in trouble."""
    left: list[tuple[Climb, Tensor, Tensor]] = []
    while len(way.which):
        derivatives = item_derivatives(way.problem, way.items, way.counts)
        uphill = scoring_step(way.problem, derivatives)
        size = distances(way.problem, derivatives, uphill)
        lost = (
            ~(size < math.inf)
            | at_bound(way.problem, way.items)
            | (way.refused >= ALONE)
            | (steps[way.which] >= max_steps)
        )
        there = (size < tolerance) & (way.change < 100 * tolerance) & ~lost
        leaving = there | lost
        if bool(leaving.any()):
            gone, stay = (torch.nonzero(which)[:, 0] for which in (leaving, ~leaving))
            left.append((way.of_scales(gone), there[gone], size[gone]))
            of_items = way.problem.of_items(~leaving)
            way, derivatives, uphill = way.of_scales(stay), derivatives.of_items(of_items), uphill[of_items]
        if len(way.which):
            steps[way.which] += way.take(way.step(derivatives, uphill))
    ways = [way for way, _, _ in left]
    order = torch.cat([one.which for one in ways]).argsort()
    matrix = torch.cat([one.problem.by_scale(one.items.matrix) for one in ways])[order].flatten(0, 1)
    counts = ways[0].counts.mapped(lambda *parts: torch.cat(parts)[order], *(one.counts for one in ways[1:]))
    numbers = [there for _, there, _ in left], [size for _, _, size in left], [one.change for one in ways]
    converged, gradient, change = (torch.cat(parts)[order] for parts in numbers)
    return StackModes(matrix, counts, converged, steps, gradient, change)


def at_bound(problem: StackProblem, items: ItemTensors) -> Tensor:
    """Whether a parameter of a scale has run away, shape (n_scales,)."""
    outside = problem.by_scale(items.slope[:, 0].abs()).amax(dim=1) > SLOPE_BOUND
    if problem.guesses:
        c = items.guessing
        away = problem.guessing_free & ((c > 1 - NEAREST_BOUND) | (c < NEAREST_BOUND))
        outside |= problem.by_scale(away).any(dim=1)
    return outside
