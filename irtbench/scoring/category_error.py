"""The error of the parameters of items in categories, carried into ability by the delta method (NumPy only)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from irtbench.models.category_parameters import STEP, CategoryDerivatives, CategoryParameters
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import Quadrature
from irtbench.models.theta_posterior import posterior_of, row_batches

Array = NDArray[np.float64]


def error_share(items: CategoryParameters, population: Quadrature) -> float:
    """Share that the items' error adds to the variance of ability, on average over the population.

    An error e of an item's parameters moves theta by c'e / (1 + I), c = sum_k P_k f_k d log P_k / d parameters with f_k
    the derivative of log P_k by theta, so that V / (1 / (1 + I)) = sum_j c_j' S_j c_j / (1 + I).
    """
    if items.covariance is None:
        return 0.0
    at, added = CategoryDerivatives.at(items, population.nodes), np.zeros(population.nodes.size)
    for j, rates in enumerate(items.parameter_derivatives(population.nodes)):
        own = slice(items.first[j], items.first[j] + items.top[j] + 1)
        c = np.einsum("qk,qkp->qp", at.p[:, own] * at.slope[:, own], rates)
        added += _quadratic(c, items.covariance[j])
    return float(population.weights @ (added / (1 + at.information.sum(axis=1))))


def error_variance(
    values: Array, items: ItemParameters, theta: Array, standard_error: Array, population: Quadrature | None
) -> Array:
    """Variance that the items' error adds to each ability, sum_j g_j' S_j g_j, shape (n_respondents,).

    g_j is the derivative of the estimate by the item's parameters: with a `population` (EAP) the covariance of
    theta and d log P / d parameters under the posterior, without (MAP, ML, WLE) that of the score over the information.
    """
    known = items.categories
    assert known is not None
    assert known.covariance is not None
    variance = np.zeros(len(values))
    for rows in row_batches(len(values), items.n_items):
        if population is None:
            low, high = (list(known.parameter_derivatives(theta[rows] + step)) for step in (-STEP, STEP))
            by_item = [
                (b - a) / (2 * STEP) * standard_error[rows, None, None] ** 2 for a, b in zip(low, high, strict=True)
            ]
        else:
            posterior = posterior_of(values[rows], items, population)
            lean = posterior.mass * (posterior.nodes - posterior.mean()[:, None])
            by_item = [np.einsum("nq,qkp->nkp", lean, rates) for rates in known.parameter_derivatives(posterior.nodes)]
        for j, g in enumerate(by_item):
            given = ~np.isnan(values[rows, j])
            chosen = g[np.flatnonzero(given), values[rows, j][given].astype(np.int64)]
            variance[np.arange(len(values))[rows][given]] += _quadratic(chosen, known.covariance[j])
    return variance


def _quadratic(g: Array, covariance: Array) -> Array:
    """G' S g of each row, S being of the first parameters."""
    width = g.shape[1]
    return np.einsum("np,pq,nq->n", g, np.nan_to_num(covariance[:width, :width]), g)
