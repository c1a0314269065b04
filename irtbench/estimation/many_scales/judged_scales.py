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

from irtbench.data.responses import ResponseMatrix, numbered
from irtbench.estimation.doubts import MOST_NEGATIVE, AbilityShape, all_rise, find_doubts, shapes_of_ability
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
    Errors,
    NormalMoments,
    blocks_of,
    errors_of_one_slope,
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
            found = parts[0].new_zeros(*self.present.shape, parts[0].shape[1])
            for all_items, part in zip(found, parts, strict=True):
                all_items[: len(part)] = part
            return found.flatten(0, 1)

        r = None if each[0].r is None else of_items("r")
        respondents = torch.stack([own.respondents for own in each])
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

    def shapes(self) -> list[AbilityShape]:
        """See `shape_of_ability`."""
        of_test = (self.problem.stack.n_observed[:, None] @ self.at_nodes)[:, 0]
        return shapes_of_ability(self.problem.nodes, self.counts.respondents, of_test)

    def intervals(self) -> Array | None:
        """Of items with guessing, shape (n_scales, 2, width, 3), where they are wanted."""
        if not (self.settings.standard_errors and self.problem.guesses and gives_intervals(self.settings)):
            return None
        free, joint = self.problem.guessing_free.cpu().numpy(), self.errors[0]
        if not free.any():
            return None
        each = np.arange(joint.shape[1])
        own = joint[:, each, :, each].transpose(1, 0, 2, 3).reshape(-1, 3, 3)
        ids = numbered("item", len(free))
        items = replace(self.problem.public(self.items, ids), covariance=own)
        ends = guessing_intervals(self.problem, items, free, joint)
        return ends.reshape(2, *self.present.shape, 3).transpose(1, 0, 2, 3)

    def models(self, seed: int, seconds: float) -> list[FittedModel | None]:
        """The model of each scale; None where it is to be fitted alone."""
        began, shared = time.perf_counter(), self.problem.prior.shared
        priors = self.settings.priors
        matrix, free = (
            self.problem.by_scale(part).cpu().numpy() for part in (self.items.matrix, self.problem.guessing_free)
        )
        right, doubts, shapes, intervals = self.right(), self.doubts(), self.shapes(), self.intervals()
        seconds += (time.perf_counter() - began) / len(self.found)
        models: list[FittedModel | None] = []
        for k, (found, scale) in enumerate(zip(self.found, self.scales, strict=True)):
            if not right[k]:
                models.append(None)
                continue
            began, own = time.perf_counter() - seconds, slice(scale.n_items)
            errors, moments = self._errors_of(k, own), None
            covariance, joint = (None, None) if errors is None else (errors.items, errors.joint)
            items = ItemParameters(scale.item_ids, *matrix[k, own].T, free[k, own], covariance)
            items = with_kinds(items, self.settings)
            if shared is not None and shared.unit_slopes:
                moments = NormalMoments(0.0, matrix[k, 0, 0], 0.0, math.nan if errors is None else errors.moments[1])
            fit = ScaleFit(self.problem, found, priors, found.status, items.n_parameters, errors, moments)
            ends = None if intervals is None else intervals[k, :, own].copy()
            findings = Findings(items, joint, ends, doubts[k], shapes[k])
            models.append(model_of(fit, scale, self.settings, seed, began, findings=findings))
        return models

    def _errors_of(self, k: int, own: slice) -> Errors | None:
        """Those of a scale, where they are wanted."""
        if not self.settings.standard_errors:
            return None
        joint, loose = self.errors[0][k, own, :, own].copy(), torch.zeros(own.stop, dtype=torch.bool)
        one_slope = self.problem.prior.shared is not None
        return errors_of_one_slope(self.problem, joint, loose) if one_slope else Errors(blocks_of(joint), joint, loose)


@respondents_in_cells.register
def respondents_of_scales(problem: StackProblem, items: ItemTensors) -> tuple[Tensor, InCells]:
    """The same of each scale; cells that only others have are those of the population."""
    row, theta, found = problem.stack_row(items), problem.nodes.theta[:, 0], []
    for chunk in problem.stack.chunks(len(theta), torch.float64):
        posterior = row.of_scales(chunk.scales).posterior(chunk.correct, chunk.observed)
        mean, square = (torch.stack([theta, theta.square()]) @ posterior).unbind(1)
        deviation = (square - mean.square()).clamp(min=1e-12).sqrt()
        cells = torch.zeros_like(mean, dtype=torch.int64)
        for k, n in enumerate(chunk.respondents.sum(dim=1, dtype=torch.int64).tolist()):
            cells[k, :n] = cells_of(mean[k, :n], deviation[k, :n])
        member = mean.new_zeros(*cells.shape, int(cells.max()) + 1)
        member.scatter_(2, cells[:, :, None], chunk.respondents[:, :, None])
        number = member.sum(dim=1)[:, :, None]
        own = torch.where(number > 0, (posterior @ member).mT / number.clamp(min=1), problem.nodes.log_weights.exp())
        asked = chunk.respondents[:, None] if chunk.observed is None else chunk.observed
        given = torch.cat([asked - chunk.correct, chunk.correct], dim=1)
        in_cells = given @ member
        found.append((own, in_cells, given @ posterior.mT - in_cells @ own))
    most, parts = max(own.shape[1] for own, _, _ in found), []
    for own, in_cells, beyond in found:
        more = most - own.shape[1]
        nobody = problem.nodes.log_weights.exp().expand(len(own), more, -1)
        parts.append((torch.cat([own, nobody], dim=1), torch.nn.functional.pad(in_cells, (0, more)), beyond))
    posterior = torch.cat([own for own, _, _ in parts])
    in_cells, beyond = (
        torch.cat(part).unflatten(1, (2, -1)).transpose(0, 1).flatten(1, 2)
        for part in list(zip(*parts, strict=True))[1:]
    )
    return posterior, dict(zip(SINGLE, zip(in_cells, beyond, strict=True), strict=True))
