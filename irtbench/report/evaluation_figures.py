"""Statistics of graded outputs drawn, with captions: power, breakdown, consistency, calibration, human bound,
artifacts, event counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullFormatter

import irtbench.evaluation
from irtbench.evaluation.human_bound import CrowdFilter, HumanAccuracy
from irtbench.evaluation.reliability import ReliabilityCurve
from irtbench.report.drawing import (
    BLUE,
    DASHED,
    GREEN,
    GREY,
    MARKERS,
    SKY,
    WIDTH,
    Series,
    bar_plot,
    curve_plot,
    found_or_not,
    height_of,
    interval_plot,
    on_axes,
)
from irtbench.report.formatting import count, plural, words
from irtbench.report.page import Block, figure, one_panel

LOWEST_P = 1e-4  # shown
ALPHA = 0.05  # unless given


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
    sets = [
        Series(str(system), own[share], None, own["lower"], own["upper"])
        for system, of in table.groupby("respondent_id", sort=False)
        for own in [of.set_index(rows).loc[names]]
    ]
    return interval_plot(ax, names, sets, label=label, xlim=(-0.02, 1.02))


def draw_baselines(ax: Axes, found: irtbench.evaluation.Artifacts) -> Axes:
    """Accuracy of each baseline and of a blind guess."""
    rows, accuracy = -np.arange(len(found.baselines)), [baseline.accuracy for baseline in found.baselines]
    for place, baseline in zip(rows, found.baselines, strict=True):
        ax.annotate(f" adjusted p {baseline.p_adjusted:.2g}", (baseline.accuracy, place), va="center")
    return bar_plot(
        ax, [Series("accuracy", rows, accuracy, look={"color": BLUE})], x="share of items right without the question",
        y="", width=0.6, lying=True, mark=(found.baselines[0].chance, "chance"), xlim=(0, 1.35),
        xticks=np.linspace(0, 1, 6), yticks=rows,
        yticklabels=[baseline.name.replace("_", " ") for baseline in found.baselines],
    )  # fmt: skip


def draw_reliability(ax: Axes, curves: Mapping[str, ReliabilityCurve]) -> Axes:
    """Observed against stated frequency of each model, a point a bin, with its interval; calibrated is the diagonal.

    Parameters
    ----------
    ax
        Where to draw.
    curves
        The curve of each model by its name.
    """
    lines = [
        Series(
            name if len(curves) > 1 else "", curve.mean_predicted, curve.observed_share, curve.lower, curve.upper,
            {"marker": MARKERS[k % len(MARKERS)]},
        )
        for k, (name, curve) in enumerate(curves.items())
    ]  # fmt: skip
    lines.append(Series("", [0, 1], [0, 1], look=DASHED))
    square = {"xlim": (-0.02, 1.02), "ylim": (-0.02, 1.02), "aspect": "equal"}
    return curve_plot(ax, lines, x="stated probability (mean of bin)", y="observed share", **square)


def draw_event_counts(ax: Axes, table: pd.DataFrame) -> Axes:
    """Mean count of each entity's events over the periods, with the band of its interval.

    Parameters
    ----------
    ax
        Where to draw.
    table
        As ``EventCounts.table`` gives it.
    """
    lines = [
        Series(str(name), range(len(rows)), rows["mean"], rows["lower"], rows["upper"], {"marker": "o"})
        for name, rows in table.groupby("entity", sort=False)
    ]
    periods = table["period"].drop_duplicates().tolist()
    curve_plot(ax, lines, x="period", y="events").set_xticks(range(len(periods)), labels=periods, parse_math=False)
    return ax


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
    most = 102 * np.max(table["effect"])
    lines = [
        Series(f"{100 * float(str(hurt)):g}% hurt", 100 * of["effect"], of["p"], look={"marker": "o", "markersize": 3})
        for hurt, of in table[table["n_items"] == n_items].groupby("hurt")
    ]
    lines.append(Series("", [0, most], [alpha, alpha], look=DASHED))
    ends = {"ylim": (LOWEST_P, 1), "xlim": (0, most)}
    curve_plot(ax, lines, x="difference in accuracy (points)", y="expected p", yscale="log", **ends)
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter(NullFormatter())
    return ax


def draw_crowd_filter(ax: Axes, result: CrowdFilter) -> Axes:
    """How many items got how many right votes, those that pass dark."""
    places = np.arange(int(result.n_votes.max(initial=0)) + 1)
    stacks = [
        Series(f"{word} ({which.sum()})", places,
               np.bincount(result.n_correct[which].astype(int), minlength=places.size),
               look={"color": colour, "edgecolor": "white", "hatch": ""})
        for word, which, colour in (("kept", result.kept, BLUE), ("not kept", ~result.kept, SKY))
    ]  # fmt: skip
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    return bar_plot(ax, stacks, x="right votes", y="items", width=0.85, xlim=(-0.6, places[-1] + 0.6))


def draw_human_accuracy(ax: Axes, sets: Mapping[str, HumanAccuracy]) -> Axes:
    """Accuracy on each set of items with Wilson's and the bootstrap's interval, and Hoeffding's lower bound.

    Parameters
    ----------
    ax
        Where to draw.
    sets
        The accuracy on each set of items by its name.
    """
    found = list(sets.values())
    accuracy, bound = [one.accuracy for one in found], [one.hoeffding_lower for one in found]
    series = [
        Series(name, accuracy, None, lower, upper)
        for name, kind in (("bootstrap over items", "bootstrap"), ("Wilson", "wilson"))
        for lower, upper in [[[getattr(one, f"{kind}_{end}") for one in found] for end in ("lower", "upper")]]
    ]
    mark = {"color": GREEN, "marker": "|", "markersize": 12, "markeredgewidth": 2}
    series.append(Series("Hoeffding, lower bound", bound, look=mark))
    interval_plot(ax, list(sets), series, label="human accuracy")
    for row, one in enumerate(found):
        ax.annotate(f"  {100 * one.confidence:.6g}%", (one.hoeffding_lower, -0.2 - row), va="center", color=GREY)
    return ax


def draw_differences(ax: Axes, table: pd.DataFrame, *, names: Sequence[str], label: str, alpha: float = ALPHA) -> Axes:
    """Differences with their intervals, one under the other; filled where the adjusted p is at most alpha.

    Parameters
    ----------
    ax
        Where to draw.
    table
        Columns ``difference, lower, upper, p_adjusted``, at least one row.
    names
        The name of each row.
    label
        Of the axis of differences.
    alpha
        Adjusted p up to which a difference is drawn as found.
    """
    every = Series("", table["difference"], None, table["lower"], table["upper"])
    words = f"adjusted p ≤ {alpha:g}", f"adjusted p > {alpha:g}"
    return interval_plot(
        ax, names, found_or_not(every, table["p_adjusted"] <= alpha, words), label=label, reference=0.0
    )


def power_figures(table: pd.DataFrame, *, sizes: Sequence[int], alpha: float) -> list[Block]:
    """Of power: the expected p of a difference, a figure for each set size."""
    panels = [
        on_axes(
            f"power_{n}", partial(draw_expected_p, table=table, n_items=n, alpha=alpha), heading=f"{count(n)} items",
            description=f"Expected p of a difference on {count(n)} items.",
        )
        for n in dict.fromkeys(sizes)
    ]  # fmt: skip
    return figure(panels, words("power", alpha=alpha))


def breakdown_figures(accuracy: pd.DataFrame, advantage: pd.DataFrame | None) -> list[Block]:
    """Of a breakdown: accuracy by type, and the advantage of each pair.

    Parameters
    ----------
    accuracy, advantage
        Contents of breakdown.csv, of as many systems as one figure holds, and of advantage.csv; None without pairs.
    """
    n_types = accuracy["type"].nunique()
    pairs = [] if advantage is None else list(advantage.groupby(["first", "second"], sort=False))
    panels = [
        on_axes(
            f"advantage_{number}",
            partial(
                draw_differences,
                # the row over all items is a test of its own, its p not adjusted
                table=rows.rename(columns={"advantage": "difference"}).assign(
                    p_adjusted=rows["permutation_p_adjusted"].fillna(rows["permutation_p"])
                ),
                names=list(rows["type"]), label="advantage of {} over {}".format(*pair),
            ),
            description="Advantage of {} over {} by type of item.".format(*pair), height=height_of(len(rows)),
        )
        for number, (pair, rows) in enumerate(pairs, start=1)
    ]  # fmt: skip
    return one_panel(
        "breakdown", partial(draw_shares, table=accuracy, rows="type", share="accuracy", label="accuracy"),
        f"Accuracy on {plural(n_types, 'type')} of items.", height=height_of(n_types, each=len(accuracy) // n_types),
    ) + figure(panels, words("advantage"))  # fmt: skip


def consistency_figures(measures: pd.DataFrame, *, n_measures: int) -> list[Block]:
    """Of switched items: each measure of each system.

    Parameters
    ----------
    measures
        Contents of consistency.csv, of as many systems as one figure holds.
    n_measures
        How many measures there are.
    """
    return one_panel(
        "consistency", partial(draw_shares, table=measures, rows="measure", share="share", label="share of items"),
        f"{plural(n_measures, 'measure')} of each system.",
        height=height_of(n_measures, each=len(measures) // n_measures),
    )  # fmt: skip


def calibration_figures(curves: Mapping[str, ReliabilityCurve]) -> list[Block]:
    """Of calibration: the reliability curves."""
    description = f"Reliability curves of {plural(len(curves), 'system')}."
    draw = partial(draw_reliability, curves=curves)
    return one_panel("reliability", draw, description, height=WIDTH, caption="reliability_curves")


def bound_figures(result: CrowdFilter, people: Mapping[str, HumanAccuracy]) -> list[Block]:
    """Of the human bound: the votes, and human accuracy with its bounds."""
    passed = f"Right votes of the items; {int(result.kept.sum())} pass."
    bound, height = partial(draw_human_accuracy, sets=people), height_of(len(people), each=3) + 0.4
    return [
        *one_panel("crowd_filter", partial(draw_crowd_filter, result=result), passed),
        *one_panel("human_bound", bound, "Human accuracy with its intervals.", height=height),
    ]


def artifact_figures(result: irtbench.evaluation.Artifacts) -> list[Block]:
    """Of artifacts: what the baselines get right."""
    description = f"Accuracy of {plural(len(result.baselines), 'baseline')} that do not see the question."
    return one_panel("artifacts", partial(draw_baselines, found=result), description, height=2.6)
