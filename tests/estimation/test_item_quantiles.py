"""Posteriors item by item: quantiles and widths against sums over a grid, what draws are worth, and endless slopes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats

from builders.few_draws import few_draws
from irtbench import FitSettings, InputError, ResponseMatrix
from irtbench.estimation.fit import fit_model, problem_of
from irtbench.estimation.marginal.fisher_scoring import find_mode
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.variational.endless_slopes import change_with_others_fixed, drop_at_endless_slopes
from irtbench.estimation.variational.importance_weights import (
    WIDER,
    WIDER_FREEDOM,
    WIDER_SHARE,
    WeightedDraws,
    item_reliability,
    log_mixture,
    pareto_shape,
    with_one_item_wider,
)
from irtbench.estimation.variational.item_posterior import ItemPosterior, fit_posterior
from irtbench.models.quadrature import normal_grid

LEVELS = (0.025, 0.5, 0.975)


def one_item(n_respondents: int, n_correct: int, settings: FitSettings) -> Problem:
    values = np.zeros((n_respondents, 1))
    values[:n_correct] = 1
    responses = ResponseMatrix(values, tuple(map(str, range(n_respondents))), ("item",))
    return problem_of(responses, settings, normal_grid())


def grid_quantiles(values: NDArray[np.float64], mass: NDArray[np.float64]) -> NDArray[np.float64]:
    order = values.ravel().argsort()
    below = mass.ravel()[order].cumsum()
    return values.ravel()[order][below.searchsorted(LEVELS)]


def on_grid(
    n_respondents: int,
    n_correct: int,
    slopes: NDArray[np.float64],
    c: NDArray[np.float64],
    prior_of_c: NDArray[np.float64],
) -> dict[str, NDArray[np.float64]]:
    """Means, deviations and quantiles of one item under the weak prior, of which only its share correct is known.

    Slopes and intercepts lie at the middle of cells, so that b = -d / a has no zero to be divided by.
    """
    a, d, guess = np.meshgrid(slopes, np.linspace(-18, 18, 181), c, indexing="ij")
    grid = normal_grid()
    share = sum(w / (1 + np.exp(-(a * node + d))) for node, w in zip(grid.nodes, grid.weights, strict=True))
    p = guess + (1 - guess) * share
    log_density = n_correct * np.log(p) + (n_respondents - n_correct) * np.log1p(-p)
    log_density += -0.5 * ((a - 1.0) / 1.5) ** 2 - 0.5 * (d / 4.0) ** 2 + prior_of_c
    mass = np.exp(log_density - log_density.max())
    mass /= mass.sum()
    parts = {"a": a, "d": d, "c": guess}
    mean = np.array([(mass * x).sum() for x in parts.values()])
    square = np.array([(mass * x**2).sum() for x in parts.values()])
    return {
        "mean": mean,
        "sd": np.sqrt(np.maximum(square - mean**2, 0)),
        "a": grid_quantiles(a, mass),
        "b": grid_quantiles(-d / a, mass),
        "c": grid_quantiles(guess, mass),
    }


def cell_middles(low: float, high: float, number: int) -> NDArray[np.float64]:
    edges = np.linspace(low, high, number + 1)
    return (edges[1:] + edges[:-1]) / 2


@pytest.mark.slow
def test_an_item_of_which_guessing_tells_all_has_the_width_of_a_grid() -> None:
    problem = one_item(200, 60, FitSettings(kind="3pl"))
    logit = np.linspace(-5, 2, 57)
    c = 1 / (1 + np.exp(-logit))
    exact = on_grid(200, 60, cell_middles(-6, 8, 70), c, 5 * np.log(c) + 15 * np.log1p(-c))
    with few_draws(5_000):
        found = fit_posterior(problem, find_mode(problem).items, "normal", seed=0)
    np.testing.assert_allclose(found.mean[0], exact["mean"], atol=0.1 * exact["sd"].max())
    assert (np.abs(found.mean[0] - exact["mean"]) < 0.06 * exact["sd"]).all()
    np.testing.assert_allclose(found.standard_deviations[0] / exact["sd"], 1, atol=0.06)
    assert not found.doubtful_items
    # quantiles of a and c in standard deviations; mean +- 1.96 sd is no substitute for those of c
    assert (np.abs(found.quantiles[:, 0, 0] - exact["a"]) < 0.2 * exact["sd"][0]).all()
    assert (np.abs(found.quantiles[:, 0, 2] - exact["c"]) < 0.2 * exact["sd"][2]).all()


def pair_on_grid(counts: dict[tuple[int, int], int]) -> tuple[NDArray[np.float64], ...]:
    """Grid points (a, d) of an item under the weak prior, and the posterior mass of two items' there.

    Slopes are positive: the mirror image holds 6% of the mass, and a posterior is of the peak at the mode.
    """
    a, d = (x.ravel() for x in np.meshgrid(cell_middles(0, 8, 80), cell_middles(-7, 7, 56), indexing="ij"))
    grid = normal_grid()
    p = 1 / (1 + np.exp(-(a[:, None] * grid.nodes + d[:, None])))
    prior = -0.5 * ((a - 1.0) / 1.5) ** 2 - 0.5 * (d / 4.0) ** 2
    log_density = prior[:, None] + prior[None, :]
    for (first, second), count in counts.items():
        left, right = (p if first else 1 - p), (p if second else 1 - p)
        log_density += count * np.log((left * grid.weights) @ right.T)
    mass = np.exp(log_density - log_density.max())
    mass /= mass.sum()
    return a, d, mass.sum(axis=1), mass.sum(axis=0)


@pytest.mark.slow
def test_quantiles_of_two_items_agree_with_a_grid_and_those_of_normal_densities_do_not() -> None:
    rng = np.random.default_rng(3)
    p = 1 / (1 + np.exp(-(rng.normal(size=(400, 1)) * [1.8, 1.4] + [-1.8, 0.7])))
    values = (rng.random(p.shape) < p).astype(float)
    responses = ResponseMatrix(values, tuple(map(str, range(400))), ("hard", "easy"))
    problem = problem_of(responses, FitSettings(prior="weak"), normal_grid())
    counts = {(i, j): int(((values[:, 0] == i) & (values[:, 1] == j)).sum()) for i in (0, 1) for j in (0, 1)}
    a, d, *masses = pair_on_grid(counts)
    with few_draws(5_000):
        found = fit_posterior(problem, find_mode(problem).items, "normal", seed=0)
    worst_by_sd = worst_by_means = 0.0
    for j, mass in enumerate(masses):
        sd = np.sqrt(mass @ a**2 - (mass @ a) ** 2)
        of_a, of_b = grid_quantiles(a, mass), grid_quantiles(-d / a, mass)
        assert (np.abs(found.quantiles[:, j, 0] - of_a) < 0.12 * sd).all()
        sd_of_b = np.sqrt(mass @ (d / a) ** 2 - (mass @ (d / a)) ** 2)
        assert found.difficulty[j] == pytest.approx(of_b[1], abs=0.25 * sd_of_b)
        order = (-d / a).argsort()
        below = mass[order].cumsum().searchsorted([0.15866, 0.84134])
        one_deviation = float(np.diff((-d / a)[order][below])[0]) / 2
        assert found.difficulty_deviation[j] == pytest.approx(one_deviation, rel=0.1)
        of_means = -found.mean[j, 1] / found.mean[j, 0]
        worst_by_means = max(worst_by_means, abs(of_means - of_b[1]) - abs(found.difficulty[j] - of_b[1]))
        by_sd = mass @ a + np.array([-1.96, 1.96]) * sd
        worst_by_sd = max(worst_by_sd, float(np.abs(by_sd - of_a[[0, 2]]).max() / sd))
    assert worst_by_sd > 0.2
    assert worst_by_means > 0.02  # -d / a of the means is further off
    np.testing.assert_array_equal(found.quantiles[:, :, 2], 0.0)


def test_weighted_quantiles_by_hand() -> None:
    values = torch.tensor([3.0, 1.0, 2.0, 4.0], dtype=torch.float64)[:, None, None]
    even = WeightedDraws(values, torch.zeros(4, dtype=torch.float64))
    assert even.quantiles(values, [0.1, 0.5, 0.9]).flatten().tolist() == [1.0, 3.0, 4.0]
    draws = torch.randn(4000, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    many = WeightedDraws(draws, torch.zeros(4000, dtype=torch.float64))
    found = many.quantiles(draws, LEVELS)
    assert found.shape == (3, 2, 3)
    np.testing.assert_allclose(found, np.quantile(draws.numpy(), LEVELS, axis=0), atol=0.01)
    # weights exp(x) turn a standard normal density into one of mean 1
    shifted = WeightedDraws(draws, draws[:, 0, 0])
    assert float(shifted.quantiles(draws, [0.5])[0, 0, 0]) == pytest.approx(1, abs=0.15)


def test_weights_are_cut_and_add_up_to_one() -> None:
    ratios = torch.zeros(100, dtype=torch.float64)
    ratios[0] = 50.0
    draws = WeightedDraws(torch.zeros(100, 1, 3), ratios)
    assert float(draws.weights.sum()) == pytest.approx(1)
    # all mass on one draw, cut to the root of their number: .1, alone in what is left
    assert draws.effective == pytest.approx(1, abs=1e-6)
    assert WeightedDraws(torch.zeros(100, 1, 3), torch.zeros(100)).effective == pytest.approx(100)


def test_the_mixtures_density_is_that_of_its_draws() -> None:
    item_of = torch.tensor([0, 1, 0, 1, 1])
    z = 2 * torch.randn(50, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    root = torch.diag(torch.tensor([1.0, 2.0, 0.5, 1.0, 1.0], dtype=torch.float64))
    normal = stats.norm.pdf(z.numpy())
    wide = 0.0
    for item in (0, 1):
        mine = (item_of == item).numpy()
        t = stats.multivariate_t(shape=WIDER**2 * np.eye(mine.sum()), df=WIDER_FREEDOM)
        wide = wide + 0.5 * t.pdf(z.numpy()[:, mine]) * normal[:, ~mine].prod(axis=1)
    expected = np.log((1 - WIDER_SHARE) * normal.prod(axis=1) + WIDER_SHARE * wide)
    np.testing.assert_allclose(log_mixture(z, root, item_of).numpy(), expected, rtol=1e-10)
    drawn = torch.randn(200_000, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    drawn = with_one_item_wider(drawn, item_of, torch.Generator().manual_seed(3))
    ratio = (-0.5 * drawn.square().sum(dim=1) - 2.5 * math.log(2 * math.pi)) - log_mixture(drawn, root, item_of)
    assert float(ratio.exp().mean()) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("k", [0.2, 0.5, 1.0])
def test_the_shape_of_a_pareto_tail_is_recovered(k: float) -> None:
    draws = stats.genpareto(k).rvs(20_000, random_state=4)
    # three sqrt(n) = 424 terms: (1 + k) / sqrt(424) is the standard error
    assert pareto_shape(torch.from_numpy(draws)) == pytest.approx(k, abs=3 * (1 + k) / 424**0.5)
    assert pareto_shape(torch.ones(20)) == math.inf


def test_a_flat_item_is_named_where_no_draw_goes_far_enough_and_mended_where_some_do() -> None:
    """Three items, normal but for the second, whose density is a t of 4 degrees of freedom and twice as wide."""
    target = stats.t(4, scale=2.0)
    generator = torch.Generator().manual_seed(5)
    normal = torch.randn(32_000, 3, generator=generator, dtype=torch.float64)

    def judged(z: torch.Tensor, log_density: torch.Tensor) -> tuple[WeightedDraws, torch.Tensor]:
        posterior = stats.norm.logpdf(z[:, [0, 2]].numpy()).sum(axis=1) + target.logpdf(z[:, 1].numpy())
        values = z[:, :, None].expand(-1, -1, 3)
        return WeightedDraws(values, torch.from_numpy(posterior) - log_density), values

    plain, values = judged(normal, torch.from_numpy(stats.norm.logpdf(normal.numpy()).sum(axis=1)))
    found = item_reliability(plain.weights, values)
    assert plain.effective > 300
    assert 1 in found.doubtful
    assert float(plain.moments(values)[1][1, 0, 0].sqrt()) < 0.9 * target.std()
    item_of = torch.arange(3)
    wide = with_one_item_wider(normal, item_of, generator)
    mended, values = judged(wide, log_mixture(wide, torch.eye(3, dtype=torch.float64), item_of))
    found = item_reliability(mended.weights, values)
    assert found.doubtful.tolist() == []
    assert float(mended.moments(values)[1][1, 0, 0].sqrt()) == pytest.approx(target.std(), rel=0.06)


def lsat6(real_data: Path) -> ResponseMatrix:
    table = pd.read_csv(real_data / "lsat6" / "responses.csv").rename(columns={"correct": "response"})
    return ResponseMatrix.from_long(table)


def test_endless_slopes_of_lsat6_with_the_other_items_estimated_anew(real_data: Path) -> None:
    responses = lsat6(real_data)
    problem = problem_of(responses, FitSettings(), normal_grid())
    with torch.no_grad():
        items = find_mode(problem).items
        fixed = -change_with_others_fixed(problem, items).flatten(1).amax(dim=1)
        drop = drop_at_endless_slopes(problem, items)
    # with the other items fixed none is near 10; estimated anew next to a step, item 3 falls by 6.3 on nodes .05 apart
    assert float(fixed.min()) == pytest.approx(26.0, abs=0.1)
    assert int(drop.argmin()) == 2
    assert float(drop[2]) == pytest.approx(6.3, abs=0.5)
    assert (drop <= fixed + 1e-6).all()
    with pytest.raises(InputError, match=f"item {responses.item_ids[2]}: without a prior of its slope"):
        fit_model(responses, FitSettings(posterior="normal"))


@pytest.mark.slow
def test_columns_of_items_csv() -> None:
    rng = np.random.default_rng(6)
    p = 1 / (1 + np.exp(-(1.3 * rng.normal(size=(300, 1)) + np.linspace(-1, 1, 4))))
    values = (rng.random(p.shape) < p).astype(float)
    responses = ResponseMatrix(values, tuple(map(str, range(300))), ("a", "b", "c", "d"))
    with few_draws(500):
        fitted = fit_model(responses, FitSettings(prior="weak", posterior="normal"))
    posterior = fitted.posterior
    assert isinstance(posterior, ItemPosterior)
    columns = posterior.columns()
    assert list(columns) == [
        f"{name}_{level}"
        for name in ("discrimination", "difficulty", "guessing")
        for level in ("lower", "median", "upper")
    ]
    assert (columns["discrimination_lower"] < fitted.items.discrimination).all()
    assert (columns["discrimination_upper"] > fitted.items.discrimination).all()
    assert (columns["difficulty_lower"] < columns["difficulty_median"]).all()
    assert np.isnan(columns["guessing_median"]).all()
    assert posterior.summary()["sd_doubtful"] == list(posterior.doubtful_items)
