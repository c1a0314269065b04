"""Items that a bank's own study left out: what is known of them is that they do not count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from irtbench.bank.scale import Scale
from irtbench.data.items import ItemTable

#: Fields of a scale's provenance: the removals of its pruning, and other items of the study that are on no scale.
PRUNING, NOT_ON_A_SCALE = "pruning", "items_on_no_scale"


@dataclass(frozen=True)
class LeftOut:
    """An item that a study asked and no scale of its bank has.

    Parameters
    ----------
    item_id
        The item.
    reason
        ``attention_check``, ``scale_rejected``, or the reason of its removal as in pruning.csv.
    scale
        The scale it was removed from, or that was rejected; None for an attention check.
    """

    item_id: str
    reason: str
    scale: str | None = None


def on_no_scale(items: ItemTable, rejected: Mapping[str, Sequence[str]]) -> list[dict[str, str | None]]:
    """The attention checks of a study and the items of its rejected scales, as provenance holds them."""
    found = [LeftOut(item, "attention_check") for item in items.attention_items]
    found += [LeftOut(item, "scale_rejected", name) for name, item_ids in rejected.items() for item in item_ids]
    return [vars(item) for item in found]


def items_left_out(scales: Sequence[Scale]) -> dict[str, LeftOut]:
    """What the provenance of the scales says of items that none of them has, by the item's name."""
    found: dict[str, LeftOut] = {}
    for scale in scales:
        for entry in _entries(scale.provenance.get(PRUNING)):
            found[entry["item_id"]] = LeftOut(entry["item_id"], entry["reason"], scale.name)
        for entry in _entries(scale.provenance.get(NOT_ON_A_SCALE)):
            where = entry.get("scale")
            found.setdefault(entry["item_id"], LeftOut(entry["item_id"], entry["reason"], where))
    kept = {item for scale in scales for item in scale.items.item_ids}
    return {item: why for item, why in found.items() if item not in kept}


def among(left_out: Mapping[str, LeftOut], item_ids: Iterable[str]) -> tuple[LeftOut, ...]:
    """Those of the items that were left out, in their order."""
    return tuple(left_out[item] for item in dict.fromkeys(item_ids) if item in left_out)


def _entries(record: Any) -> list[Mapping[str, Any]]:
    """Entries that name an item and a reason; provenance is plain JSON that others may have written."""
    entries = record if isinstance(record, list) else []
    return [
        entry
        for entry in entries
        if isinstance(entry, Mapping) and isinstance(entry.get("item_id"), str) and isinstance(entry.get("reason"), str)
    ]
