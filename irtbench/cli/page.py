"""What a command says to people on standard output: on a terminal one screen of it, elsewhere all of it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from irtbench.cli.output import Shown

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
    before = _page.set(parts)
    try:
        yield
    finally:
        _page.reset(before)
        size = shutil.get_terminal_size()
        for line in screenful(parts, size.columns, size.lines, bold=can_be_bold()):
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

    def page(rows: int) -> list[str]:
        found: list[str] = []
        for part in parts:
            found += part.splitlines() or [""] if isinstance(part, str) else part.lines(width, rows, bold=bold)
        return found

    lines = page(most)
    if _height(lines, width) <= room:
        return lines
    fewest, lines = FEWEST_ROWS, page(FEWEST_ROWS)
    if _height(lines, width) > room:
        return _without_middle(lines, width, room)
    while most - fewest > 1:
        middle = (fewest + most) // 2
        tried = page(middle)
        if _height(tried, width) <= room:
            fewest, lines = middle, tried
        else:
            most = middle
    return lines


def can_be_bold() -> bool:
    """Whether escape sequences may go to the terminal."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def _height(lines: Sequence[str], width: int) -> int:
    """Lines of the terminal that these take."""
    from rich.cells import cell_len
    from rich.text import Text

    plain = (Text.from_ansi(line).plain if "\x1b" in line else line for line in lines)
    return sum(max(1, -(-cell_len(line) // max(1, width))) for line in plain)


def _without_middle(lines: Sequence[str], width: int, room: int) -> list[str]:
    """The top and the bottom, two thirds and a third of the room, and how much is left out between them."""
    room -= _height([CUT.format(len(lines))], width)
    end = len(lines) - 1
    while end > 1 and _height(lines[end - 1 :], width) <= room / 3:
        end -= 1
    start = 0
    while start < end and _height([*lines[: start + 1], *lines[end:]], width) <= room:
        start += 1
    return [*lines[:start], CUT.format(end - start), *lines[end:]]
