"""Accuracy by the kind of item, drawn; nothing is computed here."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from irtbench.report.plots import COLOURS

MARKERS = "osD^v"
ROOM = 0.7  # of a row's height for its systems


def draw_shares(ax: Axes, table: pd.DataFrame, *, rows: str, share: str, label: str) -> Axes:
    """Shares of each system with their intervals, a group of points for each row.

    Parameters
    ----------
    ax
        Where to draw.
    table
        Columns ``respondent_id, lower, upper`` and the two named here, every system with the same rows; the share lies
        between the two.
    rows
        The column that names the rows, such as ``type``.
    share
        The column of the share, such as ``accuracy``.
    label
        Of the axis of shares.
    """
    names = list(pd.unique(table[rows]))
    systems = list(pd.unique(table["respondent_id"]))
    step = ROOM / len(systems)
    for k, system in enumerate(systems):
        own = table[table["respondent_id"] == system].set_index(rows).loc[names]
        x, lower, upper = (own[name].to_numpy(dtype=np.float64) for name in (share, "lower", "upper"))
        height = -np.arange(len(names)) + ROOM / 2 - (k + 0.5) * step
        ax.errorbar(x, height, xerr=[x - lower, upper - x], fmt=MARKERS[k % len(MARKERS)], markersize=4, capsize=2,
                    linewidth=1, color=COLOURS[k % len(COLOURS)])  # fmt: skip
    # names come afterwards: as labels, those that begin with an underscore would be left out
    legend = ax.legend(ax.containers, [str(k) for k in range(len(systems))], loc="lower left",
                       bbox_to_anchor=(0, 1.01), ncols=2, borderaxespad=0)  # fmt: skip
    for entry, system in zip(legend.get_texts(), systems, strict=True):
        entry.set(text=system, parse_math=False)
    ax.set_yticks(-np.arange(len(names)), labels=names, parse_math=False)
    ax.set(xlabel=label, xlim=(-0.02, 1.02), ylim=(-len(names) + 0.4, 0.6))
    ax.grid(visible=False, axis="y")
    return ax
