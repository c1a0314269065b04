"""Logistic regression under a quadratic penalty, of two outcomes or of ordered ones, by Newton steps (NumPy only)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

MOST_STEPS = 50
MOST_HALVINGS = 30
SMALLEST = 1e-300  # of a probability


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
    """Maximise sum(x eta - n log(1 + exp(eta))) - beta' K beta / 2 over beta, with eta = basis @ beta."""
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


def ordinal_regression(
    basis: NDArray[np.float64],
    counts: NDArray[np.float64],
    penalty: float,
    *,
    start: NDArray[np.float64] | None = None,
) -> LogisticRegression:
    """Maximise the likelihood of ordered outcomes by cumulative logits (McCullagh, 1980).

    P(at least k) = 1 / (1 + exp(-(t_k + basis @ beta))). Of two outcomes it is the logistic regression, t_1 being the
    constant. By Fisher scoring, steps halved where the likelihood would fall.
    """
    above = counts.sum(axis=0)[::-1].cumsum()[::-1][1:] / counts.sum()
    x = extended(np.log(above / (1 - above)) if start is None else start, basis, counts)

    def height(at: NDArray[np.float64]) -> float:
        if (np.diff(at[: len(above)]) >= 0).any():
            return -np.inf
        return float((counts * np.log(probabilities(basis, at, len(above))[0])).sum() - penalty * at @ at / 2)

    best, information = height(x), np.eye(x.size)
    for _ in range(MOST_STEPS):
        gradient, information = derivatives(basis, counts, x, penalty)
        step = np.linalg.solve(information, gradient)
        for _ in range(MOST_HALVINGS):
            found = height(x + step)
            if found >= best - 1e-12 * abs(best):
                break
            step = step / 2
        x, best = x + step, found
        if np.abs(step).max() < 1e-8:
            break
    return LogisticRegression(x, information, best + float(penalty * x @ x / 2))


def score_statistic(
    basis: NDArray[np.float64], counts: NDArray[np.float64], penalty: float, fitted: LogisticRegression
) -> float:
    """Rao's (1948) U' I^-1 U of the columns beyond those fitted, U and I at the fit without them.

    With few responses it is nearer to its chi-square than the likelihood ratio, which is too large.
    """
    gradient, information = derivatives(basis, counts, extended(fitted.coefficients, basis, counts), penalty)
    return float(gradient @ np.linalg.solve(information, gradient))


def extended(x: NDArray[np.float64], basis: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Steps and coefficients of all columns, 0 where there are none yet."""
    return np.pad(x, (0, counts.shape[1] - 1 + basis.shape[1] - x.size))


def probabilities(
    basis: NDArray[np.float64], x: NDArray[np.float64], n_steps: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of the outcomes, shape (n_respondents, n_steps + 1), and of at least each but the lowest."""
    at_least = expit(x[:n_steps] + (basis @ x[n_steps:])[:, None])
    return np.maximum(-np.diff(at_least, axis=1, prepend=1.0, append=0.0), SMALLEST), at_least


def derivatives(
    basis: NDArray[np.float64], counts: NDArray[np.float64], x: NDArray[np.float64], penalty: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gradient of the penalised log-likelihood, and its expected information, sum n P'P'^T / P, the penalty added."""
    n_steps = counts.shape[1] - 1
    p, at_least = probabilities(basis, x, n_steps)
    slope = (at_least * (1 - at_least))[:, :, None]
    by_step = np.pad(slope * np.eye(n_steps), ((0, 0), (1, 0), (0, 0))) - np.pad(
        slope * np.eye(n_steps), ((0, 0), (0, 1), (0, 0))
    )
    rate = np.concatenate([by_step, by_step.sum(axis=2, keepdims=True) * basis[:, None]], axis=2).reshape(-1, x.size)
    weight = (counts.sum(axis=1, keepdims=True) / p).reshape(-1, 1)
    gradient = rate.T @ (counts / p).ravel() - penalty * x
    return gradient, rate.T @ (weight * rate) + penalty * np.eye(x.size)
