"""Counts of events over time with their intervals, drawn; nothing is computed here."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from irtbench.report.plots import COLOURS, LINE_STYLES


def draw_event_counts(ax: Axes, table: pd.DataFrame) -> Axes:
    """Mean count of each entity's events over the periods, with the band of its interval.

    Parameters
    ----------
    ax
        Where to draw.
    table
        As ``EventCounts.table`` gives it.
    """
    entries, names = [], []
    for k, (name, rows) in enumerate(table.groupby("entity", sort=False)):
        place = range(len(rows))
        colour = COLOURS[k % len(COLOURS)]
        ax.fill_between(place, rows["lower"], rows["upper"], color=colour, alpha=0.15, linewidth=0)
        entries += ax.plot(
            place, rows["mean"], linestyle=LINE_STYLES[k % len(LINE_STYLES)], color=colour, marker="o", markersize=4
        )
        names.append(str(name))
    periods = table["period"].drop_duplicates().tolist()
    ax.set_xticks(range(len(periods)), labels=periods, parse_math=False)
    ax.set(xlabel="period", ylabel="events")
    legend = ax.legend(entries, [str(k) for k in range(len(entries))], loc="best")
    for entry, name in zip(legend.get_texts(), names, strict=True):
        entry.set(text=name, parse_math=False)
    return ax
