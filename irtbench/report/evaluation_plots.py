"""Accuracy by the kind of item, drawn; nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from irtbench.evaluation.artifacts import Artifacts
from irtbench.evaluation.human_bound import CrowdFilter, HumanAccuracy
from irtbench.evaluation.reliability import ReliabilityCurve
from irtbench.report.interval_plots import MARKERS
from irtbench.report.plots import BLUE, COLOURS, GREEN, GREY, LINE_STYLES, ORANGE, SKY

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


def draw_baselines(ax: Axes, found: Artifacts) -> Axes:
    """Accuracy of each baseline beside that of a blind guess."""
    height = -np.arange(len(found.baselines))
    ax.barh(height, [baseline.accuracy for baseline in found.baselines], height=0.6, color=BLUE, label="accuracy")
    ax.axvline(found.baselines[0].chance, color=ORANGE, linestyle="--", label="chance")
    ax.set_yticks(height, labels=[baseline.name.replace("_", " ") for baseline in found.baselines])
    for place, baseline in zip(height, found.baselines, strict=True):
        ax.annotate(f" adjusted p {baseline.p_adjusted:.2g}", (baseline.accuracy, place), va="center")
    ax.set(xlabel="share of items right without the question", xlim=(0, 1.25))
    ax.set_xticks(np.linspace(0, 1, 6))
    ax.grid(visible=False, axis="y")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.01), ncols=2, borderaxespad=0)
    return ax


def draw_reliability(ax: Axes, curves: Mapping[str, ReliabilityCurve]) -> Axes:
    """Observed against stated frequency of each model, a point a bin, with its interval; calibrated is the diagonal.

    Parameters
    ----------
    ax
        Where to draw.
    curves
        The curve of each model by its name.
    """
    ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
    entries, names = [], []
    for k, (name, curve) in enumerate(curves.items()):
        colour, style = COLOURS[k % len(COLOURS)], LINE_STYLES[k % len(LINE_STYLES)]
        ax.fill_between(curve.mean_predicted, curve.lower, curve.upper, color=colour, alpha=0.15, linewidth=0)
        entries += ax.plot(
            curve.mean_predicted,
            curve.observed_share,
            linestyle=style,
            color=colour,
            marker=MARKERS[k % len(MARKERS)],
            markersize=4,
        )
        names.append(name)
    ax.set(xlabel="stated probability (mean of bin)", ylabel="observed share", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_aspect("equal")
    if len(curves) > 1:
        legend = ax.legend(entries, [str(k) for k in range(len(entries))], loc="upper left")
        # names come afterwards: as labels, those that begin with an underscore would be left out
        for entry, name in zip(legend.get_texts(), names, strict=True):
            entry.set(text=name, parse_math=False)
    return ax


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


def draw_crowd_filter(ax: Axes, result: CrowdFilter) -> Axes:
    """How many items got how many right votes, those that pass dark."""
    most = int(result.n_votes.max(initial=0))
    edges = np.arange(most + 2) - 0.5
    votes = [result.n_correct[result.kept], result.n_correct[~result.kept]]
    names = [f"kept ({votes[0].size})", f"not kept ({votes[1].size})"]
    ax.hist(votes, bins=edges.tolist(), stacked=True, color=[BLUE, SKY], label=names, rwidth=0.85)
    ax.set(xlabel="right votes", ylabel="items")
    ax.set_xticks(range(most + 1))
    ax.legend()
    return ax


def draw_human_accuracy(ax: Axes, sets: dict[str, HumanAccuracy]) -> Axes:
    """Accuracy on each set of items with Wilson's and the bootstrap's interval, and Hoeffding's lower bound.

    Parameters
    ----------
    ax
        Where to draw.
    sets
        The accuracy on each set of items by its name.
    """
    height = -np.arange(len(sets), dtype=np.float64)
    found = list(sets.values())
    accuracy = np.array([human.accuracy for human in found])
    for shift, name, colour, lower, upper in (
        (0.15, "bootstrap over items", BLUE, "bootstrap_lower", "bootstrap_upper"),
        (-0.15, "Wilson", ORANGE, "wilson_lower", "wilson_upper"),
    ):
        low, high = (np.array([getattr(human, side) for human in found]) for side in (lower, upper))
        errors = np.maximum([accuracy - low, high - accuracy], 0.0)  # an end may miss the accuracy by rounding
        ax.errorbar(accuracy, height + shift, xerr=errors, fmt="o", color=colour, markersize=4, capsize=3, label=name)
    bound = [human.hoeffding_lower for human in found]
    ax.plot(bound, height, "|", color=GREEN, markersize=12, markeredgewidth=2, linestyle="none",
            label="Hoeffding, lower bound")  # fmt: skip
    for place, human in zip(height, found, strict=True):
        ax.annotate(f"{100 * human.confidence:.6g}%", (human.hoeffding_lower, place + 0.28), ha="center", color=GREY)
    ax.set_yticks(height, labels=list(sets), parse_math=False)
    ax.set(xlabel="human accuracy", ylim=(height[-1] - 0.6, 0.6))
    ax.grid(visible=False, axis="y")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.01), ncols=3, borderaxespad=0)
    return ax


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
