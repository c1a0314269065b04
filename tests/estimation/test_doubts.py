"""A scale that is not one of ability is said to be none; one of ability, reversed items and all, is not."""

from collections.abc import Callable
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from builders.command_line import run
from builders.simulated import simulated
from builders.stored import on_disk
from irtbench import (
    FitSettings,
    ItemParameters,
    SparseResponses,
    as_responses,
    fit_bifactor,
    fit_categories,
    fit_factors,
    fit_groups,
    fit_many,
    fit_model,
    simulate_responses,
)
from irtbench.estimation.doubts import not_identified
from irtbench.estimation.marginal import e_step


@pytest.mark.parametrize("prior", ["none", "weak"])
def test_two_camps_are_no_scale_of_ability_and_the_command_says_so(prior: str, tmp_path: Path) -> None:
    """Half of the items are easier the further one is up, half the further one is down: nobody is able."""
    rng = np.random.default_rng(0)
    items = ItemParameters.from_difficulty(np.repeat([1.5, -1.5], 10), rng.normal(0, 0.5, 20))
    responses = simulate_responses(rng.normal(size=300), items, rng=rng)
    fitted = fit_model(responses, prior=prior)
    assert fitted.converged
    assert any("correlate" in doubt for doubt in fitted.doubts)
    responses.to_long().to_csv(tmp_path / "camps.csv", index=False)
    done = run(f"fit camps.csv -o out --quiet --prior {prior}", cwd=tmp_path)
    assert "warning: 50% of the slopes are negative: this is not a scale of ability" in done.err
    assert pd.read_json(tmp_path / "out" / "fit.json", typ="series")["doubts"] == list(fitted.doubts)


@pytest.mark.parametrize("missing", [0.0, 0.6])
def test_a_crowd_with_some_reversed_items_is_not_doubted(missing: float) -> None:
    responses = simulated(400, 20, seed=3, missing=missing)[0]
    fitted = fit_model(np.where(np.arange(20) < 3, 1 - responses.values, responses.values), prior="weak")
    assert (fitted.items.discrimination < 0).sum() == 3
    assert fitted.doubts == ()


def test_the_shape_of_ability_is_that_of_the_mean_posterior(tmp_path: Path) -> None:
    """By posteriors from the likelihood written out; the same from gaps on disk, as a sparse table and as grades."""
    given = simulated(400, 12, seed=4, missing=0.4)[0]
    fitted = fit_model(given)
    a, b, x = fitted.items.discrimination, fitted.items.difficulty, given.values
    theta = np.linspace(-7, 7, 281)
    p = 1 / (1 + np.exp(-a * (theta[:, None] - b)))
    each = np.where(np.isnan(x)[:, None], 1.0, np.where(x[:, None] == 1, p, 1 - p))
    normal = np.exp(-(theta**2) / 2) / np.exp(-(theta**2) / 2).sum()
    posterior = each.prod(axis=2) * normal
    mean = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
    information = (a**2 * p * (1 - p)) @ (~np.isnan(x)).mean(axis=0)
    rho = normal @ (information / (1 + information))
    s, k = mean @ (theta**3 - 3 * theta) / rho**3, mean @ (theta**4 - 6 * theta**2 + 3) / rho**4
    expected = [s, k, s / np.sqrt(6 / rho**3 / 400), k / np.sqrt(24 / rho**4 / 400)]
    sparse = SparseResponses.from_long(given.to_long())
    fits = [fitted, fit_model(on_disk(given, tmp_path)), fit_model(sparse), fit_categories(given)]
    for one in fits:
        assert one.ability_shape is not None
        np.testing.assert_allclose(astuple(one.ability_shape), expected, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "how"), [("skewed", "skewness 0."), ("two camps", "excess kurtosis -1."), ("normal", "")]
)
def test_ability_that_is_not_normal_is_said_so_and_normal_ability_is_not(name: str, how: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    items = ItemParameters.from_difficulty(np.linspace(0.7, 2.0, 30), np.tile(np.linspace(-2, 2, 6), 5))
    theta = rng.normal(size=1_500)
    if name == "skewed":
        theta = (rng.gamma(4, size=1_500) - 4) / 2
    elif name == "two camps":
        theta = 0.44 * theta + rng.choice([-0.9, 0.9], size=1_500)
    responses = simulate_responses(theta, items, rng=rng)
    responses.to_long().to_csv(tmp_path / "long.csv", index=False)
    said = run(f"fit {tmp_path}/long.csv -o {tmp_path}/out --quiet").err
    assert ("does not look normal" in said, how in said) == (bool(how), True)
    if how:
        assert fit_model(responses, population="estimated").ability_shape is None


def of_two_blocks() -> tuple[np.ndarray, np.ndarray]:
    """Half of the people answer the first half of the items, the abler half the others; or one of these all."""
    rng = np.random.default_rng(4)
    items = ItemParameters.from_difficulty([1.3] * 6, np.linspace(-1, 1, 6))
    apart = simulate_responses(np.repeat([-0.5, 0.5], 60) + rng.normal(size=120), items, rng=rng).values.copy()
    apart[:60, 3:] = apart[60:, :3] = np.nan
    linked = apart.copy()
    linked[-1, 0] = 1.0
    return apart, linked


@pytest.mark.parametrize("form", ["memory", "sparse", "disk"])
def test_blocks_of_items_that_nobody_links_are_doubted(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(e_step.BATCH_CELLS, "cpu", 61 * 25)  # several batches
    options, forms = {"prior": "weak", "standard_errors": False}, []
    for name, values in zip(("apart", "linked"), map(as_responses, of_two_blocks()), strict=True):
        sparse = SparseResponses.from_long(values.to_long())
        forms.append({"memory": values, "sparse": sparse, "disk": on_disk(values, tmp_path / name)}[form])
    given, tied = forms[0], fit_model(forms[1], **options)
    (doubt,) = fit_model(given, **options).doubts
    assert doubt.startswith("no respondent links 2 blocks of items (of 3, 3 items)")
    assert tied.doubts == ()
    assert fit_model(given, anchors=tied.items.select(["item1", "item6"]), **options).doubts == ()
    assert len(fit_model(given, anchors=tied.items.select(["item1", "item2"]), **options).doubts) == 1


def test_blocks_are_doubted_of_every_fit() -> None:
    groups, pattern = ["a"] * 60 + ["b"] * 60, np.array([[0, 1]] * 3 + [[1, 0]] * 3, dtype=np.bool_)
    fits: dict[str, Callable[[np.ndarray], Any]] = {
        "groups": lambda values: fit_groups(values, groups, max_steps=3),
        "groups in categories": lambda values: fit_categories(values, "grm", groups=groups, max_steps=3),
        "in categories": lambda values: fit_categories(values, "grm", prior="weak"),
        "many scales": lambda values: fit_many([values] * 2, prior="weak").fits[1],
        "a factor": lambda values: fit_factors(values, 1, max_steps=3),
        "testlets": lambda values: fit_bifactor(values, [*"AA", None, *"BB", None], models="rasch", max_steps=3),
        "each one": lambda values: fit_factors(values, 2, zero_loadings=pattern, max_steps=3),
    }
    apart, linked = of_two_blocks()
    for name, fit in fits.items():
        doubts = fit(apart).summary()["doubts"]
        assert [doubt[:65] for doubt in doubts] == (name != "each one") * [
            "no respondent links 2 blocks of items (of 3, 3 items): difficulti"
        ]
        assert fit(linked).summary()["doubts"] == []


def test_a_free_item_links_no_groups() -> None:
    values, groups = of_two_blocks()[0], ["a"] * 60 + ["b"] * 60
    values[60:, 2] = np.arange(60) % 2  # of both groups, which have no other item in common
    few: dict[str, Any] = {"prior": "weak", "max_steps": 3}
    assert fit_groups(values, groups, **few).doubts == ()
    assert "(of 4, 3 items)" in fit_groups(values, groups, free_items=["item3"], **few).doubts[0]
    values[59, 5] = 1.0
    assert fit_groups(values, groups, free_items=["item3"], **few).doubts == ()


def test_slopes_and_difficulties_that_the_data_hardly_determine_are_named() -> None:
    rng = np.random.default_rng(6)
    theta = rng.normal(size=(60, 1))
    p = 1 / (1 + np.exp(-np.array([1.0, 1.2, 0.9, 1.1, 0.1, 1.0]) * (theta - np.array([-1.0, 0, 0.5, 1, 20, 0.2]))))
    fitted = fit_model((rng.random(p.shape) < p).astype(float))
    place, error = (float(fitted.table()[name][4]) for name in ("difficulty", "se_difficulty"))
    assert (place > 4, error > 1) == (True, True)
    assert fitted.summary()["difficulty_not_identified"] == ["item5"]
    items = ItemParameters.from_difficulty([1.2] * 5, [-1, -0.5, 0, 0.5, 1])
    known = simulate_responses(rng.normal(size=1000), items, rng=rng)
    for model in (fit_model(known), fit_factors(known, 1), fitted := fit_model(known, prior="weak")):
        said = model.summary()
        assert (said["slope_not_identified"], said["difficulty_not_identified"]) == ([], [])
    sure = replace(fitted.priors, slope=(1.0, 0.05))  # of standard errors of .1, a prior as narrow decides
    assert replace(fitted, priors=sure).summary()["slope_not_identified"] == list(items.item_ids)


def test_groups_name_what_the_data_hardly_determine() -> None:
    rng = np.random.default_rng(6)  # 90 people of N(-1/3, 1.1): b = 20 is 18 deviations above them
    groups = np.repeat(["here", "there"], [60, 30])
    theta = np.where(groups == "here", 0.0, -1.0)[:, None] + rng.normal(size=(90, 1))
    p = 1 / (1 + np.exp(-np.array([1.0, 1.2, 0.9, 1.1, 0.1, 1.0]) * (theta - np.array([-1.0, 0, 0.5, 1, 20, 0.2]))))
    values = (rng.random(p.shape) < p).astype(float)
    fitted = fit_groups(values, list(groups))
    nothing: dict[str, list[str]] = {"guessing_not_identified": [], "slope_not_identified": []}
    assert fitted.not_identified() == nothing | {"difficulty_not_identified": ["item5"]}
    assert fitted.summary()["difficulty_not_identified"] == ["item5"]
    # far from these people, not from the same shifted by 20 and spread ten times
    near = replace(fitted, mean=fitted.mean + 20, sd=10 * fitted.sd)
    assert "item5" not in near.not_identified()["difficulty_not_identified"]
    zero = replace(fitted, settings=FitSettings(kind="3pl", prior="none"))  # as if guessing had been driven to 0
    assert zero.not_identified()["guessing_not_identified"] == list(fitted.items[0].item_ids)
    values[:, 0] = values[:, 1:].sum(axis=1) > 2  # tells right from wrong without error
    assert "item item1 (" in str(fit_groups(values, list(groups)).status)


def test_a_slope_of_a_testlet_that_nothing_determines_is_named() -> None:
    # 10.2 with a standard error of 24.6, beside one that is steep and known, and one that is not steep
    slopes = np.array([[1.0, 10.2], [5.0, 1.0], [0.5, 0.4]])
    errors = np.array([[0.3, 24.6], [0.5, np.nan], [0.6, 0.5]])
    found = not_identified(("a", "b", "c"), slopes, errors, np.array([0.0, 5.0, -4.5]), np.array([9.0, 0.5, 1.5]))
    assert found == {"slope_not_identified": ["a"], "difficulty_not_identified": ["c"]}
