"""Two groups on one scale by common items, the anchors, and single items studied on that scale."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.estimate import Estimate
from irtbench.estimation.marginal.group_mode import find_group_mode
from irtbench.estimation.marginal.group_problem import GroupProblem
from irtbench.estimation.marginal.mode import find_mode
from irtbench.estimation.marginal.problem import Evaluation, Problem
from irtbench.estimation.multiple_groups import group_problem
from irtbench.estimation.settings import FitSettings
from irtbench.estimation.status import Stop
from irtbench.estimation.threads import threads_for
from irtbench.models.pyro_model.item_tensors import ItemTensors, curve, log_probabilities
from irtbench.models.pyro_model.rows import MISSING, DenseRows, ResponseRows, as_rows, encode_responses

LARGEST_INTERCEPT = 20.0  # stands for that of an item which all of a group get right
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
    log_p, log_q
        Log probabilities of a right and of a wrong response at each node, shape (n_items, n_nodes); zero where the
        group's responses to an item were left out.
    joint
        Log-likelihood of each respondent's responses to all items at each node, shape (n_members, n_nodes).
    information
        Average information of a respondent's answers to each item at each node, shape (n_items, n_nodes).
    """

    rows: DenseRows
    log_weights: Tensor
    log_p: Tensor
    log_q: Tensor
    joint: Tensor
    information: Tensor

    def without(self, item: int) -> Tensor:
        """Log-likelihood of the responses to all other items, shape (n_members, n_nodes)."""
        right, asked = (numbers[:, item, None].to(torch.float64) for numbers in (self.rows.right, self.rows.asked))
        return self.joint - right * self.log_p[item] - (asked - right) * self.log_q[item]


@dataclass(frozen=True, eq=False)
class LinkedGroups:
    """A reference group with ability N(0, 1) and a focal group with N(mean, sd^2), all but some items common.

    Parameters
    ----------
    groups
        The reference and the focal group.
    alike
        Where all of a group answered an item alike, shape (2, n_items).
    freed
        Items with parameters of their own in each group, shape (n_items,).
    problem, mode
        Of the items and of the focal population, and where the likelihood is largest.
    """

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
        """The mode with an item's slope or intercept free in the focal group, all others fitted again."""
        differs, start = self.problem.group_prior.differs.clone(), self.mode.items.matrix.clone()
        differs[item] = torch.tensor([slope, intercept, False])
        start[item, : differs.shape[1]] *= differs[item]
        return maximum(self.problem.with_differs(differs), start)

    def held(self, item: int, *, slope: bool, intercept: bool, start: Found | None = None) -> Found:
        """The same with all others held at the mode, the focal population free: the item, and below it that.

        What is free has no estimate in a group that answered alike: at an infinite difficulty its answers are certain.
        """
        place, model = slice(item, item + 1), self.problem.model.keywords["model"]  # type: ignore[attr-defined]
        rows: list[ResponseRows] = [part.rows.of_items(place) for part in self.groups]
        for group in np.flatnonzero(self.alike[:, item] & (slope or intercept)):
            rows[group] = as_rows(torch.full((len(rows[group]), 1), MISSING, device=self.theta.device))
        told = torch.stack([part.information.sum(dim=0) - part.information[item] for part in self.groups])
        guessing = {name: model.keywords[name][place] for name in ("guessing_free", "guessing_fixed")}
        nodes = replace(self.problem.nodes, dtype=torch.float64)
        problem = GroupProblem.of_groups(
            Problem.of(partial(model, **guessing), rows[0], nodes),
            tuple(rows),
            torch.tensor([[slope, intercept, False]], device=told.device) & (not self.alike[:, item].any()),
            known=tuple(part.without(item) for part in self.groups),
            known_information=told,
        )
        whole = self.mode.items.matrix
        matrix = torch.stack([whole[item], whole[-1]]) if start is None else start.items.matrix
        matrix[0, : problem.group_prior.width] *= problem.group_prior.differs[0]
        if not (slope or intercept or self.freed[item]) and self.mode.status.converged:
            return problem.evaluate(ItemTensors.from_matrix(matrix))  # which is the mode
        return maximum(problem, matrix)

    def by_group(self, item: int, found: Found) -> list[ItemTensors]:
        """The item as each group meets it; where all answered alike, with an intercept that stands for infinity."""
        of_group = self.problem.group_prior.of_group
        own = [ItemTensors.from_matrix(found.items.matrix[:1] @ by.T) for by in of_group]
        for group in np.flatnonzero(self.alike[:, item]):
            side = 1.0 if bool(self.groups[group].rows.right[:, item].any()) else -1.0
            certain = torch.full_like(own[group].intercept, side * LARGEST_INTERCEPT)
            own[group] = ItemTensors(torch.zeros_like(own[group].slope), certain, own[group].guessing)
        return own


def maximum(problem: GroupProblem, start: Tensor) -> Estimate:
    """The mode, or the best that was reached where there is none among finite values."""
    items = ItemTensors.from_matrix(start)
    return find_mode(problem, start=items, tolerance=STUDIED_TOLERANCE, max_steps=MOST_STUDIED_STEPS)


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
    alike = np.stack([(part.n_correct_by_item == 0) | (part.n_correct_by_item == part.n_by_item) for part in parts])
    counted = ~(alike & freed)
    asked = responses.n_trials * counted[focal.astype(np.intp)]
    data = replace(responses, correct=np.where(asked > 0, responses.correct, np.nan), trials=asked.astype(np.int64))
    differs = np.repeat((freed & counted.all(axis=0))[:, None], 2, axis=1)
    settings = replace(settings, tolerance=max(settings.tolerance, TOLERANCE))
    with threads_for(asked.size), torch.no_grad():
        while True:
            problem, start = group_problem(data, members, settings, differs=differs)
            # an item may be without a response that counts
            matrix, slope = start.matrix, differs.shape[1] + 1
            matrix[:, slope] = matrix[:, slope].nan_to_num(1.0)
            start = ItemTensors.from_matrix(matrix.nan_to_num(0.0))
            problem, mode = find_group_mode(problem, start, tolerance=settings.tolerance, max_steps=settings.max_steps)
            steep = [j for j in mode.status.steep if j < len(differs) and differs[j, 0]]
            if mode.status.stop is not Stop.AT_BOUND or not steep:
                break
            differs[steep, 0] = False
        groups = []
        for group, (alone, own) in enumerate(problem.each(mode.items)):
            nodes, rows = alone.nodes, encode_responses(parts[group], problem.nodes.theta.device)
            assert isinstance(rows, DenseRows)
            z, there = own.logits(nodes.basis), torch.from_numpy(counted[group]).to(nodes.theta)[:, None]
            log_p, log_q = (there * part for part in log_probabilities(z, own.guessing.log()[:, None]))
            n_right, n_asked = rows.right.to(torch.float64), rows.asked.to(torch.float64)
            joint = n_right @ log_p + (n_asked - n_right) @ log_q
            each = own.slope**2 * curve(z, own.guessing[:, None]).information_zz
            told = there * n_asked.mean(dim=0)[:, None] * each
            groups.append(GroupLikelihood(rows, nodes.log_weights, log_p, log_q, joint, told))
    return LinkedGroups((groups[0], groups[1]), alike, freed, problem, mode)
