"""Marginal log-likelihood of anybody's estimates, by code that no tool in the benchmark uses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logsumexp

BOUND = 6.0
FEWEST_NODES = 121
MOST_NODES = 4_001
BATCH = 8_192  # respondents at a time


def log_likelihood_per_response(
    values: NDArray[np.uint8], a: NDArray[np.float64], b: NDArray[np.float64], c: NDArray[np.float64]
) -> float:
    """Mean over responses of the marginal log-likelihood, ability being standard normal.

    (1 / nJ) sum_i log sum_q w_q prod_j P_j(theta_q)^x_ij (1 - P_j(theta_q))^(1 - x_ij) in float64, on equally spaced
    nodes from -6 to 6: 121, or as many more as it takes for them to be no further apart than half the standard
    deviation of the narrowest posterior. NaN where an estimate is not finite.

    Parameters
    ----------
    values
        Responses 1 and 0, shape (n_respondents, n_items).
    a, b, c
        Estimates of discrimination, difficulty and guessing, each of shape (n_items,).
    """
    if not all(np.isfinite(each).all() for each in (a, b, c)):
        return float("nan")
    nodes = np.linspace(-BOUND, BOUND, n_nodes(a, b))
    z = np.outer(nodes, a) - a * b
    with np.errstate(divide="ignore"):
        log_right = np.logaddexp(np.log(c), np.log1p(-c) + log_expit(z))
    log_wrong = np.log1p(-c) + log_expit(-z)
    log_weights = -0.5 * nodes**2
    at_node = log_weights - logsumexp(log_weights) + log_wrong.sum(axis=1)
    log_odds = (log_right - log_wrong).T
    total = 0.0
    for start in range(0, values.shape[0], BATCH):
        total += float(logsumexp(values[start : start + BATCH].astype(np.float64) @ log_odds + at_node, axis=1).sum())
    return total / values.size


def n_nodes(a: NDArray[np.float64], b: NDArray[np.float64]) -> int:
    """How many nodes these items need; the posterior's variance is at least 1 / (1 + sum_j a_j^2 P_j (1 - P_j))."""
    p = expit(np.outer(np.linspace(-BOUND, BOUND, FEWEST_NODES), a) - a * b)
    narrowest = 1 / np.sqrt(1 + ((p * (1 - p)) @ a**2).max())
    return int(np.clip(np.ceil(2 * BOUND / (narrowest / 2)) + 1, FEWEST_NODES, MOST_NODES))
