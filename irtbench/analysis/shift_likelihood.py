"""Likelihood of a few systems' responses to items of known parameters that are each shifted for the systems.

Item j has the logit a_j theta_s + d_j + t_j + w_jf for system s of family f. The shift t_j ~ N(0, tau^2 + v_j) is the
item's own, with v_j the calibration error of the known parameters; w_jf ~ N(0, omega^2) is what the systems of one
family share beyond it. Shifts are integrated out on a grid, abilities by Laplace's approximation (NumPy and SciPy).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from irtbench.models.curves import logistic
from irtbench.models.item_parameters import ItemParameters

STEP, BOUND = 0.1, 6.0  # of the grid of shifts, in logits
GRID = np.arange(-round(BOUND / STEP), round(BOUND / STEP) + 1) * STEP
FEW = 0.4 * STEP**2  # a variance below this is on three nodes, which have it exactly
LOWEST = 1e-300  # weight of a node without mass
MEAN_DEVIATION = 10.0  # of the prior of the systems' mean ability: next to flat
CELLS = 2**23  # systems x items x nodes worked on at once
TOLERANCE = 1e-7  # of the gradient, an item: beyond, differences of log-likelihoods are rounding
MOST_STEPS, FIRST_RADIUS = 50, 10.0

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Slopes:
    """Value and derivatives by ability of the log-likelihood, item by item.

    Parameters
    ----------
    log_likelihood
        Of each item's responses, shape (n_items,).
    gradient
        Shape (n_items, n_systems).
    hessian
        Shape (n_items, n_systems, n_systems).
    posterior
        Of each item's shift t_j on the grid, shape (n_items, n_nodes).
    """

    log_likelihood: Array
    gradient: Array
    hessian: Array
    posterior: Array


@dataclass(frozen=True, eq=False)
class Mode:
    """The abilities of greatest posterior density, given the standard deviations.

    Parameters
    ----------
    theta
        Shape (n_systems,).
    precision
        Negative Hessian of the log posterior there, shape (n_systems, n_systems).
    evidence
        Log marginal likelihood by Laplace's approximation.
    slopes
        Of each item at the mode.
    """

    theta: Array
    precision: Array
    evidence: float
    slopes: Slopes


@dataclass(frozen=True, eq=False)
class ShiftLikelihood:
    """The systems' responses and the known items.

    Parameters
    ----------
    responses
        1, 0 or NaN, shape (n_systems, n_items).
    items
        Their known parameters.
    calibration_variance
        Of the logit of each item for a system of middling ability, shape (n_items,).
    families
        The number of each system's family, 0 and up, shape (n_systems,).
    """

    responses: Array
    items: ItemParameters
    calibration_variance: Array
    families: NDArray[np.intp]

    def slopes(self, theta: Array, tau: float, omega: float) -> Slopes:
        """Value and derivatives at these abilities and standard deviations; a part of the items after the other."""
        n_parts = max(1, -(-self.responses.size * GRID.size // CELLS))
        parts = [self._slopes(theta, tau, omega, p) for p in np.array_split(np.arange(self.items.n_items), n_parts)]
        return Slopes(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _slopes(
        self, theta: Array, tau: float, omega: float, part: NDArray[np.intp]
    ) -> tuple[Array, Array, Array, Array]:
        """Arrays of shape (n_systems or n_families, n_items, n_nodes), the shift of a node being t_j + w_jf."""
        x, a, c = self.responses[:, part, None], self.items.discrimination[part], self.items.guessing[part, None]
        sign, observed = np.where(x == 1, 1.0, -1.0), ~np.isnan(x)
        s = logistic(sign * ((theta[:, None] * a + self.items.intercept[part])[:, :, None] + GRID))
        p = np.where(x == 1, c, 0.0) + (1 - c) * s
        rate = (1 - c) * s * (1 - s) / p
        first = observed * sign * a[:, None] * rate
        second = observed * a[:, None] ** 2 * (rate * (1 - 2 * s) - rate**2)
        family = self.families if omega else np.zeros_like(self.families)  # without shifts of their own all are one
        value = np.tensordot(np.eye(family.max() + 1)[family].T, observed * np.log(p), 1)
        highest, kernel = value.max(axis=2, keepdims=True), family_kernel(omega)
        own = np.exp(value - highest)
        smooth = np.maximum(own @ kernel.T, LOWEST)
        log_prior = np.log(np.maximum(grid_weights(tau**2 + self.calibration_variance[part]), LOWEST))
        joint = log_prior + (np.log(smooth) + highest).sum(axis=0)
        total = logsumexp(joint, axis=1)
        q = np.exp(joint - total[:, None])
        within = (own * ((q / smooth) @ kernel))[family]  # posterior of the whole shift
        mean, curved = (np.einsum("sjk,sjk->js", each, within) for each in (first, second))
        products = (first * within).transpose(1, 0, 2) @ first.transpose(1, 2, 0)
        if omega:  # systems of two families have the item's shift alone in common
            given = (own[family] * first) @ kernel.T / smooth[family]
            apart = (given * q).transpose(1, 0, 2) @ given.transpose(1, 2, 0)
            products = np.where(family[:, None] == family, products, apart)
        hessian = products - mean[:, :, None] * mean[:, None, :]
        hessian[:, np.arange(len(theta)), np.arange(len(theta))] += curved
        return total, mean, hessian, q

    def mode(self, tau: float, omega: float, sigma: float, *, start: Array) -> Mode:
        """Newton's method for abilities with the prior N(m, sigma^2) and m next to unknown."""
        n, share = len(start), MEAN_DEVIATION**2 / (sigma**2 + len(start) * MEAN_DEVIATION**2)
        prior = (np.eye(n) - share) / sigma**2
        at = lru_cache(maxsize=2)(lambda theta: self.slopes(np.array(theta), tau, omega))
        theta = minimize(
            lambda x: 0.5 * x @ prior @ x - at(tuple(x)).log_likelihood.sum(),
            start,
            jac=lambda x: prior @ x - at(tuple(x)).gradient.sum(axis=0),
            hess=lambda x: prior - at(tuple(x)).hessian.sum(axis=0),
            method="trust-exact",
            options={
                "gtol": TOLERANCE * self.items.n_items,
                "maxiter": MOST_STEPS,
                "initial_trust_radius": FIRST_RADIUS,
            },
        ).x
        slopes = at(tuple(theta))
        precision = prior - slopes.hessian.sum(axis=0)
        lost = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(prior)[1]
        evidence = slopes.log_likelihood.sum() - 0.5 * (theta @ prior @ theta + lost)
        return Mode(theta, precision, float(evidence), slopes)


def grid_weights(variance: Array) -> Array:
    """Weights of the grid's nodes for N(0, variance), shape (n, n_nodes)."""
    variance = np.asarray(variance, dtype=np.float64)[:, None]
    weights = np.exp(-0.5 * GRID**2 / np.maximum(variance, FEW))
    weights /= weights.sum(axis=1, keepdims=True)
    near = variance / (2 * STEP**2) * (np.abs(np.abs(GRID) - STEP) < STEP / 2)
    three = near + (1 - variance / STEP**2) * (np.abs(GRID) < STEP / 2)
    return np.asarray(np.where(variance < FEW, three, weights))


def family_kernel(omega: float) -> Array:
    """Weights of a family's whole shift given the item's, rows sum to 1, shape (n_nodes, n_nodes)."""
    middle = GRID.size // 2
    apart = np.abs(np.arange(GRID.size)[:, None] - np.arange(GRID.size))
    kernel = np.append(grid_weights(np.array([omega**2]))[0, middle:], np.zeros(middle))[apart]
    return np.asarray(kernel / kernel.sum(axis=1, keepdims=True))
