"""The figures of a study's page: what each panel shows, and which drawing of `plots` and its neighbours it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from irtbench.analysis.dimensions import Dimensions
from irtbench.bank.item_map import ItemMap, item_map
from irtbench.bank.norms import Norms
from irtbench.bank.scale import Scale
from irtbench.building.pruning import answered
from irtbench.data.items import ItemTable
from irtbench.diagnostics.empirical_curve import empirical_curve
from irtbench.report import plots
from irtbench.report.ability_words import unit_of_ability
from irtbench.report.drawing import HEIGHT, WIDTH, Drawing, on_axes
from irtbench.report.formatting import count, decimal, interval, p_value, plural
from irtbench.report.item_map_plots import draw_sum_scores, draw_wright_map
from irtbench.report.paper_tables import fit_extremes, item_status_table, remaining_parameters, removed_parameters
from irtbench.report.scree_plot import draw_scree
from irtbench.scoring.ability import eap
from irtbench.scoring.sum_score_table import MOST_ITEMS, SumScoreTable, sum_score_table
from irtbench.study.results import ScaleStudy

MAP_HEIGHT = 5.2
MOST_POSITIONS = 20  # systems in one panel
ROW = 0.28  # height of a system's row


def numbered(name: str, place: int, n: int) -> str:
    """The name of a drawing that stands at a place (from 0 on) among n alike.

    Examples
    --------
    >>> numbered("curves", 0, 1), numbered("curves", 0, 3)
    ('curves', 'curves_1')
    """
    return name if n == 1 else f"{name}_{place + 1}"


def example_panels() -> list[Drawing]:
    """How to read an item characteristic curve."""
    description = "An S-shaped curve that rises from 0.25 through 0.625 at ability 0 towards 1."
    return [on_axes("example_curve", plots.draw_curve_example, description=description)]


def scree_panels(dimensions: Dimensions | None) -> list[Drawing]:
    """Eigenvalues of all items; none where abilities were not counted."""
    if dimensions is None:
        return []
    analysis = dimensions.analysis
    description = f"Eigenvalues in descending order; the first {analysis.n_abilities} lie above the limit of chance."
    return [on_axes("scree", lambda ax: draw_scree(ax, analysis), description=description)]


def fit_panels(scales: Sequence[ScaleStudy]) -> list[Drawing]:
    """Estimated against actual curves of the worst and the best fitting item in the first fits."""
    by_name = {scale.name: scale for scale in scales}
    unit = unit_of_ability(scales)
    return [_fit_panel(by_name[row["scale"]], row, str(which), unit) for which, row in fit_extremes(scales).iterrows()]


def _fit_panel(scale: ScaleStudy, row: pd.Series, which: str, unit: str) -> Drawing:
    fitted = scale.pruning.rounds[0].fitted
    data = answered(scale.responses.select_items(fitted.items.item_ids))
    theta = eap(data, fitted.items, quadrature=fitted.quadrature).theta
    curve = empirical_curve(data, fitted.items, row["item_id"], theta)
    heading = (
        f"{which.capitalize()} fit: {row['item_id']} ({scale.name}), S-X² {decimal(row['s_x2'])}, df {row['df']}, "
        f"p {p_value(row['p'])}, adjusted {p_value(row['p_adjusted'])}"
    )
    description = f"Estimated and actual curve of item {row['item_id']} of {scale.name}."
    return on_axes(
        f"{which}_fit", lambda ax: plots.draw_fit(ax, curve), heading=heading, description=description, unit=unit
    )


def curve_panels(scales: Sequence[ScaleStudy]) -> list[Drawing]:
    """Item characteristic curves of each scale on which anything was fitted."""
    unit = unit_of_ability(scales)
    fitted = [scale for scale in scales if scale.pruning.rounds]
    return [_curve_panel(numbered("curves", k, len(fitted)), scale, unit) for k, scale in enumerate(fitted)]


def _curve_panel(file: str, scale: ScaleStudy, unit: str) -> Drawing:
    remaining, removed = remaining_parameters(scale.pruning), removed_parameters(scale.pruning)
    kept, others, word = remaining, removed, "removed"
    if scale.pruning.rejected is not None:
        kept, others, word = remaining.select([]), (*removed, remaining), "scale rejected"
    description = f"Item characteristic curves of {scale.name}: {plural(kept.n_items, 'item')} kept."
    return on_axes(
        file, lambda ax: plots.draw_curves(ax, kept, others, others_are=word), heading=scale.name,
        description=description, unit=unit,
    )  # fmt: skip


def parameter_panels(scales: Sequence[ScaleStudy], items: ItemTable) -> list[Drawing]:
    """Discrimination against difficulty of each scale on which anything was fitted."""
    status = item_status_table(scales, items)
    fitted = [scale.name for scale in scales if scale.pruning.rounds]
    return [
        _parameter_panel(numbered("parameters", k, len(fitted)), name, status[status["scale"] == name], status)
        for k, name in enumerate(fitted)
    ]


def _parameter_panel(file: str, name: str, status: pd.DataFrame, all_status: pd.DataFrame) -> Drawing:
    return on_axes(
        file,
        lambda ax: plots.draw_parameters(ax, status, axes_for=all_status),
        heading=name,
        description=f"Difficulty and discrimination of the items of {name}.",
    )


def information_panels(scales: Sequence[ScaleStudy]) -> list[Drawing]:
    """Test information of all scales retained, in one panel; none if no scale is."""
    retained = {scale.name: scale.scale.items for scale in scales if scale.scale is not None}
    if not retained:
        return []
    description = f"Test information of {', '.join(retained)} along ability."
    height = HEIGHT + 0.2 * (len(retained) // 2)
    return [
        on_axes(
            "test_information",
            lambda ax: plots.draw_information(ax, retained),
            description=description,
            height=height,
            unit=unit_of_ability(scales),
        )
    ]


def map_panels(scales: Sequence[Scale]) -> list[Drawing]:
    """Wright map of each scale."""
    return [_map_panel(numbered("wright_map", k, len(scales)), item_map(scale)) for k, scale in enumerate(scales)]


def _map_panel(file: str, found: ItemMap) -> Drawing:
    scale = found.scale
    return on_axes(
        file,
        lambda ax: draw_wright_map(ax, found),
        heading=scale.name,
        description=f"Wright map of {scale.name}: people and {plural(scale.items.n_items, 'item')} on one scale.",
        height=MAP_HEIGHT,
    )


def raw_score_panels(scales: Sequence[Scale]) -> list[Drawing]:
    """Ability by raw score of each scale that is short enough for a table of it."""
    short = [scale for scale in scales if scale.items.n_items <= MOST_ITEMS]
    return [
        _raw_score_panel(numbered("raw_scores", k, len(short)), scale.name, sum_score_table(scale))
        for k, scale in enumerate(short)
    ]


def _raw_score_panel(file: str, name: str, found: SumScoreTable) -> Drawing:
    theta = found.abilities.theta
    description = f"Ability on {name} rises from {decimal(theta[0])} with none right to {decimal(theta[-1])} with all."
    return on_axes(file, lambda ax: draw_sum_scores(ax, found), heading=name, description=description)


def position_panels(scales: Sequence[Scale], system_scores: pd.DataFrame | None, unit: str) -> list[Drawing]:
    """Abilities of the norm sample of each scale that has one, with the systems below, ``MOST_POSITIONS`` at most."""
    scores = pd.DataFrame({"scale": [], "theta": []}) if system_scores is None else system_scores
    scores = scores[scores["theta"].notna()]
    shown = [scale for scale in scales if scale.norms is not None]
    return [
        _position_panel(
            numbered("positions", k, len(shown)), scale.name, scale.norms,
            some_systems(scores[scores["scale"] == scale.name]), unit,
        )
        for k, scale in enumerate(shown)
        if scale.norms is not None
    ]  # fmt: skip


def some_systems(scores: pd.DataFrame) -> pd.DataFrame:
    """The systems on a scale, or where they are many, ``MOST_POSITIONS`` at even ranks, the most able first."""
    if len(scores) <= MOST_POSITIONS:
        return scores
    ordered = scores.sort_values("theta", ascending=False, kind="stable")
    return ordered.iloc[np.linspace(0, len(scores) - 1, MOST_POSITIONS).round().astype(int)]


def _position_panel(file: str, name: str, norms: Norms, systems: pd.DataFrame, unit: str) -> Drawing:
    description = f"Abilities of {count(norms.n)} respondents on {name}." + "".join(
        f" {row['respondent_id']}: {decimal(row['theta'])}, {interval(row['theta_lower'], row['theta_upper'])}."
        for row in systems.to_dict("records")
    )
    if systems.empty:
        return on_axes(
            file, lambda ax: plots.draw_norm_sample(ax, norms.theta), heading=name, description=description, unit=unit
        )
    height = 0.5 + ROW * (len(systems) + 1)

    def draw(figure: Figure) -> None:
        above, below = figure.subplots(2, sharex=True, height_ratios=[HEIGHT - 1, height])
        plots.draw_norm_sample(above, norms.theta)
        plots.draw_positions(below, systems)
        above.set_xlabel("")

    return Drawing(file, name, description, draw, WIDTH, HEIGHT - 1 + height, unit)
