"""Item bias from k right of n: the likelihood ratio of the multiple-group fit, and what one response each gives."""

import numpy as np
import pytest
from numpy.typing import NDArray

from irtbench import InputError, ResponseMatrix, fit_groups, item_bias, mantel_haenszel

B = np.array([-0.8, -0.2, 0.3, 0.7])


def drawn(*, seed: int, shift: float = 0.0, n: int = 150) -> tuple[ResponseMatrix, NDArray[np.bool_]]:
    """0 to 4 trials of four items, the first harder for the focal half by a shift; the focal half is less able."""
    rng = np.random.default_rng(seed)
    focal = np.arange(2 * n) >= n
    theta = rng.normal(size=2 * n) - 0.5 * focal
    z = 1.4 * (theta[:, None] - B)
    z[focal, 0] -= shift
    trials = rng.integers(0, 5, z.shape)
    trials[:, 3] = np.maximum(trials[:, 3], 1)  # nobody without any
    right = rng.binomial(trials, 1 / (1 + np.exp(-z))).astype(float)
    names = tuple(f"r{i}" for i in range(2 * n)), ("a", "b", "c", "d")
    return ResponseMatrix(np.where(trials > 0, right, np.nan), *names, trials), focal


def test_the_statistic_is_that_of_two_fits_of_both_groups() -> None:
    responses, focal = drawn(seed=1, shift=1.5, n=80)
    found = item_bias(responses, focal, purify=False)
    labels = ["focal" if each else "reference" for each in focal]
    common = fit_groups(responses, labels, reference="reference")
    free = fit_groups(responses, labels, reference="reference", free_items=["a"])
    assert found.x2[0] == pytest.approx(2 * (free.log_likelihood - common.log_likelihood), abs=0.01)
    assert found.p[0] < 1e-3
    assert found.delta[0] < -1.5  # a large difference, though an item of four biased draws the scale along
    # one response each knows less of it
    trials = responses.trials
    once = ResponseMatrix(
        np.where(trials > 0, responses.shares > 0.5, np.nan), responses.respondent_ids, responses.item_ids
    )
    assert item_bias(once, focal, purify=False).x2[0] < found.x2[0]
    by_regression = item_bias(responses, focal, purify=False, method="logistic")
    assert by_regression.p[0] < 1e-3
    assert by_regression.r2_change[0] > by_regression.r2_change[1:].max()


def test_one_group_may_have_one_response_each() -> None:
    responses, focal = drawn(seed=3, n=40)
    trials = np.where(focal[:, None], responses.trials, np.minimum(responses.trials, 1))
    correct = np.where(trials > 0, np.fmin(responses.correct, trials), np.nan)
    mixed = ResponseMatrix(correct, responses.respondent_ids, responses.item_ids, trials)
    found = item_bias(mixed, focal, purify=False)
    assert np.isfinite(found.x2).all()


def test_sum_scores_take_one_response_each() -> None:
    responses, focal = drawn(seed=4, n=40)
    with pytest.raises(InputError, match=r"for which matching by sum score \(by ability it is\) is not available"):
        mantel_haenszel(responses, ["f" if each else "r" for each in focal])
