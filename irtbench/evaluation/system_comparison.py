"""Are some of several systems better than others? All pairs on the same items, by three tests each."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from irtbench.data.input_error import InputError
from irtbench.data.multiple_testing import Adjustment, adjust
from irtbench.data.responses import name_first
from irtbench.data.shown import Drawn, Shown, counted, significant
from irtbench.evaluation.paired_bootstrap import IntervalMethod, PairedComparison, paired_bootstrap
from irtbench.evaluation.paired_tests import Alternative, McNemar, PermutationTest, mcnemar, permutation_test


@dataclass(frozen=True, eq=False)
class CountedPairs:
    """On how many items the systems of each pair differ; all arrays have shape (n_pairs,).

    The paired tests do not ask which items these are, so that pairs with the same counts have the same tests:
    499,500 pairs of a thousand systems on 338 items have some ten thousand different counts.

    Parameters
    ----------
    first, second
        Rows of the systems.
    n_items, n_missing
        Items with a score of both, and without.
    helped, hurt
        Items that only the first, only the second has right.
    right_first, right_second
        Right scores on the items of both.
    """

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    n_items: NDArray[np.int64]
    n_missing: NDArray[np.int64]
    helped: NDArray[np.int64]
    hurt: NDArray[np.int64]
    right_first: NDArray[np.int64]
    right_second: NDArray[np.int64]

    @classmethod
    def of(cls, scores: NDArray[np.float64], first: NDArray[np.intp], second: NDArray[np.intp]) -> CountedPairs:
        """Count right and wrong scores of systems x items, NaN where there is none, for these pairs of rows."""
        right, wrong = ((scores == value).astype(np.float64) for value in (1, 0))
        scored = right + wrong

        def counts(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.int64]:
            found: NDArray[np.int64] = np.rint((a @ b.T)[first, second]).astype(np.int64)
            return found

        n_items, helped, both = counts(scored, scored), counts(right, wrong), counts(right, right)
        hurt = counts(wrong, right)
        return cls(first, second, n_items, scores.shape[1] - n_items, helped, hurt, both + helped, both + hurt)

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """The different (n_items, helped, hurt), shape (n_distinct, 3), and which of them each pair has."""
        rows, which = np.unique(np.stack([self.n_items, self.helped, self.hurt], axis=1), axis=0, return_inverse=True)
        return rows, which.ravel()


def scores_with(n_items: int, helped: int, hurt: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores of two systems with these counts, both wrong on the other items.

    Examples
    --------
    >>> first, second = scores_with(4, 2, 1)
    >>> first.tolist(), second.tolist()
    ([1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0])
    """
    item = np.arange(n_items)
    return (item < helped).astype(np.float64), ((item >= helped) & (item < helped + hurt)).astype(np.float64)


#: Of right and wrong scores on so many items every test is exact.
MOST_COUNTED_ITEMS = 20_000


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

    def summary(self) -> dict[str, object]:
        """Every figure, by name."""
        found, counted = self.bootstrap, self.mcnemar
        return {
            "first": self.first,
            "second": self.second,
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
            "p_adjusted": self.p_adjusted,
            "permutation_p": self.permutation.p,
            "permutation_p_adjusted": self.permutation_p_adjusted,
            "mcnemar_p": np.nan if counted is None else counted.p,
            "mcnemar_mid_p": np.nan if counted is None else counted.mid_p,
            "method": found.method,
            "p_greater": found.p_greater,
        }

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
        rows = [SystemPair("", "", *tests, np.nan, np.nan).summary() for tests in self.tests]
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
        return pd.DataFrame([pair.summary() for pair in self.pairs])

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
