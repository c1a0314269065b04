"""The usual grid of nodes, what it refuses, and the same density on finer nodes."""

import numpy as np
import pytest

from irtbench.models.quadrature import Quadrature, normal_grid, refine


def test_a_normal_density_stays_the_same_at_any_step() -> None:
    # the cubic through the nodes is exact for a quadratic log density, but for the outermost cells
    finer, direct = refine(normal_grid(61), 0.05), normal_grid(241)
    np.testing.assert_allclose(finer.nodes, direct.nodes, atol=1e-12)
    np.testing.assert_allclose(finer.log_weights[4:-4], direct.log_weights[4:-4], atol=1e-6)


def test_a_fine_grid_is_left_and_of_others_the_part_that_matters_is_kept_with_no_more_nodes_than_allowed() -> None:
    grid = normal_grid(61)
    assert refine(grid, 0.2 + 1e-9) is grid
    part = refine(grid, 0.1, within=(-1.0, 1.0))
    assert (part.nodes[0], part.nodes[-1]) == pytest.approx((-1.2, 1.2))  # and one node more
    assert part.weights.sum() == pytest.approx(1)
    assert np.diff(part.nodes).max() == pytest.approx(0.1)
    assert refine(grid, 1e-6, most_nodes=600).nodes.size == 601


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


@pytest.mark.parametrize(("n_nodes", "bound"), [(2, 6.0), (0, 6.0), (61, 0.0), (61, -6.0), (61, float("nan"))])
def test_grids_that_are_none_are_refused(n_nodes: int, bound: float) -> None:
    with pytest.raises(ValueError, match="a grid needs at least 3 nodes and a positive bound"):
        normal_grid(n_nodes, bound=bound)


def test_the_smallest_grid_and_moments_of_the_usual_one() -> None:
    # weights e^-2 : 1 : e^-2
    grid = normal_grid(3, bound=2.0)
    assert grid.nodes.tolist() == [-2.0, 0.0, 2.0]
    np.testing.assert_allclose(grid.weights, np.array([np.exp(-2), 1, np.exp(-2)]) / (1 + 2 * np.exp(-2)))
    # the trapezoid rule of spacing .2 is exact to exp(-2 pi^2 / .04) within +-6, whose tails weigh 2e-9
    grid = normal_grid()
    for power, moment in ((0, 1), (1, 0), (2, 1), (3, 0), (4, 3)):
        assert grid.weights @ grid.nodes**power == pytest.approx(moment, abs=1e-5)


def test_two_nodes_of_one_weight_are_a_uniform_density() -> None:
    found = refine(Quadrature(np.array([-2.0, 2.0]), np.log([0.5, 0.5])), 0.5)
    assert found.nodes == pytest.approx(np.linspace(-2, 2, 9))
    assert found.weights == pytest.approx(np.full(9, 1 / 9))
