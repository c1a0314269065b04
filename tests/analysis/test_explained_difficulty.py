"""Explained difficulty: closed forms, the marginal likelihood by brute force; effects, R2 and predictions cover."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from builders.refusals import is_refused
from irtbench import ItemFeatures, ItemParameters
from irtbench.analysis.explained_difficulty import ExplainedDifficulty, explain_difficulty
from irtbench.analysis.meta_regression import Estimates, meta_regression, with_intercept

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


def test_wrong_input_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irtbench.analysis.explained_difficulty.N_SAMPLES", {False: 3, True: 3})
    rng = np.random.default_rng(1)
    items = ItemParameters.from_difficulty(np.ones(10), rng.normal(size=10))
    x = rng.normal(size=(10, 2))
    errors = np.full(10, 0.2)

    def explained(values: NDArray[np.float64], given: ItemParameters = items, se: object = errors, **keywords: str):
        names = tuple(f"x{k}" for k in range(values.shape[1]))
        return explain_difficulty(
            given, ItemFeatures(items.item_ids, names, values), standard_errors=se, rng=rng, **keywords
        )

    is_refused("standard errors of the difficulties are not known", explained, x, se=None)
    is_refused("3 standard errors for 10 items", explained, x, se=errors[:3])
    with pytest.warns(RuntimeWarning, match="x1 is the same for all items, and is left out"):
        assert explained(np.stack([x[:, 0], np.ones(10)], axis=1)).terms == ("intercept", "x0")
    with pytest.warns(RuntimeWarning, match="x1 says what the features before it say, and is left out"):
        assert explained(np.stack([x[:, 0], 2 * x[:, 0]], axis=1)).terms == ("intercept", "x0")
    both = explained(np.stack([x[:, 0], 2 * x[:, 0]], axis=1), shrinkage="learnt")
    assert both.effect[1] == pytest.approx(2 * both.effect[2], rel=1e-6)  # they share it
    is_refused("every feature is the same for all items", explained, np.ones((10, 2)))
    eight, few = rng.normal(size=(10, 8)), items.select(items.item_ids[:7])
    is_refused("10 items for 8 features; expected shrinkage learnt", explained, eight, shrinkage="none")
    is_refused("7 items of known difficulty; expected at least 8", explained, x, given=few, se=errors[:7])
    assert (explained(eight).shrunk, explained(x[:, :1]).shrunk) == (True, False)
    # per unit of the feature: in other units the effect is another and p the same
    one, other = explained(x), explained(100 * x + 7)
    np.testing.assert_allclose(other.effect[1:], one.effect[1:] / 100)
    np.testing.assert_allclose(other.p[1:], one.p[1:])


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
    assert found.predictions_table()["new"].sum() == found.predictions_table()["difficulty"].isna().sum() == 40
    given = {"standard_errors": se, "curved": True, "shrinkage": "none"}
    is_refused("curves need effects", explain_difficulty, items, features, **given, rng=rng)


# --- meta-regression -------------------------------------------------------------------------------------------------


def test_without_errors_it_is_least_squares(reference: Path) -> None:
    folder = reference / "next" / "10_lltm"
    items, x = pd.read_csv(folder / "verbal_items.csv"), pd.read_csv(folder / "verbal_features.csv")
    printed = pd.read_csv(folder / "verbal_regression.csv").set_index(["model", "term"])
    for model, column in (("ols_2pl_b", "b_2pl"), ("ols_rasch_b", "b_rasch")):
        found = meta_regression(Estimates(items[column].to_numpy(), np.zeros(24)), x.iloc[:, 1:].to_numpy(float))
        expected = printed.loc[model]
        np.testing.assert_allclose(found.coefficients, expected["coef"], atol=1e-6)
        np.testing.assert_allclose(np.sqrt(np.diagonal(found.covariance)), expected["se"], rtol=1e-4)
        assert found.residual_sd == pytest.approx(expected["sigma"].iloc[0], rel=1e-4)


def test_equal_errors_leave_the_residual_variance_what_they_do_not_take() -> None:
    # REML with var = s^2 + se^2 alike for all: s^2 = RSS / (n - p) - se^2
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 2))
    b = x @ [0.5, -0.2] + rng.normal(0, 0.6, 30)
    rest = b - with_intercept(x) @ np.linalg.lstsq(with_intercept(x), b, rcond=None)[0]
    found = meta_regression(Estimates(b, np.full(30, 0.3)), x)
    assert found.residual_sd**2 == pytest.approx(rest @ rest / 27 - 0.09, rel=1e-3)
    assert meta_regression(Estimates(b, np.full(30, 3.0)), x).residual_sd == 0.0


def test_shrunken_effects_are_the_posterior_at_the_largest_marginal_likelihood() -> None:
    rng = np.random.default_rng(2)
    x, se = rng.normal(size=(25, 10)), rng.uniform(0.1, 0.4, 25)
    b = 0.3 * x.sum(axis=1) / np.sqrt(10) + rng.normal(0, np.sqrt(0.25 + se**2))
    found = meta_regression(Estimates(b, se), x, shrink=True)

    def log_likelihood(s: float, effect: float) -> float:
        # a next to flat intercept; its variance adds a constant
        covariance = np.diag(s**2 + se**2) + effect**2 * x @ x.T + 1e6
        return float(multivariate_normal.logpdf(b, np.zeros(25), covariance, allow_singular=True))

    best = log_likelihood(found.residual_sd, found.effect_sd)
    for s, effect in ((1.05, 1), (0.95, 1), (1, 1.05), (1, 0.95)):
        assert log_likelihood(found.residual_sd * s, found.effect_sd * effect) < best + 1e-4
    weight = np.diag(1 / (found.residual_sd**2 + se**2))
    design, prior = with_intercept(x), np.diag([0.0, *np.full(10, found.effect_sd**-2)])
    expected = np.linalg.solve(design.T @ weight @ design + prior, design.T @ weight @ b)
    np.testing.assert_allclose(found.coefficients, expected, atol=1e-8)


def test_more_features_than_items_predict_as_without_the_rotation() -> None:
    rng = np.random.default_rng(3)
    x, se = rng.normal(size=(12, 40)), np.full(12, 0.2)
    b = x[:, 0] + rng.normal(0, 0.3, 12)
    found = meta_regression(Estimates(b, se), x, shrink=True)
    design, prior = with_intercept(x), np.diag([1e-12, *np.full(40, found.effect_sd**-2)])
    weight = np.diag(1 / (max(found.residual_sd, 1e-9) ** 2 + se**2))
    covariance = np.linalg.inv(design.T @ weight @ design + prior)
    new = rng.normal(size=(5, 40))
    mean, variance = found.predicted(new)
    at = with_intercept(new)
    np.testing.assert_allclose(mean, at @ covariance @ design.T @ weight @ b, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(variance, found.residual_sd**2 + np.einsum("jp,pq,jq->j", at, covariance, at), rtol=1e-3)


def correlated(n_items: int, rng: np.random.Generator) -> np.ndarray:
    """A covariance of errors with much in common."""
    root = rng.normal(0, 0.15, (n_items, n_items))
    return root @ root.T / n_items + np.diag(rng.uniform(0.02, 0.2, n_items)) + 0.05


def test_correlated_errors_are_those_of_generalised_least_squares_and_reml() -> None:
    rng = np.random.default_rng(5)
    x, covariance = rng.normal(size=(20, 2)), correlated(20, rng)
    b = x @ [0.6, -0.3] + rng.multivariate_normal(np.zeros(20), covariance + 0.16 * np.eye(20))
    found = meta_regression(Estimates.of_covariance(b, covariance), x, interval=True)
    design = with_intercept(x)

    def restricted(s: float) -> float:
        v = covariance + s**2 * np.eye(20)
        inverse = np.linalg.inv(v)
        precision = design.T @ inverse @ design
        rest = b - design @ np.linalg.solve(precision, design.T @ inverse @ b)
        return -0.5 * float(np.linalg.slogdet(v)[1] + np.linalg.slogdet(precision)[1] + rest @ inverse @ rest)

    v = np.linalg.inv(covariance + found.residual_sd**2 * np.eye(20))
    expected = np.linalg.inv(design.T @ v @ design)
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-8)
    np.testing.assert_allclose(found.coefficients, expected @ design.T @ v @ b, rtol=1e-8)
    top = restricted(found.residual_sd)
    assert max(restricted(1.02 * found.residual_sd), restricted(0.98 * found.residual_sd)) < top
    for end in (found.residual_lower, found.residual_upper):  # half the 95% point of chi-square with 1 df
        assert restricted(end) == pytest.approx(top - 1.9207, abs=1e-3)


def test_errors_of_some_items_and_draws_are_those_of_their_covariance() -> None:
    rng = np.random.default_rng(6)
    covariance = correlated(6, rng)
    errors, chosen = Estimates.of_covariance(np.zeros(6), covariance), np.array([4, 0, 3])
    np.testing.assert_allclose(errors.variances, np.diagonal(covariance), rtol=1e-10)
    some = errors.select(chosen)
    np.testing.assert_allclose((some.axes * some.sd**2) @ some.axes.T, covariance[np.ix_(chosen, chosen)], atol=1e-12)
    drawn = np.stack([errors.drawn(np.arange(6), 0.5, rng).values for _ in range(6_000)])
    np.testing.assert_allclose(drawn.mean(axis=0), np.arange(6), atol=0.02)
    np.testing.assert_allclose(np.cov(drawn.T), covariance + 0.25 * np.eye(6), atol=0.02)
    plain = Estimates(np.zeros(3), np.array([0.1, 0.2, 0.3]))
    np.testing.assert_allclose(plain.select(np.array([2, 0])).variances, [0.09, 0.01])
    assert plain.drawn(np.zeros(3), 0.0, rng).values.shape == (3,)


def test_a_residual_of_nothing_has_an_interval_from_nothing() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(30, 1))
    found = meta_regression(Estimates(x[:, 0] + rng.normal(0, 0.3, 30), np.full(30, 0.5)), x, interval=True)
    assert found.residual_sd == found.residual_lower == 0.0
    assert 0 < found.residual_upper < 0.5
