"""Does this response pattern look like the population's: lz, lz*, infit and outfit of respondents (NumPy only)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.checks import check_items_agree, check_theta
from irtbench.diagnostics.residuals import mean_squares
from irtbench.models.item_response import ItemParameters, log_icc

# Share of lz's variance that must remain once theta is estimated; below it only rounding is left.
LEAST_VARIANCE_LEFT = 1e-10


@dataclass(frozen=True, eq=False)
class PersonFit:
    """Person fit of each respondent; all arrays have shape (n_respondents,).

    Parameters
    ----------
    respondent_ids
        The respondents, in the order of the responses.
    lz
        Standardised log-likelihood of the pattern as if theta were known. Too narrow where theta is estimated.
    lz_star
        The same, corrected for the estimation of theta: about standard normal; low values mean a pattern unlike the
        model's (right on hard items, wrong on easy ones).
    infit, outfit
        Mean squared residuals, weighted and unweighted; 1 expected.
    n_items
        Observed responses.
    """

    respondent_ids: tuple[str, ...]
    lz: NDArray[np.float64]
    lz_star: NDArray[np.float64]
    infit: NDArray[np.float64]
    outfit: NDArray[np.float64]
    n_items: NDArray[np.int64]

    def table(self) -> pd.DataFrame:
        """One row a respondent, columns of person_fit.csv."""
        return pd.DataFrame(
            {
                "respondent_id": self.respondent_ids,
                "lz": self.lz,
                "lz_star": self.lz_star,
                "infit": self.infit,
                "outfit": self.outfit,
                "n_items": self.n_items,
            }
        )


def person_fit(responses: ResponseMatrix, items: ItemParameters, theta: NDArray[np.float64]) -> PersonFit:
    """Person fit at estimated abilities.

    With w = log(P / (1 - P)) the log-likelihood differs from its expectation by W = sum (x - P) w, and

        lz = W / sqrt(sum w^2 P (1 - P))                                     (Drasgow, Levine & Williams, 1985)

    An estimate of theta solves r0 + sum (x - P) r = 0, where r = P' / (P (1 - P)) and r0 is 0 for ML, d log prior /
    d theta for MAP, and Warm's term for WLE. Snijders (2001) takes from w what the estimate has used up,

        v = w - r sum (P' w) / sum (P' r),   lz* = (W + r0 sum (P' w) / sum (P' r)) / sqrt(sum v^2 P (1 - P)).

    The numerator is sum (x - P) v, since r0 = -sum (x - P) r at the estimate; so one formula serves ML, WLE, MAP under
    any prior and, to the order at which it stays close to MAP, EAP. Sums run over the observed items.

    All right and all wrong are defined wherever theta is finite. Undefined, hence NaN with a warning: respondents
    without a response, and lz* where the observed items all give the same ratio w / r (one item; items with the same
    parameters), because theta then explains the pattern's likelihood altogether.

    Parameters
    ----------
    responses
        Graded responses; missing ones are left out.
    items
        Parameters of the same items in the same order.
    theta
        Estimated abilities, shape (n_respondents,).

    Raises
    ------
    InputError
        If the items differ or theta has another shape or is not finite.
    """
    check_items_agree(responses, items)
    theta = check_theta(theta, responses)
    observed = responses.observed
    log_p, log_q = log_icc(theta, items)
    p = np.exp(log_p)
    variance = np.where(observed, np.exp(log_p + log_q), 0.0)
    residual = np.where(observed, responses.values - p, 0.0)
    logit = log_p - log_q
    # P' = a (P - c) (1 - P) / (1 - c), and r = P' / (P (1 - P))
    score_weight = items.discrimination * (p - items.guessing) / ((1 - items.guessing) * p)
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = (variance * logit * score_weight).sum(axis=1) / (variance * score_weight**2).sum(axis=1)
        remaining = logit - slope[:, None] * score_weight
        variance_known = (variance * logit**2).sum(axis=1)
        variance_estimated = (variance * remaining**2).sum(axis=1)
        lz = (residual * logit).sum(axis=1) / np.sqrt(variance_known)
        lz_star = (residual * remaining).sum(axis=1) / np.sqrt(variance_estimated)
    lz_star[~(variance_estimated > LEAST_VARIANCE_LEFT * variance_known)] = np.nan
    undefined = int(np.isnan(lz_star).sum())
    if undefined:
        warnings.warn(
            f"person fit: lz* is undefined for {undefined} of {responses.n_respondents} respondents, who answered no "
            "item or only items that leave nothing to judge once theta is estimated",
            RuntimeWarning,
            stacklevel=2,
        )
    infit, outfit = mean_squares(responses.values, theta, items, over="items")
    return PersonFit(responses.respondent_ids, lz, lz_star, infit, outfit, observed.sum(axis=1))
