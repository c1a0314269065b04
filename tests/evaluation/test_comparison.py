"""Paired comparison: exact values by hand and by fractions, other implementations, and what must never matter."""

import itertools
import warnings
from fractions import Fraction
from math import comb

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from builders.refusals import is_refused
from irtbench import compare_systems, paired_bootstrap
from irtbench.evaluation.paired_tests import drawn_sum, flipped_sum, mcnemar, permutation_test

# The example of Jansen's post, METHODS 9
BASELINE = [int(digit) for digit in "0110010101"]
EXPERIMENTAL = [int(digit) for digit in "1101101100"]

right_or_wrong = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=40)


def of_counts(n, helped, hurt):
    """Scores of two systems on n items with these counts."""
    first = np.zeros(n)
    second = np.zeros(n)
    first[:helped] = 1
    second[helped : helped + hurt] = 1
    return first, second


def chance_of_not_more_than_zero(n, helped, hurt):
    """P(sum of n draws <= 0) as a fraction: sum over the counts of the trinomial distribution."""
    ways = 0
    for plus in range(n + 1):
        for minus in range(plus, n - plus + 1):
            others = n - plus - minus
            ways += comb(n, plus) * comb(n - plus, minus) * helped**plus * hurt**minus * (n - helped - hurt) ** others
    return Fraction(ways, n**n)


def test_the_example_of_the_post_exactly():
    # d = +1 four times, -1 three times, 0 three times of 10; as a fraction of 10^10 by the trinomial sum
    expected = chance_of_not_more_than_zero(10, 4, 3)
    for alternative in ("less", "two-sided", "greater"):  # beside any alternative stands the post's
        result = paired_bootstrap(EXPERIMENTAL, BASELINE, alternative=alternative)
        assert result.p_greater == pytest.approx(float(expected), rel=1e-12)
    assert round(result.p, 5) == 0.42173
    table = compare_systems([EXPERIMENTAL, BASELINE], ["experimental", "baseline"]).table()
    assert list(table)[-1] == "p_greater"
    assert table.iloc[0][["p", "p_greater"]].tolist() == pytest.approx([2 * result.p, result.p])
    assert (result.helped, result.hurt, result.n_items, result.method) == (4, 3, 10, "exact")
    assert result.difference == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("n", "helped", "hurt"), [(24, 8, 1), (24, 5, 5), (24, 1, 8), (24, 20, 2), (100, 60, 0), (100, 7, 2)]
)
def test_tiny_chances_keep_their_digits(n, helped, hurt):
    """Without items hurt that of 60 of 100 is .4^100 = 1.6e-40: far below what the convolution alone resolves."""
    found = paired_bootstrap(*of_counts(n, helped, hurt), alternative="greater").p
    assert found == pytest.approx(float(chance_of_not_more_than_zero(n, helped, hurt)), rel=1e-11)


@pytest.mark.filterwarnings("ignore:of fewer than 15")
def test_whole_numbers_of_any_size_by_enumeration():
    d = np.array([4, -2, 1, 1, -1])
    sums = np.array([sum(draw) for draw in itertools.product(d, repeat=5)])  # 5^5 = 3125 equally likely resamples
    result = paired_bootstrap(d, np.zeros(5), interval="percentile", level=0.9)
    low, high = (sums <= 0).mean(), (sums >= 0).mean()
    assert result.p == pytest.approx(min(1, 2 * min(low, high)), rel=1e-12)
    # the smallest values whose cumulative share is at least 5% and 95%
    assert result.lower == pytest.approx(np.quantile(sums, 0.05, method="inverted_cdf") / 5)
    assert result.upper == pytest.approx(np.quantile(sums, 0.95, method="inverted_cdf") / 5)
    values, counts = np.unique(sums, return_counts=True)
    whole = drawn_sum(np.array([-2, -1, 1, 4]), np.array([1, 1, 2, 1]) / 5, 5)
    assert whole.probability[np.isin(whole.values, values)] == pytest.approx(counts / 3125, abs=1e-14)


def test_grades_that_add_up_to_the_same_are_no_difference():
    """Rounding makes a mean of 0 positive in one order of adding and not in the other."""
    d = np.array([-4, -3, -3, -1, -1, 0, 0, 0, 1, 1, 1, 1, 2, 2, 4])
    values, counts = np.unique(d, return_counts=True)
    sums = drawn_sum(values, counts / 15, 15)
    found = paired_bootstrap(d, np.zeros(15))
    assert found.p == 1
    assert found.p_greater == pytest.approx(sums.probability[sums.values <= 0].sum())


def test_few_items_of_several_sizes_are_warned_of():
    """Differences of 1 and 2 points on two items: no resample has the other sign, and 2 of 4 signs are as extreme."""
    with pytest.warns(RuntimeWarning, match="p is too small"):
        assert paired_bootstrap([2, 1], [0, 0]).p == 0
    assert permutation_test([2, 1], [0, 0]).p == 0.5
    assert np.isfinite(paired_bootstrap(*of_counts(14, 3, 1)).p)  # of one size it keeps its level
    assert np.isfinite(paired_bootstrap([2, 1] * 8, [0, 2] * 8).p)


def test_shares_of_points_are_tested_exactly_as_the_points_are() -> None:
    """Five grades and four in one table: every share is a whole number of twelfths."""
    rng = np.random.default_rng(5)
    steps = np.where(np.arange(30) < 15, 4, 3)
    points = np.array([rng.binomial(steps, p) for p in (0.9, 0.5)])
    found, twelfths = (
        compare_systems(each, ["a", "b"]).table().iloc[0] for each in (points / steps, points * (12 // steps))
    )
    assert found["method"] == "exact"
    assert found["p"] < 1e-4  # less than 10,000 resamples can show
    chances, gains = ["p", "permutation_p", "p_greater"], ["difference", "lower", "upper"]
    assert found[chances].tolist() == pytest.approx(twelfths[chances].tolist(), rel=1e-9)
    assert (12 * found[gains]).tolist() == pytest.approx(twelfths[gains].tolist(), rel=1e-9)


def test_the_three_alternatives():
    first, second = of_counts(50, 9, 4)
    greater, less = (paired_bootstrap(first, second, alternative=side).p for side in ("greater", "less"))
    assert less == pytest.approx(paired_bootstrap(second, first, alternative="greater").p)
    assert paired_bootstrap(first, second).p == pytest.approx(2 * greater)
    assert greater + less > 1  # a sum of 0 counts for both


@pytest.mark.filterwarnings("ignore:of fewer than 15")
@pytest.mark.parametrize("exact", [None, False])
@pytest.mark.parametrize("groups", [None, np.arange(30) // 3])
def test_the_order_of_items_never_matters(exact, groups):
    rng = np.random.default_rng(8)
    scores = (rng.random((2, 30)) < [[0.7], [0.4]]) * (0.1 if exact is False else 1.0)
    one, other = (
        paired_bootstrap(
            *scores[:, rows], n_resamples=200, exact=exact, groups=None if groups is None else groups[rows].tolist()
        )
        for rows in (np.arange(30), rng.permutation(30))
    )
    assert (one.p, one.helped, one.hurt) == (other.p, other.helped, other.hurt)
    assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper), abs=1e-12)


@pytest.mark.parametrize(
    ("d", "within"),
    [
        # skewed, so that BCa differs from the percentiles
        (np.random.default_rng(1).exponential(size=40) ** 1.5, 0.02),
        (np.repeat([1.0, 0.0, -1.0], [6, 8, 1]), 0.4 / 15),  # a fifth of the resamples have the difference observed
    ],
)
def test_the_interval_agrees_with_scipys_bca(d, within):
    theirs = scipy.stats.bootstrap((d,), np.mean, n_resamples=40_000, method="BCa", rng=np.random.default_rng(2))
    nothing = np.zeros(d.size)
    ours = paired_bootstrap(d, nothing, n_resamples=40_000, rng=np.random.default_rng(3))
    assert (ours.lower, ours.upper) == pytest.approx(tuple(theirs.confidence_interval), abs=within)
    plain = paired_bootstrap(d, nothing, n_resamples=40_000, interval="percentile")
    if d.size == 40:
        assert ours.upper - plain.upper > 0.1 * d.std() / np.sqrt(40)


def test_groups_are_resampled_as_one():
    # 30 groups of 4 copies are worth 30 items: the same p and interval as of one item each
    first, second = of_counts(30, 9, 4)
    alone = paired_bootstrap(first, second)
    grouped = paired_bootstrap(np.repeat(first, 4), np.repeat(second, 4), groups=np.repeat(np.arange(30), 4).tolist())
    assert grouped.p == pytest.approx(alone.p, rel=1e-9)
    assert (grouped.lower, grouped.upper) == pytest.approx((alone.lower, alone.upper))
    assert (grouped.n_groups, grouped.n_items, grouped.method) == (30, 120, "exact")
    ignored = paired_bootstrap(np.repeat(first, 4), np.repeat(second, 4))
    assert ignored.p < grouped.p / 4  # what the copies would feign


@pytest.mark.filterwarnings("ignore:of fewer than 15")
def test_groups_of_different_sizes_are_resampled_with_their_sizes():
    """Mean over the items drawn, by hand: groups d = (1, 1), (-1), (0); 27 equally likely draws."""
    d = [1, 1, -1, 0]
    groups = ["a", "a", "b", None]  # None stands alone
    sums, sizes = {"a": 2, "b": -1, "c": 0}, {"a": 2, "b": 1, "c": 1}
    means = [sum(sums[g] for g in draw) / sum(sizes[g] for g in draw) for draw in itertools.product("abc", repeat=3)]
    result = paired_bootstrap(d, [0] * 4, groups=groups, interval="percentile", n_resamples=40_000, level=0.8)
    below, above = np.mean(np.array(means) <= 0), np.mean(np.array(means) >= 0)
    assert result.method == "resampled"
    assert result.p == pytest.approx(2 * min(below, above), abs=0.015)
    assert result.lower == pytest.approx(np.quantile(means, 0.1, method="inverted_cdf"))
    assert result.upper == pytest.approx(np.quantile(means, 0.9, method="inverted_cdf"))
    is_refused("groups of one size", paired_bootstrap, d, [0] * 4, groups=groups, exact=True)


@pytest.mark.parametrize(("d", "p"), [([1], np.nan), ([1, 1, 1], np.nan), ([0, 0, 0], 1.0), ([0], 1.0)])
def test_without_any_spread_the_bootstrap_is_undefined(d, p):
    with pytest.warns(RuntimeWarning, match="undefined"):
        result = paired_bootstrap(d, [0] * len(d))
    assert (result.p, result.p_greater) == pytest.approx((p, p), nan_ok=True)
    assert np.isnan([result.lower, result.upper]).all()
    # items without both scores are left out and counted
    first, second = of_counts(20, 6, 2)
    gaps = paired_bootstrap([*first, np.nan, 1], [*second, 1, np.nan])
    assert (gaps.p, gaps.n_items, gaps.n_missing) == (paired_bootstrap(first, second).p, 20, 2)


@pytest.mark.parametrize(
    ("first", "second", "options", "saying"),
    [
        ([1, 0], [1], {}, "shapes"),
        ([1, np.inf], [1, 0], {}, "infinite"),
        ([np.nan, 1], [1, np.nan], {}, "no item has a score of both"),
        ([], [], {}, "no item"),
        ([0.123456, 0], [0, 1], {"exact": True}, "whole numbers"),
        ([1, 0], [0, 1], {"groups": ["a"]}, "1 groups for 2 items"),
        ([1, 0], [0, 1], {"level": 95}, "level must be between 0 and 1 but got 95"),
        ([0.123456, 0], [0, 1], {"n_resamples": 0}, "at least 1"),
    ],
)
def test_bad_scores_are_refused(first, second, options, saying):
    for test in (paired_bootstrap, permutation_test)[: 1 if "level" in options else 2]:
        is_refused(saying, test, first, second, **options)


def test_sign_flips_by_enumeration():
    d = np.array([3, -2, 0, 1, -2, 5])
    sums = np.array([np.dot(signs, d) for signs in itertools.product((1, -1), repeat=6)])
    for side, beyond in (("two-sided", np.abs(sums) >= 5), ("greater", sums >= 5), ("less", sums <= 5)):
        assert permutation_test(d, np.zeros(6), alternative=side).p == pytest.approx(np.mean(beyond))
    flipped = flipped_sum(d)
    expected = [np.mean(sums == value) for value in flipped.values]
    assert flipped.probability == pytest.approx(expected, abs=1e-14)


def test_the_permutation_test_agrees_with_scipys():
    rng = np.random.default_rng(4)
    x, y = rng.normal(0.4, 1, 12), rng.normal(size=12)
    theirs = scipy.stats.permutation_test(
        (x, y), lambda a, b: np.mean(a - b), permutation_type="samples", n_resamples=np.inf
    )  # all 4,096
    assert permutation_test(x, y, n_resamples=20_000).p == pytest.approx(theirs.pvalue, abs=0.015)


@given(pairs=right_or_wrong)
def test_of_right_and_wrong_the_permutation_test_is_mcnemars_and_agrees_with_statsmodels(pairs):
    first, second = np.array(pairs).T
    helped, hurt = int(((first - second) > 0).sum()), int(((first - second) < 0).sum())
    for side in ("two-sided", "greater", "less"):
        expected = permutation_test(first, second, alternative=side).p
        assert mcnemar(first, second, alternative=side).p == pytest.approx(expected, rel=1e-9)
    test = mcnemar(first, second)
    assert (test.helped, test.hurt) == (helped, hurt)
    if helped + hurt:
        theirs = statsmodels_mcnemar([[0, helped], [hurt, 0]], exact=True)
        assert test.p == pytest.approx(theirs.pvalue, rel=1e-9)
        assert test.mid_p < test.p


def test_mcnemars_mid_p_by_hand():
    # m = 7 of 2 and 5: P(B <= 1) = 8/128, P(B = 2) = 21/128; two-sided exact 58/128, mid-p 2 (8 + 21/2) / 128
    seven = [1] * 5 + [0] * 2, [0] * 5 + [1] * 2
    test, one_sided = mcnemar(*seven), mcnemar(*seven, alternative="greater")
    assert (test.p, test.mid_p) == (pytest.approx(58 / 128), pytest.approx(37 / 128))
    assert (one_sided.p, one_sided.mid_p) == (pytest.approx(29 / 128), pytest.approx(18.5 / 128))
    # m = 4 of 2 and 2: as near to the middle as can be, mid-p 1 - P(B = 2) / 2 = 1 - 3/16
    assert mcnemar([1, 1, 0, 0], [0, 0, 1, 1]).mid_p == pytest.approx(13 / 16)
    assert (mcnemar([1, 0], [1, 0]).p, mcnemar([1, 0], [1, 0]).mid_p) == (1, 1)
    is_refused(r"scores 1 and 0 but got 0\.5", mcnemar, [0.5, 1], [0, 1])


@pytest.fixture
def three_systems():
    rng = np.random.default_rng(6)
    good = (rng.random(300) < 0.8).astype(float)
    return np.array([good, np.where(rng.random(300) < 0.1, 1 - good, good), rng.random(300) < 0.5]).astype(float)


def test_all_pairs_with_holm_and_each_against_one_with_benjamini_hochberg(three_systems):
    result = compare_systems(three_systems, ["a", "b", "c"])
    assert [(pair.first, pair.second) for pair in result.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    p = np.array([pair.bootstrap.p for pair in result.pairs])
    # Holm by hand: the k-th smallest of m times m - k + 1, never less than the one before, at most 1
    order = np.argsort(p)
    by_hand = np.minimum(np.maximum.accumulate(p[order] * [3, 2, 1]), 1)
    assert np.array([pair.p_adjusted for pair in result.pairs])[order] == pytest.approx(by_hand)
    for pair in result.pairs:
        x, y = three_systems["abc".index(pair.first)], three_systems["abc".index(pair.second)]
        found = pair.bootstrap.p, pair.permutation.p, pair.mcnemar.p
        assert found == tuple(test(x, y).p for test in (paired_bootstrap, permutation_test, mcnemar))
    result = compare_systems(three_systems, ["a", "b", "c"], against="b", adjustment="fdr_bh")
    assert [(pair.first, pair.second) for pair in result.pairs] == [("a", "b"), ("c", "b")]
    both = sorted(pair.bootstrap.p for pair in result.pairs)
    # Benjamini-Hochberg by hand, m = 2: the smaller times 2 unless the larger is less
    assert sorted(pair.p_adjusted for pair in result.pairs) == pytest.approx([min(2 * both[0], both[1]), both[1]])
    # scores on a finer scale have no McNemar
    table = compare_systems(three_systems * 0.123456, ["a", "b", "c"], n_resamples=500).table()
    assert table["mcnemar_p"].isna().all()
    assert set(table["method"]) == {"resampled"}


def test_the_order_of_systems_never_matters_to_resamples(three_systems):
    """Two of three systems in any place and either way round: the same p, and the interval of the other sign."""
    found: dict[frozenset[str], list[float]] = {}
    for order in itertools.permutations(range(3)):
        rows = compare_systems(three_systems[list(order)] * 0.123456, ["abc"[k] for k in order], n_resamples=200).pairs
        for pair in rows:
            turned, figures = pair.first > pair.second, pair.bootstrap
            ends = [-figures.upper, -figures.lower] if turned else [figures.lower, figures.upper]
            two = found.setdefault(frozenset((pair.first, pair.second)), [figures.p, pair.permutation.p, *ends])
            assert [figures.p, pair.permutation.p, *ends] == two


@pytest.mark.parametrize(
    ("rows", "names", "options", "saying"),
    [
        (3, ["a", "b"], {}, "do not fit 2 systems"),
        (1, ["a"], {}, "at least two systems"),
        (2, ["a", "a"], {}, "different names"),
        (2, ["a", "b"], {"against": "c"}, "unknown system c"),
    ],
)
def test_bad_systems_are_refused(rows, names, options, saying):
    is_refused(saying, compare_systems, np.eye(rows, 4), names, **options)


def test_pairs_with_the_same_counts_are_tested_once_and_as_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(5)
    scores = (generator.random((12, 8)) < 0.6).astype(float)
    scores[generator.random(scores.shape) < 0.15] = np.nan
    names = [f"s{k}" for k in range(12)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # pairs of systems that answered alike
        once = compare_systems(scores, names, alternative="greater", adjustment="fdr_bh")
        monkeypatch.setattr("irtbench.evaluation.system_comparison.MOST_COUNTED_ITEMS", 0)
        each = compare_systems(scores, names, alternative="greater", adjustment="fdr_bh")
        against = compare_systems(scores, names, against="s3")
        monkeypatch.undo()
        pd.testing.assert_frame_equal(compare_systems(scores, names, against="s3").table(), against.table())
    pd.testing.assert_frame_equal(once.table(), each.table())
    assert len(once.pairs) == 66
    assert repr(once) == repr(each)


def test_levels_of_the_tests_without_a_difference():
    """400 sets of 60 items, equal systems: the permutation test rejects 5% at most, the bootstrap near it."""
    sets = [of_counts(60, *drawn[:2]) for drawn in np.random.default_rng(5).multinomial(60, [0.2, 0.2, 0.6], size=400)]
    bootstrap, permutation = (
        np.mean([test(*scores, alternative="greater").p <= 0.05 for scores in sets])
        for test in (paired_bootstrap, permutation_test)
    )
    assert permutation <= 0.06
    assert 0.03 <= bootstrap <= 0.08
