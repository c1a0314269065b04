"""Paired difference of the calibration of two models on the same items."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike
from scipy.special import ndtr

from irtbench.data.shown import Figures
from irtbench.evaluation.debiased_error import squared_error
from irtbench.evaluation.probability_pairs import check_clusters, check_pairs
from irtbench.evaluation.proportion import check_level
from irtbench.evaluation.reliability import adaptive_bins, calibration_error, default_bin_size, reliability_curve


@dataclass(frozen=True)
class CalibrationDifference(Figures):
    """Calibration of two models on the same items, the first minus the second.

    Parameters
    ----------
    n_items, n_pairs
        Independent units, and predictions of each model.
    error_1, error_2
        Calibration error of each (Algorithm 1).
    difference, lower, upper
        Difference of the squared errors, both debiased, with its interval: how much more of its Brier score the first
        model owes to miscalibration. Below 0 the first is the better calibrated.
    p
        Two-sided p of no difference.
    level
        Nominal coverage of the interval.
    """

    n_items: int
    n_pairs: int
    error_1: float
    error_2: float
    difference: float
    lower: float
    upper: float
    p: float
    level: float


def calibration_difference(
    predicted_1: ArrayLike,
    predicted_2: ArrayLike,
    labels: ArrayLike,
    *,
    bin_size: int | None = None,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
) -> CalibrationDifference:
    """Paired difference of the calibration of two models on the same items.

    The difference is that of the squared errors, each debiased: errors as Algorithm 1 has them differ by chance alone
    where one model is better calibrated, since chance adds more to the smaller. Its variance allows for what the
    models have in common, see ``debiased_squared_error``.

    Parameters
    ----------
    predicted_1, predicted_2
        Stated probabilities of each model, shape (n_pairs,).
    labels
        What happened, 1 or 0, shape (n_pairs,).
    bin_size, clusters, level
        As for ``calibration``.

    Raises
    ------
    InputError
        As for ``calibration``, or if the lengths differ.

    Warns
    -----
    RuntimeWarning
        If there is one item only, or a bin with one pair: difference and interval are NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> predicted = rng.random(400)
    >>> labels = (rng.random(400) < predicted**2).astype(float)
    >>> found = irtbench.calibration_difference(predicted, predicted**2, labels)
    >>> found.difference > 0, found.p < 0.05
    (True, True)
    """
    q_1, y = check_pairs(predicted_1, labels)
    q_2, _ = check_pairs(predicted_2, labels)
    z = check_level(level, where="calibration")
    item = check_clusters(clusters, y.size)
    size = default_bin_size(y.size) if bin_size is None else bin_size
    bins = [adaptive_bins(q, size) for q in (q_1, q_2)]
    error_1, error_2 = (
        calibration_error(reliability_curve(q, y, b, level=level)) for q, b in zip((q_1, q_2), bins, strict=True)
    )
    found = squared_error([q_1 - y, q_2 - y], bins, item, signs=(1, -1))
    difference, sd = found.squared, found.standard_error
    return CalibrationDifference(
        n_items=int(item.max()) + 1,
        n_pairs=y.size,
        error_1=error_1,
        error_2=error_2,
        difference=difference,
        lower=difference - z * sd,
        upper=difference + z * sd,
        # two models that say the same differ by nothing, with certainty
        p=1.0 if difference == 0 else float(2 * ndtr(-abs(difference) / sd)),
        level=level,
    )
