"""Figures in grey and as the colour-blind see them: what differs in colour differs otherwise too."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import irtbench
from irtbench.evaluation.reliability import ReliabilityCurve
from irtbench.report import check_figures, crowd_figures, drawing, evaluation_figures, scale_figures, scoring_figures
from irtbench.report.check_figures import draw_item_by_group
from irtbench.report.evaluation_figures import draw_differences

ENOUGH = 0.12  # difference in luminance that is seen in print
# what deuteranopes and protanopes see of linear RGB (Viénot, Brettel & Mollon, 1999)
SEEN_BY = {
    "deuteranopes": [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]],
    "protanopes": [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]],
}

RNG = np.random.default_rng(5)
ITEMS = irtbench.ItemParameters.from_difficulty([1.0, 1.5, 2.0, 1.2], [-1.0, 0.0, 1.0, 0.5])
RESPONSES = irtbench.simulate_responses(RNG.normal(size=150), ITEMS, rng=RNG)
OPTIONS = pd.DataFrame(
    {"item_id": "i", "option": list("abcde"), "is_key": [True, *[False] * 4], "share_low": [0.2] * 5}
).assign(share_middle=0.2, share_high=[0.6, 0.1, 0.1, 0.1, 0.1])
DIFFERENCES = pd.DataFrame(
    {"difference": [0.3, 0.0], "lower": [0.1, -0.1], "upper": [0.5, 0.1], "p_adjusted": [0.01, 1]}
)
DRIFT = pd.DataFrame(
    {"item_id": list("abcd"), "difficulty_old": [-1.0, 0, 1, 2], "difficulty_new": [-1.0, 0, 1, 0]}
).assign(released=[False, False, False, True])
SETS = [drawing.Series(kind, [0.5, 0.6], lower=[0.4, 0.5], upper=[0.6, 0.7]) for kind in ("first", "second", "third")]


def linear(colour: str) -> np.ndarray:
    values = np.array(to_rgb(colour))
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2."""
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def look(line: Line2D) -> tuple[object, ...]:
    """What of a line is left without its colour."""
    style = vars(line)["_dash_pattern"] if line.get_linestyle() not in ("None", "") else None
    filled = to_hex(line.get_markerfacecolor()) != "#ffffff"
    marker = line.get_marker() if line.get_marker() not in ("None", "") else None
    return str(style), marker, filled if marker else None


def mistaken(ax: Axes) -> list[tuple[str, str]]:
    """Colours of lines that nothing but colour tells apart."""
    lines = [line for line in ax.lines if len(line.get_xdata()) > 0]
    return [
        (to_hex(one.get_color()), to_hex(other.get_color()))
        for one, other in combinations(lines, 2)
        if to_hex(one.get_color()) != to_hex(other.get_color())
        and look(one) == look(other)
        and abs(luminance(to_hex(one.get_color())) - luminance(to_hex(other.get_color()))) < ENOUGH
    ]


def reliability(ax: Axes) -> Axes:
    stated = RNG.random((4, 200))
    curves: dict[str, ReliabilityCurve] = {
        f"s{k}": irtbench.calibration(p, (RNG.random(200) < p).astype(float), rng=RNG, n_samples=20).curve
        for k, p in enumerate(stated)
    }
    return evaluation_figures.draw_reliability(ax, curves)


def adaptive(ax: Axes) -> Axes:
    paths = irtbench.simulate_adaptive(ITEMS, [-1.0, 0.0, 1.0], most_items=3, se=None, seed=1)
    return scoring_figures.draw_paths(ax, paths)


def by_group(ax: Axes) -> Axes:
    grouped = irtbench.fit_groups(RESPONSES, ["a"] * 75 + ["b"] * 75, free_items=["item2"])
    return draw_item_by_group(ax, grouped, "item2")


def fit_of_item(ax: Axes) -> Axes:
    theta = irtbench.estimate_ability(RESPONSES, ITEMS).theta
    return check_figures.draw_fit(ax, irtbench.empirical_curve(RESPONSES, ITEMS, "item2", theta))


DRAWN = {
    "information of seven scales": lambda ax: scale_figures.draw_information(ax, {f"s{k}": ITEMS for k in range(7)}),
    "curves kept and removed": lambda ax: scale_figures.draw_curves(ax, ITEMS, [ITEMS], others_are="removed"),
    "an item's fit": fit_of_item,
    "an item by group": by_group,
    "options": lambda ax: check_figures.draw_options(ax, OPTIONS),
    "reliability": reliability,
    "adaptive tests": adaptive,
    "differences": lambda ax: draw_differences(ax, DIFFERENCES, names=["a", "b"], label="d"),
    "drift": lambda ax: scale_figures.draw_drift(ax, DRIFT),
    "several intervals": lambda ax: drawing.interval_plot(ax, ["x", "y"], SETS, label="v"),
    "intervals": lambda ax: drawing.interval_plot(
        ax, ["x", "y"], drawing.found_or_not(drawing.Series("", [1, 2]), [True, False], ("found", "not")), label="v"
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_lines_and_dots_differ_in_more_than_colour(name: str) -> None:
    ax = Figure().subplots()
    DRAWN[name](ax)
    assert len(ax.lines) + len(ax.collections) >= 2
    assert mistaken(ax) == []


def test_bars_differ_in_more_than_colour() -> None:
    ax = Figure().subplots()
    crowd_figures.draw_reasons(ax, {"kept": 10, "too fast": 3})
    first, second = ax.patches
    assert first.get_hatch() != second.get_hatch()
    table = pd.DataFrame({"share": [0.9, 0.5], "contradicts_key": [False, True]})
    ax = Figure().subplots()
    crowd_figures.draw_item_agreement(ax, table)
    assert {patch.get_hatch() for patch in ax.patches} == {"", "////"}


def test_a_figure_that_colour_alone_explains_is_found() -> None:
    ax = Figure().subplots()
    ax.plot([0, 1], [0, 1], color=drawing.BLUE)
    ax.plot([0, 1], [1, 0], color=drawing.ORANGE)
    assert mistaken(ax) == [(drawing.BLUE.lower(), drawing.ORANGE.lower())]


@pytest.mark.parametrize("who", SEEN_BY)
def test_the_colour_blind_tell_the_first_colours_apart(who: str) -> None:
    seen = {colour: np.clip(np.array(SEEN_BY[who]) @ linear(colour), 0, 1) for colour in drawing.COLOURS}
    for one, other in combinations(drawing.COLOURS, 2):
        assert np.abs(seen[one] - seen[other]).max() > 0.08, (one, other)


def test_every_colour_of_a_line_is_visible_on_paper() -> None:
    for colour in (*drawing.COLOURS, drawing.GREY):
        assert (1 + 0.05) / (luminance(colour) + 0.05) >= 3  # WCAG 2.1, 1.4.11


def test_bands_hide_no_line() -> None:
    ax = Figure().subplots()
    fit_of_item(ax)
    bands = [part for part in ax.collections if isinstance(part, PolyCollection)]
    assert bands
    assert all(part.get_alpha() is not None and part.get_alpha() <= 0.35 for part in bands)
