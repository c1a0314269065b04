"""Squared calibration error without what chance adds to it, with a standard error that allows for clusters."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from irtbench.data.shown import Figures


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
    estimated by D'WSWD - tr(WSWS).

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
    <DebiasedError: squared 0.03067, standard_error 0.006892>
    """
    item = np.arange(predicted.size) if clusters is None else clusters
    return squared_error([predicted - labels], [bins], item, signs=(1,))


def squared_error(
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
