"""Scales of items in categories whose steps are taken together: the items of all as those of one model.

What fills a scale of fewer items up are items of right and wrong that nobody answered, of which nothing is estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, repeat
from typing import Self

import torch
from torch import Tensor

from irtbench.estimation.driver import own_parameters
from irtbench.estimation.many_scales.stack import Stack, Stacked
from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.missing_information import score_covariances
from irtbench.estimation.marginal.observed_information import added_to_scores, complete_information, invert
from irtbench.models.coded_scores import CodedScores
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.categories import (
    SITES,
    CategoryItems,
    ScalesInCategories,
    category_model,
    density_of,
)
from irtbench.models.pyro_model.rows import as_rows, scores_on_device
from irtbench.models.pyro_model.sites import trace_model
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors

FILLER = Logistic()


@dataclass(frozen=True)
class CategoryStack(Stacked, CategoryProblem):
    """A problem of several scales in categories.

    Parameters
    ----------
    each
        The items of each scale.
    priors
        Of all.
    """

    each: tuple[CategoryItems, ...] = field(kw_only=True)
    priors: Priors = field(kw_only=True)

    @classmethod
    def of_scores(
        cls, scales: Sequence[CodedScores], each: Sequence[CategoryItems], nodes: NodeTensors, priors: Priors
    ) -> Self:
        """The Pyro model of the items of all scales."""
        items = side_by_side(each)
        item, category = (part.view(len(scales), -1) for part in items.columns)
        stack = Stack.of_scores(scales, (item % (len(items) // len(scales)), category))
        return cls._of(stack, items, tuple(each), nodes, priors)

    @classmethod
    def _of(
        cls, stack: Stack, items: CategoryItems, each: tuple[CategoryItems, ...], nodes: NodeTensors, priors: Priors
    ) -> Self:
        model = partial(category_model, items=items, priors=priors)
        one_response = as_rows(torch.zeros(1, 1, dtype=torch.int8, device=items.device))
        with own_parameters():
            prior, _ = trace_model(model, one_response, nodes)
        return cls(model, one_response, nodes, prior, scale=items, stack=stack, each=each, priors=priors)

    def of_scales(self, which: Tensor) -> Self:
        """The problem of some scales, in rows and columns as many as these have."""
        each = tuple(self.each[k] for k in which.tolist())
        wide = self.scale.width, self.scale.n_columns // self.n_scales
        return self._of(
            self.stack.of_scales(which), side_by_side(each, self.stack.width, *wide), each, self.nodes, self.priors
        )

    def of_scale(self, k: int, scores: CodedScores) -> CategoryProblem:
        """The problem of one scale, of these responses."""
        items, (n_items, _, width) = self.each[k], self.size_of(k)
        own = slice(k * self.stack.width, k * self.stack.width + n_items)
        entries = {site: where[own, :width] for site, where in self.prior.entries.items()}
        numbers = {role: int(entries[site].sum()) for role, site in SITES.items() if site in entries}
        densities = {
            SITES[role]: density_of(role, self.priors, self.nodes.theta.new_zeros(n))
            for role, n in numbers.items()
            if n
        }
        fixed = ItemTensors.from_matrix(self.prior.fixed.matrix[own, :width])
        prior = replace(
            self.prior, densities=densities, entries={site: entries[site] for site in densities}, fixed=fixed
        )
        rows = scores_on_device(scores, items.columns, items.device)
        model = partial(category_model, items=items, priors=self.priors)
        return CategoryProblem(model, rows, self.nodes, prior, scale=items)

    def size_of(self, k: int) -> tuple[int, int, int]:
        """By the scale's own items."""
        own = self.each[k]
        return len(own), own.n_columns, own.width

    def inverses(self, items: ItemTensors, each: Sequence[CategoryProblem]) -> list[tuple[Tensor, Tensor]]:
        """What `inverse_information` has of each scale, the items those of all."""
        complete, (later, lowest) = self.by_scale(complete_information(self, items)), added_to_scores(self, items)
        later, lowest, matrix, found = self.by_scale(later), self.by_scale(lowest), self.by_scale(items.matrix), []
        for k, own in enumerate(each):
            n_items, n_columns, width = self.size_of(k)
            of_items, added = complete[k, :n_items, :width, :width], lowest[k, :n_items, :, :width]
            its_items, of_columns = (
                ItemTensors.from_matrix(matrix[k, :n_items, :width]),
                later[k, :n_columns, :, :width],
            )
            missing = score_covariances(own, its_items, of_columns, added, of_items)
            chosen = own.free.flatten()
            found.append(invert((torch.block_diag(*of_items) - missing.flatten(2).flatten(0, 1))[chosen][:, chosen]))
        return found

    @cached_property
    def free(self) -> Tensor:
        """Parameters of the items that there are, shape (n_scales * n_items, width)."""
        return self.prior.free & (self.stack.items.flatten()[:, None] > 0)

    def stack_row(self, items: ItemTensors) -> ScalesInCategories:
        """The distribution of a respondent's row of each scale."""
        return ScalesInCategories(items.matrix, self.scale, self.nodes, self.stack.items)

    def starting_values(self) -> ItemTensors:
        """By each category's share and each item's correlation with the score, in each scale."""
        stack, dtype = self.stack, torch.float64
        scores = torch.zeros(*stack.items.shape, stack.values.shape[1], dtype=dtype, device=stack.values.device)
        place = self.by_scale(self.scale.item_of_column) % stack.width
        scores.scatter_(1, place[:, None], self.by_scale(self.scale.column_scores)[:, None])
        n, sums = stack.n_observed, torch.stack([scores, scores.square()]) @ stack.n_correct[:, :, None]
        mean, square = (sums[..., 0] + 0.5) / (n + 1)
        deviation = (square - mean.square()).clamp(min=1e-6).sqrt()
        covariances = []
        for chunk in stack.chunks(1, dtype):
            own = scores[chunk.scales] @ chunk.correct
            asked = stack.items[chunk.scales, :, None] if chunk.observed is None else chunk.observed
            respondents = chunk.respondents[:, None]
            score = own.sum(dim=1, keepdim=True) / asked.sum(dim=1, keepdim=True).clamp(min=1)
            number = respondents.sum(dim=2, keepdim=True)
            score = (score - (score * respondents).sum(dim=2, keepdim=True) / number) * respondents
            spread = (score.square().sum(dim=2, keepdim=True) / (number - 1)).clamp(min=1e-24).sqrt()
            centred = own - mean[chunk.scales, :, None] * asked
            covariances.append((centred @ (score / spread).mT)[:, :, 0])
        correlation = torch.cat(covariances) / n.clamp(min=1) / deviation
        return self.start_at(stack.n_correct.flatten(), n.flatten(), correlation.flatten())


def side_by_side(
    each: Sequence[CategoryItems], n_items: int = 0, least_width: int = 0, least_columns: int = 0
) -> CategoryItems:
    """The items of scales one after the other, those of smaller ones filled up."""
    most = max(n_items, *map(len, each))
    models = [model for own in each for model in chain(own.models, repeat(FILLER, most - len(own)))]
    numbers = [k for own in each for k in chain(own.n_categories, repeat(2, most - len(own)))]
    wide = {"least_width": least_width, "least_columns": least_columns}
    return CategoryItems(models, numbers, 1, each[0].device, len(each), **wide)
