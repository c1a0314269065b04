"""lz and lz*: how likely a response pattern is, compared with what its ability predicts (NumPy only)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Real = TypeVar("Real", bound=np.floating[Any])


@dataclass(frozen=True, eq=False)
class PatternTerms(Generic[Real]):
    """What lz and lz* are made of, at the ability of each row.

    With w = log(P / (1 - P)) the log-likelihood differs from its expectation by W = sum (x - P) w, and

        lz = W / sqrt(sum w^2 P (1 - P))                                     (Drasgow, Levine & Williams, 1985)

    An estimate of theta solves r0 + sum (x - P) r = 0, where r = P' / (P (1 - P)) and r0 is 0 for ML, d log prior /
    d theta for MAP, and Warm's term for WLE. Snijders (2001) takes from w what the estimate has used up,

        v = w - k r,  k = sum (P' w) / sum (P' r),   lz* = (W + k r0) / sqrt(sum v^2 P (1 - P)).

    The numerator is sum (x - P) v, since r0 = -sum (x - P) r at the estimate; so one formula serves ML, WLE, MAP under
    any prior and, to the order at which it stays close to MAP, EAP. Sums run over the observed items.

    Parameters
    ----------
    log_odds
        w, shape (n_rows, n_items).
    used_up
        k, shape (n_rows,).
    remaining
        v, shape (n_rows, n_items).
    variance_known
        sum w^2 P (1 - P), the variance of W where theta is known, shape (n_rows,).
    variance_estimated
        sum v^2 P (1 - P), where it is estimated, shape (n_rows,); NaN where only rounding is left of it.
    """

    log_odds: NDArray[Real]
    used_up: NDArray[Real]
    remaining: NDArray[Real]
    variance_known: NDArray[Real]
    variance_estimated: NDArray[Real]

    @classmethod
    def of(
        cls, variance: NDArray[Real], log_odds: NDArray[Real], weight: NDArray[Real], *, least_left: float
    ) -> PatternTerms[Real]:
        """Terms from each response's variance P (1 - P), 0 where it is missing, its w and its r.

        Parameters
        ----------
        variance, log_odds, weight
            Shape (n_rows, n_items).
        least_left
            Share of the variance of W that must remain once theta is estimated; below it only rounding is left.
        """
        by_weight = variance * weight
        with np.errstate(invalid="ignore", divide="ignore"):  # without a response nothing is left
            used_up = row_sums(by_weight, log_odds) / row_sums(by_weight, weight)
            remaining = log_odds - used_up[:, None] * weight
        known = row_sums(variance * log_odds, log_odds)
        left = row_sums(variance * remaining, remaining)
        left[~(left > least_left * known)] = np.nan
        return cls(log_odds, used_up, remaining, known, left)

    def lz(self, residual: NDArray[Real]) -> NDArray[Real]:
        """Lz of responses with these residuals x - P, 0 where missing, shape (n_rows,); NaN without a response."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return row_sums(residual, self.log_odds) / np.sqrt(self.variance_known)

    def lz_star(self, residual: NDArray[Real]) -> NDArray[Real]:
        """lz* of responses with these residuals, 0 where missing, shape (n_rows,); NaN where it is undefined."""
        return row_sums(residual, self.remaining) / np.sqrt(self.variance_estimated)


def row_sums(terms: NDArray[Real], by: NDArray[Real]) -> NDArray[Real]:
    """Sum of the products in each row, shape (n_rows,)."""
    return np.einsum("ij,ij->i", terms, by)
