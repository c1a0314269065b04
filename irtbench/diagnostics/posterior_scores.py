"""Scores of departures from the model: residuals at each ability, weighted by the respondent's posterior of it.

For any function h of ability and of the other answers, the sum over respondents of E[(x_j - P_j) h | their answers] is
a derivative of the likelihood of what was observed (Fisher's identity; Louis, 1982). Its expectation is 0 wherever who
answered what depends on the answers seen alone (Rubin, 1976), as in a second stage chosen by the first, and nearly so
where abler people answer more and have answered enough to show it. What the whole population would answer is no such
measure there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from irtbench.data.responses import ResponseMatrix
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
    def of_items(cls, responses: ResponseMatrix, items: ItemParameters, grid: Quadrature) -> Residuals:
        """Of responses to items of one ability."""
        if (own := items.categories) is not None:
            mass = normalise(own.log_likelihood(responses.correct, grid.nodes) + grid.log_weights)[0]
            values, asked = np.nan_to_num(responses.correct), responses.observed.astype(np.float64)
            with np.errstate(divide="ignore"):
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
        """The same respondents drawn again and again, as often as the covariance of so many scores needs."""
        rows = max(FEWEST_ROWS, ROWS_TO_A_SCORE * n_scores)
        for _ in range(-(-rows // max(len(self.n), 1))):
            yield self.of(self.draw(rng), self.n, self.log_p, self.log_q, self.log_weights)

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

    def correlations(self) -> Array:
        """Expected correlations of responses among those who answered both items, shape (n_items, n_items)."""
        product = np.zeros((self.n.shape[1],) * 2)
        for rows, nodes in self.blocks():
            expected = self.n[rows, :, None] * self.p[:, nodes]
            product += np.tensordot(expected * self.mass[rows, None, nodes], expected, axes=((0, 2), (0, 2)))
        with np.errstate(invalid="ignore", divide="ignore"):
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
