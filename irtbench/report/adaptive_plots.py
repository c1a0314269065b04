"""Adaptive tests drawn: ability step by step, and how its error falls; nothing is computed here but quantiles."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from irtbench.report.plots import ABILITY_LABEL, BLUE, COLOURS, GREY, LINE_STYLES, SKY
from irtbench.scoring.adaptive_paths import AdaptivePaths

MOST_PATHS, MARKERS = 3, "osD"
BAND = (0.1, 0.9)  # quantiles of the standard errors of many


def draw_paths(ax: Axes, found: AdaptivePaths) -> Axes:
    """Ability after each item of the first few respondents, with a standard error either way; filled where right."""
    for k, name in enumerate(found.respondent_ids[:MOST_PATHS]):
        path = found.paths[found.paths["respondent_id"] == name]
        step, theta, se = (path[column].to_numpy(dtype=np.float64) for column in ("step", "theta", "se"))
        right = path["response"].to_numpy(dtype=np.float64) > 0
        colour = COLOURS[k % len(COLOURS)]
        ax.fill_between(step, theta - se, theta + se, color=colour, alpha=0.1, linewidth=0)
        ax.plot(step, theta, linestyle=LINE_STYLES[k % len(LINE_STYLES)], color=colour, linewidth=1.2)
        for which, face in ((right, colour), (~right, "white")):
            ax.plot(step[which], theta[which], MARKERS[k], color=colour, markerfacecolor=face, markersize=4)
        if len(step):
            ax.annotate(name, (step[-1], theta[-1]), (4, 0), textcoords="offset points", va="center", color=colour,
                        fontsize=8, annotation_clip=False, parse_math=False)  # fmt: skip
    ax.set(xlabel="items asked", ylabel=ABILITY_LABEL)
    return ax


def draw_errors_by_step(ax: Axes, found: AdaptivePaths, *, wanted: float | None = None) -> Axes:
    """Standard error of ability after each item: median and the middle 80% of those whose test went so far.

    Parameters
    ----------
    ax
        Where to draw.
    found
        The adaptive tests.
    wanted
        The standard error at which they end, a dashed line; None for none.
    """
    by_step = found.paths.groupby("step")["se"]
    low, middle, high = (by_step.quantile(share).sort_index() for share in (BAND[0], 0.5, BAND[1]))
    steps = middle.index.to_numpy(dtype=np.float64)
    ax.fill_between(steps, low, high, color=SKY, alpha=0.35, linewidth=0, label="middle 80%")
    ax.plot(steps, middle, "o-", color=BLUE, markersize=3, label="median")
    if wanted:
        ax.axhline(wanted, color=GREY, linestyle="--", linewidth=1, label=f"end at {wanted:g}")
    ax.set(xlabel="items asked", ylabel="standard error of θ", ylim=(0, None))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.01), ncols=3, borderaxespad=0)
    return ax
