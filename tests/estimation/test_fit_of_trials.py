"""Several trials of an item: k right of n in the likelihood, the E step, the information and the fits."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray

from builders.few_draws import few_draws
from builders.problem import make_problem
from builders.simulated import simulated
from irtbench import FitSettings, ItemParameters, ResponseMatrix, SparseResponses, fit_model
from irtbench.estimation.marginal.fisher_scoring import SLOPE_BOUND
from irtbench.estimation.variational.item_posterior import change_with_others_fixed, step_places
from irtbench.models.curves import simulate_responses
from irtbench.models.pyro_model.tensors import ItemTensors
from irtbench.scoring.ability import estimate_ability


def unequal_trials(
    n_respondents: int, n_items: int, *, seed: int, most: int = 5, guessing: float = 0.0
) -> tuple[ResponseMatrix, ItemParameters, NDArray[np.float64]]:
    """Each respondent tries each item 0 to so many times."""
    _, items, theta = simulated(n_respondents, n_items, seed=seed, guessing=guessing)
    rng = np.random.default_rng(seed)
    most_right = simulate_responses(theta, items, rng=rng, trials=most)
    n = rng.integers(0, most + 1, most_right.correct.shape)
    k = rng.hypergeometric(most_right.correct.astype(int), most - most_right.correct.astype(int), n)
    correct = np.where(n > 0, k, np.nan)
    return ResponseMatrix(correct, most_right.respondent_ids, most_right.item_ids, n), items, theta


def test_an_item_as_a_step_as_by_the_likelihood_itself() -> None:
    responses, _, _ = unequal_trials(40, 5, seed=4, most=3)
    problem, a, d = make_problem(responses), torch.linspace(0.6, 1.6, 5).double(), torch.linspace(-1, 1, 5).double()
    items = ItemTensors(a[:, None], d, torch.zeros_like(d))
    change, places = change_with_others_fixed(problem, items), step_places(problem)
    for j, place in ((0, 30), (3, 20)):
        slope, intercept = items.slope.clone(), items.intercept.clone()
        slope[j], intercept[j] = SLOPE_BOUND, -SLOPE_BOUND * places[place]
        moved = problem.counts(ItemTensors(slope, intercept, items.guessing)).log_likelihood
        assert float(change[j, 0, place]) == pytest.approx(moved - problem.counts(items).log_likelihood, rel=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
def test_parameters_errors_and_likelihood_of_the_reference(reference: Path, sparse: bool) -> None:
    """R 4.x: direct maximisation (optim, nlminb), and mirt 1.45.1 on 4 columns an item with equal parameters."""
    folder = reference / "next" / "12_binomial"
    names = {"person": "respondent_id", "item": "item_id", "k": "n_correct", "n": "n_trials"}
    responses = ResponseMatrix.from_long(pd.read_csv(folder / "a_n4_data.csv").rename(columns=names))
    fitted = fit_model(SparseResponses.from_long(responses.to_long()) if sparse else responses)
    assert fitted.converged
    expected = pd.read_csv(folder / "a_n4_pars.csv").set_index("item").loc[list(fitted.items.item_ids)]
    covariance = fitted.items.covariance
    np.testing.assert_allclose(fitted.items.discrimination, expected["a"], atol=1e-6)
    np.testing.assert_allclose(fitted.items.intercept, expected["d"], atol=1e-6)
    np.testing.assert_allclose(fitted.items.discrimination, expected["a_mirt"], atol=1e-6)
    np.testing.assert_allclose(np.sqrt(covariance[:, 0, 0]), expected["se_a"], rtol=1e-5)
    np.testing.assert_allclose(np.sqrt(covariance[:, 1, 1]), expected["se_d"], rtol=1e-5)
    (whole,) = pd.read_csv(folder / "a_n4_fit.csv").to_dict("records")
    assert fitted.log_likelihood == pytest.approx(whole["loglik_bernoulli_mirt"], abs=1e-4)
    assert fitted.log_binomial_coefficients == pytest.approx(whole["sum_log_choose"], abs=1e-4)
    assert fitted.n_responses == whole["trials"]


@pytest.mark.slow
def test_few_respondents_and_unequal_numbers_of_trials() -> None:
    responses, items, theta = unequal_trials(30, 60, seed=8, guessing=0.2)
    fitted = fit_model(responses, FitSettings(prior="hierarchical", guessing=0.2))
    assert fitted.converged, fitted.stopped_because
    # location and scale of 30 respondents are set to 0 and 1
    a, d = items.discrimination * theta.std(), items.intercept + items.discrimination * theta.mean()
    b, b_hat = -d / a, -fitted.items.intercept / fitted.items.discrimination
    assert np.corrcoef(b, b_hat)[0, 1] > 0.9
    inside = np.abs(fitted.items.intercept - d) < 1.96 * np.sqrt(fitted.items.covariance[:, 1, 1])  # type: ignore[index]
    assert 0.88 < inside.mean() <= 1.0
    z = (fitted.abilities.theta - (theta - theta.mean()) / theta.std()) / fitted.abilities.standard_error
    known = estimate_ability(responses, items).theta  # as near as anything can come with the true items
    assert np.corrcoef(fitted.abilities.theta, theta)[0, 1] > np.corrcoef(known, theta)[0, 1] - 0.02
    assert (np.abs(z) < 1.96).mean() > 0.8


@pytest.mark.slow
def test_variational_posterior_of_trials_agrees_with_the_mode() -> None:
    responses, _, _ = unequal_trials(300, 8, seed=11, most=3)
    mode = fit_model(responses)
    with few_draws(1000):
        posterior = fit_model(responses, FitSettings(posterior="normal"))
    deviation = np.sqrt(mode.items.covariance[:, 1, 1])
    assert (np.abs(posterior.items.intercept - mode.items.intercept) < 0.5 * deviation).all()
