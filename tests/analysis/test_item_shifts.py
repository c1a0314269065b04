"""A few systems against people: nothing found where nothing is, shifts measured, families not counted twice."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import approx_fprime
from scipy.special import expit
from scipy.stats import chi2, norm

from builders.refusals import is_refused
from irtbench import ItemParameters, simulate_responses
from irtbench.analysis.item_shifts import (
    GRID,
    TAUS,
    ItemShifts,
    ShiftLikelihood,
    _averaged,
    _profile,
    calibration_variance,
    item_shifts,
    shift_control,
)

RNG = np.random.default_rng


def items_of(n_items: int, rng: np.random.Generator, guessing: float = 0.0) -> ItemParameters:
    return ItemParameters.from_difficulty(rng.uniform(0.8, 2, n_items), rng.normal(0, 1, n_items), guessing)


def systems(
    items: ItemParameters, n: int, rng: np.random.Generator, *, shift: NDArray[np.float64] | float = 0.0,
    families: Sequence[int] | None = None, omega: float = 0.0, mean: float = 0.5, sd: float = 0.7,
) -> NDArray[np.float64]:  # fmt: skip
    """Responses of systems whose items have their logits shifted, for all of them and for each family."""
    theta = rng.normal(mean, sd, n)
    logit = theta[:, None] * items.discrimination + items.intercept + shift
    if families is not None:
        own = omega * rng.standard_normal((max(families) + 1, items.n_items))
        logit = logit + own[np.asarray(families)]
    c = items.guessing
    return (rng.random(logit.shape) < c + (1 - c) * expit(logit)).astype(np.float64)


def study(
    n: int, *, seed: int, tau: float = 0.0, n_items: int = 40,
    families: Sequence[int] | None = None, omega: float = 0.0, told: bool = True,
) -> tuple[ItemShifts, NDArray[np.float64]]:  # fmt: skip
    """What is found of systems with shifts N(0, tau^2), and the shifts."""
    rng = RNG(seed)
    items = items_of(n_items, rng)
    shift = tau * rng.standard_normal(n_items)
    values = systems(items, n, rng, shift=shift, families=families, omega=omega)
    names = [f"f{k}" for k in families] if families is not None and told else None
    return item_shifts(values, items, families=names, rng=rng), shift


@pytest.mark.parametrize("guessing", [0.0, 0.2])
def test_the_likelihood_is_the_integral_over_the_shift(guessing: float) -> None:
    rng = RNG(1)
    items = items_of(3, rng, guessing)
    values = systems(items, 4, rng)
    values[2, 1] = np.nan
    likelihood = ShiftLikelihood(values, items, np.array([0.0, 0.1, 0.3]), np.arange(4))
    theta = np.array([-0.5, 0.2, 0.9, 1.5])
    shift = np.linspace(-6, 6, 6001)[:, None, None]
    p = guessing + (1 - guessing) * expit(items.discrimination * theta[:, None] + items.intercept + shift)
    chance = np.where(np.isnan(values), 1, np.where(values == 1, p, 1 - p)).prod(axis=1)
    for tau in (0.04, 0.6):
        weight = norm.pdf(shift[:, 0], 0, np.sqrt(tau**2 + np.array([0.0, 0.1, 0.3]))) * 12 / 6000
        found = likelihood.slopes(theta, tau, 0.0).log_likelihood
        np.testing.assert_allclose(found, np.log((chance * weight).sum(axis=0)), atol=1e-5)


@pytest.mark.parametrize("omega", [0.0, 0.7])
@pytest.mark.parametrize("guessing", [0.0, 0.2])
def test_derivatives_are_those_of_the_likelihood(omega: float, guessing: float) -> None:
    rng = RNG(2)
    items = items_of(4, rng, guessing)
    values = systems(items, 5, rng)
    values[0, 3] = np.nan
    likelihood = ShiftLikelihood(values, items, np.full(4, 0.05), np.array([0, 0, 1, 1, 2]))
    theta = rng.normal(size=5)

    def value(at: NDArray[np.float64]) -> float:
        return float(likelihood.slopes(at, 0.5, omega).log_likelihood.sum())

    def gradient(at: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(likelihood.slopes(at, 0.5, omega).gradient.sum(axis=0))

    slopes = likelihood.slopes(theta, 0.5, omega)
    np.testing.assert_allclose(slopes.gradient.sum(axis=0), approx_fprime(theta, value, 1e-6), atol=1e-4)
    hessian = np.stack([approx_fprime(theta, lambda at, k=k: gradient(at)[k], 1e-6) for k in range(5)])
    np.testing.assert_allclose(slopes.hessian.sum(axis=0), hessian, atol=1e-4)


def test_a_family_of_one_is_a_system_with_a_noisier_shift_of_its_own() -> None:
    # one system: its family's shift adds to the item's, N(0, .3^2 + .4^2) = N(0, .5^2)
    rng = RNG(3)
    items = items_of(6, rng)
    values = systems(items, 1, rng)
    theta = np.array([0.3])
    alone = ShiftLikelihood(values, items, np.zeros(6), np.array([0])).slopes(theta, 0.5, 0.0)
    family = ShiftLikelihood(values, items, np.zeros(6), np.array([0])).slopes(theta, 0.3, 0.4)
    np.testing.assert_allclose(family.log_likelihood, alone.log_likelihood, atol=1e-6)


def test_the_profile_of_a_normal_likelihood_is_that_of_a_normal() -> None:
    # (.7 / .2)^2 is the likelihood ratio of 0; ends are on a grid of 521 points
    found = _profile(-(((TAUS - 0.7) / 0.2) ** 2) / 2, 0.95)
    assert found[:3] == pytest.approx((0.7, 0.7 - 1.96 * 0.2, 0.7 + 1.96 * 0.2), abs=TAUS[-1] / 500)
    assert found[3] == pytest.approx(12.25, abs=0.02)


def test_the_error_of_a_known_item_is_taken_from_what_is_seen_of_its_shift() -> None:
    """At one tau what is seen is N(m, s^2): the shift is r m of variance r^2 s^2 + r v, r = tau^2 / (tau^2 + v)."""
    seen, evidence = norm(0.8, 0.3).pdf(GRID), np.where(np.arange(len(TAUS)) == 5, 0.0, -1e4)
    mode = SimpleNamespace(slopes=SimpleNamespace(posterior=(seen / seen.sum())[None]))
    likelihood = SimpleNamespace(calibration_variance=np.array([0.09]))
    mean, variance = _averaged(cast(Any, likelihood), cast(Any, {(5, 0): mode}), evidence[:, None], np.zeros(1))
    share = TAUS[5] ** 2 / (TAUS[5] ** 2 + 0.09)
    assert 0.1 < share < 0.9
    assert mean[0] == pytest.approx(share * 0.8, abs=1e-4)
    assert variance[0] == pytest.approx(share**2 * 0.09 + share * 0.09, abs=1e-4)


def test_the_error_of_the_known_items_is_no_shift() -> None:
    rng = RNG(3)
    items = items_of(20, rng)
    values = systems(items, 30, rng, shift=0.5 * rng.standard_normal(20))
    known = replace(items, covariance=np.tile([[0.04, 0.01, 0], [0.01, 0.2, 0], [0, 0, 0]], (20, 1, 1)))
    # of 2 a + d: 4 (.04) + 4 (.01) + .2
    np.testing.assert_allclose(calibration_variance(known, 2.0), 0.4)
    # of a + d it is .26, more than the shifts have
    assert item_shifts(values, known, rng=RNG(1)).tau < 0.5 * item_shifts(values, items, rng=RNG(1)).tau


@pytest.mark.slow
@pytest.mark.parametrize("n", [5, 30])
def test_without_shifts_hardly_any_is_found(n: int) -> None:
    found = [study(n, seed=500 + seed)[0] for seed in range(8)]
    # p of tau: binomial(8, .05) exceeds 2 once in 170; items are 320 tests, of five systems few answers to tell by
    assert sum(one.p_tau < 0.05 for one in found) <= 2
    assert np.mean([one.p < 0.05 for one in found]) < 0.08
    assert sum((one.p_adjusted < 0.05).any() for one in found) <= 2
    assert sum(one.tau_lower == 0 for one in found) >= 6


@pytest.mark.slow
def test_tau_is_recovered_and_shifts_are_covered() -> None:
    results = [study(15, seed=600 + seed, tau=0.7) for seed in range(8)]
    assert np.mean([one.tau for one, _ in results]) == pytest.approx(0.7, abs=0.12)
    assert sum(one.tau_lower <= 0.7 <= one.tau_upper for one, _ in results) >= 6
    covered = np.mean([(one.lower <= shift) & (shift <= one.upper) for one, shift in results])
    assert 0.91 < covered < 0.98  # of 320
    # the posterior mean is nearer to the truth than no shift at all
    assert np.mean([((one.shift - shift) ** 2).mean() for one, shift in results]) < 0.7 * 0.49


def test_shifted_items_are_found_with_their_sign() -> None:
    rng = RNG(7)
    items = items_of(40, rng)
    shift = np.zeros(40)
    planted = [3, 17, 29]
    shift[planted] = [-2.5, 2.5, -2.5]
    shift[planted] *= np.sign(items.discrimination[planted])
    harder = ItemParameters.from_difficulty(items.discrimination, np.where(shift != 0, 0.5, items.difficulty))
    found = item_shifts(systems(harder, 25, rng, shift=shift), harder, rng=rng)
    assert set(np.flatnonzero(found.p_adjusted < 0.05)) == set(planted)
    np.testing.assert_array_equal(np.sign(found.shift[planted]), [-1, 1, -1])
    assert (found.lower[planted] * found.upper[planted] > 0).all()
    assert found.p_tau < 1e-3
    assert found.p_tau == pytest.approx(chi2.sf(found.x2, 1) / 2)
    row = found.table().iloc[3]
    assert row["delta"] == pytest.approx(2.35 * row["shift"])
    assert row["n_correct"] < row["expected_correct"]


@pytest.mark.slow
def test_systems_of_one_family_do_not_count_as_many() -> None:
    # eight families of three that share errors of their own, and no shift common to all
    families = np.repeat(np.arange(8), 3).tolist()
    told = [study(24, seed=700 + seed, families=families, omega=1.0)[0] for seed in range(5)]
    apart = [study(24, seed=700 + seed, families=families, omega=1.0, told=False)[0] for seed in range(5)]
    assert sum(one.p_tau < 0.05 for one in told) <= 1
    assert sum(one.p_tau < 0.05 for one in apart) >= 3
    assert np.mean([one.omega for one in told]) == pytest.approx(1.0, abs=0.25)
    assert np.mean([one.p < 0.05 for one in told]) < 0.06 < np.mean([one.p < 0.05 for one in apart])


def test_missing_responses_and_unanswered_items() -> None:
    rng = RNG(8)
    items = items_of(20, rng)
    values = systems(items, 12, rng)
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:, 4] = np.nan
    values[0, :] = np.where(np.isnan(values[0]), np.nan, 1.0)  # all right: its ability stays finite
    found = item_shifts(values, items, rng=rng)
    assert np.isnan(found.p[4])
    assert np.isfinite(np.delete(found.p, 4)).all()
    assert abs(found.shift[4]) < 1e-6
    assert np.isfinite(found.theta).all()
    assert found.n_systems.tolist() == (~np.isnan(values)).sum(axis=0).tolist()
    np.testing.assert_array_equal(found.systems_table()["theta"], found.theta)


def test_order_is_no_matter() -> None:
    rng = RNG(9)
    items = items_of(15, rng)
    values = systems(items, 8, rng, shift=0.8 * rng.standard_normal(15))
    order = rng.permutation(15)
    first = item_shifts(values, items, rng=RNG(1))
    second = item_shifts(values[::-1][:, order], items.select([items.item_ids[k] for k in order]), rng=RNG(1))
    np.testing.assert_allclose(second.shift, first.shift[order], atol=1e-6)
    assert second.tau == pytest.approx(first.tau)


@pytest.mark.slow
def test_people_in_the_place_of_systems_show_nothing_and_systems_do() -> None:
    rng = RNG(10)
    items = items_of(30, rng)
    people = simulate_responses(rng.normal(size=600), items, rng=rng)
    shifted = item_shifts(systems(items, 20, rng, shift=rng.standard_normal(30)), items, rng=rng)
    said: list[str] = []
    control = shift_control(people, items, shifted, n_groups=9, rng=rng, progress=said.append)
    assert control.tau.mean() < 0.35 < shifted.tau
    assert control.p == 0.1  # one of ten
    assert (control.n_flagged > 0).sum() <= 2
    assert len(said) == len(control.table()) == 9


def test_wrong_input_is_named() -> None:
    rng = RNG(12)
    items = items_of(10, rng)
    found = item_shifts(systems(items, 5, rng), items, rng=rng)
    flat = ItemParameters(items.item_ids, np.zeros(10), items.intercept, items.guessing, items.guessing_estimated)
    trials = simulate_responses(np.zeros(5), items, rng=rng, trials=3)
    few, many = systems(items, 14, rng), systems(items, 50, rng)
    is_refused("2 systems; expected at least 3", item_shifts, np.eye(2, 10), items, rng=rng)
    is_refused("4 items of known param.*; expected at least 5", item_shifts, np.eye(5, 4), items_of(4, rng), rng=rng)
    is_refused("1 families for 14 systems", item_shifts, few, items, families=["a"], rng=rng)
    is_refused("all systems are of one family", item_shifts, few, items, families=["a"] * 14, rng=rng)
    is_refused("several trials of an item", item_shifts, trials, items, rng=rng)
    is_refused("level must be between 0 and 1 but got 95", item_shifts, few, items, level=95, rng=rng)
    is_refused("all slopes are 0", item_shifts, few, flat, rng=rng)
    is_refused("14 people for 5 systems; expected at least 3 times", shift_control, few, items, found, rng=rng)
    is_refused("0 groups", shift_control, many, items, found, n_groups=0, rng=rng)
