"""Likelihood-ratio intervals of items whose guessing has no prior, from the profile likelihood of c.

Without a prior the likelihood of c is far from normal: its maximum is often at the bound c = 0, and b and a move with
c. 1.96 standard errors on either side then miss, and an item at c = 0 has those of a 2PL, as if c were known. For each
item the likelihood is maximised over (a, d) at values of c, the other items at their estimates:

    D(c) = 2 (max l - max over a, d of l(a, d, c)).

The interval of c is where D(c) is below the 95% point of chi-square with one degree of freedom, 3.84; at c = 0 it is
one-sided and covers .975 (Self & Liang, 1987). That of b is the union over c of b(c) -+ sqrt(v(c) (3.84 - D(c))), b(c)
and v(c) the estimate and its variance at that c: the likelihood-ratio interval, b being near normal where c is known.
That of a is found alike, on the scale asinh(2 a). Errors that items share, the scale's location and unit, are added in
squares.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import chdtri

from irtbench.estimation.marginal.item_likelihood import ItemLikelihood, item_likelihoods
from irtbench.estimation.marginal.observed_information import (
    MOST_COUPLED_ITEMS,
    invert,
    on_guessing_scale,
    own_information,
)
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.pyro_model.item_tensors import ItemTensors

Array = NDArray[np.float64]

CUT = float(chdtri(1, 0.05))  # 3.84
PLACES = np.array([0.3, 0.6, 0.85, 1.1, 1.5])  # of c, in units of the expected reach of its interval on either side
FURTHER = 1.6  # the reach is that much longer each time that the interval turns out longer
HIGHEST = 0.95  # of the item's proportion correct: no c beyond is tried
FIRST_REACH = 3.0  # of an item at c = 0, over the root of the number of its responses
MOST_ROUNDS = 12
FINE = 1_000  # places at which the profile is read off


@dataclass(frozen=True)
class Profile:
    """The maximum of an item's likelihood over (a, d) at values of c.

    Parameters
    ----------
    c
        Rising, shape (n_places,).
    fall
        D, shape (n_places,).
    at, variance
        (asinh 2a, b) and their variances, shape (2, n_places).
    """

    c: Array
    fall: Array
    at: Array
    variance: Array

    def ends(self) -> Array:
        """Lower and upper ends of (a, b, c), shape (2, 3), interpolated between the places."""
        from scipy.interpolate import PchipInterpolator  # two tenths of a second that other fits need not wait for

        c = np.linspace(self.c[0], self.c[-1], FINE)
        left = CUT - np.maximum(PchipInterpolator(self.c, self.fall)(c), 0.0)
        c, left = c[left >= 0], left[left >= 0]
        centre = PchipInterpolator(self.c, self.at, axis=1)(c)
        reach = np.sqrt(np.maximum(PchipInterpolator(self.c, self.variance, axis=1)(c), 0.0) * left)
        low, high = (centre - reach).min(axis=1), (centre + reach).max(axis=1)
        return np.array([[np.sinh(low[0]) / 2, low[1], c[0]], [np.sinh(high[0]) / 2, high[1], c[-1]]])


def guessing_intervals(problem: Problem, items: ItemParameters, wanted: NDArray[np.bool_]) -> Array:
    """Lower and upper ends of (a, b, c) of each item, shape (2, n_items, 3).

    Parameters
    ----------
    problem
        The fit's, guessing fixed at 0 where its maximum is there.
    items
        The maximum of the likelihood, with its covariance.
    wanted
        Where c was to be estimated, shape (n_items,); elsewhere intervals are 1.96 standard errors on either side.
    """
    estimate = np.stack([items.discrimination, items.difficulty, items.guessing], axis=1)
    error = np.sqrt(variances(items))
    ends = np.stack([estimate - CUT**0.5 * error, estimate + CUT**0.5 * error])
    tensors = item_tensors(items, problem.guessing_free.device)
    shared = shared_variance(problem, items, tensors)
    sign = np.array([-1.0, 1.0])[:, None]
    for j, likelihood in item_likelihoods(problem, tensors, np.flatnonzero(wanted)):
        reach = error[j, 2] * CUT**0.5 if items.guessing[j] > 0 else FIRST_REACH / likelihood.n_responses**0.5
        highest = HIGHEST * likelihood.proportion_correct
        if items.guessing[j] < highest:
            alone = profile(likelihood, float(items.guessing[j]), reach, highest).ends()
            beyond = np.maximum(sign * (alone - estimate[j]), 0.0)
            ends[:, j] = estimate[j] + sign * np.sqrt(beyond**2 + CUT * shared[j])
            ends[:, j, 2] = alone[:, 2]
    return ends


def variances(items: ItemParameters) -> Array:
    """Of (a, b, c) of each item, 0 where c is fixed, shape (n_items, 3)."""
    errors = items.standard_errors()
    found = np.stack([errors[name] for name in ("discrimination", "difficulty", "guessing")], axis=1) ** 2
    found[:, 2] = np.nan_to_num(found[:, 2])
    return found


def item_tensors(items: ItemParameters, device: torch.device) -> ItemTensors:
    """The same on a device."""
    a, d, c = (torch.tensor(part, device=device) for part in (items.discrimination, items.intercept, items.guessing))
    return ItemTensors(a[:, None], d, c)


def shared_variance(problem: Problem, items: ItemParameters, tensors: ItemTensors) -> Array:
    """What the other items' errors add to the variances of (a, b, c), shape (n_items, 3)."""
    if items.n_items > MOST_COUPLED_ITEMS:
        return np.zeros((items.n_items, 3))
    blocks, _ = invert(own_information(problem, tensors))
    covariance = on_guessing_scale(problem, tensors, torch.where(problem.estimated_pairs, blocks, 0.0))
    return np.maximum(np.nan_to_num(variances(items) - variances(replace(items, covariance=covariance))), 0.0)


def profile(likelihood: ItemLikelihood, estimate: float, reach: float, highest: float) -> Profile:
    """The profile around an estimate of c, up to where D is above the cut-off on either side, or c at its bounds.

    Parameters
    ----------
    reach
        How far on either side the interval is expected to go; where it goes further more places follow.
    highest
        No c beyond it is tried.
    """
    up = estimate + min(reach, (highest - estimate) / PLACES[-1]) * PLACES
    down = estimate - min(reach, estimate / PLACES[-1]) * PLACES
    rows = profile_at(likelihood, np.unique(np.concatenate([np.maximum(down, 0.0), [estimate], up])))
    for _ in range(MOST_ROUNDS):
        low, high = rows[0, 0], rows[0, -1]
        further_up, further_down = rows[1, -1] < CUT and high < highest, rows[1, 0] < CUT and low > 0
        if not (further_up or further_down):
            break
        reach *= FURTHER
        up = np.minimum(high + reach * PLACES, highest) if further_up else []
        down = np.maximum(low - reach * PLACES, 0.0) if further_down else []
        rows = np.concatenate([rows, profile_at(likelihood, np.unique(np.concatenate([down, up])))], axis=1)
        rows = rows[:, rows[0].argsort()]
    return Profile(rows[0], rows[1], rows[2:4], rows[4:6])


def profile_at(likelihood: ItemLikelihood, c: Array) -> Array:
    """Rows c, D, asinh 2a, b and the variances of these two at each c, shape (6, n_places)."""
    places = torch.tensor(c, device=likelihood.device)
    x, change, information = likelihood.maximum(places, least=-2 * CUT)
    slope, intercept = x.unbind(-1)
    covariance = torch.linalg.inv_ex(information).inverse
    b, var_a = -intercept / slope, covariance[:, 0, 0]
    var_b = (covariance[:, 1, 1] + b.square() * var_a + 2 * b * covariance[:, 0, 1]) / slope.square()
    by_asinh = 1 / (slope.square() + 0.25)
    return torch.stack([places, -2 * change, torch.asinh(2 * slope), b, var_a * by_asinh, var_b]).cpu().numpy()
