"""Information of items by several abilities, from products of responses summed over respondents at every node.

With X a respondent's numbers of responses, in each column and to each item, the score at a node is A'X, A what a
response there adds to it, and so the sum of E[s s'] over respondents is that of A' (sum_i p_i X_i X_i') A over nodes
(Louis, 1982). Of complete responses the numbers to items are one that is 1 for everybody.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from irtbench.estimation.marginal.category_problem import information_of_scale
from irtbench.estimation.marginal.e_step import at
from irtbench.estimation.marginal.missing_information import NOBODY, dense_posteriors
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.threads import summed
from irtbench.models.pyro_model.categories import CategoryItems
from irtbench.models.pyro_model.rows import ResponseRows
from irtbench.models.pyro_model.tensors import ItemTensors

MOST_CELLS = 2**25  # of products of responses at nodes, in memory at once
CLOSE = 128  # nodes whose products are near in memory


@dataclass(frozen=True)
class ScoreParts:
    """What a respondent's numbers of responses, in columns and then to items, add to the score.

    Parameters
    ----------
    added
        By the parameters of the number's item, shape (n_nodes, n_numbers, width).
    item
        Whose number it is, shape (n_numbers,).
    free
        Which parameters are estimated, shape (n_items, width).
    complete
        Whether everybody responded to all items.
    """

    added: Tensor
    item: Tensor
    free: Tensor
    complete: bool

    @classmethod
    def of(cls, problem: Problem, scale: CategoryItems, items: ItemTensors) -> ScoreParts:
        """At these items, on the problem's nodes."""
        theta, n_columns, each = problem.nodes.theta.T, len(scale.item_of_column), torch.arange(len(scale))
        added = items.matrix.new_zeros(theta.shape[1], n_columns + len(scale), scale.width)
        for part in scale.parts:
            by_x, of_part = part.derivatives(items.matrix, theta)[1].permute(2, 0, 1, 3), slice(part.n_parameters)
            added[:, part.columns, of_part] = by_x[:, :, 1:] - by_x[:, :, :1]
            added[:, n_columns + part.items, of_part] = by_x[:, :, 0]
        item = torch.cat([scale.item_of_column, each.to(scale.device)])
        return cls(added, item, problem.free[:, : scale.width], problem.rows.complete)

    def of_items(self, items: Tensor) -> tuple[ScoreParts, Tensor]:
        """Those of some items, whose places rise, and the places of their numbers."""
        chosen = torch.nonzero(torch.isin(self.item, items))[:, 0]
        item = torch.searchsorted(items, self.item[chosen])
        return ScoreParts(self.added[:, chosen], item, self.free[items], self.complete), chosen

    @property
    def n_factors(self) -> int:
        """How many numbers are multiplied with each other, the first of all."""
        return len(self.item) - len(self.free) + 1 if self.complete else len(self.item)

    def scores(self, numbers: Tensor, each: Tensor) -> Tensor:
        """Scores from what each number adds, shape (..., n_numbers, width), by item (..., n_items, width)."""
        each = each * numbers[..., None]
        return each.new_zeros(*each.shape[:-2], *self.free.shape).index_add_(-2, self.item, each)

    def add_products(self, sums: Tensor, numbers: Tensor, weights: Tensor) -> None:
        """Add weighted products of each two numbers at each node to the half below the diagonal, (n, n, n_nodes)."""
        there = torch.nonzero(weights.sum(dim=0) > NOBODY * len(weights))[:, 0]
        weights = weights[:, there]
        for k in range(len(sums)):
            sums[k, : k + 1].index_add_(1, there, (numbers[:, k, None] * numbers[:, : k + 1]).T @ weights)

    def products(self, sums: Tensor, some: Tensor) -> Tensor:
        """Sum over some nodes of A'SA, of the halves of S, which are written over, (n_items width, n_items width)."""
        sums.diagonal().mul_(0.5)  # the diagonal is in both halves
        added, item, (n_items, width) = self.added[some].permute(1, 2, 0), self.item, self.free.shape
        found = added.new_zeros(n_items, width, n_items, width)
        if self.complete:  # the last number is that of responses to each item, 1
            last = self.n_factors - 1
            columns, asked, item = added[:last], added[last:], item[:last]
            mixed = (asked * sums[last, last]).index_add_(0, item, columns * sums[last, :last, None])
            found += torch.einsum("jaq,lbq->jalb", asked, mixed)
            added, sums = columns, sums[:last, :last]
        for part, by_item in zip(sums.split(CLOSE, dim=2), added.split(CLOSE, dim=2), strict=True):
            for k in range(width):
                half = part.new_zeros(n_items, *part.shape[1:]).index_add_(0, item, by_item[:, k, None] * part)
                found[:, k].index_add_(1, item, (half.transpose(0, 1) @ by_item.mT).transpose(0, 1))
        lower = found.flatten(2).flatten(0, 1)
        return lower + lower.T


def numbers_of(correct: Tensor, observed: Tensor | None, n_items: int) -> Tensor:
    """A respondent's numbers of responses in columns and to items, shape (n_batch, n_numbers)."""
    return torch.cat([correct, correct.new_ones(len(correct), n_items) if observed is None else observed], dim=1)


def information_by_nodes(problem: Problem, scale: CategoryItems, items: ItemTensors) -> Tensor:
    """Negative Hessian of the log-likelihood in the free parameters, shape (n_free, n_free)."""
    problem = problem.in_float64()
    parts, row, n_nodes = ScoreParts.of(problem, scale, items), problem.row(items), len(problem.nodes.theta)
    n, free = parts.n_factors, parts.free.flatten()
    at_once = max(1, MOST_CELLS // n**2)

    def of_rows(rows: ResponseRows) -> tuple[Tensor, ...]:
        found = items.matrix.new_zeros(len(free), len(free))
        for some in torch.arange(n_nodes, device=found.device).split(at_once):
            sums = found.new_zeros(n, n, len(some))
            for correct, observed, posterior in dense_posteriors(rows, row, n_nodes):
                numbers = numbers_of(correct, observed, len(scale))
                if some[0] == 0:
                    each = (posterior @ parts.added.flatten(1)).unflatten(1, parts.added.shape[1:])
                    mean = parts.scores(numbers, each).flatten(1)
                    found.addmm_(mean.T, mean, alpha=-1)
                parts.add_products(sums, numbers, posterior[:, some])
            found += parts.products(sums, some)
        return (found,)

    (missing,) = summed(problem.rows, "products of scores", (*at(row), items.matrix), of_rows)
    complete = torch.block_diag(*information_of_scale(problem, scale, items))
    return (complete - missing)[free][:, free]
