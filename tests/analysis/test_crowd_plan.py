"""Planning a crowd: closed forms where there are any, planned against realised errors, and wishes out of reach."""

import numpy as np
import pytest
from scipy.stats import binom

from builders.refusals import is_refused
from builders.simulated import with_values
from irtbench import FitSettings, ItemParameters, fit_many, fit_model, simulate_responses
from irtbench.analysis.crowd_plan import PlanSettings, attention_checks, plan_crowd
from irtbench.analysis.design_information import ability_precision, design_information, typical_items
from irtbench.models.quadrature import normal_grid
from irtbench.scoring.item_error import abilities_of


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_error_of_ability_by_two_items_against_the_four_patterns() -> None:
    items = ItemParameters.from_difficulty([1.5, 0.8], [0.3, -0.5])
    grid = normal_grid(161, bound=5.0)
    p = 1 / (1 + np.exp(-(grid.nodes[:, None] * items.discrimination + items.intercept)))
    variance = 0.0
    for pattern in ((0, 0), (0, 1), (1, 0), (1, 1)):
        joint = np.where(pattern, p, 1 - p).prod(axis=1) * grid.weights
        posterior = joint / joint.sum()
        variance += joint.sum() * (posterior @ grid.nodes**2 - (posterior @ grid.nodes) ** 2)
    found = ability_precision(items, 2, rng=rng())
    assert found[0] == pytest.approx(np.sqrt(variance), rel=0.01)


def test_standard_errors_are_those_that_a_fit_reports() -> None:
    """Of 4,000 people who answer two thirds of the items: by the observed information, to a few percent."""
    items, theta = typical_items(18), rng(2).standard_normal(4_000)
    answers = simulate_responses(theta, items, rng=rng(3))
    unasked = rng(4).random((4_000, 18)).argsort(axis=1).argsort(axis=1) >= 12
    responses = with_values(answers, np.where(unasked, np.nan, answers.values))
    fitted = fit_model(responses)
    reported = np.sqrt(fitted.items.covariance[:, 0, 0])
    planned = design_information(items, 12, rng=rng()).precision(4_000)
    assert np.median(reported / planned.se_discrimination) == pytest.approx(1, abs=0.05)
    assert np.abs(np.log(reported / planned.se_discrimination)).max() < 0.25
    error = abilities_of(fitted, responses).theta - theta
    assert np.sqrt(np.square(error).mean()) == pytest.approx(planned.se_theta, rel=0.05)


def test_errors_fall_with_the_root_of_the_number_and_items_each_help_abilities() -> None:
    items = typical_items(24)
    found = design_information(items, 12, rng=rng())
    one, four = found.precision(100), found.precision(400)
    np.testing.assert_allclose(one.se_difficulty, 2 * four.se_difficulty)
    assert one.se_theta_items == pytest.approx(2 * four.se_theta_items)
    assert one.se_theta > four.se_theta
    errors = [ability_precision(items, n, rng=rng()) for n in (4, 12, 24)]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.slow
def test_a_plan_reaches_what_is_wanted_and_no_more() -> None:
    items = typical_items(30)
    wanted = PlanSettings(se_difficulty=0.25, se_theta=0.45, percentile_width=0.5, share=0.8)
    plan = plan_crowd(items, wanted, rng=rng())
    found = plan.summary()
    assert found["se_difficulty"] == pytest.approx(0.25, rel=0.01)
    assert found["se_theta"] <= 0.45
    assert found["percentile_width"] <= 0.505
    assert plan.n_each < 30
    fewer = plan_crowd(items, PlanSettings(n_each=plan.n_each, n_respondents=plan.n_respondents // 2), rng=rng())
    assert fewer.summary()["se_difficulty"] > 0.3
    # 3 checks: of those recruited, 95% read, and 95.6% of these pass
    assert plan.n_recruited == int(np.ceil(plan.n_respondents / (0.95 * (0.985**3))))
    assert plan.n_answers == plan.n_recruited * (plan.n_each + 3)


def test_more_items_than_can_be_inverted_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irtbench.analysis.crowd_plan.MOST_ITEMS", 40)
    monkeypatch.setattr("irtbench.analysis.crowd_plan.THINNED_TO", 30)
    few, many = (plan_crowd(typical_items(n), PlanSettings(n_each=30, n_respondents=n * 10), rng=rng())
                 for n in (30, 90))  # fmt: skip
    # as many answers an item: the same standard errors
    assert few.n_by_item == many.n_by_item == 300
    assert many.summary()["se_difficulty_median"] == pytest.approx(few.summary()["se_difficulty_median"], rel=0.05)


def test_wishes_out_of_reach_say_what_can_be_had() -> None:
    for saying, wanted in (
        (r"all 10 items give a standard error of theta of 0\.\d+ only", {"se_theta": 0.1}),
        ("5 items each give a standard error of theta of .* however many answer", {"se_theta": 0.3, "n_each": 5}),
        ("from 2 to the 10 items there are but got 11", {"se_difficulty": 0.2, "n_each": 11}),
    ):
        is_refused(saying, plan_crowd, typical_items(10), PlanSettings(**wanted), rng=rng())  # type: ignore[arg-type]
    is_refused("wanted standard error of b or theta", PlanSettings)
    is_refused("more than 50 attention checks", attention_checks, guess=0.9, slip=0.1)
    is_refused("at least 2 items", typical_items, 1)
    flat = ItemParameters.from_difficulty([1.0, 0.0], [0.0, 0.0])
    is_refused("discrimination of 0", design_information, flat, 2, rng=rng())


@pytest.mark.parametrize(("guess", "slip"), [(1 / 3, 0.015), (0.5, 0.02), (0.25, 0.1), (0.5, 0.1)])
def test_attention_checks_are_the_first_that_do_among_all(guess: float, slip: float) -> None:
    def does(n: int, right: int) -> bool:
        return bool(binom.sf(right - 1, n, guess) <= 0.05 and binom.cdf(right - 1, n, 1 - slip) <= 0.05)

    n = next(n for n in range(1, 51) if any(does(n, right) for right in range(1, n + 1)))
    strictest = max(right for right in range(1, n + 1) if does(n, right))
    found = attention_checks(guess=guess, slip=slip)
    assert (found.n_checks, found.fewest_right) == (n, strictest)


def test_few_answers_an_item_cost_what_fits_of_them_say() -> None:
    # 100 answers an item: by the information .258 for the median item, an eighth less than fits have
    items, n = typical_items(40), 100
    plan = plan_crowd(items, PlanSettings(n_each=40, n_respondents=n), rng=rng())
    information = design_information(items, 40, rng=rng()).precision(n)
    drawn = np.random.default_rng(11)
    fits = fit_many(
        [simulate_responses(drawn.standard_normal(n), items, rng=drawn) for _ in range(40)],
        FitSettings(standard_errors=False),
    ).fits
    errors = [one.items.difficulty - items.difficulty for one in fits if one is not None and one.converged]
    realised = float(np.median(np.sqrt(np.square(errors).mean(axis=0))))
    planned = plan.summary()["se_difficulty_median"]
    assert planned == pytest.approx(realised, rel=0.1)
    assert float(np.median(information.se_difficulty)) < 0.92 * realised
    assert plan.precision.se_theta == pytest.approx(information.se_theta, rel=0.01)
    many = plan_crowd(items, PlanSettings(n_each=40, n_respondents=500), rng=rng())
    assert many.not_converged == 0  # nothing is fitted
