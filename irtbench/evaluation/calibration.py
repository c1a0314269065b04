"""Calibration: whether events that are given the probability q happen with the frequency q.

The statistics of Nguyen & O'Connor (2015), Posterior calibration and exploratory analysis for natural language
processing models (EMNLP, doi:10.18653/v1/D15-1182). They know nothing of what made the probabilities.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.special import ndtr

from irtbench.data.input_error import InputError
from irtbench.evaluation.proportion import check_level, wilson_interval

#: The bin size of the paper, and the number of bins below which smaller ones are taken unless the user says otherwise.
PAPER_BIN_SIZE, FEWEST_BINS = 5_000, 10


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Stated against observed frequency, a point a bin; all arrays have shape (n_bins,), in order of prediction.

    Parameters
    ----------
    n
        Pairs in the bin.
    mean_predicted
        Mean of the stated probabilities q.
    observed_share
        Share p of the pairs whose label is 1.
    lower, upper
        Wilson's interval of the frequency behind the observed share.
    level
        Probability that each interval is to hold.
    """

    n: NDArray[np.int64]
    mean_predicted: NDArray[np.float64]
    observed_share: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    level: float

    @property
    def overconfidence(self) -> NDArray[np.int64]:
        """1 where predictions are further from .5 than they should be, -1 where they are not far enough, else 0.

        A bin that says .8 is overconfident if the event happens less often than that, one that says .2 if it happens
        more often.
        """
        gap = self.mean_predicted - self.observed_share
        return np.sign(gap * (self.mean_predicted - 0.5)).astype(np.int64)

    @property
    def beyond_chance(self) -> NDArray[np.bool_]:
        """Whether the bin's interval excludes its mean prediction."""
        return (self.mean_predicted < self.lower) | (self.mean_predicted > self.upper)

    def table(self) -> pd.DataFrame:
        """One row a bin."""
        return pd.DataFrame(
            {
                "bin": np.arange(1, self.n.size + 1),
                "n": self.n,
                "mean_predicted": self.mean_predicted,
                "observed_share": self.observed_share,
                "lower": self.lower,
                "upper": self.upper,
                "overconfidence": self.overconfidence,
                "beyond_chance": self.beyond_chance,
            }
        )


@dataclass(frozen=True, eq=False)
class Calibration:
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
        Squared calibration error: sum |B| (q_B - p_B)^2 / N.
    refinement
        What no recalibration can remove: sum |B| p_B (1 - p_B) / N.
    within_bins
        What is left because predictions differ inside a bin; 0 if they do not, and then Brier = calibration +
        refinement.
    overconfident, underconfident
        Shares of the predictions that lie in overconfident and underconfident bins (``ReliabilityCurve``).
    clearly_overconfident, clearly_underconfident
        The same, of bins alone whose interval excludes their mean prediction.
    level
        Probability that the intervals are to hold.
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


@dataclass(frozen=True)
class DebiasedError:
    """Squared calibration error without what chance adds to it, and its standard error."""

    squared: float
    standard_error: float


@dataclass(frozen=True)
class CalibrationDifference:
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
        Probability that the interval is to hold.
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
        Probability that the intervals are to hold.
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
    """
    q, y = check_pairs(predicted, labels)
    size = default_bin_size(q.size) if bin_size is None else bin_size
    if q.size < size:
        warnings.warn(
            f"calibration: {q.size} pairs are fewer than a bin of {size}; the error is that of the mean alone",
            RuntimeWarning,
            stacklevel=2,
        )
    item = _check_clusters(clusters, q.size)
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
    brier = float(np.mean((q - y) ** 2))
    refinement = float(share @ (curve.observed_share * (1 - curve.observed_share)))
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
        brier=brier,
        calibration=error**2,
        refinement=refinement,
        within_bins=brier - error**2 - refinement,
        overconfident=float(share @ (over == 1)),
        underconfident=float(share @ (over == -1)),
        clearly_overconfident=float(share @ (clear & (over == 1))),
        clearly_underconfident=float(share @ (clear & (over == -1))),
        level=level,
        curve=curve,
    )


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
    """
    q_1, y = check_pairs(predicted_1, labels)
    q_2, _ = check_pairs(predicted_2, labels)
    z = check_level(level, where="calibration")
    item = _check_clusters(clusters, y.size)
    size = default_bin_size(y.size) if bin_size is None else bin_size
    bins = [adaptive_bins(q, size) for q in (q_1, q_2)]
    error_1, error_2 = (
        calibration_error(reliability_curve(q, y, b, level=level)) for q, b in zip((q_1, q_2), bins, strict=True)
    )
    found = _squared_error([q_1 - y, q_2 - y], bins, item, signs=(1, -1))
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


def concatenate_classes(
    probabilities: ArrayLike, labels: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Turn predictions of several classes into pairs: each class of each item is one, with the label 1 if it is right.

    Parameters
    ----------
    probabilities
        Shape (n_items, n_classes), each row of sum 1.
    labels
        Position of the right class of each item, shape (n_items,).

    Returns
    -------
    predicted, labels, clusters
        Shape (n_items * n_classes,) each; the last is the item a pair belongs to.

    Raises
    ------
    InputError
        If the shapes do not agree, a row does not sum to 1 (within .001), or a label is no class.
    """
    q, right = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    if q.ndim != 2 or right.shape != q.shape[:1]:
        raise InputError(f"calibration: probabilities of shape {q.shape} do not fit labels of shape {right.shape}")
    wrong = ~np.isin(right, np.arange(q.shape[1]))
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(
            f"calibration: item {first + 1}: expected a class from 0 to {q.shape[1] - 1}, got {right[first]}"
        )
    astray = ~(np.abs(q.sum(axis=1) - 1) <= 1e-3)
    if astray.any():
        first = int(astray.argmax())
        raise InputError(
            f"calibration: item {first + 1}: probabilities of all classes must sum to 1 but sum to {q[first].sum():g}"
        )
    is_right = right[:, None] == np.arange(q.shape[1])
    return q.ravel(), is_right.ravel().astype(np.float64), np.repeat(np.arange(len(q)), q.shape[1])


def adaptive_bins(predicted: NDArray[np.float64], bin_size: int) -> NDArray[np.int64]:
    """The bin of each pair, from 0 in order of prediction: steps 1 to 3 of Algorithm 1, shape (n_pairs,).

    Sorted pairs are cut after every ``bin_size``; a last bin that is smaller joins the one before it. Equal
    predictions are never parted, since which of them came first is no property of the data: a bin closes after the
    last pair that equals its ``bin_size``-th.

    Raises
    ------
    InputError
        If ``bin_size`` is below 1.
    """
    if bin_size < 1:
        raise InputError(f"calibration: bin_size must be at least 1 but got {bin_size}")
    _, distinct, counts = np.unique(predicted, return_inverse=True, return_counts=True)
    reached = np.cumsum(counts)
    bin_of_distinct = np.zeros(counts.size, dtype=np.int64)
    n_bins, start, below = 0, 0, 0
    while start < counts.size:
        stop = int(np.searchsorted(reached, below + bin_size)) + 1
        if stop > counts.size and n_bins > 0:  # what is left does not fill a bin
            n_bins -= 1
        bin_of_distinct[start:stop] = n_bins
        n_bins, start, below = n_bins + 1, stop, int(reached[min(stop, counts.size) - 1])
    return bin_of_distinct[distinct]


def equal_width_bins(predicted: NDArray[np.float64], n_bins: int) -> NDArray[np.int64]:
    """The bin of each pair if [0, 1] is cut into ``n_bins`` equal parts; parts without a pair are not counted.

    Raises
    ------
    InputError
        If ``n_bins`` is below 1.
    """
    if n_bins < 1:
        raise InputError(f"calibration: n_width_bins must be at least 1 but got {n_bins}")
    part = np.minimum((predicted * n_bins).astype(np.int64), n_bins - 1)
    return np.unique(part, return_inverse=True)[1]


def reliability_curve(
    predicted: NDArray[np.float64], labels: NDArray[np.float64], bins: NDArray[np.int64], *, level: float = 0.95
) -> ReliabilityCurve:
    """Stated and observed frequency in each bin: step 4 of Algorithm 1.

    Parameters
    ----------
    predicted, labels
        Probabilities and labels, shape (n_pairs,).
    bins
        The bin of each pair, each from 0 to the last holding at least one (``adaptive_bins``, ``equal_width_bins``).
    level
        Probability that the interval of each observed share is to hold.
    """
    n = np.bincount(bins)
    successes = np.bincount(bins, labels)
    lower, upper = wilson_interval(successes, n, level=level)
    return ReliabilityCurve(
        n=n,
        mean_predicted=np.bincount(bins, predicted) / n,
        observed_share=successes / n,
        lower=lower,
        upper=upper,
        level=level,
    )


def calibration_error(curve: ReliabilityCurve) -> float:
    """Root mean squared gap between stated and observed frequency: step 5 of Algorithm 1.

    error = sqrt(sum_B |B| (q_B - p_B)^2 / N)
    """
    gap = curve.mean_predicted - curve.observed_share
    return float(np.sqrt(curve.n @ gap**2 / curve.n.sum()))


def error_interval(
    curve: ReliabilityCurve, *, n_samples: int = 10_000, level: float = 0.95, rng: np.random.Generator
) -> tuple[float, float]:
    """Interval of the calibration error: Algorithm 2, as printed.

    For each sample, p_B ~ N(p_B, p_B (1 - p_B) / |B|), clipped to [0, 1], gives an error by ``calibration_error``;
    the interval is their mean +- z sd. The observed gaps hold chance already and each sample adds as much again, so
    the interval lies above the truth, and misses it, unless the error is large beside sqrt(p (1 - p) / |B|); a bin in
    which all labels are the same adds nothing. ``debiased_squared_error`` stands beside it for that reason.

    Raises
    ------
    InputError
        If there are fewer than 2 samples or ``level`` does not lie between 0 and 1.

    Warns
    -----
    RuntimeWarning
        If in no bin the labels differ: nothing varies, and the interval is NaN.
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
    errors = np.empty(n_samples)
    batch = max(1, 2_000_000 // sd.size)
    for start in range(0, n_samples, batch):
        part = errors[start : start + batch]
        drawn = np.clip(curve.observed_share + sd * rng.standard_normal((part.size, sd.size)), 0, 1)
        part[:] = np.sqrt((curve.mean_predicted - drawn) ** 2 @ curve.n / curve.n.sum())
    return float(errors.mean() - z * errors.std(ddof=1)), float(errors.mean() + z * errors.std(ddof=1))


def debiased_squared_error(
    predicted: NDArray[np.float64],
    labels: NDArray[np.float64],
    bins: NDArray[np.int64],
    *,
    clusters: NDArray[np.int64] | None = None,
) -> DebiasedError:
    """Squared calibration error without what chance adds to it, and its standard error.

    sum_B w_B (D_B^2 - S_BB),  with w_B = |B| / N, D_B the mean of q - y in the bin, and S the sampling covariance of
    these means: the mean of D_B^2 is the square of D_B's expectation plus S_BB. Negative values mean that chance alone
    explains the error. With W the diagonal matrix of w and D near normal, the variance of D'WD is
    4 E(D)'WSW E(D) + 2 tr(WSWS), where E(D)'WSW E(D) is estimated by D'WSWD - tr(WSWS).

    The idea is that of Broecker (2012, doi:10.1007/s00382-011-1191-1) and Kumar, Liang & Ma (2019, NeurIPS), who take
    p (1 - p) for the variance of q - y, which is too much where predictions differ inside a bin.

    Parameters
    ----------
    predicted, labels, bins
        As for ``reliability_curve``.
    clusters
        Number from 0 of the item each pair belongs to; items are independent, pairs of one item need not be. None if
        each pair is an item.

    Warns
    -----
    RuntimeWarning
        If there is one item only, or a bin holds a single pair: the result is NaN.
    """
    item = np.arange(predicted.size) if clusters is None else clusters
    return _squared_error([predicted - labels], [bins], item, signs=(1,))


def default_bin_size(n_pairs: int) -> int:
    """The paper's 5,000, or a tenth of the pairs where that is less."""
    return max(1, min(PAPER_BIN_SIZE, n_pairs // FEWEST_BINS))


def check_pairs(predicted: ArrayLike, labels: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probabilities and labels as arrays of one shape (n_pairs,).

    Raises
    ------
    InputError
        If the lengths differ, there is no pair, a probability lies outside [0, 1], or a label is neither 1 nor 0.
    """
    q, y = np.asarray(predicted, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if q.ndim != 1 or q.shape != y.shape:
        raise InputError(f"calibration: probabilities of shape {q.shape} do not fit labels of shape {y.shape}")
    if q.size == 0:
        raise InputError("calibration: expected at least one pair of probability and label but there is none")
    outside = ~((q >= 0) & (q <= 1))
    if outside.any():
        first = int(outside.argmax())
        raise InputError(f"calibration: pair {first + 1}: expected a probability in [0, 1] but got {q[first]:g}")
    wrong = ~((y == 0) | (y == 1))
    if wrong.any():
        first = int(wrong.argmax())
        raise InputError(f"calibration: pair {first + 1}: expected the label 1 or 0 but got {y[first]:g}")
    return q, y


def _check_clusters(clusters: ArrayLike | None, n_pairs: int) -> NDArray[np.int64]:
    """Number from 0 of the item each pair belongs to."""
    if clusters is None:
        return np.arange(n_pairs)
    item: NDArray[np.int64] = pd.factorize(np.asarray(clusters), sort=True)[0]
    if item.shape != (n_pairs,):
        raise InputError(f"calibration: {item.size} clusters for {n_pairs} pairs; expected one each")
    return item


def _squared_error(
    gaps: Sequence[NDArray[np.float64]],
    bins: Sequence[NDArray[np.int64]],
    item: NDArray[np.int64],
    *,
    signs: Sequence[int],
) -> DebiasedError:
    """Debiased squared errors of models with these gaps q - y, added with these signs."""
    counts = [np.bincount(b) for b in bins]
    n = np.concatenate(counts)
    if n.min() < 2 or item.max() == 0:
        reason = "there is one item only" if item.max() == 0 else "a bin holds a single pair"
        warnings.warn(f"calibration: the debiased error is undefined: {reason}", RuntimeWarning, stacklevel=4)
        return DebiasedError(np.nan, np.nan)
    means = [np.bincount(b, gap) / count for gap, b, count in zip(gaps, bins, counts, strict=True)]
    first = np.cumsum([0, *(count.size for count in counts)])
    columns = np.concatenate([b + start for b, start in zip(bins, first, strict=False)])
    centred = np.concatenate([gap - mean[b] for gap, mean, b in zip(gaps, means, bins, strict=True)])
    # what each item adds to each mean: the covariance of the means is the sum over items of its products
    parts = coo_array((centred / np.sqrt(n * (n - 1))[columns], (np.tile(item, len(gaps)), columns))).tocsr()
    covariance = (parts.T @ parts).tocsr()
    mean = np.concatenate(means)
    weight = np.concatenate([sign * count / count.sum() for sign, count in zip(signs, counts, strict=True)])
    chance = float(weight @ (covariance.multiply(covariance) @ weight))
    slope = float((weight * mean) @ (covariance @ (weight * mean)))
    variance = 4 * max(slope - chance, 0) + 2 * max(chance, 0)
    each = np.split(weight * (mean**2 - covariance.diagonal()), first[1:-1])
    return DebiasedError(float(sum(part.sum() for part in each)), float(np.sqrt(variance)))
