"""Abilities of few respondents on many items, with the error of the items in their standard errors.

Scoring respondents on items that were estimated from the same few people counts every answer twice: with the items as
known the standard errors are too small. Where items outnumber respondents, abilities and items are uncertain together,
and the information of the abilities is what is left when the items are integrated out (normal approximation):

    I = diag(1 + sum_j i_jj) - sum_j C_j D_j^-1 C_j',

with i_jj the Fisher information of item j about theta_i, D_j that of item j's parameters over all respondents, prior
included, and C_j the information that theta_i and item j share.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from irtbench.estimation.few_respondents.random_items import standardise, standardised_covariance
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.rows import DenseRows

MOST_RESPONDENTS = 500  # the covariance of all abilities is a matrix of that size
BATCH_CELLS = 2**22


def joint_abilities(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor] | None:
    """Abilities of mean 0 and standard deviation 1 and their covariance; None where the items are known well enough.

    Posterior means on the nodes, standardised; shapes (n_respondents,) and (n_respondents, n_respondents). None is
    given unless items outnumber respondents, respondents are no more than 500, and rows are dense.
    """
    rows = problem.rows
    n = len(rows)
    if not isinstance(rows, DenseRows) or len(items) <= n or n > MOST_RESPONDENTS:
        return None
    theta = standardise(posterior_means(problem, items))
    information = 1 + theta.new_zeros(n)
    missing = theta.new_zeros(n, n)
    _, prior = problem.prior.derivatives(items, by_logit=True)
    most = max(1, BATCH_CELLS // n)
    for first in range(0, len(items), most):
        chosen = slice(first, first + most)
        by_theta, by_items = curve_gradients(items, chosen, theta, problem)
        observed = rows.of_items(chosen).asked.T.to(theta)
        information += (observed * by_theta.square()).sum(dim=0)
        shared = by_items * (observed * by_theta)[:, :, None]
        weighted = by_items * observed[:, :, None]
        own = prior[chosen] + weighted.transpose(1, 2) @ by_items
        free = problem.estimated_pairs[chosen]
        own = torch.where(free, own, problem.identity)
        root = torch.linalg.solve_triangular(torch.linalg.cholesky(own), shared.transpose(1, 2), upper=False)
        flat = root.flatten(0, 1)
        missing += flat.T @ flat
    return theta, standardised_covariance(torch.diag(information) - missing, theta)


def posterior_means(problem: Problem, items: ItemTensors) -> Tensor:
    """Posterior mean of theta of each respondent, shape (n_respondents,)."""
    nodes = replace(problem.nodes, dtype=torch.float64)
    row = replace(problem, nodes=nodes).row(items)
    means = [
        torch.softmax(row.log_shape(batch.correct, batch.observed), dim=1) @ nodes.theta[:, 0]
        for batch in problem.batches(dtype=torch.float64)
    ]
    return torch.cat(means)


def curve_gradients(items: ItemTensors, chosen: slice, theta: Tensor, problem: Problem) -> tuple[Tensor, Tensor]:
    """Derivatives of P over sqrt(P Q): by theta, shape (n_items, n_respondents), and by (a, d, logit c), a third axis.

    Products of two of them are Fisher informations of a response.
    """
    slope, c = items.slope[chosen, :1], items.guessing[chosen, None]
    z = slope * theta + items.intercept[chosen, None]
    s, t = torch.sigmoid(z), torch.sigmoid(-z)
    p = (c + (1 - c) * s).clamp(min=1e-300)
    root = (p * (1 - c) * t).clamp(min=1e-300).sqrt()
    by_z = (1 - c) * s * t / root
    by_logit = c * (1 - c) * t / root
    free = problem.free[chosen]
    by_items = torch.stack([by_z * theta, by_z, by_logit], dim=2) * free[:, None, :]
    return slope * by_z, by_items
