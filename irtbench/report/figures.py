"""The figures of the page: panels drawn by `plots`, each written as an SVG image that needs no other file."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from irtbench.analysis.dimensions import Dimensions
from irtbench.bank.item_map import ItemMap, item_map
from irtbench.bank.norms import Norms
from irtbench.building.pruning import answered
from irtbench.data.items import ItemTable
from irtbench.diagnostics.empirical_curve import empirical_curve
from irtbench.report import plots
from irtbench.report.ability_words import unit_of_ability
from irtbench.report.figure_file import svg_of
from irtbench.report.formatting import count, decimal, interval, p_value, plural
from irtbench.report.item_map_plots import draw_sum_scores, draw_wright_map
from irtbench.report.paper_tables import fit_extremes, item_status_table, remaining_parameters, removed_parameters
from irtbench.report.scree_plot import draw_scree
from irtbench.scoring.ability import eap
from irtbench.scoring.sum_score_table import MOST_ITEMS, SumScoreTable, sum_score_table
from irtbench.study.results import ScaleStudy

WIDTH, HEIGHT = 5.2, 3.5  # of a panel, in inches: two fit beside each other on a page, one on a telephone
MAP_HEIGHT = 5.2
MOST_POSITIONS = 20  # systems in one panel
ROW = 0.28  # height of a system's row


@dataclass(frozen=True)
class Panel:
    """One image with its heading and, for those who do not see it, what it shows."""

    heading: str
    description: str
    image: str


def draw_panel(
    heading: str, description: str, draw: Callable[[Figure], object], *, height: float = HEIGHT, unit: str = ""
) -> Panel:
    """Let ``draw`` fill a figure and write it as a data URI; the same drawing gives the same text every time.

    ``unit`` is named on axes of ability.
    """
    # the default style, not what a user's own matplotlibrc says
    with matplotlib.style.context(["default", plots.STYLE]), warnings.catch_warnings():
        # text stays text in the image: the reader's browser has letters that our font lacks
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        draw(figure)
        if unit:
            plots.name_unit(figure, unit)
        image = base64.b64encode(svg_of(figure).encode()).decode("ascii")
    return Panel(heading, description, f"data:image/svg+xml;base64,{image}")


def example_panels() -> list[Panel]:
    """How to read an item characteristic curve."""
    description = "An S-shaped curve that rises from 0.25 through 0.625 at ability 0 towards 1."
    return [draw_panel("", description, lambda figure: plots.draw_curve_example(figure.subplots()))]


def scree_panels(dimensions: Dimensions | None) -> list[Panel]:
    """Eigenvalues of all items; none where abilities were not counted."""
    if dimensions is None:
        return []
    analysis = dimensions.analysis
    description = f"Eigenvalues in descending order; the first {analysis.n_abilities} lie above the limit of chance."
    return [draw_panel("", description, lambda figure: draw_scree(figure.subplots(), analysis))]


def fit_panels(scales: Sequence[ScaleStudy]) -> list[Panel]:
    """Estimated against actual curves of the worst and the best fitting item in the first fits."""
    by_name = {scale.name: scale for scale in scales}
    unit = unit_of_ability(scales)
    return [_fit_panel(by_name[row["scale"]], row, str(which), unit) for which, row in fit_extremes(scales).iterrows()]


def _fit_panel(scale: ScaleStudy, row: pd.Series, which: str, unit: str) -> Panel:
    fitted = scale.pruning.rounds[0].fitted
    data = answered(scale.responses.select_items(fitted.items.item_ids))
    theta = eap(data, fitted.items, quadrature=fitted.quadrature).theta
    curve = empirical_curve(data, fitted.items, row["item_id"], theta)
    heading = (
        f"{which.capitalize()} fit: {row['item_id']} ({scale.name}), S-X² {decimal(row['s_x2'])}, df {row['df']}, "
        f"p {p_value(row['p'])}, adjusted {p_value(row['p_adjusted'])}"
    )
    description = f"Estimated and actual curve of item {row['item_id']} of {scale.name}."
    return draw_panel(heading, description, lambda figure: plots.draw_fit(figure.subplots(), curve), unit=unit)


def curve_panels(scales: Sequence[ScaleStudy]) -> list[Panel]:
    """Item characteristic curves of each scale on which anything was fitted."""
    unit = unit_of_ability(scales)
    return [_curve_panel(scale, unit) for scale in scales if scale.pruning.rounds]


def _curve_panel(scale: ScaleStudy, unit: str) -> Panel:
    remaining, removed = remaining_parameters(scale.pruning), removed_parameters(scale.pruning)
    kept, others, word = remaining, removed, "removed"
    if scale.pruning.rejected is not None:
        kept, others, word = remaining.select([]), (*removed, remaining), "scale rejected"
    description = f"Item characteristic curves of {scale.name}: {plural(kept.n_items, 'item')} kept."
    return draw_panel(
        scale.name, description,
        lambda figure: plots.draw_curves(figure.subplots(), kept, others, others_are=word), unit=unit,
    )  # fmt: skip


def parameter_panels(scales: Sequence[ScaleStudy], items: ItemTable) -> list[Panel]:
    """Discrimination against difficulty of each scale on which anything was fitted."""
    status = item_status_table(scales, items)
    return [
        _parameter_panel(scale.name, status[status["scale"] == scale.name], status)
        for scale in scales
        if scale.pruning.rounds
    ]


def _parameter_panel(name: str, status: pd.DataFrame, all_status: pd.DataFrame) -> Panel:
    return draw_panel(
        name,
        f"Difficulty and discrimination of the items of {name}.",
        lambda figure: plots.draw_parameters(figure.subplots(), status, axes_for=all_status),
    )


def information_panels(scales: Sequence[ScaleStudy]) -> list[Panel]:
    """Test information of all scales retained, in one panel; none if no scale is."""
    retained = {scale.name: scale.scale.items for scale in scales if scale.scale is not None}
    if not retained:
        return []
    description = f"Test information of {', '.join(retained)} along ability."
    height = HEIGHT + 0.2 * (len(retained) // 2)
    return [
        draw_panel(
            "",
            description,
            lambda figure: plots.draw_information(figure.subplots(), retained),
            height=height,
            unit=unit_of_ability(scales),
        )
    ]


def map_panels(scales: Sequence[ScaleStudy]) -> list[Panel]:
    """Wright map of each scale retained."""
    return [_map_panel(item_map(scale.scale)) for scale in scales if scale.scale is not None]


def _map_panel(found: ItemMap) -> Panel:
    scale = found.scale
    description = f"Wright map of {scale.name}: people and {plural(scale.items.n_items, 'item')} on one scale."
    return draw_panel(
        scale.name, description, lambda figure: draw_wright_map(figure.subplots(), found), height=MAP_HEIGHT
    )


def raw_score_panels(scales: Sequence[ScaleStudy]) -> list[Panel]:
    """Ability by raw score of each scale retained that is short enough for a table of it."""
    return [
        _raw_score_panel(scale.name, sum_score_table(scale.scale))
        for scale in scales
        if scale.scale is not None and scale.scale.items.n_items <= MOST_ITEMS
    ]


def _raw_score_panel(name: str, found: SumScoreTable) -> Panel:
    theta = found.abilities.theta
    description = f"Ability on {name} rises from {decimal(theta[0])} with none right to {decimal(theta[-1])} with all."
    return draw_panel(name, description, lambda figure: draw_sum_scores(figure.subplots(), found))


def position_panels(scales: Sequence[ScaleStudy], system_scores: pd.DataFrame | None) -> list[Panel]:
    """Abilities of the norm sample of each scale retained, with the systems below, ``MOST_POSITIONS`` at most."""
    scores = pd.DataFrame({"scale": [], "theta": []}) if system_scores is None else system_scores
    scores = scores[scores["theta"].notna()]
    unit = unit_of_ability(scales)
    return [
        _position_panel(scale.name, scale.scale.norms, some_systems(scores[scores["scale"] == scale.name]), unit)
        for scale in scales
        if scale.scale is not None and scale.scale.norms is not None
    ]


def some_systems(scores: pd.DataFrame) -> pd.DataFrame:
    """The systems on a scale, or where they are many, ``MOST_POSITIONS`` at even ranks, the most able first."""
    if len(scores) <= MOST_POSITIONS:
        return scores
    ordered = scores.sort_values("theta", ascending=False, kind="stable")
    return ordered.iloc[np.linspace(0, len(scores) - 1, MOST_POSITIONS).round().astype(int)]


def _position_panel(name: str, norms: Norms, systems: pd.DataFrame, unit: str) -> Panel:
    description = f"Abilities of {count(norms.n)} respondents on {name}." + "".join(
        f" {row['respondent_id']}: {decimal(row['theta'])}, {interval(row['theta_lower'], row['theta_upper'])}."
        for row in systems.to_dict("records")
    )
    if systems.empty:
        return draw_panel(
            name, description, lambda figure: plots.draw_norm_sample(figure.subplots(), norms.theta), unit=unit
        )
    height = 0.5 + ROW * (len(systems) + 1)

    def draw(figure: Figure) -> None:
        above, below = figure.subplots(2, sharex=True, height_ratios=[HEIGHT - 1, height])
        plots.draw_norm_sample(above, norms.theta)
        plots.draw_positions(below, systems)
        above.set_xlabel("")

    return draw_panel(name, description, draw, height=HEIGHT - 1 + height, unit=unit)
