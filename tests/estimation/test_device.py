"""What is fitted on another device stays there: no tensor of the processor's in between, and the same numbers."""

from typing import Any

import numpy as np
import pytest
import torch

from builders.pretended_device import PLACE, Elsewhere, pretended_gpu
from builders.simulated import drawn
from irtbench.estimation.fit import fit_model
from irtbench.estimation.settings import FitSettings

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "2pl": ({}, {"n": 300, "n_items": 8}),
    "missing": ({}, {"n": 300, "n_items": 8, "missing": 0.3}),
    "start from a sample": ({"standard_errors": False}, {"n": 8200, "n_items": 8}),
    "float32": ({"dtype": "float32"}, {"n": 300, "n_items": 8}),
    "guessing fixed": ({"guessing": 0.2}, {"n": 300, "n_items": 8}),
    "3pl": ({"kind": "3pl"}, {"n": 300, "n_items": 8}),
    "3pl without prior": ({"kind": "3pl", "prior": "none"}, {"n": 600, "n_items": 8}),
    "hierarchical": ({"prior": "hierarchical"}, {"n": 600, "n_items": 30}),
    "items integrated out": ({"prior": "hierarchical"}, {"n": 30, "n_items": 200}),
    "population": ({"population": "estimated", "tolerance": 1e-3}, {"n": 600, "n_items": 20}),
    "narrow posteriors": ({"prior": "weak"}, {"n": 300, "n_items": 300}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_fit_on_another_device_gives_the_same_numbers(case: str) -> None:
    settings, data = CASES[case]
    responses = drawn(**data)
    here = fit_model(responses, FitSettings(device="cpu", **settings))
    with pretended_gpu():
        there = fit_model(responses, FitSettings(device="cuda", **settings))
    assert there.converged == here.converged
    for name in ("discrimination", "intercept", "guessing"):
        np.testing.assert_array_equal(getattr(there.items, name), getattr(here.items, name))
    for name, error in here.items.standard_errors().items():
        np.testing.assert_array_equal(there.items.standard_errors()[name], error)


def test_the_pretended_device_refuses_what_a_gpu_refuses() -> None:
    with pretended_gpu():
        there = torch.zeros(3, device=PLACE)
        assert isinstance(there, Elsewhere)
        assert isinstance(there + 1, Elsewhere)
        assert float((there + torch.tensor(2.0)).sum()) == 6  # a single number may come from anywhere
        with pytest.raises(AssertionError, match="on the processor among tensors on the GPU"):
            there + torch.zeros(3)
        with pytest.raises(AssertionError, match="on the processor among tensors on the GPU"):
            torch.cat([there, torch.zeros(3)])
