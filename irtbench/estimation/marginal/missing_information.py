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

from irtbench.estimation.marginal.e_step import at, batches
from irtbench.estimation.marginal.posterior_table import PosteriorTable, add_powers
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.spans import summed
from irtbench.estimation.threads import one_thread
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.rows import Batch, ResponseRows

WIDEST = 512  # cells a respondent where functions are interpolated, so that a batch stays in the cache
FEW_FUNCTIONS = 3  # that span R: theta, or two or three abilities
MOST_PAIRS = 2**24  # cells of a matrix of two items for each node, held at once
NOBODY = 1e-14  # share of a batch's respondents at a node, below which it is left out


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


def missing_information(problem: Problem, items: ItemTensors, basis: ScoreBasis) -> Tensor:
    """Sum over respondents of the posterior covariance of their score, shape (n_items, width, n_items, width).

    The score of a respondent is the sum over functions of what correct and what observed responses add, so the sum
    falls into three: both of the first kind, one of each, both of the second. With complete rows those of the second
    are weighted alike for all items.
    """
    if not problem.rows.complete or basis.right.shape[2] > FEW_FUNCTIONS:
        return missing_information_at_nodes(problem, items, basis)
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


def missing_information_at_nodes(problem: Problem, items: ItemTensors, basis: ScoreBasis) -> Tensor:
    """The same with missing responses or with guessing, node by node."""
    place = (*at(problem.in_float64().row(items)), basis.right, basis.base, basis.functions)
    (found,) = summed(
        problem.rows,
        "missing information by nodes",
        place,
        lambda rows: (score_covariances(replace(problem, rows=rows), items, basis),),
    )
    return found


def score_covariances(problem: Problem, items: ItemTensors, basis: ScoreBasis) -> Tensor:
    """Posterior covariances of the scores of some respondents, summed, shape (n_items, width, n_items, width)."""
    n_items, width, n_right = basis.right.shape
    right, base = basis.right @ basis.functions[:n_right], basis.base @ basis.functions[n_right:]
    few, n_nodes = n_right <= FEW_FUNCTIONS, right.shape[2]
    found = right.new_zeros(n_items * width, n_items * width)
    at_once = max(1, MOST_PAIRS // n_items**2)
    for first in range(0, n_nodes, at_once):
        place = slice(first, min(first + at_once, n_nodes))
        pairs = PairSums(place, n_items, like=right, complete=problem.rows.complete, alone=few)
        for correct, observed, posterior in dense_posteriors(problem, items):
            pairs.add(correct, observed, posterior)
            if first == 0:
                asked = (posterior @ base.flatten(0, 1).T).unflatten(1, (n_items, width))
                score = asked if observed is None else asked.mul_(observed[:, :, None])
                if few:
                    assert observed is not None
                    found += covariances_with_right(correct, observed, posterior, basis, base, score)
                else:
                    score += correct[:, :, None] * (posterior @ right.flatten(0, 1).T).view_as(score)
                found.addmm_(score.flatten(1).T, score.flatten(1), alpha=-1)
        found += pairs.contracted(right[:, :, place], base[:, :, place]).reshape(found.shape)
    return found.reshape(n_items, width, n_items, width)


def dense_posteriors(problem: Problem, items: ItemTensors) -> Iterator[tuple[Tensor, Tensor | None, Tensor]]:
    """Batches of numbers right and asked (None where 1 everywhere), (n_batch, n_items), and posteriors of theta."""
    for batch, posterior in posteriors(problem, items, 3 * len(items)):
        yield batch.correct.to_dense(), None if batch.observed is None else batch.observed.to_dense(), posterior


def covariances_with_right(
    correct: Tensor, observed: Tensor, posterior: Tensor, basis: ScoreBasis, base: Tensor, asked: Tensor
) -> Tensor:
    """Covariances of what correct responses add with itself and with what any observed response adds, by functions.

    Parameters
    ----------
    correct, observed
        Numbers right and asked, shape (n_batch, n_items).
    posterior
        Shape (n_batch, n_nodes).
    basis, base
        The scores, and what any observed response adds at each node, shape (n_items, width, n_nodes).
    asked
        Expected value of what the observed responses add, shape (n_batch, n_items, width).

    Returns
    -------
    covariances
        Shape (n_items * width, n_items * width).
    """
    n_items, width, n_right = basis.right.shape
    functions = basis.functions[:n_right]
    mean = posterior @ functions.T
    found = base.new_zeros(n_items, width, n_items, width)
    for k in range(n_right):
        coefficient = basis.right[:, :, k]
        with_base = (posterior @ (functions[k] * base).flatten(0, 1).T).view_as(asked) * observed[:, :, None]
        with_base -= mean[:, k, None, None] * asked
        across = (correct.T @ with_base.flatten(1)).view(n_items, n_items, width)
        across = coefficient[:, :, None, None] * across[:, None]
        found += across + across.permute(2, 3, 0, 1)
        for m in range(n_right):
            covariance = posterior @ (functions[k] * functions[m]) - mean[:, k] * mean[:, m]
            sums = (correct.T * covariance) @ correct
            found += coefficient[:, :, None, None] * sums[:, None, :, None] * basis.right[None, None, :, :, m]
    return found.flatten(2).flatten(0, 1)


class PairSums:
    """Sums over respondents of products of two items' responses, weighted by the posterior at each of some nodes.

    Parameters
    ----------
    place
        The nodes.
    n_items
        How many items.
    like
        Of this kind the sums are.
    complete
        Whether everybody was asked every item once: sums over the asked are then the same for all items.
    alone
        Whether those over the asked alone are wanted.

    Attributes
    ----------
    right_right
        Of numbers right, shape (n_some, n_items, n_items).
    right_asked, asked_asked
        Of numbers right and asked and of numbers asked, of the same shape; with complete rows (n_some, n_items, 1) and
        (n_some, 1, 1).
    """

    def __init__(self, place: slice, n_items: int, *, like: Tensor, complete: bool, alone: bool) -> None:
        n, of_right, of_asked = place.stop - place.start, 0 if alone else n_items, 1 if complete else n_items
        self.place, self.alone = place, alone
        self.right_right = like.new_zeros(n, of_right, of_right)
        self.right_asked = like.new_zeros(n, of_right, of_asked)
        self.asked_asked = like.new_zeros(n, of_asked, of_asked)

    def add(self, correct: Tensor, observed: Tensor | None, posterior: Tensor) -> None:
        """Add a batch: numbers right and asked, shape (n_batch, n_items), and posteriors, (n_batch, n_nodes)."""
        there = posterior[:, self.place]
        respondents = there.sum(dim=0)
        if observed is None:
            self.right_asked[:, :, 0] += there.T @ correct
            self.asked_asked[:, 0, 0] += respondents
        for k in torch.nonzero(respondents > NOBODY * len(there))[:, 0].tolist():
            if not self.alone:
                weighted = correct.T * there[:, k]
                self.right_right[k].addmm_(weighted, correct)
                if observed is not None:
                    self.right_asked[k].addmm_(weighted, observed)
            if observed is not None:
                self.asked_asked[k].addmm_(observed.T * there[:, k], observed)

    def contracted(self, right: Tensor, base: Tensor) -> Tensor:
        """The products of scores that they make, shape (n_items, width, n_items, width).

        Parameters
        ----------
        right, base
            R and B at these nodes, shape (n_items, width, n_some) each.
        """
        found = paired(base, self.asked_asked, base)
        if self.alone:
            return found
        across = paired(right, self.right_asked, base)
        return found + paired(right, self.right_right, right) + across + across.permute(2, 3, 0, 1)


def paired(left: Tensor, sums: Tensor, right: Tensor) -> Tensor:
    """Sum over nodes of left[j, a, q] sums[q, j, l] right[l, b, q], shape (n_items, width, n_items, width)."""
    n_items, width, _ = left.shape
    found = left.new_empty(n_items, width, n_items, width)
    sums = sums.permute(1, 2, 0)
    for a in range(width):
        weighted = left[:, a, None, :] * sums
        for b in range(width):
            found[:, a, :, b] = (weighted * right[None, :, b, :]).sum(dim=2)
    return found


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
