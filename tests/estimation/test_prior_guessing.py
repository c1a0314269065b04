"""A prior of guessing of the user's choice: R mirt's figures, a maximisation by SciPy, and what is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from builders.by_hand import assert_by_hand, counts_of
from builders.command_line import run
from builders.few_draws import few_draws
from builders.mirt_figures import lsat6
from irtbench import FitSettings, InputError, ItemParameters, ResponseMatrix, fit_groups, fit_model, read_study
from irtbench.models.curves import simulate_responses
from irtbench.models.priors import GuessingPrior

AS_MIRT = FitSettings(kind="3pl", prior="none", prior_guessing="normal:-1.2,0.5", tolerance=1e-6)


def test_mirts_prior_gives_mirts_figures(real_data: Path, reference: Path) -> None:
    # R mirt 1.45.1, LSAT6, 3PL with PRIOR = (1-5, g, norm, -1.2, .5)
    responses, _, _ = lsat6(real_data, reference, "3plprior")
    mirt = pd.read_csv(reference / "mirt_lsat6_3plprior_pars.csv")
    fitted = fit_model(responses, AS_MIRT)
    assert fitted.converged
    assert fitted.priors.describe() == "none: logit c ~ Normal(-1.2, 0.5)"
    assert fitted.estimator == "maximum a posteriori"
    found, errors = fitted.items, fitted.items.standard_errors()
    np.testing.assert_allclose(found.discrimination, mirt["a"], atol=5e-5)
    np.testing.assert_allclose(found.intercept, mirt["d"], atol=5e-5)
    np.testing.assert_allclose(found.guessing, mirt["c"], atol=1e-5)
    np.testing.assert_allclose(errors["discrimination"], mirt["se_a"], rtol=1e-3)
    np.testing.assert_allclose(errors["intercept"], mirt["se_d"], rtol=1e-3)
    rate = found.guessing * (1 - found.guessing)
    np.testing.assert_allclose(errors["guessing"] / rate, mirt["se_logit_c"], rtol=1e-3)
    assert set(fitted.guessing_not_identified) == set(found.item_ids)  # widths of .47 to .50, where the prior's is .5


@pytest.fixture(scope="module")
def guessed() -> ResponseMatrix:
    rng = np.random.default_rng(3)
    items = ItemParameters.from_difficulty([1.2, 1.6, 0.9, 1.4], [-0.5, 0.3, 0.0, 0.8], [0.2, 0.25, 0.15, 0.2])
    return simulate_responses(rng.normal(size=900), items, rng=rng)


@pytest.mark.parametrize(("mean", "deviation"), [(-1.1, 0.5), (-2.5, 0.2)])
def test_a_normal_prior_is_that_of_the_posterior_written_out(
    guessed: ResponseMatrix, mean: float, deviation: float
) -> None:
    settings = FitSettings(kind="3pl", prior="none", prior_guessing=f"normal:{mean},{deviation}", tolerance=1e-6)
    fitted = fit_model(guessed, settings)
    assert fitted.priors.guessing == GuessingPrior("normal", mean, deviation)
    assert_by_hand(fitted, [counts_of(guessed.values)])


def test_the_usual_prior_in_words_is_the_usual_prior(guessed: ResponseMatrix) -> None:
    usual = fit_model(guessed, FitSettings(kind="3pl"))
    said = fit_model(guessed, FitSettings(kind="3pl", prior_guessing="beta:5,15"))
    np.testing.assert_array_equal(said.items.guessing, usual.items.guessing)
    assert said.priors.describe() == usual.priors.describe()
    other = fit_model(guessed, FitSettings(kind="3pl", prior_guessing="normal:-2,0.5"))
    assert other.priors.slope == usual.priors.slope
    assert np.abs(other.items.guessing - usual.items.guessing).min() > 0.02


def test_a_tight_prior_holds_guessing_and_groups_know_it_too(guessed: ResponseMatrix) -> None:
    settings = FitSettings(kind="3pl", prior_guessing="normal:-3,0.01")
    np.testing.assert_allclose(fit_model(guessed, settings).items.guessing, special.expit(-3), atol=0.002)
    halves = ["a" if k % 2 else "b" for k in range(guessed.n_respondents)]
    np.testing.assert_allclose(fit_groups(guessed, halves, settings).items[0].guessing, special.expit(-3), atol=0.002)


@pytest.mark.slow
def test_a_normal_prior_is_enough_for_a_posterior(guessed: ResponseMatrix) -> None:
    settings = FitSettings(kind="3pl", prior="weak", prior_guessing="normal:-1.4,0.2", posterior="normal")
    with few_draws(1000):
        posterior = fit_model(guessed, settings).posterior
    c = posterior.mean[:, 2]
    assert np.abs(special.logit(c) + 1.4).max() < 0.3


def test_the_width_of_a_beta_density_on_the_logit_scale() -> None:
    draws = stats.beta(5, 15).rvs(200_000, random_state=1)
    assert GuessingPrior("beta", 5, 15).logit_deviation == pytest.approx(special.logit(draws).std(), rel=0.01)
    assert GuessingPrior.read("normal: -1.1, 0.5").logit_deviation == 0.5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("normal", "expected normal:MEAN,SD of logit c, or beta:ALPHA,BETA of c but got 'normal'"),
        ("gamma:1,2", "expected normal:MEAN,SD"),
        ("normal:1", "expected normal:MEAN,SD"),
        ("normal:1,2,3", "expected normal:MEAN,SD"),
        ("normal:x,1", "expected normal:MEAN,SD"),
        ("normal:0,0", "the second above 0"),
        ("normal:nan,1", "finite numbers"),
        ("beta:0,3", "two numbers above 0"),
    ],
)
def test_what_is_no_density_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=rf"FitSettings.prior_guessing: .*{words}"):
        FitSettings(kind="3pl", prior_guessing=text)


def test_a_prior_of_what_is_not_estimated_is_refused() -> None:
    with pytest.raises(InputError, match="prior_guessing goes with guessing that is estimated; expected kind 3pl"):
        FitSettings(prior_guessing="normal:-1,1")
    assert FitSettings(by_item={"q1": "3pl"}, prior_guessing="normal:-1,1").priors.guessing is not None


def test_command_line_and_study_file(tmp_path: Path, guessed: ResponseMatrix) -> None:
    table = tmp_path / "responses.csv"
    guessed.to_long().to_csv(table, index=False)
    arguments = ["fit", table, "-o", tmp_path / "out", "--model", "3pl", "--prior-guessing"]
    ended = run(*arguments, "normal:-1.1,0.5", "--json")
    assert ended.json["settings"]["prior_guessing"] == "normal:-1.1,0.5"
    assert "logit c ~ Normal(-1.1, 0.5)" in ended.json["prior"]
    ended = run(*arguments, "normal:a", status=2)
    assert "prior_guessing: expected normal:MEAN,SD" in ended.err
    study = tmp_path / "study.toml"
    words = '[data]\nanswers = "responses.csv"\n[model]\nkind = "3pl"\nprior_guessing = "{}"\n'
    study.write_text(words.format("beta:2,6"))
    assert read_study(study).model.priors.guessing == GuessingPrior("beta", 2, 6)
    study.write_text(words.format("beta"))
    with pytest.raises(InputError, match=r"study.toml: model.prior_guessing: expected normal:MEAN,SD"):
        read_study(study)
