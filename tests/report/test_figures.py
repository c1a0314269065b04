"""A result draws itself, on axes of its own or those it is given, and nothing in a figure differs by colour alone."""

import subprocess
import sys
from dataclasses import replace
from itertools import combinations

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

import irtbench
from irtbench.analysis.item_differences import ItemDifferences
from irtbench.data.shown import Drawn, Shown
from irtbench.report import check_figures, drawing, evaluation_figures, scale_figures, scoring_figures

ITEMS = irtbench.ItemParameters.from_difficulty([1.0, 1.5, 2.0], [-1.0, 0.0, 1.0])
LONG = irtbench.ItemParameters.from_difficulty([1.0] * 12, np.linspace(-2, 2, 12))


def of_responses(rng: np.random.Generator) -> list[Drawn]:
    """Results of responses to three items."""
    responses = irtbench.simulate_responses(rng.normal(size=200), ITEMS, rng=rng)
    theta = irtbench.estimate_ability(responses, ITEMS)
    scales = [irtbench.Scale(f"a_b $x$ {k}", ITEMS, irtbench.ItemTable.plain(ITEMS.item_ids)) for k in range(7)]
    grouped = irtbench.fit_groups(responses, ["a_b"] * 100 + ["$x$"] * 100, free_items=["item2"])
    analysis = irtbench.parallel_analysis(responses, rng=rng, n_samples=3)
    return [
        ITEMS,
        scales[0],
        irtbench.ItemBank(tuple(scales)),
        irtbench.item_map(scales[0]),
        irtbench.sum_score_table(ITEMS),
        irtbench.measurement_precision(ITEMS),
        irtbench.Norms(theta.theta),
        irtbench.empirical_curve(responses, ITEMS, "item2", theta.theta),
        irtbench.differential_test_functioning(grouped, rng=rng, n_draws=20),
        analysis,
        irtbench.Dimensions(1, 1, analysis, None, None, None),
        theta,
        irtbench.estimate_ability(responses.values[:5], ITEMS),
        irtbench.fit_model(responses, seed=0),
        irtbench.person_fit(responses, ITEMS, theta.theta),
        irtbench.compare_abilities(scales[0], responses.values[:9], rng=rng, n_item_draws=0),
    ]


def of_more_items(rng: np.random.Generator) -> list[Drawn]:
    """Results of responses, raw answers and scores by judges to a dozen."""
    responses = irtbench.simulate_responses(rng.normal(size=300), LONG, rng=rng)
    features = irtbench.ItemFeatures(LONG.item_ids, ("length",), np.arange(12.0)[:, None] + rng.normal(size=(12, 1)))
    given = responses.to_long()[["respondent_id", "item_id"]].assign(answer=rng.choice(["a", "b", "c"], 3600))
    right = given.drop(columns="answer").assign(response=(given["answer"] == "a").astype(float))
    halves = np.arange(300) < 150
    shifted = irtbench.ItemParameters.from_difficulty([1.0] * 12, LONG.difficulty + rng.normal(0, 0.2, 12))
    rated = pd.MultiIndex.from_product([range(60), ["q1", "q2"], ["a_b", "$x$"]]).to_frame(index=False)
    rated = rated.set_axis(["respondent_id", "item_id", "rater_id"], axis=1)
    scores = np.digitize(np.repeat(rng.normal(0, 2, 60), 4) + rng.logistic(size=240), [-1.0, 1.0])
    lengths = dict(zip(LONG.item_ids, np.exp(np.linspace(0, 5, 12)), strict=True))
    table = irtbench.ItemTable.plain(LONG.item_ids)
    half_known = np.where(np.arange(12) < 6, responses.values[:3], np.nan)
    return [
        irtbench.analysis.time_horizon(responses, lengths, model="rasch"),
        irtbench.explain_difficulty(LONG, features, standard_errors=np.full(12, 0.1), rng=rng),
        irtbench.item_fit(responses, LONG),
        irtbench.local_dependence(responses, LONG),
        irtbench.mantel_haenszel(responses, halves.astype(str)),
        irtbench.score_regression(responses, halves.astype(str)),
        irtbench.item_bias(responses, halves, method="logistic", purify=False),
        irtbench.item_shifts(responses.values[:20], LONG, rng=rng),
        irtbench.wrong_keys(given, dict.fromkeys(LONG.item_ids, "a"), right, LONG),
        irtbench.find_drift(LONG, shifted),
        irtbench.plan_crowd(LONG, irtbench.PlanSettings(se_difficulty=0.3, n_each=6), rng=rng),
        irtbench.replay_adaptive(LONG, responses.values[:4], se=0.8),
        irtbench.predict_accuracy(irtbench.Scale("all", LONG, table), half_known),
        irtbench.screen(responses, table, min_responses=3),
        irtbench.agreement(given),
        irtbench.item_agreement(given),
        irtbench.fit_categories(scores.reshape(60, 4), "gpcm", prior="weak"),
        irtbench.fit_raters(rated.assign(score=scores)),
    ]


def of_systems(rng: np.random.Generator) -> list[Drawn]:
    """Results of evaluation."""
    stated = rng.random(200)
    calibration = irtbench.calibration(stated, (rng.random(200) < stated).astype(float), rng=rng, n_samples=50)
    systems = (rng.random((3, 60)) < [[0.9], [0.6], [0.5]]).astype(float)
    twins = irtbench.as_responses(rng.integers(0, 2, (2, 6)), item_ids=["a", "b", "c", "A", "B", "C"])
    events = irtbench.draw_events(np.full((20, 2), 0.4), n_samples=10, rng=rng)
    return [
        calibration,
        calibration.curve,
        irtbench.crowd_filter(rng.integers(0, 2, (5, 30))),
        irtbench.human_accuracy([4, 5], [5, 5], rng=rng),
        irtbench.compare_systems(systems, ["x", "y", "_z"]),
        irtbench.switch_protocol(twins, {"A": "a", "B": "b", "C": "c"}),
        irtbench.count_events(events, [1, 2] * 10, entities=("us", "them")),
    ]


@pytest.fixture(scope="module")
def results() -> list[Drawn]:
    rng = np.random.default_rng(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("irtbench.analysis.explained_difficulty.N_SAMPLES", {False: 10, True: 10})
        return [*of_responses(rng), *of_more_items(rng), *of_systems(rng)]


def is_drawn(ax: Axes) -> bool:
    return bool(ax.lines or ax.patches or ax.collections or ax.images) and ax.get_xlabel() != ""


def test_a_result_draws_itself_and_nothing_differs_by_colour_alone(results: list[Drawn]) -> None:
    for result in results[::8]:  # all of them in the slow test of their layout
        own = result.plot()
        assert is_drawn(own), result
        assert own.figure is plt.gcf()
        plt.close(own.figure)
    for result in results:
        ax = Figure().subplots()
        assert result.plot(ax) is ax
        assert is_drawn(ax), result
        assert mistaken(ax) == [], result
    assert plt.get_fignums() == []


@pytest.mark.slow
def test_a_result_fits_its_figure_without_a_warning(results: list[Drawn]) -> None:
    for result in results:
        own = result.plot()
        assert is_drawn(own), result
        own.figure.draw_without_rendering()
        plt.close()


def long_name(k: int) -> str:
    return f"helm_lite/commonsense_subset=openbookqa,{k:03d}#row_$x$"


@pytest.mark.parametrize("width", [None, 3.3])
def test_long_names_stay_in_the_figure_and_apart(width: float | None) -> None:
    named = replace(LONG, item_ids=tuple(long_name(k) for k in range(12)))
    close = replace(named, intercept=np.full(12, 0.1))
    people = np.random.default_rng(3)
    responses = irtbench.simulate_responses(people.normal(size=200), named, rng=people)
    drifted = DRIFT.assign(item_id=[long_name(k) for k in range(4)])
    for draw in (
        irtbench.item_map(irtbench.Scale("all", named, irtbench.ItemTable.plain(named.item_ids))).plot,
        irtbench.item_map(irtbench.Scale("all", close, irtbench.ItemTable.plain(close.item_ids))).plot,
        irtbench.mantel_haenszel(responses, np.arange(200) % 2).plot,
        lambda ax: scale_figures.draw_drift(ax, drifted),
    ):
        with drawing.figure_of(drawing.on_axes("one", draw), width=width) as figure:
            drawing.laid_out_once(figure)  # a figure without room for itself warns, which is an error
            renderer = FigureCanvasAgg(figure).get_renderer()
            texts = [text for text in figure.findobj(Text) if "…" in text.get_text() and text.get_visible()]
            assert texts
            assert len({text.get_text() for text in texts}) == len(texts)
            for text in [*texts, *(ax.xaxis.label for ax in figure.axes)]:
                box = text.get_window_extent(renderer)
                assert box.x1 <= figure.bbox.x1 + 3, text  # letters of a picture are a little wider
                assert box.x0 >= -3, text


def made_from(base: type) -> set[type]:
    """The classes made from this one from which no other is made."""
    found: set[type] = set()
    own: type
    for own in base.__subclasses__():
        found |= made_from(own) or {own}
    return found


def test_every_kind_that_has_a_figure_was_drawn(results: list[Drawn]) -> None:
    kinds = made_from(Drawn) | made_from(ItemDifferences)
    own = {kind for kind in kinds if kind.__module__.startswith("irtbench.")} - {ItemDifferences}
    assert {type(result) for result in results} == own - {irtbench.Artifacts}


def test_a_figure_takes_back_nothing_that_a_notebook_sets_with_its_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the inline backend does, which is loaded with the first figure."""
    made = plt.subplots
    monkeypatch.setitem(matplotlib.rcParams, "interactive", False)
    before = {name: matplotlib.rcParams[name] for name in drawing.STYLE}

    def loads_a_backend(*arguments: object, **options: object) -> object:
        matplotlib.rcParams["interactive"] = True
        return made(*arguments, **options)

    monkeypatch.setattr(plt, "subplots", loads_a_backend)
    plt.close(ITEMS.plot().figure)
    assert matplotlib.rcParams["interactive"]
    assert {name: matplotlib.rcParams[name] for name in drawing.STYLE} == before


def test_a_result_without_a_figure_says_so() -> None:
    from irtbench.report.result_pages import figure_of

    with pytest.raises(TypeError, match="there is no figure of ResponseMatrix"):
        figure_of(irtbench.as_responses([[1]]))
    assert not hasattr(Shown, "plot")


@pytest.mark.slow
def test_figures_cost_nothing_until_they_are_asked_for() -> None:
    program = (
        "import sys, irtbench\n"
        "items = irtbench.ItemParameters.from_difficulty([1.0], [0.0])\n"
        "found = irtbench.estimate_ability([[1]], items)\n"
        "assert not {'matplotlib', 'torch'} & set(sys.modules)\n"
        "found.plot()\n"
        "assert 'matplotlib' in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


# -- in grey, and as the colour-blind see them

ENOUGH = 0.12  # difference in luminance that is seen in print
# what deuteranopes and protanopes see of linear RGB (Viénot, Brettel & Mollon, 1999)
SEEN_BY = {
    "deuteranopes": [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]],
    "protanopes": [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]],
}
OPTIONS = pd.DataFrame(
    {"item_id": "i", "option": list("abcde"), "is_key": [True, *[False] * 4], "share_low": [0.2] * 5}
).assign(share_middle=0.2, share_high=[0.6, 0.1, 0.1, 0.1, 0.1])
DIFFERENCES = pd.DataFrame(
    {"difference": [0.3, 0.0], "lower": [0.1, -0.1], "upper": [0.5, 0.1], "p_adjusted": [0.01, 1]}
)
DRIFT = pd.DataFrame(
    {"item_id": list("abcd"), "difficulty_old": [-1.0, 0, 1, 2], "difficulty_new": [-1.0, 0, 1, 0]}
).assign(released=[False, False, False, True])
FAIR = pd.DataFrame({"mean_score": [1, 2], "fair_score": [1.2, 1.9], "fair_lower": [1, 1.6], "fair_upper": [1.4, 2.2]})
SETS = [drawing.Series(kind, [0.5, 0.6], lower=[0.4, 0.5], upper=[0.6, 0.7]) for kind in ("first", "second", "third")]
TWO = drawing.Series("", [1, 2])


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
    rng = np.random.default_rng(5)
    curves = {
        f"s{k}": irtbench.calibration(p, (rng.random(200) < p).astype(float), rng=rng, n_samples=20).curve
        for k, p in enumerate(rng.random((4, 200)))
    }
    return evaluation_figures.draw_reliability(ax, curves)


def by_group(ax: Axes) -> Axes:
    rng = np.random.default_rng(5)
    responses = irtbench.simulate_responses(rng.normal(size=150), ITEMS, rng=rng)
    grouped = irtbench.fit_groups(responses, ["a"] * 75 + ["b"] * 75, free_items=["item2"])
    return check_figures.draw_item_by_group(ax, grouped, "item2")


@pytest.mark.parametrize(
    "draw",
    [
        by_group,
        reliability,
        lambda ax: scale_figures.draw_curves(ax, ITEMS, [ITEMS], others_are="removed"),
        lambda ax: check_figures.draw_options(ax, OPTIONS),
        lambda ax: evaluation_figures.draw_differences(ax, DIFFERENCES, names=["a", "b"], label="d"),
        lambda ax: scale_figures.draw_drift(ax, DRIFT),
        lambda ax: evaluation_figures.draw_fair_scores(ax, FAIR),
        lambda ax: drawing.interval_plot(ax, ["x", "y"], SETS, label="v"),
        lambda ax: drawing.found_plot(ax, ["x", "y"], TWO, [True, False], ("found", "not"), label="v"),
    ],
)
def test_lines_and_dots_of_other_figures_differ_in_more_than_colour(draw) -> None:
    ax = Figure().subplots()
    draw(ax)
    assert len(ax.lines) + len(ax.collections) >= 2
    assert mistaken(ax) == []


def test_a_pair_is_filled_by_the_level_that_the_page_goes_by() -> None:
    pair = {"scale": "all", "first": "a", "second": "b", "accuracy_p_adjusted": 0.08}
    pair |= {"accuracy_difference": 0.1, "accuracy_lower": 0.0, "accuracy_upper": 0.2}
    (block,) = scoring_figures.comparison_figures(pd.DataFrame([pair]), None, level=0.9)
    with drawing.figure_of(block.panels[0]) as figure:
        legend = figure.axes[0].get_legend()
        assert [text.get_text() for text in legend.get_texts()] == ["adjusted p ≤ 0.1"]


def test_bars_differ_in_more_than_colour() -> None:
    ax = Figure().subplots()
    evaluation_figures.draw_reasons(ax, {"kept": 10, "too fast": 3})
    first, second = ax.patches
    assert first.get_hatch() != second.get_hatch()
    table = pd.DataFrame({"share": [0.9, 0.5], "contradicts_key": [False, True]})
    ax = Figure().subplots()
    evaluation_figures.draw_item_agreement(ax, table)
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
    for colour in (*drawing.COLOURS, drawing.GREY):
        assert (1 + 0.05) / (luminance(colour) + 0.05) >= 3  # visible on paper: WCAG 2.1, 1.4.11


def test_bands_hide_no_line(results: list[Drawn]) -> None:
    (curve,) = [result for result in results if type(result).__name__ == "EmpiricalCurve"]
    bands = [part for part in curve.plot(Figure().subplots()).collections if isinstance(part, PolyCollection)]
    assert bands
    assert all(part.get_alpha() is not None and part.get_alpha() <= 0.35 for part in bands)
