"""Commands run in this process as `main` runs them, with status and what they print: hundreds of them are cheap."""

import contextlib
import gc
import io
import sys
import warnings
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import typer
from typer.main import get_command

from irtbench.cli import main as command_line
from irtbench.cli.main import application
from irtbench.data import place
from irtbench.report import page
from irtbench.report.drawing import Drawing

#: In place of `Drawing.image`: the name alone.
NOT_DRAWN = property(lambda drawing: "data:image/svg+xml;base64," + b64encode(drawing.name.encode()).decode())

#: What writes a figure's files, and for `empty_files` to take the place of.
WRITTEN = page.write_drawing


def empty_files(drawing: Drawing, folder: Path, formats: Iterable[str] = page.FORMATS, **_: object) -> None:
    """The files of a figure with nothing in them."""
    for ending in formats:
        (folder / f"{drawing.name}.{ending}").touch()


@cache
def built(name: str = "") -> Any:
    """What `application` gives, with its options read once a process: that takes longer than most commands here."""
    return get_command(application(name))


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What it said on standard error, warnings and progress left out."""
        return [line for line in self.err.splitlines() if line and not line.startswith(("irtbench: warning:", "["))]


def run_main(*arguments: object, cwd: Path | None = None) -> Ended:
    """Run ``irtbench`` with these arguments; the command alone is imported."""
    words = list(map(str, arguments))
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with (
        patch.dict(place._secrets, clear=True),  # of a command are its own process's
        patch.dict(place._given, clear=True),
        patch.object(sys, "argv", ["irtbench", *words]),
        patch.object(command_line, "application", built),
        patch.object(command_line, "STOPPING", ()),
        patch.object(gc, "freeze"),
        patch.object(gc, "set_threshold"),
        patch.object(warnings, "showwarning", warnings.showwarning),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir(cwd) if cwd is not None else contextlib.nullcontext(),
    ):
        try:
            command_line.main()
        except SystemExit as stopped:
            status = stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)
        except typer.Exit as stopped:
            status = stopped.exit_code
    return Ended(status, out.getvalue(), err.getvalue())
