"""lz, lz*, infit and outfit by hand, by the formulas as printed, against eRm, and in simulation."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.mirt_figures import lsat6, verbal
from builders.refusals import is_refused
from irtbench import ItemParameters, estimate_ability, icc, person_fit, simulate_responses


def draw_items(n_items: int, rng: np.random.Generator) -> ItemParameters:
    guessing = rng.choice([0.0, 0.2], n_items)
    return ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), rng.normal(0, 1, n_items), guessing)


def test_two_items_by_hand() -> None:
    # At theta 0, P = 3/4 and 1/4 (d = +-log 3), slopes 1 and 2, pattern right, wrong. With L = log 3: w = (L, -L),
    # P (1 - P) = 3/16 both, x - P = (1/4, -1/4). W = L/2, variance 2 * 3/16 L^2, so lz = .5 / sqrt(.375).
    # r = a = (1, 2): sum P'w / sum P'r = (L - 2L) / (1 + 4) = -L/5, v = (6/5, -3/5) L, sum (x - P) v = .45 L, variance
    # 3/16 * 45/25 L^2: lz* = .45 / sqrt(.3375).
    # Squared residuals 1/16 each: infit (2/16) / (6/16) = 1/3, outfit the same.
    # The pattern wrong, right has residuals (-3/4, 3/4): lz = -1.5 / sqrt(.375), lz* = -1.35 / sqrt(.3375), infit 3.
    items = ItemParameters.from_difficulty([1.0, 2.0], [-np.log(3), np.log(3) / 2])
    fit = person_fit(np.array([[1.0, 0.0], [0.0, 1.0]]), items, np.zeros(2))
    np.testing.assert_allclose(fit.lz, np.array([0.5, -1.5]) / np.sqrt(0.375))
    np.testing.assert_allclose(fit.lz_star, np.array([0.45, -1.35]) / np.sqrt(0.3375))
    np.testing.assert_allclose(fit.infit, [1 / 3, 3])
    np.testing.assert_allclose(fit.outfit, [1 / 3, 3])
    assert fit.table().columns.tolist() == ["respondent_id", "lz", "lz_star", "infit", "outfit", "n_items"]
    assert fit.table()["n_items"].tolist() == [2, 2]


@pytest.mark.parametrize("estimator", ["ml", "map"])
def test_lz_star_is_snijders_formula_for_the_estimator_at_hand(estimator: str) -> None:
    # Snijders (2001), equations 5 to 9: r0 = 0 for ML and -theta for MAP under the standard normal, with which
    # r0 + sum (x - P) r = 0; derivatives by central differences.
    rng = np.random.default_rng(5)
    items = draw_items(25, rng)
    responses = simulate_responses([0.4], items, rng=rng)
    theta, x = estimate_ability(responses, items, method=estimator).theta, responses.values[0]
    p = icc(theta, items)[0]
    slope = (icc(theta + 1e-6, items)[0] - icc(theta - 1e-6, items)[0]) / 2e-6
    r, r0 = slope / (p * (1 - p)), 0.0 if estimator == "ml" else -theta[0]
    assert r0 + np.sum((x - p) * r) == pytest.approx(0, abs=1e-5)
    w = np.log(p / (1 - p))
    c = np.sum(slope * w) / np.sum(slope * r)
    v = w - c * r
    expected = (np.sum((x - p) * w) + c * r0) / np.sqrt(np.sum(v**2 * p * (1 - p)))
    assert person_fit(responses, items, theta).lz_star[0] == pytest.approx(expected, abs=1e-5)


def test_lz_star_is_nearly_standard_normal_at_estimated_abilities_and_lz_is_not() -> None:
    # 40 items, EAP, 4,000 respondents: the standard error of a standard deviation is .011, of a 5% rate .0035.
    rng = np.random.default_rng(1)
    items = draw_items(40, rng)
    responses = simulate_responses(rng.normal(size=4000), items, rng=rng)
    fit = person_fit(responses, items, estimate_ability(responses, items).theta)
    assert fit.lz_star.mean() == pytest.approx(0, abs=0.12)
    assert fit.lz_star.std() == pytest.approx(1, abs=0.06)
    assert np.mean(fit.lz_star < -1.645) == pytest.approx(0.05, abs=0.015)
    assert fit.lz.std() < 0.92
    assert fit.infit.mean() == pytest.approx(1, abs=0.07)


def test_missing_items_are_as_if_never_asked_and_all_right_is_defined_even_far_out() -> None:
    rng = np.random.default_rng(4)
    items = draw_items(12, rng)
    far_out = person_fit(np.stack([np.ones(12), np.zeros(12)]), items, np.array([15.0, -15.0]))
    assert np.isfinite([far_out.lz, far_out.lz_star, far_out.infit, far_out.outfit]).all()
    x = simulate_responses([0.3], items, rng=rng).values.copy()
    asked = list(items.item_ids[::2])
    x[0, 1::2] = np.nan
    fit = person_fit(x, items, np.array([0.3]))
    alone = person_fit(pd.DataFrame(x[:, ::2], columns=asked), items.select(asked), np.array([0.3]))
    for name in ("lz", "lz_star", "infit", "outfit", "n_items"):
        assert getattr(fit, name)[0] == pytest.approx(getattr(alone, name)[0])


def test_what_theta_explains_altogether_is_nan_with_a_warning() -> None:
    # Items with one curve: given the number right every pattern is as likely as any other.
    items = ItemParameters.from_difficulty(np.full(5, 1.3), 0.7)
    values = np.array([[1, 1, 0, 0, 0], [np.nan] * 5])
    with pytest.warns(RuntimeWarning, match=r"lz\* is undefined for 2 of 2 respondents"):
        fit = person_fit(values, items, np.array([0.2, 0.0]))
    assert np.isnan(fit.lz_star).all()
    assert np.isfinite([fit.lz[0], fit.infit[0], fit.outfit[0]]).all()
    assert np.isnan([fit.lz[1], fit.infit[1], fit.outfit[1]]).all()
    assert fit.n_items.tolist() == [5, 0]


# --- mean squares ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lsat6", "verbal"])
def test_figures_are_erms(real_data: Path, reference: Path, name: str) -> None:
    """eRm 1.0.2 itemfit at ML theta on CML difficulties, scores of 0 and all left out: reference/next/07_rasch."""
    folder = reference / "next"
    values = (lsat6(real_data, reference, "2pl") if name == "lsat6" else verbal(reference))[0].values
    n_items = values.shape[1]
    difficulty = pd.read_csv(folder / "07_rasch" / f"{name}_pars.csv")["cml_b_sum0"]
    of_score = pd.read_csv(folder / "07_rasch" / f"{name}_eRm_score_theta.csv").set_index("score")["theta_ML_cml"]
    score = values.sum(axis=1)
    theta = of_score.reindex(score).to_numpy(copy=True)
    theta[(score == 0) | (score == n_items)] = np.inf
    items = irtbench.ItemParameters.from_difficulty([1.0] * n_items, difficulty)
    found = irtbench.mean_square_fit(values, items, theta)
    theirs = pd.read_csv(folder / "07_rasch" / f"{name}_fit_items.csv")
    table = found.table()
    for ours, other in (
        ("infit", "infit_eRm"), ("outfit", "outfit_eRm"), ("infit_z", "infit_t_eRm"), ("outfit_z", "outfit_t_eRm"),
    ):  # fmt: skip
        np.testing.assert_allclose(table[ours], theirs[other], atol=1e-7)
    assert (found.n_respondents == ((score > 0) & (score < n_items)).sum()).all()


def test_ranges_hold_where_items_fit_and_a_planted_misfit_is_found() -> None:
    rng = np.random.default_rng(1)
    items = irtbench.ItemParameters.from_difficulty([1.0] * 200, rng.normal(0, 1, 200))
    theta = rng.normal(size=500)
    values = irtbench.simulate_responses(theta, items, rng=rng, missing=0.2).values.copy()
    table = irtbench.mean_square_fit(values, items, theta).table()
    for name in ("infit", "outfit"):
        inside = table[name].between(table[f"{name}_lower"], table[f"{name}_upper"])
        assert 0.90 <= inside.mean() <= 0.99  # 95% of 200: standard error .015
        np.testing.assert_array_equal(inside, table[f"{name}_p"] >= 0.05)
        assert abs(table[f"{name}_z"].std() - 1) < 0.2
    values[:, 0] = rng.integers(0, 2, 500)
    spoilt = irtbench.mean_square_fit(values, items, theta).table()
    assert spoilt["infit_p_adjusted"][0] < 0.001
    assert spoilt["infit"][0] > spoilt["infit_upper"][0]


def test_one_item_by_hand() -> None:
    # theta 0 on an item of difficulty 0: W = 1/4, (x - P)^2 / W = 1 whatever x, and C / W^2 - 1 = 1 / W - 4 = 0
    item = irtbench.ItemParameters.from_difficulty([1.0], [0.0])
    found = irtbench.mean_square_fit([[1], [0], [1]], item, [0.0, 0.0, 0.0])
    assert found.infit[0] == found.outfit[0] == pytest.approx(1)
    assert found.infit_q[0] == pytest.approx(0, abs=1e-7)
    assert found.outfit_q[0] == pytest.approx(0, abs=1e-7)
    # theta log 3: P = 3/4, W = 3/16; right: (1/4)^2 / W = 1/3
    found = irtbench.mean_square_fit([[1]], item, [np.log(3)])
    assert found.outfit[0] == pytest.approx(1 / 3)
    assert found.outfit_q[0] == pytest.approx(np.sqrt(16 / 3 - 4))
    assert found.infit_q[0] == pytest.approx(np.sqrt(3 / 16 * (1 - 12 / 16)) / (3 / 16))
    # u = .8 and theta = b: P = .4, Q = .6; three right and two wrong: (3 .36 + 2 .16) / (5 .24)
    item = replace(item, upper_asymptote=np.array([0.8]))
    found = irtbench.mean_square_fit([[1], [1], [1], [0], [0]], item, [0.0] * 5)
    assert (found.infit[0], found.outfit[0]) == pytest.approx((1.4 / 1.2, 1.4 / 1.2))


def test_wrong_input_is_said_in_a_line() -> None:
    item = irtbench.ItemParameters.from_difficulty([1.0], [0.0])
    is_refused("1 abilities for 2 respondents", irtbench.mean_square_fit, [[1], [0]], item, [0.0])
    is_refused("level must be between 0 and 1", irtbench.mean_square_fit, [[1], [0]], item, [0.0, 0.0], level=0)
    trials = irtbench.simulate_responses([0.0, 1.0], item, rng=np.random.default_rng(1), trials=3)
    is_refused("several trials", irtbench.mean_square_fit, trials, item, [0.0, 1.0])
