"""Human percentiles: the paper's Table 5, ranks counted by hand, and their intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri

from irtbench.building.scale import Norms
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix
from irtbench.models.item_response import ItemParameters, simulate_responses
from irtbench.scoring.ability import Abilities, eap
from irtbench.scoring.norms import empirical_percentile, normal_percentile


def abilities_at(*theta: float, half_width: float = 0.5) -> Abilities:
    middle = np.array(theta)
    zeros = np.zeros(middle.size, dtype=np.int64)
    return Abilities(
        respondent_ids=tuple(f"r{i}" for i in range(middle.size)),
        theta=middle,
        standard_error=np.full(middle.size, half_width / 1.96),
        lower=middle - half_width,
        upper=middle + half_width,
        level=0.95,
        n_items=zeros,
        n_correct=zeros,
        at_bound=zeros.astype(bool),
        method="eap",
    )


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
    # (44.8, 66.3, 96.3) are off by .08 to .09, so the paper did not compute them from the theta printed beside them.
    # Hence two checks: the exact value, and the paper's within .1.
    percentile = normal_percentile(abilities_at(theta)).percentile[0]
    assert percentile == pytest.approx(exact, abs=5e-4)
    assert percentile == pytest.approx(published, abs=0.1)


def test_the_normal_interval_is_that_of_theta() -> None:
    # Phi(-.5) = .30854, Phi(.5) = .69146
    found = normal_percentile(abilities_at(0.0))
    assert (found.lower[0], found.upper[0]) == pytest.approx((30.854, 69.146), abs=1e-3)


def test_ranks_by_hand() -> None:
    # norm sample -1, 0, 0, 1, 2: below 0 is one of five, two tie: (1 + 2/2) / 5 = 40%; at 1.5 four are below: 80%
    found = empirical_percentile(abilities_at(0.0, 1.5, -3.0, 9.0, half_width=1.0), Norms(np.array([0, 2, -1, 0, 1.0])))
    assert found.percentile.tolist() == pytest.approx([40, 80, 0, 100])
    # theta 0 reaches from -1 to 1: (0 + 1/2) / 5 and (3 + 1/2) / 5
    assert (found.lower[0], found.upper[0]) == pytest.approx((10, 70))


def test_weights_count_as_so_many_respondents() -> None:
    weighted = Norms(np.array([1.0, -1.0, 0.5]), np.array([2.0, 3.0, 1.0]))
    repeated = Norms(np.array([1.0, 1.0, -1.0, -1.0, -1.0, 0.5]))
    abilities = abilities_at(-1.0, 0.0, 0.5, 1.0, 2.0)
    np.testing.assert_allclose(
        empirical_percentile(abilities, weighted).percentile, empirical_percentile(abilities, repeated).percentile
    )


def test_a_member_of_the_norm_sample_ties_with_itself() -> None:
    # the norm sample is kept to four decimals; unrounded, a theta would fall beside its own entry
    theta = np.random.default_rng(0).normal(size=101)
    found = empirical_percentile(abilities_at(*theta), Norms(theta))
    expected = 100 * (np.argsort(np.argsort(theta)) + 0.5) / 101
    np.testing.assert_allclose(found.percentile, expected)


def test_both_percentiles_agree_where_the_norm_sample_is_normal() -> None:
    # 4,001 quantiles of the standard normal as the norm sample; a rank then differs by at most half a step of 1/4001
    sample = Norms(ndtri((np.arange(4001) + 0.5) / 4001))
    abilities = abilities_at(-2.0, -0.3, 0.0, 1.1)
    empirical, normal = empirical_percentile(abilities, sample), normal_percentile(abilities)
    np.testing.assert_allclose(empirical.percentile, normal.percentile, atol=0.02)
    np.testing.assert_allclose(empirical.upper, normal.upper, atol=0.02)


def test_percentile_intervals_hold_the_true_percentile() -> None:
    # people drawn from the population: the percentile of the true theta lies in 95% of the intervals (sd .5%)
    rng = np.random.default_rng(1)
    items = ItemParameters.from_difficulty(rng.lognormal(0, 0.3, 30), rng.normal(-1, 1, 30))
    theta = rng.normal(size=2000)
    found = normal_percentile(eap(simulate_responses(theta, items, rng=rng), items))
    truth = normal_percentile(abilities_at(*theta)).percentile
    assert ((found.lower < truth) & (truth < found.upper)).mean() == pytest.approx(0.95, abs=0.015)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=20), st.lists(st.floats(-6, 6), min_size=2, max_size=10))
def test_percentiles_rise_with_theta_from_0_to_100(sample: list[float], theta: list[float]) -> None:
    found = empirical_percentile(abilities_at(*sorted(theta)), Norms(np.array(sample)))
    assert (np.diff(found.percentile) >= 0).all()
    assert ((found.lower <= found.percentile) & (found.percentile <= found.upper)).all()
    assert (found.percentile >= 0).all()
    assert (found.percentile <= 100).all()


@pytest.mark.parametrize(
    ("theta", "weights", "message"),
    [
        ([], None, "at least one finite number"),
        ([0.0, np.nan], None, "at least one finite number"),
        ([0.0, 1.0], [1.0], "1 weights for 2 respondents"),
        ([0.0, 1.0], [1.0, 0.0], "weights must be positive"),
        ([0.0, 1.0], [1.0, np.inf], "weights must be positive"),
    ],
)
def test_bad_norms_are_refused(theta: list[float], weights: list[float] | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Norms(np.array(theta), None if weights is None else np.array(weights))


def test_a_percentile_without_answers_is_the_middle() -> None:
    items = ItemParameters.from_difficulty([1.0], [0.0])
    found = normal_percentile(eap(ResponseMatrix(np.array([[np.nan]]), ("r",), items.item_ids), items))
    assert found.percentile[0] == pytest.approx(50)
    assert (found.lower[0], found.upper[0]) == pytest.approx((2.5, 97.5), abs=0.1)
