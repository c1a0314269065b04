"""The responses of two groups to items that are compared between them: right and wrong, or in categories."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.fit import choose_device
from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.group_problem import BOUND, GroupProblem, group_nodes
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.multiple_groups import group_problem
from irtbench.estimation.settings import FitSettings
from irtbench.models.coded_scores import MISSING
from irtbench.models.item_models.item_model import NUMPY, ItemModel
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.categories import CategoryItems, category_model
from irtbench.models.pyro_model.item_tensors import ItemTensors, log_probabilities
from irtbench.models.pyro_model.rows import DenseRows, encode_responses, rows_in_categories

MOVED = 1e-4  # of ability, for what a shift of it does to an item


class ComparedItems(ABC):
    """Responses of all respondents to items of any models."""

    item_ids: tuple[str, ...]
    settings: FitSettings

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @property
    @abstractmethod
    def observed(self) -> NDArray[np.bool_]:
        """Where there is a response, shape (n_respondents, n_items)."""

    @property
    @abstractmethod
    def entries(self) -> NDArray[np.bool_]:
        """Which parameters differ where an item is free, all but asymptotes, shape (n_items, at most the width)."""

    @abstractmethod
    def shift(self, item: int) -> Tensor:
        """What an item's parameters change by where it is easier by a logit, and alike otherwise, shape (width,)."""

    @abstractmethod
    def alike(self, members: tuple[NDArray[np.bool_], ...]) -> NDArray[np.bool_]:
        """Where all of a group answered alike, so that a difference may be without end, shape (n_groups, n_items)."""

    @abstractmethod
    def of_groups(
        self, members: tuple[NDArray[np.bool_], ...], counted: NDArray[np.bool_], differs: NDArray[np.bool_]
    ) -> tuple[GroupProblem, ItemTensors]:
        """The problem of both groups, and where to start; of each the items that count, shape (n_groups, n_items)."""

    @abstractmethod
    def rows(self, members: NDArray[np.bool_], device: torch.device) -> DenseRows:
        """The responses of some respondents."""

    @abstractmethod
    def columns(self, item: int) -> list[int]:
        """Columns that the numbers of an item's responses stand in."""

    @abstractmethod
    def log_odds(self, problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor]:
        """Of the columns against the lowest outcome, (n_columns, n_nodes), and log P of that, (n_items, n_nodes)."""

    @abstractmethod
    def one_item(
        self, item: int, rows: tuple[DenseRows, ...], problem: GroupProblem
    ) -> tuple[Problem, list[DenseRows]]:
        """The problem of one item, and each group's responses to it."""

    @abstractmethod
    def outcomes(self, item: int) -> NDArray[np.float64]:
        """How often each respondent gave each response to an item, shape (n_respondents, n_outcomes)."""


@dataclass(frozen=True, eq=False)
class RightOrWrongItems(ComparedItems):
    """Responses right or wrong, or numbers right of several trials."""

    responses: ResponseMatrix
    settings: FitSettings

    @property
    def item_ids(self) -> tuple[str, ...]:  # type: ignore[override]
        """The items."""
        return self.responses.item_ids

    @property
    def observed(self) -> NDArray[np.bool_]:
        """Where there is a response."""
        return self.responses.observed

    @property
    def entries(self) -> NDArray[np.bool_]:
        """Slope and intercept."""
        return np.ones((self.n_items, 2), dtype=np.bool_)

    def shift(self, item: int) -> Tensor:
        """The intercept."""
        return torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)

    def alike(self, members: tuple[NDArray[np.bool_], ...]) -> NDArray[np.bool_]:
        """All right, or all wrong."""
        parts = [self.responses.select_respondents(part) for part in members]
        return np.stack([(part.n_correct_by_item == 0) | (part.n_correct_by_item == part.n_by_item) for part in parts])

    def of_groups(
        self, members: tuple[NDArray[np.bool_], ...], counted: NDArray[np.bool_], differs: NDArray[np.bool_]
    ) -> tuple[GroupProblem, ItemTensors]:
        """As several groups are fitted; an item may be without a response that counts."""
        asked = self.responses.n_trials * counted[members[1].astype(np.intp)]
        data = replace(
            self.responses, correct=np.where(asked > 0, self.responses.correct, np.nan), trials=asked.astype(np.int64)
        )
        problem, start = group_problem(data, members, self.settings, differs=differs)
        matrix, slope = start.matrix, differs.shape[1] + 1
        matrix[:, slope] = matrix[:, slope].nan_to_num(1.0)
        return problem, ItemTensors.from_matrix(matrix.nan_to_num(0.0))

    def rows(self, members: NDArray[np.bool_], device: torch.device) -> DenseRows:
        """The responses of some respondents."""
        rows = encode_responses(self.responses.select_respondents(members), device)
        assert isinstance(rows, DenseRows)
        return rows

    def columns(self, item: int) -> list[int]:
        """The item's own."""
        return [item]

    def log_odds(self, problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor]:
        """log(P / (1 - P)) and log(1 - P)."""
        log_p, log_q = log_probabilities(items.logits(problem.nodes.basis), items.guessing.log()[:, None])
        return log_p - log_q, log_q

    def one_item(
        self, item: int, rows: tuple[DenseRows, ...], problem: GroupProblem
    ) -> tuple[Problem, list[DenseRows]]:
        """With the item's own guessing."""
        place, model = slice(item, item + 1), problem.model.keywords["model"]  # type: ignore[attr-defined]
        guessing = {name: model.keywords[name][place] for name in ("guessing_free", "guessing_fixed")}
        own = [part.of_items(place) for part in rows]
        return Problem.of(partial(model, **guessing), own[0], replace(problem.nodes, dtype=torch.float64)), own

    def outcomes(self, item: int) -> NDArray[np.float64]:
        """Wrong and right."""
        right = np.nan_to_num(self.responses.correct[:, item])
        return np.stack([self.responses.n_trials[:, item] - right, right], axis=1)


@dataclass(frozen=True, eq=False)
class ItemsInCategories(ComparedItems):
    """Responses in categories, each given in every group.

    Parameters
    ----------
    codes
        Categories 0, 1, ..., -1 where missing, shape (n_respondents, n_items).
    item_ids, models, n_categories
        The items.
    settings
        Prior, device, and how to stop.
    """

    codes: NDArray[np.int8]
    item_ids: tuple[str, ...]
    models: tuple[ItemModel, ...]
    n_categories: tuple[int, ...]
    settings: FitSettings

    @property
    def observed(self) -> NDArray[np.bool_]:
        """Where there is a response."""
        return self.codes != MISSING

    @cached_property
    def items(self) -> CategoryItems:
        """The models, where they are computed."""
        return CategoryItems(self.models, self.n_categories, 1, choose_device(self.settings.device))

    @property
    def priors(self) -> Priors:
        """Prior densities."""
        return self.settings.priors

    @property
    def entries(self) -> NDArray[np.bool_]:
        """Slope, intercepts and their distances."""
        return np.asarray((self.items.free & ~self.items.where("guessing") & ~self.items.where("upper")).cpu().numpy())

    def shift(self, item: int) -> Tensor:
        """By each of the item's intercepts, on the scales that steps are taken in."""
        model = self.models[item]
        x = model.start(np.full(self.n_categories[item], 1 / self.n_categories[item]), 1.0)
        told = model.moved(np.eye(len(x))[0], 1.0, -MOVED)  # what a slope of 1 gains by a shift
        told[0] = 0.0
        at = model.natural(x[:, None], 1, NUMPY)[:, 0]
        return torch.from_numpy(np.round((model.unbounded(at + told) - model.unbounded(at)) / MOVED, 6))

    def alike(self, members: tuple[NDArray[np.bool_], ...]) -> NDArray[np.bool_]:
        """Nowhere: every category is given in every group."""
        return np.zeros((len(members), self.n_items), dtype=np.bool_)

    def of_groups(
        self, members: tuple[NDArray[np.bool_], ...], counted: NDArray[np.bool_], differs: NDArray[np.bool_]
    ) -> tuple[GroupProblem, ItemTensors]:
        """As several groups are fitted."""
        step, device = 12 / (self.settings.n_nodes - 1), self.items.device
        nodes = group_nodes(BOUND, step, torch.float64, device)
        model = partial(category_model, items=self.items, priors=self.priors)
        alone = CategoryProblem.of(model, rows_in_categories(self.codes, self.items.columns, device), nodes)
        rows = tuple(rows_in_categories(self.codes[part], self.items.columns, device) for part in members)
        problem = GroupProblem.of_groups(alone, rows, torch.from_numpy(differs).to(device))
        return problem, problem.prior.joined(alone.starting_values())

    def rows(self, members: NDArray[np.bool_], device: torch.device) -> DenseRows:
        """The responses of some respondents."""
        return rows_in_categories(self.codes[members], self.items.columns, self.items.device)

    def columns(self, item: int) -> list[int]:
        """Those of its categories but the first."""
        first = sum(self.n_categories[:item]) - item
        return list(range(first, first + self.n_categories[item] - 1))

    def log_odds(self, problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor]:
        """Of each category against the first, and log P of the first."""
        assert isinstance(problem, CategoryProblem)
        return problem.scale.log_odds(items.matrix, problem.nodes.theta.T)

    def one_item(
        self, item: int, rows: tuple[DenseRows, ...], problem: GroupProblem
    ) -> tuple[Problem, list[DenseRows]]:
        """Of the item's own model."""
        alone = CategoryItems([self.models[item]], [self.n_categories[item]], 1, self.items.device)
        own = [
            rows_in_categories(part.values[:, item : item + 1].cpu().numpy(), alone.columns, alone.device)
            for part in rows
        ]
        model = partial(category_model, items=alone, priors=self.priors)
        return CategoryProblem.of(model, own[0], replace(problem.nodes, dtype=torch.float64)), own

    def outcomes(self, item: int) -> NDArray[np.float64]:
        """The categories."""
        return (self.codes[:, item, None] == np.arange(self.n_categories[item])).astype(np.float64)


def in_every_group(codes: NDArray[np.int8], members: tuple[NDArray[np.bool_], ...]) -> NDArray[np.int8]:
    """The same with categories that a group did not give made one with the next lower, the lowest with the next.

    A difference between groups in a category that one of them never gave would be without end.
    """
    found = codes.copy()
    for column in found.T:
        while True:
            given = [set(column[part & (column != MISSING)].tolist()) for part in members]
            every = sorted(set().union(*given))
            lacking = [k for k in every if not all(k in own for own in given)]
            if not lacking or len(every) == 1:
                break
            at = every.index(lacking[0])
            column[column == lacking[0]] = every[at - 1] if at else every[1]
        there = np.unique(column[column != MISSING])
        column[column != MISSING] = np.searchsorted(there, column[column != MISSING])
    return found
