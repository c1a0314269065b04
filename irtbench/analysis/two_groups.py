"""Two groups of respondents on the same items: the 2PL with an ability distribution for each (NumPy only)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit, logsumexp

from irtbench.models.quadrature import Quadrature, normal_grid

GRID = normal_grid(81, bound=8.0)  # the focal group may lie far from the reference
LARGEST_SLOPE, LARGEST_INTERCEPT = 10.0, 20.0  # an item all of a group get right is steep or easy, but finite
LARGEST_MEAN, LEAST_SD, LARGEST_SD = 5.0, 0.2, 4.0

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TwoGroups:
    """Fit of the 2PL to a reference group with ability N(0, 1) and a focal group with N(mean, sd^2).

    Parameters
    ----------
    slope, intercept
        Of each item in the reference (row 0) and the focal group (row 1), shape (2, n_items); alike unless the item
        was freed.
    mean, sd
        Of ability in the focal group.
    log_likelihood
        Marginal log-likelihood at the estimates.
    """

    slope: Array
    intercept: Array
    mean: float
    sd: float
    log_likelihood: float

    @property
    def population(self) -> tuple[Quadrature, Quadrature]:
        """Ability in the reference and in the focal group."""
        return GRID, normal_population(self.mean, self.sd)


def normal_population(mean: float, sd: float) -> Quadrature:
    """N(mean, sd^2) on the nodes common to both groups."""
    log_density = -0.5 * ((GRID.nodes - mean) / sd) ** 2
    return Quadrature(GRID.nodes, log_density - logsumexp(log_density))


def population_scores(mean: float, sd: float) -> Array:
    """Derivatives of the log-weights of the focal population by its mean and log sd, shape (2, n_nodes)."""
    z = (GRID.nodes - mean) / sd
    by_mean_and_log_sd = np.stack([z / sd, z**2])
    expected = by_mean_and_log_sd @ normal_population(mean, sd).weights
    return by_mean_and_log_sd - expected[:, None]


def fit_two_groups(
    values: Array, focal: NDArray[np.bool_], *, freed: NDArray[np.bool_], start: TwoGroups | None = None
) -> TwoGroups:
    """Maximise the marginal likelihood, items common to both groups but for those freed.

    Parameters
    ----------
    values
        Responses 1, 0, NaN, shape (n_respondents, n_items).
    focal
        Who belongs to the focal group, shape (n_respondents,).
    freed
        Items with parameters of their own in each group, shape (n_items,).
    start
        A fit to start from; None for values from the proportions correct.
    """
    n_items = values.shape[1]
    members = [values[~focal], values[focal]]
    observed = [(~np.isnan(part)).astype(np.float64) for part in members]
    right = [np.nan_to_num(part) for part in members]
    n_freed = int(freed.sum())

    def unpack(x: Array) -> tuple[Array, Array, float, float]:
        common, own = x[: 2 * n_items].reshape(2, n_items), x[2 * n_items : -2].reshape(2, n_freed)
        slope, intercept = np.stack([common[0]] * 2), np.stack([common[1]] * 2)
        slope[1, freed], intercept[1, freed] = own
        return slope, intercept, float(x[-2]), float(np.exp(x[-1]))

    def objective(x: Array) -> tuple[float, Array]:
        slope, intercept, mean, sd = unpack(x)
        total, gradient = 0.0, np.zeros((2, 2, n_items))  # (slope or intercept, group, item)
        for g, population in enumerate((GRID, normal_population(mean, sd))):
            z = slope[g][:, None] * GRID.nodes + intercept[g][:, None]
            joint = right[g] @ z + observed[g] @ log_expit(-z) + population.log_weights
            log_marginal = logsumexp(joint, axis=1)
            posterior = np.exp(joint - log_marginal[:, None])
            residual = right[g].T @ posterior - (observed[g].T @ posterior) * expit(z)
            gradient[0, g], gradient[1, g] = residual @ GRID.nodes, residual.sum(axis=1)
            total += log_marginal.sum()
        by_population = population_scores(mean, sd) @ posterior.sum(axis=0)  # the last posterior is the focal group's
        own = gradient[:, 1, freed]
        common = gradient.sum(axis=1)
        common[:, freed] = gradient[:, 0, freed]
        return -total, -np.concatenate([common.ravel(), own.ravel(), by_population])

    first = _start(values) if start is None else start
    own_start = first.slope[1, freed], first.intercept[1, freed]
    x0 = np.concatenate([first.slope[0], first.intercept[0], *own_start, [first.mean, np.log(first.sd)]])
    bounds = _item_bounds(n_items) + _item_bounds(n_freed) + POPULATION_BOUNDS
    found = minimize(objective, x0, jac=True, method="L-BFGS-B", bounds=bounds, options=OPTIONS)
    return TwoGroups(*unpack(found.x), log_likelihood=-float(found.fun))


OPTIONS = {"maxiter": 500, "maxcor": 20, "ftol": 1e-11, "gtol": 1e-4}
POPULATION_BOUNDS = [(-LARGEST_MEAN, LARGEST_MEAN), (float(np.log(LEAST_SD)), float(np.log(LARGEST_SD)))]


def _item_bounds(n_items: int) -> list[tuple[float, float]]:
    """Bounds of slopes, then of intercepts."""
    return [(-LARGEST_SLOPE, LARGEST_SLOPE)] * n_items + [(-LARGEST_INTERCEPT, LARGEST_INTERCEPT)] * n_items


def _start(values: Array) -> TwoGroups:
    """Slopes of 1, intercepts from the proportions correct, groups alike."""
    n_observed = (~np.isnan(values)).sum(axis=0)
    p = (np.nansum(values, axis=0) + 0.5) / (n_observed + 1)
    return TwoGroups(np.ones((2, p.size)), np.stack([1.2 * logit(p)] * 2), 0.0, 1.0, -np.inf)


@dataclass(frozen=True, eq=False)
class StudiedItem:
    """One item in two groups, all the others fixed at their fit.

    Parameters
    ----------
    others
        Likelihood of each respondent's responses to the other items at each node, each row divided by its largest,
        as four blocks: reference group wrong and right on the item, focal group wrong and right. Those who did not
        answer the item tell of the focal population only and stand in ``silent``.
    silent
        The same of the focal respondents who did not answer the item.
    """

    others: tuple[Array, Array, Array, Array]
    silent: Array

    def log_likelihood(self, x: Array) -> tuple[float, Array]:
        """Marginal log-likelihood, up to a constant, and its gradient.

        ``x`` holds slope and intercept in the reference group, in the focal group, and mean and log sd of the focal
        population.
        """
        mean, log_sd = x[4:]
        sd = float(np.exp(log_sd))
        weights = (GRID.weights, normal_population(float(mean), sd).weights)
        total, gradient, focal_counts = 0.0, np.zeros(6), np.zeros(GRID.nodes.size)
        for g in (0, 1):
            p = expit(x[2 * g] * GRID.nodes + x[2 * g + 1])
            for is_right, likelihood in enumerate(self.others[2 * g : 2 * g + 2]):
                mass = weights[g] * (p if is_right else 1 - p)
                marginal = likelihood @ mass
                counts = mass * (likelihood.T @ (1 / marginal))
                total += np.log(marginal).sum()
                residual = counts * (is_right - p)
                gradient[2 * g] += residual @ GRID.nodes
                gradient[2 * g + 1] += residual.sum()
                if g == 1:
                    focal_counts += counts
        marginal = self.silent @ weights[1]
        total += np.log(marginal).sum()
        focal_counts += weights[1] * (self.silent.T @ (1 / marginal))
        gradient[4:] = population_scores(float(mean), sd) @ focal_counts
        return float(total), gradient

    def maximum(self, start: Array, *, ties: tuple[int, ...]) -> tuple[float, Array]:
        """Largest log-likelihood, and where, when the focal parameters in ``ties`` (0 slope, 1 intercept) are tied."""
        free = [k for k in range(6) if k not in tuple(2 + tie for tie in ties)]
        bounds = np.array([*_item_bounds(1), *_item_bounds(1), *POPULATION_BOUNDS])

        def fill(y: Array) -> Array:
            x = np.empty(6)
            x[free] = y
            for tie in ties:
                x[2 + tie] = x[tie]
            return x

        def objective(y: Array) -> tuple[float, Array]:
            value, gradient = self.log_likelihood(fill(y))
            for tie in ties:
                gradient[tie] += gradient[2 + tie]
            return -value, -gradient[free]

        found = minimize(objective, start[free], jac=True, method="L-BFGS-B", bounds=bounds[free], options=OPTIONS)
        return -float(found.fun), fill(found.x)


class OthersLikelihood:
    """Likelihood of the responses at every node, from which single items are taken out."""

    def __init__(self, values: Array, focal: NDArray[np.bool_], fit: TwoGroups) -> None:
        self.values, self.focal = values, focal
        self.log_p = np.stack(
            [log_expit(fit.slope[g][:, None] * GRID.nodes + fit.intercept[g][:, None]) for g in (0, 1)]
        )
        self.log_q = np.stack(
            [log_expit(-fit.slope[g][:, None] * GRID.nodes - fit.intercept[g][:, None]) for g in (0, 1)]
        )
        group = focal.astype(np.intp)
        right, wrong = np.nan_to_num(values), (values == 0).astype(np.float64)
        self.joint = np.empty((len(values), GRID.nodes.size))
        for g in (0, 1):
            rows = group == g
            self.joint[rows] = right[rows] @ self.log_p[g] + wrong[rows] @ self.log_q[g]

    def without(self, item: int) -> Array:
        """Log-likelihood of the responses to all other items, shape (n_respondents, n_nodes)."""
        left = self.joint.copy()
        for g in (False, True):
            for value, logs in ((1.0, self.log_p), (0.0, self.log_q)):
                left[(self.focal == g) & (self.values[:, item] == value)] -= logs[int(g), item]
        return left

    def studied(self, item: int) -> StudiedItem:
        """The item with all others fixed at their fit."""
        left = self.without(item)
        likelihood = np.exp(left - left.max(axis=1, keepdims=True))
        answer = self.values[:, item]
        blocks = [likelihood[(self.focal == g) & (answer == value)] for g in (False, True) for value in (0.0, 1.0)]
        return StudiedItem((blocks[0], blocks[1], blocks[2], blocks[3]), likelihood[self.focal & np.isnan(answer)])
