"""Ability from the sum score alone (NumPy only)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import Quadrature, refine
from irtbench.models.sum_score_distribution import score_distribution
from irtbench.models.theta_posterior import Posterior, Trials, step_for_any_pattern


def sum_score_posterior(
    values: NDArray[np.float64], items: ItemParameters, population: Quadrature, *, trials: Trials = None
) -> Posterior:
    """Posterior of theta given the number of right responses, or points, on the items observed, for every respondent.

    p(theta_q | k) proportional to w_q S_k(theta_q), with S_k the probability of sum score k on those items
    (Thissen, Pommerich, Billeaud & Williams, 1995). People with the same score on the same items get the same theta,
    which is easy to explain; it uses less than the pattern says.

    Parameters
    ----------
    values
        Responses 1, 0 or NaN, or numbers right, shape (n_respondents, n_items), columns in the order of ``items``.
    items
        The items' parameters.
    population
        The nodes and the population's weights; made finer where the items tell more than its nodes can hold.
    trials
        Number of trials of the same shape, each of which counts in the sum score; None for one response each.
    """
    most = np.ones(items.n_items) if trials is None else trials.max(axis=0, initial=1)
    grid = refine(population, step_for_any_pattern(items, population, most_trials=most))
    asked = ~np.isnan(values) if trials is None else trials
    patterns, membership = np.unique(asked, axis=0, return_inverse=True)
    score = np.nansum(values, axis=1).astype(np.intp)
    mass = np.empty((len(values), grid.nodes.size))
    for g, pattern in enumerate(patterns):
        rows = np.flatnonzero(membership.ravel() == g)
        joint = score_distribution(grid.nodes, items, pattern).T * grid.weights
        mass[rows] = (joint / joint.sum(axis=1, keepdims=True))[score[rows]]
    return Posterior(grid.nodes, mass)
