"""What is wrong with items, drawn, with captions: diagnose, keys, bias, dimensions, difficulty; nothing is computed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

import irtbench.analysis
import irtbench.estimation
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.empirical_curve import EmpiricalCurve, empirical_curve
from irtbench.diagnostics.measurement_precision import MeasurementPrecision
from irtbench.models.curves import icc
from irtbench.models.item_parameters import ItemParameters
from irtbench.report.drawing import (
    ABILITY_LABEL,
    BLUE,
    COLOURS,
    DASHED,
    GREY,
    LINE_STYLES,
    MARKERS,
    ORANGE,
    SKY,
    Series,
    curve_plot,
    found_plot,
    height_of,
    histogram,
    in_panels,
    interval_plot,
    on_axes,
    shortened,
    square_plot,
)
from irtbench.report.formatting import p_value, plural, words
from irtbench.report.page import Block, figure, one_panel
from irtbench.report.scale_figures import ABILITIES, PROBABILITIES, draw_precision

MOST_ROWS = 25  # items of a chart, the most conspicuous
MOST_CURVES = 6  # items whose fit is drawn, the worst
MOST_PANELS, COLUMNS = 24, 3  # items whose curves by group are drawn
MOST_PAIRED = 400  # items between which dependence is drawn
MOST_HORIZONS = 40
MOST_OPTIONS = 5  # of an item, the key first
UNLIKELY = -1.645  # lz* that one person in twenty is below
MEASURES = {
    "shift": "shift for the systems (logits), negative is harder",
    "delta": "difference on the delta scale, negative is harder for the focal group",
    "rms_difference": "difference of the curves (root mean square)",
    "r2_change": "change of R² by group",
}


def draw_fit(ax: Axes, curve: EmpiricalCurve) -> Axes:
    """The estimated curve of an item (solid) against the smoothed actual one (dotted) with its band: Figure 2."""
    dotted = {"color": ORANGE, "linestyle": ":", "linewidth": 2.2}
    lines = [
        Series("estimated", curve.theta, curve.expected),
        Series("actual, with band", curve.theta, curve.proportion, curve.lower, curve.upper, dotted),
    ]
    return curve_plot(ax, lines, x=ABILITY_LABEL, y="probability correct", **PROBABILITIES)


def draw_item_by_group(ax: Axes, grouped: irtbench.estimation.GroupedModel, item: str) -> Axes:
    """The characteristic curve of an item in each group."""
    lines = [
        Series(group, ABILITIES, icc(ABILITIES, items.select([item]))[:, 0])
        for group, items in zip(grouped.groups, grouped.items, strict=True)
    ]
    drawn = curve_plot(ax, lines, x=ABILITY_LABEL, y="probability correct", **PROBABILITIES).get_legend()
    if drawn is not None:
        drawn.set(title=item, alignment="left")
        drawn.get_title().set_parse_math(False)
    return ax


def draw_expected_scores(ax: Axes, found: irtbench.analysis.DifferentialTestFunctioning) -> Axes:
    """Expected score on the whole test in each group, with the band of the difference about the reference's."""
    lower, upper = (found.expected[0] + end for end in (found.difference_lower, found.difference_upper))
    lines = [
        Series(group, found.theta, found.expected[k], *((lower[k - 1], upper[k - 1]) if k else ()))
        for k, group in enumerate(found.groups)
    ]
    return curve_plot(ax, lines, x=ABILITY_LABEL, y=f"expected score of {found.n_items}")


def measure_of(table: pd.DataFrame) -> str | None:
    """The measure of bias that a table of items has."""
    return next((name for name in MEASURES if name in table and table[name].notna().any()), None)


def draw_bias(ax: Axes, table: pd.DataFrame, *, alpha: float) -> Axes:
    """How far each item differs between groups, those of least p; bounds of the ETS classes dotted.

    Parameters
    ----------
    ax
        Where to draw.
    table
        Rows of bias.csv.
    alpha
        Adjusted p up to which a difference is drawn as found.
    """
    measure = measure_of(table)
    if measure is None:
        raise InputError("no item could be compared between the groups, so that there is nothing to draw")
    shown = table[table["p"].notna()].sort_values("p", kind="stable").head(MOST_ROWS)
    every = Series("", shown[measure], None, shown.get(f"{measure}_lower"), shown.get(f"{measure}_upper"))
    words, names = (f"adjusted p < {alpha:g}", f"adjusted p ≥ {alpha:g}"), list(shown["item_id"])
    found_plot(ax, names, every, shown["p_adjusted"] < alpha, words, label=MEASURES[measure])
    for bound in (-1.5, -1.0, 1.0, 1.5) if measure == "delta" else ():
        ax.axvline(bound, color=GREY, linestyle=":", linewidth=0.8)
    ax.margins(x=0.05)
    return ax


def draw_wrong_keys(ax: Axes, ranked: pd.DataFrame) -> Axes:
    """How probably each key is wrong, of the most suspicious items."""
    shown = ranked.head(MOST_ROWS)
    wrong, words = shown["p_wrong_key"], ("more likely wrong than right", "more likely right")
    return found_plot(
        ax, list(shown["item_id"]), Series("", wrong), wrong > 0.5, words, label="probability that the key is wrong",
        xlim=(-0.02, 1.02),
    )  # fmt: skip


def draw_predictions(ax: Axes, found: irtbench.analysis.ExplainedDifficulty) -> Axes:
    """Each item's difficulty against its prediction from a fit without it, with the interval of the prediction."""
    x, b, se = found.predicted, found.difficulty, found.se_difficulty
    ax.vlines(x, found.predicted_lower, found.predicted_upper, color=SKY, linewidth=2, alpha=0.4)
    return curve_plot(
        ax, [Series("", x, b, b - se, b + se)], x="difficulty predicted from the features",
        y="difficulty b as estimated", dots=True, diagonal=True,
    )  # fmt: skip


def draw_horizons(ax: Axes, found: irtbench.analysis.TimeHorizon) -> Axes:
    """Horizons of the systems, the longest on top, with intervals; those without an end go to the border."""
    order = np.argsort(-found.horizon[:, 0])[:MOST_HORIZONS]
    every = np.stack([found.lower, found.horizon, found.upper])[:, order]
    known = every[np.isfinite(every) & (every > 0)]
    least, most = (known.min(), known.max()) if known.size else (found.shortest, found.longest)
    every = np.clip(every, least / 2, most * 2)
    sets = [
        Series(f"{share:.0%}", every[1, :, k], None, every[0, :, k], every[2, :, k])
        for k, share in enumerate(found.shares)
    ]
    ax.axvspan(found.shortest, found.longest, color=GREY, alpha=0.12, linewidth=0)
    return interval_plot(
        ax, [found.respondent_ids[place] for place in order], sets,
        label=f"length of tasks solved so often ({found.unit})", xscale="log",
    )  # fmt: skip


def draw_options(ax: Axes, options: pd.DataFrame) -> Axes:
    """Share of the lower, middle and upper third by score that chose each option of an item: the key drawn thick.

    Parameters
    ----------
    ax
        Where to draw.
    options
        Rows of distractors.csv of one item, the key first.
    """
    lines = []
    for k, row in enumerate(options.head(MOST_OPTIONS).to_dict("records")):
        look = {"color": COLOURS[1 + (k - 1) % 4], "linestyle": LINE_STYLES[1 + (k - 1) % 6], "linewidth": 1.3}
        look |= {"marker": MARKERS[k % len(MARKERS)], "markerfacecolor": "white"}
        if row["is_key"]:
            look |= {"color": BLUE, "linestyle": "-", "linewidth": 2.4, "markerfacecolor": BLUE}
        name = f"{shortened(row['option'], most=18)}{' (key)' if row['is_key'] else ''}"
        lines.append(Series(name, range(3), [row[f"share_{third}"] for third in ("low", "middle", "high")], look=look))
    return curve_plot(
        ax, lines, x="third by score", y="share choosing it", ylim=(-0.02, 1.02), xlim=(-0.1, 2.1), xticks=range(3),
        xticklabels=["lower", "middle", "upper"],
    )  # fmt: skip


def draw_scree(ax: Axes, analysis: irtbench.analysis.ParallelAnalysis, *, most: int = 15) -> Axes:
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
    number, eigenvalue, ability = (shown[name].to_numpy() for name in ("number", "eigenvalue", "ability"))
    dot = {"color": BLUE, "linestyle": "none", "marker": "o", "markersize": 6}
    lines = [
        Series("", number, eigenvalue, look={"linewidth": 1.0}),
        Series("abilities", number[ability], eigenvalue[ability], look=dot),
        Series("not above chance", number[~ability], eigenvalue[~ability], look=dot | {"markerfacecolor": "white"}),
        Series(f"independent items, {analysis.percentile:g}th percentile", number, shown["chance_limit"], look=DASHED),
    ]
    curve_plot(ax, lines, x="number", y="eigenvalue", ylim=(0, None))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax


def draw_dependence(ax: Axes, pairs: pd.DataFrame) -> Axes:
    """Residual correlation Q3 of every two items, less the mean of all, from rows of local_dependence.csv."""
    names = list(dict.fromkeys([*pairs["item_1"], *pairs["item_2"]]))
    place = {name: k for k, name in enumerate(names)}
    q3 = np.full((len(names), len(names)), np.nan)
    first, second = (pairs[name].map(place).to_numpy() for name in ("item_1", "item_2"))
    q3[second, first] = pairs["q3_centred"].to_numpy(dtype=np.float64)
    square_plot(ax, q3, names, names, label="distance of Q3 from its mean").set_aspect("equal")
    ax.set_xlabel(ax.get_xlabel() or "item")
    return ax


def draw_person_fit(ax: Axes, lz_star: NDArray[np.float64]) -> Axes:
    """Histogram of lz*; one person in twenty is expected left of the dashed line."""
    known = lz_star[np.isfinite(lz_star)]
    low, high = (min(-3.0, float(known.min(initial=0))), max(3.0, float(known.max(initial=0))))
    edges = np.arange(np.floor(4 * low), np.ceil(4 * high) + 1) / 4
    share = (known < UNLIKELY).mean() if known.size else 0.0
    mark = UNLIKELY, f"{share:.1%} below −1.645 (5% expected)"
    return histogram(ax, [Series("", known)], edges, x="person fit lz*", mark=mark)


def diagnosis_figures(
    data: ResponseMatrix,
    items: ItemParameters,
    theta: NDArray[np.float64],
    *,
    precision: MeasurementPrecision,
    item_fit: pd.DataFrame,
    pairs: pd.DataFrame,
    lz_star: NDArray[np.float64] | None,
) -> list[Block]:
    """Of a diagnosis: the worst fitting items, dependence of pairs, person fit, test information; what there is.

    Parameters
    ----------
    data, items, theta
        Responses, parameters and estimated abilities.
    precision
        Of measurement.
    item_fit, pairs
        Contents of item_fit.csv and local_dependence.csv; empty where not available.
    lz_star
        Person fit; None where not available.
    """
    blocks: list[Block] = []
    if not item_fit.empty and data.trials is None:
        worst = item_fit[item_fit["p"].notna()].sort_values("p", kind="stable").head(MOST_CURVES)
        blocks += figure(
            [
                on_axes(
                    "item_fit",
                    partial(draw_fit, curve=empirical_curve(data, items, row["item_id"], theta)),
                    heading=f"{row['item_id']}: p {p_value(row['p'])}, adjusted {p_value(row['p_adjusted'])}",
                    description=f"Estimated and actual curve of item {row['item_id']}.",
                )
                for row in worst.to_dict("records")
            ],
            words("item_fit"),
        )
    if not pairs.empty and len(set(pairs["item_1"]) | set(pairs["item_2"])) <= MOST_PAIRED:
        blocks += one_panel(
            "local_dependence", partial(draw_dependence, pairs=pairs),
            f"Residual correlations of {plural(len(pairs), 'pair')} of items.", height=4.6,
        )  # fmt: skip
    if lz_star is not None:
        blocks += one_panel("person_fit", partial(draw_person_fit, lz_star=lz_star), "Histogram of lz*.")
    return blocks + one_panel(
        "test_information", partial(draw_precision, found=precision), "Test information along ability.",
        caption="precision_of_scale",
    )  # fmt: skip


def key_figures(ranked: pd.DataFrame, options: pd.DataFrame) -> list[Block]:
    """Of keys: how probably they are wrong, and who chose which option of the most suspicious.

    Parameters
    ----------
    ranked, options
        Contents of keys.csv and distractors.csv.
    """
    wrong = int((ranked["p_wrong_key"] > 0.5).sum())
    by_item = {str(item): rows for item, rows in options.groupby("item_id", sort=False)}
    panels = [
        on_axes(
            "options", partial(draw_options, options=by_item[item]), heading=shortened(item),
            description=f"Who chose which option of {item}, by thirds of the score.",
        )
        for item in ranked["item_id"].head(MOST_CURVES)
        if item in by_item
    ]  # fmt: skip
    return one_panel(
        "wrong_keys", partial(draw_wrong_keys, ranked=ranked),
        f"Of {plural(len(ranked), 'key')}, {wrong} more likely wrong than right.",
        height=height_of(min(len(ranked), MOST_ROWS)), n=len(ranked), most=MOST_ROWS,
    ) + figure(panels, words("options_of_suspects"))  # fmt: skip


def bias_figures(table: pd.DataFrame, *, alpha: float) -> list[Block]:
    """Of item bias: how far each item differs, those of least p.

    Parameters
    ----------
    table
        Contents of bias.csv.
    alpha
        Adjusted p below which an item differs.
    """
    measure, known = measure_of(table), table[table["p"].notna()]
    if measure is None or known.empty:
        return []
    return one_panel(
        "item_differences", partial(draw_bias, table=table, alpha=alpha),
        f"{int((table['p_adjusted'] < alpha).sum())} of {plural(len(table), 'item')} differ.",
        height=height_of(min(len(known), MOST_ROWS)), alpha=alpha, measure=measure, n=len(known), most=MOST_ROWS,
    )  # fmt: skip


def effect_figures(
    items: Sequence[str],
    grouped: irtbench.estimation.GroupedModel,
    test: irtbench.analysis.DifferentialTestFunctioning,
    *,
    apart: bool = False,
) -> list[Block]:
    """Of the items that differ: their curves in each group, and what they do to the expected score.

    Parameters
    ----------
    items
        The items that differ, the worst first.
    grouped
        The fit with these items free.
    test
        Expected scores by group.
    apart
        Whether the curves of each item are a figure of their own, for a page, and not one file.
    """
    draws = [partial(draw_item_by_group, grouped=grouped, item=item) for item in items[:MOST_PANELS]]
    curves = [
        on_axes("item_curves", draw, description=f"Curves of {item} in each group.")
        for item, draw in zip(items, draws, strict=False)
    ]
    if not apart:
        description = f"Curves of {plural(len(draws), 'item')} in each group."
        curves = [in_panels("item_curves", draws, columns=COLUMNS, width=4.2, height=3.2, description=description)]
    return figure(curves, words("item_curves")) + one_panel(
        "test_curves", partial(draw_expected_scores, found=test), "Expected score along ability in each group."
    )


def scree_figures(analysis: irtbench.analysis.ParallelAnalysis) -> list[Block]:
    """Of dimensions: the scree plot."""
    return one_panel(
        "scree", partial(draw_scree, analysis=analysis),
        f"Eigenvalues in descending order; the first {analysis.n_abilities} lie above the limit of chance.",
        kind=analysis.tetrachoric.kind,
    )  # fmt: skip


def difficulty_figures(found: irtbench.analysis.ExplainedDifficulty) -> list[Block]:
    """Of explained difficulty: each item's difficulty against its prediction, and the effects of the features."""
    table = found.table()
    table = table[~table["term"].str.contains("intercept", case=False)]
    each = [Series("", table["effect"], None, table["lower"], table["upper"])]
    effects = one_panel(
        "effects",
        partial(interval_plot, names=list(table["term"]), series=each, label="effect on difficulty b", reference=0.0),
        f"Effects of {plural(len(table), 'feature')} on difficulty.", height=height_of(len(table)),
        caption="feature_effects",
    )  # fmt: skip
    predicted = one_panel(
        "predicted_difficulty", partial(draw_predictions, found=found),
        f"Difficulty of {plural(len(found.item_ids), 'item')} against its prediction.",
    )  # fmt: skip
    return predicted if table.empty else predicted + effects


def horizon_figures(found: irtbench.analysis.TimeHorizon) -> list[Block]:
    """Of time horizons: each system's, with intervals."""
    n = min(len(found.respondent_ids), MOST_HORIZONS)
    return one_panel(
        "time_horizon", partial(draw_horizons, found=found), f"Horizons of {plural(n, 'system')}.",
        height=height_of(n, each=len(found.shares)),
    )  # fmt: skip
