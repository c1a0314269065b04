"""Mean squares of residuals: infit and outfit, and the range in which those of an item that fits lie (NumPy only)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError, demand_share
from irtbench.data.multiple_testing import adjust
from irtbench.data.shown import Shown, counted
from irtbench.models.curves import icc, log_icc
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.theta_posterior import Trials

Array = NDArray[np.float64]


def residuals(values: NDArray[np.float64], theta: NDArray[np.float64], items: ItemParameters) -> NDArray[np.float64]:
    """Observed minus expected response x - P(theta), NaN where missing, shape (n_respondents, n_items)."""
    return values - icc(theta, items)


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
        variance, residual = np.where(observed, each, 0.0), np.where(observed, values - mean, 0.0)
        return _of_squares(residual**2 / np.maximum(each, np.finfo(np.float64).tiny), variance, observed, axis)
    log_p, log_q = log_icc(theta, items)
    variance = np.where(observed, np.exp(log_p + log_q), 0.0)
    if trials is None:
        # (x - P)^2 / (P (1 - P)) is (1 - P) / P for a right and P / (1 - P) for a wrong response
        standardised = np.where(observed, np.exp(np.where(values == 1, log_q - log_p, log_p - log_q)), 0.0)
    else:
        # x - n P = x (1 - P) - (n - x) P
        odds, x = np.exp((log_p - log_q) / 2), np.nan_to_num(values)
        standardised = np.where(observed, (x / odds - (trials - x) * odds) ** 2 / np.maximum(trials, 1), 0.0)
        variance = variance * trials
    return _of_squares(standardised, variance, observed, axis)


def _of_squares(
    standardised: NDArray[np.float64], variance: NDArray[np.float64], observed: NDArray[np.bool_], axis: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Infit and outfit of squared standardised residuals, 0 where missing."""
    n_observed = observed.sum(axis=axis)
    with np.errstate(invalid="ignore", divide="ignore"):
        infit = (standardised * variance).sum(axis=axis) / variance.sum(axis=axis)
        outfit = standardised.sum(axis=axis) / n_observed
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


def standardised(mean_square: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Z = (MS^(1/3) - 1) 3 / q + q / 3, nearly standard normal if the item fits (Wilson & Hilferty, 1931)."""
    with np.errstate(invalid="ignore", divide="ignore"):
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
    if responses.trials is not None and items.categories is None:
        raise InputError("infit: several trials of an item; expected one response each (item_fit takes trials)")
    if ability.shape != (responses.n_respondents,):
        raise InputError(
            f"infit: {ability.size} abilities for {responses.n_respondents} respondents; expected one each"
        )
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
        return variance, excess, excess / np.maximum(variance, np.finfo(np.float64).tiny) ** 2
    log_p, log_q = log_icc(ability, items)
    variance = np.exp(log_p + log_q)
    # the last is 1 / W - 4, without a difference of large numbers
    return variance, variance * (1 - 4 * variance), np.exp(-log_p - log_q) - 4
