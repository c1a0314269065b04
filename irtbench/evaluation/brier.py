"""The Brier score and what it is made of: miscalibration, refinement, and what the bins hide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from irtbench.evaluation.reliability import ReliabilityCurve, calibration_error


@dataclass(frozen=True)
class BrierScore:
    """Mean of (q - y)^2, and its parts, which sum to it (Murphy, 1973; DeGroot & Fienberg, 1983).

    Parameters
    ----------
    score
        Mean of (q - y)^2.
    calibration
        Squared calibration error: sum |B| (q_B - p_B)^2 / N.
    refinement
        What no recalibration can remove: sum |B| p_B (1 - p_B) / N.
    within_bins
        What is left because predictions differ inside a bin; 0 if they do not.
    """

    score: float
    calibration: float
    refinement: float
    within_bins: float


def brier_score(predicted: NDArray[np.float64], labels: NDArray[np.float64], curve: ReliabilityCurve) -> BrierScore:
    """Brier score of predictions and labels, shape (n_pairs,), parted by the bins of their reliability curve."""
    score = float(np.mean((predicted - labels) ** 2))
    calibration = calibration_error(curve) ** 2
    refinement = float(curve.n / predicted.size @ (curve.observed_share * (1 - curve.observed_share)))
    return BrierScore(score, calibration, refinement, score - calibration - refinement)
