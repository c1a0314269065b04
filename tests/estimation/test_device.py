"""What is fitted on another device stays there: no tensor of the processor's in between, and the same numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from builders.few_draws import few_draws
from builders.pretended_device import PLACE, Elsewhere, assert_same_if_pretended, assert_same_on_a_gpu, pretended_gpu
from builders.refusals import is_refused
from builders.simulated import drawn
from builders.stored import on_disk
from irtbench import (
    FittedModel,
    ResponseMatrix,
    SparseResponses,
    StoredResponses,
    fit_groups,
    fit_many,
    fit_model,
)
from irtbench.estimation.bifactor import bifactor_scores, fit_bifactor
from irtbench.estimation.factors import factor_scores, fit_factors
from irtbench.estimation.marginal import e_step, fisher_scoring
from irtbench.estimation.settings import Device
from irtbench.estimation.several_abilities import factor_problem
from irtbench.estimation.variational import importance_weights, item_posterior

Numbers = dict[str, NDArray[np.float64]]
TESTLETS = ["a"] * 4 + ["b"] * 4 + [None] * 2
FORMS = (("on disk", 0.3), ("sparse", 0.3), ("tabulated", 0.0), ("told by a sample", 0.3))  # and missing responses
DEVICES: tuple[Device, ...] = ("cpu", "cuda")
on_a_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]
#: Settings of one ability, and how many respond to how many items.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "2pl": ({}, {"n": 300, "n_items": 8}),
    "missing": ({}, {"n": 300, "n_items": 8, "missing": 0.3}),
    "start from a sample": ({"standard_errors": False}, {"n": 8200, "n_items": 8}),
    "float32": ({"dtype": "float32"}, {"n": 300, "n_items": 8}),
    "guessing fixed": ({"guessing": 0.2}, {"n": 300, "n_items": 8}),
    "3pl": ({"kind": "3pl"}, {"n": 300, "n_items": 8}),
    "3pl without prior": ({"kind": "3pl", "prior": "none"}, {"n": 600, "n_items": 8}),
    "hierarchical": ({"prior": "hierarchical", "tolerance": 1e-3}, {"n": 510, "n_items": 15}),
    "items integrated out": ({"prior": "hierarchical", "tolerance": 0.1}, {"n": 20, "n_items": 60}),
    "items integrated out, 3pl": ({"prior": "hierarchical", "kind": "3pl"}, {"n": 12, "n_items": 24}),
    "population": ({"population": "estimated", "tolerance": 1e-3}, {"n": 600, "n_items": 20}),
    "narrow posteriors": ({"prior": "weak"}, {"n": 150, "n_items": 150}),
    "rasch": ({"kind": "rasch"}, {"n": 300, "n_items": 8}),
    "common slope": ({"kind": "1pl"}, {"n": 300, "n_items": 8, "missing": 0.3}),
    "weighted draws": ({"posterior": "normal", "prior": "weak"}, {"n": 200, "n_items": 6}),
}


def of_two_abilities(*, missing: float = 0.0) -> ResponseMatrix:
    """Ten items, four on each of two abilities and two on both."""
    rng = np.random.default_rng(3)
    slopes = np.zeros((10, 2))
    slopes[:6, 0], slopes[4:, 1] = 1.4, 1.2
    return answered(rng.normal(size=(400, 2)) @ slopes.T + np.linspace(-1, 1, 10), rng, missing)


def of_testlets(*, missing: float = 0.0) -> ResponseMatrix:
    """Ten items, four in each of two testlets and two in none."""
    rng = np.random.default_rng(5)
    own = np.hstack([1.2 * rng.normal(size=(500, 2))[:, [0] * 4 + [1] * 4], np.zeros((500, 2))])
    return answered(1.5 * rng.normal(size=(500, 1)) + own, rng, missing)


def answered(z: NDArray[np.float64], rng: np.random.Generator, missing: float) -> ResponseMatrix:
    values = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(np.float64)
    values[rng.random(z.shape) < missing] = np.nan
    return ResponseMatrix(values, tuple(f"r{i}" for i in range(len(z))), tuple(f"i{j}" for j in range(z.shape[1])))


def factors(device: Device, *, missing: float = 0.0, **keywords: Any) -> Numbers:
    responses = of_two_abilities(missing=missing)
    fitted = fit_factors(responses, keywords.pop("n_factors", 2), tolerance=1e-5, device=device, **keywords)
    assert fitted.converged
    assert fitted.covariance is not None
    scores = factor_scores(fitted, responses, device=device)
    places = {name: scores[name].to_numpy() for name in ("theta_1", "se_1")}
    return {"slopes": fitted.slopes, "intercept": fitted.intercept, "covariance": fitted.covariance} | places


def pattern() -> NDArray[np.bool_]:
    """Zero slopes of the first and last four items."""
    zeros = np.zeros((10, 2), dtype=np.bool_)
    zeros[:4, 1] = zeros[6:, 0] = True
    return zeros


def blocks() -> NDArray[np.bool_]:
    """Simple structure, so that each ability is a model of its own."""
    zeros = pattern()
    zeros[4:6, 1] = True
    return zeros


def points(device: Device) -> Numbers:
    """Four abilities in a ring, without a lattice: an item of each is one of the next, too."""
    own = np.repeat(np.eye(4), 4, axis=0)
    own[3::4] += np.roll(np.eye(4), 1, axis=1)
    rng = np.random.default_rng(7)
    responses = answered(rng.normal(size=(600, 4)) @ (1.5 * own).T + np.tile([-0.7, 0, 0.7, 0], 4), rng, 0.0)
    with patch.object(factor_problem, "MOST_NODES", 100):
        fitted = fit_factors(responses, 4, zero_loadings=own == 0, standard_errors=False, device=device)
    assert fitted.nodes.startswith("quasi-Monte Carlo")
    assert fitted.converged
    return {"slopes": fitted.slopes, "error": np.array(fitted.integration_error)}


def bifactor(device: Device, *, missing: float = 0.0, **keywords: Any) -> Numbers:
    """Slopes, errors and scores of a model with testlets."""
    responses = of_testlets(missing=missing)
    fitted = fit_bifactor(responses, TESTLETS, device=device, **keywords)
    assert fitted.converged
    assert fitted.covariance is not None
    scores = bifactor_scores(fitted, responses, device=device)
    places = {name: scores[name].to_numpy() for name in ("theta", "se")}
    return {"slopes": fitted.slopes, "intercept": fitted.intercept, "covariance": fitted.covariance} | places


def upper_asymptotes(device: Device) -> Numbers:
    items = fit_model(drawn(n=600, n_items=8), model="4pl", device=device).items
    assert items.upper_asymptote is not None
    assert items.covariance is not None
    return {"intercept": items.intercept, "upper": items.upper_asymptote, "covariance": items.covariance}


def many_scales(device: Device, *, missing: float = 0.0, **keywords: Any) -> Numbers:
    """Slopes, difficulties and errors of scales that take their steps together."""
    scales = [drawn(n=200 + 20 * k, n_items=6 + k % 2, missing=missing) for k in range(6)]
    fitted = fit_many(scales, device=device, **keywords)
    found: Numbers = {}
    for name, one in zip(fitted.names, fitted.fits, strict=True):
        assert one.converged
        found |= {f"{name} {column}": one.table()[column].to_numpy() for column in ("discrimination", "difficulty")}
        if one.items.covariance is not None:
            found[f"{name} covariance"] = one.items.covariance
    return found


def groups(device: Device) -> Numbers:
    fitted = fit_groups(drawn(n=400, n_items=8), np.repeat(["a", "b"], 200), device=device)
    second, of_all = fitted.items[1], {"mean": fitted.mean, "sd": fitted.sd, "se": fitted.se_mean}
    return of_all | {"intercept": second.intercept} | second.standard_errors()


def beside_anchors(device: Device) -> Numbers:
    """Items beside known ones, some of them with a prior of their difficulty."""
    ids = drawn(n=300, n_items=8).item_ids
    known = fit_model(drawn(n=300, n_items=8), device="cpu").items.select(ids[:4])
    expected = dict.fromkeys(ids[6:], (0.0, 1.0))
    settings = {"anchors": known, "prior_items": expected, "prior_slope": "normal:1,0.5"}
    return one_ability(device, settings, n=300, n_items=8)


def several_trials(device: Device) -> Numbers:
    """Items of which each was tried twice."""
    once = drawn(n=300, n_items=8)
    again = np.random.default_rng(0).random(once.values.shape) < 0.2 + 0.6 * once.values
    trials = np.full(once.values.shape, 2)
    return numbers_of(
        fit_model(ResponseMatrix(once.values + again, once.respondent_ids, once.item_ids, trials), device=device)
    )


def one_ability(device: Device, settings: dict[str, Any], **data: Any) -> Numbers:
    """Items of one ability, and their abilities where those are fitted with them."""
    return numbers_of(fit_model(drawn(**data), device=device, **settings))


def numbers_of(fitted: FittedModel) -> Numbers:
    items, abilities = fitted.items, fitted.abilities
    of_people = {} if abilities is None else {"theta": abilities.theta}
    own = {"slope": items.discrimination, "intercept": items.intercept, "guessing": items.guessing}
    own["converged"] = np.array(fitted.converged)
    return own | of_people | {f"se {name}": error for name, error in items.standard_errors().items()}


ROUTES: dict[str, Callable[[Device], Numbers]] = {
    "two abilities": factors,
    "two abilities, missing": lambda device: factors(device, missing=0.2),
    "pattern": lambda device: factors(device, zero_loadings=pattern()),
    "blocks": lambda device: factors(device, zero_loadings=blocks()),
    "one ability": lambda device: factors(device, n_factors=1),
    "quasi-Monte Carlo": points,
    "testlets": bifactor,
    "testlets, missing, equal slopes": lambda device: bifactor(device, missing=0.2, specific_slopes="equal"),
    "upper asymptotes": upper_asymptotes,
    "many scales": many_scales,
    "many scales, missing, prior": lambda device: many_scales(device, missing=0.2, prior="weak"),
    "many scales in categories": lambda device: many_scales(device, missing=0.2, models="grm"),
    "several crowds": groups,
    "beside anchors": beside_anchors,
    "several trials": several_trials,
    "adam": lambda device: one_ability(device, {"optimiser": "adam", "tolerance": 1e-4}, n=300, n_items=8),
}
SINGLE: dict[str, Callable[..., Numbers]] = {"two abilities": factors, "testlets": bifactor}


@pytest.mark.slow
@pytest.mark.parametrize("route", [*CASES, *ROUTES])
def test_on_another_device_the_numbers_are_the_same(route: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # of a posterior what is done at one step or draw is done at all, slowly where the device is pretended
    monkeypatch.setattr(item_posterior, "WINDOW", 10)
    monkeypatch.setattr(item_posterior, "ELBO_DRAWS", 20)
    monkeypatch.setattr(importance_weights, "ELBO_DRAWS", 20)
    with few_draws(40, steps=20):
        if route in ROUTES:
            assert_same_if_pretended(ROUTES[route])
        else:
            settings, data = CASES[route]
            assert_same_if_pretended(lambda device: one_ability(device, settings, **data))


@pytest.mark.parametrize("route", [pytest.param(route, marks=on_a_gpu) for route in ROUTES])
def test_a_gpu_gives_the_same_numbers(route: str) -> None:
    assert_same_on_a_gpu(ROUTES[route])


@pytest.mark.parametrize("case", [pytest.param(case, marks=on_a_gpu) for case in CASES])
def test_a_gpu_gives_the_same_estimates(case: str) -> None:
    settings, data = CASES[case]
    here, there = (one_ability(device, settings, **data) for device in DEVICES)
    within = np.full(len(here["intercept"]), 1e-2 if "posterior" in settings or "dtype" in settings else 1e-4)
    # steep slopes of few respondents are loose: a thousandth standard error
    within = np.maximum(within, 1e-3 * np.nan_to_num(here.get("se intercept", within)))
    assert (np.abs(there["intercept"] - here["intercept"]) < within).all()


@pytest.mark.parametrize("device", [pytest.param("cuda", marks=on_a_gpu)])
def test_random_numbers_of_a_gpu_are_as_before(device: Device) -> None:
    torch.cuda.manual_seed(5)
    before = torch.cuda.get_rng_state()
    one_ability(device, {}, n=300, n_items=8)
    assert bool((torch.cuda.get_rng_state() == before).all())


@pytest.mark.slow
@pytest.mark.parametrize("route", SINGLE)
def test_sums_in_float32_lead_to_the_same_numbers(route: str) -> None:
    double, single = SINGLE[route]("cpu"), SINGLE[route]("cpu", dtype="float32")
    for name, numbers in double.items():
        np.testing.assert_allclose(single[name], numbers, rtol=1e-3, atol=1e-3, err_msg=name)
    assert any((single[name] != double[name]).any() for name in double)
    assert_same_if_pretended(lambda device: SINGLE[route](device, dtype="float32"))


@pytest.mark.parametrize(
    "device", [pytest.param("pretended", marks=pytest.mark.slow), pytest.param("cuda", marks=on_a_gpu)]
)
@pytest.mark.parametrize(("form", "missing"), FORMS)
def test_whatever_form_the_responses_are_in(
    form: str, missing: float, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not bit by bit: only the processor's threads have respondents of their own."""
    given = in_form(form, missing, tmp_path, monkeypatch)
    same = assert_same_on_a_gpu if device == "cuda" else assert_same_if_pretended
    same(lambda where: numbers_of(fit_model(given, device=where)))


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


def test_no_precision_of_another_name() -> None:
    """Nor a device: `tests/bad_input`."""
    for fit, words in ((fit_factors, 2), (fit_bifactor, TESTLETS)):
        is_refused("dtype: expected 'float64'", fit, of_testlets(), words, dtype="half")
