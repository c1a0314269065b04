"""Figures of item bias: the curves of an item in each group, and expected test scores; nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from irtbench.analysis.bias_of_test import DifferentialTestFunctioning
from irtbench.models.curves import icc
from irtbench.report.interval_plots import draw_intervals
from irtbench.report.plots import ABILITIES, ABILITY_LABEL, COLOURS, GREY, LINE_STYLES, LineStyle, probability_axes

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
