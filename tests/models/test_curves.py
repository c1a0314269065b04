"""The curve: exact cases, finite differences, the ends of the scale, and what holds for all items; NumPy."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from irtbench.models.curves import by_ability, curve, icc, information, item_curves, log_icc
from irtbench.models.item_parameters import ItemParameters

ITEMS = ItemParameters.from_difficulty([1.3, -0.8, 0.0, 4.0, 2.0], [0.3, -1.0, 0.5, 0.1, 0.0], [0, 0.2, 0.25, 0, 0.999])
THETA = np.linspace(-3, 3, 13)
STEP = 1e-5
UNIT = st.floats(0.0, 0.9)
LOGIT = st.floats(-30.0, 30.0)


def logs(z: NDArray[np.float64], c: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log P and log(1 - P) as printed, for moderate z."""
    s = 1 / (1 + np.exp(-z))
    return np.log(c + (1 - c) * s), np.log((1 - c) * (1 - s))


def test_a_curve_by_hand() -> None:
    # s = 3/4 at z = log 3, c = 1/5: P = 1/5 + 4/5 * 3/4 = 4/5, 1 - P = 1/5, P_z = 4/5 * 3/4 * 1/4 = 3/20.
    # Of the right responses 1/4 are guessed. Derivatives of log P: by z 3/16, by c (1/4) / (4/5) = 5/16, by logit c
    # 1/5 4/5 5/16 = 1/20.
    at = curve(np.log([3.0]), np.array([0.2]))
    for name, expected in {
        **{"s": 3 / 4, "t": 1 / 4, "p": 4 / 5, "q": 1 / 5, "variance": 4 / 25, "guessed": 1 / 4, "known": 3 / 4},
        **{"p_z": 3 / 20, "weight": 15 / 16},
        **{"log_p_z": 3 / 16, "log_q_z": -3 / 4, "log_p_c": 5 / 16, "log_q_c": -5 / 4, "log_p_l": 1 / 20},
        # (log P)_zz = P_zz / P - (P_z / P)^2 = -3/32 - 9/256
        **{"log_q_l": -1 / 5, "log_p_zz": -33 / 256, "log_q_zz": -3 / 16},
        # P_z^2 / (P Q) = 9/400 / (4/25)
        "information_zz": 9 / 64,
    }.items():
        assert getattr(at, name)[0] == pytest.approx(expected, rel=1e-14), name


@pytest.mark.parametrize("c", [0.0, 1e-6, 0.25, 0.99])
def test_derivatives_are_those_of_finite_differences(c: float) -> None:
    z, at_c = np.linspace(-6, 6, 49), np.full(49, c)
    at = curve(z, at_c)
    above, below = logs(z + STEP, at_c), logs(z - STEP, at_c)
    for found, high, low in zip((at.log_p_z, at.log_q_z), above, below, strict=True):
        np.testing.assert_allclose(found, (high - low) / (2 * STEP), rtol=1e-6, atol=1e-9)
    for first, second in (("log_p_z", "log_p_zz"), ("log_q_z", "log_q_zz"), ("p", "p_z")):
        high, low = (getattr(curve(z + step, at_c), first) for step in (STEP, -STEP))
        np.testing.assert_allclose(getattr(at, second), (high - low) / (2 * STEP), rtol=1e-6, atol=1e-9, err_msg=second)
    if c < 1e-5:
        return

    def by_c(name: str) -> NDArray[np.float64]:
        h = STEP * min(c, 1 - c)
        return (getattr(curve(z, at_c + h), name) - getattr(curve(z, at_c - h), name)) / (2 * h)

    above, below = logs(z, at_c + 1e-6), logs(z, at_c - 1e-6)
    for found, high, low in zip((at.log_p_c, at.log_q_c), above, below, strict=True):
        np.testing.assert_allclose(found, (high - low) / 2e-6, rtol=1e-6, atol=1e-8)
    slope_of_c = c * (1 - c)  # dc / d logit c
    for first, second in (("log_p_z", "log_p_zl"), ("log_p_l", "log_p_ll"), ("log_q_l", "log_q_ll")):
        expected = slope_of_c * by_c(first)
        np.testing.assert_allclose(getattr(at, second), expected, rtol=1e-6, atol=1e-8, err_msg=second)
    np.testing.assert_allclose(at.log_p_l, slope_of_c * at.log_p_c, rtol=1e-12)
    np.testing.assert_allclose(at.log_q_l, slope_of_c * at.log_q_c, rtol=1e-12)


def test_information_is_the_expectation_of_squared_scores_and_of_minus_the_second_derivative() -> None:
    at = curve(np.linspace(-8, 8, 33), np.full(33, 0.2))
    p, q = at.p, at.q
    np.testing.assert_allclose(at.information_zz, p * at.log_p_z**2 + q * at.log_q_z**2, rtol=1e-10)
    np.testing.assert_allclose(at.information_zz, -(p * at.log_p_zz + q * at.log_q_zz), rtol=1e-10)
    across = p * at.log_p_z * at.log_p_l + q * at.log_q_z * at.log_q_l
    np.testing.assert_allclose(across, -p * at.log_p_zl, rtol=1e-10)


def test_derivatives_by_theta_are_those_of_the_log_curves() -> None:
    found = by_ability(THETA, ITEMS)
    right, wrong = (
        (high - low) / (2 * STEP)
        for high, low in zip(log_icc(THETA + STEP, ITEMS), log_icc(THETA - STEP, ITEMS), strict=True)
    )
    np.testing.assert_allclose(found.right, right, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.wrong, wrong, rtol=1e-6, atol=1e-9)
    above, below = by_ability(THETA + STEP, ITEMS), by_ability(THETA - STEP, ITEMS)
    np.testing.assert_allclose(found.right_second, (above.right - below.right) / (2 * STEP), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.wrong_second, (above.wrong - below.wrong) / (2 * STEP), rtol=1e-6, atol=1e-8)
    slope = (icc(THETA + STEP, ITEMS) - icc(THETA - STEP, ITEMS)) / (2 * STEP)
    second = ITEMS.discrimination**2 * found.curve.p_z * (found.curve.t - found.curve.s)
    np.testing.assert_allclose(found.curvature, slope * second / found.curve.variance, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(found.information, information(THETA, ITEMS))


def test_a_missing_response_has_no_score_and_no_information() -> None:
    found = by_ability([0.4], ITEMS)
    values = np.array([[1.0, 0.0, np.nan, 1.0, np.nan]])
    score, observed = found.score(values)[0], found.observed_information(values)[0]
    assert score[[2, 4]].tolist() == observed[[2, 4]].tolist() == [0, 0]
    assert score[:2].tolist() == [found.right[0, 0], found.wrong[0, 1]]
    assert observed[:2].tolist() == [-found.right_second[0, 0], -found.wrong_second[0, 1]]
    # without guessing what is observed is what is expected, whatever the response
    assert observed[0] == pytest.approx(found.information[0, 0], rel=1e-12)


@pytest.mark.parametrize("theta", [-40.0, 40.0])
def test_nothing_is_lost_at_the_ends_of_the_scale(theta: float) -> None:
    # a = 25, z = +-1000 there: beyond what exp can hold
    a = np.array([1.0, -1.0, 25.0, -25.0, 0.0, 25.0, -25.0])
    items = ItemParameters.from_difficulty(a, 0.0, [0, 0, 0, 0, 0.3, 0.2, 0.999])
    at, (log_p, log_q) = item_curves(theta, items), log_icc(theta, items)
    for name in (
        "p",
        "weight",
        "known",
        "guessed",
        "p_z",
        "log_p_z",
        "log_p_zz",
        "log_p_l",
        "log_p_zl",
        "log_p_ll",
    ):
        assert np.isfinite(getattr(at, name)).all(), name
    assert (at.p > 0).all()
    assert np.isfinite([log_p, log_q, at.information_zz]).all()
    rises = a * theta > 0
    # without guessing a right response against all odds says z is higher by 1 for each log unit, a wrong one says -1
    plain = items.guessing == 0
    np.testing.assert_allclose(at.log_p_z[0, plain], np.where(rises[plain], 0, 1), atol=1e-15)
    np.testing.assert_allclose(at.log_q_z[0, plain], np.where(rises[plain], -1, 0), atol=1e-15)
    np.testing.assert_allclose(log_p[0, plain], np.where(rises[plain], 0, -np.abs(a[plain] * theta)), atol=1e-15)
    assert at.log_p_z[0, ~plain & ~rises & (a != 0)] == pytest.approx(0, abs=1e-300)  # it was guessed
    np.testing.assert_allclose(at.p[0, [4]], 0.65)


def test_an_item_without_slope_says_nothing_of_theta() -> None:
    items = ItemParameters(("flat",), [0.0], [0.7], [0.1], [False])
    found = by_ability(THETA, items)
    assert not found.right.any()
    assert not found.wrong.any()
    assert not information(THETA, items).any()
    assert np.ptp(icc(THETA, items)) == 0


def test_single_precision_stays_single() -> None:
    z, c = np.linspace(-200, 200, 41, dtype=np.float32), np.float32([0.2])
    at = curve(z, c)
    double = curve(z.astype(np.float64), np.array([0.2]))
    assert at.log_p_zz.dtype == np.float32
    np.testing.assert_allclose(at.log_p_z, double.log_p_z, rtol=1e-5, atol=1e-30)


@settings(max_examples=200, deadline=None)
@given(z=LOGIT, c=UNIT)
def test_what_holds_for_every_curve(z: float, c: float) -> None:
    at = curve(np.array([z]), np.array([c]))
    assert c <= at.p[0] <= 1
    assert at.p[0] + at.q[0] == pytest.approx(1, rel=1e-14)
    assert at.known[0] + at.guessed[0] == pytest.approx(1, rel=1e-14)
    # scores are 0 in expectation
    assert at.p[0] * at.log_p_z[0] == pytest.approx(-at.q[0] * at.log_q_z[0], rel=1e-12)
    assert at.p[0] * at.log_p_c[0] == pytest.approx(-at.q[0] * at.log_q_c[0], rel=1e-12)
    higher = curve(np.array([z + 0.1]), np.array([c]))
    assert higher.p[0] >= at.p[0]


@settings(max_examples=50, deadline=None)
@given(a=st.floats(-5, 5), d=st.floats(-5, 5), c=UNIT, theta=st.floats(-6, 6))
def test_a_reversed_item_is_the_same_item_on_the_reversed_scale(a: float, d: float, c: float, theta: float) -> None:
    item = ItemParameters(("i",), [a], [d], [c], [False])
    reversed_item = ItemParameters(("i",), [-a], [d], [c], [False])
    here, there = by_ability(theta, item), by_ability(-theta, reversed_item)
    assert here.curve.p == there.curve.p
    assert here.right == -there.right
    assert here.information == there.information
    assert here.curvature == -there.curvature


def test_curves_are_light() -> None:
    modules = "irtbench.models.curves, irtbench.models.theta_posterior"
    code = f"import sys, {modules}; print({{'torch', 'pyro'}} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "set()"
