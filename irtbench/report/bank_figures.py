"""Figures of commands that make or read a bank, with their captions: fit, items, assemble, link, extend, plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from irtbench.bank.item_map import ItemMap
from irtbench.bank.scale import Scale
from irtbench.models.item_parameters import ItemParameters
from irtbench.report import plots, scale_figures
from irtbench.report.analysis_plots import draw_drift
from irtbench.report.blocks import Block, figure
from irtbench.report.crowd_plots import draw_expected_errors
from irtbench.report.diagnosis_plots import draw_loadings
from irtbench.report.drawing import Drawing, on_axes
from irtbench.report.formatting import plural
from irtbench.report.scale_figures import numbered

if TYPE_CHECKING:
    from irtbench.analysis.crowd_plan import CrowdPlan
    from irtbench.building.assembly import AssembledForms

MAP = (
    "Wright map: people to the left, items at their difficulty to the right. Where there are people and no items, the "
    "scale tells little."
)
INFORMATION = (
    "Test information along ability; on the right the standard error of ability that it stands for. The scale is most "
    "exact where the curve is high."
)
FILE_WIDTH, FILE_HEIGHT, MAP_HEIGHT = 6.4, 4.4, 6.4


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
    blocks = figure(
        [
            on_axes(
                "curves",
                lambda ax: plots.draw_curves(ax, kept, [], others_are=""),
                description=f"Item characteristic curves of {plural(kept.n_items, 'item')}.",
            )
        ],
        "Item characteristic curves: the probability of a correct response along ability. Steep ones tell people "
        "apart; where a curve starts is the chance to guess."
        if kept.categories is None
        else "Expected share of each item's score along ability. Steep curves tell people apart.",
    )
    blocks += figure([_information({"": kept})], INFORMATION)
    blocks += figure(scale_figures.map_panels([scale]), MAP)
    blocks += figure(
        scale_figures.position_panels([scale], None, ""),
        "Estimated abilities of the respondents, who are the norm sample.",
    )
    return blocks


def loading_figures(items: pd.DataFrame) -> list[Block]:
    """Loadings, or slopes where there are no loadings, of items on several abilities."""
    columns = [str(name) for name in items if str(name).startswith("loading_")]
    columns = columns or [str(name) for name in items if str(name).startswith("slope_")]
    if not columns:
        columns = [name for name in ("general_slope", "specific_slope", "discrimination") if name in items]
    drawing = on_axes(
        "loadings",
        lambda ax: draw_loadings(ax, items, columns),
        description=f"Loadings of {plural(len(items), 'item')} in {plural(len(columns), 'column')}.",
        height=min(12.0, 1.6 + 0.16 * len(items)),
    )
    return figure([drawing], "Loadings of the items on the abilities: dark where large, a dash where negative.")


def _information(scales: Mapping[str, ItemParameters]) -> Drawing:
    return on_axes(
        "test_information",
        lambda ax: plots.draw_information(ax, {name or "all": items for name, items in scales.items()}),
        description="Test information along ability.",
        width=FILE_WIDTH,
        height=FILE_HEIGHT,
    )


def wright_figures(maps: Mapping[str, ItemMap]) -> list[Block]:
    """Of a bank: the Wright map of each scale, and test information."""
    of_scales = [
        on_axes(
            numbered("wright_map", k, len(maps)),
            found.plot,
            heading=name if len(maps) > 1 else "",
            description=f"Wright map of {plural(found.scale.items.n_items, 'item')}.",
            width=FILE_WIDTH,
            height=MAP_HEIGHT,
        )
        for k, (name, found) in enumerate(maps.items())
    ]
    blocks = figure(of_scales, MAP)
    return blocks + figure([_information({name: found.scale.items for name, found in maps.items()})], INFORMATION)


def drift_figures(drift: pd.DataFrame) -> list[Block]:
    """Of a link: the common items on both sides of it.

    Parameters
    ----------
    drift
        Contents of drift.csv.
    """
    drawing = on_axes(
        "drift",
        lambda ax: draw_drift(ax, drift),
        description=f"{plural(len(drift), 'common item')}, {int(drift['released'].sum())} left out of the link.",
        width=5.4,
        height=5.4,
    )
    return figure(
        [drawing],
        "Common items: difficulty as the old scale has it and as these people have it, put on that scale. Items on the "
        "dashed line stayed as they were; those off it drifted.",
    )


def form_figures(scales: Sequence[Scale], found: AssembledForms) -> list[Block]:
    """Of short forms: their information beside that of all items, on each scale.

    Parameters
    ----------
    scales
        Those that the items were chosen from.
    found
        The forms.
    """
    drawings = []
    shown = [scale for scale in scales if set(scale.items.item_ids) & {item for form in found.forms for item in form}]
    for k, scale in enumerate(shown):
        parts = {"all items": scale.items}
        for number, form in enumerate(found.forms, start=1):
            own = [item for item in scale.items.item_ids if item in set(form)]
            if own:
                parts["form" if len(found.forms) == 1 else f"form {number}"] = scale.items.select(own)
        drawings.append(
            on_axes(
                numbered("form_information", k, len(shown)),
                partial(plots.draw_information, scales=parts),
                heading=scale.name if len(shown) > 1 else "",
                description=f"Test information of {', '.join(parts)} of {scale.name}.",
                height=3.5 + 0.2 * (len(parts) // 2),
            )
        )
    return figure(
        drawings,
        "Test information of the short form and of all items it was chosen from; on the right the standard error of "
        "ability that follows.",
    )


def plan_figures(plan: CrowdPlan) -> list[Block]:
    """Of a plan: the standard error to expect of each item."""
    drawing = on_axes(
        "expected_errors",
        lambda ax: draw_expected_errors(ax, plan),
        description=f"Expected standard errors of difficulty of {plural(plan.n_items, 'item')}.",
    )
    return figure(
        [drawing],
        f"Standard errors of difficulty to expect of {plural(plan.n_respondents, 'respondent')} with {plan.n_each} "
        "items each. Items at the ends are known less well than those where the people are.",
    )
