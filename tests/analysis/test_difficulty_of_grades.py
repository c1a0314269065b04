"""Why are prompts graded low: effects on the mean step, with its errors; of two categories those of right and wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from builders.command_line import run
from irtbench import (
    InputError,
    ItemFeatures,
    ItemParameters,
    ResponseMatrix,
    explain_difficulty,
    fit_categories,
    fit_model,
)
from irtbench.analysis import explain_grades, explain_responses, explained_responses
from irtbench.analysis.explained_responses import categories_of
from irtbench.models.category_parameters import CategoryParameters
from irtbench.models.curves import simulate_responses
from irtbench.models.item_models.partial_credit import PartialCredit


@pytest.fixture(autouse=True)
def hardly_any_samples_of_r2(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here says anything of its interval."""
    monkeypatch.setattr("irtbench.analysis.explained_difficulty.N_SAMPLES", {False: 10, True: 10})


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
    length = rng.normal(size=20)
    scores = graded(rng, length, 300)
    fitted = fit_categories(scores, "gpcm")
    items = fitted.items.as_items()
    found = explain_difficulty(items, ItemFeatures(items.item_ids, ("length",), length[:, None]), rng=rng)
    assert found.lower[1] < 0.8 < found.upper[1]
    assert found.residual_lower < 0.3 < found.residual_upper
    np.testing.assert_allclose(found.se_difficulty, fitted.table()["se_difficulty"])
    names = list(scores.columns)
    scores.rename_axis("respondent_id").reset_index().melt(
        "respondent_id", var_name="item_id", value_name="score"
    ).to_csv(tmp_path / "scores.csv", index=False)
    pd.DataFrame({"item_id": [*names, "new"], "length": [*length, 1.0]}).to_csv(tmp_path / "features.csv", index=False)
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
    rng = np.random.default_rng(2)
    truth = ItemParameters.from_difficulty(np.full(12, 1.2), rng.normal(size=12))
    responses = simulate_responses(rng.normal(size=300), truth, rng=rng)
    assert isinstance(responses, ResponseMatrix)
    items = fit_model(responses).items
    two = CategoryParameters.of_right_or_wrong(items).as_items()
    features = ItemFeatures(items.item_ids, ("x",), (truth.difficulty + rng.normal(size=12))[:, None])
    one, other = (explain_difficulty(each, features, rng=np.random.default_rng(3)) for each in (items, two))
    pd.testing.assert_frame_equal(one.table(), other.table(), rtol=1e-5)


@pytest.mark.parametrize(
    ("model", "of_two", "shape", "missing"),
    [("pcm", "rasch", (100, 14), 0.0), ("grm", "2pl", (90, 30), 0.9)],
)
def test_grades_of_two_categories_are_explained_as_right_and_wrong(
    model: Any, of_two: Any, shape: tuple[int, int], missing: float
) -> None:
    """The engine has other nodes there; of few answers some items have one category, and slopes at the start none."""
    (n_respondents, n_items), rng = shape, np.random.default_rng(4)
    x = rng.normal(size=n_items)
    slopes = np.full(n_items, 1.0) if of_two == "rasch" else rng.uniform(0.8, 1.6, n_items)
    truth = ItemParameters.from_difficulty(slopes, 0.7 * x + rng.normal(0, 0.5, n_items))
    responses = simulate_responses(1.4 * rng.normal(size=n_respondents), truth, rng=rng, missing=missing).answered()
    features = ItemFeatures(responses.item_ids, ("x",), x[:, None])
    expected = explain_responses(responses, features, model=of_two, rng=np.random.default_rng(5))
    table = pd.DataFrame(responses.values, columns=list(responses.item_ids))
    found = explain_grades(table, features, model=model, levels=[0.0, 1.0], rng=np.random.default_rng(5))
    assert found.converged
    np.testing.assert_allclose(found.effect, expected.effect, atol=0.2 * expected.se[1])
    np.testing.assert_allclose(found.se, expected.se, rtol=0.1)
    assert found.residual_sd == pytest.approx(expected.residual_sd, rel=0.1)


def test_items_of_one_grade_count_and_numbers_of_grades_may_be_each_items() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=14)
    grades = graded(rng, x, 50)
    grades.iloc[:, 3] = 3.0  # all of them the highest
    features = ItemFeatures(tuple(grades.columns), ("x",), x[:, None])
    own = {item: [0, 1, 2, 3] for item in grades}
    assert categories_of(grades, None) == own
    found = explain_grades(grades, features, model="gpcm", levels=own, rng=rng)
    assert np.argmin(found.difficulty) == 3
    assert found.converged
    assert found.lower[1] < 0.8 < found.upper[1]
    with pytest.raises(InputError, match="up to 12 categories"):
        explain_grades(grades, features, levels=range(13), rng=rng)


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
        found = explain_grades(
            some.dropna(how="all"), ItemFeatures(tuple(grades.columns), ("x",), x[:, None]), model="gpcm", rng=rng
        )
        effects.append(found.effect[1])
        covered.append(found.lower[1] <= 0.8 <= found.upper[1])
    assert np.mean(effects) == pytest.approx(0.8, abs=0.09)  # two steps had about .6
    assert all(covered)
