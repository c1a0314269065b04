"""How consistent a sum score is: coefficient alpha with its interval, omega, standard error of measurement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import fdtri

from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Figures
from irtbench.diagnostics.classical import covariances_with_sum
from irtbench.diagnostics.correlation import pairwise_covariance
from irtbench.diagnostics.tetrachoric import tetrachoric

FEWEST_FOR_OMEGA = 3  # one factor of two items has no unique loadings
MOST_FOR_OMEGA = 2_000  # whose tetrachoric correlations take a minute


@dataclass(frozen=True)
class InternalConsistency(Figures):
    """Reliability of the sum score as the covariances of its items tell it; NaN where it cannot be had.

    Parameters
    ----------
    alpha, alpha_lower, alpha_upper
        Coefficient alpha, for right and wrong responses the same as KR-20, and its interval.
    omega
        Omega total of one factor of the tetrachoric correlations: for the normal variables behind the responses.
    standard_error
        Standard error of measurement of the sum score.
    n_respondents
        On whom the interval rests: all, or the harmonic mean over the pairs of items with missing responses.
    complete
        Whether every respondent answered every item.
    reason
        Why a figure is missing, in words; empty if none is.
    """

    alpha: float
    alpha_lower: float
    alpha_upper: float
    omega: float
    standard_error: float
    n_respondents: float
    complete: bool
    reason: str = ""


def internal_consistency(responses: ResponsesLike, *, level: float = 0.95) -> InternalConsistency:
    """Coefficient alpha, omega and the standard error of measurement.

        alpha = k / (k - 1) (1 - sum_i c_ii / C),  C = sum_ij c_ij          (Cronbach, 1951)
        standard error of measurement = sqrt(C (1 - alpha))

    with c_ij the covariance of items i and j over the respondents who answered both. KR-20 is the same number: the
    variances of item and sum score have the same denominator there. The interval is Feldt's (1965),
    1 - (1 - alpha) F(q; n - 1, (n - 1)(k - 1)) at q = (1 + level) / 2 and (1 - level) / 2. Omega total is
    (sum l)^2 / ((sum l)^2 + sum (1 - l^2)) for loadings l of one factor, least squares on the tetrachoric correlations
    (McDonald, 1999).

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`).
    level
        Coverage of the interval of alpha.

    Raises
    ------
    InputError
        If there are fewer than two items, or `level` is not between 0 and 1.

    Examples
    --------
    >>> import irtbench
    >>> found = irtbench.internal_consistency([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0]])
    >>> found.alpha
    0.75
    >>> found.table()[["alpha", "alpha_lower", "alpha_upper", "standard_error"]].round(3)
       alpha  alpha_lower  alpha_upper  standard_error
    0   0.75        -0.65        0.983           0.645
    """
    responses = as_responses(responses)
    if not 0 < level < 1:
        raise InputError(f"internal consistency: level is {level}; expected a number between 0 and 1")
    if responses.n_items < 2:
        raise InputError(f"internal consistency: {responses.n_items} items; expected at least 2")
    (own, with_sum), k = covariances_with_sum(responses), responses.n_items
    total = float(with_sum.sum())
    omega, reason = _omega_of(responses)
    if not total > 0:
        why = "the sum score does not vary" if total == 0 else "the items' covariances do not give it a variance"
        return InternalConsistency(
            np.nan, np.nan, np.nan, omega, np.nan, np.nan, responses.is_complete, f"alpha: {why}"
        )
    alpha = k / (k - 1) * (1 - own.sum() / total)
    n = float(responses.n_respondents) if responses.is_complete else _typical_respondents(responses)
    if n < 2:
        lower = upper = np.nan
    else:
        quantiles = fdtri(n - 1, (n - 1) * (k - 1), [(1 + level) / 2, (1 - level) / 2])
        lower, upper = (float(bound) for bound in 1 - (1 - alpha) * quantiles)
    return InternalConsistency(
        float(alpha), lower, upper, omega, float(np.sqrt(total * max(0.0, 1 - alpha))), n, responses.is_complete, reason
    )


def omega_total(correlations: ArrayLike) -> float:
    """Omega total of one factor, its loadings by least squares on the correlations off the diagonal (minres).

    Parameters
    ----------
    correlations
        Of the items, shape (n_items, n_items), at least three items.

    Examples
    --------
    Loadings of .8, .7 and .6 give omega = 2.1^2 / (2.1^2 + .36 + .51 + .64).

    >>> import irtbench
    >>> round(irtbench.omega_total([[1, 0.56, 0.48], [0.56, 1, 0.42], [0.48, 0.42, 1]]), 3)
    0.745
    """
    correlations = np.asarray(correlations, dtype=np.float64)
    apart = correlations - np.diag(correlations.diagonal())
    values, vectors = np.linalg.eigh(correlations)
    start = vectors[:, -1] * np.sqrt(values[-1])
    start *= 1.0 if start.sum() >= 0 else -1.0

    def loss_and_slope(loading: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        product = np.outer(loading, loading)
        residual = product - np.diag(product.diagonal()) - apart
        return float((residual**2).sum() / 4), residual @ loading

    found = minimize(
        loss_and_slope, np.clip(start, -1.0, 1.0), jac=True, method="L-BFGS-B",
        bounds=[(-1.0, 1.0)] * len(start), options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000},
    )  # fmt: skip
    common = found.x.sum() ** 2
    return float(common / (common + (1 - found.x**2).sum()))


def _omega_of(responses: ResponseMatrix) -> tuple[float, str]:
    """Omega total of the tetrachoric correlations, and why it is missing."""
    if responses.n_items < FEWEST_FOR_OMEGA:
        return np.nan, f"omega: {responses.n_items} items; one factor needs at least {FEWEST_FOR_OMEGA}"
    if responses.n_items > MOST_FOR_OMEGA:
        return np.nan, f"omega: the pairs of {responses.n_items:,} items are too many"
    if responses.trials is not None:
        return np.nan, "omega: of right and wrong, not of several trials or categories"
    try:
        correlations = tetrachoric(responses).correlations
    except InputError as error:
        return np.nan, f"omega: {error}"
    return omega_total(correlations), ""


def _typical_respondents(responses: ResponseMatrix) -> float:
    """Harmonic mean, over the pairs of items answered together, of their respondents."""
    _, n = pairwise_covariance(responses.shares)
    pairs = n[np.triu_indices(responses.n_items, 1)]
    return float(1 / (1 / pairs[pairs > 0]).mean()) if (pairs > 0).any() else 0.0
