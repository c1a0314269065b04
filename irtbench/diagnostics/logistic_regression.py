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

    Parameters
    ----------
    basis
        Without a constant, shape (n_respondents, n_coefficients).
    counts
        How often each respondent had each outcome, the lowest first, shape (n_respondents, n_outcomes).
    penalty
        Of the squares of t and beta, halved; a little of it keeps a perfect prediction finite.
    start
        t_1, t_2, ..., which fall, and beta to start from, the later ones 0 where there are too few; None for the
        outcomes' shares.
    """
    n_steps, n = counts.shape[1] - 1, counts.sum(axis=1)
    above = counts.sum(axis=0)[::-1].cumsum()[::-1][1:] / n.sum()
    x = np.r_[np.log(above / (1 - above)) if start is None else start, np.zeros(n_steps + basis.shape[1])]
    x = x[: n_steps + basis.shape[1]]

    def probabilities(at: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        at_least = expit(at[:n_steps] + (basis @ at[n_steps:])[:, None])
        edges = np.column_stack([np.ones(len(basis)), at_least, np.zeros(len(basis))])
        return np.maximum(-np.diff(edges, axis=1), SMALLEST), at_least * (1 - at_least)

    def height(at: NDArray[np.float64]) -> float:
        if (np.diff(at[:n_steps]) >= 0).any():
            return -np.inf
        return float((counts * np.log(probabilities(at)[0])).sum() - penalty * at @ at / 2)

    best = height(x)
    information = np.eye(x.size)
    for _ in range(MOST_STEPS):
        p, slope = probabilities(x)
        ratio = counts / p
        by_step = slope * (ratio[:, 1:] - ratio[:, :-1])
        own = n[:, None] * slope**2 * (1 / p[:, 1:] + 1 / p[:, :-1])
        across = -n[:, None] * slope[:, 1:] * slope[:, :-1] / p[:, 1:-1]
        total = own.copy()
        total[:, 1:] += across
        total[:, :-1] += across
        information = penalty * np.eye(x.size)
        information[:n_steps, :n_steps] += np.diag(own.sum(axis=0))
        beside = np.arange(n_steps - 1)
        information[beside, beside + 1] += across.sum(axis=0)
        information[beside + 1, beside] += across.sum(axis=0)
        information[:n_steps, n_steps:] = total.T @ basis
        information[n_steps:, :n_steps] = information[:n_steps, n_steps:].T
        information[n_steps:, n_steps:] += basis.T @ (basis * total.sum(axis=1)[:, None])
        gradient = np.r_[by_step.sum(axis=0), basis.T @ by_step.sum(axis=1)] - penalty * x
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
