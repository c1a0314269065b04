"""Which item an adaptive test asks next: a criterion for each free item, the greatest is best (NumPy only)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from irtbench.models.curves import information, log_icc
from irtbench.models.item_parameters import ItemParameters

Array = NDArray[np.float64]

#: Rules of selection, see `CRITERIA`.
Rule = Literal["information", "posterior", "kullback", "variance", "difficulty"]


@dataclass(frozen=True, eq=False)
class ItemCurves:
    """Curves of all items at the nodes, each of shape (n_nodes, n_items)."""

    items: ItemParameters
    nodes: Array
    log_p: Array
    log_q: Array
    information: Array

    @classmethod
    def at(cls, nodes: Array, items: ItemParameters) -> ItemCurves:
        """The curves at these nodes."""
        log_p, log_q = log_icc(nodes, items)
        return cls(items, nodes, log_p, log_q, information(nodes, items))

    def moments(self, mass: Array) -> tuple[Array, Array]:
        """Mean and variance of theta under masses, shape (n_nodes,) or (n_nodes, n)."""
        total = mass.sum(axis=0)
        mean = self.nodes @ mass / total
        deviation = self.nodes[:, None] - np.atleast_1d(mean)
        variance = (np.atleast_2d(mass.T).T * deviation**2).sum(axis=0) / total
        return np.atleast_1d(mean), variance


#: From the curves, the posterior's mass at the nodes, theta and the places of the free items.
Criterion = Callable[[ItemCurves, Array, float, NDArray[np.intp]], Array]


def at_estimate(curves: ItemCurves, mass: Array, theta: float, free: NDArray[np.intp]) -> Array:
    """Fisher information at the estimate (Lord, 1980, ch. 10)."""
    each: Array = information(theta, curves.items)[0, free]
    return each


def over_posterior(curves: ItemCurves, mass: Array, theta: float, free: NDArray[np.intp]) -> Array:
    """Fisher information averaged over the posterior (van der Linden, 1998)."""
    return mass @ curves.information[:, free]


def kullback_leibler(curves: ItemCurves, mass: Array, theta: float, free: NDArray[np.intp]) -> Array:
    """Kullback-Leibler information of the estimate against other abilities, averaged over the posterior.

    K(t) = P(theta) log(P(theta) / P(t)) + (1 - P(theta)) log((1 - P(theta)) / (1 - P(t)))    (Chang & Ying, 1996)
    """
    log_p, log_q = (logs[0, free] for logs in log_icc(theta, curves.items))
    p = np.exp(log_p)
    divergence = p * (log_p - curves.log_p[:, free]) + (1 - p) * (log_q - curves.log_q[:, free])
    return mass @ divergence


def expected_variance(curves: ItemCurves, mass: Array, theta: float, free: NDArray[np.intp]) -> Array:
    """Minus the variance that the posterior is expected to have after the response (van der Linden, 1998).

    The expectation is over the posterior's prediction of the response; catR takes the probability at the estimate.
    """
    total = np.zeros(free.size)
    for logs in (curves.log_p, curves.log_q):
        joint = mass[:, None] * np.exp(logs[:, free])
        total += joint.sum(axis=0) * curves.moments(joint)[1]
    return -total / mass.sum()


def nearest_difficulty(curves: ItemCurves, mass: Array, theta: float, free: NDArray[np.intp]) -> Array:
    """Minus the distance of the difficulty from the estimate (Urry, 1970)."""
    return -np.abs(curves.items.difficulty[free] - theta)


CRITERIA: Mapping[Rule, Criterion] = {
    "information": at_estimate,
    "posterior": over_posterior,
    "kullback": kullback_leibler,
    "variance": expected_variance,
    "difficulty": nearest_difficulty,
}
