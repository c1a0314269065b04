"""Trials that scatter more than binomial: the distribution, its limit, recovery, coverage, the level of the test."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import betabinom, binom, chi2

from builders.command_line import refused, run
from builders.refusals import is_refused
from irtbench import ResponseMatrix, estimate_ability, fit_model
from irtbench.estimation.dispersion import FittedTrials, fit_trials
from irtbench.estimation.status import Status, Stop
from irtbench.models.item_models.beta_binomial import BetaBinomial
from irtbench.models.item_models.item_model import NUMPY


def drawn(
    rng: np.random.Generator, n: int, n_items: int, rho: float, trials: np.ndarray
) -> tuple[np.ndarray, ResponseMatrix]:
    """Abilities, and numbers right around a 2PL with this dispersion; 0 trials are missing."""
    theta, a, b = rng.normal(size=n), rng.lognormal(0, 0.3, n_items), rng.normal(0, 1, n_items)
    p = 1 / (1 + np.exp(-a * (theta[:, None] - b)))
    if rho:
        p = rng.beta(p * (1 - rho) / rho, (1 - p) * (1 - rho) / rho)
    trials = np.broadcast_to(trials, p.shape)
    right = np.where(trials > 0, rng.binomial(trials, p), np.nan)
    names = tuple(f"r{i}" for i in range(n)), tuple(f"i{j}" for j in range(n_items))
    return theta, ResponseMatrix(right, *names, trials)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_the_distribution_is_the_beta_binomial(n: int) -> None:
    theta, rho = np.array([-1.3, 0.2, 2.0]), 0.15
    x = BetaBinomial(n).unbounded([1.2, 0.4, rho])
    found = np.exp(BetaBinomial(n).log_probabilities(x[:, None], theta[None], NUMPY))
    p, more = 1 / (1 + np.exp(-1.2 * theta - 0.4)), (1 - rho) / rho
    np.testing.assert_allclose(found, betabinom.pmf(np.arange(n + 1)[:, None], n, p * more, (1 - p) * more), rtol=1e-9)


def test_without_dispersion_it_is_the_2pl_of_trials() -> None:
    _, data = drawn(np.random.default_rng(8), 400, 8, 0.0, np.array(4))
    found, expected = fit_trials(data), fit_model(data)
    assert found.parameters[0, 2] < 0.01
    assert found.p > 0.05
    plain = expected.log_likelihood + expected.log_binomial_coefficients
    assert found.log_likelihood_binomial == pytest.approx(plain)
    assert found.log_likelihood >= plain - 1e-6
    np.testing.assert_allclose(found.parameters[:, 0], expected.items.discrimination, atol=0.03)
    assert found.converged


@pytest.mark.slow
def test_parameters_are_found_again_and_theta_is_covered() -> None:
    rng, rhos = np.random.default_rng(3), list[float]()
    inside, plain = list[float](), list[float]()
    for trials in (np.array(4), rng.integers(0, 7, (400, 15)), np.array([2, 9] * 7 + [3])):
        theta, data = drawn(rng, 400, 15, 0.2, trials)
        fitted = fit_trials(data)
        responses, items = fitted.matrix(data)
        for kept, found in ((inside, estimate_ability(responses, items)),
                            (plain, estimate_ability(data, fit_model(data).items))):  # fmt: skip
            kept.append(((found.lower <= theta) & (theta <= found.upper)).mean())
        table = fitted.table()
        rhos.append((table["dispersion"][0] - 0.2) / table["se_dispersion"][0])
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02)
    assert np.mean(plain) < 0.91
    assert np.abs(rhos).max() < 3


@pytest.mark.slow
def test_the_test_of_dispersion_keeps_its_level() -> None:
    rng = np.random.default_rng(5)
    none = np.array([fit_trials(drawn(rng, 200, 6, 0.0, np.array(4))[1]).p for _ in range(20)])
    assert (none < 0.1).sum() <= 5  # 2 expected; 6 or more in 1% of such tests
    assert (none == 1).mean() > 0.2  # half are at the end of the range


def test_the_mixture_of_chi_squares_of_very_many_items_is_a_number() -> None:
    """Beyond 1,029 items a binomial coefficient has no floating point number; the mixture is near n / 2 degrees."""
    found = fitted_by_item(4, 20.0)
    degrees, weights = np.arange(1, 5), binom.pmf(np.arange(1, 5), 4, 0.5)
    assert found.p == pytest.approx(float(weights @ chi2.sf(found.likelihood_ratio, degrees)), rel=1e-12)
    assert fitted_by_item(1100, 550.0).p == pytest.approx(0.5, abs=0.05)


def fitted_by_item(n_items: int, likelihood_ratio: float) -> FittedTrials:
    names, status = tuple(f"i{k}" for k in range(n_items)), Status(Stop.CONVERGED, 1)
    return FittedTrials(
        item_ids=names, parameters=np.full((n_items, 3), 0.1), covariance=None, by="item", log_likelihood=-1000.0,
        log_likelihood_binomial=-1000.0 - likelihood_ratio / 2, n_respondents=100, n_by_item=np.full(n_items, 100),
        nodes="", status=status,
    )  # fmt: skip


def test_items_have_dispersions_of_their_own() -> None:
    parts = [drawn(np.random.default_rng(9), 500, 3, rho, np.array(6))[1] for rho in (0.05, 0.4)]
    both = ResponseMatrix(
        np.hstack([part.correct for part in parts]), parts[0].respondent_ids, tuple("abcdef"),
        np.hstack([part.n_trials for part in parts]).astype(np.int64),
    )  # fmt: skip
    found = fit_trials(both, "item").parameters[:, 2]
    assert (found[:3] < 0.12).all()
    assert (found[3:] > 0.3).all()


def test_one_trial_says_nothing_of_an_items_own_dispersion() -> None:
    _, data = drawn(np.random.default_rng(4), 60, 4, 0.2, np.array([4, 4, 1, 1]))
    is_refused("trials: one of item i2, i3; expected several of each, or dispersion scale", fit_trials, data, "item")
    assert fit_trials(data).converged


def test_from_the_command_line(tmp_path: Path) -> None:
    theta, data = drawn(np.random.default_rng(4), 300, 8, 0.25, np.array(5))
    data.to_long().to_csv(tmp_path / "runs.csv", index=False)
    out = run(f"fit {tmp_path}/runs.csv --dispersion scale -o {tmp_path}/out").out
    assert "dispersion 0." in out
    found = json.loads((tmp_path / "out/fit.json").read_text())
    assert found["p_dispersion"] < 1e-6
    scores = pd.read_csv(tmp_path / "out/scores.csv")
    covered = (scores["theta_lower"] <= theta) & (theta <= scores["theta_upper"])
    assert covered.mean() > 0.92
    assert pd.read_csv(tmp_path / "out/items.csv")["dispersion"].between(0.18, 0.32).all()
    assert not (tmp_path / "out/bank.json").exists()
    single = data.to_long().drop(columns=["n_correct", "n_trials"])
    single.assign(response=np.arange(len(single)) % 3 // 2).to_csv(tmp_path / "single.csv", index=False)
    for arguments, saying in (
        ("single.csv --dispersion scale", "--dispersion: expected several trials"),
        ("runs.csv --dispersion item --model 3pl", "--dispersion: goes with the 2pl"),
    ):
        refused(f"fit {arguments} -o none", saying=saying, cwd=tmp_path)


def test_too_many_trials_are_one_line() -> None:
    _, data = drawn(np.random.default_rng(1), 30, 3, 0.0, np.array(200))
    is_refused("expected at most 99", fit_trials, data)
