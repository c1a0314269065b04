"""Keys and options drawn: how probably a key is wrong, who chooses what; nothing is computed here."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from irtbench.report.interval_plots import shortened
from irtbench.report.plots import BLUE, COLOURS, LINE_STYLES

MARKERS = "osD^v"
THIRDS = ["share_low", "share_middle", "share_high"]
MOST_OPTIONS = 5  # of an item, the key first


def draw_options(ax: Axes, options: pd.DataFrame) -> Axes:
    """Share of the lower, middle and upper third by score that chose each option of an item: the key drawn thick.

    Parameters
    ----------
    ax
        Where to draw.
    options
        Rows of distractors.csv of one item, the key first.
    """
    names = []
    lines = []
    for k, row in enumerate(options.head(MOST_OPTIONS).to_dict("records")):
        colour = BLUE if row["is_key"] else COLOURS[1 + (k - 1) % (len(COLOURS) - 1)]
        style = "-" if row["is_key"] else LINE_STYLES[1 + (k - 1) % (len(LINE_STYLES) - 1)]
        (line,) = ax.plot(
            range(3), [row[third] for third in THIRDS], linestyle=style, color=colour, marker=MARKERS[k % len(MARKERS)],
            markersize=4, linewidth=2.4 if row["is_key"] else 1.3, markerfacecolor=colour if row["is_key"] else "white",
        )  # fmt: skip
        lines.append(line)
        names.append(f"{shortened(row['option'], most=18)}{' (key)' if row['is_key'] else ''}")
    ax.set_xticks(range(3), labels=["lower", "middle", "upper"])
    ax.set(xlabel="third by score", ylabel="share choosing it", ylim=(-0.02, 1.02), xlim=(-0.1, 2.1))
    ax.set_title(shortened(options["item_id"].iloc[0]), fontsize="medium", loc="left", parse_math=False)
    legend = ax.legend(lines, [str(k) for k in range(len(lines))], loc="center left", bbox_to_anchor=(1.0, 0.5))
    # names come afterwards: as labels, those that begin with an underscore would be left out
    for entry, name in zip(legend.get_texts(), names, strict=True):
        entry.set(text=name, parse_math=False)
    return ax
