"""Correlations of columns with missing values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def pairwise_covariance(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Covariance of every two columns over the rows where both are observed, and the number of those rows.

    Each of shape (n_columns, n_columns), the covariance with n - 1 in the denominator; NaN where n is below 2.

    Examples
    --------
    >>> pairwise_covariance(np.array([[0.0, 1.0], [1.0, 0.0], [np.nan, 1.0]]))[0][0, 1].item()
    -0.5
    """
    n, total, _, product = _sums_by_pair(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        covariance = (product - total * total.T / n) / (n - 1)
    return np.where(n > 1, covariance, np.nan), n


def pairwise_correlation(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Correlation of every two columns over the rows where both are observed, shape (n_columns, n_columns).

    NaN where one of the two does not vary there.

    Examples
    --------
    >>> pairwise_correlation(np.array([[0.0, 1.0], [1.0, 0.0], [np.nan, 1.0]]))[0, 1].item()
    -1.0
    """
    n, total, squares, product = _sums_by_pair(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        variation = squares - total**2 / n
        rounding = np.maximum(1e-12, n * np.finfo(np.float64).eps)  # of a sum of n, relative
        variation[variation <= rounding * squares] = np.nan
        correlation = (product - total * total.T / n) / np.sqrt(variation * variation.T)
    return np.clip(correlation, -1.0, 1.0)


def _sums_by_pair(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Rows with both columns k and l; over them the sum and the sum of squares of k, and the sum of products.

    Each of shape (n_columns, n_columns), from the columns' means as origin: there the differences keep their digits.
    """
    seen = (~np.isnan(values)).astype(np.float64)
    origin = np.nansum(values, axis=0) / np.maximum(seen.sum(axis=0), 1)
    centred = np.where(seen > 0, values - origin, 0.0)
    return seen.T @ seen, centred.T @ seen, (centred**2).T @ seen, centred.T @ centred
