"""Answers or responses from a file of any format: recognise it by content, say which it is, read it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.readers.long_table import LongTable, Want, find_column, find_id_columns, long_from_frame
from irtbench.data.readers.table import MISSING, demand_columns, read_table
from irtbench.data.readers.wide_table import choose_respondent_column, wide_from_frame
from irtbench.data.responses import name_first

logger = logging.getLogger(__name__)

TableFormat = Literal["long", "wide"]
Format = Literal["auto", "long", "wide"]


def read_responses(
    path: str | Path,
    *,
    format: Format = "auto",
    columns: Mapping[str, str] | None = None,
    threshold: float | None = None,
) -> LongTable:
    """Read graded responses.

    Parameters
    ----------
    path
        The file.
    format
        Its format; ``auto`` recognises it (see ``recognise``), and the result says which it was.
    columns
        The file's column for any of our names, where it is not to be recognised.
    threshold
        For scores that are not 1 or 0: 1 where score >= threshold.

    Raises
    ------
    InputError
        Naming file, row and column of what is wrong; see ``read_long_table`` and ``read_wide_table``.
    """
    return _read(path, "response", format, columns or {}, threshold)


def read_answers(
    path: str | Path,
    *,
    format: Format = "auto",
    columns: Mapping[str, str] | None = None,
) -> LongTable:
    """Read raw answers; parameters and errors as for ``read_responses``."""
    return _read(path, "answer", format, columns or {}, None)


def holds_responses(
    path: str | Path,
    *,
    format: Format = "auto",
    columns: Mapping[str, str] | None = None,
) -> bool:
    """Whether a file holds graded responses (perhaps beside raw answers) or raw answers only.

    A long table does if it has a column of responses; a wide one if more than half of its filled cells are 1 or 0,
    so that a single slip is still reported as a wrong response. Parameters and errors as for ``read_responses``.
    """
    columns = columns or {}
    frame = read_table(path)
    if _choose_format(frame, path, format, columns) == "long":
        return find_column(list(frame.columns), "response", columns) is not None
    items = frame.drop(columns=choose_respondent_column(frame, path, columns))
    cells = pd.Series(items.to_numpy(dtype=object).ravel())
    return mostly_responses(cells)


def mostly_responses(cells: pd.Series[str]) -> bool:
    """Whether more than half of the filled cells of a wide table are 1 or 0."""
    filled = cells[~cells.isin([*MISSING, "-1"])]
    return bool(filled.str.lower().isin(["1", "0", "1.0", "0.0", "true", "false"]).mean() > 0.5)


def recognise(frame: pd.DataFrame, path: str | Path, columns: Mapping[str, str]) -> TableFormat:
    """Tell a long table from a wide one.

    It is long if it has a column for respondents and one for items, under names we know or that ``columns`` gives;
    wide if not and each row has its own name in the respondents' column (the first, unless ``columns`` names it).

    Raises
    ------
    InputError
        If it is neither.
    """
    names = list(frame.columns)
    if find_id_columns(names, columns) is not None:
        return "long"
    first = columns.get("respondent_id", names[0])
    if len(names) > 1 and "item_id" not in columns and frame[first].is_unique:
        return "wide"
    raise InputError(
        f"file {path}: neither a long table (columns respondent_id, item_id, ...) nor a wide one (a row for each "
        f"respondent, named in column '{first}'); it has: {name_first(names, most=12)}; expected columns named by you"
    )


def _choose_format(frame: pd.DataFrame, path: str | Path, format: Format, columns: Mapping[str, str]) -> TableFormat:
    demand_columns(frame, list(columns.values()), path)
    return recognise(frame, path, columns) if format == "auto" else format


def _read(
    path: str | Path, want: Want, format: Format, columns: Mapping[str, str], threshold: float | None
) -> LongTable:
    frame = read_table(path)
    chosen = _choose_format(frame, path, format, columns)
    read = {"long": long_from_frame, "wide": wide_from_frame}[chosen]
    table = read(frame, path, want=want, columns=columns, threshold=threshold)
    taken = ", ".join(f"{ours} from '{theirs}'" for ours, theirs in table.columns.items())
    logger.info("file %s: read as a %s table of %ss, %s", path, table.format, want, taken)
    return table
