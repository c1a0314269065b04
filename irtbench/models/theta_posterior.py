"""The likelihood of response patterns and the posterior of theta, items known, on a grid of nodes (NumPy only).

Population mass times likelihood, normalised. Where answers are so many that the posterior is narrower than the
population's grid, the grid is made finer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import ArrayLike, NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.models.curves import icc, information, log_icc
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import Quadrature, normal_grid, refine

#: Number of trials of each respondent at each item, 0 where missing; None for one response each.
Trials = NDArray[np.int64] | None
CURVE_CELLS = 2**19  # abilities x items at which curves are reached at once
Curves = Callable[[ArrayLike, ItemParameters], tuple[NDArray[np.float64], NDArray[np.float64]]]


def log_likelihood(
    values: NDArray[np.float64],
    theta: ArrayLike,
    items: ItemParameters,
    *,
    trials: Trials = None,
    curves: Curves = log_icc,
) -> NDArray[np.float64]:
    """Log-likelihood of each response pattern at each ability, shape (n_respondents, n_theta).

    sum over observed items j of x_j log P_j + (n_j - x_j) log(1 - P_j), n_j = 1 without trials; missing factors are
    left out, so a row without any response is 0 everywhere. With trials it is that of the responses one by one, without
    the binomial coefficients. Of items in categories 0, ..., m, whose responses are k of m, it is the sum of log P(k).

    Parameters
    ----------
    values
        Responses 1, 0 or NaN, or numbers right, shape (n_respondents, n_items), columns in the order of ``items``.
    theta
        Abilities, shape (n_theta,).
    items
        The items' parameters.
    trials
        Number of trials, 0 where missing, of the same shape; None for one response each.
    curves
        What gives log P and log(1 - P), each of shape (n_theta, n_items).

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.0, 1.0], [0.0, 0.0])
    >>> irtbench.log_likelihood(np.array([[1.0, 0.0], [1.0, np.nan]]), [0.0, 1.0], items).round(3)
    array([[-1.386, -1.627],
           [-0.693, -0.313]])
    """
    theta = np.atleast_1d(np.asarray(theta, dtype=np.float64))
    part = max(1, CURVE_CELLS // max(1, items.n_items))
    spans = [slice(start, start + part) for start in range(0, theta.size, part)]
    found = np.empty((len(values), theta.size))
    if items.categories is not None:
        for span in spans:
            found[:, span] = items.categories.log_likelihood(values, theta[span])
        return found
    observed = ~np.isnan(values)
    complete = trials is None and bool(observed.all())
    asked = None if complete else np.asarray(observed if trials is None else trials, dtype=np.float64)
    correct = values if complete else np.where(observed, values, 0.0)
    linear = curves is log_icc and not items.has_asymptotes  # log P - log(1 - P) is a theta + d
    if linear:
        found[:] = np.outer(correct @ items.discrimination, theta) + (correct @ items.intercept)[:, None]
    for span in spans:
        log_p, log_q = curves(theta[span], items)
        if not linear:
            found[:, span] = correct @ (log_p - log_q).T
        found[:, span] += log_q.sum(axis=1) if asked is None else asked @ log_q.T
    return found


def some_rows(trials: Trials, rows: slice | NDArray[np.intp]) -> Trials:
    """The trials of some respondents."""
    return None if trials is None else trials[rows]


# All right on 40,000 items puts theta near 9, so the default population reaches further than a fit needs to.
STANDARD_NORMAL = normal_grid(121, bound=12.0)
NODES_PER_SD = 4  # of the narrowest posterior in a batch: moments are then exact, quantiles right to 1e-7 of an sd
AROUND = np.arange(
    -4, 5
)  # nodes, the masses at which times THROUGH are the coefficients of the polynomial through them
THROUGH = np.linalg.inv(np.vander(AROUND.astype(np.float64), increasing=True)).T
BATCH_ROWS = 2**13  # respondents worked on at once, with some hundred nodes each
BATCH_CELLS = 2**24  # respondents x items worked on at once: arrays of 128 MiB
TAIL = 1e-12  # a node with less than this share of every posterior may be left out


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
        deviation *= deviation
        return np.sqrt(np.einsum("ij,ij->i", self.mass, deviation))

    def summary(self, level: float) -> NDArray[np.float64]:
        """Mean, standard deviation, both ends of the interval at this level, and the mass at the end of the grid that
        has more as a share of the highest, shape (n_respondents, 5).
        """  # fmt: skip
        ends = np.broadcast_to([(1 - level) / 2, (1 + level) / 2], (len(self.mass), 2))
        at_end = self.mass[:, [0, -1]].max(axis=1) / self.mass.max(axis=1)
        return np.column_stack([self.mean(), self.standard_deviation(), self.quantiles(ends), at_end])

    def number_right(
        self,
        p: NDArray[np.float64],
        counted: NDArray[np.bool_],
        *,
        trials: NDArray[np.float64] | None = None,
        chance: NDArray[np.float64] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and variance of the number of right responses to come, each of shape (n_respondents,).

        The variance includes theta's error and the chance of the responses: Var(sum P) + E(sum P (1 - P)). Of several
        trials of an item the share right counts, and that chance is divided by their number.

        Parameters
        ----------
        p
            Probability of a right response at the nodes, shape (n_nodes, n_items).
        counted
            Whether a respondent's response to the item counts, shape (n_respondents, n_items).
        trials
            Number of trials of each item to come, shape (n_respondents,); None for one.
        chance
            Variance of a response at the nodes, shape of p; None for p (1 - p).
        """
        weight = counted.astype(np.float64)
        mean_at, noise_at = (
            weight @ p.T,
            weight @ (p * (1 - p) if chance is None else chance).T,
        )  # at each node, shape (n_respondents, n_nodes)
        if trials is not None:
            noise_at = noise_at / trials[:, None]
        mean = (self.mass * mean_at).sum(axis=1)
        return mean, (self.mass * (noise_at + (mean_at - mean[:, None]) ** 2)).sum(axis=1)

    def quantiles(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """Several quantiles of each respondent's theta, shape of ``probabilities``: (n_respondents, any number).

        Masses are integrated between nodes along the polynomial p through that of the node where the probability is
        reached and of four on either side. Up to the node itself it is their sum less, by Gregory's rule,

            p / 2 + p' / 12 - p^(3) / 720 + p^(5) / 30240 - p^(7) / 1209600,

        so that quantiles are those of the density, whatever the grid.
        """
        reached, last = np.cumsum(self.mass, axis=1), self.nodes.size - 1
        if 0 < len(probabilities) < probabilities.shape[1]:
            found = [np.searchsorted(row, each) for row, each in zip(reached, probabilities, strict=True)]
            cell = np.stack(found).clip(max=last)
        else:
            cell = np.stack([(reached < each[:, None]).sum(axis=1) for each in probabilities.T], axis=1).clip(max=last)
        rows = np.arange(len(cell))[:, None]
        near = (cell[..., None] + AROUND).clip(0, last)
        p = np.moveaxis(self.mass[rows[..., None], near] @ THROUGH, -1, 0).copy()
        beyond = reached[rows, cell] - p[0] / 2 - p[1] / 12 + p[3] / 120 - p[5] / 252 + p[7] / 240 - probabilities
        integral = p / np.arange(1, len(p) + 1)[:, None, None]
        place = (-beyond / p[0]).clip(-0.5, 0.5)  # from the node, in cells
        for _ in range(3):
            excess = beyond + place * polyval(place, integral, tensor=False)
            place = (place - excess / polyval(place, p, tensor=False)).clip(-0.75, 0.75)
        return np.interp(cell + place, np.arange(last + 1), self.nodes)

    def draw(
        self, n_draws: int, *, rng: np.random.Generator, places: NDArray[np.intp] | slice = slice(None)
    ) -> NDArray[np.float64]:
        """Draws of each respondent's theta, shape (n_respondents, n_draws); ``places`` is whose turn it is."""
        return self.quantiles(rng.uniform(TAIL, 1 - TAIL, (len(self.mass), n_draws))[places])


def cell_edges(nodes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ends of the cells around nodes: midpoints between neighbours, shape (n_nodes + 1,)."""
    middle = (nodes[1:] + nodes[:-1]) / 2
    return np.concatenate([[2 * nodes[0] - middle[0]], middle, [2 * nodes[-1] - middle[-1]]])


def normalise(log_mass: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mass that sums to 1 in each row, of the same shape, and the logarithm of what it summed to, shape (n_rows,)."""
    highest = log_mass.max(axis=1, keepdims=True)
    mass = log_mass - highest
    np.exp(mass, out=mass)
    total = mass.sum(axis=1, keepdims=True)
    mass /= total
    return mass, (highest + np.log(total))[:, 0]


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
    return normalise(log_likelihood + quadrature.log_weights)


def ability_posterior(
    responses: ResponseMatrix, items: ItemParameters, *, quadrature: Quadrature | None = None
) -> Posterior:
    """Posterior of theta for every respondent, on one grid that is fine enough for all of them.

    Parameters
    ----------
    responses
        Any subset of the items, in any order; missing responses are left out of the likelihood.
    items
        Parameters of at least the items of the responses.
    quadrature
        The population, whose weights are the prior; None for the standard normal.

    Raises
    ------
    InputError
        If the responses have an item that ``items`` has not.
    """
    return posterior_of(
        responses.correct, known_items(responses, items), quadrature or STANDARD_NORMAL, trials=responses.trials
    )


def known_items(responses: ResponseMatrix, items: ItemParameters) -> ItemParameters:
    """Parameters in the order of the responses' columns.

    Raises
    ------
    InputError
        If the responses have an item that ``items`` has not.
    """
    if unknown := sorted(set(responses.item_ids) - set(items.item_ids)):
        raise InputError(f"responses: no parameters known for item {name_first(unknown)}")
    return items.select(responses.item_ids)


def row_batches(n_rows: int, n_items: int, *, most_rows: int | None = None) -> Iterator[slice]:
    """Parts of the respondents that are worked on at once, of at most so many rows (None: ``BATCH_ROWS``)."""
    size = max(1, min(BATCH_ROWS if most_rows is None else most_rows, BATCH_CELLS // max(1, n_items)))
    for start in range(0, n_rows, size):
        yield slice(start, start + size)


def posterior_of(
    values: NDArray[np.float64],
    items: ItemParameters,
    population: Quadrature,
    *,
    trials: Trials = None,
    curves: Curves = log_icc,
) -> Posterior:
    """Posterior on the population's nodes, or on finer ones where they are too coarse for these respondents.

    The finer nodes cover the part of the population that holds the posteriors. Arguments as for `log_likelihood`.
    """
    if len(values) > population.nodes.size and trials is None:
        reached = np.flatnonzero((node_mass(_extremes(items), items, population, curves) > TAIL).any(axis=0))
        reach = slice(reached[0], reached[-1] + 1)
        population = Quadrature(population.nodes[reach], population.log_weights[reach])
    mass = node_mass(values, items, population, curves, trials)
    step = step_needed(values, items, Posterior(population.nodes, mass), trials)
    finer = _refined(population, step, mass)
    return Posterior(finer.nodes, mass if finer is population else node_mass(values, items, finer, curves, trials))


def grid_for_complete_patterns(items: ItemParameters, population: Quadrature) -> Quadrature:
    """The population on nodes that are fine enough for any responses to all of these items, one each."""
    steepest = np.abs(items.discrimination).max(initial=0.0)
    finest = np.divide(1.0, steepest) if steepest > 0 else np.inf
    step = min(step_for_any_pattern(items, population), finest)
    return _refined(population, step, node_mass(_extremes(items)[:2], items, population))


def _extremes(items: ItemParameters) -> NDArray[np.float64]:
    """The patterns of the highest and of the lowest ability, and that without a response, shape (3, n_items)."""
    rises, top = items.discrimination > 0, 1 if items.categories is None else items.categories.top
    return np.stack([rises * top, ~rises * top, np.full(items.n_items, np.nan)])


def _refined(population: Quadrature, step: float, mass: NDArray[np.float64]) -> Quadrature:
    """Nodes at most so far apart where posteriors have mass; the population itself where its nodes are."""
    holding = population.nodes[(mass > TAIL).any(axis=0)]
    return refine(population, step, within=(holding[0], holding[-1])) if holding.size else population


def node_mass(
    values: NDArray[np.float64],
    items: ItemParameters,
    quadrature: Quadrature,
    curves: Curves = log_icc,
    trials: Trials = None,
) -> NDArray[np.float64]:
    """Posterior mass at the nodes, shape (n_respondents, n_nodes)."""
    return node_posterior(log_likelihood(values, quadrature.nodes, items, trials=trials, curves=curves), quadrature)[0]


def step_needed(values: NDArray[np.float64], items: ItemParameters, coarse: Posterior, trials: Trials = None) -> float:
    """Distance of nodes that serves the narrowest posterior and the steepest curve.

    A posterior's standard deviation is about 1 / sqrt(1 + I), with I the information of the observed responses
    averaged over the coarse posterior. The sum over equally spaced nodes is exact to e^(-2 pi^2 / (a h)) for curves of
    slope a, so no step needs to be below 1 / a.
    """
    if values.size == 0:
        return np.inf
    observed = ~np.isnan(values) if trials is None else trials
    each = information(coarse.nodes, items)
    complete = trials is None and observed.all()
    test_information = each.sum(axis=1) if complete else observed.astype(np.float64) @ each.T
    largest = (coarse.mass * test_information).sum(axis=1).max()
    steepest = np.abs(items.discrimination[observed.any(axis=0)]).max(initial=0.0)
    return min(step_at(largest), np.divide(1.0, steepest) if steepest > 0 else np.inf)


def step_at(test_information: float, *, nodes_per_sd: int = NODES_PER_SD) -> float:
    """Distance of so many nodes to a standard deviation, 1 / sqrt(1 + I), of the posterior at this information."""
    return float(1 / (nodes_per_sd * np.sqrt(1 + test_information)))


def step_for_any_pattern(
    items: ItemParameters,
    population: Quadrature,
    *,
    nodes_per_sd: int = NODES_PER_SD,
    most_trials: NDArray[np.float64] | NDArray[np.int64] | None = None,
) -> float:
    """Distance of nodes that serves the narrowest posterior there can be: at the highest test information.

    ``most_trials`` is the largest number of trials at each item, shape (n_items,); None for one.
    """
    each = information(population.nodes, items)
    most = (each if most_trials is None else each * most_trials).sum(axis=1).max(initial=0.0)
    return step_at(most, nodes_per_sd=nodes_per_sd)


CELLS_AT_ONCE = 2**15  # scores x nodes: what stays in the processor's cache, several times as fast as all at once


def score_distribution(
    theta: ArrayLike, items: ItemParameters, times: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Probability of each sum score on these items at each ability, shape (n_theta, n_scores).

    With `times`, shape (n_items,), an item counts so often: 0 where it was not answered; one in categories once.
    """
    if items.categories is None:
        p = icc(theta, items)
        return sum_score_distribution(p if times is None else np.repeat(p, times, axis=1))
    each = items.categories.probabilities(theta)
    answered = each if times is None else [p for p, n in zip(each, times, strict=True) if n]
    return category_score_distribution(answered, np.ones((len(each[0]), 1)))


def sum_score_distribution(p: NDArray[np.float64], start: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Probability of each sum score on the items of ``p``, shape (n_nodes, n_items + 1).

    Lord and Wingersky's recursion (1984): an item with probability P moves score k to k + 1 with probability P.

    Parameters
    ----------
    p
        Probability of a right response, shape (n_nodes, n_items).
    start
        Distribution of the score on other items, to which those of ``p`` are added, shape (n_nodes, n_scores); None
        for no other items.

    Examples
    --------
    >>> sum_score_distribution(np.array([[0.5, 0.25]])).tolist()
    [[0.375, 0.5, 0.125]]
    """
    begun = np.ones((len(p), 1)) if start is None else start
    return category_score_distribution([*np.stack([1 - p, p], axis=2).transpose(1, 0, 2)], begun)


def category_score_distribution(
    probabilities: Sequence[NDArray[np.float64]], start: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The same of items in categories, which count 0, 1, ..., shapes (n_nodes, n_categories), added to others."""
    n_nodes, n_scores = start.shape
    n_higher = [p.shape[1] - 1 for p in probabilities]
    distribution = np.empty((n_nodes, n_scores + sum(n_higher)))
    n_together = max(1, CELLS_AT_ONCE // distribution.shape[1])
    for first in range(0, n_nodes, n_together):
        some, reached = slice(first, first + n_together), n_scores
        at_nodes = np.zeros_like(distribution[some].T, order="C")  # scores by nodes, changed in place
        at_nodes[:n_scores] = start[some].T
        moved = np.empty((max(n_higher, default=0), *at_nodes.shape))
        for p in probabilities:
            lowest, *higher = p[some].T
            so_far = at_nodes[:reached]
            up = [np.multiply(so_far, own, out=to[:reached]) for own, to in zip(higher, moved, strict=False)]
            so_far *= lowest
            for k, more in enumerate(up, start=1):
                at_nodes[k : reached + k] += more
            reached += len(higher)
        distribution[some] = at_nodes.T
    return distribution
