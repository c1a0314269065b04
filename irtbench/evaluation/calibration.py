"""Calibration: whether events that are given the probability q happen with the frequency q.

The statistics of Nguyen & O'Connor (2015), Posterior calibration and exploratory analysis for natural language
processing models (EMNLP, doi:10.18653/v1/D15-1182), of one model and of the difference of two.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from irtbench.data.input_error import InputError
from irtbench.data.shown import Drawn, Figures
from irtbench.evaluation.paired_tests import batches
from irtbench.evaluation.proportion import check_level
from irtbench.evaluation.reliability import (
    ReliabilityCurve,
    adaptive_bins,
    calibration_error,
    check_clusters,
    check_pairs,
    debiased_squared_error,
    default_bin_size,
    equal_width_bins,
    reliability_curve,
    squared_error,
)


def error_interval(
    curve: ReliabilityCurve, *, n_samples: int = 10_000, level: float = 0.95, rng: np.random.Generator
) -> tuple[float, float]:
    """Interval of the calibration error: Algorithm 2, as printed.

    For each sample, ``p_B ~ N(p_B, p_B (1 - p_B) / |B|)``, clipped to [0, 1], gives an error by ``calibration_error``;
    the interval is their mean +- z sd. The observed gaps hold chance already and each sample adds as much again, so
    the interval lies above the truth, and misses it, unless the error is large compared with
    ``sqrt(p (1 - p) / |B|)``; a bin in which all labels are the same adds nothing. That is why there is
    ``debiased_squared_error``.

    Raises
    ------
    InputError
        If there are fewer than 2 samples or ``level`` does not lie between 0 and 1.

    Warns
    -----
    RuntimeWarning
        If in no bin the labels differ: nothing varies, and the interval is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> predicted = rng.random(400)
    >>> labels = (rng.random(400) < predicted**2).astype(float)
    >>> curve = irtbench.reliability_curve(predicted, labels, irtbench.adaptive_bins(predicted, 40))
    >>> lower, upper = irtbench.error_interval(curve, n_samples=1000, rng=rng)
    >>> lower < irtbench.calibration_error(curve) < upper
    True
    """
    z = check_level(level, where="calibration")
    if n_samples < 2:
        raise InputError(f"calibration: n_samples must be at least 2 but got {n_samples}")
    sd = np.sqrt(curve.observed_share * (1 - curve.observed_share) / curve.n)
    if not sd.any():
        warnings.warn(
            "calibration: the interval is undefined: in no bin do the labels differ", RuntimeWarning, stacklevel=3
        )
        return np.nan, np.nan
    noise = (sd * rng.standard_normal((size, sd.size)) for size in batches(n_samples, sd.size))
    gaps = (curve.mean_predicted - np.clip(curve.observed_share + each, 0, 1) for each in noise)
    errors = np.concatenate([np.sqrt(gap**2 @ curve.n / curve.n.sum()) for gap in gaps])
    return float(errors.mean() - z * errors.std(ddof=1)), float(errors.mean() + z * errors.std(ddof=1))


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


@dataclass(frozen=True, eq=False)
class Calibration(Drawn, short="{n_pairs} predictions, error {error:.3f} [{lower:.3f}, {upper:.3f}]"):
    """How well stated probabilities agree with what happened.

    Parameters
    ----------
    n_pairs, bin_size, n_bins
        Predictions, the size of bin asked for, and the bins there are.
    error, lower, upper
        Calibration error (Algorithm 1) and its interval (Algorithm 2), see ``calibration_error`` and
        ``error_interval``.
    debiased_error, debiased_lower, debiased_upper
        The error without what chance adds to it, and its interval, which unlike that of Algorithm 2 keeps its level;
        see ``debiased_squared_error``. Roots of the squared figures, 0 where these are negative.
    debiased_squared_error
        The squared error without what chance adds to it; negative where chance alone explains it.
    equal_width_error
        The error with bins of equal width instead of equal size.
    brier
        Mean of (q - y)^2. It is calibration + refinement + within_bins.
    calibration
        Squared calibration error: ``sum |B| (q_B - p_B)^2 / N``.
    refinement
        What no recalibration can remove: ``sum |B| p_B (1 - p_B) / N``.
    within_bins
        What is left because predictions differ inside a bin; 0 if they do not, and then Brier = calibration +
        refinement.
    overconfident, underconfident
        Shares of the predictions that lie in overconfident and underconfident bins (``ReliabilityCurve``).
    clearly_overconfident, clearly_underconfident
        The same, of bins alone whose interval excludes their mean prediction.
    level
        Nominal coverage of the intervals.
    curve
        The bins.
    """

    n_pairs: int
    bin_size: int
    n_bins: int
    error: float
    lower: float
    upper: float
    debiased_error: float
    debiased_lower: float
    debiased_upper: float
    debiased_squared_error: float
    equal_width_error: float
    brier: float
    calibration: float
    refinement: float
    within_bins: float
    overconfident: float
    underconfident: float
    clearly_overconfident: float
    clearly_underconfident: float
    level: float
    curve: ReliabilityCurve

    def table(self) -> pd.DataFrame:
        """One row a bin, columns of reliability.csv."""
        return self.curve.table()


def calibration(
    predicted: ArrayLike,
    labels: ArrayLike,
    *,
    bin_size: int | None = None,
    n_width_bins: int = 10,
    clusters: ArrayLike | None = None,
    n_samples: int = 10_000,
    level: float = 0.95,
    rng: np.random.Generator,
) -> Calibration:
    """Calibration error with its interval, the Brier score's parts, and the reliability curve.

    Parameters
    ----------
    predicted
        Stated probabilities q of the label 1, shape (n_pairs,).
    labels
        What happened, 1 or 0, shape (n_pairs,).
    bin_size
        Size of the bins; None for the paper's 5,000 or a tenth of the pairs, whichever is less.
    n_width_bins
        Number of bins of equal width, for ``equal_width_error``.
    clusters
        The item each pair belongs to, shape (n_pairs,), where an item has several (its classes, its links); None if
        each pair is an item. The debiased error and its interval allow for it, the paper's algorithms do not.
    n_samples
        Samples of Algorithm 2.
    level
        Nominal coverage of the intervals.
    rng
        Draws the samples of Algorithm 2.

    Raises
    ------
    InputError
        If the lengths differ, there is no pair, a probability lies outside [0, 1], a label is neither 1 nor 0, or a
        setting is out of range.

    Warns
    -----
    RuntimeWarning
        If there are fewer pairs than a bin is to hold (the error is then that of the mean alone); if all labels are
        the same, when Algorithm 2 has nothing to vary and the interval is NaN; if a bin holds a single pair, when the
        debiased error is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> predicted = rng.random(400)
    >>> labels = (rng.random(400) < predicted**2).astype(float)
    >>> found = irtbench.calibration(predicted, labels, rng=rng, n_samples=1000)
    >>> found
    <Calibration: 400 predictions, error 0.185 [0.157, 0.230]>
    >>> found.table()[["bin", "n", "mean_predicted", "observed_share"]].round(2).head(3)
       bin   n  mean_predicted  observed_share
    0    1  40            0.05            0.00
    1    2  40            0.15            0.02
    2    3  40            0.24            0.05
    """
    q, y = check_pairs(predicted, labels)
    size = default_bin_size(q.size) if bin_size is None else bin_size
    if q.size < size:
        warnings.warn(
            f"calibration: {q.size} pairs are fewer than a bin of {size}; the error is that of the mean alone",
            RuntimeWarning,
            stacklevel=2,
        )
    item = check_clusters(clusters, q.size)
    order = np.lexsort((y, q))  # so that sums, too, are the same whatever the order of rows
    q, y, item = q[order], y[order], pd.factorize(item[order])[0]
    bins = adaptive_bins(q, size)
    curve = reliability_curve(q, y, bins, level=level)
    error = calibration_error(curve)
    debiased = debiased_squared_error(q, y, bins, clusters=item)
    z = check_level(level, where="calibration")
    bounds = debiased.squared + z * debiased.standard_error * np.array([0, -1, 1])
    lower, upper = error_interval(curve, n_samples=n_samples, level=level, rng=rng)
    share = curve.n / q.size
    brier = brier_score(q, y, curve)
    over, clear = curve.overconfidence, curve.beyond_chance
    return Calibration(
        n_pairs=q.size,
        bin_size=size,
        n_bins=curve.n.size,
        error=error,
        lower=lower,
        upper=upper,
        debiased_error=float(np.sqrt(np.maximum(bounds[0], 0))),
        debiased_lower=float(np.sqrt(np.maximum(bounds[1], 0))),
        debiased_upper=float(np.sqrt(np.maximum(bounds[2], 0))),
        debiased_squared_error=debiased.squared,
        equal_width_error=calibration_error(reliability_curve(q, y, equal_width_bins(q, n_width_bins), level=level)),
        brier=brier.score,
        calibration=brier.calibration,
        refinement=brier.refinement,
        within_bins=brier.within_bins,
        overconfident=float(share @ (over == 1)),
        underconfident=float(share @ (over == -1)),
        clearly_overconfident=float(share @ (clear & (over == 1))),
        clearly_underconfident=float(share @ (clear & (over == -1))),
        level=level,
        curve=curve,
    )


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
    found = squared_error([q_1 - y, q_2 - y], bins, item, y, signs=(1, -1))
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
