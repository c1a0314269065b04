"""A scale with more items: new ones next to its own, or those of another scale that a link moves, with its error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from irtbench.bank.scale import Scale, ScaleLike, ScaleLine, as_scale
from irtbench.building.linking import ScaleLink, in_one_form
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.responses import positions_of
from irtbench.models.item_parameters import ItemKind, ItemParameters, JointError

Array = NDArray[np.float64]


def moved_joint_error(link: ScaleLink, new: ItemParameters, error: JointError, old: JointError) -> JointError:
    """Joint error of the new items on the old scale: their own, that of A and B, and what both have in common.

    With T the derivatives of the moved (a / A, d - a B / A, c) by (a, d, c), P those by (A, B), S the covariance of the
    new items, V that of (A, B) and C = Cov((A, B), items), by the derivatives of A and B by the common items:

        T S T' + P V P' + T C' P' + P C T'.

    So the next link, which takes these items for its old ones, has the errors of all links before it, and a
    calibration that took part in two of them counts as it should: what moved its scale as a whole cancels.
    """
    assert link.by_new is not None
    common = positions_of(link.item_ids, new.item_ids)
    with_line = np.einsum("kma,manc->knc", link.by_new, error.covariance[common])  # C, shape (2, n_items, 3)
    a, slope, intercept = new.discrimination, link.slope, link.intercept
    by_line = np.zeros((new.n_items, 3, 2))
    by_line[:, 0, 0] = -a / slope**2
    by_line[:, 1, 0], by_line[:, 1, 1] = a * intercept / slope**2, -a / slope
    across = np.einsum("jak,kmb,cb->jamc", by_line, with_line, link.turn)
    covariance = np.einsum("ab,jbmc,dc->jamd", link.turn, error.covariance, link.turn)
    covariance += np.einsum("jak,kl,mbl->jamb", by_line, link.covariance, by_line)
    covariance += across + across.transpose(2, 3, 0, 1)
    return JointError(covariance, old.location, old.unit)


def covariance_as_fitted(link: ScaleLink, old: JointError, new: JointError) -> Array:
    """Covariance of (A, B) between the two scales as they were fitted, from that between their populations.

    Fitted scales have their respondents' mean m and standard deviation s for zero and unit, so that the line between
    them is A s_new / s_old and (A m_new + B - m_old) / s_old. What these vary by the joint errors hold; it is no error
    of a score on the scale as it was fitted, and is subtracted.
    """
    a, b = link.slope, link.intercept
    by_samples = np.array(
        [
            [a**2 * (new.unit + old.unit), a * b * old.unit],
            [a * b * old.unit, a**2 * new.location + old.location + b**2 * old.unit],
        ]
    )
    values, vectors = np.linalg.eigh(link.covariance - by_samples)
    return np.asarray((vectors * values.clip(0)) @ vectors.T)


def line_of(old: Scale, new: Scale, link: ScaleLink) -> ScaleLine | None:
    """The line of the scale that a link makes, with the error of all links back to the base; None if not known.

    Where the link rests on the joint errors of both scales, that of the old line is in its covariance
    (`moved_joint_error`). Without them it is added as an independent one: with dA_1 and dB_1 of the old line A turns
    into A + dA_1 A / A_1, and B into B + dA_1 (B - B_1) / A_1 + dB_1.
    """
    generation = 1 if old.line is None else old.line.generation + 1
    if not np.isfinite(link.covariance).all():
        return None
    if link.joint and old.joint_error is not None and new.joint_error is not None:
        covariance = covariance_as_fitted(link, old.joint_error, new.joint_error)
    elif old.line is None:
        if "link" in old.provenance:  # linked, by items whose covariance was not known
            return None
        covariance = link.covariance
    else:
        first = old.line
        by_first = np.array([[link.slope / first.slope, 0.0], [(link.intercept - first.intercept) / first.slope, 1.0]])
        covariance = link.covariance + by_first @ first.covariance @ by_first.T
    return ScaleLine(link.slope, link.intercept, covariance, generation)


def ancestry_of(provenance: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The links of a scale, the latest first: the line to the base scale with its errors, and the bank linked to."""
    found, at = [], provenance
    while at:
        old = at.get("old", {})
        if "link" in at:
            figures = {name: value for name, value in at["link"].items() if name != "items"}
            found.append(figures | {"bank": old.get("bank")})
        at = old
    return found


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
    new = items.select(added)
    return replace(
        old,
        items=joined(old.items, new),
        joint_error=extended_joint_error(old, found, added),
        details=joined_details((*old.items.item_ids, *added), old.details, ItemTable.plain(added)),
    )


def extended_joint_error(old: Scale, found: Scale, added: Sequence[str]) -> JointError | None:
    """Joint error of the old items and the new ones x; None where that of either scale is not known.

    x errs with the old items through the anchors y alone, so that with any others o

        Cov(x, o) = Cov(x, y) Cov(y)^-1 Cov(y, o).
    """
    if old.joint_error is None or found.joint_error is None or found.items.kind is None:
        return None
    fixed = {item for item, kind in zip(found.items.item_ids, found.items.kind, strict=True) if kind == "fixed"}
    anchors = [item for item in old.items.item_ids if item in fixed]
    in_old, in_found = ({item: k for k, item in enumerate(scale.items.item_ids)} for scale in (old, found))
    own = found.joint_error.select([in_found[item] for item in (*anchors, *added)]).covariance
    n_new, n_anchors = 3 * len(added), 3 * len(anchors)
    flat = own.reshape(n_anchors + n_new, -1)
    of_old = old.joint_error.covariance.reshape(3 * old.items.n_items, -1)
    rows = (3 * np.array([in_old[item] for item in anchors])[:, None] + np.arange(3)).flatten()
    across = flat[n_anchors:, :n_anchors] @ np.linalg.pinv(of_old[np.ix_(rows, rows)], hermitian=True) @ of_old[rows]
    n = old.items.n_items + len(added)
    covariance = np.block([[of_old, across.T], [across, flat[n_anchors:, n_anchors:]]]).reshape(n, 3, n, 3)
    return JointError(covariance, old.joint_error.location, old.joint_error.unit)


def joined(first: ItemParameters, second: ItemParameters) -> ItemParameters:
    """Items of both, the first before the second; in categories where those of one are."""
    first, second = in_one_form(first, second)
    if first.categories is not None and second.categories is not None:
        return first.categories.joined(second.categories).as_items()
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
