"""What is fitted on another device stays there: no tensor of the processor's in between, and the same numbers."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

from builders.few_draws import few_draws
from builders.pretended_device import PLACE, Elsewhere, pretended_gpu
from builders.simulated import drawn
from builders.stored import on_disk
from irtbench import FitSettings, ResponseMatrix, SparseResponses, StoredResponses, fit_model
from irtbench.estimation.marginal import e_step, fisher_scoring
from irtbench.estimation.variational import importance_weights, item_posterior

FORMS = ("on disk", "sparse", "tabulated", "told by a sample")
DEVICES: tuple[Literal["cpu", "cuda"], ...] = ("cpu", "cuda")
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "2pl": ({}, {"n": 300, "n_items": 8}),
    "missing": ({}, {"n": 300, "n_items": 8, "missing": 0.3}),
    "start from a sample": ({"standard_errors": False}, {"n": 8200, "n_items": 8}),
    "float32": ({"dtype": "float32"}, {"n": 300, "n_items": 8}),
    "guessing fixed": ({"guessing": 0.2}, {"n": 300, "n_items": 8}),
    "3pl": ({"kind": "3pl"}, {"n": 300, "n_items": 8}),
    "3pl without prior": ({"kind": "3pl", "prior": "none"}, {"n": 600, "n_items": 8}),
    "hierarchical": ({"prior": "hierarchical", "tolerance": 1e-3}, {"n": 600, "n_items": 30}),
    "items integrated out": ({"prior": "hierarchical", "tolerance": 0.1}, {"n": 30, "n_items": 120}),
    "items integrated out, 3pl": (
        {"prior": "hierarchical", "kind": "3pl", "tolerance": 1e-2},
        {"n": 40, "n_items": 60},
    ),
    "population": ({"population": "estimated", "tolerance": 1e-3}, {"n": 600, "n_items": 20}),
    "narrow posteriors": ({"prior": "weak"}, {"n": 300, "n_items": 300}),
    "rasch": ({"kind": "rasch"}, {"n": 300, "n_items": 8}),
    "common slope": ({"kind": "1pl"}, {"n": 300, "n_items": 8, "missing": 0.3}),
    "weighted draws": ({"posterior": "normal", "prior": "weak"}, {"n": 200, "n_items": 6}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_fit_on_another_device_gives_the_same_numbers(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # of a posterior what is done at one step or draw is done at all, slowly where the device is pretended
    monkeypatch.setattr(item_posterior, "WINDOW", 10)
    monkeypatch.setattr(item_posterior, "ELBO_DRAWS", 20)
    monkeypatch.setattr(importance_weights, "ELBO_DRAWS", 20)
    settings, data = CASES[case]
    responses = drawn(**data)
    with few_draws(40, steps=20):
        here = fit_model(responses, FitSettings(device="cpu", **settings))
        with pretended_gpu():
            there = fit_model(responses, FitSettings(device="cuda", **settings))
    assert there.converged == here.converged
    for name in ("discrimination", "intercept", "guessing"):
        np.testing.assert_array_equal(getattr(there.items, name), getattr(here.items, name))
    for name, error in here.items.standard_errors().items():
        np.testing.assert_array_equal(there.items.standard_errors()[name], error)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("case", CASES)
def test_a_gpu_gives_the_same_estimates(case: str) -> None:
    settings, data = CASES[case]
    responses = drawn(**data)
    here, there = (fit_model(responses, FitSettings(device=device, **settings)) for device in DEVICES)
    assert there.converged == here.converged
    within = np.full(here.items.n_items, 1e-2 if "posterior" in settings or "dtype" in settings else 1e-4)
    if here.items.covariance is not None:  # steep slopes of few respondents are loose: a thousandth standard error
        within = np.maximum(within, 1e-3 * here.items.standard_errors()["intercept"])
    assert (np.abs(there.items.intercept - here.items.intercept) < within).all()


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("form", FORMS)
def test_whatever_form_the_responses_are_in(
    form: str, missing: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = in_form(form, missing, tmp_path, monkeypatch)
    here = fit_model(given, FitSettings(device="cpu"))
    with pretended_gpu():
        there = fit_model(given, FitSettings(device="cuda"))
    # not bit by bit: only the processor's threads have respondents of their own
    np.testing.assert_allclose(there.items.intercept, here.items.intercept, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(there.items.covariance, here.items.covariance, rtol=1e-8, atol=1e-14)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("form", FORMS)
def test_a_gpu_gives_the_same_estimates_of_any_form(
    form: str, missing: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = in_form(form, missing, tmp_path, monkeypatch)
    here, there = (fit_model(given, FitSettings(device=device)) for device in DEVICES)
    np.testing.assert_allclose(there.items.intercept, here.items.intercept, atol=1e-4)
    np.testing.assert_allclose(there.items.covariance, here.items.covariance, rtol=1e-3, atol=1e-6)


def in_form(
    form: str, missing: float, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> ResponseMatrix | SparseResponses | StoredResponses:
    """Responses in a form, or so many that sums are made another way."""
    responses = drawn(n=9000 if form == "told by a sample" else 300, n_items=8, missing=missing)
    if form == "on disk":
        return on_disk(responses, folder)
    if form == "sparse":
        return SparseResponses.from_long(responses.to_long())
    if form == "tabulated":
        monkeypatch.setattr(e_step, "FEWEST", 1)
        return responses
    for name, value in (("FEWEST_FOR_CURVATURE", 1000), ("SHARE_FOR_CURVATURE", 2), ("SHARE_OF_INCOMPLETE", 2)):
        monkeypatch.setattr(fisher_scoring, name, value)
    return responses


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
        assert there[torch.tensor([0, 1])].shape == (2,)  # indices of the processor's are taken
        there[:2] = torch.ones(2)  # and what is copied
        with pytest.raises(AssertionError, match="on the processor among tensors on the GPU"):
            there[torch.tensor([0, 1])] = torch.ones(2)
        with pytest.raises(AssertionError, match="on the processor among tensors on the GPU"):
            torch.zeros(3)[torch.zeros(2, dtype=torch.int64, device=PLACE)]
