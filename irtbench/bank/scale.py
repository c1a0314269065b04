"""A scale: the items that measure one ability, the people it was measured on, and where it comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from irtbench.bank.norms import Norms
from irtbench.bank.scale_line import ScaleLine
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.responses import positions_of
from irtbench.data.shown import Drawn, counted
from irtbench.models.item_parameters import ItemParameters, JointError
from irtbench.models.parameter_table import ParametersLike, as_parameters, demand_no_upper, demand_right_or_wrong
from irtbench.models.quadrature import Quadrature


@dataclass(frozen=True, eq=False)
class Scale(Drawn):
    """One ability: its items, its population and its norm sample.

    Parameters
    ----------
    name
        The scale's name, in the paper a gold label.
    items
        Fitted parameters; at least one item.
    details
        Key, text, group and label of the same items in the same order; none of them an attention check.
    norms
        The norm sample; None where there is none.
    population
        Density of ability that was fitted with the items, the prior of scoring; None for the standard normal.
    provenance
        Where the scale comes from, as plain JSON values: data hash, settings, versions, date, pruning record, seed.
    joint_error
        The sampling error of all items together, by which the scale can be linked to others; None where it is not
        known.
    line
        Of a linked scale, how well it is known where it lies on the base scale; None where it was not linked, or that
        is not known.

    Raises
    ------
    InputError
        If there is no item, ``details`` or ``joint_error`` is about other items, or ``provenance`` holds what JSON
        cannot.
    """

    name: str
    items: ItemParameters
    details: ItemTable
    norms: Norms | None = None
    population: Quadrature | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    joint_error: JointError | None = None
    line: ScaleLine | None = None

    def __post_init__(self) -> None:
        if self.items.n_items == 0:
            raise InputError(f"scale {self.name}: expected at least one item")
        if self.details.item_ids != self.items.item_ids:
            raise InputError(f"scale {self.name}: parameters and details are not about the same items in one order")
        if self.joint_error is not None and self.joint_error.n_items != self.items.n_items:
            raise InputError(f"scale {self.name}: parameters and their joint error are not about the same items")
        if any(self.details.attention):
            raise InputError(f"scale {self.name}: an attention check cannot be an item of a scale")
        try:
            plain = json.loads(json.dumps(dict(self.provenance), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise InputError(f"scale {self.name}: provenance must be plain JSON values: {error}") from None
        object.__setattr__(self, "provenance", plain)

    def select(self, item_ids: Sequence[str]) -> Scale:
        """The scale with these of its items, in this order."""
        items = self.items.select(item_ids)
        error = self.joint_error
        return replace(
            self,
            items=items,
            details=self.details.select(item_ids),
            joint_error=None if error is None else error.select(positions_of(item_ids, self.items.item_ids)),
        )

    def table(self) -> pd.DataFrame:
        """One row an item: its parameters with their standard errors, its key, label, group and text."""
        details = self.details.table().drop(columns=["item_id", "attention"])
        return pd.concat([self.items.table(), details], axis=1)

    def in_short(self) -> str:
        """Name, items and norm sample."""
        sample = "no norm sample" if self.norms is None else f"norm sample of {self.norms.n}"
        return f"{self.name}, {counted(self.items.n_items, 'item')}, {sample}"


#: A scale, or parameters of its items in any form that `as_parameters` takes.
ScaleLike = Scale | ParametersLike


def as_scale(given: ScaleLike, *, categories: bool = False) -> Scale:
    """A scale as it is; item parameters alone as the scale ``all`` of a standard normal population without norms."""
    if isinstance(given, Scale):
        demand_no_upper(given.items)
        if not categories:
            demand_right_or_wrong(given.items)
        return given
    items = as_parameters(given, categories=categories)
    return Scale("all", items, ItemTable.plain(items.item_ids))
