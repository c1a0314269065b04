"""Logistic regression under a quadratic penalty, by Newton steps (NumPy only)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

MOST_STEPS = 50


@dataclass(frozen=True, eq=False)
class LogisticRegression:
    """A fitted regression.

    Parameters
    ----------
    coefficients
        Shape (n_coefficients,).
    precision
        Negative second derivative of the penalised log-likelihood there, shape (n_coefficients, n_coefficients).
    log_likelihood
        Without the penalty.
    """

    coefficients: NDArray[np.float64]
    precision: NDArray[np.float64]
    log_likelihood: float


def logistic_regression(
    basis: NDArray[np.float64],
    answers: NDArray[np.float64],
    penalty: NDArray[np.float64],
    *,
    start: NDArray[np.float64] | None = None,
    trials: NDArray[np.float64] | None = None,
) -> LogisticRegression:
    """Maximise sum(x eta - n log(1 + exp(eta))) - beta' K beta / 2 over beta, with eta = basis @ beta.

    Parameters
    ----------
    basis
        Shape (n_respondents, n_coefficients).
    answers
        1 or 0, or the number right of several trials, shape (n_respondents,).
    penalty
        K, shape (n_coefficients, n_coefficients); a little of it keeps a perfect prediction finite.
    start
        Coefficients to start from; None for 0.
    trials
        n, the number of trials of each, shape (n_respondents,); None for one each.
    """
    n = np.ones(len(answers)) if trials is None else trials
    coefficients = np.zeros(basis.shape[1]) if start is None else start
    for _ in range(MOST_STEPS):
        p = expit(basis @ coefficients)
        precision = basis.T @ (basis * (n * p * (1 - p))[:, None]) + penalty
        step = np.linalg.solve(precision, basis.T @ (answers - n * p) - penalty @ coefficients)
        coefficients = coefficients + step
        if np.abs(step).max() < 1e-8:
            break
    eta = basis @ coefficients
    return LogisticRegression(coefficients, precision, float(np.sum(answers * eta + n * log_expit(-eta))))
