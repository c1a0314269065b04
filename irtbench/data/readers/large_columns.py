"""Columns of a large table: which are what, and the names and responses in a part of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pandas as pd
import pyarrow as pa
import pyarrow.compute

from irtbench.data.checked_settings import Settings
from irtbench.data.input_error import InputError
from irtbench.data.readers.large_table import LargeTable
from irtbench.data.readers.long_table import find_column, find_counts, find_id_columns
from irtbench.data.readers.part_values import as_text
from irtbench.data.readers.wide_table import item_columns, likely_respondent_column
from irtbench.data.responses import name_first

Content = Literal["auto", "responses", "answers"]

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
        Of a long one: names of items, and responses or answers; empty otherwise.
    n_trials, trial
        Of a long one: the number of trials, where `response` is that of the number right, and what tells several trials
        of a pair apart; empty where there is none.
    """

    respondent: str
    items: tuple[str, ...] = ()
    item: str = ""
    response: str = ""
    n_trials: str = ""
    trial: str = ""

    @property
    def has_trials(self) -> bool:
        """Whether a respondent may have answered an item more than once."""
        return bool(self.n_trials or self.trial)


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


def long_layout(names: Sequence[str], columns: Mapping[str, str], content: Content) -> tuple[TableLayout, bool] | None:
    """The columns of a long table, and whether they hold answers; None where it has none of the content."""
    pair, answers = find_id_columns(names, columns), False
    said, n_trials = None if content == "answers" else find_column(names, "response", columns), ""
    if said is None and content != "answers" and (counts := find_counts(names, columns)) is not None:
        said, n_trials = counts
    if said is None and content != "responses":
        said, answers = find_column(names, "answer", columns), True
    if pair is None or said is None:
        return None
    trial = "trial" if "trial" in names else ""
    return TableLayout(pair[0], item=pair[1], response=said, n_trials=n_trials, trial=trial), answers


def layout_of(table: LargeTable, choice: ColumnChoice, *, graded: bool = True) -> TableLayout:
    """Tell which columns are what; of a wide table all may be items where responses are not right or wrong.

    Raises
    ------
    InputError
        If a column that was named is not there, or none holds responses.
    """
    for name in choice.columns.values():
        if name not in table.names:
            raise InputError(f"{table.place}: column '{name}' missing; it has: {name_first(table.names, most=12)}")
    if is_long(table, choice):
        found = long_layout(table.names, choice.columns, "responses")
        if found is None or found[0].n_trials:
            raise InputError(
                f"{table.place}: no column of responses; it has: {name_first(table.names, most=12)}; answers are "
                "graded by build"
            )
        return replace(found[0], trial="")  # one response to an item is encoded
    respondent = likely_respondent_column(list(table.names), choice.columns)
    first = next(table.rows(table.names, rows=FIRST_ROWS), None)
    if first is None:
        raise InputError(f"{table.place}: no rows; expected at least one")
    frame = pd.DataFrame({
        name: pa.compute.fill_null(as_text(column, table.place, name), "").to_pylist()
        for name, column in zip(table.names, first[2].columns, strict=True)
    }, dtype=object)  # fmt: skip
    items, _ = item_columns(frame, respondent, table.place, items=choice.items, exclude=choice.exclude, graded=graded)
    return TableLayout(respondent, items=tuple(items))
