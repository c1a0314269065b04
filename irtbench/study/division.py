"""Which items go on which scale."""

from __future__ import annotations

from collections.abc import Mapping

from irtbench.config import StudyFile
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.responses import name_first


def divide(items: ItemTable, settings: StudyFile) -> dict[str, tuple[str, ...]]:
    """Items of each scale."""
    if settings.scales.by == "none":
        return {"all": items.scale_items}
    unlabelled = [i for i, label, check in zip(items.item_ids, items.label, items.attention, strict=True)
                  if label is None and not check]  # fmt: skip
    if unlabelled and any(label is not None for label in items.label):
        raise InputError(f"{settings.path}: scales.by: item {unlabelled[0]} has no label")
    return items.scales()


def check_named_items(parts: Mapping[str, tuple[str, ...]], settings: StudyFile) -> None:
    """Refuse settings about items that no scale has.

    Raises
    ------
    InputError
        Naming the first of them.
    """
    known = {item for item_ids in parts.values() for item in item_ids}
    stray = [e.item_id for e in settings.pruning.exclude if e.item_id not in known]
    stray += [item for item in settings.pruning.protect if item not in known]
    if stray:
        raise InputError(f"{settings.path}: pruning: unknown item {name_first(stray)}")
    if stray := sorted(set(settings.model.by_item) - known):
        raise InputError(f"{settings.path}: model.by_item: unknown item {name_first(stray)}")


def check_published(parts: Mapping[str, tuple[str, ...]], settings: StudyFile) -> None:
    """Refuse published figures of a scale that the study does not have.

    Raises
    ------
    InputError
        Naming the scale, and those there are.
    """
    if stray := sorted(set(settings.published.scales) - set(parts)):
        raise InputError(
            f"{settings.path}: published.scales: unknown scale {name_first(stray)}; expected some of "
            f"{name_first(list(parts))}"
        )
