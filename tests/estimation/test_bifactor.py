"""Testlets: the likelihood by dimension reduction, its derivatives, R mirt's figures, recovery, pairs, no effect."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from builders.refusals import is_refused
from irtbench import ResponseMatrix
from irtbench.analysis.model_comparison import effect_of_testlets
from irtbench.estimation.bifactor import bifactor_scores, fit_bifactor
from irtbench.estimation.dispersion import p_on_boundary

Drawn = tuple[ResponseMatrix, list[str | None], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def drawn(n: int, sizes: list[int], effect: float, *, seed: int, alone: int = 0, missing: float = 0.0) -> Drawn:
    """Responses, testlets, slopes (general, specific), intercepts, general abilities."""
    rng = np.random.default_rng(seed)
    names = [f"t{k}" for k, size in enumerate(sizes) for _ in range(size)]
    n_in, n_items = len(names), len(names) + alone
    slopes = np.column_stack([rng.lognormal(0.2, 0.3, n_items), np.zeros(n_items)])
    slopes[:n_in, 1] = effect * np.exp(rng.normal(0, 0.15, n_in))
    intercept, theta = rng.normal(size=n_items), rng.normal(size=n)
    own = rng.normal(size=(n, len(sizes) + 1))
    place = [k for k, size in enumerate(sizes) for _ in range(size)] + [len(sizes)] * alone
    z = slopes[:, 0] * theta[:, None] + slopes[:, 1] * own[:, place] + intercept
    values = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(float)
    values[rng.random(z.shape) < missing] = np.nan
    responses = ResponseMatrix(values, tuple(map(str, range(n))), tuple(f"i{j}" for j in range(n_items)))
    return responses, [*names, *[None] * alone], slopes, intercept, theta


def test_the_figures_are_those_of_mirt(reference: Path) -> None:
    """R mirt 1.45.1, bfactor(X, specific, quadpts = 31, TOL = 1e-5)."""
    data, theirs, fit = (pd.read_csv(reference / "next" / "09_bifactor_4pl" / f"testlet_{name}.csv")
                         for name in ("data", "bifactor", "fit"))  # fmt: skip
    responses = ResponseMatrix(data.to_numpy(), tuple(map(str, range(len(data)))), tuple(data.columns))
    fitted = fit_bifactor(responses, [str(k) for k in theirs["specific"]])
    assert fitted.converged
    assert fitted.integration_error < 1e-8
    log_likelihood, n_parameters, aic, bic = fit.loc[0, ["loglik", "n_par", "AIC", "BIC"]]
    assert fitted.log_likelihood == pytest.approx(log_likelihood, abs=1e-3)
    assert fitted.log_likelihood > log_likelihood
    assert fitted.n_parameters == n_parameters
    assert (fitted.aic, fitted.bic) == (pytest.approx(aic, abs=1e-3), pytest.approx(bic, abs=1e-3))
    # a specific ability's sign is arbitrary; item 6, whose slopes are hardly determined (standard error .9), by itself
    own = fitted.slopes[:, 1] * np.where(theirs["specific"] == 4, -1, 1)
    known = theirs["item"] != "i06"
    far = theirs["specific"] == 2  # with item 6
    for mine, name in ((fitted.slopes[:, 0], "a_general"), (own, "a_specific"), (fitted.intercept, "d")):
        np.testing.assert_allclose(mine[known & ~far], theirs[name][known & ~far], atol=6e-4)
        np.testing.assert_allclose(mine[known], theirs[name][known], atol=4e-3)
    standard_error = fitted.standard_errors()["slope_specific"][5]
    assert abs(own[5] - theirs["a_specific"][5]) < 0.05 * standard_error
    ecv = float(fit.loc[2, "loglik"])
    assert fitted.explained_common_variance == pytest.approx(ecv, abs=5e-4)


@pytest.mark.slow
def test_abilities_are_covered_and_an_effect_is_found() -> None:
    responses, testlets, _, _, theta = drawn(2000, [4, 4, 3], 1.0, seed=1, alone=3, missing=0.1)
    fitted = fit_bifactor(responses, testlets)
    assert (fitted.slopes[11:, 1] == 0).all()
    assert np.isnan(fitted.standard_errors()["slope_specific"][11:]).all()
    scores = bifactor_scores(fitted, responses)
    covered = np.abs(scores["theta"] - theta) < 1.96 * scores["se"]
    assert covered.mean() == pytest.approx(0.95, abs=0.015)
    # as if there were no testlets the same interval is too short
    effect = effect_of_testlets(responses, fitted)
    alone = effect.abilities
    assert (np.abs(alone["theta_one_ability"] - theta) < 1.96 * alone["se_one_ability"]).mean() < 0.92
    assert effect.mean_error[0] > 1.1 * effect.mean_error[1]
    assert effect.test.p < 1e-10
    assert "one ability" not in effect.preferred.values()


def test_without_an_effect_slopes_are_small_and_one_ability_is_preferred() -> None:
    responses, testlets, *_ = drawn(500, [4, 4, 4], 0.0, seed=0)
    fitted = fit_bifactor(responses, testlets, specific_slopes="equal")
    assert fitted.converged
    assert np.abs(fitted.slopes[:, 1]).max() < 0.4
    assert fitted.explained_common_variance > 0.95
    effect = effect_of_testlets(responses, fitted)
    assert effect.equal_slopes is fitted
    assert effect.preferred == {"aic": "one ability", "bic": "one ability"}
    assert effect.test.p > 0.05
    assert effect.test.df == 3
    assert effect.mean_error[0] == pytest.approx(effect.mean_error[1], rel=0.02)
    # a slope at its bound has no standard error
    at_bound = np.abs(fitted.slopes[:, 1]) < 1e-3
    assert at_bound.any()
    assert np.isnan(fitted.standard_errors()["slope_specific"][at_bound]).all()
    assert (fitted.standard_errors()["slope_specific"][~at_bound] > 0).all()


@pytest.mark.slow
def test_free_slopes_without_an_effect_grow_and_the_advice_is_equal_ones() -> None:
    responses, testlets, *_ = drawn(300, [3, 3, 3], 0.0, seed=1)
    free = fit_bifactor(responses, testlets)
    assert not free.converged
    assert "--specific-slopes equal" in free.stopped_because
    assert free.covariance is None
    assert free.summary()["standard_errors"] == "not computed"
    # it is not preferred, however high the likelihood it was going to
    effect = effect_of_testlets(responses, free)
    assert effect.preferred == {"aic": "one ability", "bic": "one ability"}
    assert list(effect.table()["converged"]) == [True, True, False]


def test_omega_and_explained_common_variance_by_hand() -> None:
    # all loadings .6 and .4 by the choice of slopes: 1.702 l / sqrt(1 - .36 - .16)
    slopes = np.tile(1.702 * np.array([0.6, 0.4]) / np.sqrt(0.48), (4, 1))
    responses, _, *_ = drawn(20, [2, 2], 1.0, seed=1)
    template = fit_bifactor(responses, ["a", "a", "b", "b"], max_steps=1, standard_errors=False)
    model = replace(template, slopes=slopes)
    np.testing.assert_allclose(model.loadings, [[0.6, 0.4]] * 4)
    # general (4 x .6)^2 = 5.76, specific 2 (2 x .4)^2 = 1.28, error 4 x .48 = 1.92
    assert model.omega == pytest.approx(7.04 / 8.96)
    assert model.omega_hierarchical == pytest.approx(5.76 / 8.96)
    assert model.explained_common_variance == pytest.approx(0.36 / 0.52)
    assert list(model.testlet_table()["share_specific"]) == pytest.approx([0.16 / 0.52] * 2)


def test_p_of_variances_on_their_boundary() -> None:
    # one variance: half a point at 0, half chi-square with one degree of freedom, whose .95 quantile is 3.841
    assert p_on_boundary(3.841459, 1) == pytest.approx(0.025, abs=1e-6)
    # two: a quarter at 0, half with one, a quarter with two degrees of freedom, exp(-x / 2)
    assert p_on_boundary(3.841459, 2) == pytest.approx(0.025 + 0.25 * np.exp(-3.841459 / 2), abs=1e-6)
    assert p_on_boundary(0.0, 3) == 1.0


@pytest.mark.parametrize(
    ("testlets", "saying"),
    [
        (["a", "b", "c", None, None, None], "no two items are of one testlet"),
        (["a"] * 6, "all items are of one testlet, a"),
        (["a", "a"], "2 names for 6 items"),
        ({"other": "a"}, "no two items are of one testlet"),
    ],
)
def test_testlets_that_are_none_are_refused(testlets: list[str | None] | dict[str, str], saying: str) -> None:
    responses, *_ = drawn(50, [3, 3], 0.0, seed=1)
    is_refused(saying, fit_bifactor, responses, testlets)


def test_an_item_alone_in_its_testlet_is_in_none() -> None:
    responses, *_ = drawn(300, [3, 3], 0.8, seed=6)
    fitted = fit_bifactor(responses, ["a", "a", "a", "b", "b", "c"], max_steps=3, standard_errors=False)
    assert fitted.single == ("i5",)
    assert fitted.testlets[5] is None
    assert fitted.slopes[5, 1] == 0


def test_a_testlet_of_which_nobody_answered_two_items_is_doubted() -> None:
    responses, *_ = drawn(300, [3, 3], 0.8, seed=6)
    values = responses.values.copy()
    values[:150, 0] = values[150:, 1] = np.nan
    fitted = fit_bifactor(values, ["a", "a", None, "b", "b", "b"], max_steps=3, standard_errors=False)
    assert [doubt[:50] for doubt in fitted.doubts] == ["no respondent answered two items of testlet a: not"]


def test_models_without_a_maximum_are_not_compared() -> None:
    """Few people, uneven, easy items: slopes grow without end, and neither p nor shares of variance are reported."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=(25, 1)) * 2 + 1.5 * rng.gamma(1.5, size=12)
    values = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(float)
    values[rng.random(z.shape) < np.linspace(0, 0.7, 25)[:, None]] = np.nan
    shares = np.nanmean(values, axis=0)
    values = values[:, (shares > 0) & (shares < 1)]
    values = values[~np.isnan(values).all(axis=1)]
    testlets = ["AB"[k % 2] for k in range(values.shape[1])]
    fitted = fit_bifactor(values, testlets, specific_slopes="equal")
    assert not fitted.converged
    effect = effect_of_testlets(values, fitted)
    assert np.isnan(effect.test.p)
    words = " ".join(effect.in_words())
    assert "no test, for a model without a maximum has no likelihood ratio" in words
    assert "p = " not in words
    assert "explained common variance" not in words
