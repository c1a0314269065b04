"""The usual grid of nodes: what it holds, and what it refuses."""

import numpy as np
import pytest

from irtbench.models.quadrature import normal_grid


@pytest.mark.parametrize(("n_nodes", "bound"), [(2, 6.0), (0, 6.0), (61, 0.0), (61, -6.0), (61, float("nan"))])
def test_grids_that_are_none_are_refused(n_nodes: int, bound: float) -> None:
    with pytest.raises(ValueError, match="a grid needs at least 3 nodes and a positive bound"):
        normal_grid(n_nodes, bound=bound)


def test_the_smallest_grid() -> None:
    # weights e^-2 : 1 : e^-2
    grid = normal_grid(3, bound=2.0)
    assert grid.nodes.tolist() == [-2.0, 0.0, 2.0]
    np.testing.assert_allclose(grid.weights, np.array([np.exp(-2), 1, np.exp(-2)]) / (1 + 2 * np.exp(-2)))


def test_moments_are_those_of_the_standard_normal() -> None:
    # the trapezoid rule of spacing .2 is exact to exp(-2 pi^2 / .04) within +-6, whose tails weigh 2e-9
    grid = normal_grid()
    for power, moment in ((0, 1), (1, 0), (2, 1), (3, 0), (4, 3)):
        assert grid.weights @ grid.nodes**power == pytest.approx(moment, abs=1e-5)
