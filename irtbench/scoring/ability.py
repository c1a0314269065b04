"""Ability from a response pattern and known items (NumPy only).

The posterior of theta lives on a grid of nodes: population mass times likelihood, normalised. EAP is its mean. Where
answers are so many that the posterior is narrower than the population's grid, the grid is made finer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.models.item_response import ItemParameters, information, log_likelihood
from irtbench.models.quadrature import Quadrature, node_posterior, normal_grid

Method = Literal["eap"]

# All right on 40,000 items puts theta near 9, so the default population reaches further than a fit needs to.
STANDARD_NORMAL = normal_grid(121, bound=12.0)
NODES_PER_SD = 4  # of the narrowest posterior in a batch: moments are then exact, quantiles right to 0.02 of their se
MOST_NODES = 4_000
BATCH_ROWS = 2**13  # respondents worked on at once, with some hundred nodes each
BATCH_CELLS = 2**24  # respondents x items worked on at once: arrays of 128 MiB
TAIL = 1e-12  # a node with less than this share of every posterior may be left out


@dataclass(frozen=True, eq=False)
class Abilities:
    """Ability of each respondent with its interval.

    Parameters
    ----------
    respondent_ids
        The respondents, in the order of the responses.
    theta
        The estimate, shape (n_respondents,).
    standard_error
        For EAP the standard deviation of theta's posterior, shape (n_respondents,).
    lower, upper
        Ends of the interval, shape (n_respondents,). For EAP the equal-tailed quantiles of the posterior: it is
        skewed for short tests and extreme scores, where theta +- 1.96 se covers one tail too much.
    level
        Probability that the interval is to hold.
    n_items, n_correct
        Observed and correct responses of each, shape (n_respondents,).
    at_bound
        Whether the estimate leans on the end of the grid or of the allowed range, so that it says "at least" or
        "at most", shape (n_respondents,).
    method
        How theta was estimated.
    """

    respondent_ids: tuple[str, ...]
    theta: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    level: float
    n_items: NDArray[np.int64]
    n_correct: NDArray[np.int64]
    at_bound: NDArray[np.bool_]
    method: Method


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior of theta on nodes shared by all respondents.

    Parameters
    ----------
    nodes
        Abilities, increasing, shape (n_nodes,).
    mass
        Posterior probability at each node, rows sum to 1, shape (n_respondents, n_nodes).
    """

    nodes: NDArray[np.float64]
    mass: NDArray[np.float64]

    def mean(self) -> NDArray[np.float64]:
        """Mean of theta, shape (n_respondents,)."""
        return self.mass @ self.nodes

    def standard_deviation(self) -> NDArray[np.float64]:
        """Standard deviation of theta, shape (n_respondents,)."""
        deviation = self.nodes - self.mean()[:, None]
        return np.sqrt((self.mass * deviation**2).sum(axis=1))

    def quantile(self, probability: float) -> NDArray[np.float64]:
        """Quantile of theta, shape (n_respondents,).

        A node's mass is spread evenly over its cell (up to the midpoints to its neighbours), and the cumulative mass
        interpolated within the cell where it reaches ``probability``.
        """
        middle = (self.nodes[1:] + self.nodes[:-1]) / 2
        edges = np.concatenate([[2 * self.nodes[0] - middle[0]], middle, [2 * self.nodes[-1] - middle[-1]]])
        reached = np.cumsum(self.mass, axis=1)
        cell = np.minimum((reached < probability).sum(axis=1), self.nodes.size - 1)
        rows = np.arange(cell.size)
        within = 1 - (reached[rows, cell] - probability) / self.mass[rows, cell]
        return edges[cell] + within * (edges[cell + 1] - edges[cell])


def eap(
    responses: ResponseMatrix,
    items: ItemParameters,
    *,
    quadrature: Quadrature | None = None,
    level: float = 0.95,
) -> Abilities:
    """Expected a posteriori ability: mean and standard deviation of theta given the responses.

    theta = sum_q theta_q p(theta_q | x),  p(theta_q | x) proportional to w_q L(x | theta_q)    (Bock & Mislevy, 1982)

    All right and all wrong give finite values. A respondent without any response gets the population's mean and
    standard deviation. The items' parameters count as known: the interval holds theta's error alone.

    Parameters
    ----------
    responses
        Any subset of the items, in any order; missing responses are left out of the likelihood.
    items
        Parameters of at least the items of the responses.
    quadrature
        The population, whose weights are the prior; None for the standard normal.
    level
        Probability that the interval is to hold, between 0 and 1.

    Raises
    ------
    InputError
        If the responses have an item that ``items`` has not, or ``level`` lies outside (0, 1).
    """
    if not 0 < level < 1:
        raise InputError(f"ability: level must be between 0 and 1 but got {level:g}")
    known = _parameters_of(responses, items)
    population = STANDARD_NORMAL if quadrature is None else quadrature
    theta, standard_error, lower, upper = np.empty((4, responses.n_respondents))
    at_bound = np.empty(responses.n_respondents, dtype=np.bool_)
    batch = max(1, min(BATCH_ROWS, BATCH_CELLS // max(1, responses.n_items)))
    for start in range(0, responses.n_respondents, batch):
        rows = slice(start, start + batch)
        posterior = _posterior(responses.values[rows], known, population)
        theta[rows] = posterior.mean()
        standard_error[rows] = posterior.standard_deviation()
        lower[rows] = posterior.quantile((1 - level) / 2)
        upper[rows] = posterior.quantile((1 + level) / 2)
        at_bound[rows] = posterior.mass[:, [0, -1]].max(axis=1) > 0.01 * posterior.mass.max(axis=1)
    return Abilities(
        respondent_ids=responses.respondent_ids,
        theta=theta,
        standard_error=standard_error,
        lower=lower,
        upper=upper,
        level=level,
        n_items=responses.observed.sum(axis=1),
        n_correct=np.nansum(responses.values, axis=1).astype(np.int64),
        at_bound=at_bound,
        method="eap",
    )


def ability_posterior(
    responses: ResponseMatrix, items: ItemParameters, *, quadrature: Quadrature | None = None
) -> Posterior:
    """Posterior of theta for every respondent, on one grid that is fine enough for all of them.

    ``eap`` works through the same posterior in batches; here all respondents are held in memory at once.

    Raises
    ------
    InputError
        If the responses have an item that ``items`` has not.
    """
    population = STANDARD_NORMAL if quadrature is None else quadrature
    return _posterior(responses.values, _parameters_of(responses, items), population)


def _parameters_of(responses: ResponseMatrix, items: ItemParameters) -> ItemParameters:
    """Parameters in the order of the responses' columns."""
    unknown = sorted(set(responses.item_ids) - set(items.item_ids))
    if unknown:
        raise InputError(f"responses: no parameters known for item {name_first(unknown)}")
    return items.select(responses.item_ids)


def _posterior(values: NDArray[np.float64], items: ItemParameters, population: Quadrature) -> Posterior:
    """Posterior on the population's nodes, or on finer ones where they are too coarse for these respondents."""
    mass = _node_mass(values, items, population)
    step = _step_needed(values, items, Posterior(population.nodes, mass))
    if step >= np.diff(population.nodes).max():
        return Posterior(population.nodes, mass)
    finer = _refine(population, mass, step)
    return Posterior(finer.nodes, _node_mass(values, items, finer))


def _node_mass(values: NDArray[np.float64], items: ItemParameters, quadrature: Quadrature) -> NDArray[np.float64]:
    """Posterior mass at the nodes, shape (n_respondents, n_nodes); the nodes in parts where the items are many."""
    part = max(1, BATCH_CELLS // 4 // max(1, items.n_items))
    parts = [
        log_likelihood(values, quadrature.nodes[start : start + part], items)
        for start in range(0, quadrature.nodes.size, part)
    ]
    return node_posterior(np.concatenate(parts, axis=1), quadrature)[0]


def _step_needed(values: NDArray[np.float64], items: ItemParameters, coarse: Posterior) -> float:
    """Distance of nodes that serves the narrowest posterior and the steepest curve.

    A posterior's standard deviation is about 1 / sqrt(1 + I), with I the test information of the observed items
    averaged over the coarse posterior. The sum over equally spaced nodes is exact to e^(-2 pi^2 / (a h)) for curves of
    slope a, so no step needs to be below 1 / a.
    """
    if values.size == 0:
        return np.inf
    observed = (~np.isnan(values)).astype(np.float64)
    test_information = observed @ information(coarse.nodes, items).T
    largest = (coarse.mass * test_information).sum(axis=1).max()
    steepest = np.abs(items.discrimination[observed.any(axis=0)]).max(initial=0.0)
    return min(1 / (NODES_PER_SD * np.sqrt(1 + largest)), np.divide(1.0, steepest) if steepest > 0 else np.inf)


def _refine(population: Quadrature, mass: NDArray[np.float64], step: float) -> Quadrature:
    """Part of the population that holds the posteriors, with every cell between nodes divided alike.

    The part: nodes with mass for anybody, and one more on either side. The log density is interpolated between nodes;
    because the old nodes stay nodes, that error repeats from cell to cell and cannot shift a posterior.
    """
    holding = np.flatnonzero((mass > TAIL).any(axis=0))
    first, last = max(holding[0] - 1, 0), min(holding[-1] + 1, population.nodes.size - 1)
    wanted = np.ceil(np.diff(population.nodes).max() / step)
    pieces = int(max(1, min(wanted, MOST_NODES // (last - first))))
    position = np.linspace(first, last, (last - first) * pieces + 1)
    old = np.arange(population.nodes.size)
    nodes = np.interp(position, old, population.nodes)
    floor = np.log(np.finfo(np.float64).tiny)  # a node without mass has log weight -inf, which cannot be interpolated
    log_density = np.maximum(population.log_weights, floor) - np.log(np.gradient(population.nodes))
    log_weights = np.interp(position, old, log_density) + np.log(np.gradient(nodes))
    return Quadrature(nodes, log_weights - logsumexp(log_weights))
