"""A figure of one panel, or of several, as a file."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from irtbench.data.harmless_text import printable
from irtbench.report.plots import STYLE

WIDTH, HEIGHT = 6.4, 4.4  # inches


def write_figure(file: Path, draw: Callable[[Axes], object], *, width: float = WIDTH, height: float = HEIGHT) -> None:
    """Let ``draw`` fill an Axes and write it in the format of the file's name (svg, png, pdf).

    The same drawing gives the same bytes every time.
    """
    write_panels(file, [draw], width=width, height=height)


def write_panels(
    file: Path,
    draws: Sequence[Callable[[Axes], object]],
    *,
    columns: int = 1,
    width: float = WIDTH,
    height: float = HEIGHT,
) -> None:
    """The same with a panel for each of ``draws``, row by row, each of this width and height."""
    rows = -(-len(draws) // columns)
    with matplotlib.style.context(["default", STYLE]), warnings.catch_warnings():
        # in an SVG text stays text: the reader's viewer has letters that our font lacks
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure = Figure(figsize=(columns * width, rows * height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for draw, ax in zip(draws, axes, strict=False):
            draw(ax)
        for ax in axes[len(draws) :]:
            ax.remove()
        if file.suffix == ".svg":
            file.write_text(svg_of(figure), encoding="utf-8")
        else:  # other formats than SVG know no "Date"
            figure.savefig(file, dpi=160)


def svg_of(figure: Figure) -> str:
    """The figure as SVG: without a date, which would make every file differ, and without control characters."""
    image = io.BytesIO()
    figure.savefig(image, format="svg", metadata={"Date": None, "Creator": None})
    return printable(image.getvalue().decode())
