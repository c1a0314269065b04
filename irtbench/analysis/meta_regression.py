"""Regression of estimates with known standard errors on features, with a residual variance and shrunken effects.

    b_j = w_0 + x_j'w + e_j + error_j,   e_j ~ N(0, s^2),   error_j ~ N(0, se_j^2),   w ~ N(0, lambda^2 I) or flat.

The marginal likelihood of s (and lambda) has all else integrated out, which for flat effects is REML (NumPy only).
Errors that go together are independent along the axes of their covariance matrix, and a residual that is alike for all
items is so along any axes: the regression is one of what lies along these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, cho_factor, cho_solve
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import chdtri

from irtbench.data.shown import Shown

Array = NDArray[np.float64]
SMALLEST, LARGEST = 1e-3, 1e2  # of s and lambda, times the standard deviation of the estimates


@dataclass(frozen=True, eq=False)
class Effects(Shown, columns="term=terms, effect, se, lower, upper"):
    """Base of results with effects of an intercept and of features, which have a row each in their table.

    Parameters
    ----------
    terms
        ``intercept`` and the features.
    effect, se, lower, upper
        Of each, shape (n_terms,).
    """

    terms: tuple[str, ...]
    effect: Array
    se: Array
    lower: Array
    upper: Array


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates and their errors.

    Parameters
    ----------
    values
        b_j, shape (n_items,).
    sd
        Standard deviations of the errors along the axes, shape (n_items,).
    axes
        Orthonormal columns, shape (n_items, n_items); None where each estimate is an axis of its own.
    """

    values: Array
    sd: Array
    axes: Array | None = None

    @classmethod
    def of_covariance(cls, values: Array, covariance: Array) -> Estimates:
        """With errors of this covariance matrix; a variance that rounding made negative is 0."""
        variances, axes = np.linalg.eigh(covariance)
        return cls(values, np.sqrt(variances.clip(min=0)), axes)

    def along(self, matrix: Array) -> Array:
        """Rows of the items as rows of the axes."""
        return matrix if self.axes is None else self.axes.T @ matrix

    @property
    def variances(self) -> Array:
        """Of each estimate's error."""
        return self.sd**2 if self.axes is None else self.axes**2 @ self.sd**2

    def drawn(self, expected: Array, residual: float, rng: np.random.Generator) -> Estimates:
        """The same of values drawn about others with a residual of this standard deviation, and of errors."""
        away = rng.normal(0, np.sqrt(residual**2 + self.sd**2))
        return replace(self, values=expected + (away if self.axes is None else self.axes @ away))

    def select(self, places: NDArray[np.intp]) -> Estimates:
        """Those of some items."""
        if self.axes is None:
            return Estimates(self.values[places], self.sd[places])
        rows = self.axes[places]
        return Estimates.of_covariance(self.values[places], (rows * self.sd**2) @ rows.T)


@dataclass(frozen=True, eq=False)
class MetaRegression:
    """What was found.

    Parameters
    ----------
    coefficients
        w_0 and the effects of the columns, shape (n_columns + 1,).
    covariance
        Theirs; of shrunken effects the posterior's.
    residual_sd
        s.
    residual_lower, residual_upper
        Of s, where the marginal likelihood falls by half the 95% point of chi-square with 1 df, lambda staying; NaN
        where they were not asked for.
    effect_sd
        lambda, of effects of columns as they are given; infinite where they are flat.
    log_likelihood
        Marginal.
    """

    coefficients: Array
    covariance: Array
    residual_sd: float
    effect_sd: float
    log_likelihood: float
    residual_lower: float = float("nan")
    residual_upper: float = float("nan")

    def predicted(self, columns: Array) -> tuple[Array, Array]:
        """Mean and variance of the true values of new items, s^2 + x'Vx."""
        x = with_intercept(columns)
        spread = np.einsum("jp,pq,jq->j", x, self.covariance, x)
        return x @ self.coefficients, self.residual_sd**2 + spread


def with_intercept(columns: Array) -> Array:
    """The columns after one of ones."""
    return np.concatenate([np.ones((len(columns), 1)), columns], axis=1)


def meta_regression(
    estimates: Estimates,
    columns: Array,
    *,
    shrink: bool = False,
    near: MetaRegression | None = None,
    interval: bool = False,
) -> MetaRegression:
    """Fit by the largest marginal likelihood."""
    # as many columns as items suffice: rotating features leaves equal prior variances of their effects as they are
    many = columns.shape[1] > len(columns)
    rotation = np.linalg.svd(columns, full_matrices=False)[2].T if many else np.eye(columns.shape[1])
    x = estimates.along(with_intercept(columns @ rotation))
    along, sd = estimates.along(estimates.values), estimates.sd
    scale = max(float(np.std(estimates.values)), 1e-6)
    bounds = [(np.log(SMALLEST * scale), np.log(LARGEST * scale))] * (2 if shrink else 1)

    def negative(logs: Array) -> float:
        return -_fitted(along, sd, x, float(np.exp(logs[0])), float(np.exp(logs[1])) if shrink else np.inf)[1]

    if shrink:
        starts = [scale * np.array([share, share / np.sqrt(x.shape[1])]) for share in (0.7, 0.05)]
        if near is not None:
            starts = [np.maximum([near.residual_sd, near.effect_sd], 2 * SMALLEST * scale)]
        found = (minimize(negative, np.log(start), bounds=bounds, options={"ftol": 1e-7}) for start in starts)
        logs = min(found, key=lambda each: float(each.fun)).x
    else:
        logs = [minimize_scalar(lambda log: negative(np.array([log])), bounds=bounds[0], method="bounded").x]
    residual, effect = float(np.exp(logs[0])), float(np.exp(logs[1])) if shrink else np.inf
    residual = residual if residual >= 2 * SMALLEST * scale else 0.0
    coefficients, value, precision = _fitted(along, sd, x, max(residual, 1e-9 * scale), effect)
    back = block_diag(1.0, rotation)
    covariance = back @ np.linalg.inv(precision) @ back.T
    if many:  # what the items say nothing of keeps its prior
        covariance[1:, 1:] += effect**2 * (np.eye(len(rotation)) - rotation @ rotation.T)
    ends = _ends(lambda s: _fitted(along, sd, x, s, effect)[1], residual, bounds[0]) if interval else ()
    return MetaRegression(back @ coefficients, covariance, residual, effect, value, *ends)


def _ends(level: Callable[[float], float], best: float, bounds: tuple[float, float]) -> tuple[float, float]:
    """Where a likelihood of s has fallen by half the 95% point of chi-square; 0 where it has not on the way down."""
    least, most = np.exp(bounds)
    top = max(best, least)
    height = level(top) - 0.5 * float(chdtri(1, 0.05))

    def above(log: float) -> float:
        return level(float(np.exp(log))) - height

    lower = float(np.exp(brentq(above, bounds[0], np.log(top)))) if top > least and above(bounds[0]) < 0 else 0.0
    return lower, float(np.exp(brentq(above, np.log(top), bounds[1]))) if above(bounds[1]) < 0 else float(most)


def _fitted(estimates: Array, errors: Array, x: Array, residual: float, effect: float) -> tuple[Array, float, Array]:
    """Coefficients, the log marginal likelihood and the coefficients' precision at these standard deviations."""
    weight = 1 / (residual**2 + errors**2)
    weighted = x.T * weight
    precision = weighted @ x
    prior = np.append(0.0, np.full(x.shape[1] - 1, effect**-2))
    precision[np.diag_indices_from(precision)] += prior
    root = cho_factor(precision, lower=True)
    coefficients = cho_solve(root, weighted @ estimates)
    rest = estimates - x @ coefficients
    value = 0.5 * np.log(weight).sum() - np.log(np.diagonal(root[0])).sum()
    value -= 0.5 * (weight @ rest**2 + prior @ coefficients**2)
    if np.isfinite(effect):
        value -= (x.shape[1] - 1) * np.log(effect)
    return coefficients, float(value), precision
