"""The Brier score and what it is made of: miscalibration, refinement, and what the bins hide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from irtbench.data.shown import Figures
from irtbench.evaluation.reliability import ReliabilityCurve, calibration_error


@dataclass(frozen=True)
class BrierScore(Figures):
    """Mean of (q - y)^2, and its parts, which sum to it (Murphy, 1973; DeGroot & Fienberg, 1983).

    Parameters
    ----------
    score
        Mean of (q - y)^2.
    calibration
        Squared calibration error: ``sum |B| (q_B - p_B)^2 / N``.
    refinement
        What no recalibration can remove: ``sum |B| p_B (1 - p_B) / N``.
    within_bins
        What is left because predictions differ inside a bin; 0 if they do not.
    """

    score: float
    calibration: float
    refinement: float
    within_bins: float


def brier_score(predicted: NDArray[np.float64], labels: NDArray[np.float64], curve: ReliabilityCurve) -> BrierScore:
    """Brier score of predictions and labels, shape (n_pairs,), parted by the bins of their reliability curve.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> predicted = rng.random(400)
    >>> labels = (rng.random(400) < predicted**2).astype(float)
    >>> curve = irtbench.reliability_curve(predicted, labels, irtbench.adaptive_bins(predicted, 40))
    >>> irtbench.brier_score(predicted, labels, curve)
    <BrierScore: score 0.1713, calibration 0.03419, refinement 0.1384, within_bins -0.001277>
    """
    score = float(np.mean((predicted - labels) ** 2))
    calibration = calibration_error(curve) ** 2
    refinement = float(curve.n / predicted.size @ (curve.observed_share * (1 - curve.observed_share)))
    return BrierScore(score, calibration, refinement, score - calibration - refinement)
