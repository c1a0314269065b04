"""What the results of item bias have in common: a row an item, which is drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from irtbench.data.shown import Drawn, counted, significant


@dataclass(frozen=True, eq=False)
class ItemDifferences(Drawn):
    """Base of results that compare each item between groups: arrays of shape (n_items,)."""

    item_ids: tuple[str, ...]
    p: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]

    def in_short(self) -> str:
        """How many items, and how many differ between the groups."""
        return f"{counted(len(self.item_ids), 'item')}, {significant(self.p_adjusted)}"


@dataclass(frozen=True, eq=False)
class DifferencesByScore(ItemDifferences):
    """Base of those that compare respondents of the same sum score, which the anchors make."""

    groups: dict[str, int]
    df: int
    anchor: NDArray[np.bool_]
    rounds: int
    settled: bool
    n_left_out: int
