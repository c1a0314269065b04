"""Scores of two systems on the same items, checked once and paired."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from irtbench.data.input_error import InputError

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

    @property
    def are_whole(self) -> bool:
        """Whether the sums of all groups are whole numbers."""
        return bool((self.sums == np.round(self.sums)).all())


def pair_scores(first: ArrayLike, second: ArrayLike, groups: Sequence[Hashable] | None = None) -> PairedDifferences:
    """Pair scores by position.

    Parameters
    ----------
    first, second
        Shape (n_items,), in the same order of items; NaN where there is none.
    groups
        Name of each item's group, None where it stands alone; None for items that all do.

    Raises
    ------
    InputError
        If the shapes differ, a score is infinite, or no item has both.
    """
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise InputError(f"comparison: scores of shapes {x.shape} and {y.shape}; expected one of each for every item")
    if np.isinf(x).any() or np.isinf(y).any():
        raise InputError("comparison: a score is infinite; expected finite numbers, NaN where there is none")
    both = ~(np.isnan(x) | np.isnan(y))
    if not both.any():
        raise InputError("comparison: no item has a score of both systems; expected at least one")
    d = (x - y)[both]
    if groups is None:
        sums: NDArray[np.float64] = np.sort(d)
        sizes = np.ones(d.size, dtype=np.int64)
    else:
        if len(groups) != x.size:
            raise InputError(f"comparison: {len(groups)} groups for {x.size} items; expected one name for each")
        codes = _group_codes([name for name, there in zip(groups, both, strict=True) if there])
        by_group = np.lexsort((d, codes))  # a sum of floats depends on their order
        sums = np.bincount(codes[by_group], d[by_group]).astype(np.float64)
        sizes = np.bincount(codes).astype(np.int64)
        order = np.lexsort((sums, sizes))
        sums, sizes = sums[order], sizes[order]
    return PairedDifferences(d, sums, sizes, float(x[both].mean()), float(y[both].mean()), int((~both).sum()))


def _group_codes(names: Sequence[Hashable]) -> NDArray[np.int64]:
    """A number for each group, and one of its own for each item without."""
    codes, _ = pd.factorize(pd.Series(list(names), dtype=object))
    alone = codes < 0
    return np.where(alone, codes.max() + np.cumsum(alone), codes).astype(np.int64)


def batches(n_rows: int, n_columns: int) -> Iterator[int]:
    """Row counts that add up to ``n_rows``, each batch of a bounded number of cells."""
    most = max(1, BATCH // n_columns)
    for start in range(0, n_rows, most):
        yield min(most, n_rows - start)
