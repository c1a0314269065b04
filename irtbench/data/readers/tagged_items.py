"""Tags, twins and testlets of items from a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.readers.column_names import likely_column
from irtbench.data.readers.item_table import rows_of_items
from irtbench.data.readers.long_table import find_id_columns
from irtbench.data.readers.table import MISSING, demand_columns, demand_filled, field_places, read_table
from irtbench.data.tags import ItemTags

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
        Stands between several tags in one field, such as ``;``.
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
    pair = find_id_columns(list(frame.columns), {})
    item = item or (pair[1] if pair is not None else likely_column(list(frame.columns), "item_id") or "item_id")
    demand_columns(frame, [item, column], path)
    demand_filled(frame, item, path)
    said = frame[[item, column]].drop_duplicates()
    twice = said[item].duplicated()
    if twice.any():
        raise InputError(f"file {path}, column {column}: item {said[item][twice].iloc[0]} is in two; expected one")
    given = said[~said[column].isin(MISSING)]
    if given.empty:
        raise InputError(f"file {path}, column {column}: no item has a testlet; expected its name at some")
    testlets = dict(zip(given[item], given[column], strict=True))
    named = set(testlets.values())
    return testlets | {name: name for name in said[item] if name in named and name not in testlets}


def _tags_of(column: pd.Series[str], separator: str | None) -> list[list[str]]:
    lower = column.str.lower()
    filled = lower[~column.isin(MISSING)]
    if not filled.empty and filled.isin([*_YES, *_NO]).all():
        return [[str(column.name)] if text in _YES else [] for text in lower]
    given = ([] if text in MISSING else text.split(separator) if separator else [text] for text in column)
    return [[tag.strip() for tag in parts if tag.strip()] for parts in given]
