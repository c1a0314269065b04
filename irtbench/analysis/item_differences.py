"""What the results of item bias have in common: a row an item, which is drawn."""

from __future__ import annotations

from abc import abstractmethod

import pandas as pd

from irtbench.data.shown import Drawn


class ItemDifferences(Drawn):
    """Base of results that compare each item between groups."""

    @abstractmethod
    def table(self) -> pd.DataFrame:
        """One row an item: a measure of its difference, ``p`` and ``p_adjusted``."""
