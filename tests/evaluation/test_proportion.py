"""Wilson's interval, and the variance of several trials: by hand, at the ends, and simulated."""

import numpy as np
import pytest

from builders.refusals import is_refused
from irtbench import ResponseMatrix, wilson_interval
from irtbench.evaluation.proportion import TrialVariance, trial_table


@pytest.mark.parametrize("level", [1e-6, 0.5, 0.95, 1 - 1e-12])
def test_every_number_of_successes_has_its_share_inside(level: float) -> None:
    """The formula by hand is tested with the crowd's accuracy."""
    for n in (*range(1, 120), 997, 2_000):
        k = np.arange(n + 1)
        lower, upper = wilson_interval(k, n, level=level)
        assert ((lower >= 0) & (lower <= k / n) & (k / n <= upper) & (upper <= 1)).all()
        assert (np.diff(lower) >= 0).all()
        assert lower == pytest.approx(1 - upper[::-1], abs=1e-12)  # wrong answers are the other side of right ones
    assert np.isnan(wilson_interval([0], [0])).all()


def responses(k: list[list[float]], n: list[list[int]]) -> ResponseMatrix:
    right, tried = np.array(k), np.array(n)
    names = tuple(f"s{i}" for i in range(len(k))), tuple(f"i{j}" for j in range(len(k[0])))
    return ResponseMatrix(np.where(tried > 0, right, np.nan), *names, tried)


def test_components_by_hand() -> None:
    # shares 1, 1/2, 0; within: 0, 1 * 1 / (2 * 1) = 1/2, 0 -> mean 1/6; variance of shares 1/4, less 1/6 * 1/2
    found = TrialVariance.of_responses(responses([[2, 1, 0]], [[2, 2, 2]]))
    assert (found.accuracy, found.within, found.between) == pytest.approx((1 / 2, 1 / 6, 1 / 4 - 1 / 12))
    # two of four pairs of trials of an item that comes right with p = 1/2 agree
    assert TrialVariance.of_shares([0.5, 0.5], [0.25, 0.25]).agreement == 0.5
    assert TrialVariance.of_agreement(0.7, 1.0) == TrialVariance(0.7, pytest.approx(0.21), 0.0)
    assert TrialVariance.of_agreement(0.7, 0.58).between == pytest.approx(0)


def test_the_estimates_are_without_bias_whatever_the_numbers_of_trials() -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(500):
        n = rng.integers(1, 4, 40)
        k = rng.binomial(n, rng.beta(2, 1, 40))  # p is Beta(2, 1): mean 2/3, variance m (1 - m) / 4
        estimate = TrialVariance.of_responses(responses([k.astype(float).tolist()], [n.tolist()]))
        found.append((estimate.accuracy, estimate.between, estimate.within))
    error = np.std(found, axis=0) / np.sqrt(len(found))
    difference = np.mean(found, axis=0) - [2 / 3, 2 / 3 * 1 / 3 / 4, 2 / 3 * 1 / 3 * 3 / 4]
    assert (np.abs(difference) < 4 * error).all()
    # what a trial and an item buy
    variance = TrialVariance(0.6, 0.1, 0.14)
    table = trial_table(variance, sizes=[50], trials=[1, 4], information=0.2)
    first, second = table.to_dict("records")
    assert first["se_accuracy"] ** 2 == pytest.approx((0.1 + 0.14) / 50)
    assert second["se_accuracy"] ** 2 == pytest.approx((0.1 + 0.035) / 50)
    assert second["se_these_items"] ** 2 == pytest.approx(0.035 / 50)
    # so many new items of as many trials have the standard error of one more trial
    assert (0.1 + 0.14) / (50 + first["items_worth"]) == pytest.approx(first["se_with_trial"] ** 2)
    assert first["response_worth"] == pytest.approx(first["items_worth"] / 50)
    # for theta of the model any response counts alike
    assert first["se_theta"] == pytest.approx((1 + 10) ** -0.5)
    assert second["se_theta_with_trial"] == pytest.approx((1 + 50) ** -0.5)
    assert second["se_theta_with_item"] == pytest.approx((1 + 51 * 4 * 0.2) ** -0.5)
    certain = trial_table(TrialVariance(1.0, 0.0, 0.0), sizes=[5], trials=[1]).iloc[0]
    assert (certain["se_accuracy"], certain["items_worth"]) == (0, 0)
    never = trial_table(TrialVariance(0.5, 0.25, 0.0), sizes=[5], trials=[1]).iloc[0]  # the same at every trial
    assert never["items_worth"] == 0


@pytest.mark.parametrize(
    ("call", "saying"),
    [
        (lambda: TrialVariance.of_agreement(0.7, 0.5), r"agreement of 0.5; expected 0.58"),
        (lambda: TrialVariance.of_agreement(1.7, 0.5), "accuracy must be between 0 and 1"),
        (lambda: TrialVariance.of_responses(responses([[2, 1], [1, 1]], [[2, 2], [1, 1]])), "s1: expected responses"),
        (lambda: trial_table(TrialVariance(0.5, 0.1, 0.1), sizes=[0]), "at least one item and one trial"),
        (lambda: wilson_interval(1, 2, level=1.0), "level must be between 0 and 1"),
    ],
)
def test_what_cannot_be_said_is_refused(call, saying: str) -> None:
    is_refused(saying, call)
