"""The figure of a result, for ``result.plot()``: which drawing it is, on which axes; the drawings stand in `plots` and
its neighbours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import singledispatch
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from irtbench.analysis.bias_of_test import DifferentialTestFunctioning
from irtbench.analysis.explained_difficulty import ExplainedDifficulty
from irtbench.analysis.horizons import TimeHorizon
from irtbench.analysis.item_differences import ItemDifferences
from irtbench.analysis.parallel_analysis import ParallelAnalysis
from irtbench.analysis.wrong_keys import WrongKeys
from irtbench.bank.bank import ItemBank
from irtbench.bank.item_map import ItemMap
from irtbench.bank.norms import Norms
from irtbench.bank.scale import Scale
from irtbench.data.screening import Screening
from irtbench.diagnostics.empirical_curve import EmpiricalCurve
from irtbench.diagnostics.item_fit import ItemFit
from irtbench.diagnostics.local_dependence import LocalDependence
from irtbench.diagnostics.measurement_precision import MeasurementPrecision
from irtbench.diagnostics.person_fit import PersonFit
from irtbench.estimation.raters.fitted_raters import FittedRaters
from irtbench.evaluation.agreement import Agreement
from irtbench.evaluation.agreement_tables import ItemAgreement
from irtbench.evaluation.artifacts import Artifacts
from irtbench.evaluation.calibration import Calibration
from irtbench.evaluation.consistency import SwitchProtocol
from irtbench.evaluation.event_counts import EventCounts
from irtbench.evaluation.human_bound import CrowdFilter, HumanAccuracy
from irtbench.evaluation.reliability import ReliabilityCurve
from irtbench.evaluation.system_comparison import SystemComparison
from irtbench.models.item_parameters import ItemParameters
from irtbench.report.analysis_plots import draw_drift, draw_expected_scores, draw_horizons, draw_predictions, draw_scree
from irtbench.report.check_figures import draw_bias, draw_wrong_keys
from irtbench.report.crowd_plots import draw_agreement, draw_expected_errors, draw_item_agreement, draw_reasons
from irtbench.report.diagnosis_plots import draw_dependence, draw_person_fit
from irtbench.report.evaluation_plots import (
    draw_baselines,
    draw_crowd_filter,
    draw_differences,
    draw_event_counts,
    draw_human_accuracy,
    draw_reliability,
    draw_shares,
)
from irtbench.report.interval_plots import draw_intervals
from irtbench.report.item_map_plots import draw_precision, draw_sum_scores, draw_wright_map
from irtbench.report.plots import STYLE, draw_curves, draw_fit, draw_information, draw_norm_sample, draw_positions
from irtbench.report.rater_figures import draw_severities
from irtbench.report.scoring_figures import draw_paths, draw_predicted
from irtbench.scoring.ability import Abilities
from irtbench.scoring.ability_comparison import AbilityComparison
from irtbench.scoring.adaptive_paths import AdaptivePaths
from irtbench.scoring.prediction import PredictedAccuracy
from irtbench.scoring.sum_score_table import SumScoreTable

ALPHA = 0.05  # adjusted p below which a finding is filled
MOST_POSITIONS = 40  # respondents of whom each has a row; of more there is a histogram

#: Drawings of results whose modules load torch, by the names of their types.
BESIDE_TORCH: Mapping[str, Callable[[Any, Axes], Axes]] = {
    "CrowdPlan": lambda plan, ax: draw_expected_errors(ax, plan),
    "Drift": lambda drift, ax: draw_drift(ax, drift.table()),
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


@singledispatch
def draw(result: object, ax: Axes) -> Axes:
    """Draw a result on the axes, by its type."""
    name = type(result).__name__
    if name not in BESIDE_TORCH:
        raise TypeError(f"there is no figure of {name}")
    return BESIDE_TORCH[name](result, ax)


@draw.register
def _(result: ItemParameters, ax: Axes) -> Axes:
    return draw_curves(ax, result, [], others_are="")


@draw.register
def _(result: Scale, ax: Axes) -> Axes:
    return draw_curves(ax, result.items, [], others_are="")


@draw.register
def _(result: ItemBank, ax: Axes) -> Axes:
    return draw_information(ax, {scale.name: scale.items for scale in result.scales})


@draw.register
def _(result: ItemMap, ax: Axes) -> Axes:
    return draw_wright_map(ax, result)


@draw.register
def _(result: SumScoreTable, ax: Axes) -> Axes:
    return draw_sum_scores(ax, result)


@draw.register
def _(result: MeasurementPrecision, ax: Axes) -> Axes:
    return draw_precision(ax, result)


@draw.register
def _(result: Norms, ax: Axes) -> Axes:
    return draw_norm_sample(ax, result.theta)


@draw.register
def _(result: EmpiricalCurve, ax: Axes) -> Axes:
    return draw_fit(ax, result)


@draw.register
def _(result: ParallelAnalysis, ax: Axes) -> Axes:
    return draw_scree(ax, result)


@draw.register
def _(result: DifferentialTestFunctioning, ax: Axes) -> Axes:
    return draw_expected_scores(ax, result)


@draw.register
def _(result: ExplainedDifficulty, ax: Axes) -> Axes:
    return draw_predictions(ax, result)


@draw.register
def _(result: TimeHorizon, ax: Axes) -> Axes:
    return draw_horizons(ax, result)


@draw.register
def _(result: Abilities, ax: Axes) -> Axes:
    known = np.isfinite(result.theta)
    if result.theta.size > MOST_POSITIONS:
        return draw_norm_sample(ax, result.theta[known])
    return draw_positions(ax, result.table()[known])


@draw.register
def _(result: ItemFit, ax: Axes) -> Axes:
    table = result.table().sort_values("rmsea", ascending=False, kind="stable").head(MOST_POSITIONS)
    return draw_intervals(
        ax, list(table["item_id"]), table["rmsea"], label="RMSEA of the item", found=table["p_adjusted"] < ALPHA,
        legend=(f"adjusted p < {ALPHA:g}", f"adjusted p ≥ {ALPHA:g}"), reference=0.0,
    )  # fmt: skip


@draw.register
def _(result: PersonFit, ax: Axes) -> Axes:
    return draw_person_fit(ax, result.lz_star)


@draw.register
def _(result: LocalDependence, ax: Axes) -> Axes:
    return draw_dependence(ax, result.table())


@draw.register
def _(result: AbilityComparison, ax: Axes) -> Axes:
    return draw_positions(ax, result.ranking(result.pairs()["theta_p"].to_numpy()).head(MOST_POSITIONS))


@draw.register
def _(result: Calibration, ax: Axes) -> Axes:
    return draw_reliability(ax, {"": result.curve})


@draw.register
def _(result: ReliabilityCurve, ax: Axes) -> Axes:
    return draw_reliability(ax, {"": result})


@draw.register
def _(result: Artifacts, ax: Axes) -> Axes:
    return draw_baselines(ax, result)


@draw.register
def _(result: CrowdFilter, ax: Axes) -> Axes:
    return draw_crowd_filter(ax, result)


@draw.register
def _(result: HumanAccuracy, ax: Axes) -> Axes:
    return draw_human_accuracy(ax, {f"{result.n_items} items": result})


@draw.register
def _(result: SystemComparison, ax: Axes) -> Axes:
    table = result.table()
    names = [f"{first} - {second}" for first, second in zip(table["first"], table["second"], strict=True)]
    return draw_differences(ax, table, names=names, label="difference of the means")


@draw.register
def _(result: SwitchProtocol, ax: Axes) -> Axes:
    return draw_shares(ax, result.table(), rows="measure", share="share", label="share of items")


@draw.register
def _(result: EventCounts, ax: Axes) -> Axes:
    return draw_event_counts(ax, result.table())


@draw.register
def _(result: ItemDifferences, ax: Axes) -> Axes:
    return draw_bias(ax, result.table(), alpha=ALPHA)


@draw.register
def _(result: WrongKeys, ax: Axes) -> Axes:
    return draw_wrong_keys(ax, result.table().sort_values("p_wrong_key", ascending=False, kind="stable"))


@draw.register
def _(result: AdaptivePaths, ax: Axes) -> Axes:
    return draw_paths(ax, result)


@draw.register
def _(result: PredictedAccuracy, ax: Axes) -> Axes:
    return draw_predicted(ax, result.table())


@draw.register
def _(result: Screening, ax: Axes) -> Axes:
    return draw_reasons(ax, {"kept": int(result.kept.sum())} | Counter(why for why in result.reason if why))


@draw.register
def _(result: Agreement, ax: Axes) -> Axes:
    return draw_agreement(ax, {f"{result.n_items} items": result})


@draw.register
def _(result: ItemAgreement, ax: Axes) -> Axes:
    return draw_item_agreement(ax, result.table())


@draw.register
def _(result: FittedRaters, ax: Axes) -> Axes:
    return draw_severities(ax, result.table())
