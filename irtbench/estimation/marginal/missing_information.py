"""Missing information: the posterior covariance of the respondents' scores (Louis, 1982).

A respondent's score by (slopes, intercept, logit c) of item j is, if theta were known, x_j R_j(theta) + m_j B_j(theta)
with x_j correct of m_j responses. Summed over respondents, its posterior covariance is what is missing of the
information of items j and l,

    sum_i E[s_ij s_il' | x_i] - E[s_ij | x_i] E[s_il | x_i]'.

With a response of everybody to every item and without guessing a few functions of theta span R and B, and the sums are
of the covariances of those. Otherwise each respondent's score is projected on functions of ability that are
orthonormal under his posterior, and the sums are of products of these projections.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from irtbench.estimation.marginal.e_step import BATCH_CELLS, PosteriorTable, at
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.threads import one_thread, summed
from irtbench.models.pyro_model.collapsed import CollapsedLogistic
from irtbench.models.pyro_model.rows import Batch, ResponseRows
from irtbench.models.pyro_model.tensors import ItemTensors

WIDEST = 512  # cells a respondent where functions are interpolated, so that a batch stays in the cache
SORTED = 8192  # respondents who are sorted by ability
NOBODY = 1e-14  # share of a batch's respondents at a node, below which it is left out
FEW_PRODUCTS = 2**22  # respondents x pairs of parameters up to which there is time for double precision
LEFT_OUT, NOTHING = 5e-7, 1e-10  # share of an item's information that may be left out of many, and of few
N_BLOCKS = 4  # of rows of a symmetric matrix, which half of the products make
SPANNED = 1e-14  # the same share of which a score may be no combination of shared functions
ROUNDING = 1e-20  # square of what is nothing but rounding
RIDGE = 1e-13  # relative
SPAN_TOLERANCE = 1e-10  # relative size of what the shared basis may leave out
MOST_SPANNING = 1024  # functions of which a basis is made at first
LEFT_OVER = 1e-7  # relative size of what it may leave out of the others


def missing_of_complete_rows(problem: Problem, items: ItemTensors, *, own: bool = False) -> Tensor:
    """That of items without guessing that everybody answered, shape (n_items, width, n_items, width).

    A correct response adds (theta, 1) to a score, and any response -s (theta, 1), which few functions span. So the sum
    over respondents falls into three: of the first with each other, of one of each, and of the second, which are
    weighted alike for all items. `own`: of each item's own parameters alone, shape (n_items, width, width).
    """
    (n_items, width), theta, counts = problem.free.shape, problem.nodes.theta.T, problem.counts(items)
    basis, slopes = problem.nodes.basis, slice(len(theta))
    added = (-items.logits(basis).sigmoid_()[:, None] * basis.T).flatten(0, 1)
    base, functions = span(added, (counts.respondents / counts.respondents.sum()).clamp(min=1e-12))
    both_right, mixed, both_base = complete_sums(problem, items, torch.cat([theta, functions]), own=own)
    base, other = base.view(n_items, width - 1, -1), "j" if own else "k"  # item j with itself, or with every k
    missing = base.new_zeros((width, width, n_items) if own else (width, width, n_items, n_items))
    across = torch.einsum(f"fsj,{other}bs->fbj{other.strip('j')}", mixed, base)
    missing[:-1, :-1] = torch.einsum(f"jar,rs,{other}bs->abj{other.strip('j')}", base, both_base, base)
    missing[slopes, slopes] += both_right
    missing[slopes, :-1] += across
    missing[:-1, slopes] += across.transpose(0, 1) if own else across.permute(1, 0, 3, 2)
    return missing.permute(2, 0, 1) if own else missing.permute(2, 0, 3, 1)


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
    weighted = (functions - (functions @ importance)[:, None]).mul_(root)
    largest = torch.linalg.vector_norm(weighted, torch.inf).clamp(min=1e-300)
    # smooth functions all alike: some of many show what spans them, and those that they do not span come to them
    chosen = torch.arange(len(functions), device=functions.device) % (-(-len(functions) // MOST_SPANNING) | 1) == 0
    while True:
        _, sizes, right = torch.linalg.svd(weighted[chosen], full_matrices=False)
        right = right[sizes > SPAN_TOLERANCE * sizes.max().clamp(min=1e-300)]
        coefficients = weighted @ right.T
        left = torch.addmm(weighted, coefficients, right, alpha=-1).abs_().amax(dim=1)
        beyond = (left > LEFT_OVER * largest) & ~chosen
        if not bool(beyond.any()):
            break
        chosen |= beyond
    return coefficients, right / root


def complete_sums(
    problem: Problem, items: ItemTensors, functions: Tensor, *, own: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Posterior covariances of abilities and of the functions behind them summed over respondents, with complete rows.

    Returns
    -------
    both_right
        Of abilities over those who answered both items right, shape (n_factors, n_factors, n_items, n_items); `own`:
        those who answered an item right, shape (n_factors, n_factors, n_items).
    mixed
        Of one with another function over those who answered an item right, shape (n_factors, n_base, n_items).
    both_base
        Of the other functions over all, shape (n_base, n_base).
    """
    found = tabulated_sums(problem, items, functions, own=own)
    if found is None:
        found = summed(
            problem.rows,
            f"missing information, complete rows, own {own}",
            (*at(problem.in_float64().row(items)), functions),
            lambda rows: complete_sums_of(replace(problem, rows=rows), items, functions, own=own),
        )
    both_right, mixed, both_base = found
    for k in range(len(both_right)):
        both_right[:k, k] = both_right[k, :k]
    return both_right, mixed, both_base


def complete_sums_of(
    problem: Problem, items: ItemTensors, functions: Tensor, *, own: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The same of some respondents, the first but for the half above the diagonal of its first two dimensions.

    Covariances of two abilities and of one with another function are needed respondent by respondent, those of two
    other functions as a sum alone: E[f g] of all less the sum of products of means.
    """
    n_items, n_right = len(items), problem.n_factors
    right, base = functions[:n_right], functions[n_right:]
    n_base = len(base)
    both_right = items.intercept.new_zeros(n_right, n_right, *[n_items] * (1 if own else 2))
    mixed = items.intercept.new_zeros(n_right, n_base, n_items)
    both_base = items.intercept.new_zeros(n_base, n_base)
    with_all = (right[:, None, :] * functions).flatten(0, 1)  # f g, f an ability and g any
    evaluated = torch.cat([functions, with_all]).T.contiguous()
    respondents = items.intercept.new_zeros(len(problem.nodes.theta))
    for batch, posterior in posteriors(problem, items, len(evaluated)):
        expected = posterior @ evaluated
        mean, products = expected.split([n_right + n_base, len(with_all)], dim=1)
        covariance = products.view(-1, n_right, n_right + n_base)
        covariance -= mean[:, :n_right, None] * mean[:, None, :]
        respondents += posterior.sum(dim=0)
        both_base -= mean[:, n_right:].T @ mean[:, n_right:]
        for k in range(n_right):
            for m in range(k + 1):
                both_right[k, m] += sums_of_right(batch, covariance[:, k, m], problem.rows, own=own)
            mixed[k] += covariance[:, k, n_right:].T @ batch.correct
    return both_right, mixed, both_base + (base * respondents) @ base.T


def sums_of_right(batch: Batch, values: Tensor, rows: ResponseRows, *, own: bool) -> Tensor:
    """Sums of values over respondents who answered both of two items right; or each item, if `own`."""
    if own:
        return batch.correct_by_item @ values
    weighted = rows.scratch.matrix("weighted", len(batch), batch.correct.shape[1], values)
    return batch.correct_by_item @ torch.mul(batch.correct, values[:, None], out=weighted)


def tabulated_sums(problem: Problem, items: ItemTensors, functions: Tensor, *, own: bool) -> tuple[Tensor, ...] | None:
    """The same by a table of posteriors; None where there is none (`PosteriorTable.of`)."""
    rows, n_items, slope = problem.rows, len(items), items.slope[:, 0]
    row, base = problem.in_float64().row(items), functions[1:]
    with one_thread():
        table = PosteriorTable.of(rows, row)
        if table is None:
            return None
        covariances = table.covariances(functions[0], functions)

    def of_span(span: ResponseRows) -> tuple[Tensor, ...]:
        both_right, mixed = slope.new_zeros([n_items] * (1 if own else 2)), slope.new_zeros(len(base), n_items)
        powers = slope.new_zeros(4, len(covariances.coefficients))
        for batch, covariance in table.walk(span, slope, covariances, powers, n_items, WIDEST):
            both_right += sums_of_right(batch, covariance[:, 0], span, own=own)
            mixed += covariance[:, 1:].T @ batch.correct
        return both_right, mixed, table.covariance_sums(powers, base)

    what = f"missing information by a table, own {own}"
    both_right, mixed, both_base = summed(rows, what, (*at(row), functions), of_span)
    return both_right[None, None], mixed[None], both_base


def score_covariances(
    problem: Problem, items: ItemTensors, by_column: Tensor, by_item: Tensor, complete: Tensor, *, own: bool = False
) -> Tensor:
    """Posterior covariances of the respondents' scores, summed, shape (n_items, width, n_items, width).

    With functions P_1, P_2, ... of ability that are orthonormal under a respondent's posterior, the covariance is the
    sum over them of c c', c = E[P s]. Scores of respondents of like ability are combinations of few functions, see
    `SharedFunctions`. `own`: of each item's own parameters alone, shape (n_items, width, width).

    `by_column` and `by_item` are what responses add to scores (`added_to_scores`). Of `complete`, the information of
    complete data by item, some may be left out.
    """
    row, theta, (n_items, width) = problem.in_float64().row(items), problem.nodes.theta, problem.free.shape
    few = problem.rows.n_respondents * problem.free.numel() ** 2 <= FEW_PRODUCTS
    unit = (complete.diagonal(dim1=1, dim2=2).abs() / problem.rows.n_respondents).clamp(min=1e-300).rsqrt()
    item, category = problem.columns
    added = torch.cat([by_item[None], by_item.new_zeros(int(category.max()), *by_item.shape)])
    column = torch.full(added[1:, :, 0, 0].shape, len(item) - 1, device=item.device)  # any where an item has no more
    added[category, item], column[category - 1, item] = by_column, torch.arange(len(item), device=item.device)
    functions = (torch.where(problem.free[:, None], added, 0.0) * unit[:, None]).transpose(2, 3).flatten(1, 2)
    functions = functions.contiguous()
    place = None  # of the one column of an item that its response is in, from 1 on
    if problem.rows.most_trials is None:
        given = functions[1:].view(len(column), n_items, -1).any(dim=2)
        place = given * torch.arange(1, len(functions), device=given.device)[:, None]

    def of_rows(rows: ResponseRows) -> tuple[Tensor, ...]:
        found = torch.zeros_like(complete) if own else complete.new_zeros(n_items * width, n_items * width)
        for correct, observed, posterior in dense_posteriors(rows, row, functions[..., 0].numel() // 2):
            there = torch.nonzero(posterior.sum(dim=0) > NOBODY * len(posterior))[:, 0]
            posterior, asked = posterior[:, there], None if observed is None else observed.square().mean(dim=0).sqrt()
            shared = SharedFunctions.of(functions[:, :, there], theta[there, 0], posterior, asked, few=few)
            weights, coefficients = shared.weights(posterior), shared.coefficients
            if shared.alike and observed is None:  # beyond the first, whatever the responses
                rest = weights[:, 1:].flatten(0, 1)
                add_products(found, coefficients[0] @ (rest.T @ rest), coefficients[0], own=own)
                weights = weights[:, :1]
            numbers = correct.index_select(1, column.flatten()).view(-1, *column.shape)
            if not few:
                weights, coefficients, numbers = weights.float(), coefficients.float(), numbers.float()
            each = combinations(coefficients.view(len(coefficients), n_items, -1), numbers, observed, place)
            scores = torch.bmm(weights, each.view(len(numbers), n_items * width, -1).mT).flatten(0, 1)
            squares = torch.zeros_like(found, dtype=scores.dtype)
            add_products(squares, scores.T, scores.T, own=own)
            found += squares
        return (found,)

    (found,) = summed(problem.rows, f"covariances of scores, own {own}", (*at(row), added, complete), of_rows)
    if own:
        return found / (unit[:, :, None] * unit[:, None, :])
    found = (found.tril() + found.tril(-1).T) / (unit.flatten()[:, None] * unit.flatten())
    return found.view(n_items, width, n_items, width)


def combinations(levels: Tensor, numbers: Tensor, observed: Tensor | None, place: Tensor | None) -> Tensor:
    """What the responses add up to, shape (n_batch, n_items, n_values), each of the first level and of its column's.

    Parameters
    ----------
    levels
        Shape (1 + n_later, n_items, n_values).
    numbers, observed
        Responses in each column of each item, and of each item, shapes (n_batch, n_later, n_items), (n_batch, n_items).
    place
        Of each column, shape (n_later, n_items), 0 where there is none; None where an item has several responses.
    """
    base, later = levels[0], levels[1:]
    if place is None:
        assert observed is not None
        each = base * observed[:, :, None].to(base)
        for of_level, number in zip(later, numbers.unbind(1), strict=True):
            each.addcmul_(of_level, number[:, :, None])
        return each
    table = torch.cat([levels[:1], base + later, torch.zeros_like(levels[:1])])
    chosen = (numbers * place).sum(dim=1)
    if observed is not None:
        chosen = torch.where(observed > 0, chosen, len(table) - 1)
    n_items = len(base)
    rows = chosen.long() * n_items + torch.arange(n_items, device=chosen.device)
    return table.flatten(0, 1).index_select(0, rows.flatten())


def add_products(found: Tensor, left: Tensor, right: Tensor, *, own: bool) -> None:
    """Add left right' of scores, a row each: of items' own alone, or without all of what is above the diagonal."""
    if own:
        n_items, width, _ = found.shape
        found += left.reshape(n_items, width, -1) @ right.reshape(n_items, width, -1).mT
        return
    step = -(-len(found) // N_BLOCKS)
    for first in range(0, len(found), step):
        found[first : first + step, : first + step].addmm_(left[first : first + step], right[: first + step].T)


@dataclass(frozen=True)
class SharedFunctions:
    """Functions of ability whose combinations the scores of respondents of like ability are, and the combinations.

    Ability, and then the principal components of what all categories' scores have beyond a line, weighted by the
    respondents' mean posterior.

    Parameters
    ----------
    values
        Shape (n_functions, n_nodes).
    coefficients
        Of what a response adds to each score, and of what one in each column adds to that, each in units of the
        information, shape (1 + n_later, n_scores, n_functions).
    n
        How many are enough to say how uncertain scores are.
    alike
        Whether scores of different categories differ by no more than a line.
    """

    values: Tensor
    coefficients: Tensor
    n: int
    alike: bool

    @classmethod
    def of(
        cls, functions: Tensor, theta: Tensor, posterior: Tensor, asked: Tensor | None, *, few: bool
    ) -> SharedFunctions:
        """Of functions at the nodes, shape (1 + n_later, n_scores, n_nodes), and the root of the share of responses."""
        root = posterior.mean(dim=0).sqrt()
        line = torch.linalg.qr(torch.stack([root, root * theta], dim=1)).Q
        scores = functions * root
        flat = torch.cat([scores[0], (scores[:1] + scores[1:]).flatten(0, 1)])
        if asked is not None:
            width = scores.shape[1] // len(asked)
            flat = flat * asked.repeat_interleave(width).repeat(len(scores))[:, None]
        flat = torch.addmm(flat, flat @ line, line.T, alpha=-1)
        components = torch.linalg.eigh(flat.T @ flat).eigenvectors.flip(1)
        left = (flat @ components).square().flip(1).cumsum(dim=1).flip(1).amax(dim=0)
        basis = torch.linalg.qr(torch.cat([line, components[:, : int((left > SPANNED).sum())]], dim=1)).Q[:, 1:]
        coefficients = scores @ basis
        alike = float(coefficients[1:, :, 1:].square().sum(dim=-1).max()) < ROUNDING
        n = 1 + int((left > (NOTHING if few else LEFT_OUT)).sum())
        return cls(basis.T / root, coefficients, n, alike)

    def weights(self, posterior: Tensor) -> Tensor:
        """Posterior covariances with `n` combinations that are orthonormal, shape (n_batch, n, n_functions)."""
        size = len(self.values)
        mean = posterior @ self.values.T
        products = (posterior @ (self.values[:, None] * self.values).flatten(0, 1).T).view(len(mean), size, size)
        covariance = products - mean[:, :, None] * mean[:, None, :]
        # under a narrow posterior some functions hardly differ from combinations of others
        covariance.diagonal(dim1=1, dim2=2).add_(products.diagonal(dim1=1, dim2=2), alpha=RIDGE)
        factor = torch.linalg.cholesky_ex(covariance[:, : self.n, : self.n]).L
        return torch.linalg.solve_triangular(factor, covariance[:, : self.n], upper=False)


def dense_posteriors(
    rows: ResponseRows, row: CollapsedLogistic, cells: int
) -> Iterator[tuple[Tensor, Tensor | None, Tensor]]:
    """Batches of numbers right and asked (None where 1 everywhere), (n_batch, n_items), and posteriors of theta.

    Respondents of one batch are of like (first) ability, so that few nodes are in it.
    """
    most, theta = max(32, BATCH_CELLS[rows.device.type] // max(cells, len(row.nodes.theta))), row.nodes.theta[:, 0]
    for batch in rows.batches(max(most, SORTED), torch.float64):
        posterior = torch.softmax(row.log_shape(batch.correct, batch.observed), dim=1)
        asked = None if batch.observed is None else batch.observed.to_dense()
        correct = batch.correct.to_dense()
        for alike in (posterior @ theta).argsort().split(most):
            yield correct[alike], None if asked is None else asked[alike], posterior[alike]


def posteriors(problem: Problem, items: ItemTensors, cells: int) -> Iterator[tuple[Batch, Tensor]]:
    """Batches of respondents with their posterior at each node, shape (n_batch, n_nodes); see `Problem.batches`."""
    row = problem.in_float64().row(items)
    for batch in problem.batches(cells, dtype=torch.float64):
        yield batch, torch.softmax(row.log_shape(batch.correct, batch.observed), dim=1)


MOST_PRODUCTS = 2**25  # of products of responses at nodes, in memory at once
CLOSE = 128  # nodes whose products are near in memory


@dataclass(frozen=True)
class ScoreParts:
    """What a respondent's numbers of responses, in columns and then to items, add to the score.

    Parameters
    ----------
    added
        By the parameters of the number's item, shape (n_nodes, n_numbers, width).
    item
        Whose number it is, shape (n_numbers,).
    free
        Which parameters are estimated, shape (n_items, width).
    complete
        Whether everybody responded to all items.
    """

    added: Tensor
    item: Tensor
    free: Tensor
    complete: bool

    @classmethod
    def of(cls, problem: Problem, by_column: Tensor, by_item: Tensor) -> ScoreParts:
        """From what responses in columns and to items add (`observed_information.added_to_scores`)."""
        used = problem.free.any(dim=0)
        added = torch.cat([by_column, by_item]).transpose(0, 1)[:, :, used].contiguous()
        item = torch.cat([problem.columns[0], torch.arange(len(by_item), device=used.device)])
        return cls(added, item, problem.free[:, used], problem.rows.complete)

    def of_items(self, items: Tensor) -> tuple[ScoreParts, Tensor]:
        """Those of some items, whose places rise, and the places of their numbers."""
        chosen = torch.nonzero(torch.isin(self.item, items))[:, 0]
        item = torch.searchsorted(items, self.item[chosen])
        return ScoreParts(self.added[:, chosen], item, self.free[items], self.complete), chosen

    @property
    def n_factors(self) -> int:
        """How many numbers are multiplied with each other, the first of all."""
        return len(self.item) - len(self.free) + 1 if self.complete else len(self.item)

    def scores(self, numbers: Tensor, each: Tensor) -> Tensor:
        """Scores from what each number adds, shape (..., n_numbers, width), by item (..., n_items, width)."""
        each = each * numbers[..., None]
        return each.new_zeros(*each.shape[:-2], *self.free.shape).index_add_(-2, self.item, each)

    def add_products(self, sums: Tensor, numbers: Tensor, weights: Tensor) -> None:
        """Add weighted products of each two numbers at each node to the half below the diagonal, (n, n, n_nodes)."""
        there = torch.nonzero(weights.sum(dim=0) > NOBODY * len(weights))[:, 0]
        weights = weights[:, there]
        for k in range(len(sums)):
            sums[k, : k + 1].index_add_(1, there, (numbers[:, k, None] * numbers[:, : k + 1]).T @ weights)

    def products(self, sums: Tensor, some: Tensor) -> Tensor:
        """Sum over some nodes of A'SA, of the halves of S, which are written over, (n_items width, n_items width)."""
        sums.diagonal().mul_(0.5)  # the diagonal is in both halves
        added, item, (n_items, width) = self.added[some].permute(1, 2, 0), self.item, self.free.shape
        found = added.new_zeros(n_items, width, n_items, width)
        if self.complete:  # the last number is that of responses to each item, 1
            last = self.n_factors - 1
            columns, asked, item = added[:last], added[last:], item[:last]
            mixed = (asked * sums[last, last]).index_add_(0, item, columns * sums[last, :last, None])
            found += torch.einsum("jaq,lbq->jalb", asked, mixed)
            added, sums = columns, sums[:last, :last]
        for part, by_item in zip(sums.split(CLOSE, dim=2), added.split(CLOSE, dim=2), strict=True):
            for k in range(width):
                half = part.new_zeros(n_items, *part.shape[1:]).index_add_(0, item, by_item[:, k, None] * part)
                found[:, k].index_add_(1, item, (half.transpose(0, 1) @ by_item.mT).transpose(0, 1))
        lower = found.flatten(2).flatten(0, 1)
        return lower + lower.T


def numbers_of(correct: Tensor, observed: Tensor | None, n_items: int) -> Tensor:
    """A respondent's numbers of responses in columns and to items, shape (n_batch, n_numbers)."""
    return torch.cat([correct, correct.new_ones(len(correct), n_items) if observed is None else observed], dim=1)


def missing_by_nodes(problem: Problem, items: ItemTensors, by_column: Tensor, by_item: Tensor) -> Tensor:
    """The same of items of several abilities, by products of responses summed over respondents at every node.

    With X a respondent's numbers of responses, in each column and to each item, the score at a node is A'X, A what a
    response there adds to it, and so the sum of E[s s'] over respondents is that of A' (sum_i p_i X_i X_i') A over
    nodes. Of complete responses the numbers to items are one that is 1 for everybody.
    """
    parts, row, n_nodes = ScoreParts.of(problem, by_column, by_item), problem.in_float64().row(items), len(by_item[0])
    n, n_items, size = parts.n_factors, len(items), parts.free.numel()
    at_once = max(1, MOST_PRODUCTS // n**2)

    def of_rows(rows: ResponseRows) -> tuple[Tensor, ...]:
        found = items.matrix.new_zeros(size, size)
        for some in torch.arange(n_nodes, device=found.device).split(at_once):
            sums = found.new_zeros(n, n, len(some))
            for correct, observed, posterior in dense_posteriors(rows, row, n_nodes):
                numbers = numbers_of(correct, observed, n_items)
                if some[0] == 0:
                    each = (posterior @ parts.added.flatten(1)).unflatten(1, parts.added.shape[1:])
                    mean = parts.scores(numbers, each).flatten(1)
                    found.addmm_(mean.T, mean, alpha=-1)
                parts.add_products(sums, numbers, posterior[:, some])
            found += parts.products(sums, some)
        return (found,)

    (missing,) = summed(problem.rows, "products of scores", (*at(row), items.matrix), of_rows)
    beyond = problem.free.shape[1] - parts.free.shape[1]  # asymptotes, where no item has one
    missing = missing.view(n_items, -1, n_items, size // n_items)
    return torch.nn.functional.pad(missing, (0, beyond, 0, 0, 0, beyond))
