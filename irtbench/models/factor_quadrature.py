"""Nodes for several abilities at once: a tensor grid up to three, quasi-Monte Carlo above."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtri

from irtbench.data.checked_settings import seeded

#: Nodes along each axis of a tensor grid, by the number of abilities.
NODES_PER_AXIS = {1: 61, 2: 31, 3: 17}
NEGLIGIBLE = 25.0  # a corner whose log density is this far below the centre's is left out
NEGLIGIBLE_ON_FINE_GRIDS = 16.0  # of the mass 1e-6 then lies outside
STEEPEST = 1.4  # slope times spacing up to which the trapezoid rule is right for curves (Trefethen & Weideman, 2014)
MOST_NODES = 100_000  # of a grid as fine as items ask


@dataclass(frozen=True, eq=False)
class FactorQuadrature:
    """A discrete stand-in for independent standard normal abilities.

    Parameters
    ----------
    nodes
        Abilities, shape (n_nodes, n_factors).
    log_weights
        Logarithm of the mass at each node, sum of weights 1, shape (n_nodes,).
    """

    nodes: NDArray[np.float64]
    log_weights: NDArray[np.float64]


def factor_quadrature(
    n_factors: int, *, slopes: NDArray[np.float64] | None = None, n_points: int = 4096, seed: int = 0
) -> FactorQuadrature:
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
        return FactorQuadrature(ndtri(uniform), np.full(n_points, -np.log(n_points)))
    steps = np.full(n_factors, NODES_PER_AXIS[n_factors] - 1)
    if slopes is not None:
        wanted = np.maximum(steps, 2 * np.ceil(6.0 * np.abs(slopes).max(axis=0) / STEEPEST))
        steps = (wanted * min(1.0, (MOST_NODES / wanted.prod()) ** (1 / n_factors))).astype(np.int64)
    axes = [np.linspace(-6.0, 6.0, number + 1) for number in steps]
    nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, n_factors)
    log_density = -0.5 * (nodes**2).sum(axis=1)
    usual = len(nodes) == NODES_PER_AXIS[n_factors] ** n_factors
    kept = log_density > -(NEGLIGIBLE if usual else NEGLIGIBLE_ON_FINE_GRIDS)
    return FactorQuadrature(nodes[kept], log_density[kept] - logsumexp(log_density[kept]))
