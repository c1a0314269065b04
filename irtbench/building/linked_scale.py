"""A newly calibrated scale turned into one on the old scale, with the old one's norms and its ancestry."""

from __future__ import annotations

from dataclasses import replace

from irtbench.bank.scale import Scale, ScaleLike, as_scale
from irtbench.building.link_error import line_of, moved_joint_error
from irtbench.building.linking import ScaleLink
from irtbench.data.items import ItemTable


def linked_scale(old: ScaleLike, new: ScaleLike, link: ScaleLink) -> Scale:
    """The items of the new scale on the old one, where the old norms and population hold.

    Key, text, label and group of common items are the old scale's. The provenance has the link and, under ``old`` and
    ``new``, that of both scales. The scale has the error of its line, which scores on it carry, and, where both scales
    have theirs, the joint error of its items, by which the next link has it too.

    Parameters
    ----------
    old, new
        The scales that were linked, or their items.
    link
        What `link_scales` found for them.

    Examples
    --------
    >>> import irtbench
    >>> old = irtbench.ItemParameters.from_difficulty([1.2, 0.9], [-1.0, 1.0])
    >>> new = irtbench.ItemParameters.from_difficulty([1.2, 0.9, 1.0], [-1.5, 0.5, 2.0])
    >>> scale = irtbench.linked_scale(old, new, irtbench.link_scales(old, new))
    >>> scale.table()[["item_id", "difficulty"]].round(3)
      item_id  difficulty
    0   item1        -1.0
    1   item2         1.0
    2   item3         2.5
    """
    old, new = as_scale(old), as_scale(new)
    (figures,) = link.table().astype(object).where(link.table().notna(), None).to_dict("records")
    return replace(
        old,
        items=link.items(new.items),
        details=joined_details(new.items.item_ids, old.details, new.details),
        provenance={
            "link": figures | {"items": list(link.item_ids)},
            "old": dict(old.provenance),
            "new": dict(new.provenance),
        },
        joint_error=moved_joint_error(link, new.items, new.joint_error, old.joint_error)
        if link.joint and old.joint_error is not None and new.joint_error is not None
        else None,
        line=line_of(old, new, link),
    )


def joined_details(item_ids: tuple[str, ...], first: ItemTable, second: ItemTable) -> ItemTable:
    """Details of these items, from the first table that has them."""
    places = {item: (table, k) for table in (second, first) for k, item in enumerate(table.item_ids)}
    found = [places[item] for item in item_ids]
    return ItemTable(
        item_ids,
        tuple(table.key[k] for table, k in found),
        tuple(table.label[k] for table, k in found),
        tuple(table.group[k] for table, k in found),
        tuple(table.text[k] for table, k in found),
        tuple(table.attention[k] for table, k in found),
    )
