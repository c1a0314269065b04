"""Sampling covariance of item parameters from the observed information.

The observed information of the marginal likelihood is what complete data would have given, less the missing
information, abilities not being seen (Louis, 1982):

    I = sum_i E[-H_i | x_i] - sum_i Cov[s_i | x_i],

with s_i and H_i the score and Hessian of respondent i's row if theta were known, and expectations over the posterior
of theta_i. The second term couples all items, so the whole matrix is inverted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.estimation.marginal.e_step import at, batches
from irtbench.estimation.marginal.posterior_table import PosteriorTable, add_powers
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.spans import summed
from irtbench.estimation.threads import one_thread
from irtbench.models.curve_tensors import curve
from irtbench.models.pyro_model.item_tensors import GUESSING, LINEAR, ItemTensors
from irtbench.models.pyro_model.rows import Batch, ResponseRows

MOST_COUPLED_ITEMS = 500  # the whole information of more would be a matrix of gigabytes
SPAN_TOLERANCE = 1e-10  # relative size of what the shared basis may leave out
MOST_SPANNING = 4096  # functions of which a basis is made at first
WIDEST = 512  # cells a respondent where functions are interpolated, so that a batch stays in the cache
LEFT_OVER = 1e-7  # relative size of what it may leave out of the others


def curve_derivatives(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """First and second derivatives of log P and log(1 - P) by (slopes, intercept, logit guessing) at each node.

    Returns
    -------
    first_p, first_q
        Shape (n_items, n_nodes, n_factors + 2).
    second_p, second_q
        Shape (n_items, n_nodes, n_factors + 2, n_factors + 2).
    """
    basis = problem.nodes.basis
    at = curve(items.logits(basis), items.guessing[:, None])
    zeros = torch.zeros_like(at.s)

    def first(by_z: Tensor, by_c: Tensor) -> Tensor:
        return torch.cat([by_z[:, :, None] * basis, by_c[:, :, None]], dim=2)

    def second(zz: Tensor, zc: Tensor, cc: Tensor) -> Tensor:
        across = zc[:, :, None] * basis
        top = torch.cat([zz[:, :, None, None] * basis[:, :, None] * basis[:, None, :], across[:, :, :, None]], dim=3)
        bottom = torch.cat([across, cc[:, :, None]], dim=2)[:, :, None, :]
        return torch.cat([top, bottom], dim=2)

    return (
        first(at.log_p_z, at.log_p_l),
        first(at.log_q_z, zeros + at.log_q_l),
        second(at.log_p_zz, at.log_p_zl, at.log_p_ll),
        second(at.log_q_zz, zeros, zeros + at.log_q_ll),
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
    weighted = (functions - (functions @ importance)[:, None]) * root
    largest = weighted.abs().max().clamp(min=1e-300)
    # smooth functions all alike: some of many show what spans them, and it is checked that they do
    for stride in (-(-len(functions) // MOST_SPANNING), 1):
        _, sizes, right = torch.linalg.svd(weighted[::stride], full_matrices=False)
        right = right[sizes > SPAN_TOLERANCE * sizes.max().clamp(min=1e-300)]
        coefficients = weighted @ right.T
        if float((weighted - coefficients @ right).abs().max()) <= LEFT_OVER * float(largest):
            break
    return coefficients, right / root


@dataclass(frozen=True)
class ScoreBasis:
    """The score of every item as a function of theta, in terms of a few shared functions.

    Parameters
    ----------
    right, base
        Coefficients of what a correct response adds, and of what any observed response adds, each of shape
        (n_items, n_factors + 2, rank).
    functions
        Values of the shared functions at the nodes, those of `right` first, shape (rank + rank, n_nodes).
    """

    right: Tensor
    base: Tensor
    functions: Tensor


#: What gives the first and second derivatives of log P and log(1 - P) at each node: `curve_derivatives`, or others.
CurveDerivatives = Callable[[Any, ItemTensors], tuple[Tensor, Tensor, Tensor, Tensor]]


def complete_information(
    problem: Problem, items: ItemTensors, derive: CurveDerivatives = curve_derivatives
) -> tuple[Tensor, ScoreBasis]:
    """What complete data would tell of each item, prior included, and the basis of the scores.

    A response contributes to its item's score x * (dlog P - dlog Q) + m * dlog Q. As functions of theta these lie in
    a space of few dimensions, shared by all items, so the posterior covariance of a respondent's score needs only the
    covariance of a few basis functions.
    """
    if not problem.guesses:
        return complete_information_without_guessing(problem, items)
    counts = problem.counts(items, at_nodes=True)
    first_p, first_q, second_p, second_q = derive(problem, items)
    n_items, n_nodes, width = first_p.shape
    assert counts.r is not None
    complete = -torch.einsum("jq,jqkl->jkl", counts.r, second_p)
    complete -= torch.einsum("jq,jqkl->jkl", counts.n - counts.r, second_q)
    complete += problem.prior.derivatives(items, by_logit=True, positive=False)[1]
    free = problem.free.reshape(-1, 1)
    importance = (counts.n.mean(dim=0) / counts.n.mean(dim=0).sum()).clamp(min=1e-12)
    right_functions = (first_p - first_q).transpose(1, 2).reshape(n_items * width, n_nodes)
    base_functions = first_q.transpose(1, 2).reshape(n_items * width, n_nodes)
    right, right_basis = span(right_functions * free, importance)
    base, base_basis = span(base_functions * free, importance)
    return complete, ScoreBasis(
        right.reshape(n_items, width, -1), base.reshape(n_items, width, -1), torch.cat([right_basis, base_basis])
    )


def complete_information_without_guessing(problem: Problem, items: ItemTensors) -> tuple[Tensor, ScoreBasis]:
    """The same where the log odds are linear: a correct response adds (theta, 1), and any response -s (theta, 1).

    The information of complete data is then the sum of n s (1 - s) (theta, 1) (theta, 1)', whatever the responses.
    """
    counts = problem.counts(items)
    basis = problem.nodes.basis
    n_items, width = problem.free.shape
    s = torch.sigmoid(items.logits(basis))
    complete = problem.prior.derivatives(items, by_logit=True, positive=False)[1]
    complete[:, LINEAR, LINEAR] += ((counts.n * s * (1 - s)) @ problem.nodes.basis_products).reshape(
        n_items, width - 1, width - 1
    )
    importance = (counts.respondents / counts.respondents.sum()).clamp(min=1e-12)
    right, right_basis = span(basis.T, importance)
    base, base_basis = span((-s[:, None, :] * basis.T).flatten(0, 1), importance)
    free = problem.free[:, :, None]
    last = (0, 0, 0, 1)  # nothing is added by guessing
    return complete, ScoreBasis(
        torch.where(free, torch.nn.functional.pad(right.expand(n_items, -1, -1), last), 0.0),
        torch.where(free, torch.nn.functional.pad(base.reshape(n_items, width - 1, -1), last), 0.0),
        torch.cat([right_basis, base_basis]),
    )


def observed_information(problem: Problem, items: ItemTensors, derive: CurveDerivatives = curve_derivatives) -> Tensor:
    """Negative Hessian of the log-posterior in the free parameters, item by item, shape (n_free, n_free)."""
    complete, basis = complete_information(problem, items, derive)
    n_items, width = problem.free.shape
    information = -missing_information(problem, items, basis)
    each = torch.arange(n_items, device=items.intercept.device)
    information[each, :, each, :] += complete
    flat = information.reshape(n_items * width, n_items * width)
    chosen = problem.free.reshape(-1)
    return flat[chosen][:, chosen]


def own_information(problem: Problem, items: ItemTensors, derive: CurveDerivatives = curve_derivatives) -> Tensor:
    """The diagonal blocks of `observed_information`, with the identity's row and column for what is fixed.

    Shape (n_items, n_factors + 2, n_factors + 2).
    """
    complete, basis = complete_information(problem, items, derive)
    n_right, n_functions = basis.right.shape[2], len(basis.functions)
    by_right, by_both, by_base = (
        sums.reshape(-1, n_functions, n_functions) for sums in own_sums(problem, items, basis.functions)
    )
    by_base = by_base.expand(len(items), -1, -1)
    across = basis.right @ by_both[:, :n_right, n_right:] @ basis.base.transpose(1, 2)
    missing = (
        basis.right @ by_right[:, :n_right, :n_right] @ basis.right.transpose(1, 2)
        + across
        + across.transpose(1, 2)
        + basis.base @ by_base[:, n_right:, n_right:] @ basis.base.transpose(1, 2)
    )
    free = problem.free
    identity = torch.eye(free.shape[1], dtype=torch.float64, device=free.device)
    return torch.where(free[:, :, None] & free[:, None, :], complete - missing, identity)


def own_sums(problem: Problem, items: ItemTensors, functions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Posterior covariances of the functions, summed over each item's respondents with weights k^2, k n and n^2.

    k is the number of a respondent's correct responses to the item and n that of all of them. With one response the
    first two are the same. Shape (n_items, n_functions ** 2) each, of the last one row for all if it is the same.
    """
    place = (*at(problem.in_float64().row(items)), functions)
    of_rows = summed(
        problem.rows, "own information", place, lambda rows: own_sums_of(replace(problem, rows=rows), items, functions)
    )
    by_right, by_base = of_rows[0], of_rows[-1]
    return by_right, of_rows[1] if len(of_rows) > 2 else by_right, by_base


def own_sums_of(problem: Problem, items: ItemTensors, functions: Tensor) -> tuple[Tensor, ...]:
    """The same of some respondents, without the second where it is the first."""
    by_right = items.intercept.new_zeros(len(items), len(functions) ** 2)
    by_base = items.intercept.new_zeros(1 if problem.rows.complete else len(items), len(functions) ** 2)
    several = problem.rows.most_trials is not None
    by_both = torch.zeros_like(by_right) if several else by_right
    for batch, covariance in posterior_covariances(problem, items, functions):
        if several:
            for total, weight in zip((by_right, by_both, by_base), batch.squares_by_item(), strict=True):
                total += weight @ covariance
        else:
            by_right += batch.correct_by_item @ covariance
            by_base += batch.observed_by_item_sums(covariance)
    return (by_right, by_both, by_base) if several else (by_right, by_base)


def posterior_covariances(problem: Problem, items: ItemTensors, functions: Tensor) -> Iterator[tuple[Batch, Tensor]]:
    """Batches of respondents with the posterior covariance of the functions of theta, (n_batch, n_functions ** 2)."""
    n_functions = len(functions)
    products = (functions[:, None, :] * functions[None, :, :]).flatten(0, 1)
    for batch, posterior in posteriors(problem, items, n_functions**2):
        mean = posterior @ functions.T
        yield batch, posterior @ products.T - (mean[:, :, None] * mean[:, None, :]).flatten(1)


def posteriors(problem: Problem, items: ItemTensors, cells: int) -> Iterator[tuple[Batch, Tensor]]:
    """Batches of respondents with their posterior at each node, shape (n_batch, n_nodes); see `Problem.batches`."""
    row = problem.in_float64().row(items)
    for batch in problem.batches(cells, dtype=torch.float64):
        yield batch, torch.softmax(row.log_shape(batch.correct, batch.observed), dim=1)


def missing_information(problem: Problem, items: ItemTensors, basis: ScoreBasis) -> Tensor:
    """Sum over respondents of the posterior covariance of their score, shape (n_items, width, n_items, width).

    The score of a respondent is the sum over functions of what correct and what observed responses add, so the sum
    falls into three: both of the first kind, one of each, both of the second.
    """
    both_right, mixed, both_base = (complete_sums if problem.rows.complete else sums)(problem, items, basis)
    if problem.rows.complete:  # what any response adds is weighted alike for all items
        each = basis.right.shape[:2]
        shape = (*each, *each)
        base = basis.base.flatten(0, 1)
        half = torch.einsum("jar,rsj->jas", basis.right, mixed).flatten(0, 1)
        across = (half @ base.T).reshape(shape)
        alike = (base @ both_base @ base.T).reshape(shape)
    else:
        across = contract(basis.right, mixed, basis.base)
        alike = contract(basis.base, both_base, basis.base)
    return contract(basis.right, both_right, basis.right) + across + across.permute(2, 3, 0, 1) + alike


def complete_sums(problem: Problem, items: ItemTensors, basis: ScoreBasis) -> tuple[Tensor, Tensor, Tensor]:
    """Posterior covariances of the functions summed over respondents, with complete rows.

    Returns
    -------
    both_right
        Over those who answered both items right, shape (n_right, n_right, n_items, n_items).
    mixed
        Over those who answered an item right, shape (n_right, n_base, n_items).
    both_base
        Over all, shape (n_base, n_base).
    """
    found = tabulated_sums(problem, items, basis)
    if found is None:
        found = summed(
            problem.rows,
            "missing information, complete rows",
            (*at(problem.in_float64().row(items)), basis.functions),
            lambda rows: complete_sums_of(replace(problem, rows=rows), items, basis),
        )
    both_right, mixed, both_base = found
    return mirrored(both_right), mixed, both_base


def complete_sums_of(problem: Problem, items: ItemTensors, basis: ScoreBasis) -> tuple[Tensor, Tensor, Tensor]:
    """The same of some respondents, the first but for the half above the diagonal of its first two dimensions.

    Covariances of two functions of `right` and of one of each are needed respondent by respondent, those of two of
    `base` as a sum alone: E[f g] of all less the sum of products of means.
    """
    n_items, n_right, n_base = len(items), basis.right.shape[2], basis.base.shape[2]
    both_right = items.intercept.new_zeros(n_right, n_right, n_items, n_items)
    mixed = items.intercept.new_zeros(n_right, n_base, n_items)
    both_base = items.intercept.new_zeros(n_base, n_base)
    right, base = basis.functions[:n_right], basis.functions[n_right:]
    with_all = (right[:, None, :] * basis.functions).flatten(0, 1)  # f g, f one of `right` and g any
    evaluated = torch.cat([basis.functions, with_all]).T.contiguous()
    respondents = items.intercept.new_zeros(len(problem.nodes.theta))
    for batch, posterior in posteriors(problem, items, len(evaluated)):
        expected = posterior @ evaluated
        mean, products = expected.split([n_right + n_base, len(with_all)], dim=1)
        covariance = products.view(-1, n_right, n_right + n_base)
        covariance -= mean[:, :n_right, None] * mean[:, None, :]
        respondents += posterior.sum(dim=0)
        both_base -= mean[:, n_right:].T @ mean[:, n_right:]
        weighted = problem.rows.scratch.matrix("weighted", len(batch), n_items, covariance)
        for k in range(n_right):
            for m in range(k + 1):
                both_right[k, m] += batch.correct_by_item @ torch.mul(
                    batch.correct, covariance[:, k, m, None], out=weighted
                )
            mixed[k] += covariance[:, k, n_right:].T @ batch.correct
    return both_right, mixed, both_base + (base * respondents) @ base.T


def tabulated_sums(problem: Problem, items: ItemTensors, basis: ScoreBasis) -> tuple[Tensor, ...] | None:
    """The same by a table of posteriors; None where there is none (`PosteriorTable.of`)."""
    rows, n_items, slope = problem.rows, len(items), items.slope[:, 0]
    if basis.right.shape[2] != 1:
        return None
    row = problem.in_float64().row(items)
    with one_thread():
        table = PosteriorTable.of(rows, row)
        if table is None:
            return None
        right, base = basis.functions[0], basis.functions[1:]
        covariances = table.covariances(right, basis.functions)

    def of_span(span: ResponseRows) -> tuple[Tensor, ...]:
        both_right, mixed = slope.new_zeros(n_items, n_items), slope.new_zeros(len(base), n_items)
        powers = slope.new_zeros(4, len(covariances.coefficients))
        for batch in batches(span, n_items, WIDEST):
            cell, part = table.cells(batch.correct @ slope)
            add_powers(powers, cell, part)
            covariance = covariances.values(cell, part, span.scratch)
            weighted = span.scratch.matrix("weighted", len(batch), n_items, covariance)
            both_right += batch.correct_by_item @ torch.mul(batch.correct, covariance[:, :1], out=weighted)
            mixed += covariance[:, 1:].T @ batch.correct
        return both_right, mixed, table.covariance_sums(powers, base)

    what = "missing information by a table"
    both_right, mixed, both_base = summed(rows, what, (*at(row), basis.functions), of_span)
    return both_right[None, None], mixed[None], both_base


def sums(problem: Problem, items: ItemTensors, basis: ScoreBasis) -> tuple[Tensor, Tensor, Tensor]:
    """The same with rows of which a part is missing: the sums with `base` are over those who answered both items.

    Shapes (n_right, n_right, n_items, n_items), (n_right, n_base, n_items, n_items), (n_base, n_base, n_items,
    n_items).
    """
    place = (*at(problem.in_float64().row(items)), basis.functions)
    both_right, mixed, both_base = summed(
        problem.rows, "missing information", place, lambda rows: sums_of(replace(problem, rows=rows), items, basis)
    )
    return mirrored(both_right), mixed, mirrored(both_base)


def sums_of(problem: Problem, items: ItemTensors, basis: ScoreBasis) -> tuple[Tensor, Tensor, Tensor]:
    """The same of some respondents, but for the halves above the diagonal of the first two dimensions."""
    n_items, n_right, n_base = len(items), basis.right.shape[2], basis.base.shape[2]
    both_right = items.intercept.new_zeros(n_right, n_right, n_items, n_items)
    mixed = items.intercept.new_zeros(n_right, n_base, n_items, n_items)
    both_base = items.intercept.new_zeros(n_base, n_base, n_items, n_items)
    for batch, flat in posterior_covariances(problem, items, basis.functions):
        covariance = flat.reshape(len(flat), n_right + n_base, n_right + n_base)
        correct = batch.correct.to_dense()
        observed = torch.ones_like(correct) if batch.observed is None else batch.observed.to_dense()
        for k in range(n_right):
            for m in range(k + 1):
                both_right[k, m] += correct.T @ (correct * covariance[:, k, m, None])
            for m in range(n_base):
                mixed[k, m] += correct.T @ (observed * covariance[:, k, n_right + m, None])
        for k in range(n_base):
            for m in range(k + 1):
                both_base[k, m] += observed.T @ (observed * covariance[:, n_right + k, n_right + m, None])
    return both_right, mixed, both_base


def mirrored(lower: Tensor) -> Tensor:
    """Fill the upper triangle of the first two dimensions from the lower."""
    for k in range(len(lower)):
        lower[:k, k] = lower[k, :k]
    return lower


def contract(left: Tensor, sums: Tensor, right: Tensor) -> Tensor:
    """Sum over r and s of left[j, a, r] sums[r, s, j, l] right[l, b, s], shape (n_items, width, n_items, width)."""
    halfway = torch.einsum("jar,rsjl->jasl", left, sums)
    return torch.einsum("jasl,lbs->jalb", halfway, right)


def sampling_covariance(problem: Problem, items: ItemTensors) -> tuple[NDArray[np.float64], bool]:
    """Covariance of (a, d, c) of each item from the observed information, see `parameter_covariance`."""
    covariance, definite = parameter_covariance(problem, items)
    return on_guessing_scale(problem, items, covariance), definite


def joint_sampling_covariance(problem: Problem, items: ItemTensors) -> tuple[NDArray[np.float64], bool]:
    """Covariance of (a, d, c) of all items with each other, shape (n_items, width, n_items, width).

    Of up to `MOST_COUPLED_ITEMS`; NaN where the information is not positive definite, which is told.
    """
    whole, definite = joint_parameter_covariance(problem, items)
    scale = guessing_scale(problem, items)
    return (scale[:, :, None, None] * whole * scale).cpu().numpy(), definite


def parameter_covariance(
    problem: Problem, items: ItemTensors, derive: CurveDerivatives = curve_derivatives
) -> tuple[Tensor, bool]:
    """Covariance of (a, d, logit c) of each item from the observed information.

    The whole matrix is inverted up to `MOST_COUPLED_ITEMS`; with more items each block is inverted for itself, since
    abilities are then known so well that what items share is little.

    Returns
    -------
    covariance
        Shape (n_items, 3, 3); NaN where the information is not positive definite.
    definite
        Whether it is: only then are the parameters a maximum.
    """
    free = problem.free
    n_items = len(free)
    if n_items > MOST_COUPLED_ITEMS:
        blocks, definite = invert(own_information(problem, items, derive))
        return torch.where(free[:, :, None] & free[:, None, :], blocks, 0.0), definite
    whole, definite = joint_parameter_covariance(problem, items, derive)
    each = torch.arange(n_items, device=free.device)
    return whole[each, :, each, :], definite


def joint_parameter_covariance(
    problem: Problem, items: ItemTensors, derive: CurveDerivatives = curve_derivatives
) -> tuple[Tensor, bool]:
    """Inverse of the observed information, 0 for what is fixed, and whether that is positive definite.

    By (a, d, logit c) of all items, shape (n_items, width, n_items, width).
    """
    free = problem.free
    n_items, width = free.shape
    inverse, definite = invert(observed_information(problem, items, derive))
    full = torch.zeros(n_items * width, n_items * width, dtype=torch.float64, device=free.device)
    chosen = torch.nonzero(free.reshape(-1))[:, 0]
    full[chosen[:, None], chosen[None, :]] = inverse
    return full.reshape(n_items, width, n_items, width), definite


def invert(information: Tensor) -> tuple[Tensor, bool]:
    """Inverse of one matrix or of many, NaN where one is not positive definite, and whether all are."""
    factor, failed = torch.linalg.cholesky_ex(information)
    definite = not bool(failed.any()) and bool(torch.isfinite(factor).all())
    return torch.cholesky_inverse(factor) if definite else torch.full_like(information, torch.nan), definite


def on_guessing_scale(problem: Problem, items: ItemTensors, blocks: Tensor) -> NDArray[np.float64]:
    """Covariance of (a, d, c) from that of (a, d, logit c): dc = c (1 - c) dlogit."""
    scale = guessing_scale(problem, items)
    return (blocks * scale[:, :, None] * scale[:, None, :]).cpu().numpy()


def guessing_scale(problem: Problem, items: ItemTensors) -> Tensor:
    """Derivatives of (a, d, c) by (a, d, logit c), shape (n_items, width)."""
    scale = torch.ones_like(problem.free, dtype=torch.float64)
    scale[:, GUESSING] = items.guessing * (1 - items.guessing)
    return scale
