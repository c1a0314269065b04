"""Are some of several systems better than others? All pairs on the same items, by three tests each."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from irtbench.data.input_error import refuse_any
from irtbench.data.multiple_testing import Adjustment, adjust
from irtbench.data.responses import name_first
from irtbench.data.shown import Drawn, Shown
from irtbench.evaluation.paired_tests import (
    Alternative,
    IntervalMethod,
    McNemar,
    PairedComparison,
    PermutationTest,
    mcnemar,
    paired_bootstrap,
    permutation_test,
    same_draws,
)

Pair = tuple[NDArray[np.float64], NDArray[np.float64]]  # scores of two systems on the same items


def different_pairs(
    scores: NDArray[np.float64], first: NDArray[np.intp], second: NDArray[np.intp]
) -> tuple[list[Pair], NDArray[np.intp], dict[str, NDArray[Any]]] | None:
    """Right and wrong scores of pairs that differ, which of them each pair has, and figures of its own.

    The paired tests do not ask on which items two systems differ, so that pairs with the same counts have the same
    tests: 499,500 pairs of a thousand systems on 338 items have some ten thousand different counts. None where a pair
    has no item with a score of both.
    """
    right, wrong = ((scores == value).astype(np.float64) for value in (1, 0))
    scored = right + wrong
    n_items, helped, hurt, both = (
        np.rint((a @ b.T)[first, second]).astype(np.int64)
        for a, b in ((scored, scored), (right, wrong), (wrong, right), (right, right))
    )
    if not n_items.all():
        return None
    rows, which = np.unique(np.stack([n_items, helped, hurt], axis=1), axis=0, return_inverse=True)
    means = {"mean_first": (both + helped) / n_items, "mean_second": (both + hurt) / n_items}
    own = {"n_missing": scores.shape[1] - n_items} | means
    return [scores_with(*counts) for counts in rows.tolist()], which.ravel(), own


def scores_with(n_items: int, helped: int, hurt: int) -> Pair:
    """Scores of two systems that have one right where the other has not, with these counts."""
    item = np.arange(n_items)
    return (item < helped).astype(np.float64), ((item >= helped) & (item < helped + hurt)).astype(np.float64)


#: Of right and wrong scores on so many items every test is exact.
MOST_COUNTED_ITEMS = 20_000


@dataclass(frozen=True)
class SystemPair(
    Shown,
    short="{first} against {second}, difference {bootstrap.difference:.3f} "
    "[{bootstrap.lower:.3f}, {bootstrap.upper:.3f}], p {bootstrap.p:.3g}",
):
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


Tests = tuple[PairedComparison, PermutationTest, McNemar | None]


@dataclass(frozen=True, eq=False)
class ComparedPairs(Sequence[SystemPair]):
    """Pairs of systems, each made when it is looked at: there may be half a million.

    Parameters
    ----------
    names
        Of the systems.
    first, second
        Places of each pair's systems, shape (n_pairs,).
    tests, which
        The different tests, and which of them each pair has, shape (n_pairs,).
    own
        Figures of each pair in place of those of its tests, by name.
    p_adjusted, permutation_p_adjusted
        Of each pair, shape (n_pairs,).
    """

    names: Sequence[str]
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    tests: Sequence[Tests]
    which: NDArray[np.intp]
    own: Mapping[str, NDArray[Any]]
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
        bootstrap, permutation, counted = self.tests[self.which[k]]
        return SystemPair(
            self.names[self.first[k]], self.names[self.second[k]],
            replace(bootstrap, **{name: values[k].item() for name, values in self.own.items()}), permutation, counted,
            float(self.p_adjusted[k]), float(self.permutation_p_adjusted[k]),
        )  # fmt: skip

    def table(self) -> pd.DataFrame:
        """One row a pair, a column at a time."""
        names = np.array(self.names, dtype=object)
        own = {"first": names[self.first], "second": names[self.second], "p_adjusted": self.p_adjusted}
        own |= {name: values for name, values in self.own.items() if name != "n_missing"}
        rows = [SystemPair("", "", *tests, np.nan, np.nan).summary() for tests in self.tests]
        table = pd.DataFrame(rows).take(self.which).reset_index(drop=True)
        return table.assign(**own, permutation_p_adjusted=self.permutation_p_adjusted)


@dataclass(frozen=True)
class SystemComparison(Drawn, short="{pairs:pair}, {pairs.p_adjusted:significant}"):
    """Several systems compared in pairs, and how p was adjusted for their number."""

    pairs: ComparedPairs
    adjustment: Adjustment | None

    def table(self) -> pd.DataFrame:
        """One row a pair."""
        return self.pairs.table()


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
        See ``paired_bootstrap``; the permutation test is exact wherever it can be. Every pair gets the same random
        numbers, so that the order of systems does not matter.
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
    refuse_any((
        (matrix.shape[:1] != (len(names),) or matrix.ndim != 2,
         f"comparison: scores of shape {matrix.shape} do not fit {len(names)} systems"),
        (len(set(names)) < len(names), f"comparison: systems must have different names but got {name_first(names)}"),
        (len(names) < 2, f"comparison: expected at least two systems but got {len(names)}"),
        (against not in (None, *names),
         f"comparison: unknown system {against}; expected one of {name_first(names)}"),
    ))  # fmt: skip
    seed = same_draws(rng)
    right_or_wrong = bool(np.isin(matrix[~np.isnan(matrix)], (0, 1)).all()) and groups is None
    if against is None:
        first, second = np.triu_indices(len(names), 1)
    else:
        second = np.full(len(names) - 1, names.index(against))
        first = np.delete(np.arange(len(names)), names.index(against))
    by_counts = right_or_wrong and exact is not False and matrix.shape[1] <= MOST_COUNTED_ITEMS
    each, which, own = (different_pairs(matrix, first, second) if by_counts else None) or (
        [(matrix[i], matrix[j]) for i, j in zip(first, second, strict=True)], np.arange(first.size), {}
    )  # fmt: skip
    tests: list[Tests] = []
    for x, y in each:
        rng = np.random.default_rng(seed)
        bootstrap = paired_bootstrap(
            x, y, groups=groups, alternative=alternative, interval=interval, level=level,
            n_resamples=n_resamples, rng=rng, exact=exact,
        )  # fmt: skip
        permutation = permutation_test(
            x, y, groups=groups, alternative=alternative, n_resamples=n_resamples, rng=rng
        )  # fmt: skip
        tests.append((bootstrap, permutation, mcnemar(x, y, alternative=alternative) if right_or_wrong else None))
    p = np.array([[bootstrap.p, permutation.p] for bootstrap, permutation, _ in tests])[which].T
    adjusted = np.full_like(p, np.nan) if adjustment is None else [adjust(row, adjustment) for row in p]
    return SystemComparison(ComparedPairs(names, first, second, tests, which, own, *adjusted), adjustment)
