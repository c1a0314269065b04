"""Estimates with their intervals, one under the other; nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from irtbench.report.plots import BLUE, COLOURS, GREY, ORANGE

ROOM = 0.6  # of a row's height for several estimates in it
ROW, FOOT = 0.26, 0.95  # inches of a row, and of the axis and the legend

MARKERS = "osD^v"  # of up to five series


def height_of(n_rows: int, *, each: int = 1) -> float:
    """Height in inches of a figure with so many rows, and so many estimates in each."""
    return FOOT + n_rows * max(ROW, 0.15 * each)


def draw_intervals(
    ax: Axes,
    names: Sequence[str],
    estimate: ArrayLike,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    *,
    label: str,
    found: ArrayLike | None = None,
    legend: tuple[str, str] = ("", ""),
    reference: float | None = None,
) -> Axes:
    """Estimates with their intervals, the first on top; open dots where nothing was found.

    Parameters
    ----------
    ax
        Where to draw.
    names
        What stands beside each row.
    estimate, lower, upper
        A value a row; without intervals a line leads to it from the reference.
    label
        Of the axis.
    found
        Whether a dot is filled and stands out; all are where this is None.
    legend
        What filled and open dots are.
    reference
        A value at which a line is drawn.
    """
    x = np.asarray(estimate, dtype=np.float64)
    height = -np.arange(x.size, dtype=np.float64)
    out = np.ones(x.size, dtype=np.bool_) if found is None else np.asarray(found, dtype=np.bool_)
    colours = np.where(out, ORANGE if found is not None else BLUE, BLUE)
    if reference is not None:
        ax.axvline(reference, color=GREY, linewidth=0.8)
    if lower is not None and upper is not None:
        ends = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
        ax.hlines(height, *ends, color=colours.tolist(), linewidth=1.2)
    elif reference is not None:
        ax.hlines(height, np.full(x.size, reference), x, color=colours.tolist(), linewidth=1.2)
    for which, colour, face, text in (
        (out, ORANGE if found is not None else BLUE, None, legend[0]),
        (~out, BLUE, "white", legend[1]),
    ):
        if which.any():
            ax.plot(x[which], height[which], "o", color=colour, markerfacecolor=face or colour, markersize=5,
                    label=text or "_")  # fmt: skip
    _rows(ax, names, label)
    if any(legend):
        ax.legend(loc="lower right", bbox_to_anchor=(1, 1.01), ncols=2, borderaxespad=0)
    return ax


def draw_several_intervals(ax: Axes, names: Sequence[str], sets: Mapping[str, pd.DataFrame], *, label: str) -> Axes:
    """Several estimates in each row, each kind with a colour and a marker of its own.

    Parameters
    ----------
    ax
        Where to draw.
    names
        What stands beside each row.
    sets
        Of each kind of estimate a table with columns ``estimate, lower, upper`` and a row for each name.
    label
        Of the axis.
    """
    step = ROOM / len(sets)
    for k, (kind, table) in enumerate(sets.items()):
        height = -np.arange(len(names)) + ROOM / 2 - (k + 0.5) * step
        x, lower, upper = (table[name].to_numpy(dtype=np.float64) for name in ("estimate", "lower", "upper"))
        colour = COLOURS[k % len(COLOURS)]
        ax.hlines(height, lower, upper, color=colour, linewidth=1.2)
        face = "white" if k % 2 else colour
        ax.plot(x, height, MARKERS[k % len(MARKERS)], color=colour, markerfacecolor=face, markersize=5, label=kind)
    _rows(ax, names, label)
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1.01), ncols=len(sets), borderaxespad=0)
    return ax


def _rows(ax: Axes, names: Sequence[str], label: str) -> None:
    places: NDArray[np.float64] = -np.arange(len(names), dtype=np.float64)
    ax.set_yticks(places, labels=[shortened(name) for name in names], parse_math=False)
    ax.set(xlabel=label, ylim=(places[-1] - 0.7, 0.7))
    ax.grid(visible=False, axis="y")


def shortened(name: object, *, most: int = 34) -> str:
    """A name that leaves room for what it names."""
    text = str(name)
    return text if len(text) <= most else f"{text[: most - 1]}…"
