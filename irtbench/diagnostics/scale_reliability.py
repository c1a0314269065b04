"""How reliably a scale measures, by every coefficient at once, and how long it must be to measure well."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError
from irtbench.data.shown import Figures
from irtbench.diagnostics.internal_consistency import internal_consistency
from irtbench.diagnostics.measurement_precision import (
    empirical_reliability,
    fine_for_information,
    measurement_precision,
)
from irtbench.models.curves import information
from irtbench.models.parameter_table import ParametersLike, as_parameters, responses_and_items
from irtbench.models.quadrature import Quadrature
from irtbench.models.theta_posterior import STANDARD_NORMAL

MOST_TIMES = 1e6  # a test lengthened more than this is none


def spearman_brown(reliability: float, times: float) -> float:
    """Reliability of a test `times` as long, of parallel parts: n r / (1 + (n - 1) r) (Spearman, 1910; Brown, 1910).

    Raises
    ------
    InputError
        If `times` is not positive.

    Examples
    --------
    >>> from irtbench import spearman_brown
    >>> spearman_brown(0.5, 3)
    0.75
    """
    if not times > 0:
        raise InputError(f"Spearman-Brown: {times} times as long; expected a positive number")
    return times * reliability / (1 + (times - 1) * reliability)


def times_as_long(reliability: float, wanted: float) -> float:
    """How many times as long a test must be by Spearman and Brown, w (1 - r) / (r (1 - w)); NaN unless 0 < r < 1.

    Raises
    ------
    InputError
        If the wanted reliability is not between 0 and 1.

    Examples
    --------
    >>> from irtbench import times_as_long
    >>> round(times_as_long(0.6, 0.75), 6)
    2.0
    """
    _demand_reliability(wanted)
    return wanted * (1 - reliability) / (reliability * (1 - wanted)) if 0 < reliability < 1 else float("nan")


def times_as_informative(items: ParametersLike, wanted: float, *, population: Quadrature = STANDARD_NORMAL) -> float:
    """How many times as long a test of such items must be for a marginal reliability of theta.

    The n with E[n I / (n I + 1 / var(theta))] = wanted over the population, where I is the information of the test as
    it is: n tests with the same information at every ability. NaN if no length within reason reaches it.

    Raises
    ------
    InputError
        If the wanted reliability is not between 0 and 1.

    Examples
    --------
    >>> from irtbench import ItemParameters, times_as_informative
    >>> items = ItemParameters.from_difficulty([1.0, 1.0], [0.0, 0.0])
    >>> round(times_as_informative(items, 0.8), 1)
    10.3
    """
    _demand_reliability(wanted)
    items = as_parameters(items, upper_asymptotes=True, categories=True)
    fine = fine_for_information(items, population)
    test = information(fine.nodes, items).sum(axis=1)
    variance = float(fine.weights @ (fine.nodes - fine.weights @ fine.nodes) ** 2)

    def lacking(log_times: float) -> float:
        informed = np.exp(log_times) * test
        return float(fine.weights @ (informed / (informed + 1 / variance))) - wanted

    limit = float(np.log(MOST_TIMES))
    if lacking(limit) < 0 or lacking(-limit) > 0:
        return float("nan")
    return float(np.exp(brentq(lacking, -limit, limit, xtol=1e-10)))


def _demand_reliability(wanted: float) -> None:
    if not 0 < wanted < 1:
        raise InputError(f"length of a test: the wanted reliability is {wanted}; expected a number between 0 and 1")


GOOD = 0.9  # for decisions about single systems or people (Nunnally and Bernstein, 1994)


@dataclass(frozen=True)
class ScaleReliability(Figures):
    """Reliability of a scale; NaN where a figure cannot be had.

    Parameters
    ----------
    alpha, alpha_lower, alpha_upper, omega, standard_error_of_measurement, n_respondents, complete, reason
        Of the sum score, see `InternalConsistency`.
    marginal
        Of theta under the model and the population, see `MeasurementPrecision`.
    empirical
        Of theta as estimated from these responses, see `empirical_reliability`.
    n_items
        Items of the scale.
    wanted
        A reliability to reach.
    n_items_spearman_brown, n_items_information
        How many items like these would reach it, from alpha by Spearman and Brown's formula, and from the test
        information; NaN where no length would.
    """

    alpha: float
    alpha_lower: float
    alpha_upper: float
    omega: float
    marginal: float
    empirical: float
    standard_error_of_measurement: float
    n_items: int
    n_respondents: float
    complete: bool
    wanted: float
    n_items_spearman_brown: float
    n_items_information: float
    reason: str = ""


def scale_reliability(
    responses: ResponsesLike,
    items: ParametersLike,
    theta: ArrayLike,
    standard_error: ArrayLike,
    *,
    population: Quadrature = STANDARD_NORMAL,
    wanted: float = GOOD,
) -> ScaleReliability:
    """Reliability of the sum score and of theta, and the length for the reliability wanted.

    Parameters
    ----------
    responses
        Responses to the items (`as_responses`).
    items
        Their parameters (`as_parameters`).
    theta, standard_error
        The respondents' EAPs and their errors, each of shape (n_respondents,).
    population
        Density of ability.
    wanted
        The reliability to reach, between 0 and 1.

    Raises
    ------
    InputError
        As `internal_consistency`, `empirical_reliability` and `times_as_long`.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 12, np.linspace(-1.5, 1.5, 12))
    >>> responses = irtbench.simulate_responses(rng.normal(size=400), items, rng=rng)
    >>> abilities = irtbench.estimate_ability(responses, items)
    >>> found = irtbench.scale_reliability(responses, items, abilities.theta, abilities.standard_error)
    >>> round(found.alpha, 2), round(found.marginal, 2), round(found.n_items_information)
    (0.76, 0.79, 30)
    """
    data, known = responses_and_items(responses, items, upper_asymptotes=True, categories=True)
    score = internal_consistency(data)
    return ScaleReliability(
        alpha=score.alpha,
        alpha_lower=score.alpha_lower,
        alpha_upper=score.alpha_upper,
        omega=score.omega,
        marginal=measurement_precision(known, population=population).marginal_reliability,
        empirical=empirical_reliability(theta, standard_error),
        standard_error_of_measurement=score.standard_error,
        n_items=known.n_items,
        n_respondents=score.n_respondents,
        complete=score.complete,
        wanted=wanted,
        n_items_spearman_brown=known.n_items * times_as_long(score.alpha, wanted),
        n_items_information=known.n_items * times_as_informative(known, wanted, population=population),
        reason=score.reason,
    )
