"""Scores of complete patterns of a 2PL, looked up: the posterior depends on one weighted sum of the responses.

Who answered every item of a 2PL without guessing has a posterior of theta that depends on s = sum_j a_j x_j alone
(Birnbaum, 1968), and so have its mean, standard deviation and quantiles. Person fit at that ability is a number that s
gives, too, and one that multiplies a second sum, sum_j d_j x_j. They are tabulated over s and interpolated: linearly,
for in a table as fine as this the error is some 1e-6 of theta, less than that of the grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from irtbench.diagnostics.pattern_likelihood import PatternTerms
from irtbench.models.curves import item_curves
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import Quadrature
from irtbench.models.theta_posterior import cell_edges, quantiles_in_cells

Array = NDArray[np.float64]

N_CELLS = 2**13
N_PLACES = 2**10 + 1  # abilities at which person fit is reckoned, for cubic interpolation
HELD = 2**20  # points times nodes, or items, at once
LEAST_VARIANCE_LEFT = 1e-5  # share of lz's variance that must remain, above what rounding leaves


@dataclass(frozen=True)
class PatternScores:
    """What is told of each pattern, shape (n_patterns,) each.

    Parameters
    ----------
    theta, standard_error
        Posterior mean and standard deviation.
    lower, upper
        Ends of the interval.
    at_ends
        Mass at the end of the grid that has more, the highest mass being 1.
    lz_star
        Person fit; NaN where it is not defined.
    """

    theta: Array
    standard_error: Array
    lower: Array
    upper: Array
    at_ends: Array
    lz_star: Array

    def replace(self, where: NDArray[np.bool_], others: PatternScores) -> None:
        """Put others in their place where a mask of shape (n_patterns,) is true."""
        for name, values in vars(self).items():
            values[where] = vars(others)[name]


@dataclass(frozen=True)
class CompletePatterns:
    """The table of a scale.

    Parameters
    ----------
    first, step
        The smallest sum s, and the distance of two.
    values
        theta, its standard deviation, both ends of the interval, the mass at the ends, and the two numbers of person
        fit at equally spaced sums, shape (N_CELLS + 1, 7).
    rises
        Differences of these, shape (N_CELLS, 7).
    weights
        Slopes, intercepts and ones of the items, by which responses are summed, shape (n_items, 3).
    """

    first: float
    step: float
    values: Array
    rises: Array
    weights: NDArray[np.float32]

    @classmethod
    def of(cls, items: ItemParameters, grid: Quadrature, log_wrong: Array, level: float) -> CompletePatterns | None:
        """The table; None where s is not sufficient: with asymptotes, or slopes that are all zero.

        Parameters
        ----------
        items
            All items that are answered.
        grid
            The population, on nodes that are fine enough for any pattern.
        log_wrong
            Log probability at each node that all items are answered wrong, shape (n_nodes,).
        level
            Coverage of the interval.
        """
        slope = items.discrimination
        first, last = float(slope.clip(max=0).sum()), float(slope.clip(min=0).sum())
        if items.has_asymptotes or not last > first:
            return None
        sums = np.linspace(first, last, N_CELLS + 1)
        rest = grid.log_weights + log_wrong
        edges, ends = cell_edges(grid.nodes), np.array([(1 - level) / 2, (1 + level) / 2])
        most = max(1, HELD // len(grid.nodes))
        parts = np.split(sums, range(most, len(sums), most))
        posteriors = np.concatenate([posterior_summaries(own, grid.nodes, rest, edges, ends) for own in parts])
        values = np.column_stack([posteriors, person_fit_terms(sums, posteriors[:, 0], items)])
        weights = np.stack([slope, items.intercept, np.ones_like(slope)], axis=1).astype(np.float32)
        return cls(first, (last - first) / N_CELLS, values, np.diff(values, axis=0), weights)

    def at(self, by_slope: NDArray[np.float32], by_intercept: NDArray[np.float32]) -> PatternScores:
        """Scores at the sums of a and of d over the correct responses, shape (n_patterns,) each."""
        place = (by_slope.astype(np.float64) - self.first) / self.step
        cell = place.astype(np.int64).clip(0, N_CELLS - 1)
        found = self.rises[cell]
        found *= (place - cell)[:, None]
        found += self.values[cell]
        theta, deviation, lower, upper, at_ends, constant, factor = found.T
        return PatternScores(theta, deviation, lower, upper, at_ends, constant + factor * by_intercept)


def posterior_summaries(sums: Array, nodes: Array, rest: Array, edges: Array, ends: Array) -> Array:
    """Mean, standard deviation, two quantiles and the mass at the ends of the posteriors at these sums, shape (n, 5).

    Parameters
    ----------
    sums
        s, shape (n,).
    nodes, rest
        Abilities, and the log posterior there where s is 0, shape (n_nodes,).
    edges
        Of the nodes' cells, shape (n_nodes + 1,).
    ends
        Shares of the mass that quantiles are at.
    """
    mass = sums[:, None] * nodes + rest
    mass = np.exp(mass - mass.max(axis=1, keepdims=True))
    reached = np.cumsum(mass, axis=1)
    lower, upper = quantiles_in_cells(mass, reached, edges, reached[:, -1:] * ends).T
    total = reached[:, -1]
    mean = mass @ nodes / total
    deviation = np.sqrt(np.maximum(mass @ nodes**2 / total - mean**2, 0))
    return np.column_stack([mean, deviation, lower, upper, np.maximum(mass[:, 0], mass[:, -1])])


def person_fit_terms(sums: Array, theta: Array, items: ItemParameters) -> Array:
    """The constant of lz* and the factor of sum_j d_j x_j in it, at these sums and abilities, shape (n, 2).

    lz* = sum_j (x_j - P_j) (a_j theta + d_j - k a_j) / sqrt(left), k and left as of `PatternTerms`; of the responses it
    needs (theta - k) s + sum_j d_j x_j. k, left and the rest are smooth in theta alone, and are interpolated.
    """
    places = np.linspace(theta.min(), theta.max() + 1e-6, N_PLACES)
    most = max(1, HELD // items.n_items)
    told = np.concatenate([_by_theta(own, items) for own in np.split(places, range(most, len(places), most))])
    used_up, expected, known, left = CubicSpline(places, told)(theta).T
    left[~(left > LEAST_VARIANCE_LEFT * known)] = np.nan
    factor = 1 / np.sqrt(left)
    return np.column_stack([((theta - used_up) * sums - expected) * factor, factor])


def _by_theta(theta: Array, items: ItemParameters) -> Array:
    """k, sum_j P_j (a_j theta + d_j - k a_j), and the variances of lz known and left, shape (n, 4)."""
    curves = item_curves(theta, items)
    weight = np.broadcast_to(items.discrimination, curves.z.shape)
    terms = PatternTerms.of(curves.variance, curves.z, weight, least_left=0.0)
    expected = (curves.p * terms.remaining).sum(axis=1)
    return np.column_stack([terms.used_up, expected, terms.variance_known, np.nan_to_num(terms.variance_estimated)])
