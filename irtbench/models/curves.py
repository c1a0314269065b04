"""Curves of items with known parameters: P, its logarithms, scores, information, and responses drawn (NumPy only).

P(x = 1 | theta) = c + (u - c) s(z),   z = a theta + d,   s(z) = 1 / (1 + exp(-z))              (Barton & Lord, 1981)

with a lower asymptote c and an upper one u: 1 where the ablest are always right (Birnbaum, 1968). The
formulas of `Curve` are for torch tensors too (`pyro_model.tensors`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, numbered
from irtbench.models.category_parameters import CategoryDerivatives
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, as_parameters

Values = TypeVar("Values", bound=Any)  # an array or a tensor: what has the four operations


@dataclass(frozen=True, eq=False)
class Curve(Generic[Values]):
    """P at some z, and its derivatives, each computed when it is first asked for.

    In names of derivatives ``log_p`` is log P and ``log_q`` log(1 - P), ``z`` the linear predictor, ``c`` guessing
    and ``v`` the logit of u: ``log_p_zz`` is the second derivative of log P by z. By the chain rule a
    derivative by theta is a times, and one by the slope theta times, that by z; by the intercept it is the same. All
    have the shape of z, c and u broadcast.

    Shares of P are taken first and multiplied then, so that nothing is 0 / 0 where P nears 0; only the derivatives of
    log P by c itself grow there, as 1 / P.

    Parameters
    ----------
    z
        Linear predictor a theta + d.
    c
        Guessing in [0, 1), a shape that broadcasts against z.
    logistic
        The logistic function, above 0 everywhere, however negative its argument.
    u
        Upper asymptote in (c, 1], a shape that broadcasts against z.
    """

    z: Values
    c: Values
    logistic: Callable[[Values], Values]
    u: Values = 1.0  # type: ignore[assignment]

    @cached_property
    def s(self) -> Values:
        """Logistic function of z."""
        return self.logistic(self.z)

    @cached_property
    def t(self) -> Values:
        """1 - s: logistic function of -z."""
        return self.logistic(-self.z)

    @cached_property
    def slip(self) -> Values:
        """The height of the curve, u - c."""
        return -self.c + self.u

    @cached_property
    def p(self) -> Values:
        """P, the probability of a right response."""
        return self.c + self.slip * self.s

    @cached_property
    def q(self) -> Values:
        """1 - P = 1 - u + (u - c) t, without loss of digits where P is near 1."""
        return (1 - self.u) + self.slip * self.t

    @cached_property
    def variance(self) -> Values:
        """P (1 - P), the variance of a response."""
        return self.p * self.q

    @cached_property
    def p_z(self) -> Values:
        """P_z = (u - c) s t."""
        return self.slip * self.s * self.t

    @cached_property
    def p_zz(self) -> Values:
        """P_zz = P_z (t - s)."""
        return self.p_z * (self.t - self.s)

    # --- shares of P and of 1 - P ---

    @cached_property
    def known(self) -> Values:
        """(u - c) s / P: the share of right responses that are not guessed."""
        return self.slip * self.s / self.p

    @cached_property
    def guessed(self) -> Values:
        """C / P: the share of right responses that are."""
        return self.c / self.p

    @cached_property
    def missed(self) -> Values:
        """(u - c) t / (1 - P): the share of wrong responses that are no slips, 1 where u = 1."""
        return self.slip * self.t / self.q

    @cached_property
    def weight(self) -> Values:
        """P_z / (P (1 - P)) = missed s / P, 1 in the 2PL; times the slope a response's weight in the score of theta."""
        return self.missed * self.s / self.p

    # --- log P and log(1 - P) by z: the score of a response ---

    @cached_property
    def log_p_z(self) -> Values:
        """P_z / P = known t."""
        return self.known * self.t

    @cached_property
    def log_q_z(self) -> Values:
        """-P_z / (1 - P) = -missed s."""
        return -self.missed * self.s

    @cached_property
    def log_p_zz(self) -> Values:
        """(known t)(guessed t - s): positive, hence log P not concave, where most is guessed."""
        return self.log_p_z * (self.guessed * self.t - self.s)

    @cached_property
    def log_q_zz(self) -> Values:
        """-missed s (t - (1 - missed) s)."""
        return self.log_q_z * (self.t - (1 - self.missed) * self.s)

    # --- by c ---

    @cached_property
    def log_p_c(self) -> Values:
        """P_c / P = t / P."""
        return self.t / self.p

    @cached_property
    def log_q_c(self) -> Values:
        """-t / (1 - P)."""
        return -self.t / self.q

    # --- by the logit v of u, du / dv = u (1 - u) ---

    @cached_property
    def log_p_v(self) -> Values:
        """U (1 - u) s / P."""
        return self.u * (1 - self.u) * self.s / self.p

    @cached_property
    def log_q_v(self) -> Values:
        """-u (1 - u) s / (1 - P)."""
        return -self.u * (1 - self.u) * self.s / self.q

    # --- expected information of one response ---

    @cached_property
    def information_zz(self) -> Values:
        """P_z^2 / (P (1 - P)); times a^2 the information on theta."""
        return -self.log_p_z * self.log_q_z


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
    """P and its derivatives at each ability, shape (n_theta, n_items)."""
    return items_curve(linear_predictor(theta, items), items)


def items_curve(z: NDArray[Real], items: ItemParameters) -> Curve[NDArray[Real]]:
    """P and its derivatives of these items at linear predictors, in their precision, shape (..., n_items)."""
    upper: Any = 1.0 if items.upper_asymptote is None else items.upper_asymptote.astype(z.dtype)
    return Curve(z, items.guessing.astype(z.dtype), logistic, upper)


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
        second = weighted_by_outcome(values, trials, self.curve.log_p_zz, self.curve.log_q_zz)
        return -(self.discrimination**2) * second

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


def simulate_responses(
    theta: ArrayLike,
    items: ParametersLike,
    *,
    rng: np.random.Generator,
    missing: float = 0.0,
    trials: int | NDArray[np.int64] = 1,
    respondent_ids: Sequence[str] | None = None,
) -> ResponseMatrix:
    """Draw responses of people with these abilities.

    Each is missing, completely at random, with probability ``missing``. With several ``trials`` of every item each
    counts the right ones, and is missing as a whole; an array of shape (n_respondents, n_items) has the number of each,
    0 for none. Of items in categories 0, ..., m each is k of m. Respondents are named ``r1 ...`` unless
    ``respondent_ids`` is given.

    Raises
    ------
    InputError
        If ``missing`` lies outside [0, 1], there are fewer than one trial of every item, numbers of trials of another
        shape, or several of items in categories.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.0, 1.5], [-1.0, 1.0])
    >>> irtbench.simulate_responses([-1.0, 0.0, 1.0], items, rng=np.random.default_rng(1)).table()
      respondent_id  item1  item2
    0            r1    0.0    0.0
    1            r2    1.0    0.0
    2            r3    1.0    1.0
    """
    items = as_parameters(items, upper_asymptotes=True, categories=True)
    if not 0 <= missing <= 1:
        raise InputError(f"simulation: missing must be between 0 and 1 but got {missing:g}")
    each = np.asarray(trials)
    if items.categories is not None:
        if (each != 1).any():
            raise InputError("simulation: items in categories are tried once; expected trials 1")
        drawn = items.categories.draw(theta, rng=rng).astype(np.float64)
        drawn[rng.random(drawn.shape) < missing] = np.nan
        return ResponseMatrix(
            drawn, _named(drawn, respondent_ids), items.item_ids, np.where(np.isnan(drawn), 0, items.categories.top)
        )
    p = icc(theta, items)
    if each.ndim and each.shape != p.shape:
        raise InputError(f"simulation: numbers of trials of shape {each.shape} for responses of {p.shape}")
    if (each < (0 if each.ndim else 1)).any():
        raise InputError(f"simulation: expected at least one trial of an item but got {each.min()}")
    single = not each.ndim and trials == 1
    values = (rng.random(p.shape) < p if single else rng.binomial(trials, p)).astype(np.float64)
    values[np.broadcast_to(each == 0, p.shape)] = np.nan
    if missing > 0:
        values[rng.random(p.shape) < missing] = np.nan
    tried = None if single else np.where(np.isnan(values), 0, trials)
    return ResponseMatrix(values, _named(values, respondent_ids), items.item_ids, tried)


def _named(values: NDArray[np.float64], respondent_ids: Sequence[str] | None) -> tuple[str, ...]:
    """The respondents' names, r1, r2, ... unless given."""
    return numbered("r", len(values)) if respondent_ids is None else tuple(respondent_ids)
