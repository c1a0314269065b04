"""Figures of item bias: the curves of an item in each group, and expected test scores; nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from irtbench.analysis.bias_of_test import DifferentialTestFunctioning
from irtbench.analysis.explained_difficulty import ExplainedDifficulty
from irtbench.analysis.horizons import TimeHorizon
from irtbench.analysis.parallel_analysis import ParallelAnalysis
from irtbench.models.curves import icc
from irtbench.report.interval_plots import MARKERS, draw_intervals, draw_several_intervals, shortened
from irtbench.report.plots import (
    ABILITIES,
    ABILITY_LABEL,
    BLUE,
    COLOURS,
    GREY,
    LINE_STYLES,
    ORANGE,
    SKY,
    LineStyle,
    probability_axes,
)

if TYPE_CHECKING:
    from irtbench.estimation.multiple_groups import GroupedModel


def draw_item_by_group(ax: Axes, grouped: GroupedModel, item: str) -> Axes:
    """The characteristic curve of an item in each group."""
    lines = {}
    for k, (group, items) in enumerate(zip(grouped.groups, grouped.items, strict=True)):
        colour, style = _look(k)
        p = icc(ABILITIES, items.select([item]))[:, 0]
        (lines[group],) = ax.plot(ABILITIES, p, color=colour, linestyle=style)
    probability_axes(ax)
    ax.set_title(item, fontsize="medium", loc="left", parse_math=False)
    _legend(ax, lines)
    return ax


def draw_expected_scores(ax: Axes, found: DifferentialTestFunctioning) -> Axes:
    """Expected score on the whole test in each group, with the band of the difference about the reference's."""
    lines = {}
    for k, group in enumerate(found.groups):
        colour, style = _look(k)
        (lines[group],) = ax.plot(found.theta, found.expected[k], color=colour, linestyle=style)
        if k:
            lower, upper = (
                found.expected[0] + part[k - 1] for part in (found.difference_lower, found.difference_upper)
            )
            ax.fill_between(found.theta, lower, upper, color=colour, alpha=0.15, linewidth=0)
    ax.set(xlabel=ABILITY_LABEL, ylabel=f"expected score of {found.n_items}")
    _legend(ax, lines)
    return ax


def draw_item_differences(ax: Axes, table: pd.DataFrame, *, measure: str, label: str, alpha: float) -> Axes:
    """A measure of each item's difference between groups, those found filled; bounds of the ETS classes dotted.

    Parameters
    ----------
    ax
        Where to draw.
    table
        Rows of bias.csv.
    measure, label
        Its column, and what the axis says.
    alpha
        Adjusted p up to which a difference is drawn as found.
    """
    ends = {}
    if {f"{measure}_lower", f"{measure}_upper"} <= set(table):
        ends = {"lower": table[f"{measure}_lower"], "upper": table[f"{measure}_upper"]}
    draw_intervals(
        ax, list(table["item_id"]), table[measure], **ends, label=label, found=table["p_adjusted"] < alpha,
        legend=(f"adjusted p < {alpha:g}", f"adjusted p ≥ {alpha:g}"), reference=0.0,
    )  # fmt: skip
    if measure == "delta":
        for bound in (-1.5, -1.0, 1.0, 1.5):
            ax.axvline(bound, color=GREY, linestyle=":", linewidth=0.8)
    ax.margins(x=0.05)
    return ax


def _look(k: int) -> tuple[str, LineStyle]:
    """Colour and line style of the k-th group."""
    return COLOURS[k % len(COLOURS)], LINE_STYLES[k % len(LINE_STYLES)]


def _legend(ax: Axes, lines: Mapping[str, Artist]) -> None:
    legend = ax.legend(list(lines.values()), [str(k) for k in range(len(lines))], loc="upper left")
    # names come afterwards: as labels, those that begin with an underscore would be left out
    for entry, name in zip(legend.get_texts(), lines, strict=True):
        entry.set(text=name, parse_math=False)


def draw_predictions(ax: Axes, found: ExplainedDifficulty) -> Axes:
    """Each item's difficulty against its prediction from a fit without it, with the interval of the prediction."""
    order = np.argsort(found.predicted)
    x, b = found.predicted[order], found.difficulty[order]
    ax.vlines(x, found.predicted_lower[order], found.predicted_upper[order], color=SKY, linewidth=2, alpha=0.4)
    ax.errorbar(x, b, yerr=found.se_difficulty[order], fmt="o", color=BLUE, markersize=4, elinewidth=0.8)
    ends = np.array([min(x.min(), b.min()), max(x.max(), b.max())])
    ax.plot(ends, ends, color=GREY, linewidth=0.8, linestyle="--")
    ax.set(xlabel="difficulty predicted from the features", ylabel="difficulty b as estimated")
    return ax


def draw_horizons(ax: Axes, found: TimeHorizon) -> Axes:
    """Horizons of the systems, the longest on top, with intervals; those without an end go to the border."""
    order = np.argsort(-found.horizon[:, 0])[:MOST_HORIZONS]
    every = np.stack([found.lower, found.horizon, found.upper])[:, order]
    known = every[np.isfinite(every) & (every > 0)]
    least, most = (known.min(), known.max()) if known.size else (found.shortest, found.longest)
    sets = {
        f"{share:.0%}": pd.DataFrame(dict(zip(("lower", "estimate", "upper"), every[:, :, k], strict=True))).clip(
            least / 2, most * 2
        )
        for k, share in enumerate(found.shares)
    }
    names = [found.respondent_ids[place] for place in order]
    draw_several_intervals(ax, names, sets, label=f"length of tasks solved so often ({found.unit})")
    ax.axvspan(found.shortest, found.longest, color=GREY, alpha=0.12, linewidth=0)
    ax.set(xscale="log")
    return ax


MOST_NAMED, MOST_HORIZONS = 12, 40


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


def draw_scree(ax: Axes, analysis: ParallelAnalysis, *, most: int = 15) -> Axes:
    """Draw the first eigenvalues, those that speak for an ability filled, and the limit of chance.

    Parameters
    ----------
    ax
        Where to draw.
    analysis
        Result of `parallel_analysis`.
    most
        Number of eigenvalues shown.
    """
    shown = analysis.table().head(most)
    numbers, eigenvalues = shown["number"], shown["eigenvalue"]
    ax.plot(numbers, eigenvalues, color=COLOURS[0], linewidth=1.0)
    for is_ability, label in ((True, "abilities"), (False, "not above chance")):
        which = shown["ability"] == is_ability
        face = COLOURS[0] if is_ability else "white"
        ax.plot(numbers[which], eigenvalues[which], "o", color=COLOURS[0], markerfacecolor=face, label=label)
    limit = f"independent items, {analysis.percentile:g}th percentile"
    ax.plot(numbers, shown["chance_limit"], "--", color=GREY, label=limit)
    ax.set(xlabel="number", ylabel="eigenvalue", ylim=(0, None))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(loc="upper right")
    return ax
