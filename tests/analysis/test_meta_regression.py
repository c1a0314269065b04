"""Meta-regression: least squares without errors, closed forms, and the marginal likelihood by brute force."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from irtbench.analysis.meta_regression import Estimates, meta_regression, with_intercept


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
    drawn = np.stack([errors.drawn(np.arange(6), 0.5, rng).values for _ in range(20_000)])
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
