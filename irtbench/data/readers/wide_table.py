"""The wide table: respondents as rows, items as columns, the respondent's name in the first column."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.readers.long_table import LongTable
from irtbench.data.readers.observations import Wanted
from irtbench.data.readers.table import MISSING, coded_cells, demand_columns, demand_filled, row_place
from irtbench.data.readers.wide_columns import (
    RESPONDENTS,
    each_pattern,
    is_metadata,
    item_columns,
    without_header_rows,
)
from irtbench.data.responses import ResponseMatrix, demand_unique, name_first

_ITEM_WORD = re.compile(r"(items?|questions?|tasks?|prompts?|q|i)([ _.-]?(id|\d+))?", re.IGNORECASE)


def wide_from_frame(frame: pd.DataFrame, path: str | Path, wanted: Wanted) -> LongTable:
    """A wide table of texts in the long form.

    Missing responses (empty, NA, NaN, -1) become rows with NaN. A missing answer (empty, NA, NaN) gives no row: a
    wide table cannot tell an item left empty from one never asked, and only the first may be graded wrong.

    Raises
    ------
    InputError
        If there is no item, a respondent is repeated or a name empty, a response is not 1, 0 or missing (and there
        is no threshold), or there is no answer at all.

    Warns
    -----
    UserWarning
        If the table looks transposed (see ``looks_transposed``), and if columns are left out unasked: those that
        survey tools add, and where responses are wanted those that do not hold 1, 0 or missing.
    """
    table = _WideTable.of(frame, path, wanted)
    n_rows, n_items = len(table.respondents), len(table.items)
    long = pd.DataFrame(
        {
            "respondent_id": pd.Index(table.respondents).take(np.repeat(np.arange(n_rows), n_items)),
            "item_id": pd.Index(table.items).take(np.tile(np.arange(n_items), n_rows)),
        }
    )
    if wanted.want == "answer":
        long["answer"] = table.cells.cat.categories.take(table.cells.cat.codes.to_numpy())
        long = long[~long["answer"].isin(MISSING)].reset_index(drop=True)
        if long.empty:
            raise InputError(f"file {path}: every cell is empty; expected at least one answer")
    else:
        long["response"] = wanted.values_of(table.cells, place=table.place)
    return LongTable(long, Path(path), "wide", {"respondent_id": table.respondent_column}, table.left_out)


def matrix_from_frame(frame: pd.DataFrame, path: str | Path, wanted: Wanted) -> ResponseMatrix:
    """The responses of a wide table of texts; errors and warnings as for ``wide_from_frame``."""
    table = _WideTable.of(frame, path, wanted)
    values = wanted.values_of(table.cells, place=table.place).reshape(len(table.respondents), len(table.items))
    return ResponseMatrix(values, tuple(table.respondents), tuple(table.items))


@dataclass(frozen=True, eq=False)
class _WideTable:
    """Respondents, items and fields (row by row) of a wide table, and the number of each row in its file."""

    path: str | Path
    respondent_column: str
    respondents: list[str]
    items: list[str]
    cells: pd.Series[str]
    rows: pd.Index[int]
    left_out: Mapping[str, int]

    def place(self, cell: int) -> str:
        """Where a field stands in the file."""
        row, column = divmod(cell, len(self.items))
        return f"{row_place(self.path, int(self.rows[row]))}, column {self.items[column]}"

    @classmethod
    def of(cls, frame: pd.DataFrame, path: str | Path, wanted: Wanted) -> _WideTable:
        """Find and check them; see ``wide_from_frame``."""
        items, exclude = wanted.how.items, wanted.how.exclude
        graded = wanted.want == "response" and not wanted.levels
        threshold = 0.0 if wanted.raw_scores and wanted.threshold is None else wanted.threshold
        respondent_column = choose_respondent_column(frame, path, wanted.how.columns)
        frame = without_header_rows(frame)
        respondents = frame[respondent_column]
        others = frame.columns.drop(respondent_column)
        if others.empty or (others == "").any():
            raise InputError(f"file {path}: expected a named column for each item beside '{respondent_column}'")
        demand_filled(frame, respondent_column, path)
        names, left = item_columns(
            frame, respondent_column, path, items=items, exclude=exclude, graded=graded, threshold=threshold
        )
        asked = each_pattern(exclude, [str(name) for name in others])
        unasked = [name for name in left if items is None and not any(fnmatchcase(name, pattern) for pattern in asked)]
        if unasked:
            warnings.warn(
                f"file {path}: left out as no items: column {name_first(unasked, most=20)} (--items chooses the items)",
                stacklevel=2,
            )
        demand_unique(respondents.tolist(), f"file {path}, column {respondent_column}: respondents")
        if looks_transposed(respondent_column, list(respondents), len(names)):
            warnings.warn(
                f"file {path}: {len(names)} columns and {len(frame)} rows that are named like items: "
                "the table looks transposed; rows are read as respondents",
                stacklevel=2,
            )
        left_out = {f"columns that are no items: {name_first(left, most=20)}": len(left)} if left else {}
        cells = coded_cells(frame, names)
        return cls(path, respondent_column, respondents.tolist(), names, cells, frame.index, left_out)


def looks_transposed(first_column: str, row_names: Sequence[str], n_columns: int) -> bool:
    """Whether the rows of a wide table seem to be items.

    They do if there are more columns than rows and either the column of names is itself called after items
    (``item``, ``item_id``, ``question``, ``task``, ``prompt``, ``q``) or most row names are (``item7``, ``Q12``).
    More columns than rows alone means nothing: a hundred systems on two thousand items is an ordinary table.
    """
    if n_columns <= len(row_names):
        return False
    n_named_like_items = sum(_ITEM_WORD.fullmatch(name) is not None for name in row_names)
    return _ITEM_WORD.fullmatch(first_column) is not None or 2 * n_named_like_items > len(row_names)


def choose_respondent_column(frame: pd.DataFrame, path: str | Path, columns: Mapping[str, str]) -> str:
    """The column of respondents' names (see ``likely_respondent_column``), once ``columns`` is checked."""
    unknown = [name for name in columns if name != "respondent_id"]
    if unknown:
        raise InputError(
            f"columns: {name_first(unknown)} cannot be named for a wide table (file {path}); "
            "expected respondent_id only"
        )
    demand_columns(frame, list(columns.values()), path)
    return likely_respondent_column(list(frame.columns), columns)


def likely_respondent_column(names: Sequence[str], columns: Mapping[str, str]) -> str:
    """The column that ``columns`` names for the respondents, or the first.

    Where the first is one that survey tools add, such as a date, it is the one of theirs that names respondents.
    """
    if "respondent_id" in columns:
        return columns["respondent_id"]
    if is_metadata(names[0]):
        for known in RESPONDENTS:
            for name in names:
                if name.strip().lower() == known:
                    return name
    return names[0]
