"""Figures: each function draws results on the Axes it is given and returns it; none computes a result.

Colours are such as colour-blind readers can tell apart (Okabe & Ito, 2008); line styles and markers say the same again.
Names that users chose are never read as mathematical text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from numpy.typing import NDArray

from irtbench.diagnostics.empirical_curve import EmpiricalCurve
from irtbench.models.curves import icc, information
from irtbench.models.item_parameters import ItemParameters

BLACK, BLUE, ORANGE, GREEN, PURPLE = "#000000", "#0072B2", "#D55E00", "#009E73", "#AA4499"
SKY, GREY = "#56B4E9", "#666666"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, BLACK)
LineStyle = str | tuple[int, tuple[int, ...]]
# seven, so that seven lines are told apart in grey, and with the five colours thirty-five
LINE_STYLES: tuple[LineStyle, ...] = (
    "-", "--", ":", "-.", (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 4)),
)  # fmt: skip

STYLE = {
    "font.family": "sans-serif",
    # Verdana is as wide as DejaVu Sans, with which the room for text is measured
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Geneva", "sans-serif"],
    "font.size": 9.5,
    "axes.labelsize": 9.5,
    "legend.fontsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "irtbench",
    "text.parse_math": False,  # a system may be called $x$
}

ABILITIES = np.linspace(-4, 4, 321)
ABILITY_LABEL = "ability θ"  # its unit depends on the model: who draws for a study adds it
MANY_CURVES = 60
PROBABILITY_LABEL = "probability correct"
SHOWN_DIFFICULTY, SHOWN_DISCRIMINATION = (-6.0, 6.0), (-2.0, 6.0)
MARGIN = 0.5  # about the items of a scatter plot
BIN = 0.25  # of the histogram of ability
ARROW = {"arrowstyle": "-|>", "color": GREY, "linewidth": 0.8}
STANDARD_ERRORS = (1.0, 0.7, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.07, 0.05)


def probability_axes(ax: Axes) -> None:
    """Ability below and probability of a correct response on the left."""
    ax.set(xlabel=ABILITY_LABEL, ylabel=PROBABILITY_LABEL, ylim=(-0.02, 1.02))
    ax.set_yticks(np.linspace(0, 1, 6))


def _legend_above(ax: Axes, entries: Mapping[str, Artist | ErrorbarContainer]) -> None:
    """Legend outside the axes, where it hides nothing, in two columns."""
    places = [str(k) for k in range(len(entries))]
    legend = ax.legend(
        list(entries.values()), places, loc="lower left", bbox_to_anchor=(0, 1.01), ncols=2, borderaxespad=0
    )
    # names come afterwards: as labels, those that begin with an underscore would be left out
    for entry, name in zip(legend.get_texts(), entries, strict=True):
        entry.set(text=name, parse_math=False)


def draw_curve_example(ax: Axes) -> Axes:
    """The item characteristic curve with a = 1, b = 0, c = .25, its parameters marked: Figure 1 of the paper."""
    item = ItemParameters.from_difficulty([1.0], [0.0], [0.25])
    middle = float(icc(0.0, item)[0, 0])
    ax.plot(ABILITIES, icc(ABILITIES, item), color=BLUE)
    ax.plot([0, 0], [0, middle], color=GREY, linestyle=":")
    ax.plot([-4, 0], [middle, middle], color=GREY, linestyle=":")
    ax.axhline(0.25, color=GREY, linestyle="--", linewidth=1)
    # the tangent at b: P' = a (1 - c) / 4
    ax.plot([-1.4, 1.4], [middle - 1.4 * 0.1875, middle + 1.4 * 0.1875], color=ORANGE, linewidth=1.2)
    ax.plot(0, middle, "o", color=ORANGE)
    ax.annotate("discrimination a = 1:\nsteepness here", (0.1, middle - 0.01), (0.75, 0.45), arrowprops=ARROW)
    ax.annotate("difficulty b = 0", (0, 0), (0.75, 0.06), arrowprops=ARROW)
    ax.annotate("guessing c = 0.25:\nlowest probability", (-3.4, 0.25), (-3.8, 0.06), arrowprops=ARROW)
    probability_axes(ax)
    return ax


def draw_fit(ax: Axes, curve: EmpiricalCurve) -> Axes:
    """The estimated curve of an item (solid) against the smoothed actual one (dotted) with its band: Figure 2."""
    ax.fill_between(curve.theta, curve.lower, curve.upper, color=ORANGE, alpha=0.15, linewidth=0)
    (estimated,) = ax.plot(curve.theta, curve.expected, color=BLUE)
    (actual,) = ax.plot(curve.theta, curve.proportion, color=ORANGE, linestyle=":", linewidth=2.2)
    probability_axes(ax)
    _legend_above(ax, {"estimated": estimated, "actual, with band": actual})
    return ax


def name_unit(figure: Figure, unit: str) -> None:
    """Add the unit of ability to the axes that are labelled with it."""
    for ax in figure.axes:
        if ax.get_xlabel() == ABILITY_LABEL:
            ax.set_xlabel(f"{ABILITY_LABEL} ({unit})")


def _points_for(items: ItemParameters) -> NDArray[np.float64]:
    """Abilities at which curves are drawn: fewer where there are hundreds, which would make a large file."""
    return ABILITIES[:: 1 if items.n_items <= MANY_CURVES else 5]


def draw_curves(ax: Axes, kept: ItemParameters, others: Sequence[ItemParameters], *, others_are: str) -> Axes:
    """Item characteristic curves of a scale's items kept (solid) and of the others (dotted): Figure 3.

    Parameters
    ----------
    ax
        Where to draw.
    kept
        The items kept, perhaps none.
    others
        The other items, a set for each fit.
    others_are
        What became of them, such as ``removed``.
    """
    entries: dict[str, Artist] = {}
    if kept.n_items:
        alpha = np.clip(40 / kept.n_items, 0.15, 0.75)  # hundreds of curves are to show where they are dense
        lines = ax.plot(points := _points_for(kept), icc(points, kept), color=BLUE, linewidth=1.1, alpha=alpha)
        entries[f"kept ({kept.n_items})"] = lines[0]
    n_others = sum(items.n_items for items in others)
    for items in others:
        if items.n_items:
            lines = ax.plot(points := _points_for(items), icc(points, items), color=ORANGE, linestyle=":")
            entries[f"{others_are} ({n_others})"] = lines[0]
    probability_axes(ax)
    if kept.categories is not None:
        ax.set_ylabel("expected share of the score")
    _legend_above(ax, entries)
    return ax


def draw_information(ax: Axes, scales: Mapping[str, ItemParameters]) -> Axes:
    """Test information of each scale, with the standard error of ability it stands for on the right: Figure 4."""
    entries: dict[str, Artist] = {}
    for k, (name, items) in enumerate(scales.items()):
        colour, style = COLOURS[k % len(COLOURS)], LINE_STYLES[k % len(LINE_STYLES)]
        total = information(ABILITIES, items).sum(axis=1)
        (entries[f"{name} ({items.n_items} items)"],) = ax.plot(ABILITIES, total, color=colour, linestyle=style)
    with_standard_errors(ax)
    _legend_above(ax, entries)
    return ax


def with_standard_errors(ax: Axes) -> Axes:
    """Name the axes of test information, and say on the right what standard error of ability it stands for."""
    ax.set(xlabel=ABILITY_LABEL, ylabel="test information")
    ax.set_ylim(bottom=0)
    top = ax.get_ylim()[1]
    right = ax.twinx()
    right.set_ylim(0, top)
    ticks: list[float] = []
    for error in STANDARD_ERRORS:
        place = error**-2
        # a tick needs a fifteenth of the height for its number
        if place <= top and (not ticks or place - ticks[-1] ** -2 > top / 15):
            ticks.append(error)
    right.set_yticks([error**-2 for error in ticks], labels=[f"{error:g}" for error in ticks])
    right.set_ylabel("standard error of θ")
    right.grid(visible=False)
    right.spines["right"].set_visible(True)
    return ax


def draw_norm_sample(ax: Axes, theta: NDArray[np.float64]) -> Axes:
    """Histogram of the abilities of a norm sample."""
    edges = np.arange(np.floor(theta.min() / BIN), np.ceil(theta.max() / BIN) + 1.5) * BIN
    ax.hist(theta, bins=edges.tolist(), color=SKY, edgecolor="white", linewidth=0.5)
    ax.set(xlabel=ABILITY_LABEL, ylabel="respondents")
    ax.set_xlim(min(ABILITIES[0], edges[0]), max(ABILITIES[-1], edges[-1]))
    return ax


def draw_positions(ax: Axes, scores: pd.DataFrame) -> Axes:
    """Ability of each system with its interval, one under the other.

    Parameters
    ----------
    ax
        Where to draw.
    scores
        Rows of scores.csv of one scale.
    """
    height = -np.arange(len(scores), dtype=np.float64)
    theta, lower, upper = (scores[name].to_numpy() for name in ("theta", "theta_lower", "theta_upper"))
    ax.errorbar(theta, height, xerr=[theta - lower, upper - theta], fmt="o", color=ORANGE, markersize=5, capsize=3)
    ax.set_xlim(min(ax.get_xlim()[0], lower.min() - BIN), max(ax.get_xlim()[1], upper.max() + BIN))
    ax.set_yticks(height, labels=scores["respondent_id"].tolist(), parse_math=False)
    ax.set(xlabel=ABILITY_LABEL, ylim=(height[-1] - 0.7, 0.7))
    ax.grid(visible=False, axis="y")
    return ax


def _room_for(values: pd.Series, most: tuple[float, float]) -> tuple[float, float]:
    """Limits of an axis that shows the values, and 0, up to the most it may show."""
    return max(most[0], min(values.min(), 0.0) - MARGIN), min(most[1], max(values.max(), 0.0) + MARGIN)


def draw_parameters(ax: Axes, status: pd.DataFrame, *, axes_for: pd.DataFrame) -> Axes:
    """Discrimination against difficulty of a scale's items with a standard error either way.

    An item beyond the range shown stands at its edge as an arrowhead, without errors.

    Parameters
    ----------
    ax
        Where to draw.
    status
        Rows of `item_status_table` of one scale.
    axes_for
        Rows of all the scales whose axes are to be the same.
    """
    known = status.dropna(subset=["difficulty", "discrimination"])
    entries: dict[str, Artist | ErrorbarContainer] = {}
    for outcome, items in known.groupby("outcome"):  # by name: kept first
        colour, marker, face = (BLUE, "o", BLUE) if outcome == "kept" else (ORANGE, "D", "white")
        b, a = items["difficulty"], items["discrimination"]
        inside = b.between(*SHOWN_DIFFICULTY) & a.between(*SHOWN_DISCRIMINATION)
        entries[f"{outcome} ({len(items)})"] = ax.errorbar(
            b[inside], a[inside], xerr=items["se_difficulty"][inside], yerr=items["se_discrimination"][inside],
            fmt=marker, color=colour, markerfacecolor=face, markersize=4.5, elinewidth=0.7, alpha=0.85,
        )  # fmt: skip
        for arrow, beyond in (
            ("<", b < SHOWN_DIFFICULTY[0]),
            (">", b > SHOWN_DIFFICULTY[1]),
            ("v", b.between(*SHOWN_DIFFICULTY) & (a < SHOWN_DISCRIMINATION[0])),
            ("^", b.between(*SHOWN_DIFFICULTY) & (a > SHOWN_DISCRIMINATION[1])),
        ):
            edge = b[beyond].clip(*SHOWN_DIFFICULTY), a[beyond].clip(*SHOWN_DISCRIMINATION)
            ax.plot(*edge, arrow, color=colour, markersize=6, clip_on=False)
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.set(xlabel="difficulty b", ylabel="discrimination a")
    ax.set_xlim(_room_for(axes_for["difficulty"], SHOWN_DIFFICULTY))
    ax.set_ylim(_room_for(axes_for["discrimination"], SHOWN_DISCRIMINATION))
    _legend_above(ax, entries)
    return ax
