"""The same formulas as tensors: beside NumPy's, beside automatic differentiation, and at the ends of the scale."""

from functools import cached_property

import numpy as np
import pytest
import torch

from irtbench.models import curves
from irtbench.models.curve_formulas import Curve
from irtbench.models.pyro_model import tensors

NAMES = [name for name, value in vars(Curve).items() if isinstance(value, cached_property)]
GUESSING = (0.0, 1e-8, 0.25, 0.999)


@pytest.mark.parametrize("name", NAMES)
def test_every_derivative_is_that_of_numpy(name: str) -> None:
    z, c = np.linspace(-300, 300, 401)[:, None], np.array(GUESSING)
    there = getattr(curves.curve(z, c), name)
    here = getattr(tensors.curve(torch.tensor(z), torch.tensor(c)), name)
    np.testing.assert_allclose(here.numpy(), there, rtol=1e-12, atol=1e-290)


def test_log_probabilities_are_those_of_numpy() -> None:
    z, c = np.linspace(-2000, 2000, 401)[:, None], np.array(GUESSING)
    here = tensors.log_probabilities(torch.tensor(z), torch.tensor(c).log())
    for mine, other in zip(here, curves.log_probabilities(z, c), strict=True):
        np.testing.assert_allclose(mine.numpy(), other, rtol=1e-12, atol=1e-16)  # log P is near 0 where P is near 1


@pytest.mark.parametrize("which", ["p", "q"])
def test_derivatives_are_those_of_autograd(which: str) -> None:
    z = torch.linspace(-25, 25, 101, dtype=torch.float64, requires_grad=True)
    logit = torch.linspace(-4, 4, 101, dtype=torch.float64).flip(0).requires_grad_()
    log_prob = tensors.log_probabilities(z, torch.nn.functional.logsigmoid(logit))[which == "q"]
    by_z, by_l = torch.autograd.grad(log_prob.sum(), (z, logit), create_graph=True)
    by_zz, by_zl = torch.autograd.grad(by_z.sum(), (z, logit), retain_graph=True, allow_unused=True)
    by_ll = torch.autograd.grad(by_l.sum(), logit)[0]
    found = tensors.curve(z.detach(), torch.sigmoid(logit.detach()))
    expected = {"z": by_z, "l": by_l, "zz": by_zz, "ll": by_ll}
    if which == "p":
        expected["zl"] = by_zl
    else:
        assert by_zl is None  # c is not in it
    for name, value in expected.items():
        torch.testing.assert_close(
            getattr(found, f"log_{which}_{name}"), value.detach(), rtol=1e-9, atol=1e-13, msg=name
        )


def test_an_item_without_guessing_passes_its_gradient() -> None:
    z = torch.tensor([-800.0, 0.0, 800.0], dtype=torch.float64, requires_grad=True)
    log_guessing = torch.full((3,), -torch.inf, dtype=torch.float64)
    log_p, log_q = tensors.log_probabilities(z, log_guessing)
    assert torch.autograd.grad(log_p.sum(), z, retain_graph=True)[0].tolist() == [1.0, 0.5, 0.0]
    assert torch.autograd.grad(log_q.sum(), z)[0].tolist() == [0.0, -0.5, -1.0]


def test_precision_is_kept() -> None:
    found = tensors.curve(torch.tensor([-200.0, 3.0]), torch.tensor([0.0, 0.2]))
    assert found.log_p_zz.dtype == torch.float32
    assert found.log_p_z[0] == 1
