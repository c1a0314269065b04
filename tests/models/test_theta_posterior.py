"""The posterior on nodes and the distribution of the sum score, by hand and by brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaincinv, digamma, log_expit, logit, ndtri, polygamma

import irtbench
from irtbench import ItemParameters, Quadrature, icc
from irtbench.models.theta_posterior import (
    Posterior,
    log_likelihood,
    node_posterior,
    normalise,
    posterior_of,
    row_batches,
    sum_score_distribution,
)


def test_masses_by_hand() -> None:
    # weights 1/4, 3/4; likelihoods 1/2, 1/6: joint 1/8, 1/8
    population = Quadrature(np.array([-1.0, 1.0]), np.log([0.25, 0.75]))
    mass, log_marginal = node_posterior(np.log([[1 / 2, 1 / 6]]), population)
    np.testing.assert_allclose(mass, [[0.5, 0.5]])
    np.testing.assert_allclose(log_marginal, [np.log(0.25)])


def test_no_row_is_too_unlikely_and_a_node_without_mass_stays_without() -> None:
    mass, log_total = normalise(np.array([[-5000.0, -5000.0 + np.log(3), -np.inf], [800.0, 0.0, 800.0]]))
    np.testing.assert_allclose(mass, [[0.25, 0.75, 0], [0.5, 0, 0.5]], atol=1e-300)
    np.testing.assert_allclose(log_total, [-5000 + np.log(4), 800 + np.log(2)])


def test_quantiles_by_hand() -> None:
    # half a node's mass lies below it where masses are alike on both sides
    posterior = Posterior(np.array([-1.0, 0.0, 1.0]), np.array([[0.25, 0.5, 0.25]]))
    np.testing.assert_allclose(posterior.quantiles(np.array([[0.5]])), 0.0, atol=1e-14)
    even = Posterior(np.arange(11.0), np.full((1, 11), 1 / 11))
    np.testing.assert_allclose(even.quantiles(np.array([[0.5, 3.25 / 11, 7 / 11]])), [[5, 2.75, 6.5]])


@settings(max_examples=30, deadline=None)
@given(
    offset=st.floats(0, 1),
    per_sd=st.floats(4, 8),
    shape=st.floats(2, 40),
    level=st.floats(0.01, 0.99),
    many=st.booleans(),
)
def test_quantiles_are_those_of_the_density_whatever_the_grid(
    offset: float, per_sd: float, shape: float, level: float, many: bool
) -> None:
    """Of the normal density, and of a skewed one: the logit of a beta variable, whose posteriors of theta are alike."""
    wanted = np.full((1, 3 if many else 1), level)
    nodes = (np.arange(-60, 61) + offset) / per_sd
    normal = Posterior(nodes, normalise(-(nodes[None] ** 2) / 2)[0]).quantiles(wanted)
    np.testing.assert_allclose(normal, ndtri(wanted), atol=1e-6)
    sd = np.sqrt(polygamma(1, shape) + polygamma(1, 2.0))
    nodes = digamma(shape) - digamma(2.0) + (np.arange(-120, 121) + offset) * sd / per_sd
    density = (shape * log_expit(nodes) + 2 * log_expit(-nodes))[None]
    skewed = Posterior(nodes, normalise(density)[0]).quantiles(wanted)
    np.testing.assert_allclose(skewed, logit(betaincinv(shape, 2.0, wanted)), atol=1e-5)


def test_the_number_right_is_that_of_all_patterns_to_come() -> None:
    # all eight patterns of three items at each node, weighted by their probability
    posterior = Posterior(np.array([-1.0, 0.5, 2.0]), np.array([[0.2, 0.5, 0.3], [0.0, 0.0, 1.0]]))
    p = np.random.default_rng(0).random((3, 3))
    counted = np.array([[True, True, True], [True, False, True]])
    mean, variance = posterior.number_right(p, counted)
    patterns = np.array(list(np.ndindex(2, 2, 2)))
    at_node = np.prod(np.where(patterns == 1, p[:, None, :], 1 - p[:, None, :]), axis=2)
    for i, mass in enumerate(posterior.mass):
        probability, number = mass @ at_node, patterns @ counted[i]
        assert mean[i] == pytest.approx(probability @ number)
        assert variance[i] == pytest.approx(probability @ number**2 - mean[i] ** 2)


def test_the_likelihood_of_all_patterns_sums_to_one_and_missing_ones_are_left_out() -> None:
    items = ItemParameters.from_difficulty([1.2, -0.7, 0.0], [0.3, 1.0, 0.2], [0.0, 0.2, 0.4])
    theta = np.array([-2.0, 0.1, 5.0])
    patterns = np.array(list(np.ndindex(2, 2, 2)), dtype=float)
    np.testing.assert_allclose(np.exp(log_likelihood(patterns, theta, items)).sum(axis=0), 1, rtol=1e-14)
    one = log_likelihood(np.array([[np.nan, 1.0, np.nan], [np.nan] * 3]), theta, items)
    np.testing.assert_allclose(np.exp(one[0]), icc(theta, items)[:, 1])
    assert not one[1].any()


def test_steep_items_are_given_finer_nodes() -> None:
    items = ItemParameters.from_difficulty(np.full(40, 6.0), np.linspace(-1, 1, 40))
    values = (np.arange(40) < 20).astype(float)[None]
    coarse = Quadrature(np.linspace(-6, 6, 13), np.full(13, -np.log(13)))
    posterior = posterior_of(values, items, coarse)
    fine = np.linspace(-1, 1, 20001)
    density = np.exp(log_likelihood(values, fine, items)[0])
    mean = density @ fine / density.sum()
    assert posterior.mean()[0] == pytest.approx(mean, abs=1e-4)
    sd = np.sqrt(density @ (fine - mean) ** 2 / density.sum())
    assert posterior.standard_deviation()[0] == pytest.approx(sd, rel=1e-2)


def test_batches_take_every_row_once() -> None:
    for n_rows, n_items, most in ((0, 5, None), (20_000, 5, None), (10, 10**8, None), (7, 3, 2)):
        parts = list(row_batches(n_rows, n_items, most_rows=most))
        assert [row for part in parts for row in range(n_rows)[part]] == list(range(n_rows))
        assert most is None or all(part.stop - part.start <= most for part in parts)


@pytest.mark.parametrize("cells", [1, 40, 2**15])
def test_the_recursion_is_a_convolution_item_by_item(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    monkeypatch.setattr("irtbench.models.theta_posterior.CELLS_AT_ONCE", cells)
    p = np.random.default_rng(0).random((5, 9))
    before, after = p[:, :4], p[:, 4:]
    start = sum_score_distribution(before)
    given = start.copy()
    found = sum_score_distribution(after, start)
    for node in range(5):
        expected = np.ones(1)
        for share in p[node]:
            expected = np.convolve(expected, [1 - share, share])
        np.testing.assert_allclose(found[node], expected, rtol=1e-12)
    np.testing.assert_array_equal(start, given)  # what is given is left as it was
    np.testing.assert_allclose(sum_score_distribution(p), found, rtol=1e-12)


def test_of_no_respondents_there_is_no_posterior() -> None:
    items, nobody = ItemParameters.from_difficulty([1.5] * 6, np.linspace(-1, 1, 6)), np.empty((0, 6))
    scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids))
    assert irtbench.plausible_values(nobody, items, rng=np.random.default_rng(1)).shape == (0, 5)
    assert irtbench.explain(scale, nobody).table().empty
