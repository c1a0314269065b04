"""The command ``irtbench``: its commands, and what a user sees when one fails."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn, TextIO

import typer

from irtbench.cli.command import Command
from irtbench.cli.result_files import inputs_of_command
from irtbench.data.harmless_text import printable
from irtbench.data.input_error import InputError

SHOW_TRACEBACK = "IRTBENCH_TRACEBACK"

PURPOSE = "From crowd answers to a calibrated evaluation scale, and from a system's answers to its human percentile."
#: Parameters of commands that name what is written, or where it goes; any other path is read.
OUTPUTS = ("output", "explanation", "figures", "html", "study")
#: What is wrong with options and arguments; typer exports the class below it alone.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
DUCKDB = "_duckdb"
STOPPING = ("SIGTERM", "SIGHUP")  # signals that end a run in good order, as Ctrl-C does
#: Exit status of a run that was sent such a signal.
stopped_with: ContextVar[int | None] = ContextVar("stopped_with", default=None)
# in the order of the help; each is the function of that name in the module of that name
COMMANDS = (
    "convert",
    "doctor",
    "init",
    "build",
    "fit",
    "diagnose",
    "keys",
    "items",
    "difficulty",
    "link",
    "extend",
    "bias",
    "dimensions",
    "score",
    "compare",
    "predict",
    "assemble",
    "adapt",
    "plan",
    "sample",
    "screen",
    "agree",
    "simulate",
    "power",
    "breakdown",
    "consistency",
    "calibration",
    "human-bound",
    "artifacts",
    "report",
)


def application(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """The command line with these commands; nothing else is imported."""
    app = typer.Typer(
        name="irtbench",
        help=PURPOSE,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        callback=callback,
    )
    for name in names:
        function = name.replace("-", "_")
        app.command(cls=Command)(noting_inputs(getattr(import_module(f"irtbench.cli.{function}"), function)))
    return app


def noting_inputs(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command, which first notes the paths it was given to read: no result may replace one of them."""

    @wraps(command)
    def noted(**given: Any) -> Any:
        paths = []
        for name, value in given.items():
            if name not in OUTPUTS:
                paths += [path for path in (value if isinstance(value, list | tuple) else [value])
                          if isinstance(path, Path)]  # fmt: skip
        before = inputs_of_command.set(tuple(paths))
        try:
            return command(**given)
        finally:
            inputs_of_command.reset(before)

    return noted


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        print(f"irtbench {version('irtbench')}")
        raise typer.Exit


def callback(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that stand before the command."""


def main() -> None:
    """Run the command line; wrong input is one line and status 2, anything unforeseen one line and status 1.

    Where the first argument is a command, no other is imported. Without any argument it is the help.
    """
    logging.basicConfig(level=logging.WARNING, format="irtbench: warning: %(message)s")
    warnings.showwarning = show_warning
    for name in STOPPING:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, stop)
    asked, arguments = sys.argv[1:2], sys.argv[1:] or ["--help"]
    if asked and asked[0] not in COMMANDS and not asked[0].startswith("-"):
        fail(no_such_command(asked[0]), 2)
    # importing torch and pandas makes objects by the hundred thousand, none of them garbage: the collector would look
    # through them again and again, and once more at the end, which takes half a second
    gc.set_threshold(100_000, 50, 50)
    try:
        app = application(asked if asked and asked[0] in COMMANDS else COMMANDS)
        status = app(arguments, prog_name="irtbench", standalone_mode=False)
        if isinstance(status, int) and status:
            sys.exit(status)
    except UsageError as error:
        fail_usage(error, asked)
    except typer.Abort:
        if (status := stopped_with.get()) is not None:  # a library has made another exception of the signal's
            sys.exit(status)
        fail("stopped by Ctrl-C", 128 + signal.SIGINT)
    except InputError as error:
        fail(str(error), 2)
    except OSError as error:
        fail(f"{error.filename or 'output'}: {error.strerror or error}", 2)
    except MemoryError:
        fail("not enough memory for input of this size", 2)
    except Exception as error:  # the last resort: a person gets a line, a developer the traceback on request
        if os.environ.get(SHOW_TRACEBACK):
            raise
        fail(f"internal error, please report it: {type(error).__name__}: {error} ({SHOW_TRACEBACK}=1 shows more)", 1)
    finally:
        if DUCKDB not in sys.modules:  # which complains of objects that are there at the end
            gc.freeze()


def stop(number: int, frame: FrameType | None) -> NoReturn:
    """End a run that was sent a signal: what was begun is removed on the way out."""
    signal.signal(number, signal.SIG_IGN)
    stopped_with.set(128 + number)
    fail(f"stopped by {signal.Signals(number).name}", 128 + number)


def no_such_command(name: str) -> str:
    """Say that there is none, and which there are that are called much the same."""
    alike = get_close_matches(name, COMMANDS)
    advice = f"did you mean {' or '.join(alike)}?" if alike else f"expected one of {', '.join(COMMANDS)}"
    return f"no command '{name}'; {advice}"


def fail_usage(error: Exception, asked: Sequence[str]) -> NoReturn:
    """Say in one line what is wrong with an option or an argument of the command asked for."""
    message: str = error.format_message()  # type: ignore[attr-defined]
    place = " ".join(["irtbench", *(name for name in asked if name in COMMANDS)])
    message = message.replace("Value error, ", "").rstrip(".")
    fail(f"{message} ({place} --help shows what there is)", 2, place=place)


def fail(message: str, status: int, *, place: str = "irtbench") -> NoReturn:
    """Print one line on standard error and stop."""
    print(f"{place}: {printable(' '.join(message.split()))}", file=sys.stderr)
    sys.exit(status)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line, without the place in our code."""
    print(f"irtbench: warning: {printable(' '.join(str(message).split()))}", file=sys.stderr)
