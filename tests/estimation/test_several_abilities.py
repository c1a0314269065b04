"""Several abilities: nodes right for narrow posteriors, saddles left, blocks as fits of their own, errors, trials."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from builders.problem import right_or_wrong
from irtbench import ResponseMatrix, fit_model
from irtbench.estimation.factors import FactorModel, factor_scores, fit_factors
from irtbench.estimation.marginal.nodes import MOST_ERROR, change_of_likelihood
from irtbench.estimation.several_abilities.factor_problem import Factors, factor_problem
from irtbench.estimation.several_abilities.rotation_freedom import (
    number_of_turns,
    towards_pattern,
)
from irtbench.models.pyro_model.tensors import ItemTensors


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


def as_items(slopes: NDArray[np.float64], intercept: NDArray[np.float64]) -> ItemTensors:
    d = torch.from_numpy(intercept)
    return ItemTensors(torch.from_numpy(slopes), d, torch.zeros_like(d))


@pytest.fixture(scope="module")
def steep() -> tuple[NDArray[np.float64], NDArray[np.float64], ResponseMatrix]:
    """Three abilities, 20 steep items each; the slopes' axes are turned, so that nothing factorises."""
    slopes = simple_structure(20, 3, seed=1, steep=2.4)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    theta, responses = drawn(slopes @ rotation, 300, seed=2)
    return slopes @ rotation, theta, responses


@pytest.mark.slow
def test_the_lattice_is_right_for_three_abilities_known_well_and_the_old_grid_is_not(steep) -> None:  # type: ignore[no-untyped-def]
    slopes, _, responses = steep
    items = as_items(slopes, np.log(responses.values.mean(axis=0) / (1 - responses.values.mean(axis=0))) * 1.8)
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
    _, responses = drawn(slopes, 500, seed=13)
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


SLOPES = np.zeros((12, 2))
SLOPES[:6, 0] = SLOPES[6:, 1] = [0.8, 1.0, 1.2, 1.4, 1.6, 1.8]
INTERCEPT = np.tile([-1.0, -0.6, -0.2, 0.2, 0.6, 1.0], 2)


def trials_drawn(n_respondents: int, most: int, *, seed: int) -> tuple[NDArray[np.float64], ResponseMatrix]:
    """Abilities, and k right of 0 to so many trials of each item."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n_respondents, 2))
    n = rng.integers(0, most + 1, (n_respondents, 12))
    k = rng.binomial(n, 1 / (1 + np.exp(-(theta @ SLOPES.T + INTERCEPT)))).astype(float)
    names = tuple(f"item{j}" for j in range(12))
    return theta, ResponseMatrix(np.where(n > 0, k, np.nan), tuple(map(str, range(n_respondents))), names, n)


def one_by_one(responses: ResponseMatrix) -> ResponseMatrix:
    """Each trial of an item as a column of its own, three for every item."""
    assert responses.trials is not None
    number = np.arange(3)
    right = number < np.nan_to_num(responses.correct)[:, :, None]
    values = np.where(number < responses.trials[:, :, None], right, np.nan).reshape(responses.n_respondents, -1)
    return ResponseMatrix(
        values, responses.respondent_ids, tuple(f"{item}/{t}" for item in responses.item_ids for t in number)
    )


def test_likelihood_and_information_are_those_of_the_trials_one_by_one() -> None:
    _, responses = trials_drawn(40, 3, seed=1)
    rng = np.random.default_rng(2)
    slopes = torch.from_numpy(SLOPES + rng.normal(0, 0.2, SLOPES.shape))
    items = ItemTensors(slopes, torch.from_numpy(INTERCEPT), torch.zeros(12, dtype=torch.float64))
    each = torch.arange(12).repeat_interleave(3)
    apart = ItemTensors(slopes[each], items.intercept[each], items.guessing[each])
    counted, single = (factor_problem(right_or_wrong(own), 2, None) for own in (responses, one_by_one(responses)))
    assert counted.problem.log_likelihood(items) == pytest.approx(single.problem.log_likelihood(apart), rel=1e-12)
    blocks = single.information(apart).reshape(12, 3, 3, 12, 3, 3)  # item, trial, parameter, twice
    torch.testing.assert_close(counted.information(items), blocks.sum(dim=(1, 4)).reshape(36, 36))


def test_slopes_and_abilities_are_recovered_within_their_errors() -> None:
    theta, responses = trials_drawn(600, 4, seed=3)
    pattern = SLOPES == 0
    fitted = fit_factors(responses, 2, zero_loadings=pattern)
    assert fitted.converged
    errors = fitted.standard_errors()
    found = np.concatenate([fitted.slopes[~pattern], fitted.intercept])
    truth = np.concatenate([SLOPES[~pattern], INTERCEPT])
    error = np.concatenate([np.stack([errors["slope_1"], errors["slope_2"]], axis=1)[~pattern], errors["intercept"]])
    z = (found - truth) / error
    assert 0.5 < np.mean(z**2) < 1.6  # 24 squares of about unit mean: chi-square / 24 is .52 to 1.64 in 95%
    # the errors are those of the trials, not of one response each: about as many responses again shrink them
    once = fit_factors(majority(responses), 2, zero_loadings=pattern)
    assert np.nanmean(once.standard_errors()["intercept"]) > 1.1 * errors["intercept"].mean()
    scores = factor_scores(fitted, responses)
    assert list(scores.columns[-1:]) == ["n_trials"]
    assert (scores["n_trials"] == responses.n_by_respondent).all()
    np.testing.assert_allclose(scores["accuracy"], responses.accuracy())
    for k in (1, 2):
        z = (scores[f"theta_{k}"] - theta[:, k - 1]) / scores[f"se_{k}"]
        assert np.mean(np.abs(z) < 1.96) == pytest.approx(0.95, abs=0.03)


def majority(responses: ResponseMatrix) -> ResponseMatrix:
    """Right where more than half of the trials are."""
    return ResponseMatrix(
        np.where(np.isnan(responses.shares), np.nan, responses.shares > 0.5), responses.respondent_ids,
        responses.item_ids,
    )  # fmt: skip
