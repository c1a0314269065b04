"""Limited-information statistics: scores of departures from the model, and the quadratic form of them, e' C e.

C = Xi^-1 less what parameters explain. For any function h of ability and of the other answers, the sum over
respondents of E[(x_j - P_j) h | their answers] is a derivative of the likelihood of what was observed (Fisher's
identity; Louis, 1982). Its expectation is 0 wherever who answered what depends on the answers seen alone (Rubin,
1976), as in a second stage chosen by the first, and nearly so where abler people answer more and have answered enough
to show it. What the whole population would answer is no such measure there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular
from scipy.sparse import csc_array, csr_array, hstack
from scipy.sparse.linalg import LinearOperator, cg

from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.moments import Moments
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.curves import information, log_icc
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import Quadrature, refine
from irtbench.models.theta_posterior import normalise

ROWS_TO_A_SCORE = 12  # simulated respondents for each score whose covariance they give
FEWEST_ROWS = 10_000
ROWS_AT_ONCE = 256
CELLS_AT_ONCE = 2**22  # respondents x items x nodes
LEAST_MASS = 1e-10  # of a posterior at a node that is reached

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Residuals:
    """Responses and each respondent's posterior over nodes of ability, of one or of several.

    Parameters
    ----------
    correct, n
        Number right, 0 where missing, and number of responses, shape (n_respondents, n_items).
    log_p, log_q
        Logarithms of P and 1 - P at the nodes, shape (n_items, n_nodes).
    log_weights
        Of the population at the nodes, shape (n_nodes,).
    mass
        Posterior, shape (n_respondents, n_nodes).
    categories
        Of items in categories 0, 1, ..., of which each response is one, ``correct`` is the category, n is 1 and P the
        expected one; None for right and wrong.
    nodes
        Abilities at which these have expectations, shape (n_nodes,); None without.
    """

    correct: Array
    n: Array
    log_p: Array
    log_q: Array
    log_weights: Array
    mass: Array
    categories: CategoryParameters | None = None
    nodes: Array | None = None

    @classmethod
    def of(cls, correct: Array, n: Array, log_p: Array, log_q: Array, log_weights: Array) -> Residuals:
        """The responses with their posteriors."""
        mass = normalise(correct @ log_p + (n - correct) @ log_q + log_weights)[0]
        return cls(correct, n, log_p, log_q, log_weights, mass)

    @classmethod
    @np.errstate(divide="ignore")  # of an expected score of 0
    def of_items(cls, responses: ResponseMatrix, items: ItemParameters, grid: Quadrature) -> Residuals:
        """Of responses to items of one ability."""
        if (own := items.categories) is not None:
            mass = normalise(own.log_likelihood(responses.correct, grid.nodes) + grid.log_weights)[0]
            values, asked = np.nan_to_num(responses.correct), responses.observed.astype(np.float64)
            log_expected = np.log(own.expected_score(grid.nodes).T)
            return cls(
                values, asked, log_expected, np.zeros_like(log_expected), grid.log_weights, mass, own, grid.nodes
            )
        log_p, log_q = log_icc(grid.nodes, items)
        return cls.of(np.nan_to_num(responses.correct), responses.n_trials, log_p.T, log_q.T, grid.log_weights)

    @cached_property
    def p(self) -> Array:
        """Probability of a right response, or the expected category, at the nodes, shape (n_items, n_nodes)."""
        return np.exp(self.log_p)

    def draw(self, rng: np.random.Generator) -> Array:
        """Numbers right, or categories, of respondents with abilities from these posteriors who are asked the same."""
        node = (self.mass.cumsum(axis=1) < rng.random((len(self.mass), 1))).sum(axis=1)
        node = np.minimum(node, self.mass.shape[1] - 1)
        if self.categories is not None and self.nodes is not None:
            return every_category(self.categories, self.nodes[node], self.n > 0, rng)
        p, asked = self.p.T[node], self.n > 0
        drawn = np.zeros(self.n.shape)
        if self.n.max(initial=0) <= 1:
            drawn[asked] = rng.random(int(asked.sum())) < p[asked]
        else:
            drawn[asked] = rng.binomial(self.n[asked].astype(np.int64), p[asked])
        return drawn

    def simulated(self, rng: np.random.Generator, n_scores: int) -> Iterator[Residuals]:
        """The same respondents drawn again and again, as often as the covariance of so many scores needs.

        They come in an order by their answers, so that what is drawn does not depend on that of the rows.
        """
        rows = max(FEWEST_ROWS, ROWS_TO_A_SCORE * n_scores)
        answers = np.hstack([part[:, self.n.any(axis=0)] for part in (self.correct, self.n)]).astype(np.int64)
        order = np.argsort(answers @ np.random.default_rng(0).integers(2**62, size=answers.shape[1]), kind="stable")
        own = replace(self, correct=self.correct[order], n=self.n[order], mass=self.mass[order])
        for _ in range(-(-rows // max(len(self.n), 1))):
            yield self.of(own.draw(rng), own.n, self.log_p, self.log_q, self.log_weights)

    def blocks(self) -> Iterator[tuple[NDArray[np.intp], slice]]:
        """Respondents of like ability together, and the nodes that they reach: most posteriors reach few."""
        size = max(1, min(ROWS_AT_ONCE, CELLS_AT_ONCE // max(self.p.size, 1)))
        order = np.argsort(self.mass @ np.arange(self.mass.shape[1]))
        for rows in (order[start : start + size] for start in range(0, order.size, size)):
            reached = np.flatnonzero((self.mass[rows] > LEAST_MASS).any(axis=0))
            yield rows, slice(int(reached[0]), int(reached[-1]) + 1)

    def weighted(self) -> Iterator[tuple[slice, Array, Array]]:
        """For some respondents at a time the nodes they reach, x - n P there, and that times the posterior.

        Both of shape (n_respondents, n_items, n_nodes).
        """
        for rows, nodes in self.blocks():
            residual = self.correct[rows, :, None] - self.n[rows, :, None] * self.p[:, nodes]
            yield nodes, residual, residual * self.mass[rows, None, nodes]

    def pairs(self) -> Array:
        """Sum over respondents of E[(x_k - P_k)(x_l - P_l)], shape (n_items, n_items)."""
        total = np.zeros((self.n.shape[1],) * 2)
        for _, residual, weighted in self.weighted():
            total += np.tensordot(weighted, residual, axes=((0, 2), (0, 2)))
        return total

    @np.errstate(invalid="ignore", divide="ignore")
    def correlations(self) -> Array:
        """Expected correlations of responses among those who answered both items, shape (n_items, n_items)."""
        product = np.zeros((self.n.shape[1],) * 2)
        for rows, nodes in self.blocks():
            expected = self.n[rows, :, None] * self.p[:, nodes]
            product += np.tensordot(expected * self.mass[rows, None, nodes], expected, axes=((0, 2), (0, 2)))
        n = self.n.T @ self.n
        mean = (self.n * (self.mass @ self.p.T)).T @ self.n / n
        return (product / n - mean * mean.T) / np.sqrt(mean * (1 - mean) * mean.T * (1 - mean.T))


def every_category(
    items: CategoryParameters, theta: Array, asked: NDArray[np.bool_], rng: np.random.Generator
) -> Array:
    """Categories drawn at these abilities; each is given once at least, as in the data, from which they are known.

    One that nobody drew is that of a respondent who was asked, with chances as its probabilities.
    """
    drawn = items.draw(theta, rng=rng).astype(np.float64)
    for j, p in enumerate(items.probabilities(theta)):
        n = np.bincount(drawn[asked[:, j], j].astype(np.int64), minlength=p.shape[1])
        for k in np.flatnonzero(n == 0):
            free = asked[:, j] & (n[drawn[:, j].astype(np.int64)] > 1)
            if free.any():
                chosen = rng.choice(len(theta), p=p[:, k] * free / (p[:, k] * free).sum())
                n[int(drawn[chosen, j])] -= 1
                n[k] += 1
                drawn[chosen, j] = k
    return drawn


Scores = Callable[[Residuals], Iterator[Array]]  # of some respondents at a time, shape (n_items, rows, n_scores)


def score_forms(residuals: Residuals, scores: Scores, n_scores: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Sums of scores over the respondents and their covariance, shapes (..., n_scores) and (..., n_scores, n_scores).

    The covariance is that of respondents simulated with abilities from their posteriors and asked the same. Its
    inverse is on average the true one, as that of a Wishart matrix less n_scores + 1 of its degrees of freedom.
    """
    total = sum(part.sum(axis=-2) for part in scores(residuals))
    product, rows = np.zeros(1), 0
    for drawn in residuals.simulated(rng, n_scores):
        rows += len(drawn.n)
        product = product + sum(part.swapaxes(-1, -2) @ part for part in scores(drawn))
    return np.asarray(total), product * len(residuals.n) / (rows - n_scores - 1)


def fine_enough(quadrature: Quadrature, items: ItemParameters) -> Quadrature:
    """Nodes no further apart than the error of theta given all the items, 1 / sqrt(information).

    Between wider nodes a sum score could fall into a gap where no node expects it.
    """
    most = information(quadrature.nodes, items).sum(axis=1).max()
    return refine(quadrature, 1 / np.sqrt(max(most, np.finfo(np.float64).tiny)))


Product = Callable[[NDArray[np.float64]], NDArray[np.float64]]  # with a symmetric matrix

PLAIN_STEPS, MOST_STEPS = 200, 1_000  # of conjugate gradients; they take 20 to 60 where items are not very steep
ACCURACY = 1e-8
SINGULAR = 1e-12  # of a pivot, to the largest
LEAST_OWN = 1e-10  # taken for the own variance of a pair whose answers ability all but determines
OWN_OF_SINGLES = 1e-4  # of their variance: they have none of their own, but the inverse needs some
SMALLEST_PART = 0.5  # variance of a part to the own variances of the moments, that the near inverse keeps
MOST_ITEMS = 400  # for which there is a preconditioner: 338 take 5 s and .5 GB
MOST_PARTS = 6_000  # it keeps, a matrix of 288 MB


def dense_form(
    covariance: NDArray[np.float64], residual: NDArray[np.float64], jacobian: NDArray[np.float64], n_parameters: int
) -> tuple[float, int]:
    """The form with the covariance written out, and the number of parameters that move the moments.

    With Xi = L L', it is the sum of squares of L^-1 e less its part in the space of L^-1 D.
    """
    try:
        root = cholesky(covariance, lower=True)
    except LinAlgError:
        root = np.zeros((1, 1))
    pivots = np.diagonal(root) ** 2
    if pivots.min() <= SINGULAR * pivots.max():
        raise ArithmeticError("the covariance matrix of the shares of right responses is not positive definite")
    whitened = solve_triangular(root, residual, lower=True)
    moved = solve_triangular(root, jacobian, lower=True)
    length = np.sqrt((moved**2).sum(axis=0))
    axes, sizes, _ = np.linalg.svd(moved[:, length > 0] / length[length > 0], full_matrices=False)
    # an exploratory model has more slopes than parameters: the least directions are its rotations
    rank = min(n_parameters, int((sizes > 1e-7 * sizes[0]).sum())) if sizes.size else 0
    explained = axes[:, :rank].T @ whitened
    left = whitened - axes[:, :rank] @ explained
    return float(left @ left), rank


def complete_form(moments: Moments, residual: NDArray[np.float64], n_parameters: int) -> float:
    """The form of all moments of complete responses, by conjugate gradients.

    C e is the y that solves Xi y = e up to the directions in which the parameters move the moments, and is orthogonal
    to those. Where very steep items make that slow, it starts again with a preconditioner (`_NearInverse`).
    """
    jacobian = moments.jacobian()
    jacobian = csc_array(jacobian / np.sqrt((jacobian**2).sum(axis=0)))
    project = _without_parameters(jacobian, n_parameters)
    solution = _solution(moments, project, project, residual, PLAIN_STEPS)
    most_steps = PLAIN_STEPS
    if solution is None and moments.n_items <= MOST_ITEMS:
        most_steps = MOST_STEPS
        inverse = _without_parameters(jacobian, n_parameters, _NearInverse.of(moments), project)
        solution = _solution(moments, project, inverse, residual, most_steps)
    if solution is None:
        raise ArithmeticError(
            f"its equations are not solved in {most_steps:,} steps, as happens where items are very steep or coincide"
        )
    return max(float(residual @ solution), 0.0)


def _solution(
    moments: Moments, project: Product, near_inverse: Product, residual: NDArray[np.float64], most_steps: int
) -> NDArray[np.float64] | None:
    """The y of P Xi P y = P e by conjugate gradients, P being the projection; None if it is not found in time."""
    shape = moments.n_moments, moments.n_moments

    def product(y: NDArray[np.float64]) -> NDArray[np.float64]:
        return project(moments.to_vector(moments.covariance_times(y[moments.positions])))

    xi, near = (LinearOperator(shape, matvec=each, dtype=np.float64) for each in (product, near_inverse))
    found, failed = cg(xi, project(residual), rtol=ACCURACY, maxiter=most_steps, M=near)
    return None if failed else np.asarray(found)


def _without_parameters(
    jacobian: csc_array, n_parameters: int, near: _NearInverse | None = None, project: Product | None = None
) -> Product:
    """M less M D (D' M D)^-1 D' M; M is the identity without ``near``.

    What it leads to is orthogonal to D, and what lies along D counts for nothing: ``project`` keeps both to that in
    spite of rounding.
    """
    gram = (jacobian.T @ jacobian).toarray() if near is None else near.between(jacobian)
    sizes, axes = np.linalg.eigh(gram)
    # an exploratory model has more slopes than parameters: the least directions are its rotations
    kept = np.flatnonzero(sizes > 1e-13 * sizes[-1])[-n_parameters:]
    inverse = (axes[:, kept] / sizes[kept]) @ axes[:, kept].T
    transposed = jacobian.T.tocsr()

    def product(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        if near is None or project is None:
            return vector - jacobian @ (inverse @ (transposed @ vector))
        vector = project(vector)
        explained = jacobian @ (inverse @ (transposed @ near.times(vector)))
        return project(near.times(vector - explained))

    return product


@dataclass(frozen=True, eq=False)
class _NearInverse:
    """The inverse of a matrix near Xi.

    Given ability, Xi is the own variance of each pair, E[s_j s_k], and for each item j what its pairs share,
    E[s_j T T'] with T = (1, t_k), besides what ability does to all of them. Each of these has few large parts B
    next to the own variances S, and (S + B B')^-1 = S^-1 - S^-1 B (I + B' S^-1 B)^-1 B' S^-1   (Woodbury, 1950).

    Parameters
    ----------
    unit
        Square roots of S, shape (n_moments,).
    parts
        S^-1/2 B, sparse, shape (n_moments, n_parts).
    factor
        Cholesky factor of I + B' S^-1 B.
    """

    unit: NDArray[np.float64]
    parts: csr_array
    factor: tuple[NDArray[np.float64], bool]

    @classmethod
    def of(cls, moments: Moments) -> _NearInverse:
        """Keep the largest parts of each item, and what ability does to all."""
        own = moments.to_vector(moments.joint_spread - np.diag(np.diagonal(moments.joint_spread)))
        own[: moments.n_items] = OWN_OF_SINGLES * (moments.spread @ moments.weights)
        own = np.maximum(own, LEAST_OWN)
        first, second = moments.items_of(np.arange(moments.n_moments))
        level_of_second = np.where((first == second)[:, None], 1.0, moments.level[second])
        rows, columns, values, sizes = [], [], [], []
        n_columns = 0
        for item in range(moments.n_items):
            row = moments.positions[item]
            shared = moments.level.copy()
            shared[item] = 1.0
            shared *= np.sqrt(moments.spread[item] * moments.weights) / np.sqrt(own[row])[:, None]
            axes, lengths, _ = np.linalg.svd(shared, full_matrices=False)
            kept = int((lengths**2 > SMALLEST_PART).sum())
            part = axes[:, :kept] * lengths[:kept]
            rows.append(np.repeat(row, kept))
            columns.append(np.tile(np.arange(n_columns, n_columns + kept), row.size))
            values.append(part.ravel())
            sizes.append(lengths[:kept])
            n_columns += kept
        shape = (moments.n_moments, n_columns)
        of_items = csc_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape)
        largest = np.sort(np.argsort(-np.concatenate(sizes))[:MOST_PARTS])
        given_theta = moments.level[first] * level_of_second
        of_all = (given_theta - (given_theta @ moments.weights)[:, None]) * np.sqrt(moments.weights)
        # in units of the own variances
        parts = hstack([of_items[:, largest], csc_array(of_all / np.sqrt(own)[:, None])]).tocsr()
        gram = (parts.T.tocsr() @ parts).toarray()
        np.einsum("ii->i", gram)[:] += 1.0
        return cls(np.sqrt(own), parts, cho_factor(gram, lower=True, overwrite_a=True))

    def times(self, vector: NDArray[np.float64]) -> NDArray[np.float64]:
        """Product with a vector of moments."""
        scaled = vector / self.unit
        return (scaled - self.parts @ cho_solve(self.factor, self.parts.T @ scaled)) / self.unit

    def between(self, jacobian: csc_array) -> NDArray[np.float64]:
        """D' M D, shape (n_parameters, n_parameters)."""
        scaled = csc_array(jacobian / self.unit[:, None])
        through = (self.parts.T @ scaled).toarray()
        return (scaled.T @ scaled).toarray() - through.T @ cho_solve(self.factor, through)
