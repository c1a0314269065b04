"""Figures and pages beside a command's results: whole or absent, as all results are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from irtbench.cli.options import BESIDE_RESULTS
from irtbench.cli.result_files import output_file, output_folder
from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    from irtbench.report.blocks import Block
    from irtbench.report.page import Page


@contextmanager
def figures_in(
    target: Path | None, *, beside: Path | None = None, unasked: Path | None = None, ending: str = "svg"
) -> Iterator[Callable[[Sequence[Block]], None] | None]:
    """Give a function that writes figures into the folder that ``--figures`` names; None where none are wanted.

    In a folder of their own they are SVG and PNG, with a list of their captions, and take the place of those of the
    last run.

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
    results = beside if target == BESIDE_RESULTS else unasked
    if target == BESIDE_RESULTS and results is None:
        raise InputError("--figures: expected a folder for them, --figures DIR or -o DIR")
    if target is None and results is None:
        yield None
        return
    # matplotlib takes half a second to import, and a run without figures needs none of it
    from irtbench.report.figure_file import write_figures, written_before

    own = None if target == BESIDE_RESULTS else target
    with nullcontext() if own is None else output_folder(own, files=written_before(own)) as folder:

        def draw(blocks: Sequence[Block]) -> None:
            if results is not None:
                write_figures(blocks, results, formats=(ending,))
            if folder is not None:
                write_figures(blocks, folder)

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
