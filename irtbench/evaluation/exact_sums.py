"""Random sums of whole numbers, exactly: what the bootstrap and the permutation test sample from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import brentq
from scipy.special import gammaln

NEGLIGIBLE = 1e-100  # a value this rare is never drawn; its weight would not fit a floating point number


@dataclass(frozen=True, eq=False)
class SumDistribution:
    """Distribution of a random sum of whole numbers.

    Parameters
    ----------
    values
        Consecutive whole numbers, smallest first.
    probability
        The chance of each, the same shape.
    """

    values: NDArray[np.int64]
    probability: NDArray[np.float64]


def drawn_sum(values: NDArray[np.int64], share: NDArray[np.float64], n: int) -> SumDistribution:
    """Distribution of the sum of n independent draws.

    The probabilities of a sum are the n-fold convolution of those of one draw, which the Fourier transform turns into
    an n-th power. Their error is about 1e-16 n, whatever their size.

    Parameters
    ----------
    values, share
        What one draw gives, and the chance of each; shares add up to 1.
    n
        Number of draws, at least 1.
    """
    low, high = int(values.min()), int(values.max())
    one = np.zeros(high - low + 1)
    np.add.at(one, values - low, share)
    size = n * (high - low) + 1
    length = next_fast_len(size, real=True)
    probability = irfft(rfft(one, length) ** n, length)[:size]
    return SumDistribution(np.arange(size) + n * low, np.maximum(probability, 0.0))


def chance_at_most_zero(values: NDArray[np.int64], share: NDArray[np.float64], n: int) -> float:
    """P(sum of n draws <= 0), to nine digits or more even where it is tiny.

    With the exponentially tilted draw  share'(v) = share(v) e^(t v) / M,  M = sum_v share(v) e^(t v),
    P(S = s) = M^n e^(-t s) P'(S = s). The t at which the tilted draw has mean 0 moves the sums up to 0 from the far
    tail, where the convolution loses its digits, to the middle, where it keeps them.

    Parameters as for ``drawn_sum``.

    Examples
    --------
    >>> chance_at_most_zero(np.array([0, 1]), np.array([0.98, 0.02]), 100)  # no draw of 1: .98^100
    0.1326195558...
    """
    values, share = values[share > NEGLIGIBLE], share[share > NEGLIGIBLE]
    if values.min() >= 0:
        return float(share[values == 0].sum() ** n)
    tilt = 0.0
    if values @ share > 0:
        # there, share(v) v e^(t v) of the positive values adds up to less than the least negative one has
        furthest = np.log(np.abs(values).max() / share.min()) + 1
        tilt = float(brentq(lambda t: values * share @ np.exp(t * values), -furthest, 0.0))
    tilted = share * np.exp(tilt * values)
    total = tilted.sum()
    sums = drawn_sum(values, tilted / total, n)
    below = sums.values <= 0
    chance = sums.probability[below] @ np.exp(n * np.log(total) - tilt * sums.values[below])
    return float(min(chance, 1.0))


def flipped_sum(values: NDArray[np.int64]) -> SumDistribution:
    """Distribution of sum_i s_i v_i with independent signs s_i = +1 or -1, each with probability 1/2.

    n values of one size v give v (2 B - n) with B binomial(n, 1/2); these are convolved over the sizes.
    """
    sizes, counts = np.unique(np.abs(values[values != 0]), return_counts=True)
    probability = np.ones(1)
    for size, n in zip(sizes.tolist(), counts.tolist(), strict=True):
        k = np.arange(n + 1)
        spaced = np.zeros(2 * size * n + 1)
        spaced[:: 2 * size] = np.exp(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) - n * np.log(2))
        probability = np.convolve(probability, spaced)
    highest = int(sizes @ counts)
    return SumDistribution(np.arange(-highest, highest + 1), probability)
