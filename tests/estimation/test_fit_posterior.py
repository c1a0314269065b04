"""``fit_model(posterior=...)`` from data to standard errors, weighted draws, and endless slopes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from builders.few_draws import few_draws
from builders.mirt_figures import lsat6
from builders.problem import make_problem
from builders.refusals import is_refused
from builders.simulated import drawn
from irtbench import FitSettings, InputError, Priors, ResponseMatrix, as_responses, fit_model
from irtbench.estimation.driver import own_parameters
from irtbench.estimation.few_respondents.empirical_bayes import find_hierarchical_mode
from irtbench.estimation.fit import problem_of
from irtbench.estimation.marginal.fisher_scoring import find_mode
from irtbench.estimation.variational import item_posterior
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
from irtbench.estimation.variational.item_guide import natural_parameters
from irtbench.estimation.variational.item_posterior import (
    change_with_others_fixed,
    drop_at_endless_slopes,
    fit_posterior,
    item_moments,
)
from irtbench.models.quadrature import normal_grid


@pytest.fixture(scope="module")
def responses() -> ResponseMatrix:
    return drawn(300, 5)


@pytest.mark.slow
def test_means_and_covariances_of_the_posterior_are_the_estimates(responses: ResponseMatrix) -> None:
    with few_draws(1000):
        fitted = fit_model(responses, FitSettings(prior="weak", posterior="normal"), seed=3)
    posterior = fitted.posterior
    assert posterior.kind == "normal"
    assert posterior.seed == 3
    assert fitted.converged
    assert "; posterior: means and standard deviations moved by up to" in fitted.stopped_because
    np.testing.assert_array_equal(fitted.items.discrimination, posterior.mean[:, 0])
    np.testing.assert_array_equal(fitted.items.intercept, posterior.mean[:, 1])
    np.testing.assert_array_equal(fitted.items.guessing, posterior.mean[:, 2])
    assert not fitted.items.guessing_estimated.any()
    errors = fitted.items.standard_errors()
    np.testing.assert_allclose(errors["discrimination"], posterior.standard_deviations[:, 0])
    np.testing.assert_allclose(errors["intercept"], posterior.standard_deviations[:, 1])
    # the likelihood is that of the mode, whose steepest slopes are less than their means
    mode = fit_model(responses, FitSettings(prior="weak"))
    assert mode.posterior is None
    assert fitted.log_likelihood == pytest.approx(mode.log_likelihood, abs=1e-6)
    assert (fitted.items.discrimination > mode.items.discrimination).mean() > 0.5
    assert fitted.summary()["posterior"] == posterior.summary()
    assert mode.summary()["posterior"] is None
    columns = posterior.columns()
    names, levels = ("discrimination", "difficulty", "guessing"), ("lower", "median", "upper")
    assert list(columns) == [f"{name}_{level}" for name in names for level in levels]
    assert (columns["discrimination_lower"] < fitted.items.discrimination).all()
    assert (columns["discrimination_upper"] > fitted.items.discrimination).all()
    assert (columns["difficulty_lower"] < columns["difficulty_median"]).all()
    assert np.isnan(columns["guessing_median"]).all()
    assert posterior.summary()["sd_doubtful"] == list(posterior.doubtful_items)


def test_a_mode_that_was_not_reached_and_few_respondents_get_no_posterior(responses: ResponseMatrix) -> None:
    fitted = fit_model(responses, FitSettings(prior="weak", posterior="normal", max_steps=1, tolerance=1e-9))
    assert not fitted.converged
    assert fitted.posterior is None
    assert fitted.items.covariance is None
    few = FitSettings(prior="hierarchical", posterior="normal")
    is_refused("gives posterior means already; expected no posterior", fit_model, drawn(20, 300), few)


@pytest.mark.slow
def test_where_weights_are_too_uneven_the_moments_are_the_guides_own(
    responses: ResponseMatrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = responses.values.copy()
    values[:, 4] = 1 - values[:, 4]  # of a reversed item the slope keeps its sign
    priors = Priors.named("hierarchical", guessing_estimated=False)
    problem = make_problem(as_responses(values), priors)
    start = problem.starting_values()
    start.slope[4, 0] = -0.8
    with own_parameters():
        problem, _, found = find_hierarchical_mode(
            problem, priors, start, tolerance=1e-5, max_steps=500, mode_wanted=True
        )
    assert found.status.converged
    mode = found.mode
    with few_draws(2000, steps=300):
        weighted = fit_posterior(problem, mode, "normal", seed=0)
        monkeypatch.setattr(item_posterior, "MOST_DIVERGENCE", 0.0)
        own = fit_posterior(problem, mode, "normal", seed=0)
    assert weighted.effective_draws is not None
    assert "weighted draws" in weighted.stopped_because
    assert own.effective_draws is None
    assert "moments are the guide's own" in own.stopped_because
    assert np.sign(weighted.mean[:, 0]).tolist() == np.sign(own.mean[:, 0]).tolist() == [1, 1, 1, 1, -1]
    width = weighted.standard_deviations[:, :2]
    # a guide fitted by the ELBO keeps out of tails, so that its own widths are somewhat less
    assert np.abs((own.mean - weighted.mean)[:, :2] / width).max() < 0.15
    assert np.abs(own.standard_deviations[:, :2] / width - 1).max() < 0.25
    assert not np.array_equal(own.mean, weighted.mean)


@pytest.mark.parametrize("prior", ["weak", "hierarchical"])
def test_the_guides_moments_are_those_of_its_draws(responses: ResponseMatrix, prior: str) -> None:
    free = [True, True, False, False, True]
    problem = make_problem(responses, Priors.named(prior), free=free, fixed=0.15)  # type: ignore[arg-type]
    rng = torch.Generator().manual_seed(0)
    sign = problem.prior.slope_sign
    centre = 0.5 * torch.randn(5, 3, generator=rng, dtype=torch.float64)
    root = 0.3 * torch.randn(5, 3, 3, generator=rng, dtype=torch.float64)
    root[~torch.tensor(free), 2] = 0.0  # what is fixed does not vary
    mean, covariance = item_moments(problem, centre, root @ root.transpose(1, 2))
    normals = torch.randn(400_000, 3, generator=rng, dtype=torch.float64)
    for j in range(5):
        own_sign = None if sign is None else sign[j]
        values = natural_parameters(centre[j] + normals @ root[j].T, own_sign, torch.tensor([free[j]]))
        values[:, 2] = torch.sigmoid(values[:, 2]) if free[j] else 0.15
        spread = values.std(dim=0).clamp(min=1e-9)
        # 400,000 draws: five standard errors of a mean are .008 standard deviations
        assert float(((mean[j] - values.mean(dim=0)).abs() / spread).max()) < 0.01
        np.testing.assert_allclose(covariance[j], torch.cov(values.T), atol=0.02 * float(spread.max()) ** 2)
        if not free[j]:
            assert float(mean[j, 2]) == 0.15
            assert float(covariance[j, 2].abs().max()) == 0.0


LEVELS = (0.025, 0.5, 0.975)


def test_weights_and_weighted_quantiles_by_hand() -> None:
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
    # they are cut, and add up to one
    ratios = torch.zeros(100, dtype=torch.float64)
    ratios[0] = math.log(99.0)
    cut = WeightedDraws(torch.zeros(100, 1, 3), ratios)
    # half of all mass on one draw, cut to the root of their number: .1 beside .5
    assert float(cut.weights[0]) == pytest.approx(1 / 6)
    assert float(cut.weights.sum()) == pytest.approx(1)
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


def test_endless_slopes_of_lsat6_with_the_other_items_estimated_anew(real_data: Path, reference: Path) -> None:
    responses, _, _ = lsat6(real_data, reference, "2pl")
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
