"""Human percentiles: the paper's Table 5, ranks counted by hand, and their intervals."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from builders.refusals import is_refused
from builders.scales import scale_of
from irtbench import (
    Abilities,
    ItemBank,
    ItemParameters,
    Norms,
    Quadrature,
    normal_grid,
    score_responses,
    simulate_responses,
    with_norms,
)
from irtbench.models.quadrature import normal_population
from irtbench.scoring.percentiles import normal_percentile, percentiles, population_share, smooth_share

ranked, smoothed = partial(percentiles, norm="empirical"), partial(percentiles, norm="smoothed")


def abilities_at(*theta: float, half_width: float = 0.5) -> Abilities:
    middle, none = np.array(theta), np.zeros(len(theta), dtype=np.int64)
    ends = np.full(middle.size, half_width / 1.96), middle - half_width, middle + half_width
    names = tuple(f"r{i}" for i in range(middle.size))
    return Abilities(names, middle, *ends, 0.95, none, none, none.astype(bool), "eap")


@pytest.mark.parametrize(
    ("theta", "published", "exact"),
    [
        (-0.133, 44.8, 44.710),
        (1.539, 93.8, 93.810),
        (0.423, 66.3, 66.385),
        (1.777, 96.3, 96.222),
        (0.441, 67.0, 67.039),
    ],
)
def test_table_5_of_the_paper(theta: float, published: float, exact: float) -> None:
    # Rounding theta to three digits moves 100 Phi by .02 at most, rounding the percentage by .05. Three of the five
    # (44.8, 66.3, 96.3) are off by .08 to .09, so the paper did not compute them from the theta printed with them.
    # Hence two checks: the exact value, and the paper's within .1.
    percentile = normal_percentile(abilities_at(theta)).percentile[0]
    assert percentile == pytest.approx(exact, abs=5e-4)
    assert percentile == pytest.approx(published, abs=0.1)


def test_ranks_by_hand_and_of_a_member_of_the_norm_sample() -> None:
    # norm sample -1, 0, 0, 1, 2: below 0 is one of five, two tie: (1 + 2/2) / 5 = 40%; at 1.5 four are below: 80%
    found = ranked(abilities_at(0.0, 1.5, -3.0, 9.0, half_width=1.0), Norms(np.array([0, 2, -1, 0, 1.0])))
    assert found.percentile.tolist() == pytest.approx([40, 80, 0, 100])
    # theta 0 reaches from -1 to 1: (0 + 1/2) / 5 = .1 and (3 + 1/2) / 5 = .7. Wilson's interval for 2 of 5 is
    # (.4 + .38415) / 1.76829 -+ (1.96 / 1.76829) sqrt(.4 x .6 / 5 + 3.8415 / 100) = .4435 -+ .3258: .1176 to .7693.
    # By squares: .4 - hypot(.3, .2824) = -.012, cut at 0; .4 + hypot(.3, .3693) = .8758
    assert (found.lower[0], found.upper[0]) == pytest.approx((0, 87.58), abs=0.02)
    # weights count as so many respondents: 3 + 1 / 2 of 6 lie below .5
    weighted = Norms(np.array([1.0, -1.0, 0.5]), np.array([2.0, 3.0, 1.0]))
    assert ranked(abilities_at(-1.0, 0.5, 1.0), weighted).percentile.tolist() == pytest.approx([25, 350 / 6, 500 / 6])
    # the norm sample is kept to four decimals; unrounded, a theta would miss its own entry
    theta = np.random.default_rng(0).normal(size=101)
    expected = 100 * (np.argsort(np.argsort(theta)) + 0.5) / 101
    np.testing.assert_allclose(ranked(abilities_at(*theta), Norms(theta)).percentile, expected)


def test_the_norm_samples_error_by_hand() -> None:
    # theta known, 100 people, theta = 1: sd of the scale sqrt((1 + 1/2) / 100) = .12247; Phi(1 -+ 1.96 x .12247)
    sample = Norms(ndtri((np.arange(100) + 0.5) / 100))
    found = normal_percentile(abilities_at(1.0, half_width=0.0), sample)
    assert found.lower[0] == pytest.approx(100 * ndtr(1 - 1.959964 * 0.122474), abs=1e-3)
    assert found.upper[0] == pytest.approx(100 * ndtr(1 + 1.959964 * 0.122474), abs=1e-3)
    # ranks: 84 of 100 lie below, Wilson's interval (.84 + .019207) / 1.038415 -+ 1.88746 sqrt(.001344 + .000096)
    among = ranked(abilities_at(1.0, half_width=0.0), sample)
    assert among.percentile[0] == pytest.approx(84)
    assert (among.lower[0], among.upper[0]) == pytest.approx((75.58, 89.90), abs=0.02)


def skewed_population() -> Quadrature:
    """.7 N(.4, .7) + .3 N(-.93, 1) on the nodes of a fit."""
    nodes = np.linspace(-6, 6, 61)
    density = np.exp(-(((nodes - 0.4) / 0.7) ** 2) / 2) + 0.3 * np.exp(-((nodes + 0.93) ** 2) / 2)
    return Quadrature(nodes, np.log(density / density.sum()))


def test_an_estimated_population_gives_its_own_distribution_function() -> None:
    theta = np.array([-4.0, -1.3, -0.05, 0.0, 0.7, 2.0, 5.0])
    exact = 0.7 * ndtr((theta - 0.4) / 0.7) + 0.3 * ndtr(theta + 0.93)
    np.testing.assert_allclose(population_share(theta, skewed_population()), exact, atol=1e-4)
    # the density of a normal fit gives Phi, and the norm normal is this population's
    np.testing.assert_allclose(population_share(theta, normal_grid(61)), ndtr(theta), atol=1e-4)
    found = percentiles(abilities_at(*theta), None, population=skewed_population())
    np.testing.assert_allclose(found.percentile, 100 * exact, atol=0.01)
    assert found.norm == "normal"
    assert abs(found.percentile - 100 * ndtr(theta)).max() > 5  # and not the standard normal's
    # it ends at 0 and 1, and says nothing of an unknown ability
    ends = population_share(np.array([-99.0, 99.0, np.nan]), skewed_population())
    np.testing.assert_array_equal(ends, [0, 1, np.nan])


def test_the_error_of_an_estimated_population_by_hand() -> None:
    # theta known and in the middle of a symmetric density, 100 people: Wilson's interval for 50 of 100,
    # .5 -+ 1.96 / 1.038415 x sqrt(.25 / 100 + 3.8415 / 40000) = .5 -+ .096163;
    # without people the density counts as known, and the interval is theta's
    sample = Norms(ndtri((np.arange(100) + 0.5) / 100))
    for people, width, expected in ((sample, 0.0, (40.384, 59.616)), (None, 0.5, (30.854, 69.146))):
        found = percentiles(abilities_at(0.0, half_width=width), people, population=normal_grid(61))
        assert (found.lower[0], found.upper[0]) == pytest.approx(expected, abs=0.01)


def test_the_smoothed_norm_by_hand_and_what_eaps_have_lost() -> None:
    # people at -.8 and .8 with errors .6 are of N(0, .8^2 + .6^2): (Phi(1.6 / .6) + Phi(0)) / 2 at .8
    theta, weights, errors = np.tile([-0.8, 0.8], 4_000), np.tile([3.0, 1.0], 4_000), np.full(8_000, 0.6)
    assert smoothed(abilities_at(0.8), Norms(theta, None, errors)).percentile[0] == pytest.approx(74.81, abs=0.01)
    # weights 3 to 1. Less N(0, 1) they are at -+.8 / .64 with variance .36 / .64: of a population of mean -.625 and
    # variance 1.1719 - .5625. In it they are at -.95 and .35 with .5408: (3 Phi(.95 / .5408) + Phi(-.35 / .5408)) / 4
    weighted = Norms(theta, weights, errors)
    assert smoothed(abilities_at(0.0), weighted).percentile[0] == pytest.approx(78.507, abs=0.02)
    # the same on a scale of half the unit with 1 at its middle, where the population is N(1, .5^2)
    half = Norms(1 + theta / 2, weights, errors / 2)
    found = percentiles(abilities_at(1.0), half, norm="smoothed", population=normal_population(1.0, 0.5))
    assert found.percentile[0] == pytest.approx(78.507, abs=0.02)
    # two alike are not taken for a group without differences
    twins = Norms(np.array([0.4, 0.4]), None, np.array([0.5, 0.5]))
    assert smoothed(abilities_at(0.0), twins).percentile[0] > 15
    # of whom the answers say less than the prior is anywhere in the group
    unknown = Norms(np.array([0.0, 0.0, 3.0]), None, np.array([0.5, 0.5, 1.2]))
    assert smoothed(abilities_at(0.0), unknown).percentile[0] == pytest.approx(50, abs=0.01)
    # EAPs of variance .75 about 0: without errors kept, each is spread by sqrt(1 - .75) = .5, and the sum is N(0, 1)
    shrunk = Norms(np.sqrt(0.75) * ndtri((np.arange(2001) + 0.5) / 2001))
    assert shrunk.spread[0] == pytest.approx(0.5, abs=0.005)
    spread = smoothed(abilities_at(-2.0, 0.5, 1.5), shrunk).percentile
    np.testing.assert_allclose(spread, 100 * ndtr([-2.0, 0.5, 1.5]), atol=0.1)
    # the ranks among the EAPs are another thing: 100 Phi(1.5 / sqrt(.75)) = 95.84
    assert ranked(abilities_at(1.5), shrunk).percentile[0] == pytest.approx(95.84, abs=0.05)


def test_the_smoothed_norm_of_an_abler_group_is_not_drawn_to_the_whole_population() -> None:
    # EAPs with reliability .6 of 5,000 people of N(1, .6^2) among N(0, 1): who is at 1 is better than half of them
    rng = np.random.default_rng(3)
    measured = rng.normal(1, 0.6, 5000) + np.sqrt(0.4 / 0.6) * rng.normal(size=5000)
    group = Norms(0.6 * measured, None, np.full(5000, np.sqrt(0.4)))
    found = smoothed(abilities_at(0.4, 1.0, 1.6), group).percentile
    np.testing.assert_allclose(found, 100 * ndtr([-1, 0, 1]), atol=2)


def test_a_norm_group_is_a_norm_sample_of_its_own() -> None:
    groups = {"language": ("en", "de", "en", None), "screened": ("yes", "yes", "no", "yes")}
    sample = Norms(np.array([-1.0, 0.0, 1.0, 2.0]), np.arange(1.0, 5.0), np.arange(1, 5) / 10, groups)
    english = sample.group("language", "en")
    assert (english.theta.tolist(), english.weights.tolist()) == ([-1.0, 1.0], [1.0, 3.0])
    assert english.groups == {"language": ("en", "en"), "screened": ("yes", "no")}
    # mid-rank of 0: weight 1 of 4 below
    assert ranked(abilities_at(0.0), english).percentile[0] == pytest.approx(25)
    is_refused("nobody has language fr; expected one of de, en", sample.group, "language", "fr")
    is_refused("no column age of the respondents is kept; there is: language, screened", sample.group, "age", "30")
    # a narrow group keeps the spread of the whole sample: its own variance says nothing of what its EAPs have lost
    theta = np.sqrt(0.75) * ndtri((np.arange(1001) + 0.5) / 1001)
    whole = Norms(theta, None, None, {"able": tuple(np.where(theta > 1, "yes", "no").tolist())})
    np.testing.assert_allclose(whole.group("able", "yes").spread, whole.spread[0], atol=1e-4)


def test_without_a_sample_only_the_normal_norm_is_known() -> None:
    abilities = abilities_at(0.0, 1.0)
    assert np.isnan(percentiles(abilities, None, norm="smoothed").percentile).all()
    np.testing.assert_allclose(percentiles(abilities, None).percentile, [50, 84.134], atol=1e-3)
    saying = "norm: expected 'normal', 'empirical' or 'smoothed' but got 'rank'"
    is_refused(saying, percentiles, abilities, None, norm="rank")
    # an unknown theta has an unknown percentile
    for norm in ("normal", "empirical", "smoothed"):
        assert np.isnan(percentiles(abilities_at(np.nan), Norms([-1.0, 0.0, 1.0]), norm=norm).percentile[0])


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=20), st.lists(st.floats(-6, 6), min_size=2, max_size=10))
def test_percentiles_rise_with_theta_from_0_to_100(sample: list[float], theta: list[float]) -> None:
    found = ranked(abilities_at(*sorted(theta)), Norms(np.array(sample)))
    assert (np.diff([0, *found.percentile, 100]) >= 0).all()
    assert ((found.lower <= found.percentile) & (found.percentile <= found.upper)).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([],), "at least one finite number"),
        (([0.0, np.nan],), "at least one finite number"),
        (([0.0, 1.0], [1.0]), "1 weights for 2 respondents"),
        (([0.0, 1.0], [1.0, 0.0]), "weights must be positive"),
        (([0.0, 1.0], [1.0, np.inf]), "weights must be positive"),
        (([0.0, 1.0], None, [0.1]), "1 standard errors for 2 respondents"),
        (([0.0, 1.0], None, [0.1, -0.1]), "standard errors must be finite and not negative"),
        (([0.0, 1.0], None, None, {"sex": ("f",)}), "column sex has 1 values for 2 respondents"),
    ],
)
def test_bad_norms_are_refused(given: tuple[Any, ...], message: str) -> None:
    is_refused(message, Norms, *(np.array(one) if isinstance(one, list) else one for one in given))


@pytest.mark.parametrize("method", ["wle", "ml"])
def test_norms_that_no_prior_drew_in_are_not_pulled_apart(tmp_path: Path, method: str) -> None:
    """People of N(1, .7^2) on 25 items; taken for EAPs, 77% and less of them lay below 2."""
    rng = np.random.default_rng(3)
    items = ItemParameters.from_difficulty(rng.uniform(0.8, 1.8, 25), rng.normal(0, 1, 25))
    theta = rng.normal(1, 0.7, 1000)
    bank = ItemBank((scale_of(items),))
    scores = score_responses(bank, simulate_responses(theta, items, rng=rng), method=method)
    scores.to_csv(tmp_path / "people.csv", index=False)
    norms = with_norms(bank, tmp_path / "people.csv").scales[0].norms
    at = np.array([0.0, 1.0, 2.0])
    np.testing.assert_allclose(smooth_share(at, norms), [(theta < x).mean() for x in at], atol=0.09)


def test_a_norm_sample_from_a_table(tmp_path: Path) -> None:
    items = ItemParameters.from_difficulty([1.0], [0.0])
    one, two = (scale_of(items, name=name) for name in ("one", "two"))
    path = tmp_path / "norms.csv"
    path.write_text(
        "respondent_id,role,scale,theta,se,weight,language\n"
        "r1,respondent,one,0.5,0.3,1,en\n"
        "r2,respondent,one,-0.5,0.4,2,\n"
        "m,system,one,9,0.1,1,en\n"
        "r1,respondent,two,1.5,0.3,1,en\n"
    )
    norms = with_norms(ItemBank((one, two)), path).scales[0].norms
    assert (norms.theta.tolist(), norms.standard_error.tolist()) == ([0.5, -0.5], [0.3, 0.4])
    assert norms.groups == {"language": ("en", None)}
    assert norms.effective_n == pytest.approx(9 / 5)
    is_refused("no respondent for scale three", with_norms, ItemBank((replace(one, name="three"),)), path)
    path.write_text("theta\n0.5\nx\n")
    is_refused(r"row 2 .*column theta: expected a number but got 'x'", with_norms, ItemBank((one,)), path)
    path.write_text("theta\n0.5\n")
    is_refused("column 'scale' missing; the bank has 2 scales", with_norms, ItemBank((one, two)), path)
