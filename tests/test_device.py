"""What is fitted on another device stays there: no tensor of the processor's in between, and the same numbers."""

from typing import Any

import numpy as np
import pytest
import torch
from pretend_device import PLACE, Elsewhere, pretended_gpu
from test_steps import drawn

from irtbench.estimation import posterior, svi
from irtbench.estimation.mode import find_mode
from irtbench.estimation.posterior import ItemPosterior, PosteriorKind, fit_posterior
from irtbench.estimation.problem import Problem
from irtbench.estimation.response_rows import encode_responses
from irtbench.estimation.svi import SVISettings, fit_model
from irtbench.models.logistic import NodeTensors
from irtbench.models.priors import Priors
from irtbench.models.quadrature import normal_grid

CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "2pl": ({}, {"n": 300, "n_items": 8}),
    "missing": ({}, {"n": 300, "n_items": 8, "missing": 0.3}),
    "start from a sample": ({"standard_errors": False}, {"n": 8200, "n_items": 8}),
    "float32": ({"dtype": "float32"}, {"n": 300, "n_items": 8}),
    "guessing held": ({"guessing": 0.2}, {"n": 300, "n_items": 8}),
    "3pl": ({"kind": "3pl"}, {"n": 300, "n_items": 8}),
    "3pl without prior": ({"kind": "3pl", "prior": "none"}, {"n": 600, "n_items": 8}),
    "hierarchical": ({"prior": "hierarchical"}, {"n": 600, "n_items": 30}),
    "items integrated out": ({"prior": "hierarchical"}, {"n": 30, "n_items": 200}),
    "population": ({"population": "estimated", "tolerance": 1e-3}, {"n": 600, "n_items": 20}),
    "narrow posteriors": ({"prior": "weak"}, {"n": 100, "n_items": 400}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_fit_on_another_device_gives_the_same_numbers(case: str) -> None:
    settings, data = CASES[case]
    responses = drawn(**data)
    here = fit_model(responses, SVISettings(device="cpu", **settings))
    with pretended_gpu():
        there = fit_model(responses, SVISettings(device="cuda", **settings))
    assert there.converged == here.converged
    for name in ("discrimination", "intercept", "guessing"):
        np.testing.assert_array_equal(getattr(there.items, name), getattr(here.items, name))
    for name, error in here.items.standard_errors().items():
        np.testing.assert_array_equal(there.items.standard_errors()[name], error)


@pytest.mark.parametrize("kind", ["normal", "lowrank"])
def test_a_posterior_on_another_device_gives_the_same_numbers(
    kind: PosteriorKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posterior, "WINDOW", 10)  # so that a few steps are enough
    responses = drawn(100, 4)

    def fitted(device: str) -> ItemPosterior:
        place = svi.choose_device(device)  # type: ignore[arg-type]
        nodes = NodeTensors.from_quadrature(normal_grid(), dtype=torch.float64, device=place)
        fixed = torch.zeros(4, dtype=torch.float64, device=place)
        problem = Problem(encode_responses(responses, place), nodes, Priors.named("weak"), fixed > 0, fixed)
        with torch.no_grad():
            mode = find_mode(problem).parameters
        return fit_posterior(problem, mode, kind, seed=0, n_particles=1, max_steps=20, tolerance=0.005)

    here = fitted("cpu")
    with pretended_gpu():
        there = fitted("cuda")
    np.testing.assert_array_equal(there.mean, here.mean)
    np.testing.assert_array_equal(there.covariance, here.covariance)


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
