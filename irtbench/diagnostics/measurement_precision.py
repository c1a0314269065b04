"""How precisely a test measures: information, conditional standard error, marginal and empirical reliability."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from irtbench.data.input_error import InputError
from irtbench.data.shown import Drawn
from irtbench.models.curves import icc, information
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, as_parameters
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
    def standard_error(self) -> NDArray[np.float64]:
        """Of theta by maximum likelihood, 1 / sqrt(I); infinite without information."""
        with np.errstate(divide="ignore"):
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
    fine = fine_for_information(items, population)
    variance = float(fine.weights @ (fine.nodes - fine.weights @ fine.nodes) ** 2)
    at_nodes = information(fine.nodes, items).sum(axis=1)
    theta = np.asarray(theta, dtype=np.float64)
    return MeasurementPrecision(
        theta=theta,
        information=information(theta, items).sum(axis=1),
        expected_score=icc(theta, items).sum(axis=1),
        variance=variance,
        marginal_reliability=_marginal(at_nodes, fine.weights, variance),
    )


def fine_for_information(items: ItemParameters, population: Quadrature) -> Quadrature:
    """The population on nodes over which functions of the test information are averaged.

    As fine as posteriors of these items ask for, but no finer than a quarter of the width of the steepest curve: the
    information bends no more than the curves do, however many they are (`step_needed`).
    """
    steepest = np.abs(items.discrimination).max(initial=0.0)
    enough = 1 / (4 * steepest) if steepest > 0 else np.inf
    return refine(population, max(step_for_any_pattern(items, population), enough))


def empirical_reliability(theta: ArrayLike, standard_error: ArrayLike) -> float:
    """Reliability of estimated abilities, var(theta) / (var(theta) + mean of se^2), as R mirt's empirical_rxx.

    Respondents without a finite estimate are left out; NaN with fewer than two others.

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
    return spread / (spread + float((standard_error[finite] ** 2).mean()))


def _marginal(test_information: NDArray[np.float64], weights: NDArray[np.float64], variance: float) -> float:
    return float(1 - weights @ (1 / (test_information + 1 / variance)) / variance)
