"""C2 of items in categories: R mirt's figures, all patterns written down, its level, and misfit that it finds."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from irtbench import fit_categories, global_fit
from irtbench.diagnostics.moments import CategoryMoments
from irtbench.models.quadrature import normal_grid

GRID = normal_grid(61, bound=6.0)
STEPS = np.array([-0.9, 0.2, 1.0])


def test_c2_of_the_graded_model_is_that_of_mirt(reference: Path) -> None:
    root = reference / "graded"
    wide = pd.read_csv(root / "data/science.csv").pivot(index="respondent_id", columns="item_id", values="response")
    fitted = fit_categories(wide, "grm", tolerance=1e-7)
    found = global_fit(fitted.items.matrix(wide), fitted.items.as_items(), quadrature=GRID)
    theirs = json.loads((root / "science_grm/fit.json").read_text())["M2"]["C2"]
    figures = (found.m2, found.df, found.p, found.rmsea, found.srmsr, found.tli, found.cfi)
    assert figures == pytest.approx(
        [theirs[name] for name in ("M2", "df", "p", "RMSEA", "SRMSR", "TLI", "CFI")], rel=1e-3
    )


@pytest.mark.parametrize("model", ["gpcm", "nominal", "pcm"])
def test_moments_and_their_derivatives_are_those_of_all_patterns(model: str) -> None:
    """mirt 1.47 has 16.34 for Science under gpcm, and 19.04 by the sums over all 256 patterns that are made here."""
    rng = np.random.default_rng(2)
    scores = (1.3 * (rng.normal(size=(400, 1, 1)) - STEPS) + rng.logistic(size=(400, 4, 1)) > 0).sum(axis=2)
    items = fit_categories(scores, model).items
    moments = CategoryMoments.of(items, GRID)
    patterns = np.array(np.meshgrid(*[range(4)] * 4)).reshape(4, -1).T.astype(float)
    first, second = np.triu_indices(4, 1)
    u = (patterns - moments.scores.mean) / moments.scores.deviation
    each = np.hstack([patterns[:, moments.item] == moments.category, u[:, first] * u[:, second]])

    def shares(of) -> np.ndarray:
        return np.exp(of.log_likelihood(patterns, GRID.nodes)) @ GRID.weights

    share = shares(items)
    expected = share @ each
    products = moments.scores.expected_products()[first, second]
    np.testing.assert_allclose([*moments.share @ GRID.weights, *products], expected, atol=1e-12)
    np.testing.assert_allclose(moments.covariance(), (each.T * share) @ each - np.outer(expected, expected), atol=1e-11)
    some = rng.integers(256, size=50)
    np.testing.assert_allclose(moments.residual(patterns[some]), each[some].mean(axis=0) - expected, atol=1e-12)

    def moved(item: int, parameter: int) -> np.ndarray:
        sides = []
        for step in (1e-5, -1e-5):
            x = items.steps_at.copy()
            x[item, parameter] += step
            sides.append(shares(replace(items, steps_at=x)) @ each)
        return (sides[0] - sides[1]) / 2e-5

    width = items.steps_at.shape[1]
    by_each = np.array([[moved(j, k) for k in range(width)] for j in range(4)])
    jacobian = moments.jacobian()
    if model == "pcm":  # one slope for all is the standard deviation of ability
        by_each = np.vstack([by_each[:, 1:].reshape(-1, len(expected)), by_each[:, 0].sum(axis=0)[None]])
    np.testing.assert_allclose(jacobian, np.reshape(by_each, (-1, len(expected))).T, atol=1e-8)


def test_without_all_responses_or_degrees_of_freedom_it_says_why() -> None:
    rng = np.random.default_rng(2)
    scores = (
        (1.3 * (rng.normal(size=(400, 1, 1)) - STEPS) + rng.logistic(size=(400, 4, 1)) > 0).sum(axis=2).astype(float)
    )
    few = fit_categories(scores[:, :3], "grm").items
    assert "degree of freedom" in global_fit(few.matrix(scores[:, :3]), few.as_items()).reason
    scores[0, 0] = np.nan
    items = fit_categories(scores, "grm").items
    assert "complete responses" in global_fit(items.matrix(scores), items.as_items()).reason


@pytest.mark.slow
def test_it_keeps_its_level_and_finds_two_abilities() -> None:
    rng = np.random.default_rng(4)
    p: dict[str, list[float]] = {"one": [], "two": []}
    for _ in range(24):
        one, two = rng.normal(size=(2, 400, 1, 1))
        for name, theta in (("one", one), ("two", np.concatenate([one] * 4 + [0.4 * one + 0.92 * two] * 4, axis=1))):
            scores = (1.5 * (theta - STEPS) + rng.logistic(size=(400, 8, 1)) > 0).sum(axis=2)
            fitted = fit_categories(scores, "grm", standard_errors=False)
            p[name].append(global_fit(fitted.items.matrix(scores), fitted.items.as_items(), quadrature=GRID).p)
    assert (np.array(p["one"]) < 0.1).sum() <= 6  # 2.4 expected; 7 or more in 1% of such tests
    assert 0.25 < np.median(p["one"]) < 0.75
    assert (np.array(p["two"]) < 0.05).mean() > 0.95
