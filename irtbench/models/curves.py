"""Item characteristic curves of items with known parameters: P, its logarithms, scores and information (NumPy only).

The formulas stand in `curve_formulas`; here they are taken at abilities, for all items.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit

from irtbench.data.input_error import InputError
from irtbench.models.category_parameters import CategoryDerivatives
from irtbench.models.curve_formulas import Curve, CurveToUpper
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, as_parameters

Real = TypeVar("Real", bound=np.floating[Any])
Array = NDArray[np.float64]


def logistic(z: NDArray[Real]) -> NDArray[Real]:
    """1 / (1 + exp(-z)), no less than the smallest normal number of its precision."""
    return np.maximum(expit(z), np.finfo(z.dtype).tiny)


def curve(z: NDArray[Real], c: NDArray[Real]) -> Curve[NDArray[Real]]:
    """P and its derivatives at these linear predictors, in their precision; c broadcasts against z."""
    return Curve(z, c, logistic)


def log_probabilities(z: Array, c: Array) -> tuple[Array, Array]:
    """Logarithms of P and of 1 - P without underflow; c broadcasts against z.

    log P = log(c + (1 - c) s(z)),  log(1 - P) = log(1 - c) + log s(-z),  with s the logistic function.
    """
    if not c.any():
        near = -np.log1p(np.exp(-np.abs(z)))
        return near + np.minimum(z, 0), near - np.maximum(z, 0)
    log_slip = np.log1p(-c)
    with np.errstate(divide="ignore"):
        log_guess = np.log(c)
    return np.logaddexp(log_guess, log_slip + log_expit(z)), log_slip + log_expit(-z)


def linear_predictor(theta: ArrayLike, items: ItemParameters) -> Array:
    """Z = a theta + d, shape (n_theta, n_items); of items in categories an `InputError`."""
    if items.categories is not None:
        raise InputError(f"item {items.item_ids[0]}: is of categories; expected items that are right or wrong")
    return np.atleast_1d(np.asarray(theta, dtype=np.float64))[:, None] * items.discrimination + items.intercept


def item_curves(theta: ArrayLike, items: ItemParameters) -> Curve[Array]:
    """P and its derivatives at each ability, shape (n_theta, n_items); those by c alone (n_items,)."""
    return items_curve(linear_predictor(theta, items), items)


def items_curve(z: NDArray[Real], items: ItemParameters) -> Curve[NDArray[Real]]:
    """P and its derivatives of these items at linear predictors, in their precision, shape (..., n_items)."""
    c = items.guessing.astype(z.dtype)
    if items.upper_asymptote is None:
        return curve(z, c)
    return CurveToUpper(z, c, logistic, items.upper_asymptote.astype(z.dtype))


def icc(theta: ArrayLike, items: ParametersLike) -> Array:
    """Item characteristic curves: probability of a correct response, shape (n_theta, n_items).

    P = c + (u - c) / (1 + exp(-(a theta + d))),     u = 1 without an upper asymptote      (Birnbaum; Barton & Lord)

    Of items in categories 0, ..., m the expected share of the score, sum of k P(k) / m.

    Examples
    --------
    >>> icc(0.0, ItemParameters.from_difficulty([1.0], [0.0], [0.25])).tolist()
    [[0.625]]
    """
    items = as_parameters(items, upper_asymptotes=True, categories=True)
    if items.categories is not None:
        return items.categories.expected_score(theta) / items.categories.top
    return item_curves(theta, items).p


def log_icc(theta: ArrayLike, items: ItemParameters) -> tuple[Array, Array]:
    """Logarithms of P and of 1 - P, each of shape (n_theta, n_items), without underflow."""
    z = linear_predictor(theta, items)
    if items.upper_asymptote is None:
        return log_probabilities(z, items.guessing)
    found = items_curve(z, items)
    tiny = np.finfo(np.float64).tiny  # without guessing P may be as small as that
    return np.log(np.maximum(found.p, tiny)), np.log(np.maximum(found.q, tiny))


def outcomes(theta: ArrayLike, items: ItemParameters) -> tuple[Array, NDArray[np.int64]]:
    """Logarithms of the probabilities of all outcomes, wrong and right or an item's categories, one item after another.

    Shape (n_theta, n_outcomes of all), and the place of each item's first, shape (n_items,).
    """
    if items.categories is not None:
        return items.categories.log_probabilities(theta), items.categories.first
    log_p, log_q = log_icc(theta, items)
    return np.stack([log_q, log_p], axis=2).reshape(len(log_p), -1), 2 * np.arange(items.n_items)


def share_moments(theta: ArrayLike, items: ItemParameters) -> tuple[Array, Array]:
    """Mean and variance of the share of each item's score: P and P (1 - P), or of k / m; shapes (n_theta, n_items)."""
    if items.categories is not None:
        mean, variance, _ = items.categories.score_moments(theta)
        return mean / items.categories.top, variance / items.categories.top**2
    p = icc(theta, items)
    return p, p * (1 - p)


def information(theta: ArrayLike, items: ParametersLike) -> Array:
    """Fisher information of each item at each ability, shape (n_theta, n_items).

    I = P'^2 / (P (1 - P)); for the 2PL this is a^2 P (1 - P), of items in categories sum of P_k'^2 / P_k. The test
    information is its sum over items (Lord, 1980, ch. 5).

    Examples
    --------
    >>> information(0.0, ItemParameters.from_difficulty([2.0], [0.0])).tolist()
    [[1.0]]
    """
    items = as_parameters(items, upper_asymptotes=True, categories=True)
    if items.categories is not None:
        return items.categories.information(theta)
    return items.discrimination**2 * item_curves(theta, items).information_zz


@dataclass(frozen=True, eq=False)
class AbilityDerivatives:
    """Derivatives of each item's log probabilities by theta; all of shape (n_theta, n_items).

    Parameters
    ----------
    curve
        The curves at the abilities.
    discrimination
        a, shape (n_items,).
    """

    curve: Curve[Array]
    discrimination: Array

    @cached_property
    def right(self) -> Array:
        """Score of a right response, (log P)' = P' / P."""
        return self.discrimination * self.curve.log_p_z

    @cached_property
    def wrong(self) -> Array:
        """Score of a wrong response, (log(1 - P))' = -P' / (1 - P)."""
        return self.discrimination * self.curve.log_q_z

    @cached_property
    def right_second(self) -> Array:
        """(log P)''."""
        return self.discrimination**2 * self.curve.log_p_zz

    @cached_property
    def wrong_second(self) -> Array:
        """(log(1 - P))''."""
        return self.discrimination**2 * self.curve.log_q_zz

    @cached_property
    def information(self) -> Array:
        """Expected information I = P'^2 / (P (1 - P))."""
        return self.discrimination**2 * self.curve.information_zz

    @cached_property
    def curvature(self) -> Array:
        """J = P' P'' / (P (1 - P)) = I a (t - s), of Warm's weighted likelihood."""
        return self.information * self.discrimination * (self.curve.t - self.curve.s)

    def score(self, values: Array, trials: NDArray[np.int64] | None = None) -> Array:
        """Score of each response, x P' / P - (1 - x) P' / (1 - P), shape (n_theta, n_items); 0 where it is missing.

        With trials x is the number right of n, and n - x stands for 1 - x.
        """
        return weighted_by_outcome(values, trials, self.right, self.wrong)

    def observed_information(self, values: Array, trials: NDArray[np.int64] | None = None) -> Array:
        """Minus the second derivative of each response's log probability; 0 where it is missing."""
        return -weighted_by_outcome(values, trials, self.right_second, self.wrong_second)

    def total_score(self, values: Array, trials: NDArray[np.int64] | None) -> Array:
        """Score of each pattern at each ability, shape (n_respondents, n_theta)."""
        counted = self.counted(values, trials)
        correct = np.where(counted > 0, values, 0.0)
        return correct @ self.right.T + (counted - correct) @ self.wrong.T

    @staticmethod
    def counted(values: Array, trials: NDArray[np.int64] | None) -> Array:
        """How often each item's information counts, shape of the values."""
        return (~np.isnan(values) if trials is None else trials).astype(np.float64)


def weighted_by_outcome(values: Array, trials: NDArray[np.int64] | None, right: Array, wrong: Array) -> Array:
    """What right and what wrong responses give, times how many there are of either; 0 where missing."""
    if trials is None:
        return np.where(np.isnan(values), 0.0, np.where(values == 1, right, wrong))
    k = np.nan_to_num(values)
    return k * right + (trials - k) * wrong


def by_ability(theta: ArrayLike, items: ItemParameters) -> AbilityDerivatives | CategoryDerivatives:
    """Derivatives of each item's log probabilities by theta at each ability."""
    if items.categories is not None:
        return CategoryDerivatives.at(items.categories, theta)
    return AbilityDerivatives(item_curves(theta, items), items.discrimination)
