"""Figures of the statistics of graded outputs, with their captions: power, breakdown, consistency, calibration,
human bound, artifacts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd

from irtbench.evaluation.artifacts import Artifacts
from irtbench.evaluation.human_bound import CrowdFilter, HumanAccuracy
from irtbench.evaluation.reliability import ReliabilityCurve
from irtbench.report.blocks import Block, figure
from irtbench.report.drawing import on_axes
from irtbench.report.evaluation_plots import (
    draw_baselines,
    draw_crowd_filter,
    draw_differences,
    draw_expected_p,
    draw_human_accuracy,
    draw_reliability,
    draw_shares,
)
from irtbench.report.formatting import count, plural

WIDTH, HEIGHT = 6.4, 4.4  # inches


def power_figures(table: pd.DataFrame, *, sizes: Sequence[int], alpha: float) -> list[Block]:
    """Of power: the expected p of a difference, a figure for each set size."""
    panels = [
        on_axes(
            f"power_{n}",
            partial(draw_expected_p, table=table, n_items=n, alpha=alpha),
            description=f"Expected p of a difference on {count(n)} items.",
            width=WIDTH,
            height=HEIGHT,
        )
        for n in dict.fromkeys(sizes)
    ]
    return figure(
        panels,
        "Expected p of a difference in accuracy by its size, a line for each share of items that the better system "
        f"gets worse; the level {alpha:g} dashed.",
    )


def breakdown_figures(accuracy: pd.DataFrame, advantage: pd.DataFrame | None) -> list[Block]:
    """Of a breakdown: accuracy by type, and the advantage of each pair.

    Parameters
    ----------
    accuracy, advantage
        Contents of breakdown.csv, of as many systems as one figure holds, and of advantage.csv; None without pairs.
    """
    drawing = on_axes(
        "breakdown",
        partial(draw_shares, table=accuracy, rows="type", share="accuracy", label="accuracy"),
        description=f"Accuracy on {plural(accuracy['type'].nunique(), 'type')} of items.",
        width=WIDTH,
        height=1.2 + 0.09 * len(accuracy) + 0.15 * accuracy["type"].nunique(),
    )
    blocks = figure([drawing], "Accuracy of each system on each type of item, with intervals.")
    if advantage is None:
        return blocks
    panels = [
        on_axes(
            f"advantage_{number}",
            partial(
                draw_differences,
                # the row over all items is a test of its own, its p not adjusted
                table=rows.rename(columns={"advantage": "difference"}).assign(
                    p_adjusted=rows["permutation_p_adjusted"].fillna(rows["permutation_p"])
                ),
                names=list(rows["type"]),
                label="advantage of {} over {}".format(*pair),
            ),
            description="Advantage of {} over {} by type of item.".format(*pair),
            width=WIDTH,
            height=1.2 + 0.24 * len(rows),
        )
        for number, (pair, rows) in enumerate(advantage.groupby(["first", "second"], sort=False), start=1)
    ]
    return blocks + figure(
        panels, "Advantage of one system over another by type, with intervals; filled where it is significant."
    )


def consistency_figures(measures: pd.DataFrame, *, n_measures: int) -> list[Block]:
    """Of switched items: each measure of each system.

    Parameters
    ----------
    measures
        Contents of consistency.csv, of as many systems as one figure holds.
    n_measures
        How many measures there are.
    """
    drawing = on_axes(
        "consistency",
        lambda ax: draw_shares(ax, measures, rows="measure", share="share", label="share of items"),
        description=f"{plural(n_measures, 'measure')} of each system.",
        width=WIDTH,
        height=1.4 + 0.1 * len(measures) + 0.15 * n_measures,
    )
    return figure(
        [drawing], "Accuracy before and after switching, and consistency, of each system, as shares with intervals."
    )


def calibration_figures(curves: Mapping[str, ReliabilityCurve]) -> list[Block]:
    """Of calibration: the reliability curves."""
    drawing = on_axes(
        "reliability",
        lambda ax: draw_reliability(ax, curves),
        description=f"Reliability curves of {plural(len(curves), 'system')}.",
        width=5.2,
        height=5.2,
    )
    return figure(
        [drawing],
        "Reliability curve: the observed share of each bin against its stated probability, with intervals; calibrated "
        "predictions lie on the dashed diagonal.",
    )


def bound_figures(result: CrowdFilter, people: Mapping[str, HumanAccuracy]) -> list[Block]:
    """Of the human bound: the votes, and human accuracy with its bounds."""
    votes = on_axes(
        "crowd_filter",
        lambda ax: draw_crowd_filter(ax, result),
        description=f"Right votes of the items; {int(result.kept.sum())} pass.",
        width=WIDTH,
        height=HEIGHT,
    )
    bound = on_axes(
        "human_bound",
        lambda ax: draw_human_accuracy(ax, dict(people)),
        description="Human accuracy with its intervals.",
        width=WIDTH,
        height=2.6,
    )
    return [
        *figure([votes], "Items by their number of right votes, those that pass the filter dark."),
        *figure(
            [bound],
            "Human accuracy on all items and on those that pass, with Wilson’s and the bootstrap’s interval, and "
            "Hoeffding’s lower bound with its confidence.",
        ),
    ]


def artifact_figures(result: Artifacts) -> list[Block]:
    """Of artifacts: what the baselines get right."""
    drawing = on_axes(
        "artifacts",
        lambda ax: draw_baselines(ax, result),
        description=f"Accuracy of {plural(len(result.baselines), 'baseline')} that do not see the question.",
        width=WIDTH,
        height=2.6,
    )
    return figure([drawing], "Share of the items that a baseline gets right without the question, and that of chance.")
