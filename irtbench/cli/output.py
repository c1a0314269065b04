"""Results as files, and as words and tables on the terminal: in a frame, in narrow columns or row by row."""

from __future__ import annotations

import io
import json
import math
import os
import re
import shlex
import shutil
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from irtbench.cli.result_files import held
from irtbench.data.harmless_text import escaped, guarded_table, printable
from irtbench.data.input_error import InputError
from irtbench.data.place import without_credentials
from irtbench.data.shown import time_left

IN_JSON = "what --json prints"  # where rows are that are in no file
FOLDED_TO = 14  # columns that a long word of a text, or of a column's name, keeps at least
MOST_LINES = 3  # that a text is folded to; its end is in the file
_WORD = re.compile(r"[^\s_]+_*")  # a word of a name; one_with_underscores is three
MANY_ROWS = 10_000  # from which on a table of plain columns is written several times as fast
MOST_ROWS_SHOWN = 40  # on the terminal
TABLE_NAMES = (".csv", ".csv.gz", ".parquet", ".json", ".md", ".tex", ".html")


def demand_table_name(file: Path) -> None:
    """Refuse a name that says no format that tables are written in.

    Raises
    ------
    InputError
        Naming those that there are.
    """
    if not file.name.lower().endswith(TABLE_NAMES):
        raise InputError(f"output {file}: expected a name that ends in {', '.join(TABLE_NAMES)}")


def write_table(table: pd.DataFrame, file: Path) -> None:
    """Write a table as CSV (gzipped for ``.gz``), Parquet, JSON, Markdown, LaTeX or HTML, by the file's name.

    In CSV a text that a spreadsheet would take for a formula has an apostrophe before it; `read_table` takes it away.
    """
    match file.suffix:
        case ".parquet":
            table.to_parquet(file, index=False)
        case ".json":
            write_json(table, file)
        case ".md" | ".tex" | ".html" as ending:
            as_text = {".md": to_markdown, ".tex": to_latex, ".html": to_html}[ending]
            file.write_text(as_text(table), encoding="utf-8")
        case ending:
            # without a time, which would make every gzipped file differ
            gzipped = {"method": "gzip", "mtime": 0} if ending == ".gz" else None
            table = guarded_table(table)
            if gzipped is not None or len(table) < MANY_ROWS or not write_many_rows(table, file):
                table.to_csv(file, index=False, lineterminator="\n", compression=gzipped)


def write_many_rows(table: pd.DataFrame, file: Path) -> bool:
    """Write the bytes that pandas writes, much sooner; False where a column or a text in it forbids."""
    columns: list[pa.Array] = []
    for place in range(table.shape[1]):
        column = table.iloc[:, place]
        if column.dtype == np.float64:
            # as Python writes a number: 1.0 and 1e-05
            texts = [None if number != number else repr(number) for number in column.tolist()]
            columns.append(pa.array(texts, pa.string()))
        elif column.dtype == np.int64 or pd.api.types.infer_dtype(column, skipna=True) == "string":
            columns.append(pa.array(column, from_pandas=True))
        else:
            return False
    names = [str(name) for name in table.columns]
    plain = pa.csv.WriteOptions(include_header=False, quoting_style="none")
    if len(names) < 2 or any(set(name) & set(',"\r\n') for name in names):
        return False
    try:
        with file.open("wb") as sink:
            sink.write((",".join(names) + "\n").encode())
            pa.csv.write_csv(pa.Table.from_arrays(columns, names), sink, plain)
    except pa.ArrowInvalid:  # a text that needs quotes
        return False
    return True


def to_markdown(table: pd.DataFrame) -> str:
    """The table in Markdown, numbers to three digits behind the point."""
    rows = [list(table.columns), *([readable(value) for value in row] for row in table.itertuples(index=False))]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    line = ["---:" if holds_numbers(table[name]) else "---" for name in table.columns]
    return "".join("| " + " | ".join(row) + " |\n" for row in [cells[0], line, *cells[1:]])


def to_latex(table: pd.DataFrame) -> str:
    """The table in LaTeX, of the package booktabs, numbers to three digits behind the point."""
    sides = "".join("r" if holds_numbers(table[name]) else "l" for name in table.columns)
    return in_words(table).to_latex(index=False, escape=True, na_rep="", float_format="%.3f", column_format=sides)


def to_html(table: pd.DataFrame) -> str:
    """The table as a page of HTML that a word processor opens, numbers to three digits behind the point."""
    rows = in_words(table).to_html(index=False, border=1, na_rep="", float_format=lambda number: f"{number:.3f}")
    head = '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>table</title></head>'
    return f"{head}\n<body>\n{rows}\n</body></html>\n"


def holds_numbers(column: pd.Series[Any]) -> bool:
    """Whether a column holds numbers, be it as texts."""
    if pd.api.types.is_numeric_dtype(column):
        return True
    given = column[column.notna() & (column != "")]
    return not given.empty and bool(pd.to_numeric(given, errors="coerce").notna().all())


def in_words(table: pd.DataFrame) -> pd.DataFrame:
    """The table with names of columns as a paper has them."""
    return table.rename(columns=lambda name: str(name).replace("_", " "))


def write_json(value: Any, file: Path) -> None:
    """Write plain values as JSON."""
    file.write_text(to_json(value) + "\n", encoding="utf-8")


def to_json(value: Any) -> str:
    """Plain values, arrays and tables as strict JSON; what is not a number (NaN, infinity) becomes null."""
    return escaped(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """Turn NumPy and pandas values into those that JSON knows."""
    match value:
        case pd.DataFrame():
            return plain(value.to_dict(orient="records"))
        case np.ndarray() | np.generic():
            return plain(value.tolist())
        case dict():
            return {str(key): plain(entry) for key, entry in value.items()}
        case list() | tuple():
            return [plain(entry) for entry in value]
        case Path():
            return str(value)
    return None if value is pd.NA or (isinstance(value, float) and not math.isfinite(value)) else value


@dataclass(frozen=True)
class Shown:
    """Rows of a table as texts, numbers to three digits behind the point.

    Parameters
    ----------
    table
        What is shown.
    title
        Of the table.
    rest
        The file among the results that has all rows.
    of
        How many rows there are, where the table has the top and the bottom of them alone.
    most
        Of more rows than this the first two thirds and the last third are shown.
    """

    table: pd.DataFrame
    title: str = ""
    rest: str | Path = ""
    of: int | None = None
    most: int = MOST_ROWS_SHOWN

    def lines(self, width: int, most: int, *, bold: bool = False, foldable: bool = True) -> list[str]:
        """The lines of at most so many rows.

        Parameters
        ----------
        width
            Columns of the terminal. Numbers are never folded: where they do not fit next to one another, a row becomes
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
            found.append(
                f"the first {n_first} and the last {n_last} of {n_rows:,} rows; all are in {self.rest or IN_JSON}"
            )
        return found


#: What a command says to people: lines, and tables; what is empty is left out.
Words = Iterable[str | Shown | bool | None]


def show_words(words: Words, output: Path | None) -> None:
    """Print words on standard output; names in them cannot drive the terminal, rows left out are in the output."""
    for part in words:
        if isinstance(part, str) and part:
            put(printable(without_credentials(part)))
        elif isinstance(part, Shown):
            there = output is not None or Path(part.rest).is_absolute()
            put(replace(part, rest=(output or Path()) / part.rest if there else ""))


def shortened(text: str, most: int) -> str:
    """A text of at most so many letters, the end of a longer one left out."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def next_command(*words: object) -> str:
    """The command that comes next, as the last line; paths with spaces are quoted."""
    return f"next: irtbench {shlex.join(map(str, words))}"


def top_and_bottom(table: pd.DataFrame) -> pd.DataFrame:
    """As many rows of either end as a table shows, so that others need not be put into words."""
    if len(table) <= 2 * MOST_ROWS_SHOWN:
        return table
    return pd.concat([table.head(MOST_ROWS_SHOWN), table.tail(MOST_ROWS_SHOWN)])


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
    texts = (
        [shortened(text, MOST_LINES * wide) for text in one.texts] for one, wide in zip(columns, widths, strict=True)
    )
    rows = list(zip(*texts, strict=True))
    for k, row in enumerate(rows):
        view.add_row(*row, end_section=framed and k + 1 == n_first < len(rows))
    console = Console(
        file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False,
        force_terminal=bold, color_system="standard" if bold else None, no_color=True,
    )  # fmt: skip
    with console.capture() as printed:
        console.print(view)
    return [line.rstrip() for line in printed.get().splitlines()]


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


def interval_texts(table: pd.DataFrame, middle: str, lower: str, upper: str, digits: str) -> list[str]:
    """``1.42 [0.88, 2.01]`` for each row; nothing where the value is not known, nor where its interval is not."""
    of_ends = digits.removeprefix("+")
    return [
        "" if pd.isna(m) else f"{m:{digits}}" + ("" if pd.isna(low) else f" [{low:{of_ends}}, {high:{of_ends}}]")
        for m, low, high in zip(table[middle], table[lower], table[upper], strict=True)
    ]


def carried_in_words(how: str, share: float, scale: str = "") -> str:
    """How the items' error is carried, and what it adds."""
    return (
        f"few people answered the items{f' of {scale}' if scale else ''}: the error of their parameters adds "
        f"{100 * share:.1f}% to the variance of ability, and is in its intervals (item error {how})"
    )


LEAST_HEIGHT = 10  # lines that a screen is taken to have at least
FEWEST_ROWS = 2  # of a table
PIPED_WIDTH = 160  # columns where there is no terminal
CUT = "... {} more lines; piped (| less, > FILE) they are all there"

#: What the command at hand has to show on a terminal; None elsewhere.
_page: ContextVar[list[str | Shown] | None] = ContextVar("page", default=None)


@contextmanager
def one_screen() -> Iterator[None]:
    """Hold what the block says until its end where standard output is a terminal, and show as much as fits on it.

    Tables give way first, to their top and their bottom; then the middle of the page.
    """
    if not sys.stdout.isatty():
        yield
        return
    parts: list[str | Shown] = []
    try:
        with held(_page, parts):
            yield
    finally:
        size = shutil.get_terminal_size()
        bold = not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
        for line in screenful(parts, size.columns, size.lines, bold=bold):
            print(line)


def put(part: str | Shown) -> None:
    """Show a line or a table: at once and whole, or at the end of the page."""
    parts = _page.get()
    if parts is not None:
        parts.append(part)
    elif isinstance(part, str):
        print(part)
    else:
        print(*part.lines(PIPED_WIDTH, part.most, foldable=False), sep="\n")


def screenful(parts: Sequence[str | Shown], width: int, height: int, *, bold: bool = False) -> list[str]:
    """The lines of a page, of which one more than the height is never filled.

    Parameters
    ----------
    parts
        Lines, and tables.
    width, height
        Of the terminal. Longer lines than that take several of its lines.
    bold
        Whether names of columns are bold.
    """
    room = max(height, LEAST_HEIGHT) - 1  # the last line is the shell's
    most = max((part.most for part in parts if not isinstance(part, str)), default=FEWEST_ROWS)

    @cache
    def page(rows: int) -> list[str]:
        found: list[str] = []
        for part in parts:
            found += part.splitlines() or [""] if isinstance(part, str) else part.lines(width, rows, bold=bold)
        return found

    def height_of(rows: int) -> int:
        return sum(_heights(page(rows), width))

    if height_of(most) <= room:
        return page(most)
    fitting = bisect_right(range(most), room, lo=FEWEST_ROWS, key=height_of) - 1
    return page(fitting) if fitting >= FEWEST_ROWS else _without_middle(page(FEWEST_ROWS), width, room)


def _heights(lines: Sequence[str], width: int) -> list[int]:
    """How many lines of the terminal each of these takes."""
    plain = (Text.from_ansi(line).plain if "\x1b" in line else line for line in lines)
    return [max(1, -(-cell_len(line) // max(1, width))) for line in plain]


def _without_middle(lines: Sequence[str], width: int, room: int) -> list[str]:
    """The top and the bottom, two thirds and a third of the room, and how much is left out between them."""
    cut, *heights = _heights([CUT.format(len(lines)), *lines], width)
    room -= cut
    n_last = max(1, bisect_right([*accumulate(reversed(heights[1:]))], room / 3))
    end = len(lines) - n_last
    start = bisect_right([*accumulate(heights[:end])], room - sum(heights[end:]))
    return [*lines[:start], CUT.format(end - start), *lines[end:]]


SILENT_SECONDS = 2.0  # work shorter than this says nothing
STILL_SECONDS = 60.0  # after which a plain line that has not changed is printed again
REFRESH_SECONDS = 0.2  # of the bar
WIDE_ENOUGH, BAR_WIDTH = 60, 10  # columns of a terminal with a bar, and of the bar
FEWEST_STEPS = 2  # done before the time of the others is estimated from them
SHARE_BETWEEN = 0.05  # of the time gone by, which passes between two plain lines at least

_COUNTED = re.compile(r"(?P<done>\d+) of (at most )?(?P<total>\d+)")
_NUMBER = re.compile(r"\d[\d.,]*")


class Steps:
    """The step at hand, and how far work has come whose steps are counted.

    A message such as ``12000 of 90000 rows read`` has both. Other words before the numbers, or another total, are
    other work, whose time is measured anew.
    """

    def __init__(self) -> None:
        self.message = "reading"
        self.began = self._noted = self._counted_from = time.monotonic()
        self._work: tuple[str, int] | None = None
        self._first = self.done = self.total = 0

    def note(self, message: str) -> None:
        """Take the line of the step that begins."""
        counted, now = _COUNTED.search(message), time.monotonic()
        if counted is None:
            self._work, self.done, self.total = None, 0, 0
        else:
            done, total = int(counted["done"]), int(counted["total"])
            work = (_NUMBER.sub("#", message[: counted.start()]), total)
            if work != self._work or done < self.done:
                self._work, self._first, self._counted_from = work, done, now
            self.done, self.total = done, total
        self._noted, self.message = now, message

    def line(self) -> str:
        """The message, with the time that is left where steps of its work show it and it says none itself."""
        message = printable(without_credentials(self.message))
        if self.total == 0 or message.endswith(" more"):
            return message
        done, now = self.done - self._first, time.monotonic()
        spent = self._noted - self._counted_from
        # the step that the message names may still be ahead; what has passed since then is gone
        left = spent / done * (self.total - self.done + 1) - (now - self._noted) if done >= FEWEST_STEPS else 0.0
        return message + time_left(left, 1, 2)


@contextmanager
def reporting(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Give a function that takes a line about the step at hand.

    On a terminal the line is next to a moving bar. Elsewhere a plain line is printed every two seconds at most, and
    more rarely the longer the work takes. Nothing is printed in the first two seconds, nor if `quiet`. What is shown
    is shown by a thread: a step may be long and silent.
    """
    if quiet:
        yield lambda message: None
        return
    console = Console(stderr=True, highlight=False)
    on_terminal = sys.stderr.isatty() and not console.is_dumb_terminal
    steps, ended = Steps(), Event()
    shown = Thread(target=_bar if on_terminal else _plain_lines, args=(steps, ended, console), daemon=True)
    shown.start()
    try:
        yield steps.note
    finally:
        ended.set()
        shown.join()


def _plain_lines(steps: Steps, ended: Event, console: Console) -> None:
    printed, last, wait = "", steps.began, SILENT_SECONDS
    while not ended.wait(wait):
        now = time.monotonic()
        if steps.message != printed or now - last >= STILL_SECONDS:
            printed, last = steps.message, now
            print(f"[{now - steps.began:5.1f} s] {steps.line()}", file=sys.stderr, flush=True)
        wait = max(SILENT_SECONDS, SHARE_BETWEEN * (now - steps.began))


def _bar(steps: Steps, ended: Event, console: Console) -> None:
    if ended.wait(SILENT_SECONDS):
        return
    words = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    with Progress(
        TextColumn("{task.description}", markup=False, table_column=words),
        *([BarColumn(bar_width=BAR_WIDTH)] if console.width >= WIDE_ENOUGH else []),  # else words have all the room
        TimeElapsedColumn(),
        console=console,
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,
        expand=True,
    ) as bar:
        task = bar.add_task("", total=None)
        bar.tasks[0].start_time = bar.get_time() - (time.monotonic() - steps.began)
        while True:
            bar.update(task, description=steps.line(), total=steps.total or None, completed=steps.done)
            bar.refresh()
            if ended.wait(REFRESH_SECONDS):
                return
