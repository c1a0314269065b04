"""Two groups on one scale by common items, the anchors, and single items studied on that scale."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.marginal.group_problem import GroupProblem
from irtbench.estimation.marginal.mode import find_mode
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.multiple_groups import find_group_mode, group_problem
from irtbench.estimation.settings import FitSettings
from irtbench.estimation.status import Status, Stop
from irtbench.estimation.threads import threads_for
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.model import logistic_model
from irtbench.models.pyro_model.rows import MISSING, DenseRows, ResponseRows, as_rows, encode_responses

LARGEST_INTERCEPT = 20.0  # stands for that of an item which all of a group get right
TOLERANCE, STUDIED_TOLERANCE = 1e-4, 1e-3  # standard errors: twice a log-likelihood is off by about their square
MOST_STUDIED_STEPS = 60


@dataclass(frozen=True, eq=False)
class GroupLikelihood:
    """The responses of one group and their likelihood at every node.

    Parameters
    ----------
    rows
        The responses of its members to all items.
    items
        The items as the group meets them.
    log_weights
        Of its abilities at the nodes, shape (n_nodes,).
    log_p, log_q
        Log probabilities of a right and of a wrong response at each node, shape (n_items, n_nodes); zero where the
        group's responses to an item were left out.
    joint
        Log-likelihood of each respondent's responses to all items at each node, shape (n_members, n_nodes).
    information
        Average information of a respondent's answers to each item at each node, shape (n_items, n_nodes).
    """

    rows: DenseRows
    items: ItemTensors
    log_weights: Tensor
    log_p: Tensor
    log_q: Tensor
    joint: Tensor
    information: Tensor

    def without(self, item: int) -> Tensor:
        """Log-likelihood of the responses to all other items, shape (n_members, n_nodes)."""
        right, asked = (numbers[:, item, None].to(torch.float64) for numbers in (self.rows.right, self.rows.asked))
        return self.joint - right * self.log_p[item] - (asked - right) * self.log_q[item]

    def to_item(self, item: int) -> DenseRows:
        """The responses to one item."""
        own = self.rows.of_items(slice(item, item + 1))
        return replace(own, complete=own.trials is None and not bool((own.values == MISSING).any()))


@dataclass(frozen=True, eq=False)
class LinkedGroups:
    """A reference group with ability N(0, 1) and a focal group with N(mean, sd^2), all but the freed items common.

    Parameters
    ----------
    groups
        The reference and the focal group.
    mean, sd
        Of ability in the focal group.
    alike
        Where all of a group answered an item alike, shape (2, n_items).
    freed
        Items with a slope and an intercept of their own in each group, shape (n_items,).
    kept
        Items with any response that counts, shape (n_items,).
    mode
        The parameters of these items and of the focal population where the likelihood is largest.
    item_ids, settings, status, problem
        Of the fit.
    """

    groups: tuple[GroupLikelihood, GroupLikelihood]
    mean: float
    sd: float
    alike: NDArray[np.bool_]
    freed: NDArray[np.bool_]
    kept: NDArray[np.bool_]
    mode: ItemTensors
    item_ids: tuple[str, ...]
    settings: FitSettings
    status: Status
    problem: GroupProblem

    @property
    def theta(self) -> Tensor:
        """The nodes, shape (n_nodes,)."""
        return self.problem.nodes.theta[:, 0]

    def largest_log_posterior(self, item: int, *, slope: bool, intercept: bool) -> float:
        """The largest log-posterior with an item's slope or intercept free in the focal group, all others refitted.

        NaN where all of a group answered the item alike.
        """
        if self.alike[:, item].any():
            return float("nan")
        differs, place = self.problem.group_prior.differs.clone(), int(self.kept[:item].sum())
        differs[place] = torch.tensor([slope, intercept, False])
        start = self.mode.matrix.clone()
        start[place, : differs.shape[1]] *= differs[place]
        return maximum(self.problem.with_differs(differs), ItemTensors.from_matrix(start)).log_posterior

    def studied(self, item: int) -> StudiedItem:
        """The item with all others held at their fit."""
        return StudiedItem(self, item, (self.groups[0].without(item), self.groups[1].without(item)))


def link(
    responses: ResponseMatrix, focal: NDArray[np.bool_], *, freed: NDArray[np.bool_], settings: FitSettings
) -> LinkedGroups:
    """Fit both groups with the items common to them, but for those freed.

    Where all of a group answer a freed item alike, the likelihood is highest at an infinite difficulty, where the
    answers are certain: they say nothing of anything else, and are left out. A slope that grows without end in the
    focal group is taken to be that of the other.

    Parameters
    ----------
    responses
        Graded responses to items that not all answered alike.
    focal
        Who belongs to the focal group, shape (n_respondents,).
    freed
        Items with parameters of their own in each group, shape (n_items,).
    settings
        The model and its prior, none or weak.
    """
    members = (~focal, focal)
    parts = [responses.select_respondents(part) for part in members]
    alike = np.stack([answered_alike(part) for part in parts])
    counted: NDArray[np.bool_] = ~(alike & freed)
    asked = responses.n_trials
    for group, part in enumerate(members):
        asked[np.ix_(part, ~counted[group])] = 0
    kept: NDArray[np.bool_] = np.asarray(counted.any(axis=0))
    correct = np.where(asked > 0, responses.correct, np.nan)
    data = replace(responses, correct=correct, trials=asked.astype(np.int64)).select_items(
        [i for i, there in zip(responses.item_ids, kept, strict=True) if there]
    )
    differs = np.repeat((freed & counted.all(axis=0))[kept][:, None], 2, axis=1)
    settings = replace(settings, tolerance=max(settings.tolerance, TOLERANCE))
    with threads_for(correct.size), torch.no_grad():
        while True:
            problem, start = group_problem(data, members, settings, differs=differs)
            problem, mode = find_group_mode(problem, start, settings)
            steep = [j for j in mode.status.steep if j < len(differs) and differs[j, 0]]
            if mode.status.stop is not Stop.AT_BOUND or not steep:
                break
            differs[steep, 0] = False
        mean, log_deviation = problem.group_prior.populations(mode.items)
        linked = []
        for group, (of_group, items) in enumerate(problem.each(mode.items)):
            row, own_items = of_group.row(items), spread(items, kept)
            log_q = torch.zeros(len(kept), row.log_q.shape[1], dtype=torch.float64, device=row.log_q.device)
            log_q[torch.from_numpy(kept)] = row.log_q.to(torch.float64)
            log_q[torch.from_numpy(~counted[group])] = 0.0
            log_p = torch.where(log_q == 0, 0.0, torch.log(-torch.expm1(log_q)))
            own = dense_rows(parts[group], of_group.rows.device)
            n_right, n_asked = own.right.to(torch.float64), own.asked.to(torch.float64)
            joint = n_right @ log_p + (n_asked - n_right) @ log_q
            told = n_asked.mean(dim=0)[:, None] * item_information(own_items, log_p, log_q, row.nodes.basis)
            linked.append(GroupLikelihood(own, own_items, row.nodes.log_weights, log_p, log_q, joint, told))
    return LinkedGroups(
        groups=(linked[0], linked[1]),
        mean=float(mean[0]),
        sd=float(log_deviation[0].exp()),
        alike=alike,
        freed=freed,
        kept=kept,
        mode=mode.items,
        item_ids=responses.item_ids,
        settings=settings,
        status=mode.status,
        problem=problem,
    )


def item_information(items: ItemTensors, log_p: Tensor, log_q: Tensor, basis: Tensor) -> Tensor:
    """Information of each item at each node, (a s Q)^2 / (P Q) with s of z = a theta + d; 0 where P is 1 or 0."""
    slope = items.slope * torch.sigmoid(items.logits(basis)) * log_q.exp()
    return torch.where(log_q < 0, slope**2 / (log_p + log_q).exp().clamp(min=1e-300), 0.0)


def dense_rows(responses: ResponseMatrix, device: torch.device) -> DenseRows:
    """The responses on their device."""
    rows = encode_responses(responses, device)
    assert isinstance(rows, DenseRows)
    return rows


def answered_alike(responses: ResponseMatrix) -> NDArray[np.bool_]:
    """Items to which all responses are right, or all wrong, shape (n_items,)."""
    n_correct = responses.n_correct_by_item
    return np.asarray((n_correct == 0) | (n_correct == responses.n_by_item))


def spread(items: ItemTensors, kept: NDArray[np.bool_]) -> ItemTensors:
    """The items that were kept in their places among all; slopes of 1 and intercepts of 0 in the others."""
    matrix = items.matrix.new_zeros(len(kept), items.matrix.shape[1])
    matrix[:, 0] = 1.0
    matrix[torch.from_numpy(kept)] = items.matrix
    return ItemTensors.from_matrix(matrix)


@dataclass(frozen=True, eq=False)
class Studied:
    """What was found of a studied item under one assumption.

    Parameters
    ----------
    log_posterior
        The largest log-likelihood, all others held at their fit, with the prior of the item.
    parameters
        Where: the item and the focal population.
    """

    log_posterior: float
    parameters: ItemTensors


@dataclass(frozen=True, eq=False)
class StudiedItem:
    """One item in two groups, all the others held at their fit, with the focal population free.

    Parameters
    ----------
    linked
        The fit.
    item
        Which.
    others
        Log-likelihood of each group's responses to all other items at each node.
    """

    linked: LinkedGroups
    item: int
    others: tuple[Tensor, Tensor]

    @property
    def alike(self) -> NDArray[np.bool_]:
        """In which group all answered alike, shape (2,)."""
        return self.linked.alike[:, self.item]

    def problem(self, *, slope: bool, intercept: bool) -> GroupProblem:
        """The item's own, with slope or intercept free in the focal group.

        What is free cannot be told in a group that answered alike: at an infinite difficulty its answers are certain.
        """
        linked, free = self.linked, slope or intercept
        rows: list[ResponseRows] = [part.to_item(self.item) for part in linked.groups]
        for group in np.flatnonzero(self.alike & free):
            rows[group] = as_rows(torch.full((len(rows[group]), 1), MISSING, device=linked.theta.device))
        guessing_free, guessing_fixed = linked.settings.guessing_of([linked.item_ids[self.item]])
        device = linked.theta.device
        differs = torch.tensor([[slope, intercept, False]], device=device) & (not self.alike.any())
        model = partial(
            logistic_model,
            priors=linked.settings.priors,
            guessing_free=torch.from_numpy(guessing_free).to(device),
            guessing_fixed=torch.from_numpy(guessing_fixed).to(device),
        )
        alone = Problem.of(model, rows[0], replace(linked.problem.nodes, dtype=torch.float64))
        told = torch.stack([part.information.sum(dim=0) - part.information[self.item] for part in linked.groups])
        return GroupProblem.of_groups(alone, tuple(rows), differs, known=self.others, known_information=told)

    def common(self) -> Studied:
        """The item the same in both groups; where it is in the fit, that is its maximum."""
        problem = self.problem(slope=False, intercept=False)
        linked = self.linked
        matrix = linked.groups[0].items.matrix[self.item : self.item + 1]
        mean = torch.tensor([linked.mean], dtype=torch.float64, device=linked.theta.device)
        deviation = torch.full_like(mean, linked.sd)
        start = problem.group_prior.joined(ItemTensors.from_matrix(matrix), mean, deviation.log())
        if not linked.freed[self.item] and linked.status.converged:
            return Studied(problem.evaluate(start).log_posterior, start)
        return maximum(problem, start)

    def free(self, start: Studied, *, slope: bool) -> Studied:
        """The item with an intercept of its own in the focal group, and perhaps a slope."""
        return maximum(self.problem(slope=slope, intercept=True), start.parameters)

    def by_group(self, found: Studied) -> tuple[ItemTensors, ItemTensors]:
        """The item as each group meets it; where all answered alike, with an intercept that stands for infinity."""
        item = found.parameters.matrix[:1]  # below it stands the focal population
        own = [ItemTensors.from_matrix(item @ by.T) for by in self.linked.problem.group_prior.of_group]
        for group in np.flatnonzero(self.alike):
            right = bool(self.linked.groups[group].rows.right[:, self.item].any())
            certain = torch.full_like(own[group].intercept, LARGEST_INTERCEPT if right else -LARGEST_INTERCEPT)
            own[group] = replace(own[group], slope=torch.zeros_like(own[group].slope), intercept=certain)
        return own[0], own[1]


def maximum(problem: GroupProblem, start: ItemTensors) -> Studied:
    """The mode, or the best that was reached where there is none among finite values."""
    found = find_mode(problem, start=start, tolerance=STUDIED_TOLERANCE, max_steps=MOST_STUDIED_STEPS)
    return Studied(found.log_posterior, found.items)
