"""Is one system better than another? The same items, paired: bootstrap, permutation, McNemar, and many systems."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from irtbench.data.input_error import InputError
from irtbench.data.multiple_testing import Adjustment, adjust
from irtbench.data.responses import name_first
from irtbench.data.shown import Drawn, Figures, Shown, counted, significant
from irtbench.evaluation.counted_pairs import CountedPairs, scores_with
from irtbench.evaluation.exact_sums import chance_at_most_zero, drawn_sum
from irtbench.evaluation.paired_tests import (
    Alternative,
    McNemar,
    Method,
    PermutationTest,
    mcnemar,
    permutation_test,
)
from irtbench.evaluation.pairing import PairedDifferences, batches, pair_scores
from irtbench.evaluation.proportion import check_level

IntervalMethod = Literal["bca", "percentile"]

#: A sum of whole numbers is worked out exactly if it can take at most this many values.
MOST_SUMS = 2_000_000

#: Of right and wrong scores on so many items every test is exact.
MOST_COUNTED_ITEMS = 20_000


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
        Groups of items that were resampled; ``n_items`` where each stands alone.
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

    For differences that are whole numbers, as of right and wrong, the chance is worked out by convolution. Otherwise
    it is estimated by (k + 1) / (B + 1), with k of B resamples such, which is never 0. The order of items never
    matters, to the resamples neither.

    Where items belong together, groups are drawn instead of items, and the mean is over the items of the groups
    drawn. The exact form then needs groups of one size.

    The interval is Efron's bias-corrected and accelerated one (1987), or the plain percentiles.

    Parameters
    ----------
    first, second
        Scores of the two systems, shape (n_items,), in the same order of items; NaN where there is none.
    groups
        Name of the group of each item, None where it stands alone; None for items that all do.
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
        no whole numbers or groups of different sizes.

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
    pairs = pair_scores(first, second, groups)
    exact = _can_be_exact(pairs) if exact is None else exact
    if exact and not _can_be_exact(pairs):
        raise InputError("comparison: exact needs differences that are small whole numbers, and groups of one size")
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


@dataclass(frozen=True)
class SystemPair(Shown):
    """Two of several systems compared.

    Parameters
    ----------
    first, second
        Their names.
    bootstrap, permutation, mcnemar
        The three tests; McNemar's is None for scores other than right and wrong, and with groups of items.
    p_adjusted, permutation_p_adjusted
        p of the bootstrap and of the permutation test, adjusted for the number of pairs.
    """

    first: str
    second: str
    bootstrap: PairedComparison
    permutation: PermutationTest
    mcnemar: McNemar | None
    p_adjusted: float
    permutation_p_adjusted: float

    def table(self) -> pd.DataFrame:
        """One row, the columns of the comparison's table."""
        return pd.DataFrame([_row(self)])

    def in_short(self) -> str:
        """The systems, their difference and its p."""
        found = self.bootstrap
        interval = f"[{found.lower:.3f}, {found.upper:.3f}]"
        return f"{self.first} against {self.second}, difference {found.difference:.3f} {interval}, p {found.p:.3g}"


Tests = tuple[PairedComparison, PermutationTest, McNemar | None]


@dataclass(frozen=True, eq=False)
class PairsByCounts(Sequence[SystemPair]):
    """Pairs of systems of right and wrong scores, each made when it is looked at: there may be half a million.

    Parameters
    ----------
    names
        Of the systems.
    counts
        What the pairs are.
    tests
        Of the different counts.
    which
        Which of them each pair has, shape (n_pairs,).
    p_adjusted, permutation_p_adjusted
        Of each pair, shape (n_pairs,).
    """

    names: Sequence[str]
    counts: CountedPairs
    tests: Sequence[Tests]
    which: NDArray[np.intp]
    p_adjusted: NDArray[np.float64]
    permutation_p_adjusted: NDArray[np.float64]

    def __len__(self) -> int:
        return self.which.size

    @overload
    def __getitem__(self, k: int) -> SystemPair: ...
    @overload
    def __getitem__(self, k: slice) -> Sequence[SystemPair]: ...
    def __getitem__(self, k: int | slice) -> SystemPair | Sequence[SystemPair]:
        if isinstance(k, slice):
            return [self[one] for one in range(*k.indices(len(self)))]
        counts, (bootstrap, permutation, counted) = self.counts, self.tests[self.which[k]]
        n_items = counts.n_items[k]
        own = replace(
            bootstrap,
            n_missing=int(counts.n_missing[k]),
            mean_first=float(counts.right_first[k] / n_items),
            mean_second=float(counts.right_second[k] / n_items),
        )
        return SystemPair(
            self.names[counts.first[k]], self.names[counts.second[k]], own, permutation, counted,
            float(self.p_adjusted[k]), float(self.permutation_p_adjusted[k]),
        )  # fmt: skip

    def table(self) -> pd.DataFrame:
        """One row a pair, a column at a time."""
        names, counts = np.array(self.names, dtype=object), self.counts
        own = {
            "first": names[counts.first],
            "second": names[counts.second],
            "mean_first": counts.right_first / counts.n_items,
            "mean_second": counts.right_second / counts.n_items,
            "p_adjusted": self.p_adjusted,
            "permutation_p_adjusted": self.permutation_p_adjusted,
        }
        rows = [
            _row(SystemPair("", "", *tests, p_adjusted=np.nan, permutation_p_adjusted=np.nan)) for tests in self.tests
        ]
        return pd.DataFrame(rows).take(self.which).reset_index(drop=True).assign(**own)


@dataclass(frozen=True)
class SystemComparison(Drawn):
    """Several systems compared in pairs, and how p was adjusted for their number."""

    pairs: Sequence[SystemPair]
    adjustment: Adjustment | None

    def table(self) -> pd.DataFrame:
        """One row a pair."""
        if isinstance(self.pairs, PairsByCounts):
            return self.pairs.table()
        return pd.DataFrame([_row(pair) for pair in self.pairs])

    def in_short(self) -> str:
        """How many pairs, and how many differ."""
        adjusted = (
            self.pairs.p_adjusted
            if isinstance(self.pairs, PairsByCounts)
            else np.array([pair.p_adjusted for pair in self.pairs])
        )
        return f"{counted(len(self.pairs), 'pair')}, {significant(adjusted)}"


def compare_systems(
    scores: ArrayLike,
    system_ids: Sequence[str],
    *,
    against: str | None = None,
    groups: Sequence[Hashable] | None = None,
    alternative: Alternative = "two-sided",
    interval: IntervalMethod = "bca",
    level: float = 0.95,
    n_resamples: int = 10_000,
    rng: np.random.Generator | None = None,
    exact: bool | None = None,
    adjustment: Adjustment | None = "holm",
) -> SystemComparison:
    """Compare all pairs of systems, or each with one of them, on the items that both of a pair have.

    Parameters
    ----------
    scores
        Shape (n_systems, n_items); NaN where there is none.
    system_ids
        Names of the rows.
    against
        The second of every pair; None for all pairs, in order of the rows.
    groups, alternative, interval, level, n_resamples, rng, exact
        See ``paired_bootstrap``; the permutation test is exact wherever it can be.
    adjustment
        Holm or Benjamini-Hochberg, over the pairs; None leaves adjusted p to a caller with a larger family, as NaN.

    Raises
    ------
    InputError
        If there are not two systems, a name is repeated or ``against`` is none of them, or as ``paired_bootstrap``.

    Warns
    -----
    RuntimeWarning
        As ``paired_bootstrap``.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> scores = (rng.random((3, 200)) < [[0.8], [0.75], [0.5]]).astype(float)
    >>> found = irtbench.compare_systems(scores, ["large", "medium", "small"])
    >>> found
    <SystemComparison: 3 pairs, 2 with adjusted p < .05>
    >>> found.table()[["first", "second", "difference", "p_adjusted"]].round(3)
        first  second  difference  p_adjusted
    0   large  medium        0.02       0.675
    1   large   small        0.30       0.000
    2  medium   small        0.28       0.000
    """
    matrix = np.asarray(scores, dtype=np.float64)
    names = list(system_ids)
    if matrix.ndim != 2 or len(matrix) != len(names):
        raise InputError(f"comparison: scores of shape {matrix.shape} do not fit {len(names)} systems")
    if len(set(names)) < len(names):
        raise InputError(f"comparison: systems must have different names but got {name_first(names)}")
    if len(names) < 2:
        raise InputError(f"comparison: expected at least two systems but got {len(names)}")
    if against is not None and against not in names:
        raise InputError(f"comparison: unknown system {against}; expected one of {name_first(names)}")
    rng = np.random.default_rng(0) if rng is None else rng
    right_or_wrong = bool(np.isin(matrix[~np.isnan(matrix)], (0, 1)).all()) and groups is None
    if against is None:
        first, second = np.triu_indices(len(names), 1)
    else:
        second = np.full(len(names) - 1, names.index(against))
        first = np.delete(np.arange(len(names)), names.index(against))
    if right_or_wrong and exact is not False and matrix.shape[1] <= MOST_COUNTED_ITEMS:
        counts = CountedPairs.of(matrix, first, second)
        if (counts.n_items > 0).all():
            return _by_counts(names, counts, alternative, interval, level, adjustment)
    tested = []
    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        x, y = matrix[i], matrix[j]
        bootstrap = paired_bootstrap(
            x, y, groups=groups, alternative=alternative, interval=interval, level=level,
            n_resamples=n_resamples, rng=rng, exact=exact,
        )  # fmt: skip
        permutation = permutation_test(
            x, y, groups=groups, alternative=alternative, n_resamples=n_resamples, rng=rng
        )  # fmt: skip
        counted = mcnemar(x, y, alternative=alternative) if right_or_wrong else None
        tested.append((names[i], names[j], bootstrap, permutation, counted))
    p = np.array([[bootstrap.p, permutation.p] for _, _, bootstrap, permutation, _ in tested])
    adjusted = np.full(p.shape, np.nan)
    if adjustment is not None:
        adjusted = np.column_stack([adjust(column, adjustment) for column in p.T])
    return SystemComparison(
        tuple(
            SystemPair(*found, p_adjusted=float(one), permutation_p_adjusted=float(other))
            for found, (one, other) in zip(tested, adjusted, strict=True)
        ),
        adjustment,
    )


def _by_counts(
    names: Sequence[str],
    counts: CountedPairs,
    alternative: Alternative,
    interval: IntervalMethod,
    level: float,
    adjustment: Adjustment | None,
) -> SystemComparison:
    """The exact tests of right and wrong scores, once for all pairs with the same counts."""
    distinct, which = counts.distinct()
    tests: list[Tests] = []
    for n_items, helped, hurt in distinct.tolist():
        x, y = scores_with(n_items, helped, hurt)
        tests.append(
            (
                paired_bootstrap(x, y, alternative=alternative, interval=interval, level=level),
                permutation_test(x, y, alternative=alternative),
                mcnemar(x, y, alternative=alternative),
            )
        )
    p = np.array([[bootstrap.p, permutation.p] for bootstrap, permutation, _ in tests])[which]
    none = np.full(which.size, np.nan)
    p, permutation_p = (none if adjustment is None else adjust(column, adjustment) for column in p.T)
    return SystemComparison(PairsByCounts(names, counts, tests, which, p, permutation_p), adjustment)


def _row(pair: SystemPair) -> dict[str, object]:
    found, counted = pair.bootstrap, pair.mcnemar
    return {
        "first": pair.first,
        "second": pair.second,
        "n_items": found.n_items,
        "n_groups": found.n_groups,
        "mean_first": found.mean_first,
        "mean_second": found.mean_second,
        "difference": found.difference,
        "lower": found.lower,
        "upper": found.upper,
        "helped": found.helped,
        "hurt": found.hurt,
        "p": found.p,
        "p_adjusted": pair.p_adjusted,
        "permutation_p": pair.permutation.p,
        "permutation_p_adjusted": pair.permutation_p_adjusted,
        "mcnemar_p": np.nan if counted is None else counted.p,
        "mcnemar_mid_p": np.nan if counted is None else counted.mid_p,
        "method": found.method,
        "p_greater": found.p_greater,
    }


@dataclass(frozen=True, eq=False)
class _Means:
    """A bootstrap distribution of the mean difference: its values, sorted, and their probabilities."""

    values: NDArray[np.float64]
    probability: NDArray[np.float64]


def _can_be_exact(pairs: PairedDifferences) -> bool:
    one_size = bool((pairs.sizes == pairs.sizes[0]).all())
    return one_size and pairs.are_whole and bool(np.ptp(pairs.sums) * pairs.sums.size <= MOST_SUMS)


def _exact_means(pairs: PairedDifferences) -> tuple[_Means, float, float]:
    """The bootstrap distribution by convolution, P(mean <= 0) and P(mean >= 0)."""
    values, counts = np.unique(pairs.sums.astype(np.int64), return_counts=True)
    n = pairs.sums.size
    share = counts / n
    sums = drawn_sum(values, share, n)
    below, above = chance_at_most_zero(values, share, n), chance_at_most_zero(-values, share, n)
    return _Means(sums.values / pairs.differences.size, sums.probability), below, above


def _resampled_means(
    pairs: PairedDifferences, n_resamples: int, rng: np.random.Generator
) -> tuple[_Means, float, float]:
    """Means of resamples, and the estimated P(mean <= 0) and P(mean >= 0)."""
    if n_resamples < 1:
        raise InputError(f"comparison: n_resamples must be at least 1 but got {n_resamples}")
    n = pairs.sums.size
    drawn = []
    for rows in batches(n_resamples, n):
        which = rng.integers(0, n, (rows, n))
        drawn.append(pairs.sums[which].sum(axis=1) / pairs.sizes[which].sum(axis=1))
    means = np.sort(np.concatenate(drawn))
    tolerance = 1e-12 * np.abs(pairs.differences).max()
    below, above = (int((side <= tolerance).sum()) for side in (means, -means))
    return (
        _Means(means, np.full(n_resamples, 1 / n_resamples)),
        (below + 1) / (n_resamples + 1),
        (above + 1) / (n_resamples + 1),
    )


def _interval(means: _Means, pairs: PairedDifferences, method: IntervalMethod, level: float) -> tuple[float, float]:
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
