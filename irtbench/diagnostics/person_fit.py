"""Answers that the model does not expect: infit and outfit of items and respondents, lz and lz* (NumPy only)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError, demand_share, refuse_any, refuse_first
from irtbench.data.multiple_testing import adjust
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Drawn, Shown, counted
from irtbench.models.category_parameters import CategoryDerivatives, CategoryParameters
from irtbench.models.curves import icc, item_curves, log_icc
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.theta_posterior import Trials, row_batches, some_rows

Array = NDArray[np.float64]
TINY = np.finfo(np.float64).tiny


def check_items_agree(responses: ResponseMatrix, items: ItemParameters) -> None:
    """Refuse responses and parameters that do not list the same items in the same order."""
    refuse_any((
        (responses.n_items != items.n_items,
         f"diagnostics: {responses.n_items} items in the responses but {items.n_items} parameters"),
        *((True, f"diagnostics: column {k} is {column} in the responses but {item} in the item parameters; "
                 "expected the same items in the same order")
          for k, (column, item) in enumerate(zip(responses.item_ids, items.item_ids, strict=False), start=1)
          if column != item),
    ))  # fmt: skip


def check_theta(theta: NDArray[np.float64], responses: ResponseMatrix) -> NDArray[np.float64]:
    """Return abilities as float64, shape (n_respondents,), after refusing any other shape and any not finite."""
    theta = np.asarray(theta, dtype=np.float64)
    if theta.shape != (responses.n_respondents,):
        raise InputError(f"diagnostics: theta has shape {theta.shape} for {responses.n_respondents} respondents")
    refuse_first(
        ~np.isfinite(theta),
        lambda i: f"diagnostics: theta of respondent {responses.respondent_ids[i]} must be finite but is {theta[i]}",
    )
    return theta


def residuals(values: NDArray[np.float64], theta: NDArray[np.float64], items: ItemParameters) -> NDArray[np.float64]:
    """Observed minus expected response x - P(theta), NaN where missing, shape (n_respondents, n_items)."""
    return values - icc(theta, items)


@np.errstate(invalid="ignore", divide="ignore")
def mean_squares(
    values: NDArray[np.float64],
    theta: NDArray[np.float64],
    items: ItemParameters,
    *,
    over: Literal["respondents", "items"],
    trials: Trials = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Infit and outfit of each item (over respondents) or of each respondent (over items), NaN where none is observed.

    infit = sum (x - P)^2 / sum P (1 - P),  outfit = mean of (x - P)^2 / (P (1 - P))    (Wright & Masters, 1982)

    Of items in categories x is the category, and its mean and variance take the place of P and P (1 - P).
    With x right of n trials n P and n P (1 - P) do. Above 1 on all sides it then says
    that trials of an item are more alike than the model has them (overdispersion).

    Both are 1 in expectation at the true abilities. At estimated ones they are lower: the estimate has followed the
    responses. Outfit is ruled by answers far from what theta lets expect, infit by those near the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> theta = irtbench.estimate_ability(responses, items).theta
    >>> infit, outfit = irtbench.mean_squares(responses.values, theta, items, over="respondents")
    >>> infit.round(2)
    array([0.96, 0.73, 0.79, 0.78, 0.82, 0.69])
    """
    observed, axis = ~np.isnan(values), 0 if over == "respondents" else 1
    if items.categories is not None:
        mean, each, _ = items.categories.score_moments(theta)
        residual = values - mean
    else:
        p, q = map(np.exp, log_icc(theta, items))
        n = np.asarray(observed if trials is None else trials, dtype=np.float64)
        each, residual = n * p * q, values * q - (n - values) * p  # x - n P, of a right response 1 - P to all digits
    variance, squares = np.where(observed, each, 0.0), np.where(observed, residual, 0.0) ** 2
    infit = squares.sum(axis=axis) / variance.sum(axis=axis)
    outfit = (squares / np.maximum(each, TINY)).sum(axis=axis) / observed.sum(axis=axis)
    return infit, outfit


@dataclass(frozen=True, eq=False)
class MeanSquareFit(Shown):
    """Infit and outfit of each item; arrays have shape (n_items,).

    Parameters
    ----------
    item_ids
        The items.
    infit, outfit
        Mean squares, 1 in expectation at the true abilities.
    infit_q, outfit_q
        Their standard deviations under the model.
    n_respondents
        Respondents with a finite ability who answered the item.
    level
        Of the ranges.
    """

    item_ids: tuple[str, ...]
    infit: NDArray[np.float64]
    outfit: NDArray[np.float64]
    infit_q: NDArray[np.float64]
    outfit_q: NDArray[np.float64]
    n_respondents: NDArray[np.int64]
    level: float

    def table(self) -> pd.DataFrame:
        """One row an item: each mean square, its range if the item fits, z, p (two-sided) and p adjusted (Holm)."""
        columns: dict[str, object] = {"item_id": self.item_ids}
        for name in ("infit", "outfit"):
            square, q = getattr(self, name), getattr(self, f"{name}_q")
            z = standardised(square, q)
            p = 2 * ndtr(-np.abs(z))
            lower, upper = (mean_square_at(sign * ndtri((1 + self.level) / 2), q) for sign in (-1, 1))
            columns |= {name: square, f"{name}_lower": lower, f"{name}_upper": upper, f"{name}_z": z}
            columns |= {f"{name}_p": p, f"{name}_p_adjusted": adjust(p)}
        return pd.DataFrame(columns | {"n_respondents": self.n_respondents})

    def in_short(self) -> str:
        """How many items, and how many lie outside of their range."""
        table = self.table()
        outside = [int((~table[name].between(table[f"{name}_lower"], table[f"{name}_upper"])).sum())
                   for name in ("infit", "outfit")]  # fmt: skip
        return f"{counted(len(self.item_ids), 'item')}, outside of the range: infit {outside[0]}, outfit {outside[1]}"


@np.errstate(invalid="ignore", divide="ignore")
def standardised(mean_square: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Z = (MS^(1/3) - 1) 3 / q + q / 3, nearly standard normal if the item fits (Wilson & Hilferty, 1931)."""
    return np.asarray((np.cbrt(mean_square) - 1) * 3 / q + q / 3, dtype=np.float64)


def mean_square_at(z: float, q: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean square that `standardised` makes z of, no less than 0."""
    return np.asarray(np.maximum(1 + (z - q / 3) * q / 3, 0.0) ** 3, dtype=np.float64)


def mean_square_fit(
    responses: ResponsesLike, items: ParametersLike, theta: ArrayLike, *, level: float = 0.95
) -> MeanSquareFit:
    """Infit and outfit of every item with their range under the model.

    With W = P (1 - P) the variance and C = W (1 - 3 W) the fourth moment of a response about P,

        infit = sum (x - P)^2 / sum W,           q^2 = sum (C - W^2) / (sum W)^2
        outfit = mean of (x - P)^2 / W,          q^2 = sum (C / W^2 - 1) / n^2        (Wright & Masters, 1982, ch. 5)

    sums over the respondents who answered the item. Both are at abilities that count as known: at those estimated from
    the same responses they are lower, the more so the shorter the test, and which estimate is used matters. Respondents
    whose theta is not finite, all right or all wrong by maximum likelihood, are left out.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`), one of each respondent to an item.
    items
        Parameters of the same items.
    theta
        Abilities, shape (n_respondents,).
    level
        Of the range in which a mean square lies if the item fits, between 0 and 1.

    Raises
    ------
    InputError
        If there are several trials of an item, theta has another shape, or the level is none.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.0] * 4, [-1.0, -0.3, 0.3, 1.0])
    >>> theta = rng.normal(size=300)
    >>> found = irtbench.mean_square_fit(irtbench.simulate_responses(theta, items, rng=rng), items, theta)
    >>> found
    <MeanSquareFit: 4 items, outside of the range: infit 0, outfit 0>
    >>> found.table()[["item_id", "infit", "infit_lower", "infit_upper", "infit_z"]].round(2)
      item_id  infit  infit_lower  infit_upper  infit_z
    0   item1   1.07         0.89         1.12     1.16
    1   item2   1.01         0.92         1.09     0.32
    2   item3   1.03         0.91         1.09     0.73
    3   item4   1.01         0.88         1.13     0.11
    """
    responses, items = responses_and_items(responses, items, upper_asymptotes=True, categories=True)
    items = items.select(responses.item_ids)
    ability = np.asarray(theta, dtype=np.float64)
    refuse_any((
        (responses.trials is not None and items.categories is None,
         "infit: several trials of an item; expected one response each (item_fit takes trials)"),
        (ability.shape != (responses.n_respondents,),
         f"infit: {ability.size} abilities for {responses.n_respondents} respondents; expected one each"),
    ))  # fmt: skip
    demand_share("infit: level", level)
    known = np.isfinite(ability)
    values, ability = responses.correct[known], ability[known]
    infit, outfit = mean_squares(values, ability, items, over="respondents")
    observed = ~np.isnan(values)
    variance, excess, spread = (np.where(observed, each, 0.0) for each in _moments(ability, items))
    n = observed.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        infit_q = np.sqrt(excess.sum(axis=0)) / variance.sum(axis=0)
        outfit_q = np.sqrt(spread.sum(axis=0)) / n
    return MeanSquareFit(responses.item_ids, infit, outfit, infit_q, outfit_q, n, level)


def _moments(ability: Array, items: ItemParameters) -> tuple[Array, Array, Array]:
    """W, C - W^2 and C / W^2 - 1 of a response of each respondent to each item."""
    if items.categories is not None:
        _, variance, fourth = items.categories.score_moments(ability)
        excess = fourth - variance**2
        return variance, excess, excess / np.maximum(variance, TINY) ** 2
    log_p, log_q = log_icc(ability, items)
    variance = np.exp(log_p + log_q)
    # the last is 1 / W - 4, without a difference of large numbers
    return variance, variance * (1 - 4 * variance), np.exp(-log_p - log_q) - 4


Real = TypeVar("Real", bound=np.floating[Any])


@dataclass(frozen=True, eq=False)
class PatternTerms(Generic[Real]):
    """What lz and lz* are made of, at the ability of each row.

    With w = log(P / (1 - P)) the log-likelihood differs from its expectation by W = sum (x - P) w, and

        lz = W / sqrt(sum w^2 P (1 - P))                                     (Drasgow, Levine & Williams, 1985)

    An estimate of theta solves r0 + sum (x - P) r = 0, where r = P' / (P (1 - P)) and r0 is 0 for ML, d log prior /
    d theta for MAP, and Warm's term for WLE. Snijders (2001) takes from w what the estimate has used up,

        v = w - k r,  k = sum (P' w) / sum (P' r),   lz* = (W + k r0) / sqrt(sum v^2 P (1 - P)).

    The numerator is sum (x - P) v, since r0 = -sum (x - P) r at the estimate; so one formula serves ML, WLE, MAP under
    any prior and, to the order at which it stays close to MAP, EAP. Sums run over the observed items.

    Parameters
    ----------
    log_odds
        w, shape (n_rows, n_items).
    used_up
        k, shape (n_rows,).
    remaining
        v, shape (n_rows, n_items).
    variance_known
        sum w^2 P (1 - P), the variance of W where theta is known, shape (n_rows,).
    variance_estimated
        sum v^2 P (1 - P), where it is estimated, shape (n_rows,); NaN where only rounding is left of it.
    """

    log_odds: NDArray[Real]
    used_up: NDArray[Real]
    remaining: NDArray[Real]
    variance_known: NDArray[Real]
    variance_estimated: NDArray[Real]

    @classmethod
    def of(
        cls, variance: NDArray[Real], log_odds: NDArray[Real], weight: NDArray[Real], *, least_left: float
    ) -> PatternTerms[Real]:
        """Terms from each response's variance P (1 - P), 0 where it is missing, its w and its r.

        Parameters
        ----------
        variance, log_odds, weight
            Shape (n_rows, n_items).
        least_left
            Share of the variance of W that must remain once theta is estimated; below it only rounding is left.
        """
        by_weight = variance * weight
        with np.errstate(invalid="ignore", divide="ignore"):  # without a response nothing is left
            used_up = row_sums(by_weight, log_odds) / row_sums(by_weight, weight)
            remaining = log_odds - used_up[:, None] * weight
        known = row_sums(variance * log_odds, log_odds)
        left = row_sums(variance * remaining, remaining)
        left[~(left > least_left * known)] = np.nan
        return cls(log_odds, used_up, remaining, known, left)

    @np.errstate(invalid="ignore", divide="ignore")
    def lz(self, residual: NDArray[Real]) -> NDArray[Real]:
        """Lz of responses with these residuals x - P, 0 where missing, shape (n_rows,); NaN without a response."""
        return row_sums(residual, self.log_odds) / np.sqrt(self.variance_known)

    def lz_star(self, residual: NDArray[Real]) -> NDArray[Real]:
        """lz* of responses with these residuals, 0 where missing, shape (n_rows,); NaN where it is undefined."""
        return row_sums(residual, self.remaining) / np.sqrt(self.variance_estimated)


def row_sums(terms: NDArray[Real], by: NDArray[Real]) -> NDArray[Real]:
    """Sum of the products in each row, shape (n_rows,)."""
    return np.einsum("ij,ij->i", terms, by)


# Share of lz's variance that must remain once theta is estimated; below it only rounding is left.
LEAST_VARIANCE_LEFT = 1e-10
CELLS_AT_ONCE = 2**20  # respondents x items


@dataclass(frozen=True, eq=False)
class PersonFit(
    Drawn,
    columns="respondent_ids, lz, lz_star, infit, outfit, n_items",
    short="{respondent_ids:respondent}, lz* {lz_star:spanned}",
):
    """Person fit of each respondent; all arrays have shape (n_respondents,).

    Its table has one row a respondent, the columns of person_fit.csv.

    Parameters
    ----------
    respondent_ids
        The respondents, in the order of the responses.
    lz
        Standardised log-likelihood of the pattern as if theta were known. Too narrow where theta is estimated.
    lz_star
        The same, corrected for the estimation of theta: about standard normal; low values mean a pattern unlike the
        model's (right on hard items, wrong on easy ones).
    infit, outfit
        Mean squared residuals, weighted and unweighted; 1 expected.
    n_items
        Items answered.
    """

    respondent_ids: tuple[str, ...]
    lz: NDArray[np.float64]
    lz_star: NDArray[np.float64]
    infit: NDArray[np.float64]
    outfit: NDArray[np.float64]
    n_items: NDArray[np.int64]


def person_fit(responses: ResponsesLike, items: ParametersLike, theta: NDArray[np.float64]) -> PersonFit:
    """Person fit at estimated abilities.

    lz is the log-likelihood of the pattern, standardised as if theta were known; lz* takes into account that theta was
    estimated from it, by ML, WLE, MAP or EAP. The formulas are in ``PatternTerms``.

    Of items in categories the same with the log probability of each category in place of that of right and wrong, and
    its derivative in that of the weight (Sinharay, 2016).

    Several trials of an item count as so many responses in lz and lz*; infit and outfit compare the number right with
    the number expected.

    All right and all wrong are defined wherever theta is finite. Undefined, hence NaN with a warning: respondents
    without a response, and lz* where the observed items all give the same ratio w / r (one item; items with the same
    parameters), because theta then explains the pattern's likelihood altogether.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`); missing ones are left out.
    items
        Parameters of the same items in the same order.
    theta
        Estimated abilities, shape (n_respondents,).

    Raises
    ------
    InputError
        If the items differ or theta has another shape or is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> theta = irtbench.estimate_ability(responses, items).theta
    >>> irtbench.person_fit(responses, items, theta).table().round(2).head(3)
      respondent_id    lz  lz_star  infit  outfit  n_items
    0            r1 -1.09    -1.09   1.62    1.53        6
    1            r2  1.02     0.98   0.43    0.33        6
    2            r3  0.87     0.65   0.48    0.32        6
    """
    responses, items = responses_and_items(responses, items, upper_asymptotes=True, categories=True)
    check_items_agree(responses, items)
    theta = check_theta(theta, responses)
    lz, lz_star, infit, outfit = np.empty((4, len(theta)))
    correct, most_rows = responses.correct, max(1, CELLS_AT_ONCE // max(1, items.n_items))
    for rows in row_batches(len(theta), items.n_items, most_rows=most_rows):
        values, trials = correct[rows], some_rows(responses.trials, rows)
        lz[rows], lz_star[rows] = pattern_fit(values, items, theta[rows], trials)
        infit[rows], outfit[rows] = mean_squares(values, theta[rows], items, over="items", trials=trials)
    undefined = int(np.isnan(lz_star).sum())
    if undefined:
        warnings.warn(
            f"person fit: lz* is undefined for {undefined} of {responses.n_respondents} respondents, who answered no "
            "item or only items that leave nothing to judge once theta is estimated",
            RuntimeWarning,
            stacklevel=2,
        )
    return PersonFit(responses.respondent_ids, lz, lz_star, infit, outfit, responses.n_items_by_respondent)


def pattern_fit(
    values: NDArray[np.float64], items: ItemParameters, theta: NDArray[np.float64], trials: Trials = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lz and lz* of each pattern at its ability, as `person_fit` has them, NaN where they are undefined."""
    if items.categories is not None:
        return lz_of_categories(values, items.categories, theta)
    n_trials = ~np.isnan(values) if trials is None else trials
    curves, weight = item_curves(theta, items), items.discrimination
    if items.has_asymptotes:
        log_p, log_q = log_icc(theta, items)  # their difference is right where P or 1 - P is nothing
        log_odds, weight = log_p - log_q, weight * curves.weight
    else:
        log_odds, weight = curves.z, np.broadcast_to(weight, values.shape)
    terms = PatternTerms.of(curves.variance * n_trials, log_odds, weight, least_left=LEAST_VARIANCE_LEFT)
    residual = np.nan_to_num(values) - n_trials * curves.p
    return terms.lz(residual), terms.lz_star(residual)


@np.errstate(invalid="ignore", divide="ignore")
def lz_of_categories(
    values: NDArray[np.float64], items: CategoryParameters, theta: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lz and lz* of items in categories: L = log P(k) for each, less its mean, and f = L' by theta.

    lz = sum (L - E L) / sqrt(sum Var L),   lz* = sum (L - E L - k f) / sqrt(sum Var(L - k f)),
    k = sum Cov(L, f) / sum Var f, since the estimate of theta has used up the direction f.
    """
    at = CategoryDerivatives.at(items, theta)
    observed = ~np.isnan(values)
    logs = np.log(at.p)

    def total(terms: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(observed, at.by_item(terms), 0.0).sum(axis=1)

    expected = np.where(observed, at.by_item(at.p * logs), 0.0)
    log_likelihood = np.where(observed, at.chosen(values, logs), 0.0).sum(axis=1)
    known = total(at.p * logs**2) - (expected**2).sum(axis=1)
    k = total(at.p * logs * at.slope) / total(at.p * at.slope**2)
    left = total(at.p * (logs - k[:, None] * at.slope) ** 2) - (expected**2).sum(axis=1)
    left = np.where(left > LEAST_VARIANCE_LEFT * known, left, np.nan)
    residual = log_likelihood - expected.sum(axis=1)
    return residual / np.sqrt(known), (residual - k * at.score(values).sum(axis=1)) / np.sqrt(left)
