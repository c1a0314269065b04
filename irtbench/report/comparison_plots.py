"""Differences of systems with their intervals, drawn; nothing is computed here."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from irtbench.report.plots import BLUE, GREY, ORANGE

ALPHA = 0.05  # adjusted p up to which a difference is drawn as found


def draw_differences(ax: Axes, table: pd.DataFrame, *, names: list[str], label: str) -> Axes:
    """Differences with their intervals, one under the other; filled where the adjusted p is at most .05.

    Parameters
    ----------
    ax
        Where to draw.
    table
        Columns ``difference, lower, upper, p_adjusted``, at least one row.
    names
        What stands beside each row.
    label
        Of the axis of differences.
    """
    height = -np.arange(len(table), dtype=np.float64)
    found = (table["p_adjusted"] <= ALPHA).to_numpy()
    d, lower, upper = (table[name].to_numpy(dtype=np.float64) for name in ("difference", "lower", "upper"))
    ax.axvline(0, color=GREY, linewidth=0.8)
    ax.hlines(height, lower, upper, color=np.where(found, ORANGE, BLUE).tolist(), linewidth=1.2)
    for which, colour, face, text in (
        (found, ORANGE, ORANGE, f"adjusted p ≤ {ALPHA:g}"),
        (~found, BLUE, "white", f"adjusted p > {ALPHA:g}"),
    ):
        ax.plot(d[which], height[which], "o", color=colour, markerfacecolor=face, markersize=5, label=text)
    ax.set_yticks(height, labels=names, parse_math=False)
    ax.set(xlabel=label, ylim=(height[-1] - 0.7, 0.7))
    ax.grid(visible=False, axis="y")
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1.01), ncols=2, borderaxespad=0)
    return ax
