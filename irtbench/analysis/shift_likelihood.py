"""Likelihood of a few systems' responses to items of known parameters that are each shifted for the systems.

Item j has the logit a_j theta_s + d_j + t_j + w_jf for system s of family f. The shift t_j ~ N(0, tau^2 + v_j) is the
item's own, with v_j the calibration error of the known parameters; w_jf ~ N(0, omega^2) is what the systems of one
family share beyond it. Shifts are integrated out on a grid, abilities by Laplace's approximation (NumPy only).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, logsumexp

from irtbench.models.item_parameters import ItemParameters

STEP, BOUND = 0.1, 6.0  # of the grid of shifts, in logits
GRID = np.arange(-round(BOUND / STEP), round(BOUND / STEP) + 1) * STEP
FEW = 0.4 * STEP**2  # a variance below this stands on three nodes, which have it exactly
LOWEST = -700.0  # log weight of a node without mass
MEAN_DEVIATION = 10.0  # of the prior of the systems' mean ability: next to flat
CELLS = 2**23  # systems x items x nodes worked on at once
MOST_STEPS, TOLERANCE = 50, 1e-8

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
        Which systems belong together, as a number for each, shape (n_systems,); None where each stands alone.
    """

    responses: Array
    items: ItemParameters
    calibration_variance: Array
    families: NDArray[np.int64] | None = None

    @cached_property
    def members(self) -> Sequence[NDArray[np.intp]]:
        """The systems of each family."""
        if self.families is None:
            return [np.array([k]) for k in range(len(self.responses))]
        return [np.flatnonzero(self.families == family) for family in np.unique(self.families)]

    def slopes(self, theta: Array, tau: float, omega: float) -> Slopes:
        """Value and derivatives at these abilities and standard deviations; a part of the items after the other."""
        n_systems, n_items = self.responses.shape
        n_parts = max(1, -(-n_systems * n_items * GRID.size // CELLS))
        parts = [self._slopes(theta, tau, omega, part) for part in np.array_split(np.arange(n_items), n_parts)]
        return Slopes(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _slopes(
        self, theta: Array, tau: float, omega: float, part: NDArray[np.intp]
    ) -> tuple[Array, Array, Array, Array]:
        a, c = self.items.discrimination[part], self.items.guessing[part]
        z = theta[:, None] * a + self.items.intercept[part]
        value, first, second = log_density(self.responses[:, part, None], z[:, :, None] + GRID, c[:, None])
        first, second = first * a[:, None], second * a[:, None] ** 2
        log_prior = np.log(np.maximum(grid_weights(tau**2 + self.calibration_variance[part]), np.exp(LOWEST)))
        if omega == 0:
            joint = log_prior + value.sum(axis=0)
            total = logsumexp(joint, axis=1)
            q = np.exp(joint - total[:, None])
            mean, curved = (np.einsum("sjk,jk->js", each, q) for each in (first, second))
            by_item = first.transpose(1, 0, 2)
            products = (by_item * q[:, None, :]) @ by_item.transpose(0, 2, 1)
        else:
            total, q, mean, curved, products = self._by_family(log_prior, value, first, second, omega)
        hessian = products - mean[:, :, None] * mean[:, None, :]
        each = np.arange(len(theta))
        hessian[:, each, each] += curved
        return total, mean, hessian, q

    def _by_family(
        self, log_prior: Array, value: Array, first: Array, second: Array, omega: float
    ) -> tuple[Array, Array, Array, Array, Array]:
        """The same with a shift of its own for each family, which is integrated out given the item's."""
        kernel = family_kernel(omega)
        joint = log_prior.copy()
        own, smoothed = [], []
        for members in self.members:
            log_own = value[members].sum(axis=0)
            highest = log_own.max(axis=1, keepdims=True)
            own.append(np.exp(log_own - highest))
            smoothed.append(np.maximum(own[-1] @ kernel.T, 1e-300))
            joint += np.log(smoothed[-1]) + highest
        total = logsumexp(joint, axis=1)
        q = np.exp(joint - total[:, None])
        n_systems, n_items = value.shape[:2]
        mean, curved = np.zeros((2, n_items, n_systems))
        given = np.zeros((n_items, n_systems, q.shape[1]))  # mean derivative given the item's shift
        for members, like, smooth in zip(self.members, own, smoothed, strict=True):
            for s in members:
                given[:, s] = (like * first[s]) @ kernel.T / smooth
        products = (given * q[:, None, :]) @ given.transpose(0, 2, 1)
        for members, like, smooth in zip(self.members, own, smoothed, strict=True):
            within = like * ((q / smooth) @ kernel)  # posterior of the family's whole shift
            mean[:, members] = np.einsum("sjk,jk->js", first[members], within)
            curved[:, members] = np.einsum("sjk,jk->js", second[members], within)
            by_item = first[members].transpose(1, 0, 2)
            place = np.ix_(np.arange(n_items), members, members)
            products[place] = (by_item * within[:, None, :]) @ by_item.transpose(0, 2, 1)
        return total, q, mean, curved, products

    def mode(self, tau: float, omega: float, sigma: float, *, start: Array) -> Mode:
        """Newton's method for abilities with the prior N(m, sigma^2) and m next to unknown."""
        theta, prior = start, ability_precision(len(start), sigma)

        def at(values: Array) -> tuple[Slopes, float]:
            found = self.slopes(values, tau, omega)
            return found, float(found.log_likelihood.sum() - 0.5 * values @ prior @ values)

        slopes, value = at(theta)
        for _ in range(MOST_STEPS):
            gradient = slopes.gradient.sum(axis=0) - prior @ theta
            curvature = slopes.hessian.sum(axis=0)
            precision = prior - curvature
            step = np.linalg.solve(safe(precision, prior), gradient)
            if gradient @ step < TOLERANCE:
                break
            size = 1.0
            while True:
                slopes, reached = at(theta + size * step)
                if reached >= value or size < 1e-4:
                    break
                size /= 2
            theta, value = theta + size * step, reached
        precision = prior - slopes.hessian.sum(axis=0)
        _, log_determinant = np.linalg.slogdet(safe(precision, prior))
        _, of_prior = np.linalg.slogdet(prior)
        return Mode(theta, precision, value + 0.5 * float(of_prior - log_determinant), slopes)


def log_density(x: Array, z: Array, c: Array) -> tuple[Array, Array, Array]:
    """Log-probability of responses at logits z, and its first and second derivative by z; zero where x is missing."""
    s = expit(z)
    wrong = np.log1p(-c) + log_expit(-z), -s, -s * (1 - s)
    if np.any(c > 0):
        p = c + (1 - c) * s
        rate = (1 - c) * s * (1 - s) / p
        right = np.log(p), rate, rate * (1 - 2 * s) - rate**2
    else:
        right = log_expit(z), 1 - s, wrong[2]
    observed, correct = ~np.isnan(x), x == 1
    value, first, second = (np.where(correct, r, w) * observed for r, w in zip(right, wrong, strict=True))
    return value, first, second


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
    n = GRID.size
    (around,) = grid_weights(np.array([omega**2]))
    apart = np.abs(np.arange(n)[:, None] - np.arange(n))
    middle = n // 2
    kernel = np.where(apart <= middle, around[np.minimum(apart + middle, n - 1)], 0.0)
    return np.asarray(kernel / kernel.sum(axis=1, keepdims=True))


def ability_precision(n_systems: int, sigma: float) -> Array:
    """Inverse of sigma^2 I + MEAN_DEVIATION^2 1 1', the covariance of abilities about an unknown mean."""
    share = MEAN_DEVIATION**2 / (sigma**2 + n_systems * MEAN_DEVIATION**2)
    return np.asarray((np.eye(n_systems) - share) / sigma**2)


def safe(precision: Array, prior: Array) -> Array:
    """The precision, or where it is not positive definite that of the prior beside its positive part."""
    values, vectors = np.linalg.eigh(precision)
    if values[0] > 0:
        return precision
    return np.asarray((vectors * np.maximum(np.abs(values), 1e-3)) @ vectors.T)
