"""A prior learnt from items in categories: that of right and wrong, each item's posterior by draws, and simulations."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import irtbench
from builders.refusals import is_refused
from irtbench import fit_categories, fit_model
from irtbench.estimation.few_respondents.item_grid import ItemGrid
from irtbench.estimation.few_respondents.messages import Beliefs, Surroundings, outcomes_of
from irtbench.models.item_models.item_model import NUMPY
from irtbench.models.item_models.named import MODELS
from irtbench.models.priors import Hierarchy, Priors
from irtbench.models.pyro_model.categories import CategoryItems
from irtbench.scoring.item_error import with_item_error

Array = NDArray[np.float64]


def graded(
    n: int, n_items: int, model: str, *, seed: int, n_categories: int = 5, skewed: bool = False
) -> tuple[Array, Array, Array, Array]:
    """Abilities, slopes, steps, and grades 0, 1, ..."""
    rng = np.random.default_rng([seed, n, n_categories])
    theta = (rng.chisquare(3, size=n) - 3) / np.sqrt(6) if skewed else rng.normal(size=n)
    slopes = rng.lognormal(0.2 if model == "grm" else -0.2, 0.3, n_items)
    steps = 0.9 * np.sort(rng.normal(size=(n_items, n_categories - 1)), axis=1) + 0.7 * rng.normal(size=(n_items, 1))
    apart = slopes[:, None] * (theta[:, None, None] - steps)
    if model == "grm":
        return theta, slopes, steps, (apart + rng.logistic(size=(n, n_items, 1)) > 0).sum(axis=2).astype(float)
    chance = rng.gumbel(size=(n, n_items, n_categories))
    chance[:, :, 1:] += apart.cumsum(axis=2)
    return theta, slopes, steps, chance.argmax(axis=2).astype(float)


def test_two_categories_are_right_and_wrong() -> None:
    responses = graded(30, 10, "grm", seed=1, n_categories=2)[3]
    responses[np.random.default_rng(2).random(responses.shape) < 0.2] = np.nan
    one = fit_model(responses, prior="hierarchical")
    for model in ("grm", "gpcm"):
        other = fit_categories(responses, model, prior="hierarchical")
        assert other.converged
        assert one.items.covariance is not None
        assert other.covariance is not None
        # abilities and prior move by 2e-3 at most when they count as settled
        np.testing.assert_allclose(other.parameters[:, 0], one.items.discrimination, atol=2e-3)
        np.testing.assert_allclose(other.parameters[:, 1], one.items.intercept, atol=2e-3)
        np.testing.assert_allclose(other.covariance, one.items.covariance[:, :2, :2], atol=2e-3)
        assert other.priors.pair.deviation == pytest.approx(one.priors.pair.deviation, abs=2e-3)
        assert other.log_likelihood == pytest.approx(one.log_likelihood, abs=0.01)


@pytest.mark.parametrize("model", ["grm", "gpcm"])
def test_an_items_posterior_is_that_of_weighted_draws(model: str) -> None:
    """Abilities being known, and the prior given: everybody has a node for himself."""
    theta, _, _, grades = graded(20, 1, model, seed=3, n_categories=4)
    scale = CategoryItems([MODELS[model]], [4], 1, torch.device("cpu"))
    numbers = torch.from_numpy(np.stack([grades == k for k in range(4)])).to(torch.int16)
    each, flat = torch.eye(20, dtype=torch.float64), torch.ones(4, 1, 20, dtype=torch.float64)
    around = Surroundings(torch.from_numpy(theta), each, flat, numbers, outcomes_of(numbers))
    start = np.stack(
        [MODELS[model].start(np.bincount(column, minlength=4) / 20, 1.0) for column in grades.T.astype(int)]
    )
    grid = ItemGrid.near(scale.parts, numbers.sum(dim=(0, 1)), torch.from_numpy(start))
    pair, distances = Hierarchy((0.1, 0.2), (0.3, 1.2), 0.3, of="difficulty"), (0.2, 0.6)
    priors = Priors("hierarchical", hierarchy=pair, distances=dict.fromkeys(grid.names, distances))
    beliefs = Beliefs(around, grid, priors, priors)
    for _ in range(8):
        beliefs = replace(beliefs, grid=beliefs.with_levels().grid.placed(priors))
    mean, covariance, quantiles = (
        replace(beliefs, grid=beliefs.grid.on_points).with_levels().grid.estimates([(1.0, priors)])
    )
    rng = np.random.default_rng(4)
    pairs, r = rng.multivariate_normal(pair.mean, pair.covariance, 150_000), rng.normal(*distances, (150_000, 2))
    slope, apart = np.exp(pairs[:, 0]), np.exp(r) if model == "grm" else r
    away = np.column_stack([np.zeros(len(r)), apart.cumsum(axis=1)])
    steps = -(slope * pairs[:, 1])[:, None] - (away - away.mean(axis=1, keepdims=True))  # -a b_k
    read = np.column_stack([slope, steps if model == "grm" else steps.cumsum(axis=1)])
    x = np.column_stack([slope, steps[:, 0], r]) if model == "grm" else read
    level = np.zeros(len(x))
    for ability, grade in zip(theta, grades[:, 0].astype(int), strict=True):
        level += MODELS[model].log_probabilities(x[:, :, None], np.array([[ability]]), NUMPY)[:, grade, 0]
    mass = np.exp(level - level.max())
    mass /= mass.sum()
    expected = mass @ read
    deviation = np.sqrt(mass @ (read - expected) ** 2)
    np.testing.assert_allclose((mean[0].numpy() - expected) / deviation, 0, atol=0.08)
    np.testing.assert_allclose(covariance[0].diagonal().sqrt().numpy() / deviation, 1, atol=0.08)
    order = slope.argsort()
    ends = np.interp((0.025, 0.5, 0.975), mass[order].cumsum(), slope[order])
    np.testing.assert_allclose(quantiles[:, 0, 0].numpy(), ends, atol=0.2 * deviation[0])


def test_models_numbers_of_categories_and_a_reversed_item_mixed() -> None:
    theta, _, _, grades = graded(60, 12, "grm", seed=5)
    grades[:, 4:8] = grades[:, 4:8].clip(1, 3)
    grades[:, 8:] = grades[:, 8:] > 1
    grades[:, 0] = 4 - grades[:, 0]
    grades[np.random.default_rng(6).random(grades.shape) < 0.2] = np.nan
    models = {f"item{j + 1}": ("grm", "gpcm", "2pl")[j // 4] for j in range(12)}
    fitted = fit_categories(grades, models, prior="hierarchical")
    assert fitted.converged
    assert list(fitted.priors.distances) == ["log(d_k - d_k+1) (grm)", "2 d_k - d_k-1 - d_k+1 (gpcm)"]
    assert "log(d_k - d_k+1) (grm) ~ Normal(" in fitted.summary()["prior"]
    assert fitted.parameters[0, 0] < 0
    assert (fitted.parameters[1:, 0] > 0).all()
    found = irtbench.estimate_ability(fitted.items.matrix(grades), fitted.items.as_items())
    assert np.corrcoef(found.theta, theta)[0, 1] > 0.8


def test_models_and_numbers_of_categories_that_have_no_such_prior() -> None:
    right = (np.random.default_rng(8).random((40, 6)) < 0.5).astype(float)
    is_refused("2pl, grm and gpcm but not with 3pl", fit_categories, right, "3pl", prior="hierarchical")
    with pytest.raises(irtbench.InputError, match="up to 12 categories but not with 13"):
        fit_categories(np.arange(13.0).repeat(4)[:, None] + np.zeros(3), "grm", prior="hierarchical")
    is_refused("go without a prior", fit_categories, graded(40, 6, "gpcm", seed=8)[3], "pcm", prior="hierarchical")


@pytest.mark.slow
def test_few_people_normal_or_skewed_have_smaller_errors_and_intervals_that_cover() -> None:
    errors: dict[str, list[Array]] = {"hierarchical": [], "weak": []}
    covered: dict[str, list[NDArray[np.bool_]]] = {"a": [], "steps": [], "theta": []}
    for seed in range(8):
        model = ("grm", "gpcm")[seed % 2]
        theta, slopes, steps, grades = graded(40, 20, model, seed=seed, n_categories=3, skewed=seed > 3)
        mean, deviation = theta.mean(), theta.std()
        for prior, off in errors.items():
            fitted = fit_categories(grades, model, prior=prior)
            assert fitted.converged
            table, full = fitted.table(), (fitted.items.top == 2)
            off_slope = table["discrimination"].to_numpy() - slopes * deviation
            off_steps = table[["step_1", "step_2"]].to_numpy() - (steps - mean) / deviation
            off.append(np.column_stack([off_slope, off_steps])[full].clip(-3, 3))
            if prior == "hierarchical":
                covered["a"].append((np.abs(off_slope) < 1.96 * table["se_discrimination"])[full])
                covered["steps"].append((np.abs(off_steps) < 1.96 * table[["se_step_1", "se_step_2"]]).to_numpy()[full])
                items = fitted.items.as_items()
                found = with_item_error(irtbench.estimate_ability(grades, items), grades, items, item_error="auto")
                true = (theta - mean) / deviation
                covered["theta"].append((found.lower < true) & (true < found.upper))
    learnt, weak = (np.sqrt(np.square(np.concatenate(off)).mean(axis=0)) for off in errors.values())
    assert (learnt < 0.85 * weak).all(), (learnt, weak)
    # some 155 slopes, 310 steps and 320 abilities: .95 is known to .02
    for name, inside in covered.items():
        assert 0.9 < np.concatenate(inside).mean() < 0.99, name
