"""A table for people: in a frame, in narrow columns or row by row, whichever its place is wide enough for."""

from __future__ import annotations

import io
import math
import re
import sys
from dataclasses import dataclass
from typing import Any

import pandas as pd
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from irtbench.data.harmless_text import printable

IN_JSON = "what --json prints"  # where rows are that are in no file
FOLDED_TO = 14  # columns that a long word of a text, or of a column's name, keeps at least
MOST_LINES = 3  # that a text is folded to; its end is in the file

_WORD = re.compile(r"[^\s_]+_*")  # a word of a name; one_with_underscores is three


@dataclass(frozen=True)
class ShownTable:
    """Rows of a table as texts, numbers to three digits behind the point.

    Parameters
    ----------
    table
        What is shown.
    title
        Stands above it.
    most
        Of more rows than this the first two thirds and the last third are shown.
    rest
        Where the other rows are, for the line that says so.
    of
        How many rows there are, where the table has the top and the bottom of them alone.
    """

    table: pd.DataFrame
    title: str = ""
    most: int = 40
    rest: str = IN_JSON
    of: int | None = None

    def lines(self, width: int, most: int, *, bold: bool = False, foldable: bool = True) -> list[str]:
        """The lines of at most so many rows.

        Parameters
        ----------
        width
            Columns of the terminal. Numbers are never folded: where they do not fit beside one another, a row becomes
            a line for each of its values.
        most
            As `most` above, if that is not less.
        bold
            Whether names of columns are bold, by an escape sequence.
        foldable
            If not, lines may be wider than that instead, and no row is taken apart.
        """
        most = max(2, min(most, self.most))
        n_rows = len(self.table) if self.of is None else self.of
        n_last = max(1, most // 3) if n_rows > most else 0
        n_first = most - n_last if n_rows > most else n_rows
        columns = [
            _Column.of(name, pd.concat([column.head(n_first), column.tail(n_last)]), column)
            for name, column in ((name, self.table.iloc[:, k]) for k, name in enumerate(self.table.columns))
        ]
        found = [printable(self.title)] if self.title else []
        least = sum(column.least for column in columns) + max(0, len(columns) - 1)
        if least <= width or not foldable:
            found += _side_by_side(columns, max(width, least), n_first, bold=bold)
        else:
            found += _one_below_the_other(columns)
        if n_last:
            found.append(f"the first {n_first} and the last {n_last} of {n_rows:,} rows; all are in {self.rest}")
        return found


@dataclass(frozen=True)
class _Column:
    name: str
    texts: tuple[str, ...]
    numeric: bool
    least: int
    natural: int

    @classmethod
    def of(cls, name: object, shown: pd.Series[Any], column: pd.Series[Any]) -> _Column:
        header, numeric = printable(str(name)), bool(pd.api.types.is_numeric_dtype(column))
        texts = tuple(readable(value) for value in shown)
        natural = max(map(cell_len, texts), default=0)
        words = natural if numeric else max((cell_len(word) for text in texts for word in text.split()), default=0)
        parts = max((cell_len(part) for part in _WORD.findall(header)), default=0)
        least = max(words if numeric else min(words, FOLDED_TO), min(parts, FOLDED_TO), 1)
        return cls(header, texts, numeric, least, max(natural, cell_len(header), 1))


def _side_by_side(columns: list[_Column], width: int, n_first: int, *, bold: bool) -> list[str]:
    """A table with a frame where there is room for one, else with a space between its columns."""
    framed = sum(column.natural for column in columns) + 3 * len(columns) + 1 <= width
    widths = [column.natural for column in columns]
    while not framed and sum(widths) + len(widths) - 1 > width:
        spare = [have - column.least for have, column in zip(widths, columns, strict=True)]
        widths[max((k for k in range(len(widths)) if spare[k] > 0), key=widths.__getitem__)] -= 1
    utf = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    style = "bold" if bold else ""
    if framed:
        view = Table(box=box.HEAVY_HEAD if utf else box.ASCII, header_style=style)
    else:
        view = Table(box=None, header_style=style, padding=(0, 1, 0, 0), pad_edge=False)
    for column, wide in zip(columns, widths, strict=True):
        name = column.name if framed else _folded(column.name, wide)
        view.add_column(name, justify="right" if column.numeric else "left", overflow="fold", width=wide)
    rows = list(zip(*map(_cut, columns, widths), strict=True))
    for k, row in enumerate(rows):
        view.add_row(*row, end_section=framed and k + 1 == n_first < len(rows))
    console = Console(
        file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False,
        force_terminal=bold, color_system="standard" if bold else None, no_color=True,
    )  # fmt: skip
    with console.capture() as printed:
        console.print(view)
    return [line.rstrip() for line in printed.get().splitlines()]


def _cut(column: _Column, width: int) -> list[str]:
    """The texts of a column, each of so many letters at most as its lines have room for."""
    most = MOST_LINES * width
    return [text if len(text) <= most else f"{text[: most - 3]}..." for text in column.texts]


def _one_below_the_other(columns: list[_Column]) -> list[str]:
    """Every value on a line with the name of its column; a line between two rows."""
    found: list[str] = []
    for row in zip(*(column.texts for column in columns), strict=True):
        found += [""] if found else []
        found += [f"{column.name}: {text}" for column, text in zip(columns, row, strict=True) if text]
    return found


def _folded(name: str, width: int) -> str:
    """A column's name on several lines: between its words, or after an underscore."""
    lines = [""]
    for word in re.findall(r"\s*[^\s_]*_*", name):
        fits = cell_len(lines[-1] + word) <= width
        lines = [*lines[:-1], lines[-1] + word] if fits or not lines[-1] else [*lines, word.lstrip()]
    return "\n".join(lines)


def readable(value: Any) -> str:
    """One cell for people: three digits behind the point, nothing for what is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.3f}" if isinstance(value, float) else printable(str(value))
