"""One model against another: one more factor by the bootstrap, and guessing item by item."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from builders.refusals import is_refused
from builders.simulated import simulated, with_values
from irtbench import ItemParameters, ResponseMatrix, fit_model, likelihood_ratio, simulate_responses
from irtbench.analysis.model_comparison import draw_sample, guessing_test, one_more_factor
from irtbench.estimation.factors import FactorModel, fit_factors
from irtbench.models.coded_scores import CodedScores

Fits = tuple[ResponseMatrix, FactorModel, FactorModel]


def fits(n: int, n_items: int, *, seed: int) -> Fits:
    responses = simulated(n, n_items, seed=seed)[0]
    return responses, fit_factors(responses, 1), fit_factors(responses, 2)


@pytest.fixture(scope="module")
def five() -> Fits:
    return fits(100, 5, seed=6)


def test_not_asked_for_there_is_no_p_and_it_says_so(five: Fits) -> None:
    found = one_more_factor(*five)
    assert np.isnan(found.p)
    assert found.note == "no p: it takes samples of the smaller model; chi-square does not hold for one more factor"
    assert (found.statistic, found.df) == (likelihood_ratio(*five[1:]).statistic, 4)


@pytest.mark.slow
def test_with_one_ability_it_stops_after_five_samples_that_exceed() -> None:
    found = []
    for seed in range(2):
        found.append(one_more_factor(*fits(200, 7, seed=seed), n_samples=19, seed=seed))
    p = np.array([test.p for test in found])
    # binomial(2, .05): both have a chance of .0025
    assert (p <= 0.05).sum() <= 1
    assert p.mean() > 0.1  # uniform: .5 with standard error .2
    stopped = [test for test in found if test.n_samples < 19]
    assert stopped
    assert all(test.p == 5 / test.n_samples for test in stopped)


def test_samples_are_of_the_model_and_miss_what_the_responses_miss() -> None:
    rng = np.random.default_rng(5)
    responses = simulated(4_000, 5, seed=2)[0]
    values = np.where(rng.random(responses.values.shape) < 0.3, np.nan, responses.values)
    responses = with_values(responses, values).answered()
    one = fit_factors(responses, 1)
    drawn = draw_sample(one.answers(responses), one, rng)
    assert drawn is not None
    sample = drawn.given.to_matrix()
    np.testing.assert_array_equal(sample.observed, responses.observed)
    # a share of 3,500 has a standard error of .008; the slopes come back
    np.testing.assert_allclose(sample.proportion_correct(), responses.proportion_correct(), atol=0.025)
    np.testing.assert_allclose(fit_factors(sample, 1).slopes, one.slopes, atol=0.3)


def test_samples_of_grades_are_of_the_model_and_two_factors_are_found() -> None:
    rng = np.random.default_rng(8)
    theta = np.repeat(rng.normal(size=(500, 2)), 3, axis=1)
    steps = rng.logistic(size=theta.shape) + 1.8 * theta
    grades = np.where(rng.random(theta.shape) < 0.2, np.nan, np.digitize(steps, [-1.5, 0, 1]))
    one, two = (fit_factors(grades, number, models="grm", standard_errors=False) for number in (1, 2))
    answers = two.answers(grades)
    drawn = draw_sample(answers, two, rng)
    assert drawn is not None
    assert isinstance(drawn.given, CodedScores)
    assert isinstance(answers.given, CodedScores)
    np.testing.assert_array_equal(drawn.given.codes < 0, answers.given.codes < 0)
    shares = [[(one.codes == k).mean(axis=0) for k in range(4)] for one in (answers.given, drawn.given)]
    np.testing.assert_allclose(shares[0], shares[1], atol=0.09)  # three standard errors of a difference
    again = fit_factors(drawn, 2, standard_errors=False)
    np.testing.assert_allclose(again.loadings @ again.loadings.T, two.loadings @ two.loadings.T, atol=0.18)
    assert one_more_factor(grades, one, two, n_samples=1).p == 0.5


def test_an_item_that_no_sample_gets_wrong_leaves_no_p_and_says_so(five: Fits) -> None:
    responses, one, two = five
    easy = replace(one, intercepts=np.r_[[[40.0]], one.intercepts[1:]])
    found = one_more_factor(responses, easy, two, n_samples=3)
    assert np.isnan(found.p)
    assert found.note == "no p: in samples of the smaller model some item always has one response alone"


def test_wrong_input_is_named(five: Fits) -> None:
    responses, one, two = five
    is_refused("at least 0 but got -1", one_more_factor, responses, one, two, n_samples=-1)
    four = responses.select_items(responses.item_ids[:4])
    is_refused("unknown item item5", one_more_factor, four, one, two)
    other = fit_factors(four, 2, max_steps=1, standard_errors=False)
    is_refused("models of the items of the responses", one_more_factor, responses, one, other)
    is_refused("more parameters", one_more_factor, responses, two, one)


def test_guessing_is_found_in_the_items_that_have_it() -> None:
    rng = np.random.default_rng(0)
    guessing = np.where(np.arange(12) < 4, 0.35, 0.0)
    items = ItemParameters.from_difficulty(np.full(12, 1.8), np.linspace(0.2, 1.0, 12), guessing)
    responses = simulate_responses(rng.normal(size=1500), items, rng=rng)
    found = guessing_test(responses)
    significant = found.p_adjusted < 0.05
    assert significant[:4].all()
    assert significant[4:].sum() <= 1
    np.testing.assert_allclose(found.guessing[:4], 0.35, atol=0.1)
    np.testing.assert_allclose(found.p, chi2.sf(found.statistic, 1) / 2)
    fits = [fit_model(responses, by_item=by, prior="none", standard_errors=False) for by in ({}, {"item1": "3pl"})]
    assert found.statistic[0] == pytest.approx(2 * (fits[1].log_likelihood - fits[0].log_likelihood), abs=0.02)
