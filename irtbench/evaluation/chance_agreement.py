"""Agreement beyond chance: Fleiss' kappa, Krippendorff's alpha and Gwet's AC1 from counts, with their errors.

Each coefficient is a function of sums over items, so that its value without one item, or with items drawn again, takes
no second pass over the answers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from irtbench.data.input_error import InputError
from irtbench.data.shown import Figures
from irtbench.evaluation.proportion import check_level

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Coefficient:
    """A coefficient of agreement as a function of sums over items.

    Parameters
    ----------
    name
        As people call it.
    terms
        What an item adds to the sums, from the counts of shape (n_items, n_categories) to shape (n_used, n_terms):
        items that say nothing are left out.
    value
        The coefficient from the sums, shape (..., n_terms) to (...); NaN where it is undefined.
    """

    name: str
    terms: Callable[[NDArray[np.int64]], Array]
    value: Callable[[Array], Array]


@dataclass(frozen=True)
class CoefficientWithError(Figures):
    """A coefficient of agreement, the items being a sample of those that could have been asked.

    Parameters
    ----------
    value, standard_error
        The coefficient and its error; NaN where undefined.
    lower, upper, level
        Interval and its nominal coverage.
    """

    value: float
    standard_error: float
    lower: float
    upper: float
    level: float


def fleiss_kappa(counts: NDArray[np.int64]) -> float:
    """Fleiss' kappa for any number of answers an item.

    kappa = (P - P_e) / (1 - P_e). With n_ik answers k to item i and n_i in all: P = mean over items with n_i >= 2 of
    sum_k n_ik (n_ik - 1) / (n_i (n_i - 1)), the chance that two answers to an item agree; P_e = sum_k p_k^2;
    p_k = mean over items with n_i >= 1 of n_ik / n_i.

    With equally many answers an item this is Fleiss (1971, doi:10.1037/h0031619), else its generalisation by Gwet
    (2014, Handbook of Inter-Rater Reliability, 4th ed., ch. 2). NaN with a warning if all answers are the same
    (0 / 0) or no item has two.

    Parameters
    ----------
    counts
        Answers of each category to each item, shape (n_items, n_categories).

    Examples
    --------
    >>> fleiss_kappa(np.array([[2, 0], [0, 2], [1, 1], [1, 1]]))
    0.0
    """
    return _value(counts, KAPPA)


def category_kappas(counts: NDArray[np.int64]) -> Array:
    """Fleiss' kappa of each category against all others taken together, shape (n_categories,).

    kappa_k = 1 - mean_i[n_ik (n_i - n_ik) / (n_i (n_i - 1))] / (p_k (1 - p_k)), in the terms of ``fleiss_kappa``,
    which is the mean of these with weights p_k (1 - p_k). NaN for a category that holds no answer, or all.

    Examples
    --------
    >>> category_kappas(np.array([[2, 0, 0], [0, 2, 0], [1, 1, 0], [1, 1, 0]])).tolist()
    [0.0, 0.0, nan]
    """
    n = counts.sum(axis=1, keepdims=True)
    answered, paired = n[:, 0] >= 1, n[:, 0] >= 2
    unknown = np.full(counts.shape[1], np.nan)
    if not paired.any():
        return unknown
    observed = ((counts * (n - counts))[paired] / (n * (n - 1))[paired]).mean(axis=0)
    share = (counts[answered] / n[answered]).mean(axis=0)
    expected = share * (1 - share)
    return 1 - np.divide(observed, expected, out=unknown, where=expected > 0)


def krippendorff_alpha(counts: NDArray[np.int64]) -> float:
    """Krippendorff's alpha for nominal answers and any number of answers an item.

    alpha = 1 - D_o / D_e over the items with n_i >= 2 answers, n of them in all, n_k in category k:
    D_o = (1/n) sum_i (n_i^2 - sum_k n_ik^2) / (n_i - 1),   D_e = (n^2 - sum_k n_k^2) / (n (n - 1)).

    NaN with a warning if all answers are the same (0 / 0) or no item has two (Krippendorff 2018, Content Analysis,
    4th ed., ch. 12).

    Parameters
    ----------
    counts
        Answers of each category to each item, shape (n_items, n_categories).

    Examples
    --------
    >>> krippendorff_alpha(np.array([[2, 0], [0, 2], [1, 1], [1, 1]]))
    0.125
    """
    return _value(counts, ALPHA)


def gwet_ac1(counts: NDArray[np.int64]) -> float:
    """Gwet's AC1 for any number of answers an item.

    AC1 = (P - P_e) / (1 - P_e) with P and p_k of ``fleiss_kappa`` and P_e = sum_k p_k (1 - p_k) / (q - 1) for q
    categories: chance agreement is small where nearly all answers are of one category, so that AC1, unlike kappa, does
    not fall to 0 there (Gwet, 2008, doi:10.1348/000711006X126600).

    NaN with a warning if there is one category only or no item has two answers.

    Parameters
    ----------
    counts
        Answers of each category to each item, shape (n_items, n_categories).

    Examples
    --------
    >>> gwet_ac1(np.array([[2, 0], [0, 2], [1, 1], [1, 1]]))
    0.0
    """
    return _value(counts, GWET_AC1)


def observed_agreement(counts: NDArray[np.int64]) -> float:
    """Chance that two answers to an item are the same, mean over items with two answers; NaN if there is none."""
    sums = _paired_terms(counts).sum(axis=0)
    return float(1 - sums[2] / sums[0]) if sums.size and sums[0] > 0 else np.nan


def coefficient_with_error(
    counts: NDArray[np.int64], coefficient: Coefficient, *, level: float = 0.95
) -> CoefficientWithError:
    """A coefficient with its jackknife standard error over items, and the interval from Student's t.

    se^2 = (n - 1) / n sum_i (T_(i) - mean T_(i))^2 with T_(i) the coefficient without item i; interval T +- t se with
    n - 1 degrees of freedom (Efron & Stein, 1981, doi:10.1214/aos/1176345462). To first order this is Gwet's
    linearised standard error (2014, ch. 5 and 6); chance agreement is taken anew in each. What is undefined is NaN
    without a warning.

    Parameters
    ----------
    counts
        Answers of each category to each item, shape (n_items, n_categories).
    coefficient
        ``KAPPA``, ``ALPHA`` or ``GWET_AC1``.
    level
        Nominal coverage.

    Raises
    ------
    InputError
        If the level lies outside (0, 1).

    Examples
    --------
    >>> counts = np.array([[3, 0], [0, 3], [2, 1], [3, 0]] * 5)
    >>> coefficient_with_error(counts, ALPHA)
    <CoefficientWithError: value 0.6313, standard_error 0.161, lower 0.2944, upper 0.9681, level 0.95>
    """
    check_level(level, where="agreement")
    terms = coefficient.terms(counts)
    total = terms.sum(axis=0)
    value = float(coefficient.value(total))
    n = len(terms)
    if n < 3 or np.isnan(value):
        return CoefficientWithError(value, np.nan, np.nan, np.nan, level)
    without = coefficient.value(total - terms)
    error = float(np.sqrt((n - 1) * without.var()))
    half = float(stdtrit(n - 1, (1 + level) / 2)) * error
    return CoefficientWithError(value, error, value - half, min(value + half, 1.0), level)


def bootstrap_coefficient(
    counts: NDArray[np.int64],
    coefficient: Coefficient,
    *,
    n_resamples: int = 1_000,
    level: float = 0.95,
    rng: np.random.Generator,
) -> CoefficientWithError:
    """A coefficient with the standard deviation and percentile interval over resamples of the items.

    Parameters
    ----------
    counts
        Answers of each category to each item, shape (n_items, n_categories).
    coefficient
        ``KAPPA``, ``ALPHA`` or ``GWET_AC1``.
    n_resamples
        Resamples; those in which the coefficient is undefined are left out.
    level
        Nominal coverage.
    rng
        Draws the items.

    Raises
    ------
    InputError
        If the level lies outside (0, 1) or there are fewer than two resamples.

    Examples
    --------
    >>> counts = np.array([[3, 0], [0, 3], [2, 1], [3, 0]] * 5)
    >>> bootstrap_coefficient(counts, ALPHA, rng=np.random.default_rng(1))
    <CoefficientWithError: value 0.6313, standard_error 0.164, lower 0.2426, upper 0.8687, level 0.95>
    """
    check_level(level, where="agreement")
    if n_resamples < 2:
        raise InputError(f"agreement: n_resamples must be at least 2 but got {n_resamples}")
    terms = coefficient.terms(counts)
    value = float(coefficient.value(terms.sum(axis=0)))
    if np.isnan(value):
        return CoefficientWithError(value, np.nan, np.nan, np.nan, level)
    drawn = rng.multinomial(len(terms), np.full(len(terms), 1 / len(terms)), size=n_resamples)
    values = coefficient.value(drawn @ terms)
    values = values[~np.isnan(values)]
    if len(terms) < 2 or values.size < 2:
        return CoefficientWithError(value, np.nan, np.nan, np.nan, level)
    lower, upper = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return CoefficientWithError(value, float(values.std(ddof=1)), float(lower), float(upper), level)


def _value(counts: NDArray[np.int64], coefficient: Coefficient) -> float:
    """The coefficient; NaN with a warning where it is undefined."""
    value = float(coefficient.value(coefficient.terms(counts).sum(axis=0)))
    if np.isnan(value):
        paired = (counts.sum(axis=1) >= 2).any()
        reason = "all answers are the same" if paired else "no item has two answers"
        warnings.warn(f"{coefficient.name} is undefined: {reason}", RuntimeWarning, stacklevel=3)
    return value


def kappa_by(apart: Array | None = None) -> Coefficient:
    """Fleiss' kappa; weighted where two categories are less apart than wholly, shape (n_categories, n_categories)."""
    return Coefficient("Fleiss' kappa", partial(_paired_terms, apart=apart), partial(_kappa, apart=apart))


def alpha_by(apart: Array | None = None) -> Coefficient:
    """Krippendorff's alpha, of squared distances between categories; None for all alike."""
    return Coefficient("Krippendorff's alpha", partial(_pairable_terms, apart=apart), partial(_alpha, apart=apart))


def gwet_by(apart: Array | None = None) -> Coefficient:
    """Gwet's AC1; weighted AC2."""
    return Coefficient("Gwet's AC1", partial(_paired_terms, apart=apart), partial(_ac, apart=apart))


def _paired_terms(counts: NDArray[np.int64], apart: Array | None = None) -> Array:
    """Of each item with an answer: whether it has two, 1, how far two of its answers are apart, its shares."""
    counts = counts[counts.sum(axis=1) >= 1]
    n = counts.sum(axis=1, keepdims=True)
    paired = n >= 2
    differ = _apart_in_all(counts, apart)[:, None] / np.maximum(n * (n - 1), 1)
    return np.hstack([paired, np.ones_like(n), np.where(paired, differ, 0.0), counts / n])


def _apart_in_all(counts: NDArray[Any], apart: Array | None) -> Array:
    """Sum over ordered pairs of answers, or shares, of how far they are apart: 1 if they differ, unless given."""
    between = 1 - np.eye(counts.shape[-1]) if apart is None else apart
    return np.asarray(((counts @ between) * counts).sum(axis=-1))


def _kappa(sums: Array, apart: Array | None = None) -> Array:
    share = _ratio(sums[..., 3:], sums[..., 1:2])
    return 1 - _ratio(_ratio(sums[..., 2], sums[..., 0]), _apart_in_all(share, apart))


def _ac(sums: Array, apart: Array | None = None) -> Array:
    share = _ratio(sums[..., 3:], sums[..., 1:2])
    q = share.shape[-1]
    weight = 1.0 if apart is None else (1 - apart).sum() / q
    by_chance = weight * (share * (1 - share)).sum(axis=-1) / (q - 1) if q > 1 else np.full(sums.shape[:-1], np.nan)
    return 1 - _ratio(_ratio(sums[..., 2], sums[..., 0]), 1 - by_chance)


def _pairable_terms(counts: NDArray[np.int64], apart: Array | None = None) -> Array:
    """Of each item with two answers: n_i, how far its answers are apart over n_i - 1, and its counts."""
    counts = counts[counts.sum(axis=1) >= 2]
    n = counts.sum(axis=1, keepdims=True)
    return np.hstack([n, _apart_in_all(counts, apart)[:, None] / (n - 1), counts])


def _alpha(sums: Array, apart: Array | None = None) -> Array:
    n, counts = sums[..., 0], sums[..., 2:]
    return 1 - _ratio(_ratio(sums[..., 1], n), _ratio(_apart_in_all(counts, apart), n * (n - 1)))


def _ratio(above: Array, below: Array) -> Array:
    """Above / below, NaN where below is not above 0; a share of 1 is rarely 1 to the last bit."""
    return above / np.where(below > 1e-12, below, np.nan)


KAPPA, ALPHA, GWET_AC1 = kappa_by(), alpha_by(), gwet_by()
