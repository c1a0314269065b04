"""What a long command says on standard error while it works, and when a fit did not converge."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from irtbench.data.harmless_text import printable
from irtbench.data.responses import name_first

SILENT_SECONDS = 2.0  # work shorter than this says nothing


@contextmanager
def reporting(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Give a function that takes a line about the step at hand.

    On a terminal the line stands beside a moving bar. Elsewhere a plain line is printed at most every two seconds.
    Nothing is printed in the first two seconds, nor if `quiet`.
    """
    if quiet:
        yield lambda message: None
        return
    console = Console(stderr=True, highlight=False)
    began = last = time.monotonic()
    if not console.is_terminal:

        def plain_line(message: str) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= SILENT_SECONDS:
                last = now
                print(f"[{now - began:5.1f} s] {printable(message)}", file=sys.stderr, flush=True)

        yield plain_line
        return
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task("starting", total=None)

    def move(message: str) -> None:
        if time.monotonic() - began >= SILENT_SECONDS:
            bar.start()
        bar.update(task, description=printable(message))

    try:
        yield move
    finally:
        bar.stop()


def demand_converged(unconverged: Sequence[str], *, allow_unconverged: bool, quiet: bool) -> None:
    """End with status 1 if a fit did not converge and that is not allowed; if `quiet`, say so on standard error.

    Parameters
    ----------
    unconverged
        What was fitted without success, with what the fit says of it.
    """
    if unconverged and quiet:
        print(f"irtbench: not converged: {printable(name_first(unconverged))}", file=sys.stderr)
    if unconverged and not allow_unconverged:
        raise typer.Exit(1)


def say_doubts(doubts: Sequence[str]) -> None:
    """Say on standard error why a scale may not be one of ability, a line each."""
    for doubt in doubts:
        print(f"irtbench: warning: {printable(doubt)}", file=sys.stderr)
