"""Several abilities and testlets of items in categories: the likelihood, its Hessian, two categories, recovery."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from builders.by_hand import counts_of, demand_a_maximum, with_testlets, with_two_abilities
from irtbench.data.input_error import InputError
from irtbench.estimation.bifactor import BifactorModel, bifactor_scores, fit_bifactor
from irtbench.estimation.factors import FactorModel, factor_scores, fit_factors

Fitted = FactorModel | BifactorModel
TESTLETS = ["a", "a", "a", "b", "b", "b", None]
STEPS = np.array([-1.0, 0.2, 1.1])


def graded(z: NDArray[np.float64], rng: np.random.Generator, missing: float = 0.0) -> NDArray[np.float64]:
    """Grades 0 to 3 of a graded response model with these slopes times abilities."""
    grades = (z[:, :, None] + rng.logistic(size=(*z.shape, 1)) > STEPS).sum(axis=2).astype(float)
    grades[rng.random(z.shape) < missing] = np.nan
    return grades


def of_testlets(n: int, *, seed: int, missing: float = 0.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Grades of seven items, and general abilities."""
    rng = np.random.default_rng(seed)
    theta, own = rng.normal(size=(n, 1)), rng.normal(size=(n, 2))
    z = 1.4 * theta + 1.2 * np.column_stack([own[:, [0, 0, 0, 1, 1, 1]], np.zeros(n)])
    return graded(z, rng, missing), theta[:, 0]


def of_two_abilities(n: int, *, seed: int, missing: float = 0.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Grades of eight items, and slopes: three on each of two abilities, two on both."""
    rng, slopes = np.random.default_rng(seed), np.zeros((8, 2))
    slopes[:5, 0], slopes[3:, 1] = 1.5, 1.2
    return graded(rng.normal(size=(n, 2)) @ slopes.T, rng, missing), slopes


def pattern() -> NDArray[np.bool_]:
    return of_two_abilities(10, seed=0)[1] == 0


@pytest.mark.parametrize(
    ("testlets", "model", "missing"),
    [
        *((False, model, missing) for model, missing in (("2pl", 0.2), ("grm", 0.0), ("gpcm", 0.2))),
        *((True, model, missing) for model, missing in (("2pl", 0.2), ("grm", 0.2), ("gpcm", 0.0))),
    ],
)
def test_the_likelihood_and_its_hessian_are_those_by_hand(testlets: bool, model: str, missing: float) -> None:
    grades = (of_testlets if testlets else of_two_abilities)(400, seed=1, missing=missing)[0]
    grades = grades[~np.isnan(grades).all(axis=1)]
    if model == "2pl":
        grades = np.where(np.isnan(grades), np.nan, grades > 1)
    fitted: Fitted
    if testlets:
        fitted = fit_bifactor(grades, TESTLETS, models=model)
    else:
        fitted = fit_factors(grades, 2, models=model, zero_loadings=pattern())
        assert fitted.what_errors_are_of == "of intercepts and slopes, from the observed information"
    assert fitted.converged
    assert fitted.covariance is not None
    x = torch.from_numpy(np.column_stack([fitted.slopes, fitted.intercepts]))
    free = torch.ones_like(x, dtype=torch.bool)
    free[:, :2] = x[:, :2] != 0
    kind, counts = "logistic" if model == "2pl" else model, counts_of(grades)
    asymptotes = torch.tensor([[0.0, 1.0]] if model == "2pl" else [[]], dtype=torch.float64).expand(len(x), -1)

    def log_likelihood(values: Tensor) -> Tensor:
        own = torch.cat([x.masked_scatter(free, values), asymptotes], dim=1)
        return with_testlets(kind, counts, own, TESTLETS) if testlets else with_two_abilities(kind, counts, own)

    # nodes without mass are left out of a lattice, 1e-7 a response at most: the error that the fit reports
    assert fitted.integration_error < 2e-7
    error = 1.05 * fitted.integration_error * np.isfinite(grades).sum() + 1e-6
    assert fitted.log_likelihood == pytest.approx(float(log_likelihood(x[free])), abs=error)
    errors = np.sqrt(np.diagonal(fitted.covariance, axis1=1, axis2=2)[free.numpy()])
    # of several abilities standard errors are on nodes further apart than the log-likelihood
    demand_a_maximum(log_likelihood, x[free], errors, within=0.02, rtol=1e-4 if testlets else 2e-3)


@pytest.mark.parametrize(
    ("testlets", "model"), [(True, "rasch"), (True, "pcm"), (True, "rsm"), (False, "1pl"), (False, "pcm")]
)
def test_one_slope_on_each_ability_is_the_maximum_by_hand(testlets: bool, model: str) -> None:
    """Of the slopes, which items share, and of each item's intercepts, or the first item's and one of each other."""
    grades = (of_testlets if testlets else of_two_abilities)(150, seed=6, missing=0.1)[0]
    right = model in ("rasch", "1pl")
    grades = np.where(np.isnan(grades), np.nan, grades > 1) if right else grades
    grades = grades[~np.isnan(grades).all(axis=1)]
    fitted: Fitted
    if testlets:
        fitted = fit_bifactor(grades, TESTLETS, models=model)
        shares = np.array([[1, 1, 0]] * 3 + [[1, 0, 1]] * 3 + [[1, 0, 0]], dtype=float)  # of sd's, by item
    else:
        fitted = fit_factors(grades, 2, models=model, zero_loadings=pattern())
        shares = (~pattern()).astype(float)
    assert fitted.converged
    assert fitted.covariance is not None
    share, n_sd, errors = torch.from_numpy(shares), shares.shape[1], np.sqrt(np.diagonal(fitted.covariance, 0, 1, 2))
    first = [int(np.flatnonzero(own)[0]) for own in shares.T]  # an item that has the slope
    column = [0 if not testlets or k == 0 else 1 for k in range(n_sd)] if testlets else [0, 1]
    slopes, behind = fitted.slopes[first, column], fitted.intercepts
    some = np.ones_like(behind, dtype=bool)
    some[1:, 1:] = model != "rsm"
    kind, counts = "logistic" if right else "gpcm", counts_of(grades)

    def log_likelihood(values: Tensor) -> Tensor:
        sd, free = values[:n_sd], values[n_sd:]
        each = share * sd
        own = torch.stack([each[:, 0], each[:, 1:].sum(dim=1)], dim=1)
        d = torch.zeros(behind.shape, dtype=torch.float64).masked_scatter(torch.from_numpy(some), free)
        if model == "rsm":
            d = d[0] + (d[:, :1] - d[0, 0]) * torch.arange(1, d.shape[1] + 1)
        x = torch.cat([own, d, *([torch.tensor([[0.0, 1.0]] * len(d))] if right else [])], dim=1)
        return with_testlets(kind, counts, x, TESTLETS) if testlets else with_two_abilities(kind, counts, x)

    values = torch.from_numpy(np.concatenate([slopes, behind[some]]))
    assert fitted.n_parameters == len(values)
    error = 1.05 * fitted.integration_error * np.isfinite(grades).sum() + 1e-6
    assert fitted.log_likelihood == pytest.approx(float(log_likelihood(values)), abs=error)
    own = np.concatenate([errors[first, column], errors[:, 2:][some]])
    demand_a_maximum(log_likelihood, values, own, within=0.02, rtol=1e-4 if testlets else 2e-3)


@pytest.mark.parametrize(("model", "testlets", "missing"), [("grm", False, 0.2), ("gpcm", True, 0.0)])
def test_two_categories_are_right_and_wrong(model: str, missing: float, testlets: bool) -> None:
    grades = (of_testlets if testlets else of_two_abilities)(400, seed=2, missing=missing)[0]
    right = np.where(np.isnan(grades), np.nan, grades > 1)
    right = right[~np.isnan(right).all(axis=1)]
    one: Fitted
    other: Fitted
    if testlets:
        one, other = (
            fit_bifactor(right, TESTLETS, models=kind, specific_slopes="equal", tolerance=1e-6)
            for kind in ("2pl", model)
        )
    else:
        one, other = (
            fit_factors(right, 2, models=kind, zero_loadings=pattern(), tolerance=1e-6) for kind in ("2pl", model)
        )
    assert one.converged
    assert other.converged
    # nodes are placed where steps have led, and the integral is right to 1e-7 a response or so
    assert other.log_likelihood == pytest.approx(one.log_likelihood, rel=2e-8)
    assert one.covariance is not None
    assert other.covariance is not None
    # a step ends at a millionth of a standard error, of which there are .1 in these units
    np.testing.assert_allclose(other.slopes, one.slopes, atol=1e-6)
    np.testing.assert_allclose(other.intercept, one.intercept, atol=1e-6)
    np.testing.assert_allclose(other.covariance, one.covariance, rtol=1e-4, atol=1e-6)
    assert other.n_parameters == one.n_parameters


def test_labels_long_tables_and_blocks_give_the_same_fit() -> None:
    grades = of_two_abilities(160, seed=3, missing=0.1)[0]
    table = pd.DataFrame(grades, columns=[f"i{j}" for j in range(8)], index=[f"p{i}" for i in range(160)])
    words = ["poor", "fair", "good", "best"]
    labels = table.apply(lambda column: column.map(lambda grade: None if np.isnan(grade) else words[int(grade)]))
    long = table.rename_axis("respondent_id").reset_index().melt("respondent_id", var_name="item_id")
    long = long.dropna().rename(columns={"value": "response"})
    zeros = np.zeros((8, 2), dtype=bool)
    zeros[:4, 1], zeros[4:, 0] = True, True
    fits = [
        fit_factors(table, 2, models="grm", zero_loadings=zeros),
        fit_factors(labels, 2, models="grm", levels=words, zero_loadings=zeros),
        fit_factors(long, 2, models="grm", zero_loadings=zeros),
    ]
    scores = [factor_scores(fit, own) for fit, own in zip(fits, (table, labels, long), strict=True)]
    for fit, own in zip(fits[1:], scores[1:], strict=True):
        np.testing.assert_allclose(fit.slopes, fits[0].slopes, atol=1e-9)
        places = own.set_index("respondent_id").loc[scores[0]["respondent_id"], ["theta_1", "se_2"]]
        np.testing.assert_allclose(places, scores[0][["theta_1", "se_2"]], atol=1e-9)
    assert fits[1].categories[0] == tuple(words)
    assert fits[0].nodes.startswith("2 blocks")


def test_the_table_has_steps_slopes_and_their_errors() -> None:
    grades = of_testlets(200, seed=4)[0]
    fitted = fit_bifactor(grades, TESTLETS, models={f"item{j + 1}": "gpcm" if j % 2 else "grm" for j in range(7)})
    table = fitted.table()
    assert list(table["model"][:2]) == ["grm", "gpcm"]
    wanted = ["n_categories", "step_1", "step_3", "se_step_1", "n_responses", "testlet", "slope_specific"]
    assert set(wanted) < set(table.columns)
    # a step of a graded item on the general ability, at the mean of the testlet's own
    np.testing.assert_allclose(table.loc[0, "step_2"], -fitted.intercepts[0, 1] / fitted.slopes[0, 0])
    assert fitted.summary()["model"] == "bifactor"
    assert fitted.summary()["models"] == ["gpcm", "grm"]
    assert fitted.n_parameters == 7 + 21 + 6
    scores = bifactor_scores(fitted, grades)
    assert list(scores.columns[:4]) == ["respondent_id", "n_items", "n_correct", "accuracy"]
    assert list(scores["n_correct"]) == list(grades.sum(axis=1))


def test_models_of_one_ability_and_repeated_grades_are_refused() -> None:
    grades = of_two_abilities(50, seed=5)[0]
    with pytest.raises(InputError, match="nominal is of one ability"):
        fit_factors(grades, 2, models="nominal")
    with pytest.raises(InputError, match="3pl is of one ability"):
        fit_factors(grades > 1, 2, models="3pl")
    with pytest.raises(InputError, match="go with a pattern of zero loadings"):
        fit_factors(grades, 2, models="pcm")
    blocks = np.repeat([[False, True], [True, False]], 4, axis=0)
    with pytest.raises(InputError, match="rsm has the same steps on all abilities"):
        fit_factors(grades, 2, models="rsm", zero_loadings=blocks)
    letters = pd.DataFrame(grades.astype(int)).map(lambda k: "abcd"[k])
    named = {str(j): list("abcd"[: 3 if j == 0 else 4]) for j in range(8)}
    letters.loc[letters[0] == "d", 0] = "c"
    with pytest.raises(InputError, match="rsm is of items with the same categories; expected pcm"):
        fit_bifactor(letters, ["a"] * 4 + ["b"] * 4, models="rsm", levels=named)
    twice = pd.DataFrame({"respondent_id": [*range(20)] * 4, "item_id": ["i", "j"] * 40, "response": [0, 1, 2, 0] * 20})
    with pytest.raises(InputError, match="several to an item by one respondent"):
        fit_factors(twice, 1, models="grm")


@pytest.mark.slow
def test_graded_testlets_are_recovered_within_their_errors() -> None:
    apart, inside = [], []
    for seed in range(8):
        grades, theta = of_testlets(800, seed=100 + seed)
        fitted = fit_bifactor(grades, TESTLETS, models="grm")
        assert fitted.converged
        errors = fitted.standard_errors()
        apart.append((fitted.slopes[:, 0] - 1.4) / errors["slope_general"])
        apart.append((fitted.slopes[:6, 1] - 1.2) / errors["slope_specific"][:6])
        apart.append((fitted.intercept + STEPS[0]) / errors["intercept"])
        scores = bifactor_scores(fitted, grades)
        inside.append(np.mean(np.abs(scores["theta"] - theta) < 1.96 * scores["se"]))
    standard = np.concatenate(apart)
    # 160 of them: their mean has a standard error of .08 or so, their standard deviation one of .06: errors a fifth too
    # short, of which it would be 1.25, are seen
    assert abs(standard.mean()) < 0.2
    assert standard.std() == pytest.approx(1.0, abs=0.15)
    assert np.mean(inside) == pytest.approx(0.95, abs=0.01)


@pytest.mark.slow
def test_the_standard_deviations_of_partial_credit_with_testlets_are_recovered() -> None:
    apart, inside = [], []
    for seed in range(8):
        rng = np.random.default_rng(300 + seed)
        theta, own = rng.normal(size=(400, 1)), rng.normal(size=(400, 2))
        z = 1.3 * theta + np.column_stack([0.9 * own[:, [0] * 4], 0.6 * own[:, [1] * 4], np.zeros((400, 2))])
        chance = rng.gumbel(size=(400, 10, 4))
        chance[:, :, 1:] += np.cumsum(z[:, :, None] - STEPS, axis=2)
        grades = chance.argmax(axis=2)
        fitted = fit_bifactor(grades, ["a"] * 4 + ["b"] * 4 + [None] * 2, models="pcm")
        assert fitted.converged
        errors = fitted.standard_errors()
        apart.append((fitted.slopes[0, 0] - 1.3) / errors["slope_general"][0])
        apart += [(fitted.slopes[j, 1] - true) / errors["slope_specific"][j] for j, true in ((0, 0.9), (4, 0.6))]
        scores = bifactor_scores(fitted, grades)
        inside.append(np.mean(np.abs(scores["theta"] - theta[:, 0]) < 1.96 * scores["se"]))
    # 24 of them: their mean has a standard error of .2, their standard deviation one of .15
    assert abs(np.mean(apart)) < 0.6
    assert np.std(apart) == pytest.approx(1.0, abs=0.4)
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02)
