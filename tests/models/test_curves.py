"""The curve: exact cases, finite differences, the ends of the scale, and what holds for all items; NumPy and torch."""

from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

import irtbench
from builders.refusals import is_refused
from irtbench import simulate_responses
from irtbench.models.curves import (
    Curve,
    by_ability,
    curve,
    icc,
    information,
    item_curves,
    log_icc,
    log_probabilities,
    logistic,
)
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.pyro_model import tensors
from irtbench.models.pyro_model.categories import TORCH
from irtbench.models.pyro_model.collapsed import CollapsedLogistic
from irtbench.models.pyro_model.tensors import NodeTensors

ITEMS = ItemParameters.from_difficulty([1.3, -0.8, 0.0, 4.0, 2.0], [0.3, -1.0, 0.5, 0.1, 0.0], [0, 0.2, 0.25, 0, 0.999])
RISING = replace(ItemParameters.from_difficulty([1.0, 2.0], 0.0, [0.2, 0.0]), upper_asymptote=np.array([0.9, 0.95]))
THETA = np.linspace(-3, 3, 13)
STEP = 1e-5
UNIT = st.floats(0.0, 0.9)
LOGIT = st.floats(-30.0, 30.0)
NAMES = [name for name, value in vars(Curve).items() if isinstance(value, cached_property)]
GUESSING, UPPER = np.array([0.0, 1e-8, 0.25, 0.4]), np.array([1.0, 1.0, 0.6, 0.999])


def test_a_curve_by_hand() -> None:
    # s = 3/4 at z = log 3, c = 1/5: P = 1/5 + 4/5 * 3/4 = 4/5, 1 - P = 1/5, P_z = 4/5 * 3/4 * 1/4 = 3/20.
    # Of the right responses 1/4 are guessed. Derivatives of log P: by z 3/16, by c (1/4) / (4/5) = 5/16.
    at = curve(np.log([3.0]), np.array([0.2]))
    for name, expected in {
        **{"s": 3 / 4, "t": 1 / 4, "p": 4 / 5, "q": 1 / 5, "variance": 4 / 25, "guessed": 1 / 4, "known": 3 / 4},
        **{"missed": 1.0, "weight": 15 / 16},
        **{"log_p_z": 3 / 16, "log_q_z": -3 / 4, "log_p_c": 5 / 16, "log_q_c": -5 / 4},
        # (log P)_zz = P_zz / P - (P_z / P)^2 = -3/32 - 9/256
        **{"log_p_zz": -33 / 256, "log_q_zz": -3 / 16},
        # P_z^2 / (P Q) = 9/400 / (4/25)
        "information_zz": 9 / 64,
    }.items():
        assert getattr(at, name)[0] == pytest.approx(expected, rel=1e-14), name
    plain = curve(np.log([3.0]), np.array([0.0]))
    assert plain.log_p_zz[0] == pytest.approx(plain.log_q_zz[0]) == pytest.approx(-3 / 16, rel=1e-14)  # -s t


def test_a_curve_to_an_upper_asymptote_by_hand() -> None:
    # s = 3/4 at z = log 3, c = 1/5, u = 9/10: P = 1/5 + 7/10 3/4 = 29/40, Q = 11/40; P_z = 7/10 3/16 = 21/160
    at = Curve(np.log([3.0]), np.array([0.2]), logistic, np.array([0.9]))
    for name, expected in {
        **{"p": 29 / 40, "q": 11 / 40, "known": 21 / 29, "guessed": 8 / 29, "missed": 7 / 11},
        # by u P has the derivative s, by its logit 9/100 s
        **{"log_p_z": 21 / 116, "log_q_z": -21 / 44, "log_p_v": 0.09 * 30 / 29, "log_q_v": -0.09 * 30 / 11},
        "information_zz": (21 / 160) ** 2 * 1600 / 319,  # P_z^2 / (P Q)
    }.items():
        assert getattr(at, name)[0] == pytest.approx(expected, rel=1e-13), name


@pytest.mark.parametrize("name", NAMES)
def test_numpy_and_torch_have_the_same_formulas(name: str) -> None:
    z = np.linspace(-300, 300, 401)[:, None]
    there = getattr(Curve(z, GUESSING, logistic, UPPER), name)
    here = getattr(Curve(torch.tensor(z), torch.tensor(GUESSING), tensors.logistic, torch.tensor(UPPER)), name)
    np.testing.assert_allclose(here.numpy(), there, rtol=1e-12, atol=1e-290)


@pytest.mark.parametrize("which", ["p", "q"])
@pytest.mark.parametrize("upper", [True, False])
def test_derivatives_are_those_of_autograd(which: str, upper: bool) -> None:
    z, low, high = (
        torch.linspace(first, last, 101, dtype=torch.float64).requires_grad_()
        for first, last in ((-25, 25), (0.5 if upper else 4, -4), (1, 5))
    )
    x = torch.stack([torch.ones_like(z), torch.zeros_like(z), low, *([high] if upper else [])], dim=1)[:, :, None]
    both = Logistic(lower=True, upper=upper).log_probabilities(x, z[None], TORCH).diagonal(dim1=0, dim2=2)
    inputs = {"z": z, "c": low, **({"v": high} if upper else {})}
    by_inputs = torch.autograd.grad(both[int(which == "p")].sum(), [*inputs.values()], create_graph=True)
    first = dict(zip(inputs, by_inputs, strict=True))
    u, c = torch.sigmoid(high.detach()) if upper else 1.0, torch.sigmoid(low.detach())
    first["c"] = first["c"] / (c * (1 - c))
    found = Curve(z.detach(), c, tensors.logistic, u)
    for name, value in first.items():
        torch.testing.assert_close(getattr(found, f"log_{which}_{name}"), value.detach(), rtol=1e-9, atol=1e-13)
    (second,) = torch.autograd.grad(first["z"].sum(), z)
    torch.testing.assert_close(getattr(found, f"log_{which}_zz"), second, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("items", [ITEMS, RISING], ids=["to 1", "to an upper asymptote"])
def test_derivatives_by_theta_are_those_of_the_log_curves(items: ItemParameters) -> None:
    found, above, below = (by_ability(THETA + step, items) for step in (0, STEP, -STEP))
    right, wrong = (
        (high - low) / (2 * STEP)
        for high, low in zip(log_icc(THETA + STEP, items), log_icc(THETA - STEP, items), strict=True)
    )
    np.testing.assert_allclose(found.right, right, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.wrong, wrong, rtol=1e-6, atol=1e-9)
    for response, high, low in ((1.0, above.right, below.right), (0.0, above.wrong, below.wrong)):
        second = -found.observed_information(np.full(high.shape, response))
        np.testing.assert_allclose(second, (high - low) / (2 * STEP), rtol=1e-6, atol=1e-8)
    # Warm's J = P' P'' / (P Q), and information, from the curve itself
    high, at, low = (icc(THETA + step, items) for step in (1e-4, 0, -1e-4))
    slope, bend = (high - low) / 2e-4, (high - 2 * at + low) / 1e-8
    np.testing.assert_allclose(found.curvature, slope * bend / (at * (1 - at)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.information, slope**2 / (at * (1 - at)), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(found.information, information(THETA, items))


def test_a_missing_response_has_no_score_and_no_information() -> None:
    found = by_ability([0.4], ITEMS)
    values = np.array([[1.0, 0.0, np.nan, 1.0, np.nan]])
    score, observed = found.score(values)[0], found.observed_information(values)[0]
    assert score[[2, 4]].tolist() == observed[[2, 4]].tolist() == [0, 0]
    assert score[:2].tolist() == [found.right[0, 0], found.wrong[0, 1]]
    # without guessing what is observed is what is expected, whatever the response
    assert observed[0] == pytest.approx(found.information[0, 0], rel=1e-12)


@pytest.mark.parametrize("theta", [-40.0, 40.0])
def test_nothing_is_lost_at_the_ends_of_the_scale(theta: float) -> None:
    # a = 25, z = +-1000 there: beyond what exp can hold
    a = np.array([1.0, -1.0, 25.0, -25.0, 0.0, 25.0, -25.0])
    items = ItemParameters.from_difficulty(a, 0.0, [0, 0, 0, 0, 0.3, 0.2, 0.999])
    at, (log_p, log_q) = item_curves(theta, items), log_icc(theta, items)
    for name in ["p", "weight", "known", "guessed", "log_p_z", "log_p_zz", "log_p_c"]:
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


def test_single_precision_stays_single() -> None:
    z, c = np.linspace(-200, 200, 41, dtype=np.float32), np.float32([0.2])
    at = curve(z, c)
    double = curve(z.astype(np.float64), np.array([0.2]))
    assert at.log_p_zz.dtype == np.float32
    np.testing.assert_allclose(at.log_p_z, double.log_p_z, rtol=1e-5, atol=1e-30)


def test_items_with_upper_asymptotes_rise_to_them() -> None:
    np.testing.assert_allclose(icc([-50.0, 50.0], RISING), [[0.2, 0.0], [0.9, 0.95]], atol=1e-12)
    log_p, log_q = log_icc(THETA, RISING)
    np.testing.assert_allclose(np.exp(log_p) + np.exp(log_q), 1.0, rtol=1e-14)
    np.testing.assert_allclose(np.exp(log_p), icc(THETA, RISING), rtol=1e-14)
    assert np.isfinite(log_icc([-400.0, 400.0], RISING)).all()


def row_at(z: torch.Tensor, log_guessing: torch.Tensor) -> CollapsedLogistic:
    """A row of items with these logarithms of guessing at these linear predictors."""
    nodes = NodeTensors(z[:, None], torch.zeros_like(z))
    ones = torch.ones_like(log_guessing)
    return CollapsedLogistic(ones[:, None], 0 * ones, log_guessing, nodes)


def test_log_probabilities_of_a_row_are_those_of_numpy() -> None:
    z, c = np.linspace(-2000, 2000, 401), np.array([0.0, 1e-8, 0.25, 0.999])
    row = row_at(torch.tensor(z), torch.tensor(c).log())
    for mine, other in zip((row.log_odds + row.log_q, row.log_q), log_probabilities(z, c[:, None]), strict=True):
        np.testing.assert_allclose(mine.numpy(), other, rtol=1e-12, atol=1e-12)  # log P is near 0 where P is near 1


def test_an_item_without_guessing_passes_its_gradient() -> None:
    z = torch.tensor([-800.0, 0.0, 800.0], dtype=torch.float64, requires_grad=True)
    row = row_at(z, torch.full((1,), -torch.inf, dtype=torch.float64))
    assert torch.autograd.grad((row.log_odds + row.log_q).sum(), z, retain_graph=True)[0].tolist() == [1.0, 0.5, 0.0]
    assert torch.autograd.grad(row.log_q.sum(), z)[0].tolist() == [0.0, -0.5, -1.0]


def test_a_share_missing_is_one_and_items_in_categories_are_tried_once() -> None:
    items, draw = ItemParameters.from_difficulty([1.0], [0.0]), {"rng": np.random.default_rng(1)}
    for missing in (-0.1, 1.5):
        is_refused("missing must be between 0 and 1", simulate_responses, [0.0], items, missing=missing, **draw)
    grades = np.random.default_rng(2).integers(0, 3, (60, 3))
    items = irtbench.fit_categories(grades, prior="weak").items.as_items()
    is_refused("items in categories are tried once", simulate_responses, [0.0], items, trials=2, **draw)
