"""Common items of two calibrations, drawn; nothing is computed here."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from irtbench.report.plots import BLUE, GREY, ORANGE

MOST_NAMED = 12


def draw_drift(ax: Axes, table: pd.DataFrame) -> Axes:
    """Difficulties of the common items on the old scale, as they were and as found now; those that drifted are named.

    Parameters
    ----------
    ax
        Where to draw.
    table
        Rows of drift.csv.
    """
    old, new = (table[name].to_numpy(dtype=np.float64) for name in ("difficulty_old", "difficulty_new"))
    gone = table["released"].to_numpy(dtype=np.bool_)
    ends = [np.nanmin([old, new]) - 0.3, np.nanmax([old, new]) + 0.3]
    ax.plot(ends, ends, color=GREY, linestyle="--", linewidth=0.8)
    for which, marker, colour, face, text in (
        (~gone, "o", BLUE, BLUE, "links the scales"),
        (gone, "D", ORANGE, "white", "left out of the link"),
    ):
        if which.any():
            ax.plot(old[which], new[which], marker, color=colour, markerfacecolor=face, markersize=5,
                    label=f"{text} ({which.sum()})")  # fmt: skip
    for name, x, y in zip(table["item_id"][gone].head(MOST_NAMED), old[gone], new[gone], strict=False):
        ax.annotate(str(name), (x, y), (6, 0), textcoords="offset points", va="center", fontsize=8, parse_math=False)
    ax.set(xlabel="difficulty b on the old scale, as it was", ylabel="as these people have it, on the old scale")
    ax.set_aspect("equal", adjustable="datalim")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.01), ncols=2, borderaxespad=0)
    return ax
