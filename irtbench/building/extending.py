"""New items added to a scale whose own items stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from irtbench.bank.scale import Scale, ScaleLike, as_scale
from irtbench.building.link_error import line_of, moved_joint_error
from irtbench.building.linking import ScaleLink, in_one_form
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.models.item_parameters import ItemKind, ItemParameters, JointError


def extended_scale(old: ScaleLike, items: ScaleLike) -> Scale:
    """The scale with the items that it does not have yet; its own, its norms and its population are unchanged.

    Parameters
    ----------
    old
        The scale, or its items.
    items
        Items on its scale, or a scale of them, as `fit_model` with the old one as anchors finds them; those that the
        old scale has are passed over. Where either side has no covariance, the others' is not known either. The joint
        error of all is known where both scales have theirs.

    Raises
    ------
    InputError
        If none of the items is new.

    Examples
    --------
    >>> import irtbench
    >>> old = irtbench.ItemParameters.from_difficulty([1.2, 0.9], [-1.0, 1.0], item_ids=["i1", "i2"])
    >>> more = irtbench.ItemParameters.from_difficulty([0.9, 1.1], [1.1, 0.5], item_ids=["i2", "i3"])
    >>> irtbench.extended_scale(old, more).table()[["item_id", "difficulty"]]
      item_id  difficulty
    0      i1        -1.0
    1      i2         1.0
    2      i3         0.5
    """
    old, found = as_scale(old, categories=True), as_scale(items, categories=True)
    items = found.items
    added = [item for item in items.item_ids if item not in set(old.items.item_ids)]
    if not added:
        raise InputError("extend: no item is new; expected responses to items that the bank does not have")
    new, plain = items.select(added), ItemTable.plain(added)
    return replace(
        old,
        items=joined(old.items, new),
        joint_error=extended_joint_error(old, found, added),
        details=ItemTable(
            (*old.details.item_ids, *plain.item_ids),
            (*old.details.key, *plain.key),
            (*old.details.label, *plain.label),
            (*old.details.group, *plain.group),
            (*old.details.text, *plain.text),
            (*old.details.attention, *plain.attention),
        ),
    )


def extended_joint_error(old: Scale, found: Scale, added: Sequence[str]) -> JointError | None:
    """Joint error of the old items and the new ones x; None where that of either scale is not known.

    x errs with the old items through the anchors y alone, so that with any others o

        Cov(x, o) = Cov(x, y) Cov(y)^-1 Cov(y, o).
    """
    if old.joint_error is None or found.joint_error is None or found.items.kind is None:
        return None
    held = {item for item, kind in zip(found.items.item_ids, found.items.kind, strict=True) if kind == "fixed"}
    anchors = [item for item in old.items.item_ids if item in held]
    in_old, in_found = ({item: k for k, item in enumerate(scale.items.item_ids)} for scale in (old, found))
    own = found.joint_error.select([in_found[item] for item in (*anchors, *added)]).covariance
    n_new, n_held = 3 * len(added), 3 * len(anchors)
    flat = own.reshape(n_held + n_new, -1)
    of_old = old.joint_error.covariance.reshape(3 * old.items.n_items, -1)
    rows = (3 * np.array([in_old[item] for item in anchors])[:, None] + np.arange(3)).flatten()
    across = flat[n_held:, :n_held] @ np.linalg.pinv(of_old[np.ix_(rows, rows)], hermitian=True) @ of_old[rows]
    n = old.items.n_items + len(added)
    covariance = np.block([[of_old, across.T], [across, flat[n_held:, n_held:]]]).reshape(n, 3, n, 3)
    return JointError(covariance, old.joint_error.location, old.joint_error.unit)


def joined(first: ItemParameters, second: ItemParameters) -> ItemParameters:
    """Items of both, the first before the second; in categories where those of one are."""
    first, second = in_one_form(first, second)
    if first.categories is not None and second.categories is not None:
        return first.categories.beside(second.categories).as_items()
    unsaid: ItemKind = "own"
    kinds = [kind for part in (first, second) for kind in part.kind or (unsaid,) * part.n_items]
    known = first.covariance is not None and second.covariance is not None
    return ItemParameters(
        (*first.item_ids, *second.item_ids),
        np.concatenate([first.discrimination, second.discrimination]),
        np.concatenate([first.intercept, second.intercept]),
        np.concatenate([first.guessing, second.guessing]),
        np.concatenate([first.guessing_estimated, second.guessing_estimated]),
        np.concatenate([np.asarray(part.covariance) for part in (first, second)]) if known else None,
        tuple(kinds),
    )


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
    old, new = as_scale(old, categories=True), as_scale(new, categories=True)
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
