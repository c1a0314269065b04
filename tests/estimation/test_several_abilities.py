"""Several abilities: R mirt, nodes, saddles, blocks as fits of their own, errors, trials, nested models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import logit

from builders.mirt_figures import papers_scale
from builders.problem import right_or_wrong
from builders.refusals import is_refused
from irtbench import InputError, ItemParameters, ResponseMatrix, fit_model, likelihood_ratio
from irtbench.estimation.factors import FactorModel, factor_scores, fit_factors
from irtbench.estimation.marginal.nodes import MOST_ERROR, change_of_likelihood
from irtbench.estimation.several_abilities.factor_problem import Factors, factor_problem
from irtbench.estimation.several_abilities.rotation_freedom import number_of_turns, towards_pattern
from irtbench.models.pyro_model.tensors import ItemTensors
from irtbench.scoring.ability import estimate_ability


def drawn(
    slopes: NDArray[np.float64], n_respondents: int, *, seed: int, missing: float = 0.0
) -> tuple[NDArray[np.float64], ResponseMatrix]:
    """Abilities, and responses to items of these slopes and moderate difficulties."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n_respondents, slopes.shape[1]))
    p = 1 / (1 + np.exp(-(theta @ slopes.T + rng.normal(0, 1.0, len(slopes)))))
    values = (rng.random(p.shape) < p).astype(float)
    values[rng.random(p.shape) < missing] = np.nan
    ids = tuple(f"item{j}" for j in range(len(slopes)))
    return theta, ResponseMatrix(values, tuple(map(str, range(n_respondents))), ids)


def simple_structure(n_each: int, n_factors: int, *, seed: int, steep: float = 1.5) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    slopes = np.zeros((n_each * n_factors, n_factors))
    for k in range(n_factors):
        slopes[n_each * k : n_each * (k + 1), k] = rng.uniform(0.7 * steep, 1.3 * steep, n_each)
    return slopes


def two_abilities(n_respondents: int, *, seed: int) -> ResponseMatrix:
    """Responses to ten items, five on the first ability and five on the second."""
    return drawn(simple_structure(5, 2, seed=seed), n_respondents, seed=seed)[1]


@pytest.mark.slow
def test_the_lattice_is_right_for_three_abilities_known_well_and_the_old_grid_is_not() -> None:
    """20 steep items each; the slopes' axes are turned, so that nothing factorises."""
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    slopes = simple_structure(20, 3, seed=1, steep=2.4) @ rotation
    _, responses = drawn(slopes, 300, seed=2)
    intercept = torch.from_numpy(logit(responses.values.mean(axis=0)) * 1.8)
    items = ItemTensors(torch.from_numpy(slopes), intercept, torch.zeros_like(intercept))
    problem = factor_problem(right_or_wrong(responses), 3, None)
    coarse = problem.problem.log_likelihood(items)
    right = problem.placed(items, room=1.3)
    here = right.problem.log_likelihood(items)
    assert change_of_likelihood(right.problem, items, here, right.others(items, room=1.3)) < MOST_ERROR
    # nodes .75 apart: far from it, and the check says so
    assert change_of_likelihood(problem.problem, items, coarse, problem.others(items, room=1.3)) > 100 * MOST_ERROR
    # half as far apart: the same
    finer = problem.placed(items, room=0.8)
    assert finer.problem.log_likelihood(items) == pytest.approx(here, abs=MOST_ERROR * responses.n_responses)


def test_scores_of_three_steep_scales_cover_their_abilities() -> None:
    slopes = simple_structure(20, 3, seed=1, steep=2.4)
    theta, responses = drawn(slopes, 1000, seed=2)
    fitted = fit_factors(responses, 3, zero_loadings=slopes == 0)
    assert fitted.converged
    assert fitted.integration_error < MOST_ERROR
    scores = factor_scores(fitted, responses)
    for k in range(3):
        inside = np.abs(scores[f"theta_{k + 1}"] - theta[:, k]) < 1.96 * scores[f"se_{k + 1}"]
        # 1000 respondents: a share of .95 has a standard error of .007
        assert inside.mean() == pytest.approx(0.95, abs=0.025)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_pattern_of_simple_structure_is_the_fits_of_one_ability_each(missing: float) -> None:
    slopes = simple_structure(6, 2, seed=3)
    _, responses = drawn(slopes, 500, seed=4, missing=missing)
    both = fit_factors(responses, 2, zero_loadings=slopes == 0)
    assert both.converged
    total, errors = 0.0, both.standard_errors()
    for k in range(2):
        mine = slice(6 * k, 6 * k + 6)
        part = responses.select_items(responses.item_ids[mine])
        alone = fit_model(part.select_respondents(part.n_by_respondent > 0))
        total += alone.log_likelihood
        np.testing.assert_allclose(both.slopes[mine, k], alone.items.discrimination, atol=1e-4)
        np.testing.assert_allclose(both.intercept[mine], alone.items.intercept, atol=1e-4)
        for name in ("discrimination", "difficulty", "intercept"):
            np.testing.assert_allclose(errors[name][mine], alone.items.standard_errors()[name], rtol=1e-3)
    assert both.log_likelihood == pytest.approx(total, abs=1e-4)
    assert np.isnan(errors["slope_2"][:6]).all()


@pytest.fixture(scope="module")
def two() -> ResponseMatrix:
    return drawn(simple_structure(8, 2, seed=9, steep=2.0), 600, seed=10)[1]


@pytest.fixture(scope="module")
def exploratory(two: ResponseMatrix) -> FactorModel:
    return fit_factors(two, 2)


def test_a_pattern_of_ones_is_exploratory(two: ResponseMatrix, exploratory: FactorModel) -> None:
    ones = fit_factors(two, 2, zero_loadings=np.zeros((16, 2), dtype=bool))
    assert ones.converged
    assert ones.log_likelihood == exploratory.log_likelihood
    assert ones.n_parameters == exploratory.n_parameters == 47
    # one slope fixed at zero takes nothing but the freedom of the axes
    zeros = np.zeros((16, 2), dtype=bool)
    zeros[0, 1] = True
    echelon = fit_factors(two, 2, zero_loadings=zeros)
    assert echelon.converged
    assert echelon.n_parameters == 47
    assert echelon.log_likelihood == pytest.approx(exploratory.log_likelihood, abs=0.01)
    # discrimination and difficulty do not depend on the axes, nor do their standard errors
    mine, other = echelon.standard_errors(), exploratory.standard_errors()
    for name in ("discrimination", "difficulty", "intercept"):
        np.testing.assert_allclose(mine[name], other[name], rtol=0.02)


def test_steps_that_end_at_a_saddle_go_on(
    two: ResponseMatrix, exploratory: FactorModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Factors.starts

    def flat(abilities: Factors) -> list[ItemTensors]:
        """No slopes on the second ability: it could have them on either side, and no step goes there."""
        (start,) = usual(abilities)
        column = start.slope[:, :1].abs()
        return [ItemTensors(torch.cat([column, torch.zeros_like(column)], dim=1), start.intercept, start.guessing)]

    monkeypatch.setattr(Factors, "starts", flat)
    found = fit_factors(two, 2)
    assert found.converged
    assert found.log_likelihood == pytest.approx(exploratory.log_likelihood, abs=0.01)


def test_rotations_that_a_pattern_leaves() -> None:
    free = np.ones((6, 3), dtype=bool)
    assert number_of_turns(free) == 3
    free[0, 1:] = False
    assert number_of_turns(free) == 1  # the second and third axis may still turn in their plane
    free[1, 2] = False
    assert number_of_turns(free) == 0
    truth = torch.tensor([[1.0, 0.0], [0.8, 0.0], [0.0, 0.9], [0.0, 1.1]], dtype=torch.float64)
    angle = torch.tensor(0.7, dtype=torch.float64)
    turn = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
    found = towards_pattern(truth @ turn, truth != 0)
    torch.testing.assert_close(found.abs(), truth, atol=1e-8, rtol=0)


def test_slopes_that_may_turn_have_no_standard_errors_but_intercepts_do() -> None:
    slopes = np.zeros((10, 3))
    slopes[:, 0], slopes[3:, 1], slopes[3:7, 2] = 1.2, 1.0, 1.4
    _, responses = drawn(slopes, 300, seed=13)
    zeros = np.zeros((10, 3), dtype=bool)
    zeros[:3, 1:] = True
    fitted = fit_factors(responses, 3, zero_loadings=zeros)
    errors = fitted.standard_errors()
    assert fitted.converged
    assert np.isnan(errors["slope_2"]).all()
    assert (errors["intercept"] > 0).all()
    assert "axes that the pattern leaves free" in fitted.what_errors_are_of
    assert fitted.n_parameters == 10 + 24 - 1


def test_the_table_and_the_summary_say_what_they_hold(two: ResponseMatrix, exploratory: FactorModel) -> None:
    table, summary = exploratory.table(), exploratory.summary()
    assert (table[["se_discrimination", "se_difficulty", "se_intercept", "se_slope_1", "se_slope_2"]] > 0).all().all()
    assert summary["standard_errors"] == (
        "of intercepts and of slopes on principal axes, from the observed information"
    )
    assert summary["quadrature"].startswith("lattice of ")
    assert summary["integration_error"] < MOST_ERROR
    without = fit_factors(two, 2, standard_errors=False)
    assert without.summary()["standard_errors"] == "not computed"
    assert without.table()["se_intercept"].isna().all()


def test_scores_of_trials_are_those_of_an_item_a_trial(two: ResponseMatrix, exploratory: FactorModel) -> None:
    second = two.values[::-1]
    both = ResponseMatrix(two.values + second, two.respondent_ids, two.item_ids, np.full(second.shape, 2))
    names = (*two.item_ids, *(f"{item} again" for item in two.item_ids))
    slopes, intercepts = (np.tile(part, (2, 1)) for part in (exploratory.slopes, exploratory.intercepts))
    kinds = {"models": 2 * exploratory.models, "categories": 2 * exploratory.categories}
    twice = replace(exploratory, item_ids=names, slopes=slopes, intercepts=intercepts, covariance=None, **kinds)
    expected = factor_scores(twice, ResponseMatrix(np.hstack([two.values, second]), two.respondent_ids, names))
    found = factor_scores(exploratory, both)
    for name in ("theta_1", "theta_2", "se_1", "se_2", "accuracy", "n_correct"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6)
    assert (found["n_trials"] == 32).all()


@pytest.mark.parametrize("label", ["entailment", "neutral"])
def test_two_factors_reach_mirts_likelihood(real_data: Path, reference: Path, label: str) -> None:
    responses, _, _ = papers_scale(real_data, reference, label)
    mirt = pd.read_csv(reference / f"mirt_5gs_{label}_model_fit.csv").set_index("model").loc["2f_2pl"]
    fitted = fit_factors(responses, 2)
    assert fitted.converged
    assert fitted.log_likelihood > mirt["logLik"] - 1.0
    assert fitted.n_parameters == mirt["npar"]
    assert fitted.aic < mirt["AIC"] + 2.0


@pytest.mark.slow
def test_four_abilities_by_quasi_monte_carlo_come_near_the_smaller_model() -> None:
    responses = two_abilities(400, seed=4)
    two, four = fit_factors(responses, 2), fit_factors(responses, 4)
    assert four.slopes.shape == (10, 4)
    assert four.log_likelihood > two.log_likelihood - 1.0  # it contains the smaller one


def test_loadings_and_the_halved_p_of_a_parameter_on_its_boundary(exploratory: FactorModel) -> None:
    # a = 1.702: h2 = a^2 / (a^2 + 1.702^2) = 1/2, the loading its root
    one = replace(exploratory, slopes=np.array([[1.702, 0]]), covariance=None)
    np.testing.assert_allclose(one.loadings, [[np.sqrt(0.5), 0]])
    models, categories = exploratory.models[:2], exploratory.categories[:2]
    one, two = (
        replace(
            exploratory, item_ids=("a", "b"), models=models, categories=categories, covariance=None, n_respondents=50,
            slopes=np.ones((2, n)), intercepts=np.zeros((2, 1)), log_likelihood=level,
        )
        for n, level in ((1, -100.0), (2, -98.0))
    )  # fmt: skip
    # 4 and 5 parameters, statistic 4: P(chi2(1) > 4) = .0455
    whole, halved = likelihood_ratio(one, two), likelihood_ratio(one, two, on_boundary=True)
    assert whole.df == 1
    assert whole.p == pytest.approx(0.04550, abs=1e-5)
    assert halved.p == whole.p / 2
    is_refused("more parameters", likelihood_ratio, two, one)
    for n in (49, 51):
        with pytest.raises(InputError, match=f"models of {n} and 50 respondents cannot be compared"):
            likelihood_ratio(replace(one, n_respondents=n), two)


@pytest.mark.parametrize(
    ("n_factors", "zeros", "saying"),
    [
        (10, None, "expected between 1 and 9"),
        (2, np.zeros((3, 2)), "expected \\(10, 2\\)"),
        (2, np.ones((10, 2)), "without any slope"),
        (3, np.tile([0, 0, 1], (10, 1)), "an ability without any item"),
    ],
)
def test_bad_patterns_are_refused(n_factors: int, zeros: np.ndarray | None, saying: str) -> None:
    is_refused(saying, fit_factors, two_abilities(50, seed=5), n_factors, zero_loadings=zeros)


def test_scores_of_one_factor_are_eaps() -> None:
    first = two_abilities(600, seed=3).select_items([f"item{j}" for j in range(5)])
    one = fit_factors(first, 1, tolerance=1e-5)
    items = ItemParameters(first.item_ids, one.slopes[:, 0], one.intercept, np.zeros(5), np.zeros(5, dtype=bool))
    scores, abilities = factor_scores(one, first), estimate_ability(first, items)
    np.testing.assert_allclose(scores["theta_1"], abilities.theta, atol=1e-6)
    np.testing.assert_allclose(scores["se_1"], abilities.standard_error, atol=1e-6)
    np.testing.assert_array_equal(scores["n_correct"], first.values.sum(axis=1))
    of_one, of_model = one.standard_errors(), fit_model(first).items.standard_errors()
    np.testing.assert_allclose(of_one["slope_1"], of_model["discrimination"], rtol=1e-3)
    np.testing.assert_allclose(of_one["intercept"], of_model["intercept"], rtol=1e-3)


def test_more_items_than_respondents_are_a_doubt_of_several_abilities() -> None:
    rng = np.random.default_rng(2)
    answers = (rng.random((24, 25)) < 0.5).astype(float)
    assert "25 items outnumber 24 respondents" in fit_factors(answers, 2, max_steps=2).summary()["doubts"][0]
    assert fit_factors(answers[:, :24], 2, max_steps=2).summary()["doubts"] == []
