"""The distribution of the sum score at given abilities (NumPy only)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from irtbench.models.curves import icc
from irtbench.models.item_parameters import ItemParameters

CELLS_AT_ONCE = 2**15  # scores x nodes: what stays in the processor's cache, several times as fast as all at once


def score_distribution(
    theta: ArrayLike, items: ItemParameters, times: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Probability of each sum score on these items at each ability, shape (n_theta, n_scores).

    With `times`, shape (n_items,), an item counts so often: 0 where it was not answered; one in categories once.
    """
    if items.categories is None:
        p = icc(theta, items)
        return sum_score_distribution(p if times is None else np.repeat(p, times, axis=1))
    each = items.categories.probabilities(theta)
    answered = each if times is None else [p for p, n in zip(each, times, strict=True) if n]
    return category_score_distribution(answered, np.ones((len(each[0]), 1)))


def sum_score_distribution(p: NDArray[np.float64], start: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Probability of each sum score on the items of ``p``, shape (n_nodes, n_items + 1).

    Lord and Wingersky's recursion (1984): an item with probability P moves score k to k + 1 with probability P.

    Parameters
    ----------
    p
        Probability of a right response, shape (n_nodes, n_items).
    start
        Distribution of the score on other items, to which those of ``p`` are added, shape (n_nodes, n_scores); None
        for no other items.

    Examples
    --------
    >>> sum_score_distribution(np.array([[0.5, 0.25]])).tolist()
    [[0.375, 0.5, 0.125]]
    """
    n_nodes, n_items = p.shape
    begun = np.ones((n_nodes, 1)) if start is None else start
    n_scores = begun.shape[1]
    n_together = max(1, CELLS_AT_ONCE // (n_scores + n_items))
    distribution = np.empty((n_nodes, n_scores + n_items))
    for first in range(0, n_nodes, n_together):
        some = slice(first, first + n_together)
        right = p[some].T
        wrong = 1 - right
        # scores by nodes, changed in place
        at_nodes = np.zeros((n_scores + n_items, right.shape[1]))
        at_nodes[:n_scores] = begun[some].T
        moved = np.empty_like(at_nodes)
        for k in range(n_items):
            so_far = at_nodes[: n_scores + k]
            up = np.multiply(so_far, right[k], out=moved[: n_scores + k])
            so_far *= wrong[k]
            at_nodes[1 : n_scores + k + 1] += up
        distribution[some] = at_nodes.T
    return distribution


def category_score_distribution(
    probabilities: Iterable[NDArray[np.float64]], start: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The same of items in categories, which count 0, 1, ..., shapes (n_nodes, n_categories), added to others."""
    for p in probabilities:
        n_scores, n_categories = start.shape[1], p.shape[1]
        found = np.zeros((len(start), n_scores + n_categories - 1))
        for k in range(n_categories):
            found[:, k : k + n_scores] += start * p[:, k, None]
        start = found
    return start
