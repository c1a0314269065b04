"""Is one system better than another? The bootstrap of their mean difference on the same items."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from irtbench.data.input_error import InputError, demand_choice
from irtbench.data.shown import Figures
from irtbench.evaluation.paired_tests import (
    Alternative,
    Method,
    PairedDifferences,
    SumDistribution,
    chance_at_most_zero,
    demand_resamples,
    drawn_sum,
    pair_scores,
    resampled_means,
)
from irtbench.evaluation.proportion import check_level

IntervalMethod = Literal["bca", "percentile"]

#: A sum of whole numbers is worked out exactly if it can take at most this many values.
MOST_SUMS = 2_000_000


@dataclass(frozen=True)
class PairedComparison(Figures):
    """Difference of two systems on the same items, by the bootstrap.

    Parameters
    ----------
    n_items
        Items with a score of both.
    n_missing
        Items left out because one of the two has no score.
    n_groups
        Groups of items that were resampled; ``n_items`` where each is its own.
    mean_first, mean_second
        Mean scores on these items.
    difference
        ``mean_first - mean_second``.
    lower, upper
        Bootstrap interval of the difference; NaN if all differences are the same.
    level
        Of the interval.
    helped, hurt
        Items on which the first has the higher, the lower score.
    p
        Of the bootstrap, see ``paired_bootstrap``.
    alternative
        What p speaks against: its opposite.
    method
        Whether the bootstrap distribution is exact or of resamples.
    n_resamples
        Resamples drawn; None if exact.
    p_greater
        The one-sided p against "the first is not better", whatever the alternative: P(sum d* <= 0) (Jansen, 2019).
    """

    n_items: int
    n_missing: int
    n_groups: int
    mean_first: float
    mean_second: float
    difference: float
    lower: float
    upper: float
    level: float
    helped: int
    hurt: int
    p: float
    alternative: Alternative
    method: Method
    n_resamples: int | None
    p_greater: float


def paired_bootstrap(
    first: ArrayLike,
    second: ArrayLike,
    *,
    groups: Sequence[Hashable] | None = None,
    alternative: Alternative = "two-sided",
    interval: IntervalMethod = "bca",
    level: float = 0.95,
    n_resamples: int = 10_000,
    rng: np.random.Generator | None = None,
    exact: bool | None = None,
) -> PairedComparison:
    """Bootstrap of the mean difference d = first - second over items.

    Of n items, n are drawn with replacement. p for ``greater`` is the chance that the drawn differences do not add up
    to more than 0, P(sum d* <= 0), for ``less`` P(sum d* >= 0), and for ``two-sided`` twice the smaller of these, at
    most 1. (Jansen, 2019, Non-parametric Bootstrap Resampling Primer for NLP; Koehn, 2004)

    For differences in few steps, as of right and wrong or of grades, the chance is worked out by convolution. Otherwise
    it is estimated by (k + 1) / (B + 1), with k of B resamples such, which is never 0. The order of items never
    matters, to the resamples neither, nor which system is first.

    Where items belong together, groups are drawn instead of items, and the mean is over the items of the groups
    drawn. The exact form then needs groups of one size.

    The interval is Efron's bias-corrected and accelerated one (1987), or the plain percentiles.

    Parameters
    ----------
    first, second
        Scores of the two systems, shape (n_items,), in the same order of items; NaN where there is none.
    groups
        Name of the group of each item, None where it is its own; None for items that all do.
    alternative
        That the first is better (``greater``), worse (``less``), or either (``two-sided``).
    interval
        How the interval is found.
    level
        Of the interval.
    n_resamples
        Drawn where the exact form is not possible or not wanted.
    rng
        Draws the resamples; None for one seeded with 0.
    exact
        None: where possible.

    Raises
    ------
    InputError
        If the shapes differ, a score is infinite, no item has both scores, or ``exact`` is asked for scores that are
        in no such steps, or groups of different sizes.

    Warns
    -----
    RuntimeWarning
        If all differences are the same (as with one item): the bootstrap samples then do not vary. The interval is NaN,
        and so is p, unless all are 0: then it is 1.

    Examples
    --------
    >>> baseline, experimental = [0, 1, 1, 0, 0, 1, 0, 1, 0, 1], [1, 1, 0, 1, 1, 0, 1, 1, 0, 0]
    >>> round(paired_bootstrap(experimental, baseline, alternative="greater").p, 5)
    0.42173
    """
    check_level(level, where="comparison")
    demand_choice("comparison: alternative", alternative, Alternative)
    demand_choice("comparison: interval", interval, IntervalMethod)
    pairs = pair_scores(first, second, groups)
    exact = _can_be_exact(pairs) if exact is None else exact
    if exact and not _can_be_exact(pairs):
        raise InputError(
            "comparison: exact needs differences in few steps, as of whole numbers, and groups of one size"
        )
    constant = np.ptp(pairs.sums / pairs.sizes) == 0
    if constant:
        warnings.warn("the bootstrap is undefined: the difference is the same everywhere", RuntimeWarning, stacklevel=2)
        lower = upper = np.nan
        p = below = np.nan if pairs.sums.any() else 1.0
    else:
        if exact:
            means, below, above = _exact_means(pairs)
        else:
            rng = np.random.default_rng(0) if rng is None else rng
            means, below, above = _resampled_means(pairs, n_resamples, rng)
        p = {"greater": below, "less": above, "two-sided": min(1.0, 2 * min(below, above))}[alternative]
        lower, upper = _interval(means, pairs, interval, level)
    return PairedComparison(
        n_items=pairs.differences.size,
        n_missing=pairs.n_missing,
        n_groups=pairs.sums.size,
        mean_first=pairs.mean_first,
        mean_second=pairs.mean_second,
        difference=pairs.mean,
        lower=lower,
        upper=upper,
        level=level,
        helped=int((pairs.differences > 0).sum()),
        hurt=int((pairs.differences < 0).sum()),
        p=p,
        alternative=alternative,
        method="exact" if exact else "resampled",
        n_resamples=None if exact else n_resamples,
        p_greater=below,
    )


def _can_be_exact(pairs: PairedDifferences) -> bool:
    one_size = bool((pairs.sizes == pairs.sizes[0]).all())
    return one_size and pairs.unit > 0 and bool(np.ptp(pairs.sums) * pairs.sums.size <= MOST_SUMS * pairs.unit)


def _exact_means(pairs: PairedDifferences) -> tuple[SumDistribution, float, float]:
    """The bootstrap distribution by convolution, P(mean <= 0) and P(mean >= 0)."""
    values, counts = np.unique(pairs.counted, return_counts=True)
    n = pairs.sums.size
    share = counts / n
    sums = drawn_sum(values, share, n)
    below, above = chance_at_most_zero(values, share, n), chance_at_most_zero(-values, share, n)
    return SumDistribution(pairs.unit * sums.values / pairs.differences.size, sums.probability), below, above


def _resampled_means(
    pairs: PairedDifferences, n_resamples: int, rng: np.random.Generator
) -> tuple[SumDistribution, float, float]:
    """Means of resamples, and the estimated P(mean <= 0) and P(mean >= 0)."""
    demand_resamples(n_resamples)
    sign = -1.0 if pairs.sums.sum() < 0 else 1.0  # two systems the other way round get the same draws
    order = np.lexsort((sign * pairs.sums, pairs.sizes))
    means = np.sort(sign * resampled_means(sign * pairs.sums[order], pairs.sizes[order], n_resamples, rng))
    tolerance = 1e-12 * np.abs(pairs.differences).max()
    below, above = (int((side <= tolerance).sum()) for side in (means, -means))
    return (
        SumDistribution(means, np.full(n_resamples, 1 / n_resamples)),
        (below + 1) / (n_resamples + 1),
        (above + 1) / (n_resamples + 1),
    )


def _interval(
    means: SumDistribution, pairs: PairedDifferences, method: IntervalMethod, level: float
) -> tuple[float, float]:
    """Bootstrap interval of the mean difference (Efron & Tibshirani, 1993, ch. 14)."""
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    if method == "bca":
        here = 1e-9 * np.abs(pairs.differences).max()
        less = means.probability[means.values < pairs.mean - here].sum()
        same = means.probability[np.abs(means.values - pairs.mean) <= here].sum()
        # half of the ties count as below: the distribution of a lattice statistic would look biased otherwise
        bias = ndtri(np.clip(less + same / 2, 1e-9, 1 - 1e-9))
        # the influence of a group on the mean: how far it pulls the sum from the mean's share
        pull = pairs.sums - pairs.mean * pairs.sizes
        acceleration = (pull**3).sum() / (6 * (pull**2).sum() ** 1.5)
        z = bias + ndtri(tails)
        tails = ndtr(bias + z / (1 - acceleration * z))
    reached = np.minimum(np.searchsorted(np.cumsum(means.probability), tails), means.values.size - 1)
    lower, upper = means.values[reached]
    return float(lower), float(upper)
