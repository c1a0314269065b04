"""Many complete patterns of a 2PL at once: ability and person fit depend on two sums of the responses.

Who answered every item of a 2PL without guessing has a posterior of theta that depends on s = sum_j a_j x_j alone
(Birnbaum, 1968), and so have its mean, standard deviation and quantiles. lz* depends on theta, s and sum_j d_j x_j.
These functions are smooth, and cubic splines through more places than are needed give them to 1e-7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from irtbench.data.responses import ResponseMatrix
from irtbench.diagnostics.pattern_likelihood import PatternTerms
from irtbench.diagnostics.person_fit import LEAST_VARIANCE_LEFT
from irtbench.models.curves import item_curves, log_icc
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import Quadrature
from irtbench.models.theta_posterior import Posterior, grid_for_complete_patterns, node_posterior, row_batches

Array = NDArray[np.float64]

PLACES_OF_ONE = 8  # of s, in one
PLACES = 2**9  # of theta
PART = 2**12  # respondents whose responses are summed at once


@dataclass(frozen=True, eq=False)
class CompletePatterns:
    """The respondents who answered all items.

    Parameters
    ----------
    items
        The items.
    rows
        Places of the respondents, shape (n,).
    by_slope, by_intercept
        Sums of a and of d over the right responses, shape (n,).
    """

    items: ItemParameters
    rows: NDArray[np.intp]
    by_slope: Array
    by_intercept: Array

    @classmethod
    def of(cls, responses: ResponseMatrix, items: ItemParameters) -> CompletePatterns | None:
        """Those among these responses, to the items in their order.

        None where s does not tell all (asymptotes, categories, several trials, slopes of zero), or they are too few.
        """
        rows, slope = np.flatnonzero(responses.n_items_by_respondent == items.n_items), items.discrimination
        few = len(rows) < PLACES + PLACES_OF_ONE * np.abs(slope).sum()
        if few or items.categories is not None or items.has_asymptotes or responses.trials is not None:
            return None
        if not slope.any():
            return None
        weights, coded = np.stack([slope, items.intercept], axis=1), responses.coded_responses
        parts = row_batches(len(coded), items.n_items, most_rows=PART)
        sums = np.concatenate([coded[part].astype(np.float64) @ weights for part in parts])
        return cls(items, rows, *sums[rows].T)

    def posteriors(self, population: Quadrature, level: float) -> Array:
        """As `Posterior.summary`, shape (n, 5): the posterior is proportional to w exp(s theta) prod_j (1 - P_j)."""
        from scipy.interpolate import CubicSpline  # a tenth of a second

        slope, grid = self.items.discrimination, grid_for_complete_patterns(self.items, population)
        first, last = slope.clip(max=0).sum(), slope.clip(min=0).sum()
        n = int(np.ceil((last - first) * PLACES_OF_ONE * max(1.0, population.deviation))) + 4
        sums, log_wrong = np.linspace(first, last, n), log_icc(grid.nodes, self.items)[1].sum(axis=1)
        parts = [sums[rows, None] * grid.nodes + log_wrong for rows in row_batches(n, grid.nodes.size)]
        known = [Posterior(grid.nodes, node_posterior(part, grid)[0]).summary(level) for part in parts]
        return np.asarray(CubicSpline(sums, np.concatenate(known))(self.by_slope))

    def lz_star(self, rows: NDArray[np.intp], theta: Array) -> Array:
        """Person fit of some of them at their abilities, shape (n,); NaN where it is undefined.

        With v and k as of `PatternTerms`, lz* = sum_j (x_j - P_j) v_j / sqrt(sum_j P_j (1 - P_j) v_j^2), of which the
        responses give sum_j x_j v_j = (theta - k) s + sum_j d_j x_j.
        """
        from scipy.interpolate import CubicSpline

        places = np.linspace(theta.min(), theta.max() + 1e-6, PLACES)
        spline = CubicSpline(
            places, np.concatenate([self._by_theta(places[p]) for p in row_batches(PLACES, self.items.n_items)])
        )
        used_up, expected, known, left = spline(theta).T
        left[~(left > LEAST_VARIANCE_LEFT * known)] = np.nan
        return ((theta - used_up) * self.by_slope[rows] + self.by_intercept[rows] - expected) / np.sqrt(left)

    def _by_theta(self, theta: Array) -> Array:
        """k, sum_j P_j v_j, and the variances of lz known and left, shape (n, 4)."""
        curves = item_curves(theta, self.items)
        weight = np.broadcast_to(self.items.discrimination, curves.z.shape)
        terms = PatternTerms.of(curves.variance, curves.z, weight, least_left=0.0)
        expected = (curves.p * terms.remaining).sum(axis=1)
        return np.column_stack([terms.used_up, expected, terms.variance_known, np.nan_to_num(terms.variance_estimated)])
