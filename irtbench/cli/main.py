"""The command ``irtbench``: its commands, and what a user sees when one fails."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from importlib.metadata import version
from typing import Annotated, TextIO

import typer

from irtbench.cli.agree import agree
from irtbench.cli.artifacts import artifacts
from irtbench.cli.bias import bias
from irtbench.cli.breakdown import breakdown
from irtbench.cli.build import build
from irtbench.cli.calibration import calibration
from irtbench.cli.compare import compare
from irtbench.cli.consistency import consistency
from irtbench.cli.diagnose import diagnose
from irtbench.cli.dimensions import dimensions
from irtbench.cli.fit import fit
from irtbench.cli.human_bound import human_bound
from irtbench.cli.power import power
from irtbench.cli.predict import predict
from irtbench.cli.score import score
from irtbench.cli.simulate import simulate
from irtbench.data.input_error import InputError

SHOW_TRACEBACK = "IRTBENCH_TRACEBACK"

app = typer.Typer(
    name="irtbench",
    help="From crowd answers to a calibrated evaluation scale, and from a system's answers to its human percentile.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    build,
    fit,
    diagnose,
    bias,
    dimensions,
    score,
    compare,
    predict,
    agree,
    simulate,
    power,
    breakdown,
    consistency,
    calibration,
    human_bound,
    artifacts,
):
    app.command()(command)


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        print(f"irtbench {version('irtbench')}")
        raise typer.Exit


@app.callback()
def callback(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that stand before the command."""


def main() -> None:
    """Run the command line; wrong input is one line and status 2, anything unforeseen one line and status 1."""
    logging.basicConfig(level=logging.WARNING, format="irtbench: %(message)s")
    warnings.showwarning = show_warning
    try:
        app()
    except InputError as error:
        fail(str(error), 2)
    except OSError as error:
        fail(f"{error.filename or 'output'}: {error.strerror or error}", 2)
    except Exception as error:  # the last resort: a person gets a line, a developer the traceback on request
        if os.environ.get(SHOW_TRACEBACK):
            raise
        fail(f"internal error, please report it: {type(error).__name__}: {error} ({SHOW_TRACEBACK}=1 shows more)", 1)


def fail(message: str, status: int) -> None:
    """Print one line on standard error and stop."""
    print(f"irtbench: {' '.join(message.split())}", file=sys.stderr)
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
    print(f"irtbench: warning: {' '.join(str(message).split())}", file=sys.stderr)
