"""Fits of several abilities, testlets, upper asymptotes, many scales and few respondents on another device."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from builders.pretended_device import assert_same_if_pretended, assert_same_on_a_gpu, pretended_gpu
from builders.simulated import drawn
from irtbench import FittedModel, InputError, ResponseMatrix, fit_groups, fit_many, fit_model
from irtbench.estimation.bifactor import bifactor_scores, fit_bifactor
from irtbench.estimation.factors import FactorModel, factor_scores, fit_factors
from irtbench.estimation.settings import Device
from irtbench.estimation.several_abilities import factor_problem

Numbers = dict[str, NDArray[np.float64]]
TESTLETS = ["a"] * 4 + ["b"] * 4 + [None] * 2


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
    """Responses with these logits."""
    values = (rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(np.float64)
    values[rng.random(z.shape) < missing] = np.nan
    return ResponseMatrix(values, tuple(f"r{i}" for i in range(len(z))), tuple(f"i{j}" for j in range(z.shape[1])))


def factors(device: Device, *, missing: float = 0.0, **keywords: Any) -> Numbers:
    """Slopes, errors and scores of a model of two abilities."""
    responses = of_two_abilities(missing=missing)
    fitted: FactorModel = fit_factors(
        responses, keywords.pop("n_factors", 2), tolerance=1e-5, device=device, **keywords
    )
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
    """Parameters and errors of a 4PL."""
    items = fit_model(drawn(n=600, n_items=8), model="4pl", device=device).items
    assert items.upper_asymptote is not None
    assert items.covariance is not None
    return {"intercept": items.intercept, "upper": items.upper_asymptote, "covariance": items.covariance}


def many_scales(device: Device, *, missing: float = 0.0, **keywords: Any) -> Numbers:
    """Intercepts and errors of scales that take their steps together."""
    scales = [drawn(n=200 + 20 * k, n_items=6 + k % 2, missing=missing) for k in range(6)]
    fitted = fit_many(scales, device=device, **keywords)
    found = {}
    for name, one in zip(fitted.names, fitted.fits, strict=True):
        assert one.converged
        found[f"{name} intercept"] = one.items.intercept
        if one.items.covariance is not None:
            found[f"{name} covariance"] = one.items.covariance
    return found


def groups(device: Device) -> Numbers:
    """Items and the population of the second of two crowds."""
    fitted = fit_groups(drawn(n=400, n_items=8), np.repeat(["a", "b"], 200), device=device)
    second, of_all = fitted.items[1], {"mean": fitted.mean, "sd": fitted.sd, "se": fitted.se_mean}
    return of_all | {"intercept": second.intercept} | second.standard_errors()


def one_ability(device: Device, **keywords: Any) -> Numbers:
    """Items of 300 respondents, beside others that are known or not."""
    items = fit_model(keywords.pop("responses", drawn(n=300, n_items=8)), device=device, **keywords).items
    return {"slope": items.discrimination, "intercept": items.intercept} | items.standard_errors()


def beside_anchors(device: Device) -> Numbers:
    """Items beside known ones, some of them with a prior of their difficulty."""
    ids = drawn(n=300, n_items=8).item_ids
    known = fit_model(drawn(n=300, n_items=8), device="cpu").items.select(ids[:4])
    expected = dict.fromkeys(ids[6:], (0.0, 1.0))
    return one_ability(device, anchors=known, prior_items=expected, prior_slope="normal:1,0.5")


def several_trials(device: Device) -> Numbers:
    """Items of which each was tried twice."""
    once = drawn(n=300, n_items=8)
    again = np.random.default_rng(0).random(once.values.shape) < 0.2 + 0.6 * once.values
    trials = np.full(once.values.shape, 2)
    return one_ability(
        device, responses=ResponseMatrix(once.values + again, once.respondent_ids, once.item_ids, trials)
    )


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
    "several crowds": groups,
    "beside anchors": beside_anchors,
    "several trials": several_trials,
    "adam": lambda device: one_ability(device, optimiser="adam", tolerance=1e-4),
}
SINGLE: dict[str, Callable[..., Numbers]] = {"two abilities": factors, "testlets": bifactor}


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES)
def test_on_another_device_the_numbers_are_the_same(route: str) -> None:
    assert_same_if_pretended(ROUTES[route])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("route", ROUTES)
def test_a_gpu_gives_the_same_numbers(route: str) -> None:
    assert_same_on_a_gpu(ROUTES[route])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_random_numbers_of_a_gpu_are_as_before() -> None:
    torch.cuda.manual_seed(5)
    before = torch.cuda.get_rng_state()
    one_ability("cuda")
    assert bool((torch.cuda.get_rng_state() == before).all())


@pytest.mark.slow
@pytest.mark.parametrize("route", SINGLE)
def test_sums_in_float32_lead_to_the_same_numbers(route: str) -> None:
    double, single = SINGLE[route]("cpu"), SINGLE[route]("cpu", dtype="float32")
    for name, numbers in double.items():
        np.testing.assert_allclose(single[name], numbers, rtol=1e-3, atol=1e-3, err_msg=name)
    assert any((single[name] != double[name]).any() for name in double)
    with pretended_gpu():
        there = SINGLE[route]("cuda", dtype="float32")
    for name, numbers in single.items():
        np.testing.assert_allclose(there[name], numbers, rtol=1e-9, atol=1e-11, err_msg=name)


def of_few(device: Device) -> FittedModel:
    """Items outnumber respondents and are guessed: abilities and items are integrated out together."""
    return fit_model(drawn(n=12, n_items=24), kind="3pl", prior="hierarchical", device=device)


@pytest.mark.parametrize(
    "device",
    [
        pytest.param("pretended", marks=pytest.mark.slow),
        pytest.param(
            "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]
        ),
    ],
)
def test_few_respondents_are_the_same_on_another_device(device: str) -> None:
    here = of_few("cpu")
    assert here.converged
    if device == "cuda":
        there, near = of_few("cuda"), 1e-4
    else:
        with pretended_gpu():
            there, near = of_few("cuda"), 1e-9
    np.testing.assert_allclose(there.abilities.theta, here.abilities.theta, rtol=near, atol=near)
    np.testing.assert_allclose(there.items.guessing, here.items.guessing, rtol=near, atol=near)


@pytest.mark.parametrize("fit", [fit_factors, fit_bifactor])
@pytest.mark.parametrize(
    ("wrong", "saying"),
    [
        ({"device": "gpu"}, "device must be auto, cpu or cuda but got 'gpu'"),
        ({"dtype": "half"}, "dtype must be float64"),
    ],
)
def test_no_device_and_no_precision_of_another_name(fit: Any, wrong: dict[str, str], saying: str) -> None:
    with pytest.raises(InputError, match=saying):
        fit(of_testlets(), 2 if fit is fit_factors else TESTLETS, **wrong)
