"""Figures of a bank's items: Wright map, score table, test information; nothing is computed here."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from irtbench.bank.item_map import ItemMap
from irtbench.diagnostics.measurement_precision import MeasurementPrecision
from irtbench.report.plots import ABILITIES, BIN, BLUE, ORANGE, SKY, with_standard_errors
from irtbench.scoring.sum_score_table import SumScoreTable

MOST_NAMED = 60  # items whose names are written; of more there are points alone
SHOWN = (-6.0, 6.0)  # difficulties; items beyond stand at the edge


def draw_wright_map(ax: Axes, found: ItemMap) -> Axes:
    """People to the left, items to the right, on one scale from the easy and the weak to the hard and the able.

    The people are the norm sample, or the population where there is none. Items beyond the range shown stand at its
    edge as arrowheads.
    """
    items = found.scale.items
    known = np.isfinite(items.difficulty)
    difficulty = items.difficulty[known]
    place = np.round(np.clip(difficulty, *SHOWN) / BIN) * BIN
    ends = np.array([-3.0, 3.0, *place, *_ends_of_people(found)])
    centres = np.arange(np.floor(ends.min() / BIN), np.ceil(ends.max() / BIN) + 1) * BIN
    share = _share_of_people(found, centres)
    ax.barh(centres, -share / share.max(), height=BIN, color=SKY, edgecolor="white", linewidth=0.5)
    names = np.array(items.item_ids, dtype=object)[known]
    centres_of_items, n_here = np.unique(place, return_counts=True)
    step = 1 / max(40, *n_here)
    for centre, n in zip(centres_of_items, n_here, strict=True):
        if items.n_items <= MOST_NAMED:
            text = " ".join(names[place == centre])
            ax.text(0.03, centre, text, va="center", fontsize=8, color=BLUE, parse_math=False)
        else:
            ax.plot(step * (0.5 + np.arange(n)), np.full(n, centre), "o", color=BLUE, markersize=3)
    for edge, marker, beyond in ((SHOWN[0], "v", difficulty < SHOWN[0]), (SHOWN[1], "^", difficulty > SHOWN[1])):
        if beyond.any():
            ax.plot(0.0, edge, marker, color=ORANGE, clip_on=False)
    ax.axvline(0, color="black", linewidth=0.8)
    who = "population" if found.scale.norms is None else f"{found.scale.norms.n} respondents"
    ax.set(xlim=(-1.05, 1.05), xlabel=f"{who}   |   {items.n_items} items", ylabel="ability θ, difficulty b")
    ax.set_xticks([])
    ax.grid(visible=False, axis="x")
    return ax


def _ends_of_people(found: ItemMap) -> tuple[float, float]:
    norms, population = found.scale.norms, found.scale.population
    if norms is not None:
        return float(norms.theta.min()), float(norms.theta.max())
    if population is None:
        return -3.0, 3.0
    return population.mean - 3 * population.deviation, population.mean + 3 * population.deviation


def _share_of_people(found: ItemMap, centres: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of people near each of these abilities, with one factor for all."""
    norms, population = found.scale.norms, found.scale.population
    if norms is not None:
        edges = np.append(centres - BIN / 2, centres[-1] + BIN / 2)
        return np.histogram(norms.theta, bins=edges, weights=norms.weights)[0].astype(np.float64)
    if population is None:
        return np.asarray(np.exp(-0.5 * centres**2), dtype=np.float64)
    density = population.weights / np.gradient(population.nodes)
    return np.asarray(np.interp(centres, population.nodes, density, left=0, right=0), dtype=np.float64)


def draw_sum_scores(ax: Axes, found: SumScoreTable) -> Axes:
    """Ability of each raw score with its interval."""
    abilities = found.abilities
    ax.fill_between(found.score, abilities.lower, abilities.upper, color=SKY, alpha=0.3, linewidth=0)
    ax.plot(found.score, abilities.theta, "o-", color=BLUE, markersize=3)
    ax.set(xlabel="raw score", ylabel="ability θ")
    return ax


def draw_precision(ax: Axes, found: MeasurementPrecision) -> Axes:
    """Test information along ability, with the standard error of ability it stands for on the right."""
    shown = (found.theta >= ABILITIES[0]) & (found.theta <= ABILITIES[-1]) if found.theta.size > 2 else slice(None)
    ax.plot(found.theta[shown], found.information[shown], color=BLUE)
    return with_standard_errors(ax)
