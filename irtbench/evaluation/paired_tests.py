"""Is one system better than another? Paired scores, and their permutation test, McNemar's test and bootstrap."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import brentq
from scipy.special import bdtr, gammaln, ndtr, ndtri

from irtbench.data.input_error import InputError, demand_choice, refuse_any, refuse_first
from irtbench.data.shown import Figures
from irtbench.evaluation.proportion import check_level

MOST_STEPS = 60  # between two whole scores: shares of up to 6 points on some items and 4 or 5 on others
ROUNDING = 1e-12  # relative
NEGLIGIBLE = 1e-100  # a value this rare is never drawn; its weight would not fit a floating point number


@dataclass(frozen=True, eq=False)
class SumDistribution:
    """Distribution of a random sum, or mean: its values, smallest first (of a sum of whole numbers consecutive)."""

    values: NDArray[Any]
    probability: NDArray[np.float64]


def drawn_sum(values: NDArray[np.int64], share: NDArray[np.float64], n: int) -> SumDistribution:
    """Distribution of the sum of n independent draws.

    The probabilities of a sum are the n-fold convolution of those of one draw, which the Fourier transform turns into
    an n-th power. Their error is about 1e-16 n, whatever their size.
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

    def mean(t: float) -> float:
        return float(values * share @ np.exp(t * values))

    if mean(0.0) > 0:
        # there, share(v) v e^(t v) of the positive values adds up to less than the least negative one has
        furthest = np.log(np.abs(values).max() / share.min()) + 1
        tilt = float(brentq(mean, -furthest, 0.0))
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


#: Random numbers drawn at a time.
BATCH = 2_000_000


@dataclass(frozen=True, eq=False)
class PairedDifferences:
    """What is left of paired scores once items without both are gone.

    Parameters
    ----------
    differences
        First minus second, shape (n_items,).
    sums, sizes
        Sum of the differences and number of items of each group, sorted, so that the order of the items is forgotten;
        shape (n_groups,).
    mean_first, mean_second
        Mean scores.
    n_missing
        Items left out.
    """

    differences: NDArray[np.float64]
    sums: NDArray[np.float64]
    sizes: NDArray[np.int64]
    mean_first: float
    mean_second: float
    n_missing: int

    @property
    def mean(self) -> float:
        """Mean difference over items."""
        return float(self.sums.sum() / self.sizes.sum())

    @cached_property
    def unit(self) -> float:
        """1, 1/2, 1/3, ... of which the sums of all groups are whole multiples (1/4 for five grades); 0 if none is."""
        for steps in range(1, MOST_STEPS + 1):
            counted = self.sums * steps
            if (np.abs(counted - np.round(counted)) <= ROUNDING * np.maximum(1.0, np.abs(counted))).all():
                return 1 / steps
        return 0.0

    @property
    def counted(self) -> NDArray[np.int64]:
        """The sums of all groups in that unit."""
        return np.round(self.sums / self.unit).astype(np.int64)


def pair_scores(first: ArrayLike, second: ArrayLike, groups: Sequence[Hashable] | None = None) -> PairedDifferences:
    """Pair scores by position, NaN where there is none; with the name of each item's group, None where it is alone."""
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise InputError(f"comparison: scores of shapes {x.shape} and {y.shape}; expected one of each for every item")
    both, n_groups = ~(np.isnan(x) | np.isnan(y)), x.size if groups is None else len(groups)
    refuse_any((
        (np.isinf(x).any() or np.isinf(y).any(),
         "comparison: a score is infinite; expected finite numbers, NaN where there is none"),
        (not both.any(), "comparison: no item has a score of both systems; expected at least one"),
        (n_groups != x.size, f"comparison: {n_groups} groups for {x.size} items; expected one name for each"),
    ))  # fmt: skip
    d, group = (x - y)[both], np.arange(both.sum())
    if groups is not None:
        named, _ = pd.factorize(pd.Series(list(groups), dtype=object)[both])
        group = np.where(named < 0, named.max() + np.cumsum(named < 0), named)
    by_group = np.lexsort((d, group))  # a sum of floats depends on their order
    sums, sizes = np.bincount(group[by_group], d[by_group]).astype(np.float64), np.bincount(group).astype(np.int64)
    order = np.lexsort((sums, sizes))
    means = float(x[both].mean()), float(y[both].mean())
    return PairedDifferences(d, sums[order], sizes[order], *means, int((~both).sum()))


def demand_resamples(n_resamples: int) -> None:
    """Refuse to draw none."""
    if n_resamples < 1:
        raise InputError(f"comparison: n_resamples must be at least 1 but got {n_resamples}")


def batches(n_rows: int, n_columns: int) -> Iterator[int]:
    """Row counts that add up to ``n_rows``, each batch of a bounded number of cells."""
    most = max(1, BATCH // n_columns)
    for start in range(0, n_rows, most):
        yield min(most, n_rows - start)


def same_draws(rng: np.random.Generator | None) -> int:
    """Seed that each of several tests draws by, so that their order does not matter; None: by one seeded with 0."""
    return int((np.random.default_rng(0) if rng is None else rng).integers(2**63))


def resampled_means(
    sums: NDArray[Any], sizes: NDArray[np.int64], n_resamples: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Means over resamples of the parts with these sums and sizes, shape (n_resamples,)."""
    n = sums.size
    drawn = (rng.integers(0, n, (rows, n)) for rows in batches(n_resamples, n))
    return np.concatenate([sums[which].sum(axis=1) / sizes[which].sum(axis=1) for which in drawn])


Alternative = Literal["greater", "less", "two-sided"]
Method = Literal["exact", "resampled"]

#: The exact permutation test convolves the sizes of the differences term by term, up to this sum of them.
MOST_FLIPPED_SUMS = 20_000


@dataclass(frozen=True)
class PermutationTest(Figures):
    """p of a permutation test, and how it was found."""

    p: float
    alternative: Alternative
    method: Method
    n_resamples: int | None


def permutation_test(
    first: ArrayLike,
    second: ArrayLike,
    *,
    groups: Sequence[Hashable] | None = None,
    alternative: Alternative = "two-sided",
    n_resamples: int = 10_000,
    rng: np.random.Generator | None = None,
    exact: bool | None = None,
) -> PermutationTest:
    """Chance of so large a difference if the two systems' scores could change places on each item (Fisher, 1935).

    p = P(sum_i s_i d_i >= sum_i d_i) with signs s_i = +1 or -1 at random (<= for ``less``; absolute values for
    ``two-sided``). For whole numbers, and shares of a few points, it is worked out by convolution, otherwise estimated
    by (k + 1) / (B + 1), the order as it was counted in (Phipson & Smyth, 2010). With groups, a group's items change
    places together.
    Unlike the bootstrap it keeps its level in small samples, and is defined when all differences are the same.

    Parameters and errors as for ``paired_bootstrap``, but for the exact form groups may have any size.

    Examples
    --------
    >>> permutation_test([1, 1, 1, 1], [0, 0, 0, 0]).p  # 2 of 16 choices of signs
    0.125
    """
    demand_choice("comparison: alternative", alternative, Alternative)
    pairs = pair_scores(first, second, groups)
    possible = pairs.unit > 0 and np.abs(pairs.sums).sum() <= MOST_FLIPPED_SUMS * pairs.unit
    exact = possible if exact is None else exact
    if exact and not possible:
        raise InputError("comparison: the exact permutation test needs differences in few steps, as of whole numbers")
    total = pairs.sums.sum()
    tolerance = 1e-9 * np.abs(pairs.sums).sum()
    if exact:
        flipped = flipped_sum(pairs.counted)
        values, probability = flipped.values * pairs.unit, flipped.probability
    else:
        demand_resamples(n_resamples)
        rng = np.random.default_rng(0) if rng is None else rng
        magnitudes = np.sort(np.abs(pairs.sums[pairs.sums != 0]))
        drawn = [
            (2.0 * rng.integers(0, 2, (rows, magnitudes.size), dtype=np.int8) - 1) @ magnitudes
            for rows in batches(n_resamples, max(1, magnitudes.size))
        ]
        values = np.concatenate([[total], *drawn])
        probability = np.full(values.size, 1 / values.size)
    reached = {
        "greater": values >= total - tolerance,
        "less": values <= total + tolerance,
        "two-sided": np.abs(values) >= abs(total) - tolerance,
    }[alternative]
    p = min(1.0, float(probability[reached].sum()))
    return PermutationTest(p, alternative, "exact" if exact else "resampled", None if exact else n_resamples)


@dataclass(frozen=True)
class McNemar(Figures):
    """McNemar's test of right and wrong scores.

    Parameters
    ----------
    helped, hurt
        Items that only the first, only the second system has right.
    p
        Exact, conditional on their number.
    mid_p
        The same with half the chance of the counts observed, which makes up for their discreteness.
    alternative
        What p speaks against: its opposite.
    """

    helped: int
    hurt: int
    p: float
    mid_p: float
    alternative: Alternative


def mcnemar(first: ArrayLike, second: ArrayLike, *, alternative: Alternative = "two-sided") -> McNemar:
    """McNemar's exact test and its mid-p.

    Of the m = helped + hurt items on which the two differ, B ~ binomial(m, 1/2) would go to the first by chance.
    ``greater``: P(B >= helped), mid-p P(B > helped) + P(B = helped) / 2. ``two-sided``: the chance of counts no
    nearer to m / 2, mid-p with half the chance of those as near. With m = 0 both are 1.
    (McNemar, 1947; Fagerland, Lydersen & Laake, 2013, doi:10.1186/1471-2288-13-91)

    Parameters
    ----------
    first, second
        1 for right, 0 for wrong, NaN for none, in the same order of items.
    alternative
        As for ``paired_bootstrap``.

    Raises
    ------
    InputError
        If the shapes differ, no item has both scores, or a score is neither 1 nor 0.

    Examples
    --------
    >>> test = mcnemar([1] * 8 + [0] * 2, [0] * 8 + [1] * 2)  # 2 (1 + 10 + 45) / 1024, less 45 / 1024
    >>> round(test.p, 9), round(test.mid_p, 9)
    (0.109375, 0.065429688)
    """
    demand_choice("comparison: alternative", alternative, Alternative)
    values = np.concatenate([np.ravel(np.asarray(scores, dtype=np.float64)) for scores in (first, second)])
    refuse_first(
        ~((values == 0) | (values == 1) | np.isnan(values)),
        lambda k: f"comparison: McNemar's test needs scores 1 and 0 but got {values[k]:g}",
    )
    d = pair_scores(first, second).differences
    helped, hurt = int((d > 0).sum()), int((d < 0).sum())
    if helped + hurt == 0:
        return McNemar(0, 0, 1.0, 1.0, alternative)
    # by symmetry P(B >= k) = P(B <= m - k)
    k = {"greater": hurt, "less": helped, "two-sided": min(helped, hurt)}[alternative]
    below, up_to = np.nan_to_num(bdtr([k - 1, k], helped + hurt, 0.5)).tolist()  # nothing lies below 0
    here = up_to - below
    if alternative != "two-sided":
        return McNemar(helped, hurt, below + here, below + here / 2, alternative)
    both = here if helped == hurt else 2 * here
    return McNemar(helped, hurt, min(1.0, 2 * below + both), 2 * below + both / 2, alternative)


IntervalMethod = Literal["bca", "percentile"]

#: Items, or groups, from which on the bootstrap of differences of several sizes keeps its level, about.
ENOUGH = 15

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
        and so is p, unless all are 0: then it is 1. If there are fewer than 15 items or groups, with differences of
        several sizes: of five items of five grades p is below .05 in .13 of pairs of systems that do not differ.

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
        if pairs.sums.size < ENOUGH and np.unique(np.abs(pairs.sums[pairs.sums != 0])).size > 1:
            warnings.warn(
                f"of fewer than {ENOUGH} items or groups the bootstrap's p is too small and its interval too short; "
                "the permutation test keeps its level", RuntimeWarning, stacklevel=2,
            )  # fmt: skip
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
