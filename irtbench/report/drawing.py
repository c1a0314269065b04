"""A drawing: the forms of our figures (intervals, curves, scatter, bars, squares), and its image or file."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import ArrayLike, NDArray

from irtbench.data.harmless_text import printable

BLACK, BLUE, ORANGE, GREEN, PURPLE = "#000000", "#0072B2", "#D55E00", "#009E73", "#AA4499"
SKY, GREY = "#56B4E9", "#666666"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, BLACK)
LineStyle = str | tuple[int, tuple[int, ...]]
# seven, so that seven lines are distinct in grey, and with the five colours thirty-five
LINE_STYLES: tuple[LineStyle, ...] = (
    "-", "--", ":", "-.", (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 4)),
)  # fmt: skip
MARKERS = "osD^v"
BARS: tuple[Mapping[str, Any], ...] = (
    {"color": SKY, "edgecolor": "white", "linewidth": 0.5, "hatch": ""},
    {"color": "white", "edgecolor": ORANGE, "hatch": "////"},
)
VECTORS = 500  # lines of a figure that are kept as lines
DASHED: Mapping[str, Any] = {"color": GREY, "linestyle": "--", "linewidth": 0.9}

STYLE: Mapping[str, Any] = {
    "font.family": "sans-serif",
    # Verdana is as wide as DejaVu Sans, with which the room for text is measured
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Geneva", "sans-serif"],
    "font.size": 9.5,
    "axes.labelsize": 9.5,
    "legend.fontsize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "irtbench",
    "pdf.fonttype": 42,  # journals refuse Type 3
    "text.parse_math": False,  # a system may be called $x$
}

ROOM = 0.6  # of a row's height for several estimates in it
ROW, FOOT = 0.26, 0.95  # inches of a row, and of the axis and the legend
LETTER, NAME = 0.07, 0.085  # inches that a letter of a legend takes, and the name of a row of squares


@dataclass(frozen=True, eq=False)
class Series:
    """What has one entry in the legend.

    Parameters
    ----------
    name
        In the legend; empty for none.
    x, y
        Places along the axes. Of an interval plot ``x`` are the estimates and ``y`` their rows, from 0 at the top;
        without rows there is an estimate a row. Of bars ``y`` are the lengths, those of a stack at the same places.
    lower, upper
        Ends of the interval of each estimate, or of the band about a curve.
    look
        Colour, line style, marker and so on in matplotlib's words, where others than its place among the series gives.
    """

    name: str
    x: ArrayLike = ()
    y: ArrayLike | None = None
    lower: ArrayLike | None = None
    upper: ArrayLike | None = None
    look: Mapping[str, Any] = field(default_factory=dict)

    def at(self, which: NDArray[np.bool_], name: str, look: Mapping[str, Any]) -> Series:
        """Some of the estimates of an interval plot, each in its row."""
        lower, upper = (None if end is None else np.asarray(end)[which] for end in (self.lower, self.upper))
        return Series(name, np.asarray(self.x)[which], np.flatnonzero(which), lower, upper, look)

    def drawn(self, k: int, **usual: Any) -> dict[str, Any]:
        """How the k-th series is drawn: its own look, and what is usual for the rest."""
        return {"color": COLOURS[k % len(COLOURS)], **usual, **self.look}


def found_plot(
    ax: Axes, names: Sequence[object], every: Series, found: ArrayLike, words: tuple[str, str], **settings: Any
) -> Axes:
    """An interval plot of estimates in two series: what was found filled, the others open; from 0."""
    out = np.asarray(found, dtype=np.bool_)
    filled, empty = {"color": ORANGE, "marker": "o"}, {"color": BLUE, "marker": "o", "markerfacecolor": "white"}
    both = every.at(out, words[0], filled), every.at(~out, words[1], empty)
    return interval_plot(ax, names, [series for series in both if np.size(series.x)], reference=0.0, **settings)


def interval_plot(
    ax: Axes,
    names: Sequence[object],
    series: Sequence[Series],
    *,
    label: str,
    reference: float | None = None,
    **settings: Any,
) -> Axes:
    """Estimates with their intervals, the first row on top; series that share rows are below each other in them.

    Without intervals a line leads to each estimate from the reference, a value at which a line is drawn. Settings of
    the axes, here as in the other charts, are in matplotlib's words.
    """
    if reference is not None:
        ax.axvline(reference, color=GREY, linewidth=0.8)
    step = ROOM / len(series) if all(one.y is None for one in series) else 0.0
    entries: list[tuple[str, Artist]] = []
    for k, one in enumerate(series):
        rows = np.arange(len(names)) if one.y is None else np.asarray(one.y)
        height = (len(series) - 1) / 2 * step - k * step - rows
        face = {"markerfacecolor": "white"} if k % 2 and not one.look else {}
        look = one.drawn(k, marker=MARKERS[k % len(MARKERS)], markersize=5, linestyle="none", **face)
        if one.lower is not None and one.upper is not None:
            ax.hlines(height, one.lower, one.upper, color=look["color"], linewidth=1.2)
        elif reference is not None:
            ax.hlines(height, np.full(height.size, reference), one.x, color=look["color"], linewidth=1.2)
        entries.append((one.name, ax.plot(one.x, height, **look)[0]))
    ax.set_yticks(-np.arange(len(names)), labels=[shortened(name) for name in names], parse_math=False)
    ax.set(xlabel=label, ylim=(0.3 - len(names), 0.7), **settings)
    ax.grid(visible=False, axis="y")
    return legend(ax, entries)


def curve_plot(
    ax: Axes,
    lines: Sequence[Series],
    *,
    x: str,
    y: str,
    dots: bool = False,
    diagonal: bool = False,
    **settings: Any,
) -> Axes:
    """Curves, each with its colour and line style, and with its band if it has one; on request the diagonal.

    Dots instead have a marker each series, and their intervals along the vertical axis.
    """
    if diagonal:
        every = np.concatenate([np.asarray(values) for one in lines for values in (one.x, one.y)])
        ends = np.nanmin(every), np.nanmax(every)
        ax.plot(ends, ends, **DASHED)
    entries: list[tuple[str, Artist]] = []
    for k, line in enumerate(lines):
        dot = {"marker": MARKERS[k % len(MARKERS)], "markersize": 4.5, "linestyle": "none"}
        look = line.drawn(k, **(dot if dots else {"linestyle": LINE_STYLES[k % len(LINE_STYLES)], "markersize": 4}))
        if line.lower is not None and line.upper is not None:
            ends_of = line.x, line.lower, line.upper
            if dots:
                ax.vlines(*ends_of, color=look["color"], linewidth=0.8)
            else:
                ax.fill_between(*ends_of, color=look["color"], alpha=0.15, linewidth=0)
        heights = np.asarray(line.y)
        if heights.ndim == 2 and heights.shape[1] > VECTORS:
            entries.append((line.name, many_curves(ax, np.asarray(line.x), heights, look)))
        else:
            entries.append((line.name, ax.plot(line.x, heights, **look)[0]))
    ax.set(xlabel=x, ylabel=y, **settings)
    return legend(ax, entries)


def many_curves(
    ax: Axes, x: NDArray[np.float64], heights: NDArray[np.float64], look: Mapping[str, Any]
) -> LineCollection:
    """A curve a column, all drawn as one picture: thousands of lines, each for itself, are slow."""
    places = np.broadcast_to(x[:, None], heights.shape)
    curves = LineCollection(
        list(np.stack([places, heights], axis=2).swapaxes(0, 1)),
        **{name: look[name] for name in look if name != "markersize"},
        rasterized=True,
    )
    curves.set_in_layout(False)  # within the axes: its extent is not wanted
    ax.add_collection(curves)
    ax.autoscale_view()
    return curves


def bar_plot(
    ax: Axes,
    stacks: Sequence[Series],
    *,
    x: str,
    y: str,
    width: float,
    lying: bool = False,
    mark: tuple[float, str] | None = None,
    **settings: Any,
) -> Axes:
    """Bars, each stack upon the one before, the second hatched; lying ones grow to the right.

    A mark is a value of the horizontal axis at which a dashed line is drawn, and what it is.
    """
    at = np.asarray(stacks[0].x, dtype=np.float64)
    base = np.zeros(at.size)
    entries: list[tuple[str, Artist]] = []
    for k, one in enumerate(stacks):
        n = np.asarray(one.y, dtype=np.float64)
        some, look = n != 0, {**BARS[k % len(BARS)], **one.look}
        draw, thick, start = (ax.barh, "height", "left") if lying else (ax.bar, "width", "bottom")
        drawn = draw(at[some], n[some], **{thick: width, start: base[some], **look})
        entries += [(one.name, drawn[0])] if some.any() else []
        base = base + n
    if mark is not None:
        entries.append((mark[1], ax.axvline(mark[0], color=ORANGE, linestyle="--")))
    ax.set(xlabel=x, ylabel=y, **settings)
    ax.grid(visible=False, axis="y" if lying else "x")
    return legend(ax, entries)


def histogram(
    ax: Axes,
    values: Sequence[Series],
    edges: NDArray[np.float64],
    *,
    x: str,
    y: str = "respondents",
    mark: tuple[float, str] | None = None,
    **settings: Any,
) -> Axes:
    """How many values of each series lie in each bin of equal width."""
    centres = (edges[:-1] + edges[1:]) / 2
    stacks = [Series(one.name, centres, np.histogram(one.x, bins=edges)[0], look=one.look) for one in values]
    limits = {"xlim": (edges[0], edges[-1]), **settings}
    return bar_plot(ax, stacks, x=x, y=y, width=edges[1] - edges[0], mark=mark, **limits)


def square_plot(
    ax: Axes, values: NDArray[np.float64], rows: Sequence[object], columns: Sequence[object], *, label: str
) -> Axes:
    """A matrix of squares, dark where a value is far from 0; a dash marks negative ones."""
    most = max(0.2, float(np.nanmax(np.abs(values), initial=0.0)))
    image = ax.imshow(np.abs(values), cmap="Greys", vmin=0, vmax=most, aspect="auto", interpolation="nearest")
    ax.figure.colorbar(image, ax=ax, label=label, shrink=0.8)
    negative = np.argwhere(values < -most / 4)
    ax.plot(negative[:, 1], negative[:, 0], "_", color=ORANGE, markersize=min(7.0, 160 / len(rows)))
    ax.grid(visible=False)
    box, dots = ax.get_window_extent(), ax.figure.dpi
    for axis, names, room, turned in ((ax.xaxis, columns, box.width, 90), (ax.yaxis, rows, box.height, 0)):
        if len(names) * NAME <= room / dots:
            words = [shortened(name, most=16 if turned else 24) for name in names]
            axis.set_ticks(range(len(names)), labels=words, rotation=turned, fontsize=7, parse_math=False)
        else:
            axis.set_ticks([])
            axis.set_label_text(f"{len(names)} items")
    return ax


def legend(ax: Axes, entries: Sequence[tuple[str, Artist]]) -> Axes:
    """A legend above the axes, where it hides nothing, in as many columns as there is room for."""
    shown = [entry for entry in entries if entry[0]]
    if shown:
        room = ax.get_window_extent().width / ax.figure.dpi
        scale = matplotlib.rcParams["font.size"] / STYLE["font.size"]
        columns = int(room / scale / (0.55 + LETTER * max(len(name) for name, _ in shown)))
        drawn = ax.legend(
            [artist for _, artist in shown], [str(k) for k in range(len(shown))], loc="lower left",
            bbox_to_anchor=(0, 1.01), ncols=min(max(columns, 1), len(shown)), borderaxespad=0,
        )  # fmt: skip
        # names come afterwards: as labels, those that begin with an underscore would be left out
        for entry, (name, _) in zip(drawn.get_texts(), shown, strict=True):
            entry.set(text=name, parse_math=False)
    return ax


def height_of(n_rows: int, *, each: int = 1) -> float:
    """Height in inches of an interval plot with so many rows, and so many estimates in each."""
    return FOOT + n_rows * max(ROW, 0.15 * each)


def shortened(name: object, *, most: int = 34) -> str:
    """A name that leaves room for what it names: its beginning and its end, in which names of one benchmark differ."""
    text = str(name)
    return text if len(text) <= most else f"{text[: most // 3]}…{text[most // 3 + 1 - most :]}"


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
            wrap(ax.xaxis.label)
            if drawing.unit and ax.get_xlabel() == ABILITY_LABEL:
                ax.set_xlabel(f"{ABILITY_LABEL} ({drawing.unit})")
            dots = sum(1 if line.get_marker() in ("None", "") else np.size(line.get_xdata()) for line in ax.lines)
            for artist in (*ax.lines, *ax.collections) if dots > drawing.vectors else ():
                artist.set_rasterized(True)
        if headed and drawing.heading:
            heading = figure.suptitle(drawing.heading, x=0.01, ha="left", fontsize="medium", parse_math=False)
            wrap(heading)
        yield figure


def wrap(text: Text) -> None:
    """Break it into lines, but for what Matplotlib would measure as a formula."""
    text.set_wrap("$" not in text.get_text())


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

    Title and description are its own (``<title>`` and ``<desc>``), which viewers show and screen readers read.
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
