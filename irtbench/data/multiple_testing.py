"""Adjusted p values for many tests at once."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from irtbench.data.input_error import demand_choice

Adjustment = Literal["holm", "fdr_bh"]


def adjust(p: NDArray[np.float64], method: Adjustment = "holm") -> NDArray[np.float64]:
    """Adjust p values of several tests, shape of ``p``; NaN stays NaN and counts as no test.

    ``holm`` keeps the chance of any false alarm at the level (Holm, 1979): the k-th smallest of m is multiplied by
    m - k + 1, and none is smaller than the one before. ``fdr_bh`` keeps the expected share of false alarms among the
    flagged (Benjamini & Hochberg, 1995): the k-th smallest is multiplied by m / k, and none is larger than the next.

    statsmodels has the same but collects garbage at every call, a tenth of a second that pruning would pay each round.

    Examples
    --------
    >>> adjust(np.array([0.01, np.nan, 0.04])).tolist()
    [0.02, nan, 0.04]
    """
    demand_choice("adjustment", method, Adjustment)
    adjusted = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    m = order.size
    rank = np.arange(1, m + 1)
    if method == "holm":
        adjusted[order] = np.maximum.accumulate(p[order] * (m - rank + 1))
    else:
        adjusted[order] = np.minimum.accumulate((p[order] * m / rank)[::-1])[::-1]
    return np.minimum(adjusted, 1.0)
