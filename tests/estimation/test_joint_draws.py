"""Abilities and items drawn together: every step leaves its target as it is, and fits with guessing are drawn so."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyro.distributions as dist
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats

from builders.problem import make_problem
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.few_respondents import joint_draws
from irtbench.estimation.few_respondents.joint_chain import Chain, State, width_of_mean
from irtbench.estimation.few_respondents.joint_draws import drawn_together
from irtbench.estimation.few_respondents.learnt_prior import SEEN, SEEN_DEVIATION
from irtbench.estimation.few_respondents.prior_draws import guessing_given, hierarchy_given, moved
from irtbench.estimation.fit import fit_model
from irtbench.estimation.settings import FitSettings
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.priors import GuessingPrior, Hierarchy, Priors
from irtbench.models.pyro_model.item_tensors import GUESSING
from irtbench.models.simulation import simulate_responses

PRIOR = Hierarchy((0.1, 0.3), (0.4, 1.1), -0.3, of="difficulty")
GUESSING_PRIOR = GuessingPrior("beta", 4.0, 16.0)
PRIORS = Priors("hierarchical", guessing=GuessingPrior("beta", 5.0, 15.0), hierarchy=PRIOR)


def torch_normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def chain_of(
    right: torch.Tensor, wrong: torch.Tensor, *, widths: tuple[float, float, float] = (0.1, 0.2, 0.2)
) -> Chain:
    """A chain whose proposals are wide."""
    n, n_items = right.shape
    unit, freedom = torch.eye(3, dtype=torch.float64), torch.tensor(6.0, dtype=torch.float64)
    centre = torch.tensor([0.1, 0.0, -1.4], dtype=torch.float64)
    return Chain(
        right,
        wrong,
        torch.ones(n_items, dtype=torch.float64),
        torch.ones(n_items, dtype=torch.bool),
        torch.zeros(n_items, dtype=torch.float64),
        dist.MultivariateStudentT(freedom, centre.expand(n_items, 3), (0.7 * unit).expand(n_items, 3, 3)),
        dist.MultivariateStudentT(
            freedom, torch.zeros(n, 1, dtype=torch.float64), torch.full((n, 1, 1), 0.8, dtype=torch.float64)
        ),
        widths,
        PRIORS,
    )


def state_at(chain: Chain, theta: torch.Tensor, items: torch.Tensor) -> State:
    return State(theta, items, chain.levels(theta, items), PRIOR, GUESSING_PRIOR)


def posterior_of_one_item(theta: NDArray[np.float64], x: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Means and standard deviations of (log a, d, logit c) by sums over a grid; the density is written out here."""
    axes = np.linspace(-1.9, 2.1, 61), np.linspace(-5, 5, 81), np.linspace(-5, 2, 61)
    log_a, d, logit = np.meshgrid(*axes, indexing="ij")
    c = 1 / (1 + np.exp(-logit))
    level = stats.beta.logpdf(c, 4, 16) + np.log(c * (1 - c))
    level += (
        stats.multivariate_normal(PRIOR.mean, PRIOR.covariance).logpdf(np.stack([log_a, -d / np.exp(log_a)], axis=-1))
        - log_a
    )
    for ability, right in zip(theta, x, strict=True):
        p = c + (1 - c) / (1 + np.exp(-(np.exp(log_a) * ability + d)))
        level += np.log(p if right else 1 - p)
    mass = np.exp(level - level.max())
    mass /= mass.sum()
    means = np.array([(mass * part).sum() for part in (log_a, d, logit)])
    deviations = np.array([(mass * (part - m) ** 2).sum() for part, m in zip((log_a, d, logit), means, strict=True)])
    return means, np.sqrt(deviations)


def test_steps_of_items_lead_to_the_posterior_of_an_item() -> None:
    # 3,000 copies of one item, answered by twelve people of known ability: the copies are independent draws
    n_copies, rng = 3000, np.random.default_rng(0)
    theta = rng.normal(size=12)
    x = (rng.random(12) < 0.3 + 0.7 / (1 + np.exp(-(theta - 0.3)))).astype(float)
    right = torch.from_numpy(np.repeat(x[:, None], n_copies, axis=1))
    chain = chain_of(right, 1 - right)
    torch.manual_seed(1)
    state = state_at(chain, torch.from_numpy(theta), chain.of_items.sample())
    for k in range(60):
        state = chain.with_items(state, walking=bool(k % 2))
    torch.testing.assert_close(state.level, chain.levels(state.theta, state.items))
    mean, deviation = posterior_of_one_item(theta, x)
    # a mean of 3,000 has a standard error of .018 standard deviations, a standard deviation one of about 1.3%
    np.testing.assert_allclose((state.items.mean(dim=0).numpy() - mean) / deviation, 0, atol=0.08)
    np.testing.assert_allclose(state.items.std(dim=0).numpy() / deviation, 1, atol=0.07)


def test_steps_of_abilities_lead_to_the_posterior_of_an_ability() -> None:
    n_copies, rng = 3000, np.random.default_rng(3)
    items = np.c_[rng.normal(0.1, 0.3, 8), rng.normal(size=8), rng.normal(-1.4, 0.3, 8)]
    x = np.array([1, 0, 1, 1, 1, 0, 1, 1.0])
    right = torch.from_numpy(np.repeat(x[None], n_copies, axis=0))
    chain = chain_of(right, 1 - right)
    torch.manual_seed(2)
    state = state_at(chain, chain.of_abilities.sample()[:, 0], torch.from_numpy(items))
    for k in range(40):
        state = chain.with_abilities(state, walking=bool(k % 2))
    grid = np.linspace(-6, 6, 2001)
    c = 1 / (1 + np.exp(-items[:, 2]))
    p = c + (1 - c) / (1 + np.exp(-(np.exp(items[:, 0]) * grid[:, None] + items[:, 1])))
    mass = np.exp(-0.5 * grid**2) * np.where(x == 1, p, 1 - p).prod(axis=1)
    distribution = np.cumsum(mass) / mass.sum()
    test = stats.kstest(state.theta.numpy(), lambda at: np.interp(at, grid, distribution))
    assert test.pvalue > 0.001


def test_several_trials_count_as_so_many_responses() -> None:
    right, wrong = torch.tensor([[3.0], [0.0]]).double(), torch.tensor([[1.0], [0.0]]).double()
    chain = chain_of(right, wrong)
    items = torch.tensor([[0.0, 0.0, -1.0986123]], dtype=torch.float64)  # a = 1, d = 0, c = .25: P = .625 at theta = 0
    level = chain.levels(torch.zeros(2, dtype=torch.float64), items)
    assert float(level[0, 0]) == pytest.approx(3 * np.log(0.625) + np.log(0.375))
    assert float(level[1, 0]) == 0  # nothing was answered


def test_density_of_items_is_drawn_from_its_posterior() -> None:
    values = torch_normal(40, 2, seed=4) * torch.tensor([0.3, 1.2]) + torch.tensor([0.1, -0.4])
    values[:, 1] -= 0.8 * values[:, 0]
    torch.manual_seed(5)
    drawn = [hierarchy_given(values) for _ in range(4000)]
    away = (values - values.mean(dim=0)).numpy()
    variance = np.array([prior.deviation[0] ** 2 for prior in drawn])
    total = (away[:, 0] ** 2).sum() + SEEN * SEEN_DEVIATION**2
    assert stats.kstest(total / variance, stats.chi2(39 + SEEN).cdf).pvalue > 0.001
    # mean of log a: normal around the items' with that variance over 40
    standard = [(prior.mean[0] - float(values[:, 0].mean())) / (prior.deviation[0] / np.sqrt(40)) for prior in drawn]
    assert stats.kstest(standard, "norm").pvalue > 0.001
    # the regression of b on log a by least squares: a t of 36 degrees of freedom, its residuals' sum over chi-square
    rise = np.array([prior.correlation * prior.deviation[1] / prior.deviation[0] for prior in drawn])
    best = (away[:, 0] @ away[:, 1]) / (away[:, 0] @ away[:, 0])
    residual = ((away[:, 1] - best * away[:, 0]) ** 2).sum()
    t = (rise - best) / np.sqrt(residual / 36 / (away[:, 0] ** 2).sum())
    assert stats.kstest(t, stats.t(36).cdf).pvalue > 0.001
    rest = np.array([prior.deviation[1] ** 2 * (1 - prior.correlation**2) for prior in drawn])
    assert stats.kstest(residual / rest, stats.chi2(36).cdf).pvalue > 0.001


def test_mean_of_guessing_given_items_has_its_posterior() -> None:
    logit = torch.logit(torch.distributions.Beta(3.0, 17.0).sample((25,)).double().clamp(0.01, 0.9))
    torch.manual_seed(6)
    start, at, drawn = PRIORS.guessing, GUESSING_PRIOR, []
    assert start is not None
    for _ in range(1500):
        at = guessing_given(logit, at, start)
        drawn.append(at.first / 20)
    grid = np.linspace(0.001, 0.999, 3001)
    c = torch.sigmoid(logit).numpy()
    level = stats.beta.logpdf(c, 20 * grid[:, None], 20 * (1 - grid[:, None])).sum(axis=1) + stats.beta.logpdf(
        grid, 5, 15
    )
    mass = np.exp(level - level.max())
    mass /= mass.sum()
    mean = mass @ grid
    deviation = np.sqrt(mass @ (grid - mean) ** 2)
    assert np.mean(drawn) == pytest.approx(mean, abs=0.2 * deviation)
    assert np.std(drawn) == pytest.approx(deviation, rel=0.15)


@pytest.mark.slow
def test_moves_of_items_with_their_density_leave_the_prior_as_it_is() -> None:
    # without responses nothing but the priors is known; every step starts from a draw of them
    nothing = torch.zeros(1, 6, dtype=torch.float64)
    chain, rng = chain_of(nothing, nothing, widths=(0.3, 0.4, 0.3)), np.random.default_rng(7)
    torch.manual_seed(8)
    variances, means, places, changed, start = [], [], [], 0, GuessingPrior("beta", 5.0, 15.0)
    for _ in range(400):
        deviation = np.sqrt(SEEN * SEEN_DEVIATION**2 / rng.chisquare(SEEN))
        mean = rng.beta(5, 15)
        guessing = moved(GUESSING_PRIOR, float(np.log(mean / (1 - mean)) - np.log(4 / 16)))
        current = replace(PRIOR, deviation=(float(deviation), 1.1))
        c = rng.beta(20 * mean, 20 * (1 - mean), 6).clip(1e-6, 1 - 1e-6)
        log_a, b = rng.multivariate_normal(current.mean, current.covariance, 6).T
        items = np.c_[log_a, -np.exp(log_a) * b, np.log(c / (1 - c))]
        state = replace(
            state_at(chain, torch.zeros(1).double(), torch.from_numpy(items)), hierarchy=current, guessing=guessing
        )
        for _ in range(6):
            state = chain.with_guessing_together(chain.with_slopes_together(state), start)
        assert state.guessing is not None
        variances.append(state.hierarchy.deviation[0] ** 2)
        means.append(state.guessing.first / 20)
        c = torch.sigmoid(state.items[:, GUESSING]).numpy()
        places.append(stats.beta.cdf(c[0], state.guessing.first, state.guessing.second))
        changed += state.hierarchy.deviation[0] != deviation
        standard = (items[:, 0] - PRIOR.mean[0]) / deviation  # every item keeps its place
        now = (state.items[:, 0].numpy() - state.hierarchy.mean[0]) / state.hierarchy.deviation[0]
        np.testing.assert_allclose(now, standard, atol=1e-9)
        np.testing.assert_allclose(chain.pairs_of(state.items)[:, 1], b, atol=1e-9)
    assert changed > 380
    assert stats.kstest(SEEN * SEEN_DEVIATION**2 / np.array(variances), stats.chi2(SEEN).cdf).pvalue > 0.001
    assert stats.kstest(means, stats.beta(5, 15).cdf).pvalue > 0.001
    assert stats.kstest(places, "uniform").pvalue > 0.001


def test_standard_abilities_are_the_same_curves() -> None:
    right = (torch_normal(9, 4, seed=9) > 0).double()
    chain = chain_of(right, 1 - right)
    state = state_at(chain, 0.4 + 1.7 * torch_normal(9, seed=10), torch_normal(4, 3, seed=11))
    found = chain.with_standard_abilities(state)
    assert float(found.theta.mean()) == pytest.approx(0, abs=1e-12)
    assert float(found.theta.std(correction=0)) == pytest.approx(1)
    torch.testing.assert_close(chain.levels(found.theta, found.items), state.level)


def test_responses_that_tell_nothing_of_single_values_tell_little_of_their_mean() -> None:
    told = width_of_mean(torch.zeros(25, dtype=torch.float64), 0.5)
    assert told == pytest.approx(0.1)  # .5 / sqrt(25)
    assert width_of_mean(torch.full((25,), 0.25, dtype=torch.float64), 0.5) > 4 * told


def simulated(n: int, n_items: int, *, seed: int = 0) -> tuple[NDArray[np.float64], ItemParameters, ResponseMatrix]:
    rng = np.random.default_rng([seed, n])
    truth = ItemParameters.from_difficulty(
        rng.lognormal(0.2, 0.3, n_items), rng.normal(size=n_items), rng.beta(4, 16, n_items)
    )
    theta = rng.normal(size=n)
    return theta, truth, simulate_responses(theta, truth, rng=rng)


@pytest.mark.parametrize(
    ("n", "n_items", "free", "drawn"), [(20, 60, True, True), (20, 60, False, False), (60, 20, True, False)]
)
def test_what_is_drawn(n: int, n_items: int, free: bool, drawn: bool) -> None:
    assert drawn_together(make_problem(simulated(n, n_items)[2], PRIORS, free=free)) == drawn


@pytest.mark.slow
def test_a_fit_with_guessing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint_draws, "SWEEPS", 250)
    theta, _, responses = simulated(30, 120)
    fitted = fit_model(responses, FitSettings(kind="3pl", prior="hierarchical", by_item={"item1": "2pl"}))
    assert fitted.converged
    assert fitted.estimator == "posterior mean, items, abilities and prior drawn together (Gibbs sampling)"
    assert "R-hat of the draws at most 1.0" in fitted.stopped_because
    assert fitted.abilities is not None
    assert float(fitted.abilities.theta.mean()) == pytest.approx(0, abs=1e-9)
    assert 0.95 < float(fitted.abilities.theta.std()) < 1  # means of draws whose standard deviation is 1
    assert np.corrcoef(fitted.abilities.theta, theta)[0, 1] > 0.93
    # nobody's error is larger than that of the mean of a few; every draw keeps the mean, and so do their sums
    np.testing.assert_allclose(fitted.abilities.covariance.sum(axis=0), 0, atol=1e-9)
    columns = fitted.quantile_columns()
    for name in ("discrimination", "difficulty"):
        assert (columns[f"{name}_lower"] < columns[f"{name}_median"]).all()
        assert (columns[f"{name}_median"] < columns[f"{name}_upper"]).all()
    assert fitted.items.guessing[0] == 0
    assert np.isnan(columns["guessing_median"][0])
    assert (columns["guessing_lower"][1:] < fitted.items.guessing[1:]).all()
    assert fitted.items.covariance is not None
    assert fitted.items.covariance[0, 2, 2] == 0


@pytest.mark.slow
def test_draws_are_those_of_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SWEEPS", 30), ("WARM_UP", 10), ("MOST_ROUNDS", 1), ("MOST_R_HAT", 99.0)):
        monkeypatch.setattr(joint_draws, name, value)
    responses, settings = simulated(12, 30)[2], FitSettings(kind="3pl", prior="hierarchical")
    tables = [fit_model(responses, settings, seed=seed).table() for seed in (1, 1, 2)]
    pd.testing.assert_frame_equal(tables[0], tables[1], check_exact=True)
    assert not tables[0]["difficulty"].equals(tables[2]["difficulty"])


def test_a_density_of_guessing_that_was_given_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SWEEPS", 30), ("WARM_UP", 10), ("MOST_ROUNDS", 1), ("MOST_R_HAT", 99.0)):
        monkeypatch.setattr(joint_draws, name, value)
    settings = FitSettings(kind="3pl", prior="hierarchical", prior_guessing="normal:-1.4,0.05")
    fitted = fit_model(simulated(12, 30)[2], settings)
    assert fitted.priors.guessing == GuessingPrior("normal", -1.4, 0.05)
    np.testing.assert_allclose(fitted.items.guessing, 1 / (1 + np.exp(1.4)), atol=0.02)


@pytest.mark.slow
def test_chains_that_do_not_agree_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    responses, settings = simulated(12, 30)[2], FitSettings(kind="3pl", prior="hierarchical")
    monkeypatch.setattr(joint_draws, "MOST_CELLS", 0)
    without = fit_model(responses, settings)
    monkeypatch.undo()
    for name, value in (("SWEEPS", 20), ("WARM_UP", 5), ("MOST_ROUNDS", 1), ("MOST_R_HAT", 1.0)):
        monkeypatch.setattr(joint_draws, name, value)
    fitted = fit_model(responses, settings)
    assert fitted.converged
    assert "draws of items and abilities did not agree (R-hat " in fitted.stopped_because
    assert fitted.estimator == without.estimator
    np.testing.assert_allclose(fitted.items.discrimination, without.items.discrimination, atol=1e-3)
    np.testing.assert_allclose(fitted.items.covariance, without.items.covariance, rtol=0.01, atol=1e-3)


@pytest.mark.slow
def test_without_standard_errors_nothing_is_drawn() -> None:
    settings = FitSettings(kind="3pl", prior="hierarchical", standard_errors=False)
    assert "R-hat" not in fit_model(simulated(20, 60)[2], settings).stopped_because
