"""The same density on finer nodes, and the distribution of the sum score."""

import numpy as np
import pytest
from scipy.special import comb

from irtbench.models.quadrature import Quadrature, normal_grid, refine
from irtbench.models.theta_posterior import sum_score_distribution


def test_a_normal_density_stays_the_same_at_any_step() -> None:
    # the cubic through the nodes is exact for a quadratic log density, but for the outermost cells
    finer, direct = refine(normal_grid(61), 0.05), normal_grid(241)
    np.testing.assert_allclose(finer.nodes, direct.nodes, atol=1e-12)
    np.testing.assert_allclose(finer.log_weights[4:-4], direct.log_weights[4:-4], atol=1e-6)


def test_a_fine_grid_is_left_as_it_is() -> None:
    grid = normal_grid(61)
    assert refine(grid, 0.2 + 1e-9) is grid


def test_only_the_part_that_matters_is_kept_and_one_node_more() -> None:
    part = refine(normal_grid(61), 0.1, within=(-1.0, 1.0))
    assert (part.nodes[0], part.nodes[-1]) == pytest.approx((-1.2, 1.2))
    assert part.weights.sum() == pytest.approx(1)
    assert np.diff(part.nodes).max() == pytest.approx(0.1)


def test_no_more_nodes_than_allowed() -> None:
    assert refine(normal_grid(61), 1e-6, most_nodes=600).nodes.size == 601


def test_a_node_without_mass_stays_without() -> None:
    grid = normal_grid(61)
    weights = np.where(grid.nodes > 2.01, 0.0, grid.weights)
    with np.errstate(divide="ignore"):
        cut = Quadrature(grid.nodes, np.log(weights / weights.sum()))
    finer = refine(cut, 0.05)
    assert np.isfinite(finer.log_weights).all()
    assert finer.weights[finer.nodes >= 2.2].sum() < 1e-12
    # what has mass keeps its shape: the mean of a normal cut at t is -phi(t) / Phi(t), -.0553 at 2 and -.0447 at 2.1
    assert -0.0553 < finer.weights @ finer.nodes < -0.0447


def test_equal_items_have_a_binomial_score() -> None:
    k = np.arange(8)
    expected = comb(7, k) * 0.3**k * 0.7 ** (7 - k)
    np.testing.assert_allclose(sum_score_distribution(np.full((1, 7), 0.3))[0], expected)


def test_scores_add_up_however_the_items_are_parted() -> None:
    p = np.random.default_rng(0).random((4, 9))
    whole = sum_score_distribution(p)
    np.testing.assert_allclose(sum_score_distribution(p[:, 4:], sum_score_distribution(p[:, :4])), whole)
    np.testing.assert_allclose(whole.sum(axis=1), 1)
    np.testing.assert_allclose(whole @ np.arange(10), p.sum(axis=1))
