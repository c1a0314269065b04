"""Nodes and log-weights over which ability is integrated out (NumPy only)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp


@dataclass(frozen=True, eq=False)
class Quadrature:
    """A discrete stand-in for the population's density of ability, shared by all respondents.

    Parameters
    ----------
    nodes
        Abilities, increasing, shape (n_nodes,).
    log_weights
        Logarithm of the population's mass at each node, sum of weights 1, shape (n_nodes,).
    """

    nodes: NDArray[np.float64]
    log_weights: NDArray[np.float64]

    @property
    def weights(self) -> NDArray[np.float64]:
        """Mass at each node, shape (n_nodes,)."""
        return np.exp(self.log_weights)


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
    return Quadrature(nodes, log_density - logsumexp(log_density))


def node_posterior(
    log_likelihood: NDArray[np.float64], quadrature: Quadrature
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Posterior mass of each respondent at each node, and the log marginal likelihood of the row.

    Parameters
    ----------
    log_likelihood
        Of each pattern at each node, shape (n_respondents, n_nodes).
    quadrature
        The nodes and the population's weights.

    Returns
    -------
    posterior
        Shape (n_respondents, n_nodes), rows sum to 1.
    log_marginal
        log sum_q w_q exp(log_likelihood), shape (n_respondents,).
    """
    log_joint = log_likelihood + quadrature.log_weights
    log_marginal = logsumexp(log_joint, axis=1)
    return np.exp(log_joint - log_marginal[:, None]), log_marginal
