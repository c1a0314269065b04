"""How precisely a test measures: information, standard errors, every coefficient of reliability, and wanted length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError, demand_share
from irtbench.data.shown import Drawn, Figures
from irtbench.diagnostics.internal_consistency import internal_consistency
from irtbench.models.curves import icc, information
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, as_parameters, responses_and_items
from irtbench.models.quadrature import Quadrature, refine
from irtbench.models.theta_posterior import STANDARD_NORMAL, step_for_any_pattern

THETA = np.arange(-60, 61) / 10.0  # abilities of test_information.csv


@dataclass(frozen=True, eq=False)
class MeasurementPrecision(Drawn, columns="theta, information, se=standard_error, reliability, expected_score"):
    """Precision of a test at each ability, and over a population; arrays have shape (n_theta,).

    Its table has one row an ability, the columns of test_information.csv.

    Parameters
    ----------
    theta
        Abilities.
    information
        Test information, the sum of the items'.
    expected_score
        Expected number of right responses: the test characteristic curve.
    variance
        Of ability in the population.
    marginal_reliability
        Over the population.
    """

    theta: NDArray[np.float64]
    information: NDArray[np.float64]
    expected_score: NDArray[np.float64]
    variance: float
    marginal_reliability: float

    @property
    @np.errstate(divide="ignore")
    def standard_error(self) -> NDArray[np.float64]:
        """Of theta by maximum likelihood, 1 / sqrt(I); infinite without information."""
        return np.asarray(1 / np.sqrt(self.information), dtype=np.float64)

    @property
    def reliability(self) -> NDArray[np.float64]:
        """Of theta for people of that ability, I / (I + 1 / variance)."""
        return np.asarray(self.information / (self.information + 1 / self.variance), dtype=np.float64)


def measurement_precision(
    items: ParametersLike,
    *,
    population: Quadrature = STANDARD_NORMAL,
    theta: ArrayLike = THETA,
) -> MeasurementPrecision:
    """Test information, conditional standard error and reliability of a test of known items.

        I(theta) = sum_i I_i(theta),   marginal reliability = 1 - E[SE^2] / var(theta),  SE^2 = 1 / (I + 1 / var(theta))

    with expectation and variance over the population. For a standard normal one that is E[I / (I + 1)]
    (Green, Bock, Humphreys, Linn and Reckase, 1984).

    Parameters
    ----------
    items
        Parameters of the items of the test (`as_parameters`).
    population
        Of ability; its nodes are made finer where the items tell more than they can hold.
    theta
        Where the table is wanted, shape (n_theta,).

    Raises
    ------
    InputError
        If the population has no variance.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.0, 1.0], [0.0, 0.0])
    >>> found = irtbench.measurement_precision(items, theta=[-1, 0, 1])
    >>> found
    <MeasurementPrecision: variance 1, marginal_reliability 0.2891>
    >>> found.table().round(3)
       theta  information     se  reliability  expected_score
    0   -1.0        0.393  1.595        0.282           0.538
    1    0.0        0.500  1.414        0.333           1.000
    2    1.0        0.393  1.595        0.282           1.462
    """
    items = as_parameters(items, upper_asymptotes=True, categories=True)
    if np.count_nonzero(population.weights) < 2:
        raise InputError("precision: ability does not vary in the population; expected more than one node with weight")
    weights, at_nodes, variance = over_population(items, population)
    theta = np.asarray(theta, dtype=np.float64)
    return MeasurementPrecision(
        theta=theta,
        information=information(theta, items).sum(axis=1),
        expected_score=icc(theta, items).sum(axis=1),
        variance=variance,
        marginal_reliability=float(1 - weights @ (1 / (at_nodes + 1 / variance)) / variance),
    )


def over_population(
    items: ItemParameters, population: Quadrature
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Weights of nodes over which functions of the test information are averaged, it there, and the variance of theta.

    As fine as posteriors of these items ask for, but no finer than a quarter of the width of the steepest curve: the
    information bends no more than the curves do, however many they are (`step_needed`).
    """
    steepest = np.abs(items.discrimination).max(initial=0.0)
    enough = 1 / (4 * steepest) if steepest > 0 else np.inf
    fine = refine(population, max(step_for_any_pattern(items, population), enough))
    variance = float(fine.weights @ (fine.nodes - fine.weights @ fine.nodes) ** 2)
    return fine.weights, information(fine.nodes, items).sum(axis=1), variance


def empirical_reliability(theta: ArrayLike, standard_error: ArrayLike) -> float:
    """Reliability of estimated abilities, var(theta) / (var(theta) + mean of se^2), as R mirt's empirical_rxx.

    Respondents without a finite estimate are left out; NaN with fewer than two others, or if nothing varies.

    Parameters
    ----------
    theta, standard_error
        Estimates and their standard errors, shape (n_respondents,).

    Examples
    --------
    >>> import irtbench
    >>> irtbench.empirical_reliability([-1.0, 0.0, 1.0], [0.5, 0.5, 0.5])
    0.8
    """
    theta, standard_error = (np.asarray(given, dtype=np.float64) for given in (theta, standard_error))
    finite = np.isfinite(theta) & np.isfinite(standard_error)
    if finite.sum() < 2:
        return float("nan")
    spread = float(np.var(theta[finite], ddof=1))
    total = spread + float((standard_error[finite] ** 2).mean())
    return spread / total if total > 0 else float("nan")


WANTED = "length of a test: the wanted reliability"
MOST_TIMES = 1e6  # a test lengthened more than this is none


def spearman_brown(reliability: float, times: float) -> float:
    """Reliability of a test `times` as long, of parallel parts: n r / (1 + (n - 1) r) (Spearman, 1910; Brown, 1910).

    NaN where so many parts cannot correlate so negatively.

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
    below = 1 + (times - 1) * reliability
    return times * reliability / below if below > 0 else float("nan")


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
    demand_share(WANTED, wanted)
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
    demand_share(WANTED, wanted)
    items = as_parameters(items, upper_asymptotes=True, categories=True)
    weights, test, variance = over_population(items, population)

    def lacking(log_times: float) -> float:
        informed = np.exp(log_times) * test
        return float(weights @ (informed / (informed + 1 / variance))) - wanted

    limit = float(np.log(MOST_TIMES))
    if lacking(limit) < 0 or lacking(-limit) > 0:
        return float("nan")
    return float(np.exp(brentq(lacking, -limit, limit, xtol=1e-10)))


GOOD = 0.9  # for decisions about single systems or people (Nunnally and Bernstein, 1994)


@dataclass(frozen=True)
class ScaleReliability(Figures):
    """Reliability of a scale; NaN where undefined.

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
