"""Planning a crowd: closed forms where there are any, planned against realised errors, and wishes out of reach."""

import numpy as np
import pytest
from scipy.stats import binom

from irtbench import FitSettings, InputError, ItemParameters, ResponseMatrix, fit_many, fit_model, simulate_responses
from irtbench.analysis.crowd_plan import CrowdPlan, PlanSettings, attention_checks, plan_crowd
from irtbench.analysis.design_information import ability_precision, design_information, typical_items
from irtbench.models.quadrature import normal_grid
from irtbench.scoring.item_error import abilities_of


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_information_of_two_items_against_the_four_patterns() -> None:
    """With two items the expectation over patterns is a sum of four terms."""
    items = ItemParameters.from_difficulty([1.5, 0.8], [0.3, -0.5])
    grid = normal_grid(161, bound=5.0)
    p = 1 / (1 + np.exp(-(grid.nodes[:, None] * items.discrimination + items.intercept)))
    expected, variance = np.zeros((4, 4)), 0.0
    for pattern in ((0, 0), (0, 1), (1, 0), (1, 1)):
        x = np.array(pattern)
        joint = np.where(x, p, 1 - p).prod(axis=1) * grid.weights
        posterior = joint / joint.sum()
        score = np.concatenate([[posterior @ ((x[j] - p[:, j]) * grid.nodes), posterior @ (x[j] - p[:, j])]
                                for j in (0, 1)])  # fmt: skip
        expected += joint.sum() * np.outer(score, score)
        variance += joint.sum() * (posterior @ grid.nodes**2 - (posterior @ grid.nodes) ** 2)
    # two items do not identify four parameters: only sums over patterns can be compared, not the inverse
    assert np.linalg.matrix_rank(expected) == 3
    found = ability_precision(items, 2, rng=rng())
    assert found[0] == pytest.approx(np.sqrt(variance), rel=0.01)


def test_standard_errors_are_those_that_a_fit_reports() -> None:
    """Complete answers of 4,000 people: the observed information's standard errors, to a few percent."""
    items = typical_items(12)
    theta = rng(2).standard_normal(4_000)
    fitted = fit_model(simulate_responses(theta, items, rng=rng(3)))
    reported = np.sqrt(fitted.items.covariance[:, 0, 0])
    planned = design_information(items, 12, rng=rng()).precision(4_000)
    assert np.median(reported / planned.se_discrimination) == pytest.approx(1, abs=0.05)
    assert np.abs(np.log(reported / planned.se_discrimination)).max() < 0.25


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
    monkeypatch.setattr("irtbench.analysis.crowd_plan.MOST_ITEMS", 80)
    monkeypatch.setattr("irtbench.analysis.crowd_plan.THINNED_TO", 60)
    few, many = (plan_crowd(typical_items(n), PlanSettings(n_each=30, n_respondents=n * 10), rng=rng())
                 for n in (60, 180))  # fmt: skip
    # as many answers an item: the same standard errors
    assert few.n_by_item == many.n_by_item == 300
    assert many.summary()["se_difficulty_median"] == pytest.approx(few.summary()["se_difficulty_median"], rel=0.05)


def test_wishes_out_of_reach_say_what_can_be_had() -> None:
    def plan(**wanted: float) -> CrowdPlan:
        return plan_crowd(typical_items(10), PlanSettings(**wanted), rng=rng())  # type: ignore[arg-type]

    flat = ItemParameters.from_difficulty([1.0, 0.0], [0.0, 0.0])
    for call, saying in (
        (lambda: plan(se_theta=0.1), r"all 10 items give a standard error of theta of 0\.\d+ only"),
        (lambda: plan(se_theta=0.3, n_each=5), "5 items each give a standard error of theta of .* however many answer"),
        (lambda: plan(se_difficulty=0.2, n_each=11), "from 2 to the 10 items there are but got 11"),
        (PlanSettings, "wanted standard error of b or theta"),
        (lambda: attention_checks(guess=0.9, slip=0.1), "more than 50 attention checks"),
        (lambda: typical_items(1), "at least 2 items"),
        (lambda: design_information(flat, 2, rng=rng()), "discrimination of 0"),
    ):
        with pytest.raises(InputError, match=saying):
            call()


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


@pytest.mark.slow
def test_planned_errors_come_true_within_a_tenth() -> None:
    """Of the median item: a few items that nearly everybody gets right have errors with long tails (docs/crowds.md)."""
    items, n, each = typical_items(30), 500, 20
    planned = design_information(items, each, rng=rng()).precision(n)
    draw = rng(4)
    errors, abilities = [], []
    for _ in range(25):
        theta = draw.standard_normal(n)
        values = simulate_responses(theta, items, rng=draw).values.copy()
        values[np.argsort(draw.random(values.shape), axis=1).argsort(axis=1) >= each] = np.nan
        responses = ResponseMatrix(values, tuple(f"r{i}" for i in range(n)), items.item_ids)
        fitted = fit_model(responses, FitSettings(standard_errors=False))
        b = -fitted.items.intercept / fitted.items.discrimination
        errors.append(b + items.intercept / items.discrimination)
        abilities.append(abilities_of(fitted, responses).theta - theta)
    realised = np.sqrt(np.square(errors).mean(axis=0))
    assert np.median(realised / planned.se_difficulty) == pytest.approx(1, abs=0.1)
    assert np.sqrt(np.square(abilities).mean()) == pytest.approx(planned.se_theta, rel=0.05)
