"""The figure of a result, for ``result.plot()``: which drawing it is, on which axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from irtbench.report.check_figures import (
    draw_bias,
    draw_dependence,
    draw_expected_scores,
    draw_fit,
    draw_horizons,
    draw_person_fit,
    draw_predictions,
    draw_scree,
    draw_wrong_keys,
)
from irtbench.report.crowd_figures import draw_agreement, draw_item_agreement, draw_reasons, draw_severities
from irtbench.report.evaluation_figures import (
    draw_baselines,
    draw_crowd_filter,
    draw_differences,
    draw_event_counts,
    draw_human_accuracy,
    draw_reliability,
    draw_shares,
)
from irtbench.report.forms import STYLE, Series, found_or_not, interval_plot
from irtbench.report.scale_figures import (
    draw_curves,
    draw_drift,
    draw_expected_errors,
    draw_information,
    draw_norm_sample,
    draw_positions,
    draw_precision,
    draw_sum_scores,
    draw_wright_map,
)
from irtbench.report.scoring_figures import draw_paths, draw_predicted

ALPHA = 0.05  # adjusted p below which a finding is filled
MOST_POSITIONS = 40  # respondents of whom each has a row; of more there is a histogram


def _draw_abilities(result: Any, ax: Axes) -> Axes:
    known = np.isfinite(result.theta)
    if result.theta.size > MOST_POSITIONS:
        return draw_norm_sample(ax, result.theta[known])
    return draw_positions(ax, result.table()[known])


def _draw_item_fit(result: Any, ax: Axes) -> Axes:
    table = result.table().sort_values("rmsea", ascending=False, kind="stable").head(MOST_POSITIONS)
    words = f"adjusted p < {ALPHA:g}", f"adjusted p ≥ {ALPHA:g}"
    parts = found_or_not(Series("", table["rmsea"]), table["p_adjusted"] < ALPHA, words)
    return interval_plot(ax, list(table["item_id"]), parts, label="RMSEA of the item", reference=0.0)


def _draw_comparison(result: Any, ax: Axes) -> Axes:
    table = result.table()
    names = [f"{first} - {second}" for first, second in zip(table["first"], table["second"], strict=True)]
    return draw_differences(ax, table, names=names, label="difference of the means")


#: The drawing of each type of result, by its name: a figure loads no module of a result that is not there.
DRAWINGS: Mapping[str, Callable[[Any, Axes], Axes]] = {
    "ItemParameters": lambda result, ax: draw_curves(ax, result),
    "Scale": lambda result, ax: draw_curves(ax, result.items),
    "ItemBank": lambda result, ax: draw_information(ax, {scale.name: scale.items for scale in result.scales}),
    "ItemMap": lambda result, ax: draw_wright_map(ax, result),
    "SumScoreTable": lambda result, ax: draw_sum_scores(ax, result),
    "MeasurementPrecision": lambda result, ax: draw_precision(ax, result),
    "Norms": lambda result, ax: draw_norm_sample(ax, result.theta),
    "EmpiricalCurve": lambda result, ax: draw_fit(ax, result),
    "ParallelAnalysis": lambda result, ax: draw_scree(ax, result),
    "DifferentialTestFunctioning": lambda result, ax: draw_expected_scores(ax, result),
    "ExplainedDifficulty": lambda result, ax: draw_predictions(ax, result),
    "TimeHorizon": lambda result, ax: draw_horizons(ax, result),
    "Abilities": _draw_abilities,
    "ItemFit": _draw_item_fit,
    "PersonFit": lambda result, ax: draw_person_fit(ax, result.lz_star),
    "LocalDependence": lambda result, ax: draw_dependence(ax, result.table()),
    "AbilityComparison": lambda result, ax: draw_positions(
        ax, result.ranking(result.pairs()["theta_p"].to_numpy()).head(MOST_POSITIONS)
    ),
    "Calibration": lambda result, ax: draw_reliability(ax, {"": result.curve}),
    "ReliabilityCurve": lambda result, ax: draw_reliability(ax, {"": result}),
    "Artifacts": lambda result, ax: draw_baselines(ax, result),
    "CrowdFilter": lambda result, ax: draw_crowd_filter(ax, result),
    "HumanAccuracy": lambda result, ax: draw_human_accuracy(ax, {f"{result.n_items} items": result}),
    "SystemComparison": _draw_comparison,
    "SwitchProtocol": lambda result, ax: draw_shares(
        ax, result.table(), rows="measure", share="share", label="share of items"
    ),
    "EventCounts": lambda result, ax: draw_event_counts(ax, result.table()),
    "ItemDifferences": lambda result, ax: draw_bias(ax, result.table(), alpha=ALPHA),
    "WrongKeys": lambda result, ax: draw_wrong_keys(
        ax, result.table().sort_values("p_wrong_key", ascending=False, kind="stable")
    ),
    "AdaptivePaths": lambda result, ax: draw_paths(ax, result),
    "PredictedAccuracy": lambda result, ax: draw_predicted(ax, result.table()),
    "Screening": lambda result, ax: draw_reasons(
        ax, {"kept": int(result.kept.sum())} | Counter(why for why in result.reason if why)
    ),
    "Agreement": lambda result, ax: draw_agreement(ax, {f"{result.n_items} items": result}),
    "ItemAgreement": lambda result, ax: draw_item_agreement(ax, result.table()),
    "FittedRaters": lambda result, ax: draw_severities(ax, result.table()),
    "CrowdPlan": lambda result, ax: draw_expected_errors(ax, result),
    "Drift": lambda result, ax: draw_drift(ax, result.table()),
}


def figure_of(result: object, ax: Axes | None = None) -> Axes:
    """Draw a result on the axes given, or on new ones of pyplot in the style of irtbench's figures.

    Raises
    ------
    TypeError
        If there is no figure of such a result.
    """
    if ax is not None:
        return draw(result, ax)
    import matplotlib.pyplot as plt  # chooses a backend, which who gives axes has chosen

    with in_style():
        return draw(result, plt.subplots(layout="constrained")[1])


@contextmanager
def in_style() -> Iterator[None]:
    """Settings of irtbench's figures for a while, and no others.

    A context of matplotlib's own puts all settings back, and so takes back what a notebook sets with its first figure.
    """
    before = {name: matplotlib.rcParams[name] for name in STYLE}
    matplotlib.rcParams.update(STYLE)
    try:
        yield
    finally:
        matplotlib.rcParams.update(before)


def draw(result: object, ax: Axes) -> Axes:
    """Draw a result on the axes, by its type or one that it is made from."""
    kind = next((kind.__name__ for kind in type(result).__mro__ if kind.__name__ in DRAWINGS), None)
    if kind is None:
        raise TypeError(f"there is no figure of {type(result).__name__}")
    return DRAWINGS[kind](result, ax)
