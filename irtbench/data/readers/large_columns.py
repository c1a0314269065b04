"""Columns of a large table: which are what, and the names and responses in a part of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd
import pyarrow as pa
import pyarrow.compute

from irtbench.data.checked_settings import Settings
from irtbench.data.input_error import InputError
from irtbench.data.readers.large_table import LargeTable
from irtbench.data.readers.long_table import find_column, find_counts, find_id_columns
from irtbench.data.readers.part_values import as_text
from irtbench.data.readers.wide_columns import item_columns
from irtbench.data.readers.wide_table import likely_respondent_column
from irtbench.data.responses import name_first

FIRST_ROWS = 1_000  # by which it is told which columns of a wide table hold responses


@dataclass(frozen=True)
class TableLayout:
    """Which columns of a table are what.

    Parameters
    ----------
    respondent
        Names of respondents.
    items
        Of a wide table: the columns of responses.
    item, response
        Of a long one: names of items, and responses; empty otherwise.
    """

    respondent: str
    items: tuple[str, ...] = ()
    item: str = ""
    response: str = ""


@dataclass(frozen=True)
class ColumnChoice(Settings):
    """What a user says of columns, see `read_responses`."""

    columns: Mapping[str, str] = field(default_factory=dict)
    items: str | None = None
    exclude: tuple[str, ...] = ()


def is_long(table: LargeTable, choice: ColumnChoice) -> bool:
    """Whether a table is a long one, by the names of its columns."""
    return find_id_columns(table.names, choice.columns) is not None


def has_trials(table: LargeTable, choice: ColumnChoice) -> bool:
    """Whether a long table may hold several trials of an item."""
    names = table.names
    return is_long(table, choice) and ("trial" in names or find_counts(names, choice.columns) is not None)


def layout_of(table: LargeTable, choice: ColumnChoice) -> TableLayout:
    """Tell which columns are what.

    Raises
    ------
    InputError
        If a column that was named is not there, or none holds responses.
    """
    for name in choice.columns.values():
        if name not in table.names:
            raise InputError(f"{table.place}: column '{name}' missing; it has: {name_first(table.names, most=12)}")
    pair = find_id_columns(table.names, choice.columns)
    if pair is not None:
        response = find_column(table.names, "response", choice.columns)
        if response is None:
            raise InputError(
                f"{table.place}: no column of responses; it has: {name_first(table.names, most=12)}; answers are "
                "graded by build"
            )
        return TableLayout(pair[0], item=pair[1], response=response)
    respondent = likely_respondent_column(list(table.names), choice.columns)
    first = next(table.rows(table.names, rows=FIRST_ROWS), None)
    if first is None:
        raise InputError(f"{table.place}: no rows; expected at least one")
    frame = pd.DataFrame({
        name: pa.compute.fill_null(as_text(column, table.place, name), "").to_pylist()
        for name, column in zip(table.names, first[2].columns, strict=True)
    }, dtype=object)  # fmt: skip
    items, _ = item_columns(frame, respondent, table.place, items=choice.items, exclude=choice.exclude, graded=True)
    return TableLayout(respondent, items=tuple(items))
