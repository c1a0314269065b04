"""How reliably a scale measures, by every coefficient at once, and how long it must be to measure well."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from irtbench.data.given import ResponsesLike
from irtbench.data.shown import Figures
from irtbench.diagnostics.internal_consistency import internal_consistency
from irtbench.diagnostics.length_needed import times_as_informative, times_as_long
from irtbench.diagnostics.measurement_precision import empirical_reliability, measurement_precision
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.quadrature import Quadrature
from irtbench.models.theta_posterior import STANDARD_NORMAL

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
    data, known = responses_and_items(responses, items, upper_asymptotes=True)
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
