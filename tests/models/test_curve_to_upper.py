"""The curve of the 4PL: by hand, beside the 3PL at u = 1, beside automatic differentiation, NumPy beside torch."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pytest
import torch

from irtbench.models import curves
from irtbench.models.curve_formulas import Curve, CurveToUpper
from irtbench.models.curves import by_ability, icc, information, item_curves, log_icc
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.pyro_model import tensors
from irtbench.models.pyro_model.categories import TORCH

NAMES = [
    name for kind in (Curve, CurveToUpper) for name, value in vars(kind).items() if isinstance(value, cached_property)
]
OF_THREE = [name for name, value in vars(Curve).items() if isinstance(value, cached_property)]


def four(z: torch.Tensor, c: torch.Tensor, u: torch.Tensor) -> CurveToUpper[torch.Tensor]:
    return CurveToUpper(z, c, tensors.logistic, u)


def test_a_curve_by_hand() -> None:
    # s = 3/4 at z = log 3, c = 1/5, u = 9/10: P = 1/5 + 7/10 3/4 = 29/40, Q = 11/40; P_z = 7/10 3/16 = 21/160
    at = CurveToUpper(np.log([3.0]), np.array([0.2]), curves.logistic, np.array([0.9]))
    for name, expected in {
        **{"p": 29 / 40, "q": 11 / 40, "p_z": 21 / 160, "known": 21 / 29, "guessed": 8 / 29, "missed": 7 / 11},
        # by u P has the derivative s, by its logit 9/100 s
        **{"log_p_z": 21 / 116, "log_q_z": -21 / 44, "log_p_v": 0.09 * 30 / 29, "log_q_v": -0.09 * 30 / 11},
        "information_zz": (21 / 160) ** 2 * 1600 / 319,  # P_z^2 / (P Q)
    }.items():
        assert getattr(at, name)[0] == pytest.approx(expected, rel=1e-13), name


@pytest.mark.parametrize("name", OF_THREE)
def test_at_an_upper_asymptote_of_1_it_is_the_curve_of_the_3pl(name: str) -> None:
    z, c = np.linspace(-20, 20, 81)[:, None], np.array([0.0, 1e-8, 0.25, 0.9])
    there = getattr(curves.curve(z, c), name)
    here = getattr(CurveToUpper(z, c, curves.logistic, np.ones(4)), name)
    np.testing.assert_allclose(here, np.broadcast_to(there, here.shape), rtol=1e-11, atol=1e-290)


@pytest.mark.parametrize("name", sorted(set(NAMES)))
def test_numpy_and_torch_have_the_same_formulas(name: str) -> None:
    z, c, u = np.linspace(-300, 300, 401)[:, None], np.array([1e-8, 0.25]), np.array([0.6, 0.999])
    there = getattr(CurveToUpper(z, c, curves.logistic, u), name)
    here = getattr(four(torch.tensor(z), torch.tensor(c), torch.tensor(u)), name)
    np.testing.assert_allclose(here.numpy(), there, rtol=1e-12, atol=1e-290)


@pytest.mark.parametrize("which", ["p", "q"])
def test_derivatives_are_those_of_autograd(which: str) -> None:
    z, low, high = (
        torch.linspace(first, last, 101, dtype=torch.float64).requires_grad_()
        for first, last in ((-25, 25), (0.5, -4), (1, 5))
    )
    x = torch.stack([torch.ones_like(z), torch.zeros_like(z), low, high], dim=1)[:, :, None]
    both = Logistic(lower=True, upper=True).log_probabilities(x, z[None], TORCH).diagonal(dim1=0, dim2=2)
    first = dict(
        zip("zlv", torch.autograd.grad(both[int(which == "p")].sum(), (z, low, high), create_graph=True), strict=True)
    )
    found = four(z.detach(), torch.sigmoid(low.detach()), torch.sigmoid(high.detach()))
    for name, value in first.items():
        torch.testing.assert_close(getattr(found, f"log_{which}_{name}"), value.detach(), rtol=1e-9, atol=1e-13)
        if name == "z":
            (second,) = torch.autograd.grad(value.sum(), z, retain_graph=True)
            torch.testing.assert_close(getattr(found, f"log_{which}_zz"), second, rtol=1e-8, atol=1e-12)


def test_information_is_the_expectation_of_products_of_scores() -> None:
    at = CurveToUpper(np.linspace(-8, 8, 33), np.full(33, 0.2), curves.logistic, np.full(33, 0.93))
    found = at.p * at.log_p_z**2 + at.q * at.log_q_z**2
    np.testing.assert_allclose(at.information_zz, found, rtol=1e-10)


def test_items_with_upper_asymptotes_rise_to_them() -> None:
    items = ItemParameters(
        ("i1", "i2"), np.array([1.0, 2.0]), np.zeros(2), np.array([0.2, 0.0]), np.ones(2, dtype=bool),
        upper_asymptote=np.array([0.9, 0.95]),
    )  # fmt: skip
    np.testing.assert_allclose(icc([-50.0, 50.0], items), [[0.2, 0.0], [0.9, 0.95]], atol=1e-12)
    log_p, log_q = log_icc(np.linspace(-3, 3, 7), items)
    np.testing.assert_allclose(np.exp(log_p) + np.exp(log_q), 1.0, rtol=1e-14)
    np.testing.assert_allclose(np.exp(log_p), icc(np.linspace(-3, 3, 7), items), rtol=1e-14)
    assert np.isfinite(log_icc([-400.0, 400.0], items)).all()
    # Warm's J = P' P'' / (P Q), and information, from the curve itself
    theta, h = np.linspace(-2, 2, 9), 1e-4
    above, at, below = (icc(theta + step, items) for step in (h, 0, -h))
    slope, bend = (above - below) / (2 * h), (above - 2 * at + below) / h**2
    np.testing.assert_allclose(information(theta, items), slope**2 / (at * (1 - at)), rtol=1e-6)
    np.testing.assert_allclose(by_ability(theta, items).curvature, slope * bend / (at * (1 - at)), rtol=1e-4, atol=1e-6)
    assert item_curves(theta, items).p.shape == (9, 2)
