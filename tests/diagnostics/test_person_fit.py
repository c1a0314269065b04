"""lz, lz*, infit and outfit of respondents by hand, by Snijders' formula as printed, and in simulation."""

import numpy as np
import pytest
from scipy.optimize import brentq

from irtbench import ItemParameters, ResponseMatrix, icc, person_fit, simulate_responses
from irtbench.models.quadrature import normal_grid
from irtbench.models.theta_posterior import log_likelihood, node_posterior


def named(values: np.ndarray, items: ItemParameters) -> ResponseMatrix:
    return ResponseMatrix(values, tuple(f"r{i + 1}" for i in range(len(values))), items.item_ids)


def draw_items(n_items: int, rng: np.random.Generator) -> ItemParameters:
    guessing = rng.choice([0.0, 0.2], n_items)
    return ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), rng.normal(0, 1, n_items), guessing)


def eap(responses: ResponseMatrix, items: ItemParameters) -> np.ndarray:
    grid = normal_grid()
    return node_posterior(log_likelihood(responses.values, grid.nodes, items), grid)[0] @ grid.nodes


def test_two_items_by_hand() -> None:
    # At theta 0, P = 3/4 and 1/4 (d = +-log 3), slopes 1 and 2, pattern right, wrong. With L = log 3: w = (L, -L),
    # P (1 - P) = 3/16 both, x - P = (1/4, -1/4). W = L/2, variance 2 * 3/16 L^2, so lz = .5 / sqrt(.375).
    # r = a = (1, 2): sum P'w / sum P'r = (L - 2L) / (1 + 4) = -L/5, v = (6/5, -3/5) L, sum (x - P) v = .45 L, variance
    # 3/16 * 45/25 L^2: lz* = .45 / sqrt(.3375).
    # Squared residuals 1/16 each: infit (2/16) / (6/16) = 1/3, outfit the same.
    # The pattern wrong, right has residuals (-3/4, 3/4): lz = -1.5 / sqrt(.375), lz* = -1.35 / sqrt(.3375), infit 3.
    items = ItemParameters(("easy", "hard"), [1.0, 2.0], [np.log(3), -np.log(3)], [0.0, 0.0], [False, False])
    fit = person_fit(named(np.array([[1.0, 0.0], [0.0, 1.0]]), items), items, np.zeros(2))
    np.testing.assert_allclose(fit.lz, np.array([0.5, -1.5]) / np.sqrt(0.375))
    np.testing.assert_allclose(fit.lz_star, np.array([0.45, -1.35]) / np.sqrt(0.3375))
    np.testing.assert_allclose(fit.infit, [1 / 3, 3])
    np.testing.assert_allclose(fit.outfit, [1 / 3, 3])
    assert fit.table().columns.tolist() == ["respondent_id", "lz", "lz_star", "infit", "outfit", "n_items"]
    assert fit.table()["n_items"].tolist() == [2, 2]


@pytest.mark.parametrize("estimator", ["ml", "map"])
def test_lz_star_is_snijders_formula_for_the_estimator_at_hand(estimator: str) -> None:
    # Snijders (2001), equations 5 to 9: r0 = 0 for ML and -theta for MAP under the standard normal; one estimate by
    # solving r0 + sum (x - P) r = 0, derivatives by central differences.
    rng = np.random.default_rng(5)
    items = draw_items(25, rng)
    x = simulate_responses([0.4], items, rng=rng).values[0]

    def parts(theta: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        p = icc(theta, items)[0]
        slope = (icc(theta + 1e-6, items)[0] - icc(theta - 1e-6, items)[0]) / 2e-6
        return p, slope, slope / (p * (1 - p))

    def r0(theta: float) -> float:
        return 0.0 if estimator == "ml" else -theta

    def equation(theta: float) -> float:
        p, _, r = parts(theta)
        return r0(theta) + np.sum((x - p) * r)

    theta = brentq(equation, -4, 4, xtol=1e-12)
    p, slope, r = parts(theta)
    w = np.log(p / (1 - p))
    c = np.sum(slope * w) / np.sum(slope * r)
    v = w - c * r
    expected = (np.sum((x - p) * w) + c * r0(theta)) / np.sqrt(np.sum(v**2 * p * (1 - p)))
    fit = person_fit(named(x[None], items), items, np.array([theta]))
    assert fit.lz_star[0] == pytest.approx(expected, abs=1e-6)


def test_lz_star_is_nearly_standard_normal_at_estimated_abilities_and_lz_is_not() -> None:
    # 40 items, EAP, 4,000 respondents: the standard error of a standard deviation is .011, of a 5% rate .0035.
    rng = np.random.default_rng(1)
    items = draw_items(40, rng)
    responses = simulate_responses(rng.normal(size=4000), items, rng=rng)
    fit = person_fit(responses, items, eap(responses, items))
    assert fit.lz_star.mean() == pytest.approx(0, abs=0.12)
    assert fit.lz_star.std() == pytest.approx(1, abs=0.06)
    assert np.mean(fit.lz_star < -1.645) == pytest.approx(0.05, abs=0.015)
    assert fit.lz.std() < 0.92
    assert fit.infit.mean() == pytest.approx(1, abs=0.07)


def test_answers_at_random_and_answers_upside_down_are_seen() -> None:
    rng = np.random.default_rng(2)
    items = ItemParameters.from_difficulty(np.full(40, 1.5), np.linspace(-2, 2, 40))
    good = simulate_responses(rng.normal(size=100), items, rng=rng).values
    clicks = (rng.random((100, 40)) < 0.5).astype(float)
    hard_ones_only = np.repeat([0.0, 1.0], 20)[None]
    responses = named(np.concatenate([good, clicks, hard_ones_only]), items)
    fit = person_fit(responses, items, eap(responses, items))
    suspect = fit.lz_star < -1.645
    assert suspect[:100].mean() < 0.12
    assert suspect[100:200].mean() > 0.9
    assert fit.lz_star[200] < -8
    assert fit.outfit[200] > 3


def test_all_right_and_all_wrong_are_defined_even_far_out() -> None:
    items = draw_items(30, np.random.default_rng(3))
    fit = person_fit(named(np.stack([np.ones(30), np.zeros(30)]), items), items, np.array([15.0, -15.0]))
    assert np.isfinite([fit.lz, fit.lz_star, fit.infit, fit.outfit]).all()


def test_missing_items_are_as_if_never_asked() -> None:
    rng = np.random.default_rng(4)
    items = draw_items(12, rng)
    x = simulate_responses([0.3], items, rng=rng).values.copy()
    asked = list(items.item_ids[::2])
    x[0, 1::2] = np.nan
    fit = person_fit(named(x, items), items, np.array([0.3]))
    alone = person_fit(named(x[:, ::2], items.select(asked)), items.select(asked), np.array([0.3]))
    for name in ("lz", "lz_star", "infit", "outfit", "n_items"):
        assert getattr(fit, name)[0] == pytest.approx(getattr(alone, name)[0])


def test_what_theta_explains_altogether_is_nan_with_a_warning() -> None:
    # Items with one curve: given the number right every pattern is as likely as any other.
    items = ItemParameters.from_difficulty(np.full(5, 1.3), 0.7)
    values = np.array([[1, 1, 0, 0, 0], [np.nan] * 5])
    with pytest.warns(RuntimeWarning, match=r"lz\* is undefined for 2 of 2 respondents"):
        fit = person_fit(named(values, items), items, np.array([0.2, 0.0]))
    assert np.isnan(fit.lz_star).all()
    assert np.isfinite([fit.lz[0], fit.infit[0], fit.outfit[0]]).all()
    assert np.isnan([fit.lz[1], fit.infit[1], fit.outfit[1]]).all()
    assert fit.n_items.tolist() == [5, 0]
