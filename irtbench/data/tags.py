"""What kinds of items there are: each item has one tag, several or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import demand_unique, name_first, positions_of
from irtbench.data.shown import Shown, counted


@dataclass(frozen=True, eq=False)
class ItemTags(Shown):
    """Tags of items, such as the kinds of knowledge that a question needs.

    Parameters
    ----------
    item_ids
        Unique item names.
    tags
        The tags of each item, each once; empty where an item has none.

    Raises
    ------
    InputError
        If the lengths differ, an item is repeated, or it has a tag twice.
    """

    item_ids: tuple[str, ...]
    tags: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if len(self.tags) != len(self.item_ids):
            raise InputError(f"tags: {len(self.tags)} entries for {len(self.item_ids)} items")
        demand_unique(self.item_ids, "tags: item_id")
        for item, given in zip(self.item_ids, self.tags, strict=True):
            if len(set(given)) < len(given):
                raise InputError(f"tags: item {item} has a tag twice: {name_first(given)}")

    @property
    def names(self) -> tuple[str, ...]:
        """All tags that occur, sorted."""
        return tuple(sorted({tag for given in self.tags for tag in given}))

    def has(self, tag: str) -> NDArray[np.bool_]:
        """Whether each item has this tag, shape (n_items,)."""
        return np.array([tag in given for given in self.tags], dtype=np.bool_)

    def select(self, item_ids: Sequence[str]) -> ItemTags:
        """Keep these items, in this order.

        Raises
        ------
        InputError
            If an item is not known.
        """
        refusal = "tags: unknown item {}; expected a row for it in the table of items"
        return ItemTags(tuple(item_ids), tuple(self.tags[k] for k in positions_of(item_ids, self.item_ids, refusal)))

    def table(self) -> pd.DataFrame:
        """One row an item: its tags, parted by semicolons."""
        return pd.DataFrame({"item_id": self.item_ids, "tags": [";".join(given) for given in self.tags]})

    def in_short(self) -> str:
        """How many items, and the tags."""
        return f"{counted(len(self.item_ids), 'item')}, tags {name_first(self.names)}"
