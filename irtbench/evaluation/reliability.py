"""Stated against observed frequency, bin by bin: Algorithm 1 of Nguyen & O'Connor (2015)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.shown import Drawn
from irtbench.evaluation.proportion import wilson_interval

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
