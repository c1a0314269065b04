"""Residuals of responses at given abilities, and their mean squares: infit and outfit (NumPy only)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from irtbench.models.curves import icc, log_icc
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.theta_posterior import Trials


def residuals(values: NDArray[np.float64], theta: NDArray[np.float64], items: ItemParameters) -> NDArray[np.float64]:
    """Observed minus expected response x - P(theta), NaN where missing, shape (n_respondents, n_items)."""
    return values - icc(theta, items)


def mean_squares(
    values: NDArray[np.float64],
    theta: NDArray[np.float64],
    items: ItemParameters,
    *,
    over: Literal["respondents", "items"],
    trials: Trials = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Infit and outfit of each item (over respondents) or of each respondent (over items), NaN where none is observed.

    infit = sum (x - P)^2 / sum P (1 - P),  outfit = mean of (x - P)^2 / (P (1 - P))    (Wright & Masters, 1982)

    Of items in categories x is the category, and its mean and variance take the place of P and P (1 - P).
    With x right of n trials n P and n P (1 - P) do. Above 1 on all sides it then says
    that trials of an item are more alike than the model has them (overdispersion).

    Both are 1 in expectation at the true abilities. At estimated ones they are lower: the estimate has followed the
    responses. Outfit is ruled by answers far from what theta lets expect, infit by those near the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> theta = irtbench.estimate_ability(responses, items).theta
    >>> infit, outfit = irtbench.mean_squares(responses.values, theta, items, over="respondents")
    >>> infit.round(2)
    array([0.96, 0.73, 0.79, 0.78, 0.82, 0.69])
    """
    observed, axis = ~np.isnan(values), 0 if over == "respondents" else 1
    if items.categories is not None:
        mean, each, _ = items.categories.score_moments(theta)
        variance, residual = np.where(observed, each, 0.0), np.where(observed, values - mean, 0.0)
        return _of_squares(residual**2 / np.maximum(each, np.finfo(np.float64).tiny), variance, observed, axis)
    log_p, log_q = log_icc(theta, items)
    variance = np.where(observed, np.exp(log_p + log_q), 0.0)
    if trials is None:
        # (x - P)^2 / (P (1 - P)) is (1 - P) / P for a right and P / (1 - P) for a wrong response
        standardised = np.where(observed, np.exp(np.where(values == 1, log_q - log_p, log_p - log_q)), 0.0)
    else:
        # x - n P = x (1 - P) - (n - x) P
        odds, x = np.exp((log_p - log_q) / 2), np.nan_to_num(values)
        standardised = np.where(observed, (x / odds - (trials - x) * odds) ** 2 / np.maximum(trials, 1), 0.0)
        variance = variance * trials
    return _of_squares(standardised, variance, observed, axis)


def _of_squares(
    standardised: NDArray[np.float64], variance: NDArray[np.float64], observed: NDArray[np.bool_], axis: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Infit and outfit of squared standardised residuals, 0 where missing."""
    n_observed = observed.sum(axis=axis)
    with np.errstate(invalid="ignore", divide="ignore"):
        infit = (standardised * variance).sum(axis=axis) / variance.sum(axis=axis)
        outfit = standardised.sum(axis=axis) / n_observed
    return infit, outfit
