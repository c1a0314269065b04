"""What is wanted of a form, and the items that it is chosen from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Literal, TypedDict

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.bank.bank import BankLike, item_ids_of, scales_of
from irtbench.bank.scale import Scale
from irtbench.data.checked_settings import Count, Inside, Range, Settings, Share
from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.responses import name_first, positions_of
from irtbench.models.curves import information

Positive = Annotated[float, Range(above=0)]
AtLeastOne = Annotated[int, Range(at_least=1)]

#: What a form of a length is best for: information, the least over the theta points relative to the shape, or the
#: population's mean; or the accuracy on all items, which `predict_accuracy` then tells.
Objective = Literal["maximin", "population", "accuracy"]


@dataclass(frozen=True)
class Limit(Settings):
    """How many items of a form have a value in a column; cells with several values part them by semicolons.

    Parameters
    ----------
    column, value
        Which items: those with this value in this column of the bank (``scale, label, group``) or of the items' table.
    at_least
        How many of them a form must have; None for no limit.
    at_most
        How many it may have; None for no limit.
    least_share, most_share
        The same two limits as shares of the form's items.

    Raises
    ------
    InputError
        If no limit is given, or the least is above the most.
    """

    column: str
    value: str
    at_least: Count | None = None
    at_most: Count | None = None
    least_share: Share | None = None
    most_share: Share | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        pairs = ((self.at_least, self.at_most), (self.least_share, self.most_share))
        refuse_any((holds, f"limit {self.column}={self.value}: {why}") for holds, why in (
            (all(end is None for pair in pairs for end in pair),
             "expected at_least, at_most, least_share or most_share"),
            *((low > high, f"at least {low:g} but at most {high:g}")
              for low, high in pairs if low is not None and high is not None),
        ))  # fmt: skip


@dataclass(frozen=True)
class FormWishes(Settings):
    """What a form, or several at once, must be like; exactly one of ``length, se, reliability`` is given.

    Parameters
    ----------
    length
        Items of each form, which then gets most information.
    se
        The shortest form whose standard error of theta, 1 / sqrt(I), is no larger at any of the points ``theta``, on
        every scale.
    reliability
        The shortest form of this marginal reliability over the population, on every scale.
    theta
        Abilities at which information is asked for.
    shape
        Information wanted at these points relative to each other; empty for the same at all.
    objective
        What most information is: ``maximin``, the least over the points ``theta`` relative to ``shape``; or its mean
        over the ``population``. Or, in its place, ``accuracy``: items chosen one by one that tell the accuracy on all
        items; with ``length, required, forbidden`` alone.
    limits
        Numbers or shares of items by the value of a column.
    enemies
        Sets of items of which a form has one at most.
    enemies_by
        A column: items of the same value in it are enemies (``group``: twins, items of one passage).
    required
        Items that every form has.
    forbidden
        Items that no form has.
    other_forms
        Forms in use already.
    most_overlap
        Items that a form may share with each of the other forms, and with each of those made at once; None for no
        limit.
    most_uses
        Forms that an item may be in, those in use counted; None for no limit, but 1 for several forms at once
        without ``most_overlap``.
    forms
        How many forms at once, of the same length and with information as alike as can be.
    gap
        How far, relative to its value, the objective may be from the best there can be; 0 for the best.
    seconds
        After which the best found is taken, with its gap; None for 300, or 20 for several forms at once: they are found
        soon, but that none are better is hard to prove. None for 40 where their length is to be found, too, in half of
        the time.

    Raises
    ------
    InputError
        If wishes contradict each other, or a value is none that the field can have.
    """

    length: AtLeastOne | None = None
    se: Positive | None = None
    reliability: Inside | None = None
    theta: tuple[float, ...] = (-1.0, -0.5, 0.0, 0.5, 1.0)
    shape: tuple[Positive, ...] = ()
    objective: Objective = "maximin"
    limits: tuple[Limit, ...] = ()
    enemies: tuple[tuple[str, ...], ...] = ()
    enemies_by: str | None = None
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    other_forms: tuple[tuple[str, ...], ...] = ()
    most_overlap: Count | None = None
    most_uses: AtLeastOne | None = None
    forms: AtLeastOne = 1
    gap: Annotated[float, Range(at_least=0, below=1)] = 0.0
    seconds: Positive | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in ("length", "se", "reliability") if getattr(self, name) is not None]
        changed = [one.name for one in fields(self) if getattr(self, one.name) != one.default]
        others = [name for name in changed if name not in ("length", "required", "forbidden", "objective")]
        refuse_any((holds, f"form: {why}") for holds, why in (
            (len(given) != 1, f"expected one of length, se, reliability but got {' and '.join(given) or 'none'}"),
            (not self.theta, "expected at least one theta"),
            (self.shape and len(self.shape) != len(self.theta),
             f"shape has {len(self.shape)} values for {len(self.theta)} of theta"),
            (self.se is not None and self.shape,
             "shape goes with length; a standard error is wanted at every theta alike"),
            *((True, f"item {item} is both required and forbidden")
              for item in sorted(set(self.required) & set(self.forbidden))),
            (any(len(set(group)) < 2 for group in self.enemies),
             "enemies: expected at least two different items in each set"),
            (self.objective == "accuracy" and (self.length is None or others),
             "for accuracy goes with length, required and forbidden alone but got "
             f"{others[0] if others else 'no length'}"),
        ))  # fmt: skip

    @property
    def seconds_allowed(self) -> float:
        """Those given, or the default."""
        return self.seconds or (300.0 if self.forms == 1 else 20.0 if self.length else 40.0)

    @property
    def wanted(self) -> str:
        """The length or precision wished for: ``length 30``."""
        return next(f"{name} {value:g}" for name in ("length", "se", "reliability")
                    if (value := getattr(self, name)) is not None)  # fmt: skip


class FormKeywords(TypedDict, total=False):
    """`FormWishes` as keywords."""

    length: AtLeastOne | None
    se: Positive | None
    reliability: Inside | None
    theta: tuple[float, ...]
    shape: tuple[Positive, ...]
    objective: Objective
    limits: tuple[Limit, ...]
    enemies: tuple[tuple[str, ...], ...]
    enemies_by: str | None
    required: tuple[str, ...]
    forbidden: tuple[str, ...]
    other_forms: tuple[tuple[str, ...], ...]
    most_overlap: Count | None
    most_uses: AtLeastOne | None
    forms: AtLeastOne
    gap: Annotated[float, Range(at_least=0, below=1)]
    seconds: Positive | None


@dataclass(frozen=True, eq=False)
class ItemPool:
    """Items to choose from."""

    scales: tuple[Scale, ...]
    item_ids: tuple[str, ...]
    columns: pd.DataFrame

    @property
    def n_items(self) -> int:
        """How many."""
        return len(self.item_ids)

    def positions(self, item_ids: tuple[str, ...], what: str = "") -> NDArray[np.intp]:
        """Places of these items; one that is not in the pool is refused, by what they are."""
        refusal = f"form: {what}: item {{}} is not in the bank; expected its items"
        return positions_of(item_ids, self.item_ids, refusal)

    def spread(self, values: NDArray[np.float64], scale: Scale) -> NDArray[np.float64]:
        """Values of the items of a scale, shape (n, n_items of the scale), as those of all items; 0 for others."""
        wide = np.zeros((len(values), self.n_items))
        wide[:, self.positions(scale.items.item_ids)] = values
        return wide

    def information(self, theta: NDArray[np.float64], scale: Scale) -> NDArray[np.float64]:
        """Information of each item on a scale, shape (n_theta, n_items)."""
        return self.spread(information(theta, scale.items), scale)

    def has(self, column: str, value: str) -> NDArray[np.bool_]:
        """Whether each item has this value in the column, shape (n_items,)."""
        values = [set(cell.split(";")) for cell in self.column(column)]
        found = np.array([value in cell for cell in values], dtype=np.bool_)
        if not found.any():
            known = sorted({one for cell in values for one in cell if one})
            raise InputError(f"form: no item has {column}={value}; column {column} has: {name_first(known)}")
        return found

    def column(self, name: str) -> list[str]:
        """The texts of a column, empty where nothing is known."""
        if name not in self.columns:
            raise InputError(
                f"form: no column {name} of the items; there is: {name_first(list(self.columns), most=12)}"
            )
        return self.columns[name].tolist()


def make_pool(bank: BankLike, columns: pd.DataFrame | None) -> ItemPool:
    """The items of a bank, with what it and a table say of each."""
    scales = scales_of(bank)
    rows = pd.concat([scale.details.table().assign(scale=scale.name) for scale in scales])
    by_item = rows.groupby("item_id", sort=False)
    known = by_item["scale"].agg(";".join).to_frame()
    for name in ("key", "label", "group"):
        if rows[name].notna().any():
            known[name] = by_item[name].last().fillna("")
    tables = [bank] if isinstance(bank, pd.DataFrame) and "item_id" in bank else []
    for table in [*tables, *([] if columns is None else [columns])]:
        known = _joined(known, table)
    return ItemPool(scales, item_ids_of(bank), known)


def _joined(known: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    if "item_id" not in table:
        raise InputError(f"form: table of items: column item_id missing; it has: {name_first(list(table.columns))}")
    names = table["item_id"].astype(str)
    if names.duplicated().any():
        raise InputError(f"form: table of items: item {names[names.duplicated()].iloc[0]} is there twice")
    there = positions_of(list(known.index), list(names), "form: table of items: no row for item {}")
    texts = table.drop(columns="item_id").iloc[there]
    texts = texts.astype(object).where(texts.notna(), "").astype(str)
    return known.assign(**{str(name): texts[name].to_numpy() for name in texts})
