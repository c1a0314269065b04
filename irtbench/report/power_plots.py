"""What a test set can show, drawn; nothing is computed here."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from irtbench.report.plots import COLOURS, GREY, LINE_STYLES

LOWEST_P = 1e-4  # shown


def draw_expected_p(ax: Axes, table: pd.DataFrame, *, n_items: int, alpha: float) -> Axes:
    """Expected p against the size of the effect for one set size, a line for each share of items hurt.

    Parameters
    ----------
    ax
        Where to draw.
    table
        Columns ``n_items, hurt, effect, p``.
    n_items
        The set size to draw.
    alpha
        The level, drawn as a horizontal line.
    """
    rows = table[table["n_items"] == n_items]
    for k, (hurt, line) in enumerate(rows.groupby("hurt")):
        ax.plot(
            100 * line["effect"],
            line["p"],
            linestyle=LINE_STYLES[k % len(LINE_STYLES)],
            color=COLOURS[k % len(COLOURS)],
            marker="o",
            markersize=3,
            label=f"{100 * float(str(hurt)):g}% hurt",
        )
    ax.axhline(alpha, color=GREY, linewidth=0.8, linestyle="--")
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set(xlabel="difference in accuracy (points)", ylabel="expected p", ylim=(LOWEST_P, 1))
    ax.set_xlim(0, 100 * np.max(table["effect"]) * 1.02)
    ax.set_title(f"{n_items:,} items", loc="left")
    ax.legend(loc="upper right")
    return ax
