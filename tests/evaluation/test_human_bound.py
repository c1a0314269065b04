"""The crowd filter and what people reach: the paper's figures, bounds by hand, and coverage."""

import numpy as np
import pytest
from numpy.typing import NDArray

from builders.refusals import is_refused
from irtbench.evaluation.human_bound import (
    crowd_filter,
    fresh_accuracy,
    hoeffding_confidence,
    hoeffding_margin,
    human_accuracy,
    over_seeds,
)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def votes(*right: int, n: int = 5) -> NDArray[np.float64]:
    """n votes on each item, the first ``right`` of them correct."""
    return (np.arange(n)[:, None] < np.array(right)).astype(np.float64)


def test_four_of_five_by_hand_and_other_numbers_of_votes_as_the_user_says() -> None:
    found = crowd_filter(votes(5, 4, 3, 0))
    assert found.kept.tolist() == [True, True, False, False]
    assert found.n_correct.tolist() == [5, 4, 3, 0]
    assert crowd_filter(votes(0, 4, 3, 5)).kept.tolist() == [False, True, False, True]
    assert crowd_filter(votes(5, 4, 3, 0), k=3).kept.tolist() == [True, True, True, False]
    values = np.array([[1, 1, np.nan], [1, 1, np.nan], [1, 1, np.nan], [1, 1, np.nan], [0, np.nan, np.nan]])
    is_refused(r"item2 \(4\), item3 \(0\)", crowd_filter, values)
    assert crowd_filter(values, other_counts="exclude").kept.tolist() == [True, False, False]
    assert crowd_filter(values, other_counts="share").kept.tolist() == [True, True, False]


def test_accuracy_its_bounds_and_seeds_by_hand_and_the_papers_two() -> None:
    found = human_accuracy([5, 4, 3], [5, 5, 5], margin=0.1, rng=rng())
    assert found.accuracy == 12 / 15
    assert found.hoeffding_lower == pytest.approx(0.7)
    assert found.confidence == pytest.approx(1 - np.exp(-0.3))
    # Wilson, 12 of 15: (.8 + z^2/30 -+ z sqrt(.16/15 + z^2/900)) / (1 + z^2/15)
    assert [found.wilson_lower, found.wilson_upper] == pytest.approx([0.54814, 0.92953], abs=2e-5)
    # the 27 resamples of 5, 4, 3: the least, all 3, has chance 1/27 > .025
    assert (found.bootstrap_lower, found.bootstrap_upper) == (0.6, 1.0)
    # 500 questions of 5 votes: 1 - exp(-2 * 2500 * .03^2) = 1 - e^-4.5; with .025, 1 - e^-3.125
    assert 100 * hoeffding_confidence(2_500, 0.03) == pytest.approx(98.89, abs=0.005)
    assert 100 * hoeffding_confidence(2_500, 0.025) == pytest.approx(95.61, abs=0.005)
    assert hoeffding_margin(2_500, 1 - np.exp(-4.5)) == pytest.approx(0.03)
    runs = over_seeds([0.5, 0.6, 0.7])
    assert (runs.n_runs, runs.mean, runs.sd, runs.lowest, runs.highest) == pytest.approx((3, 0.6, 0.1, 0.5, 0.7))
    with pytest.warns(RuntimeWarning, match="one run"):
        assert np.isnan(over_seeds([0.5]).sd)


def test_votes_that_filtered_flatter_and_fresh_accuracy_brackets_the_truth() -> None:
    generator = rng()
    true = generator.beta(3, 1.5, 40_000)
    count = generator.binomial(5, true)
    values = (generator.random((5, 40_000)).argsort(axis=0) < count).astype(np.float64)
    found = crowd_filter(values)
    reused = human_accuracy(found.n_correct[found.kept], found.n_votes[found.kept], n_resamples=2, rng=rng()).accuracy
    actual = true[found.kept].mean()
    lower, upper = fresh_accuracy(found)
    assert reused > actual + 0.05
    assert lower < actual < upper
    assert upper - lower < 0.06


@pytest.mark.parametrize(
    ("right", "k", "lower", "upper"),
    [
        # others right >= 3: right votes of items with c >= 4: 5 + 4; wrong ones with c >= 3: 0 + 1 + 2.
        # others right >= 4: right with c = 5: 5; wrong with c >= 4: 1
        ((5, 4, 3), 4, 9 / 12, 5 / 6),
        # others right >= 2: right votes of items with c >= 3: 5 + 12 + 3; wrong with c >= 2: 0 + 3 + 2 + 3.
        # others right >= 3: right with c >= 4: 5 + 12; wrong with c >= 3: 0 + 3 + 2
        ((5, 4, 4, 4, 3, 2), 3, 20 / 28, 17 / 22),
        # others right >= 2: 15 + 5 right, 10 wrong; others right >= 3: 5 right, 10 wrong: in order all the same
        ((3, 3, 3, 3, 3, 5), 3, 5 / 15, 20 / 30),
    ],
)
def test_fresh_accuracy_by_hand(right: tuple[int, ...], k: int, lower: float, upper: float) -> None:
    assert fresh_accuracy(crowd_filter(votes(*right), k=k)) == pytest.approx((lower, upper))


def test_nothing_to_count_is_undefined_and_items_alike_cannot_be_resampled() -> None:
    # k = n: nobody can have 5 of 4 others right
    with pytest.warns(RuntimeWarning, match="no item has 5 of 4 others right"):
        ends = fresh_accuracy(crowd_filter(votes(5, 4), k=5))
    assert ends == pytest.approx((5 / 6, np.nan), nan_ok=True)
    with pytest.warns(RuntimeWarning, match="there is no vote"):
        found = human_accuracy([], [], rng=rng())
    assert np.isnan([found.accuracy, found.wilson_lower, found.confidence, found.bootstrap_upper]).all()
    for n_items in (1, 20):  # that all are right on all items is no proof of 1
        with pytest.warns(RuntimeWarning, match="all items have the same share"):
            found = human_accuracy([5] * n_items, [5] * n_items, rng=rng())
        assert found.accuracy == 1
        assert found.wilson_lower == pytest.approx(5 * n_items / (5 * n_items + 1.959964**2), abs=1e-6)
        assert np.isnan(found.bootstrap_lower)


@pytest.mark.parametrize(
    ("call", "saying"),
    [
        (lambda: crowd_filter(votes(3), k=0), "expected 1 <= k <= n but got k = 0, n = 5"),
        (lambda: human_accuracy([6], [5], rng=rng()), "expected 0 <= right votes <= votes for every item"),
        (lambda: human_accuracy([-1], [5], rng=rng()), "expected 0 <= right votes <= votes for every item"),
        (lambda: human_accuracy([1, 2], [5], rng=rng()), "2 counts of right votes for 1 counts of votes"),
        (lambda: human_accuracy([1, 2], [5, 5], n_resamples=1, rng=rng()), "n_resamples must be at least 2 but got 1"),
        (lambda: hoeffding_confidence(-1, 0.1), "n must be at least 0"),
        (lambda: hoeffding_margin(0, 0.5), "n must be at least 1"),
        (lambda: hoeffding_margin(5, 1.0), "confidence must be between 0 and 1 but got 1"),
        (lambda: over_seeds([]), "expected at least one score"),
        (lambda: over_seeds([0.5, np.nan]), "finite ones only"),
    ],
)
def test_wrong_input_is_refused(call, saying: str) -> None:
    is_refused(saying, call)
