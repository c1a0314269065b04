"""The item table from a file: key, label, group, text and attention checks, from the columns the user names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.readers.column_names import likely_column
from irtbench.data.readers.table import MISSING, demand_columns, demand_filled, field_places, read_table, to_responses
from irtbench.data.responses import name_first

#: The columns in which each property is looked for, in this order, unless the user names one.
COLUMNS_OF_ITEMS = {
    "item_id": ("item_id",),
    "key": ("key", "gold", "true_label", "gold_label", "ground_truth", "agg_label"),
    "label": ("label",),
    "group": ("group", "item_family"),
    "text": ("text", "question", "sentence"),
    "attention": ("attention",),
}


def read_items(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    where: Mapping[str, str] | None = None,
) -> ItemTable:
    r"""Read the item table.

    Parameters
    ----------
    path
        A CSV or Parquet file with a row for each item.
    columns
        The file's column for any of ``item_id, key, label, group, text, attention``. The others are taken, if they
        are there, from a column of that name; key also from ``gold``, ``true_label``,
        ``gold_label``, ``ground_truth`` or crowd-kit's ``agg_label``, group from ``item_family``, text from
        ``question`` or ``sentence``. Empty, NA and NaN mean None; attention is 1 or true for a check and anything
        missing, 0 or false for none.
    where
        Keep only rows whose column has this value, such as ``{"set": "5gs"}``.

    Raises
    ------
    InputError
        If a column is missing, no row is left, an item has no name or one twice, or attention is neither 1 nor 0.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("items.csv").write_text("item_id,gold,label,attention\ni1,yes,a,0\ni2,no,b,0\ncheck,yes,,1\n")
    >>> items = irtbench.read_items("items.csv")
    >>> items
    <ItemTable: 3 items, 1 attention check among them, labels a, b>
    >>> items.key, items.scales()
    (('yes', 'no', 'yes'), {'a': ('i1',), 'b': ('i2',)})
    """
    columns, where = columns or {}, where or {}
    unknown = [name for name in columns if name not in COLUMNS_OF_ITEMS]
    if unknown:
        raise InputError(f"columns: unknown name {name_first(unknown)}; expected some of {', '.join(COLUMNS_OF_ITEMS)}")
    frame = read_table(path)
    chosen = {name: columns.get(name) or _first_of(aliases, frame) for name, aliases in COLUMNS_OF_ITEMS.items()}
    item_column = chosen["item_id"] or likely_column(list(frame.columns), "item_id") or "item_id"
    frame = rows_of_items(frame, item_column, path, columns=list(columns.values()), where=where)
    return ItemTable(
        item_ids=tuple(frame[item_column]),
        key=_texts(frame, chosen["key"]),
        label=_texts(frame, chosen["label"]),
        group=_texts(frame, chosen["group"]),
        text=_texts(frame, chosen["text"]),
        attention=_attention(frame, chosen["attention"], path),
    )


def rows_of_items(
    frame: pd.DataFrame,
    item: str,
    path: str | Path,
    *,
    columns: Sequence[str] = (),
    where: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """The rows whose columns have these values, each of an item with a name of its own.

    Raises
    ------
    InputError
        If a column is missing, no row is left, or an item has no name or one twice.
    """
    where = where or {}
    demand_columns(frame, [item, *columns, *where], path)
    for column, value in where.items():
        frame = frame[frame[column] == value]
    if frame.empty:
        conditions = ", ".join(f"{column} = {value}" for column, value in where.items())
        raise InputError(f"file {path}: no item with {conditions}")
    demand_filled(frame, item, path)
    repeated = frame[item][frame[item].duplicated()]
    if not repeated.empty:
        place = field_places(path, item)(int(repeated.index[0]))
        raise InputError(f"{place}: item names must be unique but '{repeated.iloc[0]}' is repeated")
    return frame


def _first_of(aliases: tuple[str, ...], frame: pd.DataFrame) -> str | None:
    return next((alias for alias in aliases if alias in frame.columns), None)


def _texts(frame: pd.DataFrame, column: str | None) -> tuple[str | None, ...]:
    if column is None:
        return (None,) * len(frame)
    return tuple(None if text in MISSING else text for text in frame[column])


def _attention(frame: pd.DataFrame, column: str | None, path: str | Path) -> tuple[bool, ...]:
    if column is None:
        return (False,) * len(frame)
    place = field_places(path, column)
    checks = to_responses(frame[column], place=lambda k: place(int(frame.index[k])))
    return tuple(bool(check == 1) for check in checks)
