"""Partial credit and graded curves of many ratings at their own nodes, in closed form to the second derivative.

A rating's predictors are z_k = w_k u + d_k, k = 1..K, of its u (slope times ability) and its intercepts d; w_k = k with
``gpcm`` (P(k) proportional to exp z_k) and 1 with ``graded`` (P(at least k) = 1 / (1 + exp(-z_k))). Categories that an
item has not are those of intercept `NEVER`. The curves are those of `models.item_models`; automatic differentiation
would hold every category's derivative by every parameter at every node, of which only the observed one is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from irtbench.estimation.raters.ratings import Ints
from irtbench.models.item_models.graded import Graded
from irtbench.models.item_models.item_model import ItemModel
from irtbench.models.item_models.partial_credit import PartialCredit

Floats = NDArray[np.float64]
NEVER, ALWAYS = -1e4, 1e4  # intercepts of categories that are not there, and of the lowest
LARGE = 300.0  # of an exponent, far from overflow


@dataclass(frozen=True, eq=False)
class CurvePoints:
    """Ratings at their nodes.

    Parameters
    ----------
    log_likelihood
        Log P of the scores given, shape (n, n_nodes).
    by_predictors
        Its derivatives by the predictors, shape (n, K, n_nodes).
    information
        Negative second derivatives by the predictors, summed over the nodes with weights, shape (n, K, K).
    at_least
        P of at least 1..K at each node, shape (n, K, n_nodes).
    """

    log_likelihood: Floats
    by_predictors: Floats
    information: Callable[[Floats], Floats]
    at_least: Callable[[], Floats]

    def gradient(self, weights: Floats) -> Floats:
        """Derivatives by the predictors, summed over the nodes with weights, shape (n, K)."""
        return np.asarray(np.einsum("nkq,nq->nk", self.by_predictors, weights))


def partial_credit(scores: Ints, intercepts: Floats, along: Floats) -> CurvePoints:
    """Derivatives are those of a multinomial: [k = x] - P_k, and diag P - PP'."""
    n_steps, highest = intercepts.shape[1], np.zeros(1)
    numbers = np.arange(1.0, n_steps + 1)
    p = np.empty((n_steps, *along.shape)).transpose(1, 0, 2)  # all of a category in one piece
    if n_steps * max(along.max(), 0.0) + intercepts.max() < LARGE:  # exp(k u + d) from powers of exp(u)
        first = np.exp(along)
        power, shares = first.copy(), np.exp(intercepts)
        for k in range(n_steps):
            np.multiply(power, shares[:, k, None], out=p[:, k])
            power *= first
    else:
        np.multiply(numbers[:, None], along[:, None], out=p)
        p += intercepts[..., None]
        highest = np.maximum(p.max(axis=1), 0.0)
        np.exp(np.subtract(p, highest[:, None], out=p), out=p)
    total = p.sum(axis=1) + np.exp(-highest)
    p *= (1 / total)[:, None]
    own = np.take_along_axis(np.pad(intercepts, ((0, 0), (1, 0))), scores[:, None], axis=1)
    log_likelihood = scores[:, None] * along + own - highest - np.log(total)
    given = (scores[:, None] == numbers)[..., None]
    by_predictors = np.subtract(given, p, out=p)  # in the place of P

    def information(weights: Floats) -> Floats:
        p = given - by_predictors
        weighted = p * weights[:, None]
        return np.asarray(weighted.sum(axis=2)[..., None] * np.eye(n_steps) - weighted @ p.transpose(0, 2, 1))

    return CurvePoints(
        log_likelihood, by_predictors, information, lambda: np.cumsum((given - by_predictors)[:, ::-1], axis=1)[:, ::-1]
    )


def graded(scores: Ints, intercepts: Floats, along: Floats) -> CurvePoints:
    """P_x is a difference of two logistic curves: only their two predictors have derivatives."""
    n, n_steps = intercepts.shape
    every = np.pad(intercepts, ((0, 0), (1, 1)), constant_values=((0, 0), (ALWAYS, NEVER)))
    ends = along + np.take_along_axis(every, scores[:, None] + np.arange(2), axis=1).T[..., None]  # at least x, x + 1
    up, down = log_expit(ends), log_expit(-ends)
    with np.errstate(divide="ignore"):  # where intercepts do not fall: minus infinity
        log_likelihood = up[0] + down[1] + np.log(-np.expm1(np.minimum(ends[1] - ends[0], 0.0)))
    slopes = np.exp(up + down - log_likelihood) * np.array([1.0, -1.0])[:, None, None]  # of P, as shares of it

    def placed(values: Floats) -> Floats:
        """Values of the two predictors among those of all, shape (n, K, ...)."""
        found = np.zeros((n, n_steps + 2, *values.shape[2:]))
        found[np.arange(n), scores], found[np.arange(n), scores + 1] = values
        return found[:, 1:-1]

    def information(weights: Floats) -> Floats:
        bends = slopes * (slopes - 1 + 2 * expit(ends))
        found = placed((bends * weights).sum(axis=2))[..., None] * np.eye(n_steps)
        both = np.flatnonzero((scores >= 1) & (scores < n_steps))
        x, across = scores[both], (slopes.prod(axis=0) * weights).sum(axis=1)[both]
        found[both, x - 1, x] = found[both, x, x - 1] = across
        return np.asarray(found)

    return CurvePoints(
        log_likelihood, placed(slopes), information, lambda: np.asarray(expit(along[:, None] + intercepts[..., None]))
    )


class Curve(NamedTuple):
    """An item model, what u counts in each of its K predictors, w, and the curves of ratings.

    These are of scores k, shape (n,), intercepts, (n, K), and u, (n, n_nodes).
    """

    model: ItemModel
    weights: Callable[[int], Floats]
    points: Callable[[Ints, Floats, Floats], CurvePoints]


CURVES = {
    "gpcm": Curve(PartialCredit(), lambda n: np.arange(1.0, n + 1), partial_credit),
    "grm": Curve(Graded(), np.ones, graded),
}
