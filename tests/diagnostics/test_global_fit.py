"""M2 and the indices made of it against R mirt, enumeration of all patterns, simulation and planted misfit."""

from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ncx2

from builders.mirt_figures import lsat6, papers_scale
from builders.simulated import simulated
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.global_fit import global_fit, global_fit_of_factors
from irtbench.estimation.factors import fit_factors
from irtbench.estimation.fit import fit_model
from irtbench.models.curves import icc
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import normal_grid
from irtbench.models.simulation import simulate_responses


def assert_equals_mirt(responses: ResponseMatrix, items: ItemParameters, path: Path) -> None:
    mirt = pd.read_csv(path).iloc[0]
    fit = global_fit(responses, items)
    assert fit.m2 == pytest.approx(mirt["M2"], rel=1e-6)
    assert fit.df == mirt["df"]
    assert fit.p == pytest.approx(mirt["p"], rel=1e-3)
    assert fit.rmsea == pytest.approx(mirt["RMSEA"], abs=1e-6)
    # mirt divides the ends of the interval by N, its RMSEA by N - 1; here both are by N - 1.
    n = responses.n_respondents
    assert fit.rmsea_lower == pytest.approx(mirt["RMSEA_5"] * np.sqrt(n / (n - 1)), abs=1e-6)
    assert fit.rmsea_upper == pytest.approx(mirt["RMSEA_95"] * np.sqrt(n / (n - 1)), abs=1e-6)
    assert fit.srmsr == pytest.approx(mirt["SRMSR"], abs=1e-6)
    assert fit.tli == pytest.approx(mirt["TLI"], abs=1e-6)
    assert fit.cfi == pytest.approx(mirt["CFI"], abs=1e-6)


def test_lsat6_equals_mirt(real_data: Path, reference: Path) -> None:
    responses, items, _ = lsat6(real_data, reference, "2pl")
    assert_equals_mirt(responses, items, reference / "mirt_lsat6_2pl_M2.csv")


@pytest.mark.parametrize("label", ["entailment", "neutral"])
def test_the_papers_scales_equal_mirt(real_data: Path, reference: Path, label: str) -> None:
    responses, items, _ = papers_scale(real_data, reference, label)
    assert_equals_mirt(responses, items, reference / f"mirt_5gs_{label}_2pl_M2.csv")


def test_m2_equals_its_definition_over_all_patterns() -> None:
    # The formula as printed, with nothing in common with the implementation: probabilities of all 2^6 patterns,
    # covariance of the raw moments from them, derivatives by central differences, matrices inverted.
    rng = np.random.default_rng(6)
    n_items, n = 6, 300
    a, d = rng.uniform(0.5, 2, n_items) * [1, 1, -1, 1, 1, 1], rng.normal(0, 1, n_items)
    c, free = np.array([0, 0.2, 0, 0.25, 0, 0.3]), np.array([False, True, False, False, False, True])
    ids = tuple("abcdef")
    items = ItemParameters(ids, a, d, c, free)
    responses = simulate_responses(rng.normal(size=n), items, rng=rng)
    patterns = np.array(list(product([0, 1], repeat=n_items)))
    pairs = list(combinations(range(n_items), 2))
    grid = normal_grid()

    def moments_of(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x, np.stack([x[:, j] * x[:, k] for j, k in pairs], axis=1)], axis=1)

    def pattern_probabilities(parameters: np.ndarray) -> np.ndarray:
        p = icc(grid.nodes, ItemParameters(ids, *parameters, free))[:, None, :]  # type: ignore[call-arg]
        return grid.weights @ np.prod(np.where(patterns, p, 1 - p), axis=2)

    parameters = np.stack([a, d, c])
    probability = pattern_probabilities(parameters)
    moments = moments_of(patterns)
    expected = probability @ moments
    xi = (moments.T * probability) @ moments - np.outer(expected, expected)
    columns = []
    for kind in range(3):
        for j in range(n_items):
            if kind < 2 or free[j]:
                step = np.zeros((3, n_items))
                step[kind, j] = 1e-5
                change = pattern_probabilities(parameters + step) - pattern_probabilities(parameters - step)
                columns.append(change @ moments / 2e-5)
    delta = np.stack(columns, axis=1)
    inverse = np.linalg.inv(xi)
    middle = inverse - inverse @ delta @ np.linalg.inv(delta.T @ inverse @ delta) @ delta.T @ inverse
    residual = moments_of(responses.values).mean(axis=0) - expected

    fit = global_fit(responses, items)
    assert fit.df == 21 - 14
    assert fit.m2 == pytest.approx(n * residual @ middle @ residual, rel=1e-6)


def test_at_the_truth_m2_is_a_chi_square_of_its_df() -> None:
    # C removes what any parameters could explain, so known ones serve as well as estimated ones. 10 items: df 35,
    # variance 70; the mean of 60 has standard error 1.08. False alarms at 5%: 3 of 60 expected, 9 or more have p .004.
    fits = [global_fit(*simulated(1000, 10, seed=seed)[:2]) for seed in range(60)]
    assert {fit.df for fit in fits} == {35}
    assert np.mean([fit.m2 for fit in fits]) == pytest.approx(35, abs=3.5 * np.sqrt(70 / 60))
    assert sum(fit.p < 0.05 for fit in fits) <= 8


def test_two_abilities_do_not_pass_for_one() -> None:
    rng = np.random.default_rng(1)
    items = ItemParameters.from_difficulty(np.full(16, 1.2), rng.normal(0, 1, 16))
    first, second = (simulate_responses(rng.normal(size=1500), items, rng=rng).values for _ in range(2))
    values = np.concatenate([first[:, :8], second[:, 8:]], axis=1)
    fit = global_fit(ResponseMatrix(values, tuple(f"r{i}" for i in range(1500)), items.item_ids), items)
    assert fit.p < 1e-6
    assert fit.rmsea_lower > 0.03
    assert fit.cfi < 0.8
    assert fit.srmsr > 0.08


def test_the_interval_of_rmsea_is_that_of_the_noncentral_chi_square() -> None:
    responses, items, _ = simulated(500, 12, seed=2)
    values = responses.values.copy()
    values[:200, 1] = values[:200, 0]
    fit = global_fit(ResponseMatrix(values, responses.respondent_ids, responses.item_ids), items)
    scale = fit.df * (fit.n_respondents - 1)
    assert 0 < fit.rmsea_lower < fit.rmsea < fit.rmsea_upper
    assert fit.rmsea == pytest.approx(np.sqrt((fit.m2 - fit.df) / scale))
    assert ncx2.cdf(fit.m2, fit.df, fit.rmsea_lower**2 * scale) == pytest.approx(0.95, abs=1e-6)
    assert ncx2.cdf(fit.m2, fit.df, fit.rmsea_upper**2 * scale) == pytest.approx(0.05, abs=1e-6)


def test_complete_rows_count_for_m2_and_pairs_for_srmsr() -> None:
    responses, items, _ = simulated(600, 8, seed=4)
    values = responses.values.copy()
    values[:200, 0] = np.nan
    fit = global_fit(ResponseMatrix(values, responses.respondent_ids, responses.item_ids), items)
    complete = global_fit(responses.select_respondents(np.arange(600) >= 200), items)
    assert fit.respondents_used == "400 of 600, those who answered every item"
    assert (fit.m2, fit.rmsea_upper, fit.tli) == (complete.m2, complete.rmsea_upper, complete.tli)
    assert fit.srmsr != complete.srmsr
    values[:, 0] = np.nan
    nobody = ResponseMatrix(values, responses.respondent_ids, responses.item_ids)
    with pytest.warns(RuntimeWarning, match="fewer than two answered every item"):
        none = global_fit(nobody, items)
    assert np.isnan([none.m2, none.p, none.rmsea, none.rmsea_lower, none.rmsea_upper, none.tli, none.cfi]).all()
    # the seven other items still have their correlations
    others = list(items.item_ids[1:])
    assert none.srmsr == pytest.approx(global_fit(responses.select_items(others), items.select(others)).srmsr)


def test_too_few_items_are_nan_with_a_warning() -> None:
    # 3 items: 6 moments, 6 parameters
    responses, items, _ = simulated(200, 3, seed=3)
    with pytest.warns(RuntimeWarning, match="3 items leave no degree of freedom"):
        fit = global_fit(responses, items)
    assert fit.df == 0
    assert np.isnan([fit.m2, fit.p, fit.rmsea, fit.tli, fit.cfi]).all()
    assert fit.srmsr > 0


def test_an_item_all_get_right_and_one_of_extreme_ease_leave_a_finite_m2() -> None:
    rng = np.random.default_rng(7)
    items = ItemParameters.from_difficulty([1.0, 1.5, 2.0, 1.0, 0.8, 2.5], [-12.0, 0, 0.5, -0.5, 1, -4.5])
    responses = simulate_responses(rng.normal(size=400), items, rng=rng)
    assert responses.proportion_correct()[0] == 1
    fit = global_fit(responses, items)
    assert 0 < fit.m2 < 50
    assert np.isfinite([fit.tli, fit.cfi, fit.srmsr]).all()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_order_of_respondents_and_items_is_no_matter(seed: int) -> None:
    responses, items, _ = simulated(200, 7, seed=33)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(200), rng.permutation(7)
    ids = tuple(items.item_ids[j] for j in columns)
    shuffled = ResponseMatrix(
        responses.values[np.ix_(rows, columns)], tuple(responses.respondent_ids[i] for i in rows), ids
    )
    fit, again = global_fit(responses, items), global_fit(shuffled, items.select(ids))
    for name in ("m2", "srmsr", "tli", "cfi"):
        assert getattr(again, name) == pytest.approx(getattr(fit, name), rel=1e-8)


def test_wrong_input_is_named() -> None:
    responses, items, _ = simulated(20, 4, seed=0)
    with pytest.raises(InputError, match="column 1 is item1 in the responses but item4"):
        global_fit(responses, items.select(items.item_ids[::-1]))


def test_one_factor_of_the_factor_model_is_the_ordinary_model() -> None:
    rng = np.random.default_rng(3)
    items = ItemParameters.from_difficulty(rng.uniform(0.8, 2, 12), rng.normal(0, 1, 12))
    responses = simulate_responses(rng.normal(size=600), items, rng=rng)
    ordinary = global_fit(responses, items)
    factors = global_fit_of_factors(responses, items.discrimination[:, None], items.intercept, n_parameters=24)
    assert factors.m2 == pytest.approx(ordinary.m2, rel=1e-6)
    assert factors.df == ordinary.df
    assert factors.cfi == pytest.approx(ordinary.cfi, abs=1e-8)
    assert factors.srmsr == pytest.approx(ordinary.srmsr, abs=1e-8)


def test_two_factors_fit_data_of_two_abilities_and_a_rotation_changes_nothing() -> None:
    rng = np.random.default_rng(8)
    slopes = np.zeros((12, 2))
    slopes[:6, 0] = slopes[6:, 1] = 1.6
    intercept = np.linspace(-1, 1, 12)
    theta = rng.normal(size=(1500, 2))
    values = (rng.random((1500, 12)) < 1 / (1 + np.exp(-(theta @ slopes.T + intercept)))).astype(float)
    responses = ResponseMatrix(values, tuple(map(str, range(1500))), tuple(f"i{j}" for j in range(12)))
    two = fit_factors(responses, 2)
    found = global_fit_of_factors(responses, two.slopes, two.intercept, n_parameters=two.n_parameters)
    assert found.df == 78 - 35
    assert found.p > 0.001
    assert found.cfi > 0.99
    assert global_fit(responses, fit_model(responses).items).cfi < 0.9
    turn = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    turned = global_fit_of_factors(responses, two.slopes @ turn, two.intercept, n_parameters=two.n_parameters)
    assert turned.m2 == pytest.approx(found.m2, rel=1e-3)
    with pytest.raises(InputError, match=r"slopes \(3, 2\) and intercepts \(12,\) for 12 items"):
        global_fit_of_factors(responses, two.slopes[:3], two.intercept, n_parameters=9)
