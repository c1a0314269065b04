"""What is known of items besides their responses: keys, groups and texts, features, tags, options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError, refuse_any, refuse_first
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


def demand_one_each(what: str, of_items: ItemTable | ItemTags | ChoiceItems, *names: str) -> None:
    """Refuse items of which one comes twice, or columns without a value for each of them."""
    n = len(of_items.item_ids)
    for name in names:
        if len(getattr(of_items, name)) != n:
            raise InputError(f"{what}: {name} has {len(getattr(of_items, name))} values for {n} items")
    demand_unique(of_items.item_ids, f"{what}: item_id")


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
        Items that belong together (twins, testlet); None where an item is alone.
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
        demand_one_each("items", self, "key", "label", "group", "text", "attention")

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
        demand_one_each("items", self, "tags")
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


@dataclass(frozen=True, eq=False)
class ChoiceItems(Shown):
    """Multiple-choice items.

    Parameters
    ----------
    item_ids
        Unique item names.
    options
        The texts to choose from, at least two for each item; items may differ in how many.
    right
        Position of the right option of each item.
    group
        Items that belong together (twins, one passage); None where an item is alone.

    Raises
    ------
    InputError
        If lengths differ, an id is repeated, an item has fewer than two options or an empty one,
        or the right one is not among them.
    """

    item_ids: tuple[str, ...]
    options: tuple[tuple[str, ...], ...]
    right: tuple[int, ...]
    group: tuple[str | None, ...]

    def __post_init__(self) -> None:
        demand_one_each("choices", self, "options", "right", "group")
        for item, options, right in zip(self.item_ids, self.options, self.right, strict=True):
            refuse_any((holds, f"choices: item {item}: {why}") for holds, why in (
                (len(options) < 2, f"expected at least 2 options but got {len(options)}"),
                (any(not text.strip() for text in options), "expected a text for every option but one is empty"),
                (not 0 <= right < len(options), f"the right option is {right}; expected 0 to {len(options) - 1}"),
            ))  # fmt: skip

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @property
    def n_options(self) -> NDArray[np.int64]:
        """Options of each item, shape (n_items,)."""
        return np.array([len(options) for options in self.options], dtype=np.int64)

    def table(self) -> pd.DataFrame:
        """One row an item: its options, empty where it has fewer than others, and the right one."""
        return pd.DataFrame(
            {"item_id": self.item_ids}
            | {
                f"option_{k + 1}": [options[k] if k < len(options) else "" for options in self.options]
                for k in range(max(self.n_options, default=0))
            }
            | {"gold": [options[right] for options, right in zip(self.options, self.right, strict=True)]}
        )


MOST = 1e50  # size of a feature, whose squares are added up


@dataclass(frozen=True, eq=False)
class ItemFeatures(Shown):
    """Features of items as numbers.

    Parameters
    ----------
    item_ids
        Unique item names.
    names
        Of the features.
    values
        Shape (n_items, n_features), all finite.

    Raises
    ------
    InputError
        If shapes differ, a name is repeated, there is no feature, or a value is not finite, or of more than
        1e50 in size.
    """

    item_ids: tuple[str, ...]
    names: tuple[str, ...]
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.shape != (len(self.item_ids), len(self.names)):
            raise InputError(
                f"features: values of shape {values.shape} for {len(self.item_ids)} items, {len(self.names)} features"
            )
        demand_unique(self.item_ids, "features: item_id")
        demand_unique(self.names, "features: feature")
        if not self.names:
            raise InputError("features: no feature; expected a column besides item_id")
        refuse_first(
            ~np.isfinite(values),
            lambda item, feature: (
                f"features: {self.names[feature]} of item {self.item_ids[item]} is missing or not finite; "
                "expected a number in every row"
            ),
        )
        refuse_first(
            np.abs(values) > MOST,
            lambda item, feature: (
                f"features: {self.names[feature]} of item {self.item_ids[item]} is {values[item, feature]:g}; expected "
                f"at most {MOST:g} in size"
            ),
        )
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> ItemFeatures:
        """A row an item: ``item_id`` and a column a feature.

        Numbers, true and false are taken as they are. A column of texts becomes a feature of 1 and 0 for each text but
        the first in alphabetical order, which the others are compared with, named ``column=text``.

        Raises
        ------
        InputError
            If there is no ``item_id``, a field is empty, or as the class.

        Examples
        --------
        >>> import pandas as pd
        >>> import irtbench
        >>> frame = pd.DataFrame({"item_id": ["q1", "q2", "q3"], "length": [4, 9, 7], "topic": ["art", "law", "art"]})
        >>> irtbench.ItemFeatures.from_frame(frame).table()
          item_id  length  topic=law
        0      q1     4.0        0.0
        1      q2     9.0        1.0
        2      q3     7.0        0.0
        """
        if "item_id" not in frame:
            raise InputError(f"features: column item_id missing; there are {name_first(list(frame.columns))}")
        columns: dict[str, Any] = {}
        for name in frame.columns.drop("item_id"):
            column = frame[name]
            refuse_first(
                (column.isna() | (column.astype(str).str.strip() == "")).to_numpy(),
                lambda k, name=name: (
                    f"features: {name} of item {frame['item_id'].iloc[k]} is empty; expected a value in every row"
                ),
            )
            numbers = cls.numbers_of(column)
            kinds = pd.get_dummies(column.astype(str), prefix=str(name), prefix_sep="=", drop_first=True)
            columns |= dict(kinds) if numbers is None else {str(name): numbers}
        values = np.stack(list(columns.values()), axis=1) if columns else np.empty((len(frame), 0))
        return cls(tuple(frame["item_id"].astype(str)), tuple(columns), values)

    @staticmethod
    def numbers_of(column: pd.Series) -> NDArray[np.float64] | None:
        """A column as numbers, true and false as 1 and 0; None where a field is neither."""
        texts = column.astype(str).str.strip().str.lower().replace({"true": "1", "false": "0"})
        numbers = pd.to_numeric(texts, errors="coerce")
        return numbers.to_numpy(dtype=np.float64) if numbers.notna().all() else None

    def select(self, item_ids: Sequence[str]) -> ItemFeatures:
        """Keep these items, in this order.

        Raises
        ------
        InputError
            If an item has no features.
        """
        rows = positions_of(item_ids, self.item_ids, "features: no row for item {}")
        return ItemFeatures(tuple(item_ids), self.names, self.values[rows])

    def table(self) -> pd.DataFrame:
        """One row an item."""
        return pd.DataFrame({"item_id": self.item_ids} | dict(zip(self.names, self.values.T, strict=True)))

    def in_short(self) -> str:
        """How many items, and the features."""
        return f"{counted(len(self.item_ids), 'item')}, {counted(len(self.names), 'feature')}: {name_first(self.names)}"
