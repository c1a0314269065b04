"""Two groups on one scale by common items, the anchors, and single items studied on that scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.driver import fenced
from irtbench.estimation.fit import choose_device, fit_model, problem_of
from irtbench.estimation.fit_categories import fit_categories, problem_in_categories
from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.fisher_scoring import find_mode, find_mode_on_right_nodes
from irtbench.estimation.marginal.group_problem import GroupProblem, groups_of, problem_of_groups
from irtbench.estimation.marginal.nodes import information
from irtbench.estimation.marginal.problem import Estimate, Evaluation, Problem
from irtbench.estimation.settings import FitSettings
from irtbench.estimation.status import Stop
from irtbench.estimation.threads import threads_for
from irtbench.models.coded_scores import CodedScores
from irtbench.models.item_models.item_model import NUMPY, ItemModel
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.pyro_model.categories import CategoryItems
from irtbench.models.pyro_model.rows import (
    MISSING,
    DenseRows,
    ResponseRows,
    as_rows,
    rows_in_categories,
)
from irtbench.models.pyro_model.tensors import ItemTensors
from irtbench.models.quadrature import normal_grid

MOVED = 1e-4  # of ability, for what a shift of it does to an item
TOLERANCE_ALONE = 1e-3  # of the items of a group by itself


@dataclass(frozen=True, eq=False)
class ComparedItems:
    """Responses of all respondents to items of any models.

    Parameters
    ----------
    responses
        Right or wrong, or numbers right of several trials; or in categories, each given in every group.
    models
        Of each item; of right and wrong the slope and the intercept, guessing being the same in all groups.
    settings
        Of the fit.
    """

    responses: ResponseMatrix | CodedScores
    models: Sequence[ItemModel]
    settings: FitSettings

    @cached_property
    def n_categories(self) -> list[int]:
        """How many categories each has."""
        return [len(own) for own in self.responses.categories]

    @cached_property
    def pooled(self) -> Problem:
        """The problem of all respondents as one group."""
        with fenced(0), torch.no_grad():
            if not isinstance(self.responses, CodedScores):
                return problem_of(self.responses, self.settings, normal_grid(self.settings.n_nodes))
            items = CategoryItems(self.models, self.n_categories, 1, choose_device(self.settings.device))
            return problem_in_categories(self.responses, items, self.settings)

    @cached_property
    def entries(self) -> NDArray[np.bool_]:
        """Which parameters differ where an item is free, all but asymptotes, shape (n_items, width)."""
        each = [model.parameters(n, 1) for model, n in zip(self.models, self.n_categories, strict=True)]
        return self._filled_up([[role not in ("guessing", "upper") for _, role in own] for own in each])

    @cached_property
    def shifts(self) -> NDArray[np.float64]:
        """What an item's parameters change by where it is easier by a logit, and alike otherwise, of that shape."""
        return self._filled_up([shift_of(*each) for each in zip(self.models, self.n_categories, strict=True)])

    def _filled_up(self, rows: Sequence[Sequence[Any]]) -> NDArray[Any]:
        width = self.pooled.free.shape[1]
        return np.array([[*own, *[type(own[0])()] * (width - len(own))] for own in rows])

    def estimated(self, members: NDArray[np.bool_]) -> ItemParameters | None:
        """The items from some respondents alone, with the weak prior; None if they cannot be estimated."""
        some, tolerance = self.responses.select_respondents(members), max(self.settings.tolerance, TOLERANCE_ALONE)
        alone = replace(self.settings, prior="weak", standard_errors=True, tolerance=tolerance)
        if not isinstance(some, CodedScores):
            fitted = fit_model(some, alone)
            return fitted.items if fitted.converged and fitted.items.covariance is not None else None
        found = fit_categories(some, dict(zip(some.item_ids, self.models, strict=True)), alone)
        return found.items.as_items() if found.converged and found.items.covariance is not None else None

    @property
    def everybody(self) -> DenseRows:
        """The responses of all."""
        assert isinstance(self.pooled.rows, DenseRows)
        return self.pooled.rows

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
        given = [self.outcomes(item) > 0 for item in range(self.responses.n_items)]
        return np.array([[each[part].any(axis=0).sum() < 2 for each in given] for part in members])


def shift_of(model: ItemModel, n_categories: int) -> list[float]:
    """By each intercept of an item in categories, on the scales that steps are taken in."""
    x = model.start(np.full(n_categories, 1 / n_categories), 1.0)
    gained = model.moved(np.eye(len(x))[0], 1.0, -MOVED)  # what a slope of 1 gains by a shift
    gained[0] = 0.0
    at = model.natural(x[:, None], 1, NUMPY)[:, 0]
    return (np.round((model.unbounded(at + gained) - model.unbounded(at)) / MOVED, 6) + 0.0).tolist()


def log_odds(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor]:
    """Of the columns against the lowest outcome, (n_columns, n_nodes), and log P of that, (n_items, n_nodes)."""
    row = problem.row(items)
    return row.log_odds if row.theta is None else items.logits(problem.nodes.basis), row.log_q


def in_every_group(scores: CodedScores, members: Sequence[NDArray[np.bool_]]) -> CodedScores:
    """The same with categories that a group did not give made one with the next lower, the lowest with the next.

    A difference between groups in a category that one of them never gave would be infinite.
    """
    found = scores.codes.copy()
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
    return replace(scores, codes=found, categories=tuple(tuple(range(top + 1)) for top in found.max(axis=0)))


LARGEST_INTERCEPT = 20.0  # in place of that of an item which all of a group get right
TOLERANCE, STUDIED_TOLERANCE = 1e-4, 1e-3  # standard errors: twice a log-likelihood is off by about their square
MOST_STUDIED_STEPS = 60

Found = Estimate | Evaluation


@dataclass(frozen=True, eq=False)
class GroupLikelihood:
    """The responses of one group and their likelihood at every node.

    Parameters
    ----------
    rows
        The responses of its members to all items.
    log_weights
        Of its abilities at the nodes, shape (n_nodes,).
    log_odds, log_base
        Of a right response, or of each category, against a wrong one or the first, shape (n_columns, n_nodes), and log
        probabilities of that, shape (n_items, n_nodes); zero where the group's responses to an item were left out.
    joint
        Log-likelihood of each respondent's responses to all items at each node, shape (n_members, n_nodes).
    information
        Average information of a respondent's answers to each item at each node, shape (n_items, n_nodes).
    """

    rows: DenseRows
    log_weights: Tensor
    log_odds: Tensor
    log_base: Tensor
    joint: Tensor
    information: Tensor

    def without(self, item: int, columns: slice) -> Tensor:
        """Log-likelihood of the responses to all other items, shape (n_members, n_nodes)."""
        right, asked = self.rows.right[:, columns].to(torch.float64), self.rows.asked[:, item].to(torch.float64)
        return self.joint - right @ self.log_odds[columns] - asked[:, None] * self.log_base[item]


@dataclass(frozen=True, eq=False)
class LinkedGroups:
    """A reference group with ability N(0, 1) and a focal group with N(mean, sd^2), all but some items common.

    Parameters
    ----------
    compared, focal
        The responses of both, and who is of the focal group, shape (n_respondents,).
    groups
        The reference and the focal group.
    alike
        Where all of a group answered an item alike, shape (2, n_items).
    freed
        Items with parameters of their own in each group, shape (n_items,).
    problem, mode
        Of the items and of the focal population, and where the likelihood is largest.
    """

    compared: ComparedItems
    focal: NDArray[np.bool_]
    groups: tuple[GroupLikelihood, GroupLikelihood]
    alike: NDArray[np.bool_]
    freed: NDArray[np.bool_]
    problem: GroupProblem
    mode: Estimate

    @property
    def theta(self) -> Tensor:
        """The nodes, shape (n_nodes,)."""
        return self.problem.nodes.theta[:, 0]

    def refitted(self, item: int, *, slope: bool, intercept: bool) -> Estimate:
        """The mode with an item free in the focal group, all others fitted again; see `others_fixed`."""
        differs, start = self.problem.prior.differs.clone(), self.mode.items.matrix.clone()
        differs[item], shift = self.differing(item, differs.shape[1], slope=slope, intercept=intercept)
        start[item, : differs.shape[1]] *= differs[item]
        return maximum(self.problem.with_differs(differs), start, item, shift)

    def others_fixed(self, item: int, *, slope: bool, intercept: bool, start: Found | None = None) -> Found:
        """The mode with all other items fixed, the focal population free: the item, and below it the population.

        In the focal group nothing of the item is free, or its `intercept` (it is harder or easier alike), or its
        `slope` and all distances between intercepts too. What is free has no estimate in a group that answered alike:
        at an infinite difficulty its answers are certain.
        """
        alone, own_rows = self.one_item(item)
        rows: list[ResponseRows] = [*own_rows]
        for group in np.flatnonzero(self.alike[:, item] & (slope or intercept)):
            rows[group] = as_rows(torch.full((len(rows[group]), 1), MISSING, device=self.theta.device))
        known = torch.stack([part.information.sum(dim=0) - part.information[item] for part in self.groups])
        whole, width = self.mode.items.matrix, alone.free.shape[1]
        differs, shift = self.differing(item, width, slope=slope, intercept=intercept)
        problem = GroupProblem.of_groups(
            alone,
            tuple(rows),
            differs[None] & (not self.alike[:, item].any()),
            known=tuple(part.without(item, self.compared.columns(item)) for part in self.groups),
            known_information=known,
        )
        if start is None:
            prior = self.problem.prior
            own = ItemTensors.from_matrix(whole[item : item + 1, prior.width : prior.width + width])
            moments = prior.populations(self.mode.items)
            matrix = problem.prior.joined(own, *moments, difference=whole[item, :width]).matrix
        else:
            matrix = start.items.matrix.clone()
        matrix[0, :width] *= problem.prior.differs[0]
        if not (slope or intercept or self.freed[item]) and self.mode.status.converged:
            return problem.evaluate(ItemTensors.from_matrix(matrix))  # which is the mode
        return maximum(problem, matrix, 0, shift)

    def one_item(self, item: int) -> tuple[Problem, list[DenseRows]]:
        """The problem of one item, of its own model and guessing, and each group's responses to it."""
        problem, place = self.compared.pooled, slice(item, item + 1)
        rows, nodes = [part.rows for part in self.groups], replace(self.problem.nodes, dtype=torch.float64)
        if isinstance(problem, CategoryProblem):
            alone = CategoryItems(self.compared.models[place], self.compared.n_categories[place], 1, self.theta.device)
            values = (part.values[:, place].cpu().numpy() for part in rows)
            own = [rows_in_categories(part, alone.columns, alone.device) for part in values]
            return CategoryProblem.of(partial(problem.model, items=alone), own[0], nodes), own
        own = [part.of_items(place) for part in rows]
        free, fixed = problem.prior.guessing_free[place], problem.prior.fixed.guessing[place]
        return Problem.of(partial(problem.model, guessing_free=free, guessing_fixed=fixed), own[0], nodes), own

    def differing(self, item: int, width: int, *, slope: bool, intercept: bool) -> tuple[Tensor, Tensor | None]:
        """Which of an item's parameters differ, and the shift where it is that of these alone.

        All that may differ do, those that a shift changes, or none.
        """
        known = self.compared.entries[item, :width], self.compared.shifts[item, :width]
        entries, shift = (torch.from_numpy(each).to(self.theta.device) for each in known)
        return (entries, None) if slope else ((shift != 0) & entries & intercept, shift if intercept else None)

    def by_group(self, item: int, found: Found) -> list[ItemTensors]:
        """The item as each group meets it; where all answered alike, with an intercept in place of infinity."""
        difference, reference = found.items.matrix[:1].chunk(2, dim=1)
        own = [ItemTensors.from_matrix(part) for part in (reference, reference + difference)]
        for group in np.flatnonzero(self.alike[:, item]):
            side = 1.0 if bool(self.groups[group].rows.right[:, item].any()) else -1.0
            certain = torch.full_like(own[group].intercept, side * LARGEST_INTERCEPT)
            own[group] = ItemTensors(torch.zeros_like(own[group].slope), certain, own[group].guessing)
        return own

    def shifted(self, item: int, found: Found) -> float:
        """By how many logits the item is easier for the focal group."""
        reference, focal = (own.matrix[0] for own in self.by_group(item, found))
        shift = torch.from_numpy(self.compared.shifts[item, : len(focal)]).to(focal)
        return float((focal - reference) @ shift / (shift @ shift))

    def expected_shares(self, item: int, found: Found) -> list[Tensor]:
        """Expected share of the item's score at each node, in each group, shapes (n_nodes,)."""
        alone, _ = self.one_item(item)
        each = [log_odds(alone, own) for own in self.by_group(item, found)]
        score = torch.arange(1, len(each[0][0]) + 1).to(each[0][0]) / len(each[0][0])
        return [score @ (odds + base).exp() for odds, base in each]


def maximum(problem: GroupProblem, start: Tensor, item: int, shift: Tensor | None) -> Estimate:
    """The mode, or the best that was reached where there is none among finite values.

    Where a shift changes several of the item's parameters, these differ by multiples of it alone.
    """
    items = ItemTensors.from_matrix(start)
    if shift is None or int((shift != 0).sum()) == 1 or not bool(problem.prior.differs[item].any()):
        return find_mode(problem, start=items, tolerance=STUDIED_TOLERANCE, max_steps=MOST_STUDIED_STEPS)
    differs, design = problem.prior.differs.clone(), start.new_zeros(1, *start.shape)
    differs[item], design[0, item, : len(shift)] = shift != 0, shift
    shifted = Problem.with_shared(problem.with_differs(differs), design)
    return find_mode(shifted, start=items, tolerance=STUDIED_TOLERANCE, max_steps=MOST_STUDIED_STEPS)


def link(compared: ComparedItems, focal: NDArray[np.bool_], *, freed: NDArray[np.bool_]) -> LinkedGroups:
    """Fit both groups with the items common to them, but for those freed.

    Where all of a group answer a freed item alike, the likelihood is highest at an infinite difficulty, where the
    answers are certain: they say nothing of anything else, and are left out. A slope that grows without end in the
    focal group is taken to be that of the other.
    """
    settings, pooled, members = compared.settings, compared.pooled, (~focal, focal)
    alike = compared.alike(members)
    counted = ~(alike & freed)
    differs = (freed & counted.all(axis=0))[:, None] & compared.entries
    with threads_for(focal.size * compared.responses.n_items), torch.no_grad():
        device, start = pooled.rows.device, pooled.starting_values()
        rows = [compared.everybody.where(torch.from_numpy(part).to(device)) for part in members]
        counting = tuple(of_counted(*each) for each in zip(rows, torch.from_numpy(counted).to(device), strict=True))
        while True:
            free = torch.from_numpy(differs).to(device)
            problem, near = problem_of_groups(pooled, counting, n_nodes=settings.n_nodes, differs=free, start=start)
            found, mode = find_mode_on_right_nodes(
                problem, near, tolerance=max(settings.tolerance, TOLERANCE), max_steps=settings.max_steps
            )
            problem = groups_of(found)
            steep = [j for j in mode.status.steep if j < len(differs) and differs[j, 0]]
            if mode.status.stop is not Stop.AT_BOUND or not steep:
                break
            differs[steep, 0] = False
        groups = []
        n_columns = torch.tensor(compared.n_categories, device=device) - 1
        for own_rows, there, (alone, own) in zip(rows, counted, problem.each(mode.items), strict=True):
            counts = torch.from_numpy(there).to(device, torch.float64)[:, None]
            odds, base = log_odds(alone, own)
            odds, base = odds * counts.repeat_interleave(n_columns, dim=0), base * counts
            n_asked = own_rows.asked.to(torch.float64)
            joint = own_rows.right.to(torch.float64) @ odds + n_asked @ base
            average = counts * n_asked.mean(dim=0)[:, None] * information(alone, own)
            groups.append(GroupLikelihood(own_rows, alone.nodes.log_weights, odds, base, joint, average))
    return LinkedGroups(compared, focal, (groups[0], groups[1]), alike, freed, problem, mode)


def of_counted(rows: DenseRows, counted: Tensor) -> DenseRows:
    """The same without the responses, all right or all wrong, to items that do not count, shape (n_items,)."""
    if bool(counted.all()):
        return rows
    trials = None if rows.trials is None else rows.trials.masked_fill(~counted, 0)
    values = rows.values.masked_fill(~counted, MISSING)
    return DenseRows(values, rows.n_correct.masked_fill(~counted, 0.0), False, trials)
