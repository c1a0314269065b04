"""What is known of items from a table: key, group, text, attention checks; options; features; tags, twins, testlets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd

from irtbench.data.input_error import InputError, refuse_first
from irtbench.data.items import ChoiceItems, ItemFeatures, ItemTable, ItemTags
from irtbench.data.readers.long_table import likely_column, long_columns, with_known_names
from irtbench.data.readers.table import (
    MISSING,
    demand_columns,
    demand_filled,
    demand_known,
    field_places,
    one_value_each,
    read_table,
    to_responses,
)
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
    demand_known(columns, COLUMNS_OF_ITEMS)
    frame = read_table(path)
    chosen = {
        name: columns.get(name) or next((alias for alias in aliases if alias in frame.columns), None)
        for name, aliases in COLUMNS_OF_ITEMS.items()
    }
    item_column = chosen["item_id"] or likely_column(list(frame.columns), "item_id") or "item_id"
    frame = rows_of_items(frame, item_column, path, columns=list(columns.values()), where=where)
    missing = frame.isin(MISSING) & (frame.columns != item_column)  # an item may be called NA
    items = items_of(frame.mask(missing), chosen | {"item_id": item_column, "attention": None})
    if (checks := chosen["attention"]) is None:
        return items
    place = field_places(path, checks)
    is_check = to_responses(frame[checks], place=lambda k: place(int(frame.index[k]))) == 1
    return replace(items, attention=tuple(is_check.tolist()))


def items_of(frame: pd.DataFrame, chosen: Mapping[str, str | None]) -> ItemTable:
    """Items from a table by its column for each of our names; without one of ``item_id`` the index names them."""
    column = {ours: None if name is None else frame[name].tolist() for ours, name in chosen.items()}
    nothing, checks = [None] * len(frame), column["attention"] or [False] * len(frame)
    key, label, group, text = (
        tuple(None if pd.isna(value) else str(value) for value in column[ours] or nothing)
        for ours in ("key", "label", "group", "text")
    )
    names = tuple(map(str, frame.index if column["item_id"] is None else column["item_id"]))
    return ItemTable(names, key, label, group, text, tuple(not pd.isna(one) and bool(one) for one in checks))


def rows_of_items(
    frame: pd.DataFrame,
    item: str,
    path: str | Path,
    *,
    columns: Sequence[str] = (),
    where: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """The rows whose columns have these values, each of an item with a name of its own."""
    where = where or {}
    demand_columns(frame, [item, *columns, *where], path)
    for column, value in where.items():
        frame = frame[frame[column] == value]
    if frame.empty:
        conditions = ", ".join(f"{column} = {value}" for column, value in where.items())
        raise InputError(f"file {path}: no item with {conditions}")
    demand_filled(frame, path, item)
    place, names = field_places(path, item), frame[item]
    refuse_first(
        names.duplicated().to_numpy(),
        lambda k: (
            f"{place(int(names.index.to_numpy()[k]))}: item names must be unique but '{names.iloc[k]}' is repeated"
        ),
    )
    return frame


def read_features(path: str | Path, *, columns: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> ItemFeatures:
    r"""Read a table with ``item_id`` and a column a feature, see `ItemFeatures.from_frame`.

    Parameters
    ----------
    path
        A CSV or Parquet file with a row for each item.
    columns
        Those that are features; all but ``item_id`` if none is named.
    exclude
        Those that are not.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing or has an empty field, or as `ItemFeatures`.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("features.csv").write_text("item_id,length,negated\nq1,4,true\nq2,9,false\n")
    >>> irtbench.read_features("features.csv")
    <ItemFeatures: 2 items, 2 features: length, negated>
    """
    frame = with_known_names(read_table(path), "item_id")
    demand_columns(frame, ["item_id", *columns, *exclude], path)
    demand_filled(frame, path, "item_id")
    wanted = [name for name in (columns or frame.columns) if name != "item_id" and name not in exclude]
    # so many values cannot be kinds of items
    texts = [name for name in wanted if 2 * frame[name].nunique() > len(frame)]
    if texts and len(frame) > 2:
        numbers = {name: ItemFeatures.numbers_of(frame[name]) for name in texts}
        if long := [name for name, found in numbers.items() if found is None]:
            raise InputError(
                f"file {path}: column {name_first(long)} has a text of its own for nearly every item; "
                "expected numbers or a few kinds (leave it out with --exclude-features)"
            )
    try:
        return ItemFeatures.from_frame(frame[["item_id", *wanted]])
    except InputError as error:
        raise InputError(f"file {path}: {error}") from None


#: Columns taken as options, in their order, unless the user names them: option1, option_A, answer0, choice B, ...
_OPTION = re.compile(r"(option|answer|choice)[ _]?([0-9]+|[a-z])", re.IGNORECASE)


def read_choices(
    path: str | Path,
    *,
    item: str = "item_id",
    key: str = "gold",
    options: Sequence[str] = (),
    group: str | None = None,
) -> tuple[ChoiceItems, pd.DataFrame]:
    r"""Read multiple-choice items.

    Parameters
    ----------
    path
        A CSV or Parquet file with a row for each item.
    item
        The column of item names.
    key
        The column that says which option is right: by its text, by the name of its column, by that name's last part
        (``B`` of ``option_B``, ``0`` of ``answer0``).
    options
        The columns of options; none given, all that look like it (``option_A``, ``answer0``, ``choice2``). An empty
        field is no option.
    group
        The column of items that belong together.

    Returns
    -------
    ChoiceItems, pandas.DataFrame
        The items, and the table as it is in the file.

    Raises
    ------
    InputError
        If a column is missing, no column looks like an option, a name is empty or repeated, an item has fewer than two
        options, or the key points at none of them.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("items.csv").write_text("item_id,option_A,option_B,gold\nq1,a cat,a dog,B\n")
    >>> choices, table = irtbench.read_choices("items.csv")
    >>> choices.options, choices.right
    ((('a cat', 'a dog'),), (1,))
    """
    frame = read_table(path, [item, key, *options, *([group] if group else [])])
    columns = list(options) or [name for name in frame.columns if _OPTION.fullmatch(name)]
    if len(columns) < 2:
        raise InputError(
            f"file {path}: no columns of options such as option_A, option_B; expected columns named by you"
        )
    demand_filled(frame, path, item)
    texts, right = [], []
    for row, fields in enumerate(frame[columns].itertuples(index=False)):
        present = [(name, str(text)) for name, text in zip(columns, fields, strict=True) if str(text).strip()]
        texts.append(tuple(text for _, text in present))
        right.append(_find(present, frame[key].iloc[row].strip(), partial(field_places(path, key), row)))
    groups = [None] * len(frame) if group is None else [None if g in MISSING else g for g in frame[group]]
    return ChoiceItems(tuple(frame[item]), tuple(texts), tuple(right), tuple(groups)), frame


def _find(present: list[tuple[str, str]], wanted: str, place: Callable[[], str]) -> int:
    """Position of the option that the key means; its text goes before the name of its column."""
    texts = [text.strip() for _, text in present]
    if texts.count(wanted) == 1:
        return texts.index(wanted)
    for position, (name, _) in enumerate(present):
        pattern = _OPTION.fullmatch(name)
        if wanted.lower() in {name.lower(), pattern[2].lower() if pattern else name.lower()}:
            return position
    raise InputError(f"{place()}: expected an option, its column or its letter but got '{wanted}'")


_YES, _NO = ("1", "1.0", "true"), ("0", "0.0", "false")


def read_tags(
    path: str | Path,
    columns: Sequence[str],
    *,
    item: str = "item_id",
    separator: str | None = None,
    where: Mapping[str, str] | None = None,
) -> ItemTags:
    r"""Read what tags the items have.

    A column that holds nothing but 1, 0, true, false and empty fields is itself a tag, of the items with 1. In any
    other column each text is a tag, and with a separator each part of it.

    Parameters
    ----------
    path
        A CSV or Parquet file with a row for each item.
    columns
        Columns that hold tags, at least one.
    item
        The column of item names.
    separator
        Separates several tags in one field, such as ``;``.
    where
        Keep only rows whose column has this value.

    Raises
    ------
    InputError
        If a column is missing, no row is left, or an item has no name or one twice.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("items.csv").write_text("item_id,subject,hard\nq1,maths;physics,1\nq2,physics,0\n")
    >>> irtbench.read_tags("items.csv", ["subject", "hard"], separator=";").tags
    (('maths', 'physics', 'hard'), ('physics',))
    """
    if not columns:
        raise InputError(f"file {path}: expected at least one column of tags to be named")
    frame = rows_of_items(read_table(path), item, path, columns=columns, where=where)
    parts = [_tags_of(frame[column], separator) for column in columns]
    tags = (tuple(dict.fromkeys(tag for given in row for tag in given)) for row in zip(*parts, strict=True))
    return ItemTags(tuple(frame[item]), tuple(tags))


def read_twins(path: str | Path, *, item: str = "item_id", twin_of: str = "twin_of") -> dict[str, str]:
    r"""Read which items are the switched form of which others.

    Parameters
    ----------
    path
        A CSV or Parquet file with a row for each item, original and switched.
    item
        The column of item names.
    twin_of
        The column that names, for a switched item, its original; empty for an original.

    Returns
    -------
    dict
        The original of each switched item.

    Raises
    ------
    InputError
        If a column is missing, an item has no name or one twice, an original is not in the table or itself switched,
        or two items are the switched form of one.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("items.csv").write_text("item_id,twin_of\nw1,\nw1s,w1\n")
    >>> irtbench.read_twins("items.csv")
    {'w1s': 'w1'}
    """
    frame = rows_of_items(read_table(path), item, path, columns=[twin_of])
    place = field_places(path, twin_of)
    switched = frame[~frame[twin_of].isin(MISSING)]
    if switched.empty:
        raise InputError(f"file {path}, column {twin_of}: no item has a twin; expected the original's name at some")
    known, is_switched = set(frame[item]), set(switched[item])
    seen: set[str] = set()
    for row, original in switched[twin_of].items():
        if original not in known or original in is_switched:
            why = "is no item of the table" if original not in known else "is itself a switched item"
            raise InputError(f"{place(int(str(row)))}: '{original}' {why}; expected an original item")
        if original in seen:
            raise InputError(f"{place(int(str(row)))}: '{original}' has two switched forms; expected one")
        seen.add(original)
    return dict(zip(switched[item], switched[twin_of], strict=True))


def read_testlets(path: str | Path, column: str, *, item: str | None = None) -> dict[str, str]:
    r"""Read which testlet each item is of: the passage it asks about, the pair of twins it belongs to.

    The table has a row for each item, or is a long table of responses that repeats what it says of an item. An empty
    field means that an item is in no testlet, unless another item's field names it: a column ``twin_of`` with the
    original's name at the switched item alone says that both are one testlet.

    Parameters
    ----------
    path
        A CSV or Parquet file.
    column
        The column of testlets.
    item
        The column of item names; None for that of a long table, or ``item_id``.

    Returns
    -------
    dict
        The testlet of each item that is in one.

    Raises
    ------
    InputError
        If a column is missing, an item has no name or two testlets, or all fields are empty.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("items.csv").write_text("item_id,passage,twin_of\nq1,A,\nq2,A,q1\nq3,,\n")
    >>> irtbench.read_testlets("items.csv", "passage")
    {'q1': 'A', 'q2': 'A'}
    >>> irtbench.read_testlets("items.csv", "twin_of")
    {'q2': 'q1', 'q1': 'q1'}
    """
    frame = read_table(path)
    names = list(frame.columns)
    item = item or long_columns(names, {}).get("item_id") or likely_column(names, "item_id") or "item_id"
    demand_columns(frame, [item, column], path)
    demand_filled(frame, path, item)
    known = one_value_each(frame, item, column, "item", f"file {path}")
    testlets: dict[str, str] = {str(name): text for name, text in known.items() if text not in MISSING}
    if not testlets:
        raise InputError(f"file {path}, column {column}: no item has a testlet; expected its name at some")
    named = set(testlets.values())
    return testlets | {name: name for name in known.index if name in named and name not in testlets}


def _tags_of(column: pd.Series[str], separator: str | None) -> list[list[str]]:
    lower = column.str.lower()
    filled = lower[~column.isin(MISSING)]
    if not filled.empty and filled.isin([*_YES, *_NO]).all():
        return [[str(column.name)] if text in _YES else [] for text in lower]
    given = ([] if text in MISSING else text.split(separator) if separator else [text] for text in column)
    return [[tag.strip() for tag in parts if tag.strip()] for parts in given]
