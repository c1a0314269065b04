"""Sampling covariance of the items and populations of several groups from the observed information.

As for one group (`observed_information`), with the scores of each population's mean and log standard deviation beside
those of the items: what complete data would have told, less the posterior covariance of the scores (Louis, 1982).
"""

from __future__ import annotations

import torch
from torch import Tensor

from irtbench.estimation.marginal.group_problem import GroupProblem, population_scores
from irtbench.estimation.marginal.missing_information import ScoreBasis, missing_information, posterior_covariances
from irtbench.estimation.marginal.observed_information import complete_information, invert, items_of
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.grouped_model import items_of_group, population
from irtbench.models.pyro_model.item_tensors import GUESSING, INTERCEPT, ItemTensors

POPULATION = (0, INTERCEPT)  # columns of mean and log standard deviation


def group_information(problem: GroupProblem, parameters: ItemTensors) -> Tensor:
    """Negative Hessian of the log-posterior in the free parameters, row by row, shape (n_free, n_free).

    The rows are those of the items, with logit c, and below them those of the populations.
    """
    prior, nodes = problem.group_prior, problem.own_nodes
    complete, whole = complete_information(problem, parameters)
    items, mean, log_deviation = prior.split(parameters)
    n_items, n_nodes = len(items), len(nodes.theta)
    n_rows, width = problem.free.shape
    right, base = whole.right[:n_items], whole.base[:n_items]
    respondents = problem.counts(parameters).respondents
    information = torch.zeros(n_rows, width, n_rows, width, dtype=torch.float64, device=complete.device)
    each = torch.arange(n_items, device=complete.device)
    information[each, :, each, :] = complete[:n_items]
    for group, own_nodes in enumerate(problem.populations(parameters)):
        place = slice(group * n_nodes, (group + 1) * n_nodes)
        basis = ScoreBasis(right, base, whole.functions[:, place])
        own = Problem(problem.model, problem.groups[group], own_nodes, prior.items)
        own_items = items_of_group(items, group)
        information[:n_items, :, :n_items, :] -= missing_information(own, own_items, basis)
        if group == 0:
            continue
        row, of = n_items + group - 1, (mean[group - 1], log_deviation[group - 1])
        across, lost = population_missing_information(own, own_items, basis, population_scores(nodes, *of))
        told = population_information(problem, respondents[place], *of) - lost
        for k, column in enumerate(POPULATION):
            information[:n_items, :, row, column] -= across[:, :, k]
            information[row, column, :n_items, :] -= across[:, :, k]
            for m, other in enumerate(POPULATION):
                information[row, column, row, other] = told[k, m]
    chosen = problem.free.reshape(-1)
    return information.reshape(n_rows * width, n_rows * width)[chosen][:, chosen]


def population_information(problem: GroupProblem, respondents: Tensor, mean: Tensor, log_deviation: Tensor) -> Tensor:
    """What abilities seen would tell of a population's mean m and log standard deviation, shape (2, 2).

    With z = (theta - m) / s minus the second derivatives of the log density are 1 / s^2, 2 z / s and 2 z^2; those of
    the logarithm of the sum over nodes, by which it is normalised, are subtracted.
    """
    nodes = problem.own_nodes
    deviation, weights = log_deviation.exp(), population(nodes, mean, log_deviation).log_weights.exp()
    z = (nodes.theta[:, 0] - mean) / deviation
    first = population_scores(nodes, mean, log_deviation)
    curves = torch.stack(
        [torch.stack([deviation**-2 + 0 * z, 2 * z / deviation]), torch.stack([2 * z / deviation, 2 * z**2])]
    )
    n = respondents.sum()
    return curves @ (respondents - n * weights) + n * (first * weights) @ first.T


def population_missing_information(
    problem: Problem, items: ItemTensors, basis: ScoreBasis, scores: Tensor
) -> tuple[Tensor, Tensor]:
    """Sums over respondents of the posterior covariance of the population's scores with those of items, and with each
    other, shapes (n_items, width, 2) and (2, 2).
    """
    n_right, n_functions = basis.right.shape[2], len(basis.functions)
    like = items.intercept.new_zeros
    by_right, by_base, own = like(len(items), n_right * 2), like(len(items), (n_functions - n_right) * 2), like(2, 2)
    for batch, flat in posterior_covariances(problem, items, torch.cat([basis.functions, scores])):
        covariance = flat.reshape(len(flat), n_functions + 2, n_functions + 2)[:, :, n_functions:]
        by_right += batch.correct_by_item @ covariance[:, :n_right].flatten(1)
        by_base += batch.observed_by_item_sums(covariance[:, n_right:n_functions].flatten(1))
        own += covariance[:, n_functions:].sum(dim=0)
    across = torch.einsum("jar,jrk->jak", basis.right, by_right.reshape(len(items), n_right, 2))
    return across + torch.einsum("jar,jrk->jak", basis.base, by_base.reshape(len(items), -1, 2)), own


def group_covariance(problem: GroupProblem, parameters: ItemTensors) -> tuple[Tensor, Tensor]:
    """Inverse of `group_information` over all rows and columns, zero for what is fixed, and the rows not determined.

    By (a, a_1, d_1, ..., d, c) of each item and (mean, ..., standard deviation, ...) of each population, shape
    (n_rows, width, n_rows, width).
    """
    n_rows, width = problem.free.shape
    inverse, loose = invert(group_information(problem, parameters))
    full = torch.zeros(n_rows * width, n_rows * width, dtype=torch.float64, device=inverse.device)
    chosen = torch.nonzero(problem.free.reshape(-1))[:, 0]
    full[chosen[:, None], chosen[None, :]] = inverse
    jacobian = torch.ones(n_rows, width, dtype=torch.float64, device=inverse.device)
    jacobian[:, GUESSING] = parameters.guessing * (1 - parameters.guessing)
    jacobian[problem.group_prior.n_items :, INTERCEPT] = problem.group_prior.split(parameters)[2].exp()
    jacobian = jacobian.reshape(-1)
    return (full * jacobian[:, None] * jacobian).reshape(n_rows, width, n_rows, width), items_of(loose, problem.free)
