"""How long a test must be for a wanted reliability."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from irtbench.data.input_error import InputError
from irtbench.models.curves import information
from irtbench.models.parameter_table import ParametersLike, as_parameters
from irtbench.models.quadrature import Quadrature, refine
from irtbench.models.theta_posterior import STANDARD_NORMAL, step_for_any_pattern

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
    items = as_parameters(items, upper_asymptotes=True)
    fine = refine(population, step_for_any_pattern(items, population))
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
