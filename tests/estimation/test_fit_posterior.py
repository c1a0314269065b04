"""``fit_model(posterior=...)`` from data to standard errors, and the moments where no draws can be weighted."""

import numpy as np
import pytest
import torch

from builders.few_draws import few_draws
from builders.problem import make_problem
from builders.simulated import drawn
from irtbench import FitSettings, InputError, Priors, ResponseMatrix, fit_model
from irtbench.estimation.marginal.fisher_scoring import find_mode
from irtbench.estimation.variational import item_posterior
from irtbench.estimation.variational.item_guide import natural_parameters
from irtbench.estimation.variational.item_posterior import fit_posterior, item_moments


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


def test_a_mode_that_was_not_reached_gets_no_posterior(responses: ResponseMatrix) -> None:
    fitted = fit_model(responses, FitSettings(prior="weak", posterior="normal", max_steps=1, tolerance=1e-9))
    assert not fitted.converged
    assert fitted.posterior is None
    assert fitted.items.covariance is None


def test_few_respondents_have_posterior_means_already() -> None:
    with pytest.raises(InputError, match="gives posterior means already; expected no posterior"):
        fit_model(drawn(20, 300), FitSettings(prior="hierarchical", posterior="normal"))


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["weak", "hierarchical"])
def test_where_weights_are_too_uneven_the_moments_are_the_guides_own(
    responses: ResponseMatrix, monkeypatch: pytest.MonkeyPatch, prior: str
) -> None:
    problem = make_problem(responses, Priors.named(prior, guessing_estimated=False))  # type: ignore[arg-type]
    mode = find_mode(problem).items
    with few_draws(2000, steps=300):
        weighted = fit_posterior(problem, mode, "normal", seed=0)
        monkeypatch.setattr(item_posterior, "MOST_DIVERGENCE", 0.0)
        own = fit_posterior(problem, mode, "normal", seed=0)
    assert weighted.effective_draws is not None
    assert "weighted draws" in weighted.stopped_because
    assert own.effective_draws is None
    assert "moments are the guide's own" in own.stopped_because
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
