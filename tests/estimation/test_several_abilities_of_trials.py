"""Several abilities from k right of n: the likelihood and the information of the trials one by one, and recovery."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from builders.problem import right_or_wrong
from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.factors import factor_scores, fit_factors
from irtbench.estimation.several_abilities.factor_problem import factor_problem
from irtbench.models.pyro_model.tensors import ItemTensors

SLOPES = np.zeros((12, 2))
SLOPES[:6, 0] = SLOPES[6:, 1] = [0.8, 1.0, 1.2, 1.4, 1.6, 1.8]
INTERCEPT = np.tile([-1.0, -0.6, -0.2, 0.2, 0.6, 1.0], 2)


def drawn(n_respondents: int, most: int, *, seed: int) -> tuple[NDArray[np.float64], ResponseMatrix]:
    """Abilities, and k right of 0 to so many trials of each item."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n_respondents, 2))
    n = rng.integers(0, most + 1, (n_respondents, 12))
    k = rng.binomial(n, 1 / (1 + np.exp(-(theta @ SLOPES.T + INTERCEPT)))).astype(float)
    names = tuple(f"item{j}" for j in range(12))
    return theta, ResponseMatrix(np.where(n > 0, k, np.nan), tuple(map(str, range(n_respondents))), names, n)


def one_by_one(responses: ResponseMatrix) -> ResponseMatrix:
    """Each trial of an item as a column of its own, three for every item."""
    assert responses.trials is not None
    number = np.arange(3)
    right = number < np.nan_to_num(responses.correct)[:, :, None]
    values = np.where(number < responses.trials[:, :, None], right, np.nan).reshape(responses.n_respondents, -1)
    return ResponseMatrix(
        values, responses.respondent_ids, tuple(f"{item}/{t}" for item in responses.item_ids for t in number)
    )


def test_likelihood_and_information_are_those_of_the_trials_one_by_one() -> None:
    _, responses = drawn(40, 3, seed=1)
    rng = np.random.default_rng(2)
    slopes = torch.from_numpy(SLOPES + rng.normal(0, 0.2, SLOPES.shape))
    items = ItemTensors(slopes, torch.from_numpy(INTERCEPT), torch.zeros(12, dtype=torch.float64))
    each = torch.arange(12).repeat_interleave(3)
    apart = ItemTensors(slopes[each], items.intercept[each], items.guessing[each])
    counted, single = (factor_problem(right_or_wrong(own), 2, None) for own in (responses, one_by_one(responses)))
    assert counted.problem.log_likelihood(items) == pytest.approx(single.problem.log_likelihood(apart), rel=1e-12)
    blocks = single.information(apart).reshape(12, 3, 3, 12, 3, 3)  # item, trial, parameter, twice
    torch.testing.assert_close(counted.information(items), blocks.sum(dim=(1, 4)).reshape(36, 36))


def test_slopes_and_abilities_are_recovered_within_their_errors() -> None:
    theta, responses = drawn(600, 4, seed=3)
    pattern = SLOPES == 0
    fitted = fit_factors(responses, 2, zero_loadings=pattern)
    assert fitted.converged
    errors = fitted.standard_errors()
    found = np.concatenate([fitted.slopes[~pattern], fitted.intercept])
    truth = np.concatenate([SLOPES[~pattern], INTERCEPT])
    error = np.concatenate([np.stack([errors["slope_1"], errors["slope_2"]], axis=1)[~pattern], errors["intercept"]])
    z = (found - truth) / error
    assert 0.5 < np.mean(z**2) < 1.6  # 24 squares of about unit mean: chi-square / 24 is .52 to 1.64 in 95%
    # the errors are those of the trials, not of one response each: about as many responses again shrink them
    once = fit_factors(majority(responses), 2, zero_loadings=pattern)
    assert np.nanmean(once.standard_errors()["intercept"]) > 1.1 * errors["intercept"].mean()
    scores = factor_scores(fitted, responses)
    assert list(scores.columns[-1:]) == ["n_trials"]
    assert (scores["n_trials"] == responses.n_by_respondent).all()
    np.testing.assert_allclose(scores["accuracy"], responses.accuracy())
    for k in (1, 2):
        z = (scores[f"theta_{k}"] - theta[:, k - 1]) / scores[f"se_{k}"]
        assert np.mean(np.abs(z) < 1.96) == pytest.approx(0.95, abs=0.03)


def majority(responses: ResponseMatrix) -> ResponseMatrix:
    """Right where more than half of the trials are."""
    return ResponseMatrix(
        np.where(np.isnan(responses.shares), np.nan, responses.shares > 0.5), responses.respondent_ids,
        responses.item_ids,
    )  # fmt: skip
