"""A drawing: who draws it, how its file is called, and what it shows; as an image on a page or as a file."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from html import escape

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from irtbench.data.harmless_text import printable
from irtbench.report.forms import STYLE, VECTORS

ABILITY_LABEL = "ability θ"  # its unit depends on the model: who draws for a study adds it
DOTS = 160  # an inch, of a picture on a page
LEAST_LETTERS = 7.0  # points, which journals ask for
WIDTH, HEIGHT = 5.2, 3.5  # of a panel, in inches: two fit next to each other on a page, one on a telephone


@dataclass(frozen=True, eq=False)
class Drawing:
    """One image.

    Parameters
    ----------
    name
        Of its file, without ending; different from those of the other drawings of a result.
    heading
        Printed above it.
    description
        What it shows, for those who do not see it.
    draw
        Fills a figure.
    width, height
        In inches.
    unit
        Named on axes of ability.
    vectors
        Of more lines and dots than this a file holds a picture, or it would have megabytes.
    """

    name: str
    heading: str
    description: str
    draw: Callable[[Figure], object]
    width: float = WIDTH
    height: float = HEIGHT
    unit: str = ""
    vectors: int = VECTORS

    @cached_property
    def image(self) -> str:
        """The image as a data URI; the same drawing gives the same text every time."""
        with figure_of(self) as figure:
            svg = svg_of(figure, transparent=True)  # the ground is the page's, light or dark
            return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode("ascii")


def on_axes(
    name: str,
    draw: Callable[[Axes], object],
    *,
    heading: str = "",
    description: str = "",
    height: float = HEIGHT,
    unit: str = "",
    vectors: int = VECTORS,
) -> Drawing:
    """A drawing that fills one Axes."""
    return Drawing(name, heading, description, lambda figure: draw(figure.subplots()), WIDTH, height, unit, vectors)


def in_panels(
    name: str,
    draws: Sequence[Callable[[Axes], object]],
    *,
    columns: int,
    heading: str = "",
    description: str = "",
    width: float = WIDTH,
    height: float = HEIGHT,
) -> Drawing:
    """A drawing of several Axes, row by row, each of this width and height."""
    columns = min(columns, len(draws))
    rows = -(-len(draws) // columns)

    def draw(figure: Figure) -> None:
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for draw_one, ax in zip(draws, axes, strict=False):
            draw_one(ax)
        for ax in axes[len(draws) :]:
            ax.remove()

    return Drawing(name, heading, description, draw, columns * width, rows * height)


@contextmanager
def figure_of(drawing: Drawing, *, headed: bool = False, width: float | None = None) -> Iterator[Figure]:
    """The figure as drawn, in our style and not in what a user's own matplotlibrc says, which holds as long as this.

    Parameters
    ----------
    drawing
        What is drawn.
    headed
        Whether its heading is in the image too.
    width
        In inches, instead of the drawing's own; in a narrower one letters are smaller, down to ``LEAST_LETTERS``.
    """
    width = width or drawing.width
    scale = min(1.0, max(width / drawing.width, LEAST_LETTERS / STYLE["font.size"]))
    sizes = {name: value * scale for name, value in STYLE.items() if isinstance(value, float) and "size" in name}
    with matplotlib.style.context(["default", STYLE, sizes]), warnings.catch_warnings():
        # text stays text in an SVG: the reader's viewer has letters that our font lacks
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure = Figure(figsize=(width, drawing.height * scale), layout="constrained")
        drawing.draw(figure)
        for ax in figure.axes:
            if drawing.unit and ax.get_xlabel() == ABILITY_LABEL:
                ax.set_xlabel(f"{ABILITY_LABEL} ({drawing.unit})")
            dots = sum(1 if line.get_marker() in ("None", "") else np.size(line.get_xdata()) for line in ax.lines)
            for artist in (*ax.lines, *ax.collections) if dots > drawing.vectors else ():
                artist.set_rasterized(True)
        if headed and drawing.heading:
            heading = figure.suptitle(drawing.heading, x=0.01, ha="left", fontsize="medium", wrap=True)
            heading.set_parse_math(False)
        yield figure


def laid_out_once(figure: Figure) -> None:
    """Place the panels as an SVG has them; `savefig` would place them by drawing everything once more."""
    FigureCanvasSVG(figure)
    figure.dpi = 72  # of an SVG
    layout = figure.get_layout_engine()
    if layout is not None and figure.axes:
        layout.execute(figure)
    figure.set_layout_engine(None)


def svg_of(figure: Figure, *, title: str = "", description: str = "", transparent: bool = False) -> str:
    """The figure as SVG: without a date, which would make every file differ, and without control characters.

    Title and description are its own (``<title>`` and ``<desc>``), which viewers and screen readers tell.
    """
    laid_out_once(figure)
    image = io.BytesIO()
    about = {"Date": None, "Creator": None}
    figure.savefig(image, format="svg", dpi=DOTS, transparent=transparent, metadata=about)
    svg = image.getvalue().decode()
    if title:
        start = svg.index(">", svg.index("<svg")) + 1
        about_it = f"\n <title>{escape(title)}</title>\n <desc>{escape(description)}</desc>"
        svg = svg[: start - 1] + ' role="img">' + about_it + svg[start:]
    return printable(svg)
