"""The models of scales that were fitted together: what speaks for them and against them, of all at once.

It is what `judged` and `model_of` have of a scale alone. Of a scale that may not be right (nodes too far apart, a slope
the other way round, items that correlate little) the same is asked of the scale itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from irtbench.data.responses import ResponseMatrix, numbered
from irtbench.estimation.doubts import MOST_NEGATIVE, all_rise, find_doubts, shapes_of_ability
from irtbench.estimation.fit import Findings, gives_intervals, model_of, with_kinds
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.many_scales.stack import StackProblem, stack_covariances
from irtbench.estimation.marginal.e_step import Counts
from irtbench.estimation.marginal.guessing_profile import guessing_intervals
from irtbench.estimation.marginal.item_likelihood import SINGLE, InCells, cells_of, respondents_in_cells
from irtbench.estimation.marginal.nodes import (
    COARSEST,
    EDGE_MASS,
    ROOM,
    STEEPEST,
    WIDTHS_A_STEP,
    information,
    with_adapted_nodes,
    with_right_nodes,
)
from irtbench.estimation.marginal.observed_information import (
    LEAST_SD,
    NormalMoments,
    blocks_of,
    errors_of_joint,
)
from irtbench.estimation.marginal.problem import Estimate
from irtbench.estimation.scale_fit import ScaleFit
from irtbench.estimation.settings import FitSettings
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.pyro_model.tensors import ItemTensors

Array = NDArray[np.float64]


@dataclass(frozen=True)
class JudgedScales:
    """Scales with a maximum each.

    Parameters
    ----------
    problem, items
        All of them, with the items of all.
    found
        The maximum of each.
    scales
        Their responses.
    settings
        Of all.
    """

    problem: StackProblem
    items: ItemTensors
    found: Sequence[Estimate]
    scales: Sequence[ResponseMatrix]
    settings: FitSettings

    @cached_property
    def present(self) -> Tensor:
        """Where there is an item, shape (n_scales, width)."""
        return self.problem.stack.items > 0

    @cached_property
    def at_nodes(self) -> Tensor:
        """Information of each item at each node, shape (n_scales, width, n_nodes)."""
        at_nodes = self.problem.by_scale(information(self.problem, self.items))
        return torch.where(self.present[:, :, None], at_nodes, 0.0)

    @cached_property
    def slopes(self) -> Tensor:
        """Shape (n_scales, width)."""
        return torch.where(self.present, self.problem.by_scale(self.items.slope[:, 0]), 0.0)

    @cached_property
    def counts(self) -> Counts:
        """Those of the items of all, 0 of what fills scales up; a row of respondents a scale."""
        each = [one.counts for one in self.found if one.counts is not None]

        def of_items(name: str) -> Tensor:
            parts = [getattr(own, name) for own in each]
            widest = parts[0].new_zeros(self.present.shape[1], parts[0].shape[1])
            return pad_sequence([*parts, widest], batch_first=True)[:-1].flatten(0, 1)

        r, respondents = None if each[0].r is None else of_items("r"), torch.stack([own.respondents for own in each])
        return Counts(sum(own.log_likelihood for own in each), of_items("n"), of_items("right"), r, respondents)

    @cached_property
    def errors(self) -> tuple[Array, Tensor]:
        """See `stack_covariances`."""
        joint, determined = stack_covariances(self.problem, self.items, self.counts)
        return joint.cpu().numpy(), determined

    def right(self) -> list[bool]:
        """Whether nodes are right, theta rises with the number right, and all is determined."""
        problem, stack, slopes = self.problem, self.problem.stack, self.slopes
        widest = WIDTHS_A_STEP * (1 + self.at_nodes.sum(dim=1).amax(dim=1)).rsqrt()
        steepest, at_ends = slopes.abs().amax(dim=1), self.counts.respondents[:, [0, -1]].sum(dim=1)
        fine = (
            (widest >= COARSEST) & (steepest * COARSEST <= STEEPEST) & (at_ends < EDGE_MASS * stack.n_observed.sum(1))
        )
        theta, weights = problem.nodes.theta[:, 0], problem.nodes.log_weights.exp()
        rise = torch.sigmoid(self.items.logits(problem.nodes.basis)) @ (weights * theta) * (1 - self.items.guessing)
        right = torch.where(self.present, problem.by_scale(rise), 0.0).sum(dim=1) >= 0
        if problem.prior.shared is not None:
            right &= steepest > LEAST_SD
        elif not problem.prior.informative:  # else there are more parameters than patterns of responses
            right &= problem.by_scale(problem.free).sum(dim=(1, 2)) <= 2.0 ** self.present.sum(dim=1) - 1
        if self.settings.standard_errors:
            right &= self.errors[1]
        return [
            own and (well or self._has_right_nodes(k)) for k, (own, well) in enumerate(zip(right, fine, strict=True))
        ]

    def _has_right_nodes(self, k: int) -> bool:
        """Whether those of a scale are, where bounds do not say so."""
        one, found = self.problem.of_scale(k, self.scales[k]), self.found[k]
        # with guessing a single fit places nodes at a rough mode already, and these are finer
        placed = with_adapted_nodes(one, found.items, room=ROOM) if one.guesses else one
        return placed is one and with_right_nodes(one, found.items, found.counts) is one

    def doubts(self) -> list[tuple[str, ...]]:
        """See `find_doubts`."""
        stack, theta = self.problem.stack, self.problem.nodes.theta[:, 0]
        right, of_all = (self.problem.by_scale(part) for part in (self.counts.right[:, 0], self.counts.n @ theta))
        fine = all_rise(right, stack.n_correct, stack.n_observed.clamp(min=1), of_all)
        fine &= (self.slopes < 0).sum(dim=1) <= MOST_NEGATIVE * self.present.sum(dim=1)
        if not stack.complete:  # somebody answered every item
            fine &= ((stack.values >= 0) | ~self.present[:, :, None]).all(dim=1).any(dim=1)
        priors = self.settings.priors
        each = zip(self.found, self.scales, fine.tolist(), strict=True)
        return [
            () if well else find_doubts(self.problem.of_scale(k, scale), found, priors)
            for k, (found, scale, well) in enumerate(each)
        ]

    def intervals(self) -> Array | None:
        """Of items with guessing, shape (n_scales, 2, width, 3), where they are wanted."""
        free = self.problem.guessing_free.cpu().numpy()
        if not (self.settings.standard_errors and free.any() and gives_intervals(self.settings)):
            return None
        own = np.concatenate([blocks_of(joint) for joint in self.errors[0]])
        items = replace(self.problem.public(self.items, numbered("item", len(free))), covariance=own)
        ends = guessing_intervals(self.problem, items, free, self.errors[0])
        return ends.reshape(2, *self.present.shape, 3).transpose(1, 0, 2, 3)

    def models(self, seed: int, seconds: float) -> list[FittedModel | None]:
        """The model of each scale; None where it is to be fitted alone."""
        began, priors, models = time.perf_counter(), self.settings.priors, list[FittedModel | None]()
        free = self.problem.by_scale(self.problem.guessing_free).cpu().numpy()
        of_test = (self.problem.stack.n_observed[:, None] @ self.at_nodes)[:, 0]
        shapes = shapes_of_ability(self.problem.nodes, self.counts.respondents, of_test)
        right, doubts, intervals = self.right(), self.doubts(), self.intervals()
        seconds += (time.perf_counter() - began) / len(self.found)
        for k, (found, scale) in enumerate(zip(self.found, self.scales, strict=True)):
            if not right[k]:
                models.append(None)
                continue
            began, own = time.perf_counter() - seconds, slice(scale.n_items)
            joint = errors = moments = None
            if self.settings.standard_errors:
                joint = self.errors[0][k, own, :, own].copy()
                errors = errors_of_joint(self.problem, joint, torch.zeros(scale.n_items, dtype=torch.bool))
            covariance, of_sd = (None, math.nan) if errors is None else (errors.items, errors.moments[1])
            slopes, intercepts, guessing = found.items.matrix.T.cpu().numpy()
            items = ItemParameters(scale.item_ids, slopes, intercepts, guessing, free[k, own], covariance)
            items = with_kinds(items, self.settings)
            if self.problem.prior.by_theta:
                moments = NormalMoments(0.0, float(found.items.slope[0, 0]), 0.0, of_sd)
            fit = ScaleFit(self.problem, found, priors, found.status, items.n_parameters, errors, moments)
            ends = None if intervals is None else intervals[k, :, own].copy()
            findings = Findings(items, joint, ends, doubts[k], shapes[k])
            models.append(model_of(fit, scale, self.settings, seed, began, findings=findings))
        return models


@respondents_in_cells.register
def respondents_of_scales(problem: StackProblem, items: ItemTensors) -> tuple[Tensor, InCells]:
    """The same of each scale; cells that only others have are those of the population."""
    row, theta, width = problem.stack_row(items), problem.nodes.theta[:, 0], problem.stack.width
    of_cells, numbers, exact = list[Tensor](), list[Tensor](), list[Tensor]()
    for chunk in problem.stack.chunks(len(theta), torch.float64):
        posterior = row.of_scales(chunk.scales).posterior(chunk.correct, chunk.observed)
        mean, square = (torch.stack([theta, theta.square()]) @ posterior).unbind(1)
        deviation, cells = (square - mean.square()).clamp(min=1e-12).sqrt(), torch.zeros_like(mean, dtype=torch.int64)
        for k, n in enumerate(chunk.respondents.sum(dim=1, dtype=torch.int64).tolist()):
            cells[k, :n] = cells_of(mean[k, :n], deviation[k, :n])
        member = mean.new_zeros(*cells.shape, int(cells.max()) + 1)
        member.scatter_(2, cells[:, :, None], chunk.respondents[:, :, None])
        asked = chunk.respondents[:, None] if chunk.observed is None else chunk.observed
        given = torch.cat([asked, chunk.correct], dim=1)
        of_cells += ((posterior @ member) / member.sum(dim=1, keepdim=True).clamp(min=1)).mT.unbind()
        numbers += (given @ member).mT.unbind()
        exact.append(given @ posterior.mT)
    cells, in_cells = (pad_sequence(part, batch_first=True) for part in (of_cells, numbers))
    sums = torch.cat([in_cells.mT, torch.cat(exact) - in_cells.mT @ cells], dim=2)
    both = torch.cat([sums[:, :-width] - sums[:, -width:], sums[:, -width:]], dim=1)
    in_each, beyond = both.unflatten(1, (2, -1)).transpose(0, 1).flatten(1, 2).split(list(cells.shape[1:]), dim=2)
    cells = torch.where(cells.sum(dim=2, keepdim=True) > 0, cells, problem.nodes.log_weights.exp())
    return cells, dict(zip(SINGLE, zip(in_each, beyond, strict=True), strict=True))
