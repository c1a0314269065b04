"""Analyses that fit models of their own give the same numbers on another device."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray

from builders.pretended_device import assert_same_if_pretended, assert_same_on_a_gpu
from builders.simulated import drawn
from irtbench import ItemFeatures, effect_of_testlets, fit_bifactor, linear_logistic_test
from irtbench.analysis.explained_responses import Kind, fit_explanatory_items
from irtbench.analysis.item_bias import Method, item_bias
from irtbench.analysis.model_comparison import guessing_test
from irtbench.estimation.settings import Device

Numbers = dict[str, NDArray[np.float64]]
RANDOM_FEATURES = np.random.default_rng(0).normal(size=(12, 2))


def explained(device: Device, kind: Kind) -> Numbers:
    """Difficulties fitted with their regression on features."""
    found = fit_explanatory_items(drawn(n=60, n_items=12), RANDOM_FEATURES, kind=kind, device=device)
    return {"estimates": found.estimates.values, "b": found.items.difficulty, "sd": found.estimates.sd}


def linear_logistic(device: Device) -> Numbers:
    """Effects of features on which difficulties are exactly linear."""
    responses = drawn(n=80, n_items=12)
    features = ItemFeatures(responses.item_ids, ("one", "two"), RANDOM_FEATURES)
    found = linear_logistic_test(responses, features, device=device)
    return {"effect": found.effect, "se": found.se, "x2": np.array(found.x2)}


def bias(device: Device, method: Method) -> Numbers:
    """Differences of items between two halves of the respondents, one item that one half got right among them."""
    responses = drawn(n=120, n_items=4)
    focal = np.arange(120) < 60
    values = responses.values.copy()
    values[focal, 2] = 1.0
    table = item_bias(values, focal, method=method, purify=False, device=device).table()
    return {name: table[name].to_numpy(dtype=np.float64) for name in ("delta", "p")}


def with_testlets(device: Device) -> Numbers:
    """What testlets do to abilities."""
    responses = drawn(n=150, n_items=8)
    fitted = fit_bifactor(responses, ["a"] * 4 + ["b"] * 4, specific_slopes="equal", device=device)
    abilities: pd.DataFrame = effect_of_testlets(responses, fitted, device=device).abilities
    return {name: abilities[name].to_numpy() for name in ("theta", "se", "theta_one_ability", "se_one_ability")}


def guessed(device: Device) -> Numbers:
    """Guessing of each item, and its test."""
    found = guessing_test(drawn(n=200, n_items=6), device=device)
    return {"guessing": found.guessing, "statistic": found.statistic}


ROUTES: dict[str, Callable[[Device], Numbers]] = {
    "explained difficulty": lambda device: explained(device, "2pl"),
    "explained difficulty, rasch": lambda device: explained(device, "rasch"),
    "linear logistic test": linear_logistic,
    "bias": lambda device: bias(device, "likelihood_ratio"),
    "bias by regression": lambda device: bias(device, "logistic"),
    "testlets": with_testlets,
    "guessing": guessed,
}


@pytest.mark.slow
@pytest.mark.parametrize("route", ROUTES)
def test_on_another_device_the_numbers_are_the_same(route: str) -> None:
    assert_same_if_pretended(ROUTES[route])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("route", ROUTES)
def test_a_gpu_gives_the_same_numbers(route: str) -> None:
    assert_same_on_a_gpu(ROUTES[route])
