"""Figures of commands that score, with their captions: score, compare, predict, adapt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from irtbench.bank.scale import Scale
from irtbench.report import plots, scale_figures
from irtbench.report.blocks import Block, figure
from irtbench.report.drawing import Drawing, on_axes
from irtbench.report.evaluation_plots import draw_differences
from irtbench.report.formatting import decimal, plural
from irtbench.report.interval_plots import draw_several_intervals, height_of, shortened
from irtbench.report.plots import ABILITY_LABEL, BLUE, COLOURS, GREY, LINE_STYLES, SKY
from irtbench.report.scale_figures import ROW, numbered, some_systems
from irtbench.scoring.adaptive_paths import AdaptivePaths

MOST_PATHS, MARKERS = 3, "osD"
BAND = (0.1, 0.9)  # quantiles of the standard errors of many


def draw_paths(ax: Axes, found: AdaptivePaths) -> Axes:
    """Ability after each item of the first few respondents, with a standard error either way; filled where it rose."""
    for k, name in enumerate(found.respondent_ids[:MOST_PATHS]):
        path = found.paths[found.paths["respondent_id"] == name]
        step, theta, se = (path[column].to_numpy(dtype=np.float64) for column in ("step", "theta", "se"))
        right = np.diff(theta, prepend=found.before) > 0
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


MOST_ROWS = 40  # pairs in one panel
MOST_RANKED = 60  # systems in the figure of a ranking: all, or the first so many


def score_figures(scales: Sequence[Scale], scores: pd.DataFrame, *, level: float) -> list[Block]:
    """Of scores: where the systems stand on each scale, among the norm sample where there is one.

    Parameters
    ----------
    scales
        Of the bank.
    scores
        Contents of scores.csv.
    level
        Coverage of the intervals.
    """
    panels = scale_figures.position_panels(scales, scores, "")
    without = [scale for scale in scales if scale.norms is None]
    for k, scale in enumerate(without):
        own = some_systems(scores[(scores["scale"] == scale.name) & scores["theta"].notna()])
        if len(own):
            panels.append(_positions(numbered("abilities", k, len(without)), scale.name, own))
    most = scale_figures.MOST_POSITIONS
    some = ""
    if scores["respondent_id"].nunique() > most:
        some = f" Shown are {most} of the systems, from the most to the least able."
    below = ", on each scale below those of its norm sample" if len(without) < len(scales) else ""
    return figure(panels, f"Abilities θ with their {100 * level:g}% intervals{below}.{some}")


def _positions(name: str, scale: str, own: pd.DataFrame) -> Drawing:
    where = f" on {scale}" if scale else ""
    return on_axes(
        name,
        lambda ax: plots.draw_positions(ax, own),
        heading=scale,
        description=f"Abilities of {plural(len(own), 'system')}{where}.",
        height=0.9 + ROW * (len(own) + 1),
    )


def comparison_figures(comparison: pd.DataFrame, ranking: pd.DataFrame | None, *, level: float) -> list[Block]:
    """Of comparisons: the ranking, and differences in accuracy and in ability of each pair.

    Parameters
    ----------
    comparison, ranking
        Contents of comparison.csv and of ranking.csv; None without a bank.
    level
        Coverage of the intervals.
    """
    blocks: list[Block] = []
    for what, label in (("accuracy", "difference in accuracy"), ("theta", "difference in ability θ")):
        if f"{what}_difference" not in comparison:
            continue
        each = list(comparison.groupby("scale", sort=False))
        panels = [
            _differences(
                numbered(f"{what}_differences", k, len(each)), str(scale), rows, what, label, alone=len(each) == 1
            )
            for k, (scale, rows) in enumerate(each)
        ]
        most = max(len(rows) for _, rows in each)
        which = "each pair" if most <= MOST_ROWS else f"the {MOST_ROWS} pairs of least p of {most:,}"
        blocks += figure(
            panels,
            f"{label[0].upper()}{label[1:]} of {which}, the first less the second, with {100 * level:g}% intervals; "
            "filled where it is significant after adjustment for the number of pairs.",
        )
    if ranking is not None:
        each = list(ranking.groupby("scale", sort=False))
        panels = [
            _positions(numbered("ranking", k, len(each)), str(scale) if len(each) > 1 else "", rows.head(MOST_RANKED))
            for k, (scale, rows) in enumerate(each)
        ]
        n_systems = max(len(rows) for _, rows in each)
        which = "all systems" if n_systems <= MOST_RANKED else f"the first {MOST_RANKED} of {n_systems} systems"
        blocks = [*figure(panels, f"Abilities of {which} in order, with {100 * level:g}% intervals."), *blocks]
    return blocks


def _differences(name: str, scale: str, rows: pd.DataFrame, what: str, label: str, *, alone: bool) -> Drawing:
    n_pairs = len(rows)
    if n_pairs > MOST_ROWS:  # those that differ most, and say so
        rows = rows.reindex(rows[f"{what}_p_adjusted"].sort_values(kind="stable").index).head(MOST_ROWS)
    table = rows.rename(columns={f"{what}_{part}": part for part in ("difference", "lower", "upper", "p_adjusted")})
    names = [
        f"{shortened(a, most=20)} − {shortened(b, most=20)}" for a, b in zip(rows["first"], rows["second"], strict=True)
    ]
    some = f" The {MOST_ROWS} pairs of least p of {n_pairs:,}." if n_pairs > MOST_ROWS else ""
    said = "".join(
        f" {first} less {second}: {decimal(value)}."
        for first, second, value in rows[["first", "second", f"{what}_difference"]].head(12).itertuples(index=False)
    )
    return on_axes(
        name, lambda ax: draw_differences(ax, table, names=names, label=label), heading="" if alone else scale,
        description=f"{label[0].upper()}{label[1:]} on {scale}.{some}{said}", height=height_of(len(rows)),
    )  # fmt: skip


def draw_predicted(ax: Axes, table: pd.DataFrame) -> Axes:
    """Accuracy on the items seen and predicted on all; of many systems some, at even distances."""
    shown = table
    if len(table) > MOST_ROWS:
        order = table.sort_values("predicted_accuracy", ascending=False, kind="stable")
        shown = order.iloc[np.linspace(0, len(order) - 1, MOST_ROWS).round().astype(int)]
    predicted = shown[["predicted_accuracy", "predicted_lower", "predicted_upper"]]
    seen = shown[["accuracy", "accuracy", "accuracy"]]
    names = ["estimate", "lower", "upper"]
    sets = {
        "predicted on all items": predicted.set_axis(names, axis=1),
        "on the items seen": seen.set_axis(names, axis=1),
    }
    draw_several_intervals(ax, list(shown["respondent_id"]), sets, label="accuracy")
    return ax


def prediction_figures(table: pd.DataFrame, *, level: float) -> list[Block]:
    """Of predictions: accuracy on the items seen and the accuracy predicted on all.

    Parameters
    ----------
    table
        Contents of prediction.csv.
    level
        Coverage of the intervals.
    """
    drawing = on_axes(
        "predicted_accuracy",
        partial(draw_predicted, table=table),
        description=f"Predicted accuracy of {plural(min(len(table), MOST_ROWS), 'system')}.",
        height=height_of(min(len(table), MOST_ROWS), each=2),
    )
    return figure(
        [drawing],
        f"Accuracy predicted on all items of the bank, with {100 * level:g}% intervals, and the accuracy on the "
        "items that were seen.",
    )


def adaptive_figures(found: AdaptivePaths, *, wanted: float | None) -> list[Block]:
    """Of adaptive tests: ability step by step, and how its error falls.

    Parameters
    ----------
    found
        The tests.
    wanted
        The standard error at which they end; None for none.
    """
    if found.paths.empty:
        return []
    blocks = figure(
        [on_axes("paths", lambda ax: draw_paths(ax, found), description="Ability after each item asked.")],
        "Ability after each item asked, of the first respondents, with a standard error either way; filled dots are "
        "responses that raised it, of right and wrong the right ones.",
    )
    return blocks + figure(
        [
            on_axes(
                "errors_by_step",
                lambda ax: draw_errors_by_step(ax, found, wanted=wanted),
                description="The standard error of ability falls with each item asked.",
            )
        ],
        "Standard error of ability after each item: the median of the respondents whose test went so far, and the "
        "middle 80% of them.",
    )
