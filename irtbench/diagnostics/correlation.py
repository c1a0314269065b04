"""Correlations of columns with missing values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def pairwise_correlation(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Correlation of every two columns over the rows where both are observed, shape (n_columns, n_columns).

    NaN where one of the two does not vary there.

    Examples
    --------
    >>> pairwise_correlation(np.array([[0.0, 1.0], [1.0, 0.0], [np.nan, 1.0]]))[0, 1].item()
    -1.0
    """
    seen = (~np.isnan(values)).astype(np.float64)
    # The correlation is the same from any origin; from the columns' means the differences below keep their digits.
    origin = np.nansum(values, axis=0) / np.maximum(seen.sum(axis=0), 1)
    centred = np.where(seen > 0, values - origin, 0.0)
    n = seen.T @ seen
    total = centred.T @ seen  # [k, l]: sum of column k over the rows where l is observed too
    squares = (centred**2).T @ seen
    with np.errstate(invalid="ignore", divide="ignore"):
        variation = squares - total**2 / n
        rounding = np.maximum(1e-12, n * np.finfo(np.float64).eps)  # of a sum of n, relative
        variation[variation <= rounding * squares] = np.nan
        correlation = (centred.T @ centred - total * total.T / n) / np.sqrt(variation * variation.T)
    return np.clip(correlation, -1.0, 1.0)
