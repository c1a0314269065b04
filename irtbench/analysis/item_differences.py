"""What the results of item bias have in common: a row an item, which is drawn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from irtbench.data.shown import Drawn, counted, significant


class ItemDifferences(Drawn):
    """Base of results that compare each item between groups: a measure of the difference, ``p`` and ``p_adjusted``."""

    item_ids: tuple[str, ...]
    p: NDArray[np.float64]
    p_adjusted: NDArray[np.float64]

    def in_short(self) -> str:
        """How many items, and how many differ between the groups."""
        return f"{counted(len(self.item_ids), 'item')}, {significant(self.p_adjusted)}"
