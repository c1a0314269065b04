"""Stated against observed frequency, bin by bin (Algorithm 1 of Nguyen & O'Connor, 2015), and errors of calibration."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, diags_array

from irtbench.data.input_error import InputError, refuse_any, refuse_first
from irtbench.data.shown import Drawn, Figures
from irtbench.evaluation.proportion import wilson_interval


def check_pairs(predicted: ArrayLike, labels: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probabilities and labels as arrays of one shape (n_pairs,)."""
    q, y = np.asarray(predicted, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    refuse_any((
        (q.ndim != 1 or q.shape != y.shape,
         f"calibration: probabilities of shape {q.shape} do not fit labels of shape {y.shape}"),
        (q.size == 0, "calibration: expected at least one pair of probability and label but there is none"),
    ))  # fmt: skip
    refuse_first(
        ~((q >= 0) & (q <= 1)),
        lambda k: f"calibration: pair {k + 1}: expected a probability in [0, 1] but got {q[k]:g}",
    )
    refuse_first(
        ~((y == 0) | (y == 1)), lambda k: f"calibration: pair {k + 1}: expected the label 1 or 0 but got {y[k]:g}"
    )
    return q, y


def check_clusters(clusters: ArrayLike | None, n_pairs: int) -> NDArray[np.int64]:
    """Number from 0 of the item each pair belongs to, shape (n_pairs,); each pair is an item if there are none."""
    if clusters is None:
        return np.arange(n_pairs)
    item: NDArray[np.int64] = pd.factorize(np.asarray(clusters), sort=True)[0]
    if item.shape != (n_pairs,):
        raise InputError(f"calibration: {item.size} clusters for {n_pairs} pairs; expected one each")
    return item


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

    Examples
    --------
    >>> import irtbench
    >>> predicted, labels, item = irtbench.concatenate_classes([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]], [0, 2])
    >>> predicted, labels, item
    (array([0.7, 0.2, 0.1, 0.3, 0.3, 0.4]), array([1., 0., 0., 0., 0., 1.]), array([0, 0, 0, 1, 1, 1]))
    """
    q, right = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    if q.ndim != 2 or right.shape != q.shape[:1]:
        raise InputError(f"calibration: probabilities of shape {q.shape} do not fit labels of shape {right.shape}")
    total = q.sum(axis=1)
    refuse_first(
        ~np.isin(right, np.arange(q.shape[1])),
        lambda k: f"calibration: item {k + 1}: expected a class from 0 to {q.shape[1] - 1}, got {right[k]}",
    )
    refuse_first(
        ~(np.abs(total - 1) <= 1e-3),
        lambda k: f"calibration: item {k + 1}: probabilities of all classes must sum to 1 but sum to {total[k]:g}",
    )
    is_right = right[:, None] == np.arange(q.shape[1])
    return q.ravel(), is_right.ravel().astype(np.float64), np.repeat(np.arange(len(q)), q.shape[1])


#: The bin size of the paper, and the number of bins below which smaller ones are taken unless the user says otherwise.
PAPER_BIN_SIZE, FEWEST_BINS = 5_000, 10


@dataclass(frozen=True, eq=False)
class ReliabilityCurve(
    Drawn,
    columns="bin, n, mean_predicted, observed_share, lower, upper, overconfidence, beyond_chance",
):
    """Stated against observed frequency, a point a bin; all arrays have shape (n_bins,), in order of prediction.

    Its table has one row a bin.

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
        Nominal coverage of each interval.
    """

    n: NDArray[np.int64]
    mean_predicted: NDArray[np.float64]
    observed_share: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    level: float

    @property
    def bin(self) -> NDArray[np.int64]:
        """Number of the bin, from 1."""
        return np.arange(1, self.n.size + 1)

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


def default_bin_size(n_pairs: int) -> int:
    """The paper's 5,000, or a tenth of the pairs where that is less."""
    return max(1, min(PAPER_BIN_SIZE, n_pairs // FEWEST_BINS))


def adaptive_bins(predicted: NDArray[np.float64], bin_size: int) -> NDArray[np.int64]:
    """The bin of each pair, from 0 in order of prediction: steps 1 to 3 of Algorithm 1, shape (n_pairs,).

    Sorted pairs are cut after every ``bin_size``; a last bin that is smaller joins the one before it. Equal
    predictions are never parted, since which of them came first is no property of the data: a bin closes after the
    last pair that equals its ``bin_size``-th.

    Raises
    ------
    InputError
        If ``bin_size`` is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> irtbench.adaptive_bins(np.array([0.1, 0.9, 0.3, 0.3, 0.7]), 2)
    array([0, 1, 0, 0, 1])
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

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> irtbench.equal_width_bins(np.array([0.1, 0.9, 0.3, 0.3, 0.7]), 2)
    array([0, 1, 0, 0, 1])
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
        Nominal coverage of the interval of each observed share.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> predicted = rng.random(400)
    >>> labels = (rng.random(400) < predicted**2).astype(float)
    >>> curve = irtbench.reliability_curve(predicted, labels, irtbench.adaptive_bins(predicted, 100))
    >>> curve.table()[["bin", "n", "mean_predicted", "observed_share", "lower", "upper"]].round(2)
       bin    n  mean_predicted  observed_share  lower  upper
    0    1  100            0.12            0.02   0.01   0.07
    1    2  100            0.36            0.11   0.06   0.19
    2    3  100            0.60            0.45   0.36   0.55
    3    4  100            0.86            0.67   0.57   0.75
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

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> bins = np.array([0, 0, 1, 1])
    >>> curve = irtbench.reliability_curve(np.array([0.1, 0.3, 0.8, 1.0]), np.array([0.0, 0.0, 1.0, 1.0]), bins)
    >>> round(irtbench.calibration_error(curve), 3)
    0.158
    """
    gap = curve.mean_predicted - curve.observed_share
    return float(np.sqrt(curve.n @ gap**2 / curve.n.sum()))


@dataclass(frozen=True)
class DebiasedError(Figures):
    """Squared calibration error without what chance adds to it, and its standard error."""

    squared: float
    standard_error: float


def debiased_squared_error(
    predicted: NDArray[np.float64],
    labels: NDArray[np.float64],
    bins: NDArray[np.int64],
    *,
    clusters: NDArray[np.int64] | None = None,
) -> DebiasedError:
    """Squared calibration error without what chance adds to it, and its standard error.

        sum_B w_B (D_B^2 - S_BB),  w_B = |B| / N

    with D_B the mean of q - y in the bin, and S the sampling covariance of these means: the mean of D_B^2 is the square
    of D_B's expectation plus S_BB. Negative values mean that chance alone explains the error. With W the diagonal
    matrix of w and D near normal, the variance of D'WD is 4 E(D)'WSW E(D) + 2 tr(WSWS), where E(D)'WSW E(D) is
    estimated by D'WSWD - tr(WSWS). In it, where all labels of a bin are the same, S_BB is at least
    sum_B q (1 - q) / |B|^2, its value if the predictions hold: these labels show nothing of chance.

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

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> predicted = rng.random(400)
    >>> labels = (rng.random(400) < predicted**2).astype(float)
    >>> irtbench.debiased_squared_error(predicted, labels, irtbench.adaptive_bins(predicted, 40))
    <DebiasedError: squared 0.03067, standard_error 0.006898>
    """
    item = np.arange(predicted.size) if clusters is None else clusters
    return squared_error([predicted - labels], [bins], item, labels, signs=(1,))


def squared_error(
    gaps: Sequence[NDArray[np.float64]],
    bins: Sequence[NDArray[np.int64]],
    item: NDArray[np.int64],
    labels: NDArray[np.float64],
    *,
    signs: Sequence[int],
) -> DebiasedError:
    """Debiased squared errors of models with these gaps q - y of labels y, added with these signs."""
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
    own = covariance.diagonal()
    stated = [np.bincount(b, (gap + labels) * (1 - gap - labels)) for gap, b in zip(gaps, bins, strict=True)]
    right = np.concatenate([np.bincount(b, labels) for b in bins])
    silent = (right == 0) | (right == n)
    covariance += diags_array(np.where(silent, np.maximum(np.concatenate(stated) / n**2 - own, 0.0), 0.0))
    mean = np.concatenate(means)
    weight = np.concatenate([sign * count / count.sum() for sign, count in zip(signs, counts, strict=True)])
    chance = float(weight @ (covariance.multiply(covariance) @ weight))
    slope = float((weight * mean) @ (covariance @ (weight * mean)))
    variance = 4 * max(slope - chance, 0) + 2 * max(chance, 0)
    each = np.split(weight * (mean**2 - own), first[1:-1])
    return DebiasedError(float(sum(part.sum() for part in each)), float(np.sqrt(variance)))
