"""Adjusted p values for many tests at once."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from statsmodels.stats.multitest import multipletests

Adjustment = Literal["holm", "fdr_bh"]


def adjust(p: NDArray[np.float64], method: Adjustment = "holm") -> NDArray[np.float64]:
    """Adjust p values of several tests, shape of ``p``; NaN stays NaN and counts as no test.

    ``holm`` keeps the chance of any false alarm at the level (Holm, 1979), ``fdr_bh`` the expected share of false
    alarms among the flagged (Benjamini & Hochberg, 1995).

    Examples
    --------
    >>> adjust(np.array([0.01, np.nan, 0.04])).tolist()
    [0.02, nan, 0.04]
    """
    adjusted = np.full(p.shape, np.nan)
    tested = ~np.isnan(p)
    if tested.any():
        adjusted[tested] = multipletests(p[tested], method=method)[1]
    return adjusted
