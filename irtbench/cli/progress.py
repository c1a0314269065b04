"""What a long command says on standard error while it works."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from irtbench.analysis.time_left import time_left
from irtbench.data.harmless_text import printable
from irtbench.data.place import without_credentials

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

    A message such as ``12000 of 90000 rows read`` tells it. Other words before the numbers, or another total, are
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
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}", markup=False, table_column=words),
        TimeElapsedColumn(),
    ]
    if console.width >= WIDE_ENOUGH:  # else there is room for the words alone
        columns.insert(1, BarColumn(bar_width=BAR_WIDTH))
    with Progress(
        *columns,
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
