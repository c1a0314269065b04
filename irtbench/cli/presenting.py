"""Figures and pages beside a command's results: whole or absent, as all results are."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from irtbench.cli.options import BESIDE_RESULTS, FigureWidth
from irtbench.cli.result_files import output_file, output_folder
from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    from irtbench.report.blocks import Block
    from irtbench.report.page import Page


#: What ``--figure-width`` says, of the command that runs.
WIDTH_ASKED: ContextVar[str | None] = ContextVar("figure_width", default=None)
LEAST_WIDTH, MOST_WIDTH = 2.0, 40.0  # inches


def sizing_figures(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command, which takes ``--figure-width`` as well where it draws figures."""
    own = inspect.signature(command, eval_str=True)
    if "figures" not in own.parameters:
        return command

    @wraps(command)
    def sized(*, figure_width: str | None = None, **given: Any) -> None:
        WIDTH_ASKED.set(figure_width)
        command(**given)

    width = inspect.Parameter("figure_width", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=FigureWidth)
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own.parameters.values()]
    parameters.insert([*own.parameters].index("figures") + 1, width)
    sized.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return sized


def inches(width: str | None) -> float | None:
    """A width in inches: ``3.3in``, ``84mm``, or a number of inches.

    Examples
    --------
    >>> inches("3.3in"), inches("254 mm"), inches(None)
    (3.3, 10.0, None)

    Raises
    ------
    InputError
        If it is no width, or none that a figure can have.
    """
    if width is None:
        return None
    said = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*(in|mm|)\s*", width)
    found = float(said[1]) / (25.4 if said[2] == "mm" else 1.0) if said else 0.0
    if not LEAST_WIDTH <= found <= MOST_WIDTH:
        between = f"{LEAST_WIDTH:g} to {MOST_WIDTH:g} inches"
        raise InputError(f"--figure-width: expected {between}, such as 3.3in or 84mm, but got {width!r}")
    return found


@contextmanager
def figures_in(
    target: Path | None, *, beside: Path | None = None, unasked: Path | None = None, ending: str = "svg"
) -> Iterator[Callable[[Sequence[Block]], None] | None]:
    """Give a function that writes figures into the folder that ``--figures`` names; None where none are wanted.

    In a folder of their own they are SVG, PNG and PDF, with a list of their captions, and take the place of those of
    the last run.

    Parameters
    ----------
    target
        The folder; None where the option was not given.
    beside
        Where the command is writing its results, among which the figures stand where ``--figures`` names no folder.
    unasked
        The same of a command that draws among its results without being asked.
    ending
        Of the figures that stand among results.

    Raises
    ------
    InputError
        As `output_folder`.
    """
    width = inches(WIDTH_ASKED.get())
    results = beside if target == BESIDE_RESULTS else unasked
    if target == BESIDE_RESULTS and results is None:
        raise InputError("--figures: expected a folder for them, --figures DIR or -o DIR")
    if target is None and results is None:
        if width is not None:
            raise InputError("--figure-width: expected the figures too, --figures DIR")
        yield None
        return
    # matplotlib takes half a second to import, and a run without figures needs none of it
    from irtbench.report.figure_file import write_figures, written_before

    own = None if target == BESIDE_RESULTS else target
    with nullcontext() if own is None else output_folder(own, files=written_before(own)) as folder:

        def draw(blocks: Sequence[Block]) -> None:
            if results is not None:
                write_figures(blocks, results, formats=(ending,), width=width)
            if folder is not None:
                write_figures(blocks, folder, width=width)

        yield draw


@contextmanager
def maybe_folder(target: Path | None, *, files: Sequence[str] = ()) -> Iterator[Path | None]:
    """As `output_folder`; None where no folder was named."""
    if target is None:
        yield None
        return
    with output_folder(target, files=files) as folder:
        yield folder


@contextmanager
def maybe_file(target: Path | None) -> Iterator[Path | None]:
    """As `output_file`; None where no file was named."""
    if target is None:
        yield None
        return
    with output_file(target) as file:
        yield file


@contextmanager
def page_in(target: Path | None) -> Iterator[Callable[[Page], None] | None]:
    """Give a function that writes a page to the file that ``--html`` names; None where it was not given."""
    if target is None:
        yield None
        return
    from irtbench.report.page import render_page

    with output_file(target) as file:

        def show(page: Page) -> None:
            file.write_text(render_page(page), encoding="utf-8")

        yield show
