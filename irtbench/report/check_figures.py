"""Figures of commands that look for what is wrong with items, with their captions: diagnose, keys, bias, dimensions,
difficulty.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.empirical_curve import empirical_curve
from irtbench.diagnostics.measurement_precision import MeasurementPrecision
from irtbench.models.item_parameters import ItemParameters
from irtbench.report import plots
from irtbench.report.analysis_plots import (
    MOST_HORIZONS,
    draw_item_by_group,
    draw_item_differences,
    draw_options,
    draw_scree,
)
from irtbench.report.blocks import Block, figure
from irtbench.report.diagnosis_plots import draw_dependence, draw_person_fit
from irtbench.report.drawing import in_panels, on_axes
from irtbench.report.formatting import p_value, plural
from irtbench.report.interval_plots import draw_intervals, height_of
from irtbench.report.scale_figures import numbered

if TYPE_CHECKING:
    from irtbench.analysis.bias_of_test import DifferentialTestFunctioning
    from irtbench.analysis.explained_difficulty import ExplainedDifficulty
    from irtbench.analysis.horizons import TimeHorizon
    from irtbench.analysis.parallel_analysis import ParallelAnalysis
    from irtbench.estimation.multiple_groups import GroupedModel

MOST_ROWS = 25  # items of a chart, the most conspicuous
MOST_CURVES = 6  # items whose fit is drawn, the worst
MOST_PANELS, COLUMNS = 24, 3  # items whose curves by group are drawn
MOST_PAIRED = 400  # items between which dependence is drawn
MEASURES = {
    "shift": "shift for the systems (logits), negative is harder",
    "delta": "difference on the delta scale, negative is harder for the focal group",
    "rms_difference": "difference of the curves (root mean square)",
    "r2_change": "change of R² by group",
}


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
        panels = [
            on_axes(
                numbered("item_fit", k, len(worst)),
                partial(plots.draw_fit, curve=empirical_curve(data, items, row["item_id"], theta)),
                heading=f"{row['item_id']}: p {p_value(row['p'])}, adjusted {p_value(row['p_adjusted'])}",
                description=f"Estimated and actual curve of item {row['item_id']}.",
            )
            for k, row in enumerate(worst.to_dict("records"))
        ]
        blocks += figure(
            panels,
            "Item fit: the items of least p, each with its estimated curve (solid) and the actual share of right "
            "answers, smoothed over estimated ability (dotted), with its pointwise 95% band.",
        )
    if not pairs.empty and len(set(pairs["item_1"]) | set(pairs["item_2"])) <= MOST_PAIRED:
        drawing = on_axes(
            "local_dependence",
            lambda ax: draw_dependence(ax, pairs),
            description=f"Residual correlations of {plural(len(pairs), 'pair')} of items.",
            height=4.6,
        )
        blocks += figure(
            [drawing],
            "Local dependence: residual correlation Q3 of every two items, less the mean of all. Dark squares are "
            "pairs that share more than ability; a dash marks those below the mean.",
        )
    if lz_star is not None:
        drawing = on_axes("person_fit", lambda ax: draw_person_fit(ax, lz_star), description="Histogram of lz*.")
        blocks += figure(
            [drawing],
            "Person fit lz*: clearly negative where easy items are missed and hard ones solved. One person in twenty "
            "is expected left of the dashed line.",
        )
    drawing = on_axes("test_information", precision.plot, description="Test information along ability.")
    return blocks + figure(
        [drawing], "Test information along ability; on the right the standard error of ability that it stands for."
    )


def key_figures(ranked: pd.DataFrame, options: pd.DataFrame) -> list[Block]:
    """Of keys: how probably they are wrong, and who chose which option of the most suspicious.

    Parameters
    ----------
    ranked, options
        Contents of keys.csv and distractors.csv.
    """
    wrong = int((ranked["p_wrong_key"] > 0.5).sum())
    drawing = on_axes(
        "wrong_keys",
        partial(draw_wrong_keys, ranked=ranked),
        description=f"Of {plural(len(ranked), 'key')}, {wrong} more likely wrong than right.",
        height=height_of(min(len(ranked), MOST_ROWS)),
    )
    some = f" The {MOST_ROWS} most suspicious of {len(ranked):,} items." if len(ranked) > MOST_ROWS else ""
    blocks = figure([drawing], f"Probability that each key is wrong.{some}")
    by_item = {str(item): rows for item, rows in options.groupby("item_id", sort=False)}
    worst = [item for item in ranked["item_id"].head(MOST_CURVES) if item in by_item]
    panels = [
        on_axes(
            numbered("options", k, len(worst)),
            partial(draw_options, options=by_item[item]),
            description=f"Who chose which option of {item}, by thirds of the score.",
            height=2.8,
        )
        for k, item in enumerate(worst)
    ]
    return blocks + figure(
        panels,
        "Options of the most suspicious items: shares of the lower, middle and upper third of the respondents by "
        "score. The key (thick) should rise and the others fall; an option that rises in its place may be the right "
        "one.",
    )


def measure_of(table: pd.DataFrame) -> str | None:
    """The measure of bias that a table of items has."""
    return next((name for name in MEASURES if name in table and table[name].notna().any()), None)


def draw_bias(ax: Axes, table: pd.DataFrame, *, alpha: float) -> Axes:
    """How far each item differs, those of least p."""
    measure = measure_of(table)
    if measure is None:
        raise InputError("no item could be compared between the groups, so that there is nothing to draw")
    shown = table[table["p"].notna()].sort_values("p", kind="stable").head(MOST_ROWS)
    return draw_item_differences(ax, shown, measure=measure, label=MEASURES[measure], alpha=alpha)


def draw_wrong_keys(ax: Axes, ranked: pd.DataFrame) -> Axes:
    """How probably each key is wrong, of the most suspicious items."""
    shown = ranked.head(MOST_ROWS)
    draw_intervals(
        ax, list(shown["item_id"]), shown["p_wrong_key"], label="probability that the key is wrong",
        found=shown["p_wrong_key"] > 0.5, legend=("more likely wrong than right", "more likely right"), reference=0.0,
    )  # fmt: skip
    ax.set_xlim(-0.02, 1.02)
    return ax


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
    differ = int((table["p_adjusted"] < alpha).sum())
    drawing = on_axes(
        "item_differences",
        partial(draw_bias, table=table, alpha=alpha),
        description=f"{differ} of {plural(len(table), 'item')} differ.",
        height=height_of(min(len(known), MOST_ROWS)),
    )
    bounds = " Dotted lines part the classes A, B and C of ETS." if measure == "delta" else ""
    some = f" The {MOST_ROWS} items of least p of {len(known):,}." if len(known) > MOST_ROWS else ""
    return figure(
        [drawing],
        f"Difference of each item between the groups, filled where its adjusted p is below {alpha:g}.{bounds}{some}",
    )


def effect_figures(
    items: Sequence[str], grouped: GroupedModel, test: DifferentialTestFunctioning, *, apart: bool = False
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
    if apart:
        curves = [
            on_axes(numbered("item_curves", k, len(draws)), draw, description=f"Curves of {item} in each group.")
            for k, (item, draw) in enumerate(zip(items, draws, strict=False))
        ]
    else:
        said = f"Curves of {plural(len(draws), 'item')} in each group."
        curves = [in_panels("item_curves", draws, columns=COLUMNS, width=4.2, height=3.2, description=said)]
    blocks = figure(curves, "Characteristic curves, in each group, of the items that differ, the worst first.")
    whole = on_axes("test_curves", test.plot, description="Expected score along ability in each group.",
                    width=6.4, height=4.4)  # fmt: skip
    return blocks + figure(
        [whole],
        "Expected score on the whole test of equally able members of the groups, with the band of the difference.",
    )


def scree_figures(analysis: ParallelAnalysis) -> list[Block]:
    """Of dimensions: the scree plot."""
    drawing = on_axes(
        "scree",
        lambda ax: draw_scree(ax, analysis),
        description=f"The first {analysis.n_abilities} eigenvalues lie above the limit of chance.",
        width=6.4,
        height=4.4,
    )
    return figure(
        [drawing],
        "Eigenvalues of the items’ tetrachoric correlations in order: those that speak for an ability filled, the "
        "limit of what independent items show by chance dashed.",
    )


def difficulty_figures(found: ExplainedDifficulty) -> list[Block]:
    """Of explained difficulty: each item's difficulty against its prediction, and the effects of the features."""
    drawing = on_axes(
        "predicted_difficulty",
        found.plot,
        description=f"Difficulty of {plural(len(found.item_ids), 'item')} against its prediction.",
        width=6.4,
        height=4.4,
    )
    return figure(
        [drawing],
        "Difficulty of each item, with its standard error, against the prediction from its features by a fit without "
        "it; the bars along the dashed line are the intervals of the predictions.",
    ) + _effects(found)


def horizon_figures(found: TimeHorizon) -> list[Block]:
    """Of time horizons: each system's, with intervals."""
    n = min(len(found.respondent_ids), MOST_HORIZONS)
    drawing = on_axes(
        "time_horizon", found.plot, description=f"Horizons of {plural(n, 'system')}.",
        height=height_of(n, each=len(found.shares)),
    )  # fmt: skip
    return figure(
        [drawing], "Length of the tasks that each system solves so often, with its interval; lengths of the tasks grey."
    )


def _effects(found: ExplainedDifficulty) -> list[Block]:
    table = found.table()
    table = table[~table["term"].str.contains("intercept", case=False)]
    if table.empty:
        return []
    drawing = on_axes(
        "effects",
        lambda ax: draw_intervals(
            ax, list(table["term"]), table["effect"], table["lower"], table["upper"], label="effect on difficulty b",
            reference=0.0,
        ),
        description=f"Effects of {plural(len(table), 'feature')} on difficulty.",
        height=height_of(len(table)),
    )  # fmt: skip
    return figure([drawing], "Effect of each feature on difficulty, with its interval.")
