"""Scores of departures from the model against their definition, and whoever answered what."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy.special import expit

from builders.simulated import simulated
from irtbench import FitSettings, ItemParameters, ResponseMatrix, as_responses, fit_many, fit_model, icc
from irtbench.diagnostics.global_fit import global_fit
from irtbench.diagnostics.item_fit import item_fit
from irtbench.diagnostics.local_dependence import local_dependence, with_bootstrap
from irtbench.diagnostics.quadratic_form import Residuals, score_forms
from irtbench.models.quadrature import normal_grid

FAST = FitSettings(standard_errors=False, tolerance=1e-4)


def test_a_pairs_score_is_the_derivative_of_the_likelihood_by_its_dependence() -> None:
    # P(x_k, x_l | theta) = P P (1 + delta (x_k - P_k)(x_l - P_l)) is the model with a dependence delta; its observed
    # likelihood written out over the nodes, and differentiated by a central difference
    responses, items, _ = simulated(40, 4, seed=3, missing=0.3)
    grid = normal_grid()
    p = icc(grid.nodes, items)
    x, seen = np.nan_to_num(responses.values), responses.observed

    def log_likelihood(delta: float) -> float:
        each = np.where(seen[:, None], np.where(x[:, None] == 1, p, 1 - p), 1.0).prod(axis=2)
        residual = np.where(seen[:, None], x[:, None] - p, 0.0)
        return float(np.log((each * (1 + delta * residual[..., 0] * residual[..., 2])) @ grid.weights).sum())

    slope = (log_likelihood(1e-5) - log_likelihood(-1e-5)) / 2e-5
    assert Residuals.of_items(responses, items, grid).pairs()[0, 2] == pytest.approx(slope, rel=1e-8)


def test_the_covariance_of_scores_is_that_over_all_patterns() -> None:
    # of three items every pattern is enumerated: sum of P(x) s(x)^2 for the score of the first pair, a respondent
    items = ItemParameters.from_difficulty([1.0, 1.5, 2.0], [-0.5, 0.0, 0.5])
    grid = normal_grid()
    patterns = np.array([[i, j, k] for i in (0.0, 1) for j in (0.0, 1) for k in (0.0, 1)])
    p = icc(grid.nodes, items)
    given = np.where(patterns[:, None] == 1, p, 1 - p).prod(axis=2)
    residual = patterns[:, None] - p
    score = (given * residual[..., 0] * residual[..., 1]) @ grid.weights / (given @ grid.weights)
    expected = (given @ grid.weights) @ score**2
    rng = np.random.default_rng(1)
    drawn = rng.choice(8, p=given @ grid.weights, size=4_000)
    responses = as_responses(patterns[drawn])

    def scores(of: Residuals):
        for _, at_nodes, weighted in of.weighted():
            yield (weighted[:, 0] * at_nodes[:, 1]).sum(axis=1)[:, None]

    of_data = Residuals.of_items(responses, items, grid)
    total, covariance = score_forms(of_data, scores, 1, rng)
    assert covariance[0, 0] / 4_000 == pytest.approx(expected, rel=0.05)  # of 8,000 drawn: standard error below 2%
    assert total[0] == pytest.approx(of_data.pairs()[0, 1])


def answered(design: str, theta: np.ndarray, items: ItemParameters, x: np.ndarray, rng: np.random.Generator):
    """Who answers what: the abler more, the hard items less, or a second stage that the first chooses."""
    chance = rng.random(x.shape)
    if design == "the abler more":
        return chance < expit(1 + theta)[:, None]
    if design == "hard items less":
        return chance < expit(1.5 + 0.7 * theta[:, None] - items.difficulty)
    up = x[:, :5].sum(axis=1) >= 3
    stage = np.arange(x.shape[1])
    return np.where(up[:, None], (stage < 5) | (stage >= 9), stage < 9)


def refit_many(samples: Sequence[ResponseMatrix]) -> list[ItemParameters | None]:
    return [None if fitted is None else fitted.items for fitted in fit_many(samples, FAST).fits]


@pytest.mark.parametrize(
    "design",
    ["the abler more", *(pytest.param(one, marks=pytest.mark.slow) for one in ("hard items less", "a second stage"))],
)
def test_clean_data_pass_whoever_answered_what(design: str) -> None:
    found: dict[str, list[float]] = {"items": [], "pairs": [], "whole": []}
    for seed in range(3):
        rng, b = np.random.default_rng(seed), np.r_[np.linspace(-1, 1, 5), np.linspace(-1.5, 1.5, 8)]
        items = ItemParameters.from_difficulty(rng.uniform(0.8, 2, 13), b)
        theta = rng.normal(size=500)
        x = (rng.random((500, 13)) < icc(theta, items)).astype(float)
        x[~answered(design, theta, items, x, rng)] = np.nan
        responses = as_responses(x).answered()
        fitted = fit_model(responses, FAST).items
        found["items"] += item_fit(responses, fitted).p.tolist()
        with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
            patch.setattr("warnings.warn", lambda *said, **how: None)  # pairs that nobody was asked together
            pairs = local_dependence(responses, fitted)
        pairs = with_bootstrap(pairs, responses, fitted, None, rng=rng, n_samples=19, refit_many=refit_many)
        found["pairs"] += pairs.p_bootstrap[pairs.n_respondents > 0].tolist()
        found["whole"].append(global_fit(responses, fitted).p)
    # 39 items: 8 or more below .05 have a chance of .001; of some 210 pairs, a twentieth of which is 11, 19 or more
    assert np.sum(np.array(found["items"]) < 0.05) < 8
    assert np.mean(np.array(found["pairs"]) <= 0.05) < 0.09
    assert np.sum(np.array(found["whole"]) < 0.05) <= 1
