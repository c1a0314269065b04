"""Agreement: how far people give the same answer to an item, among themselves, with the key, and beyond chance.

Each coefficient of agreement beyond chance (Fleiss' kappa, Krippendorff's alpha and Gwet's AC1 from counts) is a
function of sums over items, so that its value without one item, or with items drawn again, takes no second pass over
the answers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from irtbench.data.given import AnswersLike, ItemsLike, as_answers, as_items
from irtbench.data.grading import NormalisationRule, normalise_answers, normalise_text
from irtbench.data.input_error import InputError, demand_choice
from irtbench.data.responses import resolve_duplicates
from irtbench.data.shown import Drawn, Figures
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
    without a warning; so is an error of 0, where all items agree alike: that says nothing of others.

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
    error = error if error > 1e-9 else np.nan
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
    if np.ptp(values) < 1e-9:
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


EmptyAnswer = Literal["missing", "category"]


@dataclass(frozen=True)
class Agreement(Figures, Drawn):
    """Agreement of respondents on a set of items.

    Parameters
    ----------
    n_items, n_respondents, n_answers
        Items with at least one answer, respondents with at least one, and answers counted.
    majority
        Share of items on which more than half of the answers are the same one, whichever that is.
    supermajority
        Share of items on which at least two thirds are.
    key_majority, key_supermajority
        Shares of items on which more than half, at least two thirds, of the answers are the item's key; None where
        no key is known.
    proportion_correct
        Share of the answers that are the item's key; None where no key is known.
    fleiss_kappa
        Agreement beyond chance, see ``fleiss_kappa``.
    categories
        The answers that occur, sorted.
    category_kappa
        Agreement beyond chance on each category against all others, see ``category_kappas``.
    krippendorff_alpha
        Agreement beyond chance, see ``krippendorff_alpha``.
    observed_agreement
        Chance that two answers to an item are the same, mean over items.
    gwet_ac1
        Agreement beyond chance, see ``gwet_ac1``.
    fleiss_se, krippendorff_se, gwet_se
        Standard errors of the three, the items being a sample, see ``coefficient_with_error``.
    fleiss_lower, fleiss_upper, krippendorff_lower, krippendorff_upper, gwet_lower, gwet_upper
        Their intervals.
    level
        Nominal coverage of the intervals.
    """

    n_items: int
    n_respondents: int
    n_answers: int
    majority: float
    supermajority: float
    key_majority: float | None
    key_supermajority: float | None
    proportion_correct: float | None
    fleiss_kappa: float
    categories: tuple[str, ...]
    category_kappa: tuple[float, ...]
    krippendorff_alpha: float
    observed_agreement: float
    gwet_ac1: float
    fleiss_se: float
    fleiss_lower: float
    fleiss_upper: float
    krippendorff_se: float
    krippendorff_lower: float
    krippendorff_upper: float
    gwet_se: float
    gwet_lower: float
    gwet_upper: float
    level: float


def agreement(
    answers: AnswersLike,
    *,
    items: ItemsLike | None = None,
    normalise: Sequence[NormalisationRule] = (),
    empty: EmptyAnswer = "missing",
    level: float = 0.95,
) -> Agreement:
    """Agreement over all items.

    Parameters
    ----------
    answers
        Long table ``respondent_id, item_id, answer``; any item may have any number of answers. An item with a single
        answer counts for the shares but says nothing on agreement beyond chance.
    items
        Gives the keys, and leaves attention checks out.
    normalise
        Rules applied to answers and keys before they are compared, see ``GradingSettings``.
    empty
        Whether an empty answer is missing or a category of its own.
    level
        Nominal coverage of the intervals.

    Raises
    ------
    InputError
        If a (respondent, item) pair is repeated, an item is not in the item table, or there is no answer; if the
        level lies outside (0, 1).

    Warns
    -----
    RuntimeWarning
        If a statistic is undefined (NaN): no item has two answers, or all answers are the same.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": ["yes", "yes", "no", "yes"], "i2": ["no", "no", "no", "yes"], "i3": ["yes", "no", "no", None]},
    ...     index=["ann", "bob", "cy", "dee"],
    ... )
    >>> found = irtbench.agreement(answers)
    >>> found.majority, round(found.fleiss_kappa, 2), round(found.krippendorff_alpha, 2)
    (1.0, -0.12, 0.0)
    """
    return _agreement(*answers_that_count(answers, items, normalise, empty), level)


def agreement_by_label(
    answers: AnswersLike,
    items: ItemsLike,
    *,
    normalise: Sequence[NormalisationRule] = (),
    empty: EmptyAnswer = "missing",
    level: float = 0.95,
) -> dict[str, Agreement]:
    """Agreement over the items of each label; labels without an answer are left out.

    Parameters, errors and warnings as for ``agreement``.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> answers = pd.DataFrame(
    ...     {"i1": ["yes", "yes", "no", "yes"], "i2": ["no", "no", "no", "yes"], "i3": ["yes", "no", "no", None]},
    ...     index=["ann", "bob", "cy", "dee"],
    ... )
    >>> items = pd.DataFrame({"key": ["yes", "no", "no"], "label": ["a", "a", "b"]}, index=["i1", "i2", "i3"])
    >>> {label: round(found.majority, 2) for label, found in irtbench.agreement_by_label(answers, items).items()}
    {'a': 1.0, 'b': 1.0}
    """
    answers, items = as_answers(answers), as_items(items)
    answers, keys = answers_that_count(answers, items, normalise, empty)
    rows_of = {label: answers[answers["item_id"].isin(members)] for label, members in items.scales().items()}
    return {label: _agreement(rows, keys, level) for label, rows in rows_of.items() if not rows.empty}


def answers_that_count(
    answers: AnswersLike, items: ItemsLike | None, rules: Sequence[NormalisationRule], empty: EmptyAnswer
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Answers that are not to attention checks and not empty, and keys, normalised; errors as for ``agreement``."""
    demand_choice("agreement: empty", empty, EmptyAnswer)
    answers, known = as_answers(answers), None if items is None else as_items(items)
    rows, keys = resolve_duplicates(answers), dict[str, str]()
    if known is not None:
        asked = known.select(list(pd.unique(rows["item_id"])))
        rows = rows[rows["item_id"].isin(asked.scale_items)]
        pairs = zip(known.item_ids, known.key, strict=True)
        keys = {item: normalise_text(key, rules) for item, key in pairs if key is not None}
    rows = rows.assign(answer=normalise_answers(rows["answer"], rules))
    if empty == "missing":
        rows = rows[rows["answer"] != ""]
    if rows.empty:
        raise InputError("agreement: expected at least one answer but there is none")
    return rows, keys


def counts_of(rows: pd.DataFrame) -> tuple[NDArray[np.int64], tuple[str, ...], tuple[str, ...]]:
    """Answers of each category to each item, shape (n_items, n_categories), the items, and the categories sorted."""
    item, item_ids = pd.factorize(rows["item_id"])
    category, categories = pd.factorize(rows["answer"], sort=True)
    counts = np.zeros((len(item_ids), len(categories)), dtype=np.int64)
    np.add.at(counts, (item, category), 1)
    return counts, tuple(map(str, item_ids)), tuple(map(str, categories))


def _agreement(rows: pd.DataFrame, keys: Mapping[str, str], level: float) -> Agreement:
    check_level(level, where="agreement")
    counts, item_ids, categories = counts_of(rows)
    n = counts.sum(axis=1)
    majority, supermajority = _majorities(counts.max(axis=1), n)
    key = pd.Series(item_ids, dtype=object).map(keys)
    keyed = key.notna().to_numpy()
    votes = (counts * (np.array(categories, dtype=object) == key.to_numpy()[:, None])).sum(axis=1)[keyed]
    key_majority, key_supermajority = _majorities(votes, n[keyed]) if keyed.any() else (None, None)
    kappa, alpha, ac1 = (coefficient_with_error(counts, which, level=level) for which in (KAPPA, ALPHA, GWET_AC1))
    return Agreement(
        n_items=len(item_ids),
        n_respondents=rows["respondent_id"].nunique(),
        n_answers=len(rows),
        majority=majority,
        supermajority=supermajority,
        key_majority=key_majority,
        key_supermajority=key_supermajority,
        proportion_correct=float(votes.sum() / n[keyed].sum()) if keyed.any() else None,
        fleiss_kappa=fleiss_kappa(counts),
        categories=categories,
        category_kappa=tuple(category_kappas(counts).tolist()),
        krippendorff_alpha=krippendorff_alpha(counts),
        observed_agreement=observed_agreement(counts),
        gwet_ac1=ac1.value,
        fleiss_se=kappa.standard_error,
        fleiss_lower=kappa.lower,
        fleiss_upper=kappa.upper,
        krippendorff_se=alpha.standard_error,
        krippendorff_lower=alpha.lower,
        krippendorff_upper=alpha.upper,
        gwet_se=ac1.standard_error,
        gwet_lower=ac1.lower,
        gwet_upper=ac1.upper,
        level=level,
    )


def _majorities(votes: NDArray[np.int64], n: NDArray[np.int64]) -> tuple[float, float]:
    """Shares of items on which more than half, and at least two thirds, of n answers are ``votes``."""
    return float((2 * votes > n).mean()), float((3 * votes >= 2 * n).mean())
