"""Difficulty fitted with its regression, of right and wrong and of grades: against lme4, and what is covered."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from builders.command_line import run
from builders.mirt_figures import verbal
from builders.refusals import is_refused
from builders.scales import of_two_categories
from builders.simulated import with_values
from irtbench import ItemFeatures, ItemParameters, ResponseMatrix, explain_difficulty, fit_categories, fit_model
from irtbench.analysis import explain_grades, explain_responses, explained_responses
from irtbench.analysis.explained_responses import Kind, categories_of, fit_explanatory_items, without_prior
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.curves import simulate_responses
from irtbench.models.item_models.partial_credit import PartialCredit

EFFECTS = np.array([0.8, -0.4])


@pytest.fixture(autouse=True)
def hardly_any_samples_of_r2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its interval counts, a test asks for few_samples_of_r2."""
    monkeypatch.setattr("irtbench.analysis.explained_difficulty.N_SAMPLES", {False: 10, True: 10})


def study(
    n_respondents: int, n_items: int, *, seed: int, missing: float = 0.0, kind: Kind = "rasch", residual: float = 0.5
) -> tuple[ResponseMatrix, ItemFeatures, NDArray[np.float64]]:
    """Responses to items whose difficulty is linear in two features but for a residual; the features; difficulties."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_items, 2))
    b = x @ EFFECTS + rng.normal(0, residual, n_items)
    a = np.ones(n_items) if kind == "rasch" else rng.lognormal(0.2, 0.3, n_items)
    items = ItemParameters.from_difficulty(a, b)
    responses = simulate_responses(rng.normal(size=n_respondents), items, rng=rng, missing=missing)
    return responses.answered(), ItemFeatures(items.item_ids, ("x", "y"), x), b


def test_verbal_aggression_is_that_of_lme4(reference: Path) -> None:
    """glmer with persons and items at random, by Laplace's approximation and maximum likelihood; ours is REML's."""
    folder = reference / "next" / "10_lltm"
    features = pd.read_csv(folder / "verbal_features.csv").rename(columns={"item": "item_id"})
    data, _ = verbal(reference)
    found = explain_responses(data, features, model="rasch", rng=np.random.default_rng(1))
    printed = pd.read_csv(folder / "verbal_lltm_coef.csv").set_index("term").loc[list(found.terms)]
    fit = pd.read_csv(folder / "verbal_fit.csv").set_index("stat")["value"]
    # effects on easiness there, and short by Laplace's approximation: by no more than it is without a residual
    short = fit["sd_glmer_AGQ25"] / fit["sd_glmer_laplace"]
    longer = -found.effect / printed["glmer_random_item"]
    assert longer.between(1.0, short).all()
    as_ml = np.sqrt((24 - 5) / 24)
    assert found.residual_sd * as_ml == pytest.approx(fit["sd_item_random_item"], abs=0.01)
    assert found.residual_lower < fit["sd_item_random_item"] < found.residual_upper
    np.testing.assert_allclose(found.se * as_ml, printed["se_glmer_random_item"], rtol=0.03)
    joint = fit_explanatory_items(data, features.drop(columns="item_id").to_numpy(float), kind="rasch")
    assert joint.population.deviation == pytest.approx(fit["sd_person_random_item"], abs=0.01)
    assert found.converged
    assert found.with_items


def test_a_normal_posterior_gives_the_estimate_back() -> None:
    estimate, error, expected, residual = 1.2, 0.4, 0.3, 0.6
    variance = 1 / (error**-2 + residual**-2)
    mean = variance * (estimate / error**2 + expected / residual**2)
    found = without_prior(np.array([mean]), np.array([variance]), expected, residual)
    assert [float(found.values[0]), float(found.sd[0])] == pytest.approx([estimate, error])


@pytest.mark.slow
@pytest.mark.usefixtures("few_samples_of_r2")
def test_intervals_cover_with_few_uneven_answers() -> None:
    covered, r2 = np.zeros(4), []
    n_sets = 5
    for seed in range(n_sets):
        data, features, b = study(120, 100, seed=100 + seed, missing=0.85, kind="2pl")
        some = data.select_items(data.item_ids[:80]).answered()
        found = explain_responses(some, features, rng=np.random.default_rng(seed))
        r2.append(found.r2)
        truth = EFFECTS @ EFFECTS / (EFFECTS @ EFFECTS + 0.25)
        covered += [
            ((found.lower[1:] <= EFFECTS) & (found.upper[1:] >= EFFECTS)).mean(),
            found.residual_lower <= 0.5 <= found.residual_upper,
            found.r2_lower <= truth <= found.r2_upper,
            ((found.new_lower <= b[80:]) & (b[80:] <= found.new_upper)).mean(),
        ]
    assert np.mean(r2) == pytest.approx(0.76, abs=0.08)
    # standard errors: effects .06, s and R2 .1, items .04 (of 24 sets .89 are covered)
    assert (covered / n_sets > [0.83, 0.7, 0.7, 0.82]).all()


def test_items_answered_alike_by_all_are_items_like_others() -> None:
    data, features, _ = study(200, 40, seed=3)
    values = data.values.copy()
    values[:, 5], values[:, 6] = 1.0, 0.0
    found = fit_explanatory_items(with_values(data, values), features.values, kind="2pl")
    assert found.learning.settled
    assert found.items.difficulty[5] < -1.5
    assert found.items.difficulty[6] > 1.5
    assert (found.estimates.variances > 0).all()
    assert found.items.n_items == 40


def test_wrong_input_is_named() -> None:
    data, features, _ = study(100, 20, seed=1)
    rng = np.random.default_rng(1)
    frame, seven = features.table(), data.select_items(data.item_ids[:7])
    frame.loc[3, "x"] = np.nan
    is_refused("no row for item item1", explain_responses, data, features.select(features.item_ids[1:]), rng=rng)
    is_refused("7 items of known difficulty; expected at least 8", explain_responses, seven, features, rng=rng)
    is_refused("x of item item4 is empty", explain_responses, data, frame, rng=rng)
    is_refused("level must be between 0 and 1", explain_responses, data, features, level=95, rng=rng)


def test_few_respondents_of_another_mean_converge_under_rasch() -> None:
    """Fourteen respondents, most items hard for all of them: the zero of the scale is theirs."""
    rng = np.random.default_rng(2)
    feature = rng.normal(size=100)
    items = ItemParameters.from_difficulty(np.ones(100), 2.0 + 0.8 * feature + rng.normal(0, 1.5, 100))
    responses = simulate_responses(rng.normal(size=14), items, rng=rng)
    found = fit_explanatory_items(responses, feature[:, None], kind="rasch")
    assert found.learning.settled
    assert found.learning.updates < 40
    assert np.corrcoef(found.estimates.values, items.difficulty)[0, 1] > 0.7


def test_items_and_people_without_a_response_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such an item is a new one, which its features predict."""
    monkeypatch.setattr(explained_responses, "MOST_UPDATES", 1)
    data, features, _ = study(30, 12, seed=3)
    table = pd.DataFrame(data.values, data.respondent_ids, data.item_ids)
    holes = table.assign(new=np.nan)
    holes.loc["nobody"] = np.nan
    more = ItemFeatures((*features.item_ids, "new"), features.names, np.vstack([features.values, [1.0, 1.0]]))
    for explain in (explain_responses, explain_grades):
        one, other = (explain(of, more, rng=np.random.default_rng(1)) for of in (table, holes))
        pd.testing.assert_frame_equal(one.table(), other.table())
        assert other.new_item_ids == ("new",)


def one_each(table: pd.DataFrame) -> pd.DataFrame:
    """One response of each respondent, whatever the ability."""
    rng = np.random.default_rng(1)
    given = rng.integers(0, table.shape[1], (len(table), 1)) == np.arange(table.shape[1])
    values = np.where(given, rng.integers(0, 2, table.shape), np.nan)
    return pd.DataFrame(values, columns=table.columns)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table[:2], "2 respondents; expected at least 3"),
        (lambda table: table.notna() * 1.0, "all responses are the same to every item"),
        (lambda table: table.notna() * (np.arange(table.shape[1]) % 2.0), "all responses are the same to every item"),
        (one_each, "tell no abilities apart, so that it has no scale"),
    ],
)
def test_nothing_is_explained_of_nothing(
    change: Callable[[pd.DataFrame], pd.DataFrame], words: str, monkeypatch
) -> None:
    monkeypatch.setattr(explained_responses, "MOST_UPDATES", 8)
    data, features, _ = study(40, 30, seed=3)
    table = change(pd.DataFrame(data.values, columns=data.item_ids))
    for explain in (explain_responses, explain_grades):
        is_refused(words, explain, table, features, rng=np.random.default_rng(1))


# --- grades ----------------------------------------------------------------------------------------------------------


def graded(rng: np.random.Generator, length: np.ndarray, n: int = 400) -> pd.DataFrame:
    """Scores of systems on prompts that are harder by .8 a unit of length."""
    middle = 0.8 * length + rng.normal(0, 0.3, length.size)
    table = pd.DataFrame(middle[:, None] + np.array([-0.8, 0.1, 0.7]), columns=["step_1", "step_2", "step_3"]).assign(
        item_id=[f"g{j:02d}" for j in range(length.size)], discrimination=rng.uniform(0.8, 1.6, length.size)
    )
    items = CategoryParameters.from_table(table, [PartialCredit()] * length.size)
    return items.simulate(rng.normal(size=n), rng=rng)


def test_the_effect_of_a_feature_is_found_on_the_mean_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    length = rng.normal(size=12)
    scores = graded(rng, length, 300)
    fitted = fit_categories(scores, "gpcm")
    items = fitted.items.as_items()
    found = explain_difficulty(items, ItemFeatures(items.item_ids, ("length",), length[:, None]), rng=rng)
    assert found.lower[1] < 0.8 < found.upper[1]
    assert found.residual_lower < 0.3 < found.residual_upper
    np.testing.assert_allclose(found.se_difficulty, fitted.table()["se_difficulty"])
    scores.to_csv(tmp_path / "scores.csv", index_label="respondent_id")
    table = pd.DataFrame({"item_id": [*scores.columns, "new"], "length": [*length, 1.0]})
    table.to_csv(tmp_path / "features.csv", index=False)
    run(f"fit {tmp_path}/scores.csv --model gpcm -o {tmp_path}/fit -q")
    for source in ("bank.json", "items.csv"):
        run(f"difficulty {tmp_path}/fit/{source} --features {tmp_path}/features.csv -o {tmp_path}/out")
        effects = pd.read_csv(tmp_path / "out/effects.csv").set_index("term")
        assert effects.loc["length", "effect"] == pytest.approx(found.effect[1], abs=1e-3)
    scores = scores.head(60)
    scores.to_csv(tmp_path / "scores.csv", index_label="respondent_id")
    words = scores.map(dict(enumerate(["poor", "weak", "fair", "good"])).get).rename_axis("respondent_id").reset_index()
    words.to_csv(tmp_path / "words.csv.gz", index=False)
    line = "difficulty {} --features features.csv --model gpcm -o raw --json"
    in_words = "words.csv.gz --levels poor,weak,fair,good"
    monkeypatch.setattr(explained_responses, "MOST_UPDATES", 3)
    raw = [run(line.format(file), cwd=tmp_path, status=None).json for file in ("scores.csv", in_words)]
    assert raw[0] == raw[1]
    effect = {one["term"]: one for one in raw[0]["effects"]}["length"]
    assert effect["effect"] == pytest.approx(0.8, abs=0.15)
    assert (raw[0]["converged"], raw[0]["with_items"], raw[0]["n_new_items"]) == (False, True, 1)


def test_of_two_categories_the_errors_and_effects_are_those_of_the_2pl() -> None:
    responses, features, _ = study(300, 12, seed=2, kind="2pl")
    items = fit_model(responses).items
    both = items, of_two_categories(items)
    one, other = (explain_difficulty(each, features, rng=np.random.default_rng(3)) for each in both)
    pd.testing.assert_frame_equal(one.table(), other.table(), rtol=1e-5)


@pytest.mark.parametrize(
    ("model", "of_two", "shape", "missing"),
    [pytest.param("pcm", "rasch", (50, 8), 0.0, marks=pytest.mark.slow), ("grm", "2pl", (60, 20), 0.85)],
)
def test_grades_of_two_categories_are_explained_as_right_and_wrong(
    model: Any, of_two: Any, shape: tuple[int, int], missing: float
) -> None:
    """The engine has other nodes there; of few answers some items have one category, and slopes at the start none."""
    responses, features, _ = study(*shape, seed=4, missing=missing, kind=of_two)
    expected = explain_responses(responses, features, model=of_two, rng=np.random.default_rng(5))
    table = pd.DataFrame(responses.values, columns=list(responses.item_ids))
    found = explain_grades(table, features, model=model, levels=[0.0, 1.0], rng=np.random.default_rng(5))
    assert found.converged
    np.testing.assert_allclose(found.effect, expected.effect, atol=0.2 * expected.se[1])
    np.testing.assert_allclose(found.se, expected.se, rtol=0.1)
    assert found.residual_sd == pytest.approx(expected.residual_sd, rel=0.1)


def test_items_of_one_grade_count_and_numbers_of_grades_may_be_each_items() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=10)
    grades = graded(rng, x, 40)
    grades.iloc[:, 3] = 3.0  # all of them the highest
    features = ItemFeatures(tuple(grades.columns), ("x",), x[:, None])
    own = {item: [0, 1, 2, 3] for item in grades}
    assert categories_of(grades, None) == own
    found = explain_grades(grades, features, model="gpcm", levels=own, rng=rng)
    assert np.argmin(found.difficulty) == 3
    assert found.converged
    assert found.lower[1] < 0.8 < found.upper[1]
    is_refused("up to 12 categories", explain_grades, grades, features, levels=range(13), rng=rng)


def test_an_item_of_fewer_points_is_known_by_many_grades() -> None:
    grades = pd.DataFrame({"short": [0, 1] * 60, "long": [0, 1, 2, 3] * 30, "same": [1] * 120})
    every = [0, 1, 2, 3]
    assert categories_of(grades, None) == {"short": [0, 1], "long": every, "same": every}
    assert categories_of(grades.iloc[:90], None)["short"] == every
    assert categories_of(grades, every)["short"] == every


@pytest.mark.slow
def test_effects_of_few_grades_are_not_pulled_towards_zero() -> None:
    effects, covered = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=40)
        grades = graded(rng, x, 150)
        some = grades.where(rng.random(grades.shape) < 1 / 6)
        features = ItemFeatures(tuple(grades.columns), ("x",), x[:, None])
        found = explain_grades(some.dropna(how="all"), features, model="gpcm", rng=rng)
        effects.append(found.effect[1])
        covered.append(found.lower[1] <= 0.8 <= found.upper[1])
    assert np.mean(effects) == pytest.approx(0.8, abs=0.09)  # two steps had about .6
    assert all(covered)
