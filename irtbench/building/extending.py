"""New items added to a scale whose own items stay as they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from irtbench.bank.scale import Scale, ScaleLike, as_scale
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.models.item_parameters import ItemKind, ItemParameters
from irtbench.models.parameter_table import ParametersLike, as_parameters


def extended_scale(old: ScaleLike, items: ParametersLike) -> Scale:
    """The scale with the items that it does not have yet; its own, its norms and its population are unchanged.

    Parameters
    ----------
    old
        The scale, or its items.
    items
        Items on its scale, as `fit_model` with the scale's own as anchors finds them; those that the scale has are
        passed over. Where either side has no covariance, the others' is not known either.

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
    old, items = as_scale(old), as_parameters(items)
    added = [item for item in items.item_ids if item not in set(old.items.item_ids)]
    if not added:
        raise InputError("extend: no item is new; expected responses to items that the bank does not have")
    new, plain = items.select(added), ItemTable.plain(added)
    return replace(
        old,
        items=joined(old.items, new),
        joint_error=None,  # of the new items with the old ones it is not known
        details=ItemTable(
            (*old.details.item_ids, *plain.item_ids),
            (*old.details.key, *plain.key),
            (*old.details.label, *plain.label),
            (*old.details.group, *plain.group),
            (*old.details.text, *plain.text),
            (*old.details.attention, *plain.attention),
        ),
    )


def joined(first: ItemParameters, second: ItemParameters) -> ItemParameters:
    """Items of both, the first before the second."""
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
