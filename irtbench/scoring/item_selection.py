"""Which item an adaptive test asks next: a criterion for each free item, the greatest is best (NumPy only)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from irtbench.models.curves import information, outcomes
from irtbench.models.item_parameters import ItemParameters

Array = NDArray[np.float64]

#: Rules of selection, see `CRITERIA`.
Rule = Literal["information", "posterior", "kullback", "variance", "difficulty"]


@dataclass(frozen=True, eq=False)
class ItemCurves:
    """Curves of all items at the nodes.

    Parameters
    ----------
    items, nodes
        The items, and abilities of shape (n_nodes,).
    logs
        Logarithms of the probabilities of all outcomes, wrong and right or an item's categories, one item after
        another, shape (n_nodes, n_outcomes of all).
    first, n_outcomes
        Where each item's outcomes begin, and how many it has, shape (n_items,).
    probabilities
        The probabilities themselves.
    information
        Of each item, shape (n_nodes, n_items).
    """

    items: ItemParameters
    nodes: Array
    logs: Array
    first: NDArray[np.int64]
    n_outcomes: NDArray[np.int64]
    probabilities: Array
    information: Array

    @classmethod
    def at(cls, nodes: Array, items: ItemParameters) -> ItemCurves:
        """The curves at these nodes."""
        logs, first = outcomes(nodes, items)
        n_outcomes = np.diff(first, append=logs.shape[1])
        return cls(items, nodes, logs, first, n_outcomes, np.exp(logs), information(nodes, items))

    def places(self, chosen: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places of the outcomes of these items, one item after another, and where each item's begin among them."""
        n = self.n_outcomes[chosen]
        begin = np.cumsum(n) - n
        return np.repeat(self.first[chosen] - begin, n) + np.arange(n.sum()), begin

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

    K(t) = sum over an item's outcomes of P(theta) log(P(theta) / P(t))    (Chang & Ying, 1996)
    """
    columns, begin = curves.places(free)
    here = outcomes(theta, curves.items)[0][0, columns]
    divergence = np.exp(here) * (here - mass @ curves.logs[:, columns])
    return np.asarray(np.add.reduceat(divergence, begin))


def expected_variance(curves: ItemCurves, mass: Array, theta: float, free: NDArray[np.intp]) -> Array:
    """Minus the variance that the posterior is expected to have after the response (van der Linden, 1998).

    The expectation is over the posterior's prediction of the response; catR takes the probability at the estimate.
    """
    columns, begin = curves.places(free)
    away = curves.nodes - curves.nodes @ mass / mass.sum()
    total, first, second = (np.stack([mass, mass * away, mass * away**2]) @ curves.probabilities)[:, columns]
    return -np.add.reduceat(second - first**2 / total, begin) / mass.sum()


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
