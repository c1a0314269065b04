"""The responses of two groups to items that are compared between them: right and wrong, or in categories."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.fit import choose_device, fit_model, problem_of
from irtbench.estimation.fit_categories import fit_categories
from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.settings import FitSettings
from irtbench.models.coded_scores import MISSING
from irtbench.models.item_models.item_model import NUMPY, ItemModel
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.pyro_model.categories import CategoryItems, category_model
from irtbench.models.pyro_model.item_tensors import ItemTensors, log_probabilities
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.pyro_model.rows import DenseRows, encode_responses, rows_in_categories
from irtbench.models.quadrature import normal_grid

MOVED = 1e-4  # of ability, for what a shift of it does to an item
TOLERANCE_ALONE = 1e-3  # of the items of a group by itself


class ComparedItems(ABC):
    """Responses of all respondents to items of any models."""

    item_ids: tuple[str, ...]
    settings: FitSettings
    n_categories: tuple[int, ...]
    everybody: DenseRows

    @property
    @abstractmethod
    def entries(self) -> NDArray[np.bool_]:
        """Which parameters differ where an item is free, all but asymptotes, shape (n_items, width)."""

    @abstractmethod
    def shift(self, item: int) -> Tensor:
        """What an item's parameters change by where it is easier by a logit, and alike otherwise, shape (width,)."""

    @cached_property
    @abstractmethod
    def pooled(self) -> Problem:
        """The problem of all respondents as one group."""

    @abstractmethod
    def one_item(self, item: int, rows: Sequence[DenseRows], nodes: NodeTensors) -> tuple[Problem, list[DenseRows]]:
        """The problem of one item, and each group's responses to it."""

    @abstractmethod
    def estimated(self, members: NDArray[np.bool_]) -> ItemParameters | None:
        """The items from some respondents alone, with the weak prior; None if they cannot be estimated."""

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @property
    def observed(self) -> NDArray[np.bool_]:
        """Where there is a response, shape (n_respondents, n_items)."""
        return np.asarray((self.everybody.asked > 0).cpu().numpy())

    def rows(self, members: NDArray[np.bool_]) -> DenseRows:
        """The responses of some respondents."""
        return self.everybody.where(torch.from_numpy(members).to(self.everybody.device))

    def columns(self, item: int) -> slice:
        """Columns of an item's outcomes but the lowest."""
        first = sum(self.n_categories[:item]) - item
        return slice(first, first + self.n_categories[item] - 1)

    def outcomes(self, item: int) -> NDArray[np.float64]:
        """How often each respondent gave each response to an item, shape (n_respondents, n_outcomes)."""
        later = self.everybody.right[:, self.columns(item)].to(torch.float64)
        lowest = self.everybody.asked[:, item, None].to(torch.float64) - later.sum(dim=1, keepdim=True)
        return np.asarray(torch.cat([lowest, later], dim=1).cpu().numpy())

    def alike(self, members: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
        """Where all of a group answered alike, so that a difference may be infinite, shape (n_groups, n_items)."""
        given = [self.outcomes(item) > 0 for item in range(self.n_items)]
        return np.array([[each[part].any(axis=0).sum() < 2 for each in given] for part in members])


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
    def n_categories(self) -> tuple[int, ...]:  # type: ignore[override]
        """Two each."""
        return (2,) * self.n_items

    @cached_property
    def everybody(self) -> DenseRows:  # type: ignore[override]
        """The responses of all."""
        rows = encode_responses(self.responses, choose_device(self.settings.device))
        assert isinstance(rows, DenseRows)
        return rows

    @property
    def entries(self) -> NDArray[np.bool_]:
        """Slope and intercept."""
        return np.tile([True, True, False], (self.n_items, 1))

    def shift(self, item: int) -> Tensor:
        """The intercept."""
        return torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)

    @cached_property
    def pooled(self) -> Problem:
        """As one group is fitted."""
        return problem_of(self.responses, self.settings, normal_grid(self.settings.n_nodes))

    def one_item(self, item: int, rows: Sequence[DenseRows], nodes: NodeTensors) -> tuple[Problem, list[DenseRows]]:
        """With the item's own guessing."""
        place, prior = slice(item, item + 1), self.pooled.prior
        own = [part.of_items(place) for part in rows]
        free, fixed = prior.guessing_free[place], prior.fixed.guessing[place]
        return Problem.of(partial(self.pooled.model, guessing_free=free, guessing_fixed=fixed), own[0], nodes), own

    def estimated(self, members: NDArray[np.bool_]) -> ItemParameters | None:
        """By `fit_model`."""
        tolerance = max(self.settings.tolerance, TOLERANCE_ALONE)
        settings = replace(self.settings, prior="weak", standard_errors=True, tolerance=tolerance)
        found = fit_model(self.responses.select_respondents(members), settings)
        return found.items if found.converged and found.items.covariance is not None else None


@dataclass(frozen=True, eq=False)
class ItemsInCategories(ComparedItems):
    """Responses in categories 0, 1, ..., -1 where missing, each category given in every group."""

    codes: NDArray[np.int8]
    item_ids: tuple[str, ...]
    models: tuple[ItemModel, ...]
    n_categories: tuple[int, ...]
    settings: FitSettings

    @cached_property
    def items(self) -> CategoryItems:
        """The models on their device."""
        return CategoryItems(self.models, self.n_categories, 1, choose_device(self.settings.device))

    @cached_property
    def everybody(self) -> DenseRows:  # type: ignore[override]
        """The responses of all."""
        return rows_in_categories(self.codes, self.items.columns, self.items.device)

    @property
    def entries(self) -> NDArray[np.bool_]:
        """Slope, intercepts and their distances."""
        return np.asarray((self.items.free & ~self.items.where("guessing") & ~self.items.where("upper")).cpu().numpy())

    def shift(self, item: int) -> Tensor:
        """By each of the item's intercepts, on the scales that steps are taken in."""
        model = self.models[item]
        x = model.start(np.full(self.n_categories[item], 1 / self.n_categories[item]), 1.0)
        gained = model.moved(np.eye(len(x))[0], 1.0, -MOVED)  # what a slope of 1 gains by a shift
        gained[0] = 0.0
        at = model.natural(x[:, None], 1, NUMPY)[:, 0]
        return torch.from_numpy(np.round((model.unbounded(at + gained) - model.unbounded(at)) / MOVED, 6))

    @cached_property
    def pooled(self) -> Problem:
        """As one group is fitted."""
        grid = normal_grid(self.settings.n_nodes)
        nodes = NodeTensors.from_quadrature(grid, dtype=torch.float64, device=self.items.device)
        return self._problem(self.items, self.everybody, nodes)

    def _problem(self, items: CategoryItems, rows: DenseRows, nodes: NodeTensors) -> CategoryProblem:
        return CategoryProblem.of(partial(category_model, items=items, priors=self.settings.priors), rows, nodes)

    def one_item(self, item: int, rows: Sequence[DenseRows], nodes: NodeTensors) -> tuple[Problem, list[DenseRows]]:
        """Of the item's own model."""
        alone = CategoryItems([self.models[item]], [self.n_categories[item]], 1, self.items.device)
        values = (part.values[:, item, None].cpu().numpy() for part in rows)
        own = [rows_in_categories(part, alone.columns, alone.device) for part in values]
        return self._problem(alone, own[0], nodes), own

    def estimated(self, members: NDArray[np.bool_]) -> ItemParameters | None:
        """By `fit_categories`."""
        scores = pd.DataFrame(self.codes[members], columns=list(self.item_ids)).astype(np.float64)
        found = fit_categories(
            scores.where(scores != MISSING), dict(zip(self.item_ids, self.models, strict=True)), prior="weak",
            tolerance=max(self.settings.tolerance, TOLERANCE_ALONE), device=self.settings.device,
        )  # fmt: skip
        return found.items.as_items() if found.converged and found.items.covariance is not None else None


def log_odds(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor]:
    """Of the columns against the lowest outcome, (n_columns, n_nodes), and log P of that, (n_items, n_nodes)."""
    if isinstance(problem, CategoryProblem):
        return problem.scale.log_odds(items.matrix, problem.nodes.theta.T)
    log_p, log_q = log_probabilities(items.logits(problem.nodes.basis), items.guessing.log()[:, None])
    return log_p - log_q, log_q


def in_every_group(codes: NDArray[np.int8], members: Sequence[NDArray[np.bool_]]) -> NDArray[np.int8]:
    """The same with categories that a group did not give made one with the next lower, the lowest with the next.

    A difference between groups in a category that one of them never gave would be infinite.
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
