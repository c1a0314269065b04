"""Sampling covariance of item parameters from the observed information.

The observed information of the marginal likelihood is what complete data would have given, less what is lost because
abilities are not seen (Louis, 1982):

    I = sum_i E[-H_i | x_i] - sum_i Cov[s_i | x_i],

with s_i and H_i the score and Hessian of respondent i's row if theta were known, and expectations over the posterior
of theta_i. The second term couples all items, so the whole matrix is inverted.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from irtbench.estimation.mode import BATCH_CELLS, Problem, expected_counts, prior_derivatives
from irtbench.models.logistic import MISSING, CollapsedLogistic

SPAN_TOLERANCE = 1e-10  # relative size of what the shared basis may leave out


def item_derivatives(problem: Problem, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """First and second derivatives of log P and log(1 - P) by (slopes, intercept, logit guessing) at each node.

    Returns
    -------
    first_p, first_q
        Shape (n_items, n_nodes, n_factors + 2).
    second_p, second_q
        Shape (n_items, n_nodes, n_factors + 2, n_factors + 2).
    """
    theta = problem.nodes.theta
    z = parameters[:, :-2] @ theta.T + parameters[:, -2:-1]
    c = problem.log_guessing(parameters).exp()[:, None].expand_as(z)
    s, one_minus_s = torch.sigmoid(z), torch.sigmoid(-z)
    p = c + (1 - c) * s
    slope_z = (1 - c) * s * one_minus_s / p
    slope_c = c * (1 - c) * one_minus_s / p
    curve_zz = slope_z * (1 - 2 * s) - slope_z**2
    curve_zc = -c * slope_z - slope_z * slope_c
    curve_cc = slope_c * (1 - 2 * c) - slope_c**2
    basis = torch.cat([theta, torch.ones_like(theta[:, :1])], dim=1)

    def first(by_z: Tensor, by_c: Tensor) -> Tensor:
        return torch.cat([by_z[:, :, None] * basis, by_c[:, :, None]], dim=2)

    def second(zz: Tensor, zc: Tensor, cc: Tensor) -> Tensor:
        across = zc[:, :, None] * basis
        top = torch.cat([zz[:, :, None, None] * basis[:, :, None] * basis[:, None, :], across[:, :, :, None]], dim=3)
        bottom = torch.cat([across, cc[:, :, None]], dim=2)[:, :, None, :]
        return torch.cat([top, bottom], dim=2)

    return (
        first(slope_z, slope_c),
        first(-s, -c),
        second(curve_zz, curve_zc, curve_cc),
        second(-s * one_minus_s, torch.zeros_like(z), -c * (1 - c)),
    )


def span(functions: Tensor, importance: Tensor) -> tuple[Tensor, Tensor]:
    """Express functions on the nodes by few: functions = coefficients @ basis, up to a constant each.

    A constant has no posterior variance, so each function is centred first; `importance` weights the nodes.

    Parameters
    ----------
    functions
        Shape (n_functions, n_nodes).
    importance
        Share of the respondents near each node, shape (n_nodes,).

    Returns
    -------
    coefficients
        Shape (n_functions, rank).
    basis
        Shape (rank, n_nodes).
    """
    root = importance.sqrt()
    centred = functions - (functions @ importance)[:, None]
    left, sizes, right = torch.linalg.svd(centred * root, full_matrices=False)
    keep = sizes > SPAN_TOLERANCE * sizes.max().clamp(min=1e-300)
    return left[:, keep] * sizes[keep], right[keep] / root


def observed_information(problem: Problem, parameters: Tensor) -> Tensor:
    """Negative Hessian of the log-posterior in the free parameters, item by item, shape (n_free, n_free).

    A response contributes to its item's score x * (dlog P - dlog Q) + m * dlog Q. As functions of theta these lie in
    a space of few dimensions, shared by all items, so the posterior covariance of a respondent's score needs only the
    covariance of a few basis functions, and the sum over respondents is a handful of items x items products.
    """
    counts = expected_counts(problem, parameters)
    first_p, first_q, second_p, second_q = item_derivatives(problem, parameters)
    n_items, n_nodes, width = first_p.shape
    complete = -torch.einsum("jq,jqkl->jkl", counts.r, second_p) - torch.einsum(
        "jq,jqkl->jkl", counts.n - counts.r, second_q
    )
    complete = complete + torch.diag_embed(prior_derivatives(problem, parameters)[1])
    information = torch.zeros(n_items, width, n_items, width, dtype=torch.float64, device=parameters.device)
    each = torch.arange(n_items, device=parameters.device)
    information[each, :, each, :] = complete

    free = problem.free()
    importance = (counts.n.mean(dim=0) / counts.n.mean(dim=0).sum()).clamp(min=1e-12)
    right_functions = (first_p - first_q).transpose(1, 2).reshape(n_items * width, n_nodes)
    base_functions = first_q.transpose(1, 2).reshape(n_items * width, n_nodes)
    right_coefficients, right_basis = span(right_functions * free.reshape(-1, 1), importance)
    base_coefficients, base_basis = span(base_functions * free.reshape(-1, 1), importance)
    information -= lost_information(
        problem,
        parameters,
        (right_coefficients.reshape(n_items, width, -1), right_basis),
        (base_coefficients.reshape(n_items, width, -1), base_basis),
    )
    flat = information.reshape(n_items * width, n_items * width)
    chosen = free.reshape(-1)
    return flat[chosen][:, chosen]


def lost_information(
    problem: Problem, parameters: Tensor, right: tuple[Tensor, Tensor], base: tuple[Tensor, Tensor]
) -> Tensor:
    """Sum over respondents of the posterior covariance of their score, shape (n_items, width, n_items, width).

    Parameters
    ----------
    problem, parameters
        The data and where the score is taken.
    right
        Coefficients (n_items, width, rank) and basis (rank, n_nodes) of what a correct response adds.
    base
        The same of what any observed response adds.
    """
    row = CollapsedLogistic(
        parameters[:, :-2],
        parameters[:, -2],
        problem.log_guessing(parameters),
        replace(problem.nodes, dtype=torch.float64),
        complete=problem.complete,
    )
    functions = torch.cat([right[1], base[1]], dim=0)
    n_right, n_base, n_functions = len(right[1]), len(base[1]), len(functions)
    products = (functions[:, None, :] * functions[None, :, :]).reshape(n_functions**2, -1)
    n_items = problem.rows.shape[1]
    # with complete rows, what any response adds is weighted alike for all items: one column stands for them all
    n_columns = 1 if problem.complete else n_items
    zeros = parameters.new_zeros
    both_right = zeros(n_right, n_right, n_items, n_items)
    mixed = zeros(n_right, n_base, n_items, n_columns)
    both_base = zeros(n_base, n_base, n_columns, n_columns)
    largest = max(n_items, functions.shape[1], n_functions**2)
    for rows in problem.rows.split(max(1, BATCH_CELLS // (2 * largest))):
        posterior = torch.softmax(row.log_joint(rows), dim=1)
        mean = posterior @ functions.T
        covariance = (posterior @ products.T).reshape(-1, n_functions, n_functions)
        covariance -= mean[:, :, None] * mean[:, None, :]
        correct = (rows == 1).to(torch.float64)
        observed = correct.new_ones(len(rows), 1) if problem.complete else (rows != MISSING).to(torch.float64)
        for k in range(n_right):
            for m in range(n_right):
                both_right[k, m] += correct.T @ (correct * covariance[:, k, m, None])
            for m in range(n_base):
                mixed[k, m] += correct.T @ (observed * covariance[:, k, n_right + m, None])
        for k in range(n_base):
            for m in range(n_base):
                both_base[k, m] += observed.T @ (observed * covariance[:, n_right + k, n_right + m, None])
    right_coefficients, base_coefficients = right[0], base[0]
    across = contract(right_coefficients, mixed.expand(-1, -1, n_items, n_items), base_coefficients)
    return (
        contract(right_coefficients, both_right, right_coefficients)
        + across
        + across.permute(2, 3, 0, 1)
        + contract(base_coefficients, both_base.expand(-1, -1, n_items, n_items), base_coefficients)
    )


def contract(left: Tensor, sums: Tensor, right: Tensor) -> Tensor:
    """Sum over r and s of left[j, a, r] sums[r, s, j, l] right[l, b, s], shape (n_items, width, n_items, width)."""
    halfway = torch.einsum("jar,rsjl->jasl", left, sums)
    return torch.einsum("jasl,lbs->jalb", halfway, right)
