"""Analyses that fit models of their own give the same numbers on another device."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from builders.pretended_device import assert_same_if_pretended, assert_same_on_a_gpu
from builders.simulated import drawn
from irtbench import ItemFeatures, effect_of_testlets, fit_bifactor, linear_logistic_test
from irtbench.analysis.explained_responses import fit_explanatory_items
from irtbench.analysis.item_bias import item_bias
from irtbench.analysis.model_comparison import guessing_test
from irtbench.estimation.settings import Device

FEATURES = ItemFeatures(drawn(1, 12).item_ids, ("one", "two"), np.random.default_rng(0).normal(size=(12, 2)))
FOCAL = np.arange(120) < 60
ONE_RIGHT_IN_ONE_GROUP = np.where(FOCAL[:, None] & (np.arange(4) == 2), 1.0, drawn(120, 4).values)


def with_testlets(device: Device) -> object:
    fitted = fit_bifactor(drawn(150, 8), ["a"] * 4 + ["b"] * 4, specific_slopes="equal", device=device)
    return effect_of_testlets(drawn(150, 8), fitted, device=device).abilities


#: What each finds on a device, and names of its numbers.
ROUTES: dict[str, tuple[Callable[[Device], object], str]] = {
    "explained difficulty": (
        lambda on: fit_explanatory_items(drawn(60, 12), FEATURES.values, kind="2pl", device=on).estimates, "values sd",
    ),
    "explained difficulty, rasch": (
        lambda on: fit_explanatory_items(drawn(60, 12), FEATURES.values, kind="rasch", device=on).estimates,
        "values sd",
    ),
    "linear logistic test": (lambda on: linear_logistic_test(drawn(80, 12), FEATURES, device=on), "effect se x2"),
    "bias": (lambda on: item_bias(ONE_RIGHT_IN_ONE_GROUP, FOCAL, purify=False, device=on), "delta p"),
    "bias by regression": (
        lambda on: item_bias(ONE_RIGHT_IN_ONE_GROUP, FOCAL, method="logistic", purify=False, device=on), "delta p",
    ),
    "testlets": (with_testlets, "theta se theta_one_ability se_one_ability"),
    "guessing": (lambda on: guessing_test(drawn(200, 6), device=on), "guessing statistic"),
}  # fmt: skip
every = pytest.mark.parametrize("route", ROUTES)


def numbers(route: str, device: Device) -> dict[str, NDArray[np.float64]]:
    found, names = ROUTES[route][0](device), ROUTES[route][1]
    return {name: np.asarray(getattr(found, name), dtype=np.float64) for name in names.split()}


@pytest.mark.slow
@every
def test_on_another_device_the_numbers_are_the_same(route: str) -> None:
    assert_same_if_pretended(lambda device: numbers(route, device))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@every
def test_a_gpu_gives_the_same_numbers(route: str) -> None:
    assert_same_on_a_gpu(lambda device: numbers(route, device))
