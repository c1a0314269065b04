"""Missing information: the posterior covariance of the respondents' scores (Louis, 1982).

A respondent's score by (slopes, intercept, logit c) of item j is, if theta were known, x_j R_j(theta) + m_j B_j(theta)
with x_j correct of m_j responses. Summed over respondents, its posterior covariance is what is missing of the
information of items j and l,

    sum_i E[s_ij s_il' | x_i] - E[s_ij | x_i] E[s_il | x_i]'.

With a response of everybody to every item and without guessing a few functions of theta span R and B, and the sums are
of the covariances of those. Otherwise the first term is summed node by node: x_j x_l, x_j m_l and m_j m_l, each
weighted by the posteriors at the node, a matrix product a node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from irtbench.estimation.marginal.e_step import BATCH_CELLS, at, batches
from irtbench.estimation.marginal.posterior_table import PosteriorTable, add_powers
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.spans import summed
from irtbench.estimation.threads import one_thread
from irtbench.models.pyro_model.collapsed import CollapsedLogistic
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.rows import Batch, ResponseRows

WIDEST = 512  # cells a respondent where functions are interpolated, so that a batch stays in the cache
FEW_FUNCTIONS = 3  # that span R: theta, or two or three abilities
SORTED = 8192  # respondents who are sorted by ability
NOBODY = 1e-14  # share of a batch's respondents at a node, below which it is left out
FEW_ROWS = 2_000  # respondents up to whom there is time for double precision
LEFT_OUT, NOTHING = 1e-5, 1e-11  # share of the information added by a degree, below which higher ones are left out
HIGHEST_DEGREE = 30  # of one ability, of two half of it


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


def missing_information(problem: Problem, items: ItemTensors, basis: ScoreBasis, complete: Tensor) -> Tensor:
    """Sum over respondents of the posterior covariance of their score, shape (n_items, width, n_items, width).

    The score of a respondent is the sum over functions of what correct and what observed responses add, so the sum
    falls into three: both of the first kind, one of each, both of the second. With complete rows those of the second
    are weighted alike for all items.
    """
    if not problem.rows.complete or basis.right.shape[2] > FEW_FUNCTIONS:
        return missing_information_at_nodes(problem, items, basis, complete)
    both_right, mixed, both_base = complete_sums(problem, items, basis)
    each = basis.right.shape[:2]
    shape = (*each, *each)
    base = basis.base.flatten(0, 1)
    half = torch.einsum("jar,rsj->jas", basis.right, mixed).flatten(0, 1)
    across = (half @ base.T).reshape(shape)
    alike = (base @ both_base @ base.T).reshape(shape)
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


def mirrored(lower: Tensor) -> Tensor:
    """Fill the upper triangle of the first two dimensions from the lower."""
    for k in range(len(lower)):
        lower[:k, k] = lower[k, :k]
    return lower


def contract(left: Tensor, sums: Tensor, right: Tensor) -> Tensor:
    """Sum over r and s of left[j, a, r] sums[r, s, j, l] right[l, b, s], shape (n_items, width, n_items, width)."""
    halfway = torch.einsum("jar,rsjl->jasl", left, sums)
    return torch.einsum("jasl,lbs->jalb", halfway, right)


def missing_information_at_nodes(problem: Problem, items: ItemTensors, basis: ScoreBasis, complete: Tensor) -> Tensor:
    """The same with missing responses, with guessing or with several abilities."""
    n_right = basis.right.shape[2]
    base, right = basis.base @ basis.functions[n_right:], basis.right @ basis.functions[:n_right]
    column = torch.arange(len(items), device=right.device)[None]
    return score_covariances(problem, items, torch.stack([base, right]).permute(0, 3, 2, 1), column, complete)


def score_covariances(
    problem: Problem, items: ItemTensors, added: Tensor, column: Tensor, complete: Tensor, *, own: bool = False
) -> Tensor:
    """Posterior covariances of the respondents' scores, summed, shape (n_items, width, n_items, width).

    With functions P_1, P_2, ... of ability that are orthonormal under a respondent's posterior, his is the sum over
    them of c c', c = E[P s]. Scores are smooth: polynomials of a few degrees have nearly all, and the last tell how
    much is left. `own`: of each item's own parameters alone, shape (n_items, width, width).

    Parameters
    ----------
    added
        What a response adds to the score of its item at each node, and what one in the columns of its item adds to
        that, shape (1 + n_later, n_nodes, width, n_items).
    column
        These columns, as many as there are behind the last where an item has no more, shape (n_later, n_items).
    complete
        Information of complete data, of which some may be left out, shape (n_items, width, width).
    """
    row, theta, (n_items, width) = problem.in_float64().row(items), problem.nodes.theta, problem.free.shape
    added = torch.where(problem.free.T, added, 0.0)
    few = problem.rows.n_respondents <= FEW_ROWS
    dtype, enough = (torch.float64, NOTHING) if few else (torch.float32, LEFT_OUT)
    size = complete.diagonal(dim1=1, dim2=2).abs().T / problem.rows.n_respondents

    def of_rows(rows: ResponseRows) -> tuple[Tensor, ...]:
        found = torch.zeros_like(complete) if own else complete.new_zeros(n_items * width, n_items * width)
        for correct, observed, posterior in dense_posteriors(rows, row, added[:, 0].numel()):
            there = posterior.sum(dim=0) > NOBODY * len(posterior)
            functions = added[:, there].flatten(2)
            given = torch.nn.functional.pad(correct, (0, 1))[:, column]
            functions, given = functions.to(dtype), given.to(dtype)
            for weighted in orthonormal_functions(posterior[:, there], theta[there]):
                scores = []
                for mass in weighted:
                    first, *later = ((mass.to(given) @ each).view(-1, width, n_items) for each in functions)
                    first = first if observed is None else first * observed.to(given)[:, None]
                    for k, each in enumerate(later):
                        first.addcmul_(each, given[:, k, None])
                    scores.append(first)
                each = torch.cat(scores)
                if own:
                    found += each.permute(2, 1, 0) @ each.permute(2, 0, 1)
                else:
                    found += each.flatten(1).T @ each.flatten(1)
                left = each.square().sum(dim=0) / size.clamp(min=1e-300) / len(posterior)
                if float(torch.where(problem.free.T, left, 0.0).max()) < enough:
                    break
        return (found,)

    (found,) = summed(problem.rows, f"covariances of scores, own {own}", (*at(row), added, complete), of_rows)
    return found if own else found.view(width, n_items, width, n_items).permute(1, 0, 3, 2)


def orthonormal_functions(posterior: Tensor, theta: Tensor) -> Iterator[list[Tensor]]:
    """Polynomials of abilities that are orthonormal under each posterior, of degree 1, 2, ..., times the posterior.

    Parameters
    ----------
    posterior
        Shape (n_batch, n_nodes).
    theta
        Shape (n_nodes, n_abilities).
    """
    known = [torch.ones_like(posterior)]
    last = [(known[0], 0)]
    for _ in range(HIGHEST_DEGREE // theta.shape[1]):
        of_degree, weighted = [], []
        for function, first in last:
            for k in range(first, theta.shape[1]):
                new = function * theta[:, k]
                for other in known:
                    new = torch.addcmul(new, other, (posterior * new * other).sum(dim=1, keepdim=True), value=-1)
                mass = posterior * new
                size = (mass * new).sum(dim=1, keepdim=True)
                unit = torch.where(size > NOBODY, size.rsqrt(), 0.0)
                known.append(new.mul_(unit))
                of_degree.append((known[-1], k))
                weighted.append(mass.mul_(unit))
        yield weighted
        last = of_degree


def dense_posteriors(
    rows: ResponseRows, row: CollapsedLogistic, cells: int
) -> Iterator[tuple[Tensor, Tensor | None, Tensor]]:
    """Batches of numbers right and asked (None where 1 everywhere), (n_batch, n_items), and posteriors of theta.

    Respondents of one batch are of like ability, so that few nodes are in it.
    """
    most = max(64, BATCH_CELLS[rows.device.type] // cells)
    for batch in rows.batches(max(most, SORTED), torch.float64):
        posterior = torch.softmax(row.log_shape(batch.correct, batch.observed), dim=1)
        asked = None if batch.observed is None else batch.observed.to_dense()
        correct = batch.correct.to_dense()
        for alike in (posterior @ row.nodes.theta[:, 0]).argsort().split(most):
            yield correct[alike], None if asked is None else asked[alike], posterior[alike]


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
