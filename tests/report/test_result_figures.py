"""A result draws itself: on axes of its own or those it is given, and matplotlib is loaded by that alone."""

import subprocess
import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import irtbench
from irtbench.analysis.item_differences import ItemDifferences
from irtbench.data.shown import Drawn, Shown
from irtbench.report.drawing import STYLE

RNG = np.random.default_rng(1)
ITEMS = irtbench.ItemParameters.from_difficulty([1.0, 1.5, 2.0], [-1.0, 0.0, 1.0])
RESPONSES = irtbench.simulate_responses(RNG.normal(size=200), ITEMS, rng=RNG)
THETA = irtbench.estimate_ability(RESPONSES, ITEMS)
SCALE = irtbench.Scale("a_b $x$", ITEMS, irtbench.ItemTable.plain(ITEMS.item_ids))
PREDICTED = RNG.random(200)
LABELS = (RNG.random(200) < PREDICTED).astype(float)
CALIBRATION = irtbench.calibration(PREDICTED, LABELS, rng=RNG, n_samples=50)
SYSTEMS = (RNG.random((3, 60)) < [[0.9], [0.6], [0.5]]).astype(float)
FILTER = irtbench.crowd_filter(RNG.integers(0, 2, (5, 30)))
TWINS = irtbench.as_responses(RNG.integers(0, 2, (2, 6)), item_ids=["a", "b", "c", "A", "B", "C"])
EVENTS = irtbench.draw_events(np.full((20, 2), 0.4), n_samples=10, rng=RNG)
GROUPED = irtbench.fit_groups(RESPONSES, ["a_b"] * 100 + ["$x$"] * 100, free_items=["item2"])
LONG = irtbench.ItemParameters.from_difficulty([1.0] * 12, np.linspace(-2, 2, 12))
MORE = irtbench.simulate_responses(RNG.normal(size=300), LONG, rng=RNG)
FEATURES = irtbench.ItemFeatures(LONG.item_ids, ("length",), np.arange(12.0)[:, None] + RNG.normal(size=(12, 1)))
EXPLAINED = irtbench.explain_difficulty(LONG, FEATURES, standard_errors=np.full(12, 0.1), rng=RNG)
GIVEN = MORE.to_long()[["respondent_id", "item_id"]].assign(answer=RNG.choice(["a", "b", "c"], 3600))
RIGHT = GIVEN.drop(columns="answer").assign(response=(GIVEN["answer"] == "a").astype(float))
KEYS = dict.fromkeys(LONG.item_ids, "a")
KEYED = irtbench.ItemTable.plain(LONG.item_ids)
HALVES = np.arange(300) < 150
SHIFTED = irtbench.ItemParameters.from_difficulty([1.0] * 12, np.linspace(-2, 2, 12) + RNG.normal(0, 0.2, 12))
RATED = pd.MultiIndex.from_product([range(60), ["q1", "q2"], ["a_b", "$x$"]]).to_frame(index=False)
RATED = RATED.set_axis(["respondent_id", "item_id", "rater_id"], axis=1)
SCORES = np.digitize(np.repeat(RNG.normal(0, 2, 60), 4) + RNG.logistic(size=240), [-1.0, 1.0])
LENGTHS = dict(zip(LONG.item_ids, np.exp(np.linspace(0, 5, 12)), strict=True))

RESULTS = [
    irtbench.analysis.time_horizon(MORE, LENGTHS, model="rasch"),
    ITEMS,
    SCALE,
    irtbench.ItemBank((SCALE,)),
    irtbench.item_map(SCALE),
    irtbench.sum_score_table(ITEMS),
    irtbench.measurement_precision(ITEMS),
    irtbench.Norms(THETA.theta),
    irtbench.empirical_curve(RESPONSES, ITEMS, "item2", THETA.theta),
    irtbench.differential_test_functioning(GROUPED, rng=RNG, n_draws=20),
    EXPLAINED,
    irtbench.parallel_analysis(RESPONSES, rng=RNG, n_samples=3),
    THETA,
    irtbench.estimate_ability(RESPONSES.values[:5], ITEMS),
    CALIBRATION,
    CALIBRATION.curve,
    FILTER,
    irtbench.human_accuracy([4, 5], [5, 5], rng=RNG),
    irtbench.compare_systems(SYSTEMS, ["x", "y", "_z"]),
    irtbench.switch_protocol(TWINS, {"A": "a", "B": "b", "C": "c"}),
    irtbench.count_events(EVENTS, [1, 2] * 10, entities=("us", "them")),
    irtbench.fit_model(RESPONSES, seed=0),
    irtbench.item_fit(MORE, LONG),
    irtbench.person_fit(RESPONSES, ITEMS, THETA.theta),
    irtbench.local_dependence(MORE, LONG),
    irtbench.Dimensions(1, 1, irtbench.parallel_analysis(RESPONSES, rng=RNG, n_samples=3), None, None, None),
    irtbench.compare_abilities(SCALE, RESPONSES.values[:9], rng=RNG, n_item_draws=0),
    irtbench.mantel_haenszel(MORE, HALVES.astype(str)),
    irtbench.score_regression(MORE, HALVES.astype(str)),
    irtbench.item_bias(MORE, HALVES, method="logistic", purify=False),
    irtbench.item_shifts(MORE.values[:20], LONG, rng=RNG),
    irtbench.wrong_keys(GIVEN, KEYS, RIGHT, LONG),
    irtbench.find_drift(LONG, SHIFTED),
    irtbench.plan_crowd(LONG, irtbench.PlanSettings(se_difficulty=0.3, n_each=6), rng=RNG),
    irtbench.replay_adaptive(LONG, MORE.values[:4], se=0.8),
    irtbench.predict_accuracy(irtbench.Scale("all", LONG, KEYED), np.where(np.arange(12) < 6, MORE.values[:3], np.nan)),
    irtbench.screen(MORE, KEYED, min_responses=3),
    irtbench.agreement(GIVEN),
    irtbench.item_agreement(GIVEN),
    irtbench.fit_categories(SCORES.reshape(60, 4), "gpcm", prior="weak"),
    irtbench.fit_raters(RATED.assign(score=SCORES)),
]


def is_drawn(ax: Axes) -> bool:
    return bool(ax.lines or ax.patches or ax.collections or ax.images) and ax.get_xlabel() != ""


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: type(result).__name__)
def test_a_result_draws_itself(result) -> None:
    own = result.plot()
    assert is_drawn(own)
    assert own.figure is plt.gcf()
    own.figure.canvas.draw()
    plt.close(own.figure)
    ax = Figure().subplots()
    assert result.plot(ax) is ax
    assert is_drawn(ax)
    assert plt.get_fignums() == []


def made_from(base: type) -> set[type]:
    """The classes made from this one from which no other is made."""
    found: set[type] = set()
    own: type
    for own in base.__subclasses__():
        found |= made_from(own) or {own}
    return found


def test_every_kind_that_has_a_figure_was_drawn() -> None:
    kinds = made_from(Drawn) | made_from(ItemDifferences)
    own = {kind for kind in kinds if kind.__module__.startswith("irtbench.")} - {ItemDifferences}
    assert {type(result) for result in RESULTS} == own - {irtbench.Artifacts}


def test_a_figure_takes_back_nothing_that_a_notebook_sets_with_its_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the inline backend does, which is loaded with the first figure."""
    made = plt.subplots
    monkeypatch.setitem(matplotlib.rcParams, "interactive", False)
    before = {name: matplotlib.rcParams[name] for name in STYLE}

    def loads_a_backend(*arguments: object, **options: object) -> object:
        matplotlib.rcParams["interactive"] = True
        return made(*arguments, **options)

    monkeypatch.setattr(plt, "subplots", loads_a_backend)
    plt.close(ITEMS.plot().figure)
    assert matplotlib.rcParams["interactive"]
    assert {name: matplotlib.rcParams[name] for name in STYLE} == before


def test_a_result_without_a_figure_says_so() -> None:
    from irtbench.report.result_pages import figure_of

    with pytest.raises(TypeError, match="there is no figure of ResponseMatrix"):
        figure_of(RESPONSES)
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
