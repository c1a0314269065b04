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
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.readers.long_table import LongTable
from irtbench.data.readers.observations import Want
from irtbench.data.readers.response_values import to_responses, to_scores
from irtbench.data.readers.table import MISSING, coded_cells, demand_columns, demand_filled, read_table, row_place
from irtbench.data.readers.wide_columns import (
    RESPONDENTS,
    each_pattern,
    is_metadata,
    item_columns,
    without_header_rows,
)
from irtbench.data.responses import ResponseMatrix, demand_unique, name_first

_ITEM_WORD = re.compile(r"(items?|questions?|tasks?|prompts?|q|i)([ _.-]?(id|\d+))?", re.IGNORECASE)


def read_wide_table(
    path: str | Path,
    *,
    want: Want,
    columns: Mapping[str, str] | None = None,
    threshold: float | None = None,
    items: str | None = None,
    exclude: Sequence[str] = (),
) -> LongTable:
    """Read a wide CSV or Parquet table into the long form.

    Missing responses (empty, NA, NaN, -1) become rows with NaN. A missing answer (empty, NA, NaN) gives no row: a
    wide table cannot tell an item left empty from one never asked, and only the first may be graded wrong.

    Parameters
    ----------
    path
        The file.
    want
        Whether the cells are raw answers or graded responses.
    columns
        ``{"respondent_id": name}`` if the respondents are not named in the first column (or, where survey tools put
        something else there, in the column of theirs that names them).
    threshold
        For scores that are not 1 or 0 (see ``to_responses``).
    items, exclude
        Which of the other columns are items and which are not (see ``item_columns``).

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
    return wide_from_frame(
        read_table(path), path, want=want, columns=columns, threshold=threshold, items=items, exclude=exclude
    )


def wide_from_frame(
    frame: pd.DataFrame,
    path: str | Path,
    *,
    want: Want,
    columns: Mapping[str, str] | None = None,
    threshold: float | None = None,
    items: str | None = None,
    exclude: Sequence[str] = (),
    raw_scores: bool = False,
    levels: Sequence[str] = (),
) -> LongTable:
    """Take what is wanted from a table already read; see ``read_wide_table``.

    Raw scores are left as they are, or of levels their places.
    """
    table = _WideTable.of(
        frame, path, columns or {}, items=items, exclude=exclude, graded=want == "response" and not levels,
        threshold=0.0 if raw_scores and threshold is None else threshold,
    )  # fmt: skip
    n_rows, n_items = len(table.respondents), len(table.items)
    long = pd.DataFrame(
        {
            "respondent_id": pd.Index(table.respondents).take(np.repeat(np.arange(n_rows), n_items)),
            "item_id": pd.Index(table.items).take(np.tile(np.arange(n_items), n_rows)),
        }
    )
    if want == "answer":
        long["answer"] = table.cells.cat.categories.take(table.cells.cat.codes.to_numpy())
        long = long[~long["answer"].isin(MISSING)].reset_index(drop=True)
        if long.empty:
            raise InputError(f"file {path}: every cell is empty; expected at least one answer")
    elif raw_scores:
        long["response"] = to_scores(table.cells, place=table.place, levels=levels)
    else:
        long["response"] = table.responses(threshold)
    return LongTable(long, Path(path), "wide", {"respondent_id": table.respondent_column}, table.left_out)


def matrix_from_frame(
    frame: pd.DataFrame,
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    threshold: float | None = None,
    items: str | None = None,
    exclude: Sequence[str] = (),
) -> ResponseMatrix:
    """The responses of a wide table already read; parameters, errors and warnings as for ``read_wide_table``."""
    table = _WideTable.of(frame, path, columns or {}, items=items, exclude=exclude, graded=True, threshold=threshold)
    values = table.responses(threshold).reshape(len(table.respondents), len(table.items))
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

    def responses(self, threshold: float | None) -> NDArray[np.float64]:
        """The fields as 1, 0 and NaN."""
        return to_responses(self.cells, place=self.place, threshold=threshold)

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        path: str | Path,
        columns: Mapping[str, str],
        *,
        items: str | None,
        exclude: Sequence[str],
        graded: bool,
        threshold: float | None,
    ) -> _WideTable:
        """Find and check them; see ``read_wide_table``."""
        respondent_column = choose_respondent_column(frame, path, columns)
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
