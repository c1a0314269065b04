"""Several trials of an item: k right of n in the likelihood, the E step, the information and the fits."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray

from builders.problem import make_problem
from builders.simulated import simulated
from irtbench.data.responses import ResponseMatrix
from irtbench.data.sparse_responses import SparseResponses
from irtbench.estimation.few_respondents.item_posteriors import Surroundings
from irtbench.estimation.fit import fit_model
from irtbench.estimation.marginal.fisher_scoring import SLOPE_BOUND
from irtbench.estimation.marginal.observed_information import (
    complete_information,
    observed_information,
    own_information,
)
from irtbench.estimation.multiple_groups import fit_groups
from irtbench.estimation.settings import FitSettings
from irtbench.estimation.variational.endless_slopes import change_with_others_fixed, step_places
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.rows import encode_responses
from irtbench.models.simulation import simulate_responses
from irtbench.scoring.ability import eap


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


def one_by_one(responses: ResponseMatrix) -> tuple[ResponseMatrix, NDArray[np.intp]]:
    """The same trials as so many columns of each item, and the item of each column."""
    most = int(responses.trials.max())
    number = np.arange(most)
    right = np.nan_to_num(responses.correct)[:, :, None]
    values = np.where(number < right, 1.0, 0.0)
    values = np.where(number < responses.trials[:, :, None], values, np.nan)
    names = [f"{item}/{trial}" for item in responses.item_ids for trial in number]
    flat = values.reshape(responses.n_respondents, -1)
    return ResponseMatrix(flat, responses.respondent_ids, tuple(names)), np.repeat(np.arange(responses.n_items), most)


def some_items(n: int, *, guessing: float = 0.0) -> ItemTensors:
    rng = np.random.default_rng(9)
    slope, intercept = torch.from_numpy(rng.lognormal(0, 0.3, n)), torch.from_numpy(rng.normal(size=n))
    return ItemTensors(slope[:, None], intercept, torch.full_like(slope, guessing))


def at(items: ItemTensors, columns: NDArray[np.intp]) -> ItemTensors:
    chosen = torch.from_numpy(columns)
    return ItemTensors(items.slope[chosen], items.intercept[chosen], items.guessing[chosen])


@pytest.mark.parametrize("guessing", [0.0, 0.2])
def test_the_likelihood_is_that_of_the_trials_one_by_one(guessing: float) -> None:
    responses, _, _ = unequal_trials(60, 7, seed=1, guessing=guessing)
    expanded, columns = one_by_one(responses)
    items = some_items(7, guessing=guessing)
    counted, single = make_problem(responses, fixed=guessing), make_problem(expanded, fixed=guessing)
    here, there = counted.counts(items), single.counts(at(items, columns))
    assert here.log_likelihood == pytest.approx(there.log_likelihood, rel=1e-11)
    # the expected numbers of an item's responses are the sums over its trials
    by_item = torch.zeros_like(here.n).index_add_(0, torch.from_numpy(columns), there.n)
    torch.testing.assert_close(here.n, by_item)
    torch.testing.assert_close(
        here.right, torch.zeros_like(here.right).index_add_(0, torch.from_numpy(columns), there.right)
    )
    # and minus the second derivative by an item's parameters the sum over all pairs of its trials
    n_free = counted.free.shape[1] - 1
    blocks = observed_information(single, at(items, columns)).reshape(len(columns), n_free, len(columns), n_free)
    item_of = torch.from_numpy(columns)
    summed = torch.zeros(7, n_free, len(columns), n_free, dtype=torch.float64).index_add_(0, item_of, blocks)
    summed = torch.zeros(7, n_free, 7, n_free, dtype=torch.float64).index_add_(2, item_of, summed)
    torch.testing.assert_close(observed_information(counted, items), summed.reshape(7 * n_free, 7 * n_free))


@pytest.mark.parametrize("form", [ResponseMatrix, SparseResponses])
def test_own_information_is_the_diagonal_of_all(form: type[ResponseMatrix] | type[SparseResponses]) -> None:
    responses, _, _ = unequal_trials(50, 6, seed=2)
    problem = make_problem(responses)
    given = form.from_long(responses.to_long())
    columns = [given.item_ids.index(item) for item in responses.item_ids]
    items = some_items(6)
    whole = observed_information(problem, items).reshape(6, 2, 6, 2)
    rows = encode_responses(given.select_items([given.item_ids[j] for j in columns]), torch.device("cpu"))
    own = own_information(replace(problem, rows=rows), items)
    torch.testing.assert_close(own[:, :2, :2], torch.stack([whole[j, :, j] for j in range(6)]))
    # were the square of k taken for k itself, it would be far from it
    assert (complete_information(problem, items)[0] - own)[:, 0, 0].min() > 1


def test_items_elsewhere_as_by_the_likelihood_itself() -> None:
    responses, _, _ = unequal_trials(40, 5, seed=3, most=3)
    problem, items = make_problem(responses), some_items(5)
    around = Surroundings.of(problem, items)
    places = torch.tensor([[[0.3, -0.4, 0.0], [-0.5, 1.0, 0.0]]] * 2, dtype=torch.float64)
    ones, chosen = torch.ones(2, dtype=torch.float64), torch.tensor([1, 4])
    here = torch.stack([items.slope[chosen, 0].log(), items.intercept[chosen], torch.zeros_like(ones)], dim=1)
    found = around.log_likelihoods(places, ones, chosen) - around.log_likelihoods(here[:, None], ones, chosen)
    for row, j in enumerate((1, 4)):
        for k in range(2):
            slope, intercept = items.slope.clone(), items.intercept.clone()
            slope[j], intercept[j] = places[row, k, 0].exp(), places[row, k, 1]
            moved = problem.counts(ItemTensors(slope, intercept, items.guessing)).log_likelihood
            expected = moved - problem.counts(items).log_likelihood
            assert float(found[row, k]) == pytest.approx(expected, abs=1e-9)


def test_an_item_as_a_step_as_by_the_likelihood_itself() -> None:
    responses, _, _ = unequal_trials(40, 5, seed=4, most=3)
    problem, items = make_problem(responses), some_items(5)
    change, places = change_with_others_fixed(problem, items), step_places(problem)
    for j, place in ((0, 30), (3, 20)):
        slope, intercept = items.slope.clone(), items.intercept.clone()
        slope[j], intercept[j] = SLOPE_BOUND, -SLOPE_BOUND * places[place]
        moved = problem.counts(ItemTensors(slope, intercept, items.guessing)).log_likelihood
        assert float(change[j, 0, place]) == pytest.approx(moved - problem.counts(items).log_likelihood, rel=1e-9)


@pytest.fixture(scope="module")
def binomial(reference: Path) -> tuple[ResponseMatrix, Path]:
    """300 respondents x 20 items x 4 trials of the R reference."""
    folder = reference / "next" / "12_binomial"
    if not folder.is_dir():
        pytest.skip(f"reference figures absent: {folder}")
    names = {"person": "respondent_id", "item": "item_id", "k": "n_correct", "n": "n_trials"}
    return ResponseMatrix.from_long(pd.read_csv(folder / "a_n4_data.csv").rename(columns=names)), folder


@pytest.mark.parametrize("sparse", [False, True])
def test_parameters_errors_and_likelihood_of_the_reference(binomial: tuple[ResponseMatrix, Path], sparse: bool) -> None:
    """R 4.x: direct maximisation (optim, nlminb), and mirt 1.45.1 on 4 columns an item with equal parameters."""
    responses, folder = binomial
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


def test_one_trial_each_is_the_plain_fit_to_the_bit() -> None:
    plain, _, _ = simulated(200, 12, seed=5, missing=0.1)
    once = ResponseMatrix(plain.values, plain.respondent_ids, plain.item_ids, plain.observed.astype(np.int64))
    assert once.trials is None
    first, second = fit_model(plain), fit_model(once)
    assert first.log_likelihood == second.log_likelihood
    np.testing.assert_array_equal(first.items.discrimination, second.items.discrimination)
    np.testing.assert_array_equal(first.items.covariance, second.items.covariance)


@pytest.mark.parametrize(
    ("n_items", "guessing"), [(100, 0.0), pytest.param(60, 0.2, marks=pytest.mark.slow)]
)  # abilities, or items, are the parameters
def test_few_respondents_and_unequal_numbers_of_trials(n_items: int, guessing: float) -> None:
    responses, items, theta = unequal_trials(30, n_items, seed=8, guessing=guessing)
    fitted = fit_model(responses, FitSettings(prior="hierarchical", guessing=guessing))
    assert fitted.converged, fitted.stopped_because
    # location and scale of 30 respondents are set to 0 and 1
    a, d = items.discrimination * theta.std(), items.intercept + items.discrimination * theta.mean()
    b, b_hat = -d / a, -fitted.items.intercept / fitted.items.discrimination
    if n_items == 100:
        assert np.corrcoef(np.log(a), np.log(fitted.items.discrimination))[0, 1] > 0.5
    assert np.corrcoef(b, b_hat)[0, 1] > 0.9
    inside = np.abs(fitted.items.intercept - d) < 1.96 * np.sqrt(fitted.items.covariance[:, 1, 1])  # type: ignore[index]
    assert 0.88 < inside.mean() <= 1.0
    if fitted.abilities is not None:
        z = (fitted.abilities.theta - (theta - theta.mean()) / theta.std()) / fitted.abilities.standard_error
        known = eap(responses, items).theta  # as near as anything can come with the true items
        assert np.corrcoef(fitted.abilities.theta, theta)[0, 1] > np.corrcoef(known, theta)[0, 1] - 0.02
        assert (np.abs(z) < 1.96).mean() > 0.8


@pytest.mark.slow
def test_more_trials_bring_parameters_nearer() -> None:
    errors = []
    for trials in (1, 5):
        _, items, theta = simulated(1000, 30, seed=10)
        responses = simulate_responses(theta, items, rng=np.random.default_rng(10), trials=trials)
        fitted = fit_model(responses)
        covariance = fitted.items.covariance
        error = fitted.items.discrimination - items.discrimination
        errors.append(float(np.sqrt(np.mean(error**2))))
        inside = np.abs(error) < 1.96 * np.sqrt(covariance[:, 0, 0])
        assert inside.mean() >= 0.86  # 26 of 30; fewer have a probability of .01 at .95
    assert errors[1] < 0.75 * errors[0]


@pytest.mark.slow
def test_variational_posterior_of_trials_agrees_with_the_mode() -> None:
    responses, _, _ = unequal_trials(300, 8, seed=11, most=3)
    mode, posterior = fit_model(responses), fit_model(responses, FitSettings(posterior="normal"))
    deviation = np.sqrt(mode.items.covariance[:, 1, 1])
    assert (np.abs(posterior.items.intercept - mode.items.intercept) < 0.5 * deviation).all()


def test_groups_take_trials() -> None:
    responses, _, _ = unequal_trials(400, 8, seed=13, most=3)
    labels = ["a"] * 200 + ["b"] * 200
    found = fit_groups(responses, labels)
    assert found.status.converged
    # groups drawn from one population do not differ, and the errors shrink with the trials
    assert abs(found.mean[1]) < 3 * found.se_mean[1] < 0.5
