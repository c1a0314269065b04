"""Time horizons: by quadrature, by the full information matrix, in simulation, and where there is none."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from builders.refusals import is_refused
from builders.simulated import with_values
from irtbench import ItemParameters, ResponseMatrix, icc, simulate_responses
from irtbench.analysis.explained_responses import fit_explanatory_items
from irtbench.analysis.horizons import _abilities, point_of, ratios, time_horizon
from irtbench.analysis.meta_regression import meta_regression
from irtbench.models.theta_posterior import ability_posterior

MIDDLE, PER_LOG = 3.5, 0.6


def suite(
    seed: int, n_systems: int, n_tasks: int, residual: float, strength: float = 0.0
) -> tuple[ResponseMatrix, pd.Series, np.ndarray]:
    """Responses, lengths of a minute to 18 hours, and abilities on the scale where b = .6 (log t - 3.5) + e."""
    rng = np.random.default_rng([seed, n_systems])
    x, theta = rng.uniform(0, 2 * MIDDLE, n_tasks), strength + rng.normal(size=n_systems)
    b = PER_LOG * (x - MIDDLE) + rng.normal(0, residual, n_tasks)
    tasks = ItemParameters.from_difficulty(np.ones(n_tasks), b)
    return simulate_responses(theta, tasks, rng=rng), pd.Series(np.exp(x), list(tasks.item_ids)), theta


@pytest.mark.parametrize(("share", "residual"), [(0.8, 0.0), (0.8, 1.3), (0.8, 3.0), (0.3, 2.0)])
def test_the_point_is_where_the_mean_over_the_residual_is_the_share(share: float, residual: float) -> None:
    point = point_of(share, residual, (0.4, 0.0))
    mean = quad(lambda e: expit(np.exp(0.4) * (point - residual * e)) * norm.pdf(e), -9, 9, limit=400)[0]
    assert mean == pytest.approx(share, abs=1e-7)
    if not residual:
        assert point == pytest.approx(np.log(4) / np.exp(0.4))


def test_slopes_that_differ_are_averaged_over_too() -> None:
    point, rng = point_of(0.8, 1.0, (0.2, 0.5)), np.random.default_rng(1)
    slopes, e = rng.lognormal(0.2, 0.5, 10**6), rng.normal(size=10**6)
    assert expit(slopes * (point - e)).mean() == pytest.approx(0.8, abs=1e-3)
    assert point_of(0.5, 1.0, (0.2, 0.5)) == pytest.approx(0.0, abs=1e-9)


def test_a_ratio_has_the_ends_that_fieller_gives_it_and_none_where_the_slope_is_not_clear() -> None:
    above, reach = np.array([1.2, -0.4]), 2.0
    covariance = np.array([[0.04, 0.01, 0.004], [0.01, 0.09, -0.002], [0.004, -0.002, 0.01]])
    best, lower, upper = ratios(above, 0.8, covariance, np.array([0.3, -0.2]), reach)
    np.testing.assert_allclose(best, above / 0.8)
    assert (lower < best).all()
    assert (best < upper).all()
    for end, more in ((lower, 0.3), (upper, -0.2)):
        variance = np.diag(covariance)[:2] - 2 * end * covariance[:2, 2] + end**2 * 0.01
        np.testing.assert_allclose((above - 0.8 * end) ** 2, reach**2 * variance + more**2)
    _, lower, upper = ratios(np.array([3.0]), 0.8, np.diag([0.04, 0.25]), np.zeros(2), reach)
    assert np.isfinite(lower).all()  # a strong system on tasks of which it is not clear that the longer are harder
    assert np.isinf(upper).all()


def test_errors_are_those_of_the_information_of_everything_together() -> None:
    data, lengths, _ = suite(3, 15, 12, 1.0)
    x = np.log(lengths.to_numpy())
    x -= x.mean()
    fit = fit_explanatory_items(data, x[:, None])
    found = meta_regression(fit.estimates, x[:, None], interval=True)
    _, covariance = _abilities(data, fit, found, x)
    a, b = fit.items.discrimination, fit.items.difficulty
    less = np.sqrt(1 + (16 * 3**0.5 / (15 * np.pi)) ** 2 * (a * fit.sd) ** 2)
    flat = ItemParameters.from_difficulty(a / less, b, item_ids=data.item_ids)
    theta = ability_posterior(data, flat, quadrature=fit.population).mean()
    p, full = icc(theta, flat), np.zeros((40, 40))
    for i in range(15):
        for j in range(12):
            by = np.zeros(40)
            by[[i, 15 + j, 27 + j]] = a[j], -a[j], a[j] * (theta[i] - b[j])
            full += p[i, j] * (1 - p[i, j]) / less[j] * np.outer(by, by)
    for j in range(12):
        by = np.zeros(40)
        by[[15 + j, 39]] = 1.0, -x[j]
        full += np.outer(by, by) / found.residual_sd**2
        full[27 + j, 27 + j] += fit.slope[1] ** -2
    kept = [*range(15), 39]
    np.testing.assert_allclose(covariance, np.linalg.inv(full)[np.ix_(kept, kept)], rtol=1e-6, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_systems", "n_tasks", "residual", "strength"), [(12, 60, 0.8, 0.0), (12, 120, 2.0, 0.0), (20, 60, 1.0, 1.8)]
)
def test_intervals_cover(n_systems: int, n_tasks: int, residual: float, strength: float) -> None:
    held, errors = [], []
    for seed in range(15):
        data, lengths, theta = suite(seed, n_systems, n_tasks, residual, strength)
        found = time_horizon(data, lengths, model="rasch")
        points = [point_of(share, residual, (0.0, 0.0)) for share in found.shares]
        truth = np.exp((theta[:, None] - points) / PER_LOG + MIDDLE)
        held.append((found.lower <= truth) & (truth <= found.upper))
        errors.append(np.log(found.horizon / truth))
    assert 0.92 < np.mean(held) < 0.985
    assert np.abs(np.median(errors)) < 0.25


def test_where_all_or_none_is_solved_one_end_is_open() -> None:
    """Beside a task that nobody tried, and a system without any response."""
    data, lengths, _ = suite(5, 10, 25, 0.7)
    values = data.values.copy()
    values[0], values[1], values[2], values[:, 7] = 1, 0, np.nan, np.nan
    ends = time_horizon(with_values(data, values), lengths, model="rasch")
    assert len(ends.respondent_ids) == 9
    table = ends.table().set_index("respondent_id")
    best, worst = table.loc[ends.respondent_ids[0]], table.loc[ends.respondent_ids[1]]
    assert best["flags"].str.contains("all_correct").all()
    assert np.isinf(best["upper"]).all()
    assert (best["lower"] > table["horizon"].median()).all()
    assert worst["flags"].str.contains("all_wrong").all()
    assert (worst["lower"] == 0).all()
    assert (ends.flags == np.where(ends.horizon > ends.longest, "beyond_longest", ends.flags)).any()


def test_where_longer_tasks_are_not_harder_there_is_no_horizon() -> None:
    data, lengths, _ = suite(2, 20, 30, 0.3)
    turned = pd.Series(1 / lengths.to_numpy(), lengths.index)
    found = time_horizon(data, turned, model="rasch")
    assert np.isnan(found.horizon).all()
    assert (found.lower == 0).all()
    assert np.isinf(found.upper).all()
    assert all("no_slope" in words for words in found.flags.flat)


def test_what_cannot_be_is_refused() -> None:
    data, lengths, _ = suite(2, 5, 10, 0.3)
    for wrong, words in (
        (lengths.iloc[1:], "no length of task item1; expected that of every task"),
        (lengths * np.where(np.arange(10) == 3, 0, 1), "the length of task item4 is 0; expected a time above 0"),
        (lengths * 0 + 7, "every task has the same length"),
    ):
        is_refused(words, time_horizon, data, wrong)
    is_refused("share must be between 0 and 1 but got 80", time_horizon, data, lengths, shares=(0.5, 80))
    is_refused("no share of successes; expected at least one", time_horizon, data, lengths, shares=())
    is_refused("5 tasks; expected at least 8", time_horizon, data.select_items(data.item_ids[:5]), lengths)
