"""The distribution of the sum score at given abilities (NumPy only)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


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
    distribution = np.ones((p.shape[0], 1)) if start is None else start
    for item in p.T[:, :, None]:
        longer = np.zeros((distribution.shape[0], distribution.shape[1] + 1))
        longer[:, :-1] = distribution * (1 - item)
        longer[:, 1:] += distribution * item
        distribution = longer
    return distribution
