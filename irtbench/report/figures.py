"""The figures of a study's page: what each panel shows, and which drawing of `plots` and its neighbours it is."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from irtbench.analysis.dimensions import Dimensions
from irtbench.data.items import ItemTable
from irtbench.diagnostics.empirical_curve import empirical_curve
from irtbench.report import plots
from irtbench.report.ability_words import unit_of_ability
from irtbench.report.analysis_plots import draw_scree
from irtbench.report.drawing import HEIGHT, Drawing, on_axes
from irtbench.report.formatting import decimal, p_value, plural
from irtbench.report.paper_tables import fit_extremes, item_status_table, remaining_parameters, removed_parameters
from irtbench.report.scale_figures import numbered
from irtbench.scoring.ability import eap
from irtbench.study.results import ScaleStudy


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
    data = scale.responses.select_items(fitted.items.item_ids).answered()
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
    remaining, removed = remaining_parameters(scale), removed_parameters(scale.pruning)
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
