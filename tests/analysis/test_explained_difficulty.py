"""Explained difficulty: effects, R2 and predictions cover the truth; a prediction is worth the answers it says."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from irtbench import InputError, ItemFeatures, ItemParameters, fit_model, simulate_responses
from irtbench.analysis.explained_difficulty import ExplainedDifficulty, explain_difficulty

N_NEW = 20
pytestmark = pytest.mark.usefixtures("few_samples_of_r2")


def study(
    n_items: int, effects: NDArray[np.float64], *, seed: int, residual: float = 0.7, error: float = 0.2, **keywords: str
) -> tuple[ExplainedDifficulty, NDArray[np.float64], NDArray[np.float64]]:
    """Difficulties linear in features with a residual, known with an error: what is found, and the truth."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_items + N_NEW, effects.size))
    explained = values @ effects
    difficulty = explained + rng.normal(0, residual, explained.size)
    items = ItemParameters.from_difficulty(np.ones(n_items), difficulty[:n_items] + rng.normal(0, error, n_items))
    ids = items.item_ids + tuple(f"new{k}" for k in range(N_NEW))
    names = tuple(f"x{k}" for k in range(effects.size))
    found = explain_difficulty(
        items, ItemFeatures(ids, names, values), standard_errors=np.full(n_items, error), rng=rng, **keywords
    )
    return found, difficulty, explained[:n_items]


@pytest.mark.slow
def test_intervals_cover_effects_r2_and_new_items() -> None:
    effects, n_sets = np.array([0.6, -0.4, 0.0]), 12
    covered = np.zeros(4)
    for seed in range(n_sets):
        found, difficulty, explained = study(40, effects, seed=seed)
        truth = explained.var() / (explained.var() + 0.49)
        covered += [
            ((found.lower[1:] <= effects) & (effects <= found.upper[1:])).mean(),
            found.r2_lower <= truth <= found.r2_upper,
            ((found.predicted_lower <= difficulty[:40]) & (difficulty[:40] <= found.predicted_upper)).mean(),
            ((found.new_lower <= difficulty[40:]) & (difficulty[40:] <= found.new_upper)).mean(),
        ]
    # standard errors: effects .036, R2 .063, items about .014
    assert (covered / n_sets > [0.85, 0.8, 0.91, 0.91]).all()
    assert covered[2:].max() / n_sets < 0.985


@pytest.mark.slow
def test_features_that_say_nothing_are_worth_nothing() -> None:
    found, _, _ = study(60, np.zeros(2), seed=3)
    assert found.r2 < 0.15
    assert found.r2_lower < 0.02
    assert found.r2_cross_validated < 0.1
    assert found.p[1:].min() > 0.01
    assert found.answers_worth < 1


@pytest.mark.slow
def test_with_many_features_effects_are_drawn_to_nothing_and_new_items_still_predicted() -> None:
    effects = np.zeros(30)
    effects[:10] = 0.3
    found, difficulty, _ = study(80, effects, seed=5)
    assert found.shrunk
    new = difficulty[80:]
    error = ((found.new_predicted - new) ** 2).mean()
    assert error < ((difficulty[:80].mean() - new) ** 2).mean()
    assert ((found.new_lower <= new) & (new <= found.new_upper)).mean() > 0.8
    noise, _, _ = study(40, np.zeros(30), seed=6)
    assert np.abs(noise.effect[1:]).max() < 0.3
    assert noise.r2_cross_validated < 0.2


@pytest.mark.slow
def test_a_prediction_is_worth_the_answers_it_says() -> None:
    """New items answered by n people with the prediction as prior are as well known as by n + worth without it."""
    rng = np.random.default_rng(8)
    n_known, n_new, n = 150, 400, 30
    x = rng.normal(size=n_known + n_new)
    difficulty = 0.9 * x + rng.normal(0, 0.4, x.size)
    items = ItemParameters.from_difficulty(np.ones(x.size), difficulty)
    features = ItemFeatures(items.item_ids, ("x",), x[:, None])
    known = replace(items.select(items.item_ids[:n_known]), covariance=None)
    found = explain_difficulty(known, features, standard_errors=np.full(n_known, 0.05), rng=rng)
    worth = round(found.answers_worth)
    assert 15 < worth < 60
    grid = np.linspace(-5, 5, 401)
    theta = rng.normal(size=n + worth)
    answers = rng.random((n_new, theta.size)) < 1 / (1 + np.exp(-(theta - difficulty[n_known:, None])))
    right = 1 / (1 + np.exp(-(theta - grid[:, None])))

    def squared_error(mean: NDArray[np.float64] | float, sd: float, given: slice) -> float:
        log = np.where(answers[:, None, given], np.log(right[:, given]), np.log1p(-right[:, given])).sum(axis=2)
        log = log - 0.5 * ((grid - np.reshape(mean, (-1, 1))) / sd) ** 2
        mass = np.exp(log - log.max(axis=1, keepdims=True))
        return float((((mass @ grid) / mass.sum(axis=1) - difficulty[n_known:]) ** 2).mean())

    reach = (found.new_upper - found.new_lower)[0] / 2 / 1.976  # t with 148 degrees of freedom
    with_prediction = squared_error(found.new_predicted, float(reach), slice(n))
    without = squared_error(0.0, found.total_sd, slice(n))
    with_more = squared_error(0.0, found.total_sd, slice(None))
    assert with_prediction < 0.85 * without
    assert with_prediction == pytest.approx(with_more, rel=0.15)


@pytest.mark.slow
def test_known_items_are_those_of_a_fit() -> None:
    rng = np.random.default_rng(9)
    length = rng.normal(size=30)
    items = ItemParameters.from_difficulty(rng.uniform(0.8, 1.8, 30), 0.8 * length + rng.normal(0, 0.3, 30))
    fitted = fit_model(simulate_responses(rng.normal(size=800), items, rng=rng)).items
    frame = pd.DataFrame({"item_id": [*items.item_ids, "later"], "length": [*length, 1.0]})
    found = explain_difficulty(fitted, frame, rng=rng)
    assert found.effect[1] == pytest.approx(0.8, abs=3 * found.se[1])
    assert found.residual_sd == pytest.approx(0.3, abs=0.12)
    assert found.new_item_ids == ("later",)
    table = found.predictions_table()
    assert table["new"].sum() == 1
    assert np.isnan(table["difficulty"].iloc[-1])
    assert found.r2_lower < found.r2 < found.r2_upper
    # per unit of the feature: in other units the effect is another and p the same
    other = explain_difficulty(fitted, frame.assign(length=100 * frame["length"] + 7), rng=rng)
    assert other.effect[1] == pytest.approx(found.effect[1] / 100)
    assert other.p[1] == pytest.approx(found.p[1])


def test_wrong_input_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irtbench.analysis.explained_difficulty.N_SAMPLES", {False: 10, True: 10})
    rng = np.random.default_rng(1)
    items = ItemParameters.from_difficulty(np.ones(10), rng.normal(size=10))
    x = rng.normal(size=(10, 2))
    errors = np.full(10, 0.2)

    def explained(values: NDArray[np.float64], given: ItemParameters = items, se: object = errors, **keywords: str):
        names = tuple(f"x{k}" for k in range(values.shape[1]))
        return explain_difficulty(
            given, ItemFeatures(items.item_ids, names, values), standard_errors=se, rng=rng, **keywords
        )

    with pytest.raises(InputError, match="standard errors of the difficulties are not known"):
        explained(x, se=None)
    with pytest.raises(InputError, match="3 standard errors for 10 items"):
        explained(x, se=errors[:3])
    with pytest.warns(RuntimeWarning, match="x1 is the same for all items, and is left out"):
        assert explained(np.stack([x[:, 0], np.ones(10)], axis=1)).terms == ("intercept", "x0")
    with pytest.warns(RuntimeWarning, match="x1 says what the features before it say, and is left out"):
        assert explained(np.stack([x[:, 0], 2 * x[:, 0]], axis=1)).terms == ("intercept", "x0")
    both = explained(np.stack([x[:, 0], 2 * x[:, 0]], axis=1), shrinkage="learnt")
    assert both.effect[1] == pytest.approx(2 * both.effect[2], rel=1e-6)  # they share it
    with pytest.raises(InputError, match="every feature is the same for all items"):
        explained(np.ones((10, 2)))
    with pytest.raises(InputError, match="10 items for 8 features; expected shrinkage learnt"):
        explained(rng.normal(size=(10, 8)), shrinkage="none")
    with pytest.raises(InputError, match="7 items of known difficulty; expected at least 8"):
        explained(x, given=items.select(items.item_ids[:7]), se=errors[:7])


def test_the_interval_of_r2_holds_it_though_its_bias_is_larger_than_its_scatter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 2))
    items = ItemParameters.from_difficulty(np.ones(60), x @ [0.8, 0.3] + rng.normal(0, 0.5, 60))
    features = ItemFeatures(items.item_ids, ("x0", "x1"), x)
    shares = iter([0.31, *rng.normal(0.6, 0.02, 1000)])
    monkeypatch.setattr("irtbench.analysis.explained_difficulty.share_explained", lambda *given: float(next(shares)))
    found = explain_difficulty(items, features, standard_errors=np.full(60, 0.1), rng=rng)
    assert found.r2 == 0.31
    assert found.r2_lower == pytest.approx(0.27, abs=0.01)
    assert found.r2_upper == pytest.approx(0.35, abs=0.01)


def test_the_interval_of_r2_lies_about_it_though_hard_items_are_hardly_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples whose extreme items kept their large errors had less to explain: .255 had the interval .253 to .310."""
    monkeypatch.setattr("irtbench.analysis.explained_difficulty.N_SAMPLES", {False: 100, True: 100})
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 2))
    expected = x @ [1.0, 0.5]
    errors = np.where(np.abs(expected) > 1.2, 2.5, 0.2)
    items = ItemParameters.from_difficulty(np.ones(200), expected + rng.normal(size=200) + rng.normal(0, errors))
    features = ItemFeatures(items.item_ids, ("x0", "x1"), x)
    found = explain_difficulty(items, features, standard_errors=errors, rng=rng)
    below, above = found.r2 - found.r2_lower, found.r2_upper - found.r2
    assert 0.05 < below < 1.5 * above  # of 133 items known well the standard error is about .06
    assert 0.05 < above < 1.5 * below


def test_curves_tell_what_straight_lines_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Difficulty that bends in a feature and has a product of two: curves alone predict new items."""
    monkeypatch.setattr("irtbench.analysis.explained_difficulty.N_SAMPLES", {False: 40, True: 40})
    rng = np.random.default_rng(12)
    x = rng.uniform(-1.7, 1.7, size=(160, 2))
    b = np.cos(2 * x[:, 0]) + 0.6 * x[:, 0] * x[:, 1] + rng.normal(0, 0.2, 160)
    features = ItemFeatures(tuple(f"i{k}" for k in range(160)), ("one", "two"), x)
    items = ItemParameters.from_difficulty(np.ones(120), b[:120], item_ids=features.item_ids[:120])
    se = np.full(120, 0.1)
    error = {}
    for curved in (False, True):
        found = explain_difficulty(items, features, standard_errors=se, curved=curved, rng=np.random.default_rng(1))
        assert found.terms == ("intercept", "one", "two")
        error[curved] = np.sqrt(np.mean((found.new_predicted - b[120:]) ** 2))
    assert ((found.new_lower <= b[120:]) & (b[120:] <= found.new_upper)).mean() > 0.85
    assert error[True] < 0.75 * error[False]
    with pytest.raises(InputError, match="curves need effects"):
        explain_difficulty(items, features, standard_errors=se, curved=True, shrinkage="none", rng=rng)
