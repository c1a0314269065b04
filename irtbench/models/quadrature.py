"""Nodes and log-weights over which ability is integrated out, one or several (NumPy only)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from irtbench.data.checked_settings import seeded
from irtbench.data.shown import Shown


@dataclass(frozen=True, eq=False)
class Quadrature(Shown, columns="theta=nodes, weight=weights", short="{nodes.size} nodes {nodes:spanned}"):
    """A discrete stand-in for the population's density of ability, shared by all respondents.

    Its table has one row a node.

    Parameters
    ----------
    nodes
        Abilities, increasing, shape (n_nodes,); of several abilities, independent of each other, (n_nodes, n_factors).
    log_weights
        Logarithm of the population's mass at each node, sum of weights 1, shape (n_nodes,).
    """

    nodes: NDArray[np.float64]
    log_weights: NDArray[np.float64]

    @property
    def weights(self) -> NDArray[np.float64]:
        """Mass at each node, shape (n_nodes,)."""
        return np.exp(self.log_weights)

    @property
    def mean(self) -> float:
        """Of ability."""
        return float(self.weights @ self.nodes)

    @property
    def deviation(self) -> float:
        """Standard deviation of ability."""
        return float(self.weights @ (self.nodes - self.mean) ** 2) ** 0.5


def normal_grid(n_nodes: int = 61, *, bound: float = 6.0) -> Quadrature:
    """Equally spaced nodes on [-bound, bound], weighted by the standard normal density and normalised.

    Raises
    ------
    ValueError
        If there are fewer than 3 nodes or ``bound`` is not positive.

    Examples
    --------
    >>> normal_grid(61).nodes[[0, 30, 60]].tolist()
    [-6.0, 0.0, 6.0]
    """
    if n_nodes < 3 or not bound > 0:
        raise ValueError(f"a grid needs at least 3 nodes and a positive bound but got {n_nodes} and {bound}")
    nodes = np.linspace(-bound, bound, n_nodes)
    log_density = -0.5 * nodes**2
    return Quadrature(nodes, log_density - np.log(np.exp(log_density).sum()))


def normal_population(mean: float, deviation: float) -> Quadrature:
    """The normal density of this mean and standard deviation, on 121 nodes up to 12 standard deviations off.

    Examples
    --------
    >>> normal_population(1.0, 0.5).nodes[[0, 60, 120]].tolist()
    [-5.0, 1.0, 7.0]
    """
    return rescaled(normal_grid(121, bound=12.0), mean, deviation)


def rescaled(quadrature: Quadrature, mean: float, deviation: float) -> Quadrature:
    """The density of mean + deviation theta where theta has this one."""
    return Quadrature(mean + deviation * quadrature.nodes, quadrature.log_weights)


def refine(
    quadrature: Quadrature,
    step: float,
    *,
    within: tuple[float, float] | None = None,
    most_nodes: int = 4_000,
) -> Quadrature:
    """Lay nodes at most ``step`` apart for the same density; where they lie so already, nothing changes.

    Every cell between nodes is divided alike and the log density interpolated along it. Because the old nodes stay
    nodes, the error of interpolation repeats from cell to cell and hardly shifts what is integrated.

    Parameters
    ----------
    quadrature
        The density on its nodes.
    step
        Distance of nodes that suffices.
    within
        Part of the abilities that matters: nodes outside it are dropped, but for the next one on either side; None
        for all. The weights are normalised over what is left.
    most_nodes
        No more nodes than about this, whatever the step.

    Examples
    --------
    >>> refine(normal_grid(3, bound=1.0), 0.5).nodes.tolist()
    [-1.0, -0.5, 0.0, 0.5, 1.0]
    """
    nodes = quadrature.nodes
    first, last = 0, nodes.size - 1
    if np.diff(nodes).max() <= step:
        return quadrature
    if within is not None:
        first = max(int(np.searchsorted(nodes, within[0], side="left")) - 1, 0)
        last = min(int(np.searchsorted(nodes, within[1], side="right")), last)
    pieces = int(max(1, min(np.ceil(np.diff(nodes).max() / step - 1e-9), most_nodes // (last - first))))
    position = np.linspace(first, last, (last - first) * pieces + 1)
    old = np.arange(nodes.size)
    finer = np.interp(position, old, nodes)
    log_weights = _log_density(quadrature, position) + np.log(np.gradient(finer))
    return Quadrature(finer, log_weights - np.log(np.exp(log_weights).sum()))


def _log_density(quadrature: Quadrature, position: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log density of ability between nodes, at positions counted in nodes.

    A cubic through neighbouring nodes with the slopes of central differences, which is exact for a normal density;
    a straight line in cells next to a node without mass.
    """
    floor = np.log(np.finfo(np.float64).tiny)  # log weight of a node without mass: -inf cannot be interpolated
    has_mass = quadrature.log_weights > floor
    at_node = np.maximum(quadrature.log_weights, floor) - np.log(np.gradient(quadrature.nodes))
    slope = np.gradient(at_node)
    cell = np.minimum(position.astype(np.intp), at_node.size - 2)
    t = position - cell
    left, right = at_node[cell], at_node[cell + 1]
    excess_left, excess_right = slope[cell] - (right - left), (right - left) - slope[cell + 1]
    around = np.pad(has_mass, 1, constant_values=True)
    inner = around[:-2] & has_mass & around[2:]
    smooth = inner[cell] & inner[cell + 1]
    return left + t * (right - left) + smooth * t * (1 - t) * ((1 - t) * excess_left + t * excess_right)


#: Nodes along each axis of a tensor grid, by the number of abilities.
NODES_PER_AXIS = {1: 61, 2: 31, 3: 17}
NEGLIGIBLE = 25.0  # a corner whose log density is this far below the centre's is left out
NEGLIGIBLE_ON_FINE_GRIDS = 16.0  # of the mass 1e-6 then lies outside
STEEPEST = 1.4  # slope times spacing up to which the trapezoid rule is right for curves (Trefethen & Weideman, 2014)
MOST_NODES = 100_000  # of a grid as fine as items ask


def factor_quadrature(
    n_factors: int, *, slopes: NDArray[np.float64] | None = None, n_points: int = 4096, seed: int = 0
) -> Quadrature:
    """Nodes for so many abilities: a tensor grid on [-6, 6] up to three, scrambled Sobol' points above.

    With slopes, the expectations over up to three abilities of products of two to four standardised curves are right to
    3e-5, unless items are so steep that it would take more than 100,000 nodes.

    Parameters
    ----------
    n_factors
        Number of abilities.
    slopes
        Of the items whose curves are integrated, shape (n_items, n_factors): nodes on each axis are no further apart
        than 1.4 by the steepest slope. None for the usual grid.
    n_points
        Number of Sobol' points, a power of two.
    seed
        Of their scrambling.

    Raises
    ------
    ValueError
        If `n_factors` is below 1.

    Examples
    --------
    >>> quadrature = factor_quadrature(2)
    >>> cov = quadrature.nodes.T @ (np.exp(quadrature.log_weights)[:, None] * quadrature.nodes)
    >>> (cov.round(6) + 0.0).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if n_factors < 1:
        raise ValueError(f"n_factors must be at least 1 but got {n_factors}")
    if n_factors not in NODES_PER_AXIS:
        from scipy.stats import qmc  # of few abilities it is not needed, and takes half a second

        uniform = qmc.Sobol(n_factors, rng=seeded(seed)).random(n_points)
        return Quadrature(ndtri(uniform), np.full(n_points, -np.log(n_points)))
    steps = np.full(n_factors, NODES_PER_AXIS[n_factors] - 1)
    if slopes is not None:
        wanted = np.maximum(steps, 2 * np.ceil(6.0 * np.abs(slopes).max(axis=0) / STEEPEST))
        steps = (wanted * min(1.0, (MOST_NODES / wanted.prod()) ** (1 / n_factors))).astype(np.int64)
    axes = [np.linspace(-6.0, 6.0, number + 1) for number in steps]
    nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, n_factors)
    log_density = -0.5 * (nodes**2).sum(axis=1)
    usual = len(nodes) == NODES_PER_AXIS[n_factors] ** n_factors
    kept = log_density > -(NEGLIGIBLE if usual else NEGLIGIBLE_ON_FINE_GRIDS)
    return Quadrature(nodes[kept], log_density[kept] - np.log(np.exp(log_density[kept]).sum()))
