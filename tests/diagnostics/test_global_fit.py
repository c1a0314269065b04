"""M2, C2 and the indices made of them against R mirt, enumeration of all patterns, simulation and planted misfit."""

import json
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from builders.by_hand import counts_of, integral, log_p
from builders.mirt_figures import lsat6, papers_scale
from builders.refusals import is_refused
from builders.simulated import simulated, with_values
from irtbench import ItemParameters, ResponseMatrix, fit_categories, fit_factors, fit_model, simulate_responses
from irtbench.diagnostics.global_fit import global_fit, global_fit_of_factors
from irtbench.diagnostics.moments import CategoryMoments, Moments
from irtbench.models.quadrature import normal_grid


@pytest.mark.parametrize("data", ["lsat6", "5gs_entailment", "5gs_neutral"])
def test_lsat6_and_the_papers_scales_equal_mirt(real_data: Path, reference: Path, data: str) -> None:
    if data == "lsat6":
        responses, items, _ = lsat6(real_data, reference, "2pl")
    else:
        responses, items, _ = papers_scale(real_data, reference, data.removeprefix("5gs_"))
    mirt = pd.read_csv(reference / f"mirt_{data}_2pl_M2.csv").iloc[0]
    fit = global_fit(responses, items)
    assert fit.m2 == pytest.approx(mirt["M2"], rel=1e-6)
    assert fit.df == mirt["df"]
    assert fit.p == pytest.approx(mirt["p"], rel=1e-3)
    # mirt divides the ends of the interval by N, its RMSEA by N - 1; here both are by N - 1.
    n = responses.n_respondents
    ends = np.array([mirt["RMSEA_5"], mirt["RMSEA_95"]]) * np.sqrt(n / (n - 1))
    assert [fit.rmsea_lower, fit.rmsea_upper] == pytest.approx(ends, abs=1e-6)
    for ours, theirs in (("rmsea", "RMSEA"), ("srmsr", "SRMSR"), ("tli", "TLI"), ("cfi", "CFI")):
        assert getattr(fit, ours) == pytest.approx(mirt[theirs], abs=1e-6)


def test_m2_equals_its_definition_over_all_patterns() -> None:
    # The formula as printed, with nothing in common with the implementation: probabilities of all 2^6 patterns,
    # covariance of the raw moments from them, derivatives by autograd, matrices inverted.
    rng = np.random.default_rng(6)
    a, d = rng.uniform(0.5, 2, 6) * [1, 1, -1, 1, 1, 1], rng.normal(0, 1, 6)
    c, free = np.array([0, 0.2, 0, 0.25, 0, 0.3]), np.array([False, True, False, False, False, True])
    items, grid = ItemParameters(tuple("abcdef"), a, d, c, free), normal_grid()
    responses = simulate_responses(rng.normal(size=300), items, rng=rng)
    patterns = np.array(list(product([0.0, 1.0], repeat=6)))
    nodes, weights = torch.from_numpy(grid.nodes.copy())[:, None], torch.from_numpy(grid.weights.copy())

    def moments_of(x: np.ndarray) -> np.ndarray:
        return np.hstack([x, *(x[:, [j]] * x[:, [k]] for j, k in combinations(range(6), 2))])

    def probability(x: torch.Tensor) -> torch.Tensor:
        return integral(counts_of(patterns), log_p("logistic", x, nodes), weights).exp()

    at = torch.from_numpy(np.stack([a, d, c, np.ones(6)], axis=1))
    p, moments = probability(at).numpy(), moments_of(patterns)
    expected, by_each = p @ moments, torch.autograd.functional.jacobian(probability, at).numpy()
    inverse = np.linalg.inv((moments.T * p) @ moments - np.outer(expected, expected))
    estimated = np.stack([free | True, free | True, free, free & False], axis=1)
    delta = moments.T @ by_each[:, estimated]
    middle = inverse - inverse @ delta @ np.linalg.inv(delta.T @ inverse @ delta) @ delta.T @ inverse
    residual = moments_of(responses.values).mean(axis=0) - expected

    fit = global_fit(responses, items)
    assert fit.df == 21 - 14
    assert fit.m2 == pytest.approx(300 * residual @ middle @ residual, rel=1e-6)


def holed(responses: ResponseMatrix, holes: np.ndarray) -> ResponseMatrix:
    return with_values(responses, np.where(holes, np.nan, responses.values))


def test_with_missing_responses_tli_and_cfi_compare_with_independent_items() -> None:
    # of independent items n r^2 remains of each pair
    responses, items, _ = simulated(400, 5, seed=11)
    given = holed(responses, np.random.default_rng(1).random((400, 5)) < np.linspace(0.1, 0.5, 5))
    fit = global_fit(given, items)
    count = given.observed.T.astype(float) @ given.observed
    frame, pairs = pd.DataFrame(given.values), list(combinations(range(5), 2))
    n = np.array([count[j, k] for j, k in pairs])
    r = np.array([frame[[j, k]].dropna().corr().iloc[0, 1] for j, k in pairs])
    assert (fit.df, fit.n_per_pair) == (15 - 10, pytest.approx(n.mean()))
    assert fit.cfi == pytest.approx(min(1, 1 - (fit.m2 - 5) / (n @ r**2 - 10)))


def test_an_item_that_nobody_answered_changes_nothing() -> None:
    responses, items, _ = simulated(600, 8, seed=4)
    values = responses.values.copy()
    values[:200, 3], values[:, 0] = np.nan, np.nan
    fit = global_fit(values, items)
    others = list(items.item_ids[1:])
    wanted = global_fit(pd.DataFrame(values[:, 1:], columns=others), items.select(others))
    assert fit.df == wanted.df == 28 - 14
    for name in ("m2", "p", "rmsea_upper", "tli", "cfi", "srmsr", "n_per_pair"):
        assert getattr(fit, name) == pytest.approx(getattr(wanted, name), rel=1e-9)
    assert fit.respondents_used.startswith("all 600, 543 on average to a pair of items; 7 of 28 pairs that too few")


@pytest.mark.slow
def test_at_the_truth_m2_of_missing_responses_is_a_chi_square_of_its_df() -> None:
    # C removes what any parameters could explain, so known ones serve as well as estimated ones. 10 items: df 35,
    # variance 70; the mean of 40 has standard error 1.3. False alarms at 5%: 2 of 40 expected, 7 or more have p .003.
    # Half the sets miss 40% at random, half come from booklets of two blocks of three.
    block = np.arange(10) * 3 // 10
    fits = []
    for seed in range(40):
        responses, items, _ = simulated(800, 10, seed=seed)
        rng = np.random.default_rng([seed, 1])
        at_random, booklets = rng.random((800, 10)) < 0.4, block == rng.integers(3, size=(800, 1))
        fits.append(global_fit(holed(responses, at_random if seed % 2 else booklets), items))
    assert {fit.df for fit in fits} <= set(range(15, 36))  # pairs of two very easy or hard items are left out
    assert np.mean([fit.m2 - fit.df for fit in fits]) == pytest.approx(0, abs=3.5 * np.sqrt(70 / 40))
    assert sum(fit.p < 0.05 for fit in fits) <= 6
    assert all(fit.reason == "" for fit in fits)


def test_with_missing_responses_two_abilities_do_not_pass_for_one() -> None:
    rng = np.random.default_rng(1)
    items = ItemParameters.from_difficulty(np.full(16, 1.2), rng.normal(0, 1, 16))
    first, second = (simulate_responses(rng.normal(size=1500), items, rng=rng).values for _ in range(2))
    values = np.concatenate([first[:, :8], second[:, 8:]], axis=1)
    complete = global_fit(values, items)
    fit = global_fit(np.where(rng.random(values.shape) < 0.4, np.nan, values), items)
    assert fit.p < 1e-6
    assert fit.rmsea_lower > 0.03
    # the same misfit, measured on fewer responses, is about as large
    assert fit.rmsea == pytest.approx(complete.rmsea, rel=0.15)
    assert max(fit.cfi, complete.cfi) < 0.5


def test_very_steep_items_are_solved_as_if_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    items = ItemParameters.from_difficulty(rng.uniform(1, 7, 40), rng.normal(0, 0.8, 40))
    responses = simulate_responses(rng.normal(size=500), items, rng=rng)
    written_out = global_fit(responses, items)
    monkeypatch.setattr("irtbench.diagnostics.global_fit.MOST_DENSE_MOMENTS", 0)
    assert global_fit(responses, items).m2 == pytest.approx(written_out.m2, rel=1e-8)
    monkeypatch.setattr("irtbench.diagnostics.quadratic_form.PLAIN_STEPS", 1)
    assert global_fit(responses, items).m2 == pytest.approx(written_out.m2, rel=1e-8)
    monkeypatch.setattr("irtbench.diagnostics.quadratic_form.MOST_STEPS", 1)
    with pytest.warns(RuntimeWarning, match="not solved in 1 steps"):
        assert np.isnan(global_fit(responses, items).m2)
    monkeypatch.setattr("irtbench.diagnostics.quadratic_form.MOST_STEPS", 1_000)
    monkeypatch.setattr("irtbench.diagnostics.quadratic_form.MOST_ITEMS", 39)
    with pytest.warns(RuntimeWarning, match="not solved in 1 steps"):
        assert np.isnan(global_fit(responses, items).m2)


def test_a_second_ability_that_is_not_there_gives_no_negative_m2_and_one_the_ordinary_model() -> None:
    # 5 items: 15 shares and 14 parameters, and a grid that a rotation of the axes does not leave quite the same
    for seed in range(2):
        responses = simulated(400, 5, seed=seed)[0]
        two = fit_factors(responses, 2, max_steps=60)
        fit = global_fit_of_factors(responses, two.slopes, two.intercept, n_parameters=two.n_parameters)
        assert fit.df == 1
        assert 0 <= fit.m2 < 15
        assert 0 <= fit.rmsea_lower <= fit.rmsea_upper
    # one factor of the factor model is the ordinary model
    responses, items, _ = simulated(600, 12, seed=3)
    ordinary = global_fit(responses, items)
    factors = global_fit_of_factors(responses, items.discrimination[:, None], items.intercept, n_parameters=24)
    assert factors.m2 == pytest.approx(ordinary.m2, rel=1e-6)
    assert factors.df == ordinary.df
    assert factors.cfi == pytest.approx(ordinary.cfi, abs=1e-8)
    assert factors.srmsr == pytest.approx(ordinary.srmsr, abs=1e-8)


def test_two_factors_fit_data_of_two_abilities_and_a_rotation_changes_nothing() -> None:
    rng = np.random.default_rng(8)
    z = 1.6 * np.repeat(rng.normal(size=(1500, 2)), 6, axis=1) + np.linspace(-1, 1, 12)
    values = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(float)
    two = fit_factors(values, 2)
    found = global_fit_of_factors(values, two.slopes, two.intercept, n_parameters=two.n_parameters)
    assert found.df == 78 - 35
    assert found.p > 0.001
    assert found.cfi > 0.99
    assert global_fit(values, fit_model(values).items).cfi < 0.9
    turn = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    turned = global_fit_of_factors(values, two.slopes @ turn, two.intercept, n_parameters=two.n_parameters)
    assert turned.m2 == pytest.approx(found.m2, rel=1e-3)
    saying, given = r"slopes \(3, 2\) and intercepts \(12,\) for 12 items", (values, two.slopes[:3], two.intercept)
    is_refused(saying, global_fit_of_factors, *given, n_parameters=9)


def steep(slope: float, n_each: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Slopes and intercepts of items that measure one of three abilities each."""
    slopes = np.kron(np.eye(3), np.full((n_each, 1), slope))
    return slopes, np.tile(slope * np.linspace(-1.5, 1.5, n_each), 3)


@pytest.mark.parametrize("slope", [1.0, 6.0])
def test_moments_of_three_abilities_are_those_of_sums_over_one_at_a_time(slope: float) -> None:
    # items of one ability: their expectations are integrals over that ability, here by 8,001 nodes; others are 0
    slopes, intercept = steep(slope)
    moments = Moments.of_factors(slopes, intercept, slopes != 0)
    theta = np.linspace(-8, 8, 8001)
    weights = stats.norm.pdf(theta) / stats.norm.pdf(theta).sum()
    p = 1 / (1 + np.exp(-(slope * theta + intercept[:5, None])))
    standardised = (p - (p @ weights)[:, None]) / np.sqrt((p @ weights) * (1 - p @ weights))[:, None]
    expected = np.kron(np.eye(3), (standardised * weights) @ standardised.T)
    found = moments.expected_products()
    different = ~np.eye(15, dtype=bool)
    np.testing.assert_allclose(found[different], expected[different], atol=3e-5)
    np.testing.assert_allclose(moments.mean[:5], p @ weights, atol=1e-5)
    four = standardised[:4].prod(axis=0) @ weights
    assert moments.level[:4].prod(axis=0) @ moments.weights == pytest.approx(four, abs=5e-5)


def test_the_fit_of_steep_items_of_three_abilities_does_not_hang_on_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    slopes, intercept = steep(3.5)
    rng = np.random.default_rng(2)
    p = 1 / (1 + np.exp(-(rng.normal(size=(1500, 3)) @ slopes.T + intercept)))
    values = (rng.random(p.shape) < p).astype(float)

    def m2() -> float:
        return global_fit_of_factors(values, slopes, intercept, n_parameters=30, zero_loadings=slopes == 0).m2

    found = m2()
    assert stats.chi2(90).sf(found) > 0.001  # the true parameters; 120 moments less 30
    monkeypatch.setattr("irtbench.models.quadrature.STEEPEST", 0.9)
    assert m2() == pytest.approx(found, rel=1e-5)
    monkeypatch.setattr("irtbench.models.quadrature.STEEPEST", 100.0)  # the usual grid, .75 apart
    assert abs(m2() / found - 1) > 1e-3


def test_of_very_many_items_pairs_are_drawn_or_m2_is_left_out_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irtbench.diagnostics.moments.MOST_COMPLETE_ITEMS", 19)
    monkeypatch.setattr("irtbench.diagnostics.moments.MOST_MOMENTS", 120)
    ps = []
    for seed in range(20):
        responses, items, _ = simulated(500, 20, seed=seed)
        fit = global_fit(responses, items)
        assert fit.df == 120 - 40
        ps.append(fit.p)
    assert fit.respondents_used == "all 500, 500 on average to a pair of items; 100 pairs drawn from 190"
    assert 0.25 < np.mean(ps) < 0.75  # uniform: standard error .065
    for most in (39, 15):  # fewer shares than the forty parameters; not even the single items
        monkeypatch.setattr("irtbench.diagnostics.moments.MOST_MOMENTS", most)
        with pytest.warns(RuntimeWarning, match="of 20 items no more than"):
            fit = global_fit(responses, items)
        assert np.isnan([fit.m2, fit.cfi]).all()


def test_where_m2_is_not_available_it_says_why() -> None:
    responses, items, _ = simulated(300, 6, seed=2)
    twins = ItemParameters(
        items.item_ids, np.r_[[1e6, 1e6], items.discrimination[2:]], np.r_[[1e5, 1e5], items.intercept[2:]],
        items.guessing, items.guessing_estimated,
    )  # fmt: skip
    holes = np.random.default_rng(0).random((60, 6)) < 0.6
    for (values, own), reason in (
        ((responses.values, twins), "not positive definite"),
        ((np.where(holes, np.nan, responses.values[:60]), items), "no two items were answered by 20 respondents or"),
        (simulated(200, 3, seed=3)[:2], "3 items leave no degree of freedom"),  # 6 moments, 6 parameters
        (simulated(49, 8, seed=2)[:2], "49 respondents to 8 items; expected at least 50"),
        (simulated(60, 61, seed=2)[:2], "60 respondents to 61 items; expected at least 61"),
    ):
        with pytest.warns(RuntimeWarning, match=reason):
            fit = global_fit(values, own)
        assert reason in fit.reason
        assert np.isnan([fit.m2, fit.p, fit.rmsea, fit.rmsea_lower, fit.tli, fit.cfi]).all()
    assert np.isfinite(fit.srmsr)
    assert np.isfinite(global_fit(*simulated(50, 8, seed=2)[:2]).p)


# --- items in categories ---------------------------------------------------------------------------------------------


GRID = normal_grid(61, bound=6.0)
STEPS = np.array([-0.9, 0.2, 1.0])


def test_c2_of_the_graded_model_is_that_of_mirt(reference: Path) -> None:
    root = reference / "graded"
    wide = pd.read_csv(root / "data/science.csv").pivot(index="respondent_id", columns="item_id", values="response")
    fitted = fit_categories(wide, "grm", tolerance=1e-7)
    found = global_fit(fitted.items.matrix(wide), fitted.items.as_items(), quadrature=GRID)
    theirs = json.loads((root / "science_grm/fit.json").read_text())["M2"]["C2"]
    for name in ("M2", "df", "p", "RMSEA", "SRMSR", "TLI", "CFI"):
        assert getattr(found, name.lower()) == pytest.approx(theirs[name], rel=1e-3)


@pytest.mark.parametrize("model", ["gpcm", "nominal", "pcm"])
def test_moments_and_their_derivatives_are_those_of_all_patterns(model: str) -> None:
    """mirt 1.47 has 16.34 for Science under gpcm, and 19.04 by the sums over all 256 patterns that are made here."""
    rng = np.random.default_rng(2)
    scores = (1.3 * (rng.normal(size=(400, 1, 1)) - STEPS) + rng.logistic(size=(400, 4, 1)) > 0).sum(axis=2)
    items = fit_categories(scores, model).items
    moments = CategoryMoments.of(items, GRID)
    patterns = np.array(np.meshgrid(*[range(4)] * 4)).reshape(4, -1).T.astype(float)
    first, second = np.triu_indices(4, 1)
    u = (patterns - moments.scores.mean) / moments.scores.deviation
    each = np.hstack([patterns[:, moments.item] == moments.category, u[:, first] * u[:, second]])

    def shares(of) -> np.ndarray:
        return np.exp(of.log_likelihood(patterns, GRID.nodes)) @ GRID.weights

    share = shares(items)
    expected = share @ each
    products = moments.scores.expected_products()[first, second]
    np.testing.assert_allclose([*moments.share @ GRID.weights, *products], expected, atol=1e-12)
    np.testing.assert_allclose(moments.covariance(), (each.T * share) @ each - np.outer(expected, expected), atol=1e-11)
    some = rng.integers(256, size=50)
    np.testing.assert_allclose(moments.residual(patterns[some]), each[some].mean(axis=0) - expected, atol=1e-12)

    def moved(item: int, parameter: int) -> np.ndarray:
        sides = []
        for step in (1e-5, -1e-5):
            x = items.steps_at.copy()
            x[item, parameter] += step
            sides.append(shares(replace(items, steps_at=x)) @ each)
        return (sides[0] - sides[1]) / 2e-5

    width = items.steps_at.shape[1]
    by_each = np.array([[moved(j, k) for k in range(width)] for j in range(4)])
    jacobian = moments.jacobian()
    if model == "pcm":  # one slope for all is the standard deviation of ability
        by_each = np.vstack([by_each[:, 1:].reshape(-1, len(expected)), by_each[:, 0].sum(axis=0)[None]])
    np.testing.assert_allclose(jacobian, np.reshape(by_each, (-1, len(expected))).T, atol=1e-8)


def test_without_all_responses_or_degrees_of_freedom_it_says_why() -> None:
    rng = np.random.default_rng(2)
    scores = (
        (1.3 * (rng.normal(size=(400, 1, 1)) - STEPS) + rng.logistic(size=(400, 4, 1)) > 0).sum(axis=2).astype(float)
    )
    few = fit_categories(scores[:, :3], "grm").items
    assert "degree of freedom" in global_fit(few.matrix(scores[:, :3]), few.as_items()).reason
    scores[0, 0] = np.nan
    items = fit_categories(scores, "grm").items
    assert "complete responses" in global_fit(items.matrix(scores), items.as_items()).reason
