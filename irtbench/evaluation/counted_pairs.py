"""Pairs of systems of right and wrong scores, of which two counts tell everything: helped and hurt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
