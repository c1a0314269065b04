"""The item table: what is known of each item besides its responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.responses import demand_unique, name_first, positions_of
from irtbench.data.shown import Shown, counted

#: What responses to items outside a bank mean.
UnknownItems = Literal["error", "ignore"]


def unknown_items_error(item_ids: Sequence[str]) -> InputError:
    """Say which items a bank does not know, and what helps."""
    return InputError(
        f"responses: items unknown to the bank: {name_first(item_ids)}; expected its own items, or --unknown-items "
        "ignore (unknown_items='ignore') to leave others out"
    )


@dataclass(frozen=True, eq=False)
class ItemTable(Shown):
    """Items with their right answers and what else is known of them.

    Parameters
    ----------
    item_ids
        Unique item names.
    key
        The right answer of each item, None where there is none (responses already graded).
    label
        The scale an item belongs to (in the paper: its gold label); None for all on one scale.
    group
        Items that belong together (twins, testlet); None where an item stands alone.
    text
        The question as people saw it, for reports; None where not known.
    attention
        Whether the item is an attention check: graded, used for screening, never part of a scale.

    Raises
    ------
    InputError
        If a column's length differs from that of ``item_ids`` or an id is repeated.
    """

    item_ids: tuple[str, ...]
    key: tuple[str | None, ...]
    label: tuple[str | None, ...]
    group: tuple[str | None, ...]
    text: tuple[str | None, ...]
    attention: tuple[bool, ...]

    def __post_init__(self) -> None:
        for name in ("key", "label", "group", "text", "attention"):
            if len(getattr(self, name)) != len(self.item_ids):
                raise InputError(f"items: {name} has {len(getattr(self, name))} values for {len(self.item_ids)} items")
        demand_unique(self.item_ids, "items: item_id")

    @property
    def n_items(self) -> int:
        """Number of items, attention checks included."""
        return len(self.item_ids)

    @property
    def scale_items(self) -> tuple[str, ...]:
        """Items that are not attention checks."""
        return tuple(item for item, check in zip(self.item_ids, self.attention, strict=True) if not check)

    @property
    def attention_items(self) -> tuple[str, ...]:
        """Items that are attention checks."""
        return tuple(item for item, check in zip(self.item_ids, self.attention, strict=True) if check)

    def scales(self) -> dict[str, tuple[str, ...]]:
        """Items of each label in order of appearance, attention checks left out; without labels, one scale ``all``."""
        scales: dict[str, list[str]] = {}
        for item, label, check in zip(self.item_ids, self.label, self.attention, strict=True):
            if not check:
                scales.setdefault("all" if label is None else label, []).append(item)
        return {name: tuple(items) for name, items in scales.items()}

    def select(self, item_ids: Sequence[str]) -> ItemTable:
        """Keep these items, in this order.

        Raises
        ------
        InputError
            If an item is not in the table.
        """
        rows = positions_of(item_ids, self.item_ids, "items: unknown item {}")
        return ItemTable(
            tuple(item_ids),
            tuple(self.key[k] for k in rows),
            tuple(self.label[k] for k in rows),
            tuple(self.group[k] for k in rows),
            tuple(self.text[k] for k in rows),
            tuple(self.attention[k] for k in rows),
        )

    @classmethod
    def plain(cls, item_ids: Sequence[str]) -> ItemTable:
        """Items of which nothing but the name is known."""
        nothing = (None,) * len(item_ids)
        return cls(tuple(item_ids), nothing, nothing, nothing, nothing, (False,) * len(item_ids))

    def table(self) -> pd.DataFrame:
        """One row an item, the columns that `read_items` reads."""
        columns = ("key", "label", "group", "text")
        return pd.DataFrame(
            {"item_id": self.item_ids}
            | {name: pd.Series(getattr(self, name), dtype=object) for name in columns}
            | {"attention": np.array(self.attention, dtype=np.int64)}
        )

    def in_short(self) -> str:
        """How many items, attention checks and scales."""
        checks = f"{counted(sum(self.attention), 'attention check')} among them" if any(self.attention) else ""
        labels = sorted({label for label in self.label if label is not None})
        scales = f"labels {name_first(labels)}" if labels else ""
        return ", ".join(part for part in (counted(self.n_items, "item"), checks, scales) if part)
