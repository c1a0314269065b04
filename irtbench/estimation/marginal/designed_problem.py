"""A problem whose items' parameters are made of fewer: parameters = offset + matrix x free parameters.

One slope for all items, steps that items share, or whatever is linear in what is estimated. What is designed is any
problem: its derivatives and information are taken at the items' own parameters and carried over by the matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from irtbench.estimation.marginal import nodes
from irtbench.estimation.marginal.e_step import Counts
from irtbench.estimation.marginal.m_step import ItemDerivatives, item_derivatives
from irtbench.estimation.marginal.observed_information import natural_by_steps, observed_information
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.collapsed import CollapsedLogistic
from irtbench.models.pyro_model.sites import ItemPrior
from irtbench.models.pyro_model.tensors import ItemTensors


@dataclass(frozen=True)
class Design:
    """How the items' parameters are made of what is free.

    Parameters
    ----------
    matrix
        Shape (n_items * width, n_free); rows of zeros for entries that are no parameters.
    offset
        Of the items' own parameters: what is not estimated, shape (n_items, width).
    """

    matrix: Tensor
    offset: Tensor

    def item_parameters(self, items: ItemTensors) -> ItemTensors:
        """The items' own parameters."""
        return ItemTensors.from_matrix(self.offset + (self.matrix @ items.matrix[0]).view(self.offset.shape))

    def free(self, items: ItemTensors) -> ItemTensors:
        """The free parameters of which those of these items are made, or the nearest."""
        excess = (items.matrix - self.offset).flatten()
        return ItemTensors.from_matrix((torch.linalg.pinv(self.matrix) @ excess)[None])  # a GPU has no gelsd


@dataclass(frozen=True)
class DesignedPrior(ItemPrior):
    """Prior densities of the items' own parameters, as a function of the free ones."""

    own: ItemPrior
    design: Design

    def values_of(self, items: ItemTensors) -> dict[str, Tensor]:
        """Values of the model's sites."""
        return self.own.values_of(self.design.item_parameters(items))

    def items_of(self, values: Mapping[str, Tensor]) -> ItemTensors:
        """Free parameters at these values of the model's sites."""
        return self.design.free(self.own.items_of(values))

    def log_density(self, items: ItemTensors) -> Tensor:
        """That of the items' own parameters."""
        return self.own.log_density(self.design.item_parameters(items))


@dataclass(frozen=True)
class DesignedProblem(Problem):
    """A problem whose items are designed; its own "items" are one row of free parameters.

    Parameters
    ----------
    undesigned
        The problem of the items' own parameters.
    design
        How they are made.
    """

    undesigned: Problem = field(kw_only=True)
    design: Design = field(kw_only=True)

    @classmethod
    def made_of(cls, problem: Problem, matrix: Tensor) -> DesignedProblem:
        """The problem with this matrix, of shape (n_items * width, n_free)."""
        design = Design(matrix, torch.where(problem.free, 0.0, problem.prior.fixed.matrix))
        nothing = ItemTensors.from_matrix(matrix.new_zeros(1, matrix.shape[1]))
        prior = DesignedPrior(problem.prior.densities, {}, nothing, problem.prior, design)
        return cls(problem.model, problem.rows, problem.nodes, prior, undesigned=problem, design=design)

    @cached_property
    def own(self) -> Problem:
        """That of the items' own parameters, on these nodes."""
        return replace(self.undesigned, rows=self.rows, nodes=self.nodes)

    def item_parameters(self, items: ItemTensors) -> ItemTensors:
        """The items' own parameters."""
        return self.design.item_parameters(items)

    @cached_property
    def guesses(self) -> bool:
        """Bounds of c are none of these parameters'."""
        return False

    @cached_property
    def free(self) -> Tensor:
        """All of them, shape (1, n_free)."""
        return torch.ones(1, self.design.matrix.shape[1], dtype=torch.bool, device=self.design.matrix.device)

    @property
    def column_scores(self) -> Tensor:
        """Those of the items."""
        return self.own.column_scores

    def of_columns(self, by_column: Tensor) -> Tensor:
        """Scores of items from values of their columns."""
        return self.own.of_columns(by_column)

    def slopes(self, items: ItemTensors) -> Tensor:
        """Those of the items."""
        return self.own.slopes(self.item_parameters(items))

    def expected_score(self, items: ItemTensors) -> Tensor:
        """That of the items."""
        return self.own.expected_score(self.item_parameters(items))

    def turned(self, items: ItemTensors) -> ItemTensors:
        """The same for abilities of the opposite sign."""
        return self.design.free(self.own.turned(self.item_parameters(items)))

    def rescaled(self, items: ItemTensors, mean: float, deviation: float) -> ItemTensors:
        """The same curves for theta' with theta = mean + deviation theta'."""
        return self.design.free(self.own.rescaled(self.item_parameters(items), mean, deviation))

    def probability_right(self, items: ItemTensors, theta: Tensor) -> Tensor:
        """P of each item at these abilities."""
        return self.own.probability_right(self.item_parameters(items), theta)

    def row(self, items: ItemTensors) -> CollapsedLogistic:
        """The distribution of a respondent's row."""
        return self.own.row(self.item_parameters(items))

    def counts(self, items: ItemTensors, *, at_nodes: bool = True) -> Counts:
        """The E step."""
        return self.own.counts(self.item_parameters(items), at_nodes=at_nodes)

    def starting_values(self) -> ItemTensors:
        """The free parameters nearest to where the items would start by themselves."""
        return self.design.free(self.own.starting_values())


@item_derivatives.register
def designed_derivatives(problem: DesignedProblem, items: ItemTensors, counts: Counts) -> ItemDerivatives:
    """Derivatives by the free parameters: M'g, M'IM and M'U of those by the items' own."""
    found, matrix = item_derivatives(problem.own, problem.item_parameters(items), counts), problem.design.matrix
    by_item = matrix.view(len(found.information), -1, matrix.shape[1])
    information = matrix.T @ (found.information @ by_item).flatten(0, 1)
    missing = None if found.missing is None else (matrix.T @ found.missing.flatten(0, 1))[None]
    return ItemDerivatives(items, (matrix.T @ found.gradient.flatten())[None], information[None], missing)


@observed_information.register
def designed_information(problem: DesignedProblem, items: ItemTensors) -> Tensor:
    """Negative Hessian by the free parameters, M'IM, shape (n_free, n_free)."""
    matrix = problem.design.matrix[problem.own.free.reshape(-1)]
    return matrix.T @ observed_information(problem.own, problem.item_parameters(items)) @ matrix


@natural_by_steps.register
def natural_by_steps_of_design(problem: DesignedProblem, items: ItemTensors) -> Tensor:
    """Derivatives of the items' parameters as they are read by the free ones, shape (n_items, width, n_free)."""
    own = natural_by_steps(problem.own, problem.item_parameters(items))
    return own @ problem.design.matrix.view(*own.shape[:2], -1)


@nodes.information.register
def designed_ability_information(problem: DesignedProblem, items: ItemTensors) -> Tensor:
    """Fisher information of each item on ability at each node, shape (n_items, n_nodes)."""
    return nodes.information(problem.own, problem.item_parameters(items))


def common_slope(free: Tensor) -> Tensor:
    """A matrix by which all slopes that are estimated, of the first column, are one parameter, the first."""
    return equal_parameters(free, [range(0, free.numel(), free.shape[1])])


def equal_parameters(free: Tensor, sets: Sequence[Sequence[int]]) -> Tensor:
    """A matrix by which the entries of each set, places in the flattened parameters, are one; these come first.

    A set of which nothing is estimated is none.
    """
    chosen = torch.nonzero(free.reshape(-1))[:, 0].tolist()
    sets = [own for places in sets if (own := sorted(set(chosen) & {*places}))]
    together = {place: number for number, places in enumerate(sets) for place in places}
    alone = [place for place in chosen if place not in together]
    matrix = torch.zeros(free.numel(), len(sets) + len(alone), dtype=torch.float64, device=free.device)
    for place, number in together.items():
        matrix[place, number] = 1.0
    matrix[alone, len(sets) + torch.arange(len(alone), device=free.device)] = 1.0
    return matrix


def rating_scale(n_items: int, n_categories: int, device: torch.device) -> Tensor:
    """The matrix of the rating scale model: one slope, d_jk = t_k + k c_j with c_1 = 0 (Andrich, 1978).

    Its columns are the slope, t_1, t_2, ... that all items have, and c_2, c_3, ...; its rows a, d_1, d_2, ... by item.
    """
    matrix = torch.zeros(n_items, n_categories, n_categories + n_items - 1, dtype=torch.float64, device=device)
    matrix[:, :, :n_categories] = torch.eye(n_categories, dtype=torch.float64, device=device)
    for item in range(1, n_items):
        matrix[item, 1:, n_categories + item - 1] = torch.arange(1, n_categories, dtype=torch.float64, device=device)
    return matrix.flatten(0, 1)
