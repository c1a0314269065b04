"""Scales drawn, with captions: curves, information, Wright maps, where people are; fit, items, assemble, link, plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import irtbench.analysis
import irtbench.building
from irtbench.bank.scale import ItemMap, Scale, item_map
from irtbench.diagnostics.measurement_precision import MeasurementPrecision
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.curves import icc, information
from irtbench.models.item_parameters import ItemParameters
from irtbench.report.drawing import (
    ABILITY_LABEL,
    BLUE,
    DASHED,
    GREY,
    HEIGHT,
    ORANGE,
    ROW,
    WIDTH,
    Drawing,
    Series,
    bar_plot,
    curve_plot,
    histogram,
    interval_plot,
    on_axes,
    shortened,
    square_plot,
)
from irtbench.report.formatting import count, decimal, interval, plural, words
from irtbench.report.page import Block, figure, one_panel
from irtbench.scoring.percentiles import MOST_ITEMS, SumScoreTable, sum_score_table

ABILITIES = np.linspace(-4, 4, 321)
MANY_CURVES = 60
SHOWN_DIFFICULTY, SHOWN_DISCRIMINATION = (-6.0, 6.0), (-2.0, 6.0)  # items beyond are at the edge
MARGIN = 0.5  # about the items of a scatter plot
BIN = 0.25  # of the histogram of ability
STANDARD_ERRORS = (1.0, 0.7, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.07, 0.05)
MAP_HEIGHT = 5.2
MOST_NAMED = 60  # items whose names are written in a Wright map; of more there are points alone
ROW_LETTERS = 8.4  # of the names of items in a row of a Wright map, an inch of its Axes
MOST_DRIFTED = 12  # items whose names are written where they drifted
MOST_PANELS = 12  # items whose category curves are drawn
MOST_POSITIONS = 20  # systems in one panel
#: All probabilities, on an axis that ends where they do.
PROBABILITIES: Mapping[str, Any] = {"ylim": (-0.02, 1.02), "yticks": np.linspace(0, 1, 6)}


def draw_curves(ax: Axes, kept: ItemParameters, others: Sequence[ItemParameters] = (), *, others_are: str = "") -> Axes:
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
    words = f"{others_are} ({sum(items.n_items for items in others)})"
    # hundreds of curves are to show where they are dense
    solid = {"color": BLUE, "linewidth": 1.1, "alpha": np.clip(40 / max(kept.n_items, 1), 0.15, 0.75)}
    sets = [
        (f"kept ({kept.n_items})", kept, solid),
        *((words if k == 0 else "", items, {"color": ORANGE, "linestyle": ":"}) for k, items in enumerate(others)),
    ]
    lines = [
        Series(name, points := ABILITIES[:: 1 if items.n_items <= MANY_CURVES else 5], icc(points, items), look=look)
        for name, items, look in sets
        if items.n_items
    ]
    y = "probability correct" if kept.categories is None else "expected share of the score"
    return curve_plot(ax, lines, x=ABILITY_LABEL, y=y, **PROBABILITIES)


def draw_information(ax: Axes, scales: Mapping[str, ItemParameters]) -> Axes:
    """Test information of each scale, with the corresponding standard error of ability on the right: Figure 4."""
    return _with_standard_errors(
        ax,
        [
            Series(f"{name} ({items.n_items} items)", ABILITIES, information(ABILITIES, items).sum(axis=1))
            for name, items in scales.items()
        ],
    )


def draw_precision(ax: Axes, found: MeasurementPrecision) -> Axes:
    """Test information along ability, with the corresponding standard error of ability on the right."""
    shown = (found.theta >= ABILITIES[0]) & (found.theta <= ABILITIES[-1]) if found.theta.size > 2 else slice(None)
    return _with_standard_errors(ax, [Series("", found.theta[shown], found.information[shown])])


def _with_standard_errors(ax: Axes, lines: Sequence[Series]) -> Axes:
    top = curve_plot(ax, lines, x=ABILITY_LABEL, y="test information", ylim=(0, None)).get_ylim()[1]
    ticks: list[float] = []
    for error in STANDARD_ERRORS:
        place = error**-2
        # a tick needs a fifteenth of the height for its number
        if place <= top and (not ticks or place - ticks[-1] ** -2 > top / 15):
            ticks.append(error)
    right = ax.twinx()
    right.set(
        ylim=(0, top), ylabel="standard error of θ", yticks=[error**-2 for error in ticks],
        yticklabels=[f"{error:g}" for error in ticks],
    )  # fmt: skip
    right.grid(visible=False)
    right.spines["right"].set_visible(True)
    return ax


def _bins(theta: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.arange(np.floor(theta.min() / BIN), np.ceil(theta.max() / BIN) + 1.5) * BIN


def draw_norm_sample(ax: Axes, theta: NDArray[np.float64]) -> Axes:
    """Histogram of the abilities of a norm sample."""
    edges = _bins(theta)
    reach = min(ABILITIES[0], edges[0]), max(ABILITIES[-1], edges[-1])
    return histogram(ax, [Series("", theta)], edges, x=ABILITY_LABEL, xlim=reach)


def draw_positions(ax: Axes, scores: pd.DataFrame) -> Axes:
    """Ability of each system with its interval, one under the other: rows of scores.csv of one scale."""
    theta, lower, upper = (scores[name].to_numpy(dtype=np.float64) for name in ("theta", "theta_lower", "theta_upper"))
    interval_plot(
        ax, list(scores["respondent_id"]),
        [Series("", theta, lower=lower, upper=upper, look={"color": ORANGE, "marker": "o"})], label=ABILITY_LABEL,
    )  # fmt: skip
    ax.set_xlim(min(ax.get_xlim()[0], lower.min() - BIN), max(ax.get_xlim()[1], upper.max() + BIN))
    return ax


def draw_parameters(ax: Axes, status: pd.DataFrame, *, axes_for: pd.DataFrame) -> Axes:
    """Discrimination against difficulty of a scale's items with a standard error either way.

    An item beyond the range shown is at its edge as an arrowhead, without errors.

    Parameters
    ----------
    ax
        Where to draw.
    status
        Rows of `item_status_table` of one scale.
    axes_for
        Rows of all the scales whose axes are to be the same.
    """
    groups = []
    for outcome, items in status.dropna(subset=["difficulty", "discrimination"]).groupby("outcome"):  # kept first
        look = {"color": BLUE} if outcome == "kept" else {"color": ORANGE, "marker": "D", "markerfacecolor": "white"}
        b, a, se_b, se_a = (
            items[name].to_numpy(dtype=np.float64)
            for name in ("difficulty", "discrimination", "se_difficulty", "se_discrimination")
        )
        edge_b, edge_a = np.clip(b, *SHOWN_DIFFICULTY), np.clip(a, *SHOWN_DISCRIMINATION)
        at = (b == edge_b) & (a == edge_a)
        ax.hlines(a[at], (b - se_b)[at], (b + se_b)[at], color=look["color"], linewidth=0.8)
        groups.append(
            Series(f"{outcome} ({len(items)})", b[at], a[at], (a - se_a)[at], (a + se_a)[at], {"marker": "o"} | look)
        )
        beyond = {
            "<": b < edge_b,
            ">": b > edge_b,
            "v": (b == edge_b) & (a < edge_a),
            "^": (b == edge_b) & (a > edge_a),
        }
        at_edge = {"color": look["color"], "markersize": 6, "clip_on": False}
        groups += [
            Series("", edge_b[which], edge_a[which], look=at_edge | {"marker": arrow})
            for arrow, which in beyond.items()
        ]
    curve_plot(ax, groups, x="difficulty b", y="discrimination a", dots=True).axhline(0, color=GREY, linewidth=0.8)
    for values, (least, most), limit in (
        (axes_for["difficulty"], SHOWN_DIFFICULTY, ax.set_xlim),
        (axes_for["discrimination"], SHOWN_DISCRIMINATION, ax.set_ylim),
    ):
        limit(max(least, min(values.min(), 0.0) - MARGIN), min(most, max(values.max(), 0.0) + MARGIN))
    return ax


def draw_wright_map(ax: Axes, found: ItemMap) -> Axes:
    """People to the left, items to the right, on one scale from the easy and the weak to the hard and the able.

    The people are the norm sample, or the population where there is none. Items beyond the range shown are at its
    edge as arrowheads.
    """
    items, (weakest, ablest, share_of_people) = found.scale.items, _people(found.scale)
    known = np.isfinite(items.difficulty)
    difficulty = items.difficulty[known]
    place = np.round(np.clip(difficulty, *SHOWN_DIFFICULTY) / BIN) * BIN
    ends = np.array([-3.0, 3.0, *place, weakest, ablest])
    centres = np.arange(np.floor(ends.min() / BIN), np.ceil(ends.max() / BIN) + 1) * BIN
    share = share_of_people(centres)
    who = "population" if found.scale.norms is None else f"{found.scale.norms.n} respondents"
    bar_plot(
        ax, [Series("", centres, -share / share.max())], x=f"{who}   |   {items.n_items} items",
        y="ability θ, difficulty b", width=BIN, lying=True,
    )  # fmt: skip
    names = np.array(items.item_ids, dtype=object)[known]
    rows, n_here = np.unique(place, return_counts=True)
    if items.n_items <= MOST_NAMED:
        letters = int(ROW_LETTERS * ax.bbox.width / ax.figure.dpi)
        for centre in rows:
            named = _named(names[place == centre], letters)
            ax.text(0.03, centre, named, va="center", fontsize=8, color=BLUE, parse_math=False)
    else:
        across = np.concatenate([0.5 + np.arange(n) for n in n_here]) / max(40, *n_here)
        ax.plot(across, np.repeat(rows, n_here), "o", color=BLUE, markersize=3)
    for edge, marker, beyond in (
        (SHOWN_DIFFICULTY[0], "v", difficulty < SHOWN_DIFFICULTY[0]),
        (SHOWN_DIFFICULTY[1], "^", difficulty > SHOWN_DIFFICULTY[1]),
    ):
        if beyond.any():
            ax.plot(0.0, edge, marker, color=ORANGE, clip_on=False)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.grid(visible=True, axis="y")
    ax.grid(visible=False, axis="x")
    ax.set(xlim=(-1.05, 1.05), ylim=(centres[0] - BIN, centres[-1] + BIN), xticks=[])
    return ax


def _named(names: NDArray[np.object_], most: int) -> str:
    """As many of these names as there is room for, and how many more there are: ``a b +3``."""
    for n in range(len(names), 1, -1):
        more = f" +{len(names) - n}" if n < len(names) else ""
        if len(text := " ".join(map(str, names[:n])) + more) <= most:
            return text
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return shortened(names[0], most=most - len(more)) + more


def _people(scale: Scale) -> tuple[float, float, Callable[[NDArray[np.float64]], NDArray[np.float64]]]:
    """Between which abilities the people are, and their share near each of some, with one factor for all."""
    if (norms := scale.norms) is not None:

        def counted(centres: NDArray[np.float64]) -> NDArray[np.float64]:
            edges = np.append(centres - BIN / 2, centres[-1] + BIN / 2)
            return np.histogram(norms.theta, bins=edges, weights=norms.weights)[0].astype(np.float64)

        return float(norms.theta.min()), float(norms.theta.max()), counted
    if (population := scale.population) is None:
        return -3.0, 3.0, lambda centres: np.exp(-0.5 * centres**2)
    density, reach = population.weights / np.gradient(population.nodes), 3 * population.deviation

    def read(centres: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.interp(centres, population.nodes, density, left=0, right=0)

    return population.mean - reach, population.mean + reach, read


def draw_sum_scores(ax: Axes, found: SumScoreTable) -> Axes:
    """Ability of each raw score with its interval."""
    of = found.abilities
    line = Series("", found.score, of.theta, of.lower, of.upper, {"marker": "o", "markersize": 3})
    return curve_plot(ax, [line], x="raw score", y=ABILITY_LABEL)


def draw_expected_errors(ax: Axes, plan: irtbench.analysis.CrowdPlan) -> Axes:
    """Standard error of difficulty to expect of each item, by its difficulty; what was wanted dashed."""
    b, wanted = -plan.items.intercept / plan.items.discrimination, plan.settings.se_difficulty
    groups = [Series("", b, plan.precision.se_difficulty)]
    if wanted is not None:
        words = f"wanted for {plan.settings.share:.0%} of the items"
        groups.append(Series(words, [b.min(), b.max()], [wanted] * 2, look={**DASHED, "marker": ""}))
    return curve_plot(ax, groups, x="difficulty b", y="standard error of b to expect", dots=True, ylim=(0, None))


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
    looks = {"color": BLUE, "marker": "o"}, {"color": ORANGE, "marker": "D", "markerfacecolor": "white"}
    groups = [
        Series(f"{text} ({which.sum()})", old[which], new[which], look=look)
        for which, text, look in zip((~gone, gone), ("links the scales", "left out of the link"), looks, strict=True)
        if which.any()
    ]
    curve_plot(
        ax, groups, x="difficulty b on the old scale, as it was", y="as these people have it, on the old scale",
        dots=True, diagonal=True,
    )  # fmt: skip
    for name, x, y in zip(table["item_id"][gone].head(MOST_DRIFTED), old[gone], new[gone], strict=False):
        away, side = (6, "left") if x < old.mean() else (-6, "right")
        words = ax.annotate(
            shortened(name, most=24), (x, y), (away, 0), textcoords="offset points", ha=side, va="center"
        )
        words.set(fontsize=8, parse_math=False)
    ax.set_aspect("equal", adjustable="datalim")
    return ax


def map_panels(maps: Sequence[ItemMap]) -> list[Drawing]:
    """Wright map of each scale."""
    return [
        on_axes(
            "wright_map", partial(draw_wright_map, found=found), heading=found.scale.name,
            description=f"Wright map of {found.scale.name}: people and {plural(found.scale.items.n_items, 'item')} on "
            "one scale.", height=MAP_HEIGHT,
        )
        for found in maps
    ]  # fmt: skip


def raw_score_panels(scales: Sequence[Scale]) -> list[Drawing]:
    """Ability by raw score of each scale that is short enough for a table of it."""
    return [
        on_axes(
            "raw_scores", partial(draw_sum_scores, found=table), heading=scale.name,
            description=f"Ability on {scale.name} rises from {decimal(table.abilities.theta[0])} with none right to "
            f"{decimal(table.abilities.theta[-1])} with all.",
        )
        for scale in scales
        if scale.items.n_items <= MOST_ITEMS
        for table in [sum_score_table(scale)]
    ]  # fmt: skip


def position_panels(scales: Sequence[Scale], system_scores: pd.DataFrame | None, unit: str) -> list[Drawing]:
    """Abilities of the norm sample of each scale that has one, with the systems below, ``MOST_POSITIONS`` at most.

    The panels have the same axes of ability and of respondents, so that a bar is as many people in each.
    """
    scores = pd.DataFrame({"scale": [], "theta": []}) if system_scores is None else system_scores
    scores = scores[scores["theta"].notna()]
    shown = [(scale.name, scale.norms) for scale in scales if scale.norms is not None]
    if not shown:
        return []
    systems = [some_systems(scores[scores["scale"] == name]) for name, _ in shown]
    edges = _bins(np.concatenate([norms.theta for _, norms in shown]))
    top = 1.05 * max(np.histogram(norms.theta, bins=edges)[0].max() for _, norms in shown)
    ends = [own[column].to_numpy(dtype=np.float64) for own in systems for column in ("theta_lower", "theta_upper")
            if len(own)]  # fmt: skip
    reach = np.concatenate([edges, ABILITIES[[0, -1]], *(side[np.isfinite(side)] for side in ends)])

    def draw(figure: Figure, theta: NDArray[np.float64], own: pd.DataFrame, height: float) -> None:
        heights = [HEIGHT - 1, height] if height else [HEIGHT]
        axes = figure.subplots(len(heights), sharex=True, squeeze=False, height_ratios=heights).ravel()
        draw_norm_sample(axes[0], theta)
        if height:
            draw_positions(axes[1], own)
            axes[0].set_xlabel("")
        axes[0].set(xlim=(reach.min() - BIN, reach.max() + BIN), ylim=(0, top))

    panels = []
    for (name, norms), own in zip(shown, systems, strict=True):
        height = 0.0 if own.empty else 0.5 + ROW * (len(own) + 1)
        description = f"Abilities of {count(norms.n)} respondents on {name}." + "".join(
            f" {row['respondent_id']}: {decimal(row['theta'])}, {interval(row['theta_lower'], row['theta_upper'])}."
            for row in own.to_dict("records")
        )
        filled = partial(draw, theta=norms.theta, own=own, height=height)
        tall = HEIGHT - 1 + height if height else HEIGHT
        panels.append(Drawing("positions", name, description, filled, WIDTH, tall, unit))
    return panels


def some_systems(scores: pd.DataFrame, *, by: str = "theta", most: int = MOST_POSITIONS) -> pd.DataFrame:
    """The systems on a scale, the most able first; where they are many, so many at even ranks."""
    places = np.linspace(0, len(scores) - 1, min(len(scores), most)).round().astype(int)
    return scores.sort_values(by, ascending=False, kind="stable").iloc[places]


def fit_figures(scale: Scale | None, items: pd.DataFrame) -> list[Block]:
    """Of a fit: curves, information, Wright map and abilities; of several abilities the loadings.

    Parameters
    ----------
    scale
        What went into the bank; None where there is none.
    items
        Contents of items.csv.
    """
    if scale is None:
        return loading_figures(items)
    kept = scale.items
    return [
        *one_panel(
            "curves", partial(draw_curves, kept=kept),
            f"Item characteristic curves of {plural(kept.n_items, 'item')}.", categories=kept.categories is not None,
        ),
        *_information({"all": kept}),
        *figure(map_panels([item_map(scale)]), words("wright_map")),
        *figure(position_panels([scale], None, ""), words("abilities_of_norm_sample")),
    ]  # fmt: skip


def loading_figures(items: pd.DataFrame) -> list[Block]:
    """Loadings, or slopes where there are no loadings, of items on several abilities."""
    of_kind = [[str(name) for name in items if str(name).startswith(kind)] for kind in ("loading_", "slope_")]
    others = [name for name in ("general_slope", "specific_slope", "discrimination") if name in items]
    columns = next(filter(None, [*of_kind, others]), [])
    values, what = items[columns].to_numpy(dtype=np.float64), "loading" if of_kind[0] else "slope"
    names, label = list(items["item_id"]), f"size of the {what}"
    return one_panel(
        "loadings", partial(square_plot, values=values, rows=names, columns=columns, label=label),
        f"Loadings of {plural(len(items), 'item')} in {plural(len(columns), 'column')}.",
        height=min(12.0, 1.6 + 0.16 * len(items)),
    )  # fmt: skip


def _information(scales: Mapping[str, ItemParameters]) -> list[Block]:
    return one_panel("test_information", partial(draw_information, scales=scales), "Test information along ability.")


def wright_figures(maps: Mapping[str, ItemMap]) -> list[Block]:
    """Of a bank: the Wright map of each scale, and test information."""
    scales = {name or "all": found.scale.items for name, found in maps.items()}
    graded = [
        of.select([item]) for items in scales.values() if (of := items.categories) is not None for item in of.item_ids
    ]
    return [
        *figure(map_panels(list(maps.values())), words("wright_map")),
        *figure(
            [
                on_axes(
                    "categories",
                    partial(draw_categories, item=item),
                    heading=item.item_ids[0],
                    description=f"Probability of each category of item {item.item_ids[0]} along ability.",
                )
                for item in graded[:MOST_PANELS]
            ],
            words("categories", most=MOST_PANELS),
        ),
        *_information(scales),
    ]


def draw_categories(ax: Axes, item: CategoryParameters) -> Axes:
    """Probability of each category of one item along ability."""
    (p,) = item.probabilities(ABILITIES)
    lines = [Series(str(name), ABILITIES, own) for name, own in zip(item.categories[0], p.T, strict=True)]
    return curve_plot(ax, lines, x=ABILITY_LABEL, y="probability", **PROBABILITIES)


def drift_figures(drift: pd.DataFrame) -> list[Block]:
    """Of a link: the common items on both sides of it, as drift.csv has them."""
    return one_panel(
        "drift", partial(draw_drift, table=drift),
        f"{plural(len(drift), 'common item')}, {int(drift['released'].sum())} left out of the link.", height=WIDTH,
    )  # fmt: skip


def form_figures(scales: Sequence[Scale], found: irtbench.building.AssembledForms) -> list[Block]:
    """Of short forms: their information and that of all items, on each scale that they were chosen from."""
    drawings = []
    shown = [scale for scale in scales if set(scale.items.item_ids) & {item for form in found.forms for item in form}]
    for scale in shown:
        own = [[item for item in scale.items.item_ids if item in set(form)] for form in found.forms]
        names = ["form"] if len(own) == 1 else [f"form {number}" for number in range(1, 1 + len(own))]
        forms = {name: scale.items.select(ids) for name, ids in zip(names, own, strict=True) if ids}
        parts = {"all items": scale.items, **forms}
        drawings.append(
            on_axes(
                "form_information", partial(draw_information, scales=parts),
                heading=scale.name if len(shown) > 1 else "", height=HEIGHT + 0.2 * (len(parts) // 2),
                description=f"Test information of {', '.join(parts)} of {scale.name}.",
            )
        )  # fmt: skip
    return figure(drawings, words("form_information"))


def plan_figures(plan: irtbench.analysis.CrowdPlan) -> list[Block]:
    """Of a plan: the standard error to expect of each item."""
    return one_panel(
        "expected_errors", partial(draw_expected_errors, plan=plan),
        f"Expected standard errors of difficulty of {plural(plan.n_items, 'item')}.",
        people=plural(plan.n_respondents, "respondent"), n_each=plan.n_each,
    )  # fmt: skip
