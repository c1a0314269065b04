"""Figures of scales, which know of no study: Wright maps, raw scores, where people and systems are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from irtbench.bank.item_map import ItemMap, item_map
from irtbench.bank.norms import Norms
from irtbench.bank.scale import Scale
from irtbench.report import plots
from irtbench.report.drawing import HEIGHT, WIDTH, Drawing, on_axes
from irtbench.report.formatting import count, decimal, interval, plural
from irtbench.report.item_map_plots import draw_sum_scores, draw_wright_map
from irtbench.scoring.sum_score_table import MOST_ITEMS, SumScoreTable, sum_score_table

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
