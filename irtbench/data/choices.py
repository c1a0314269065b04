"""Items with options to choose from: their texts, and which of them is right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import demand_unique
from irtbench.data.shown import Shown


@dataclass(frozen=True, eq=False)
class ChoiceItems(Shown):
    """Multiple-choice items.

    Parameters
    ----------
    item_ids
        Unique item names.
    options
        The texts to choose from, at least two for each item; items may differ in how many.
    right
        Position of the right option of each item.
    group
        Items that belong together (twins, one passage); None where an item stands alone.

    Raises
    ------
    InputError
        If lengths differ, an id is repeated, an item has fewer than two options or an empty one,
        or the right one is not among them.
    """

    item_ids: tuple[str, ...]
    options: tuple[tuple[str, ...], ...]
    right: tuple[int, ...]
    group: tuple[str | None, ...]

    def __post_init__(self) -> None:
        for name in ("options", "right", "group"):
            if len(getattr(self, name)) != self.n_items:
                raise InputError(f"choices: {name} has {len(getattr(self, name))} values for {self.n_items} items")
        demand_unique(self.item_ids, "choices: item_id")
        for item, options, right in zip(self.item_ids, self.options, self.right, strict=True):
            if len(options) < 2:
                raise InputError(f"choices: item {item}: expected at least 2 options but got {len(options)}")
            if any(not text.strip() for text in options):
                raise InputError(f"choices: item {item}: expected a text for every option but one is empty")
            if not 0 <= right < len(options):
                raise InputError(f"choices: item {item}: the right option is {right}; expected 0 to {len(options) - 1}")

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @property
    def n_options(self) -> NDArray[np.int64]:
        """Options of each item, shape (n_items,)."""
        return np.array([len(options) for options in self.options], dtype=np.int64)

    def table(self) -> pd.DataFrame:
        """One row an item: its options, empty where it has fewer than others, and the right one."""
        return pd.DataFrame(
            {"item_id": self.item_ids}
            | {
                f"option_{k + 1}": [options[k] if k < len(options) else "" for options in self.options]
                for k in range(max(self.n_options, default=0))
            }
            | {"gold": [options[right] for options, right in zip(self.options, self.right, strict=True)]}
        )
