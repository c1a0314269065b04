"""Every coefficient of a scale's reliability at once is that of its own function."""

import numpy as np
import pytest

import irtbench
from irtbench.data.input_error import InputError


def test_each_coefficient_is_that_of_its_function() -> None:
    rng = np.random.default_rng(1)
    items = irtbench.ItemParameters.from_difficulty(rng.uniform(0.8, 2, 8), np.linspace(-1, 1, 8))
    responses = irtbench.simulate_responses(rng.normal(size=200), items, rng=rng, missing=0.2)
    people = irtbench.estimate_ability(responses, items)
    population = irtbench.normal_population(0.2, 1.3)
    found = irtbench.scale_reliability(
        responses, items, people.theta, people.standard_error, population=population, wanted=0.8
    )
    score = irtbench.internal_consistency(responses)
    assert (found.alpha, found.alpha_lower, found.alpha_upper) == (score.alpha, score.alpha_lower, score.alpha_upper)
    assert (found.omega, found.standard_error_of_measurement) == (score.omega, score.standard_error)
    assert found.marginal == irtbench.measurement_precision(items, population=population).marginal_reliability
    assert found.empirical == irtbench.empirical_reliability(people.theta, people.standard_error)
    assert found.n_items_spearman_brown == pytest.approx(8 * irtbench.times_as_long(score.alpha, 0.8))
    assert found.n_items_information == pytest.approx(
        8 * irtbench.times_as_informative(items, 0.8, population=population)
    )
    assert (found.n_items, found.complete, found.wanted) == (8, False, 0.8)


def test_a_reliability_that_cannot_be_wanted_is_named() -> None:
    items = irtbench.ItemParameters.from_difficulty([1.0, 1.2, 1.4], [0.0, 0.2, -0.2])
    with pytest.raises(InputError, match="reliability"):
        irtbench.scale_reliability([[1, 0, 1], [0, 0, 1], [1, 1, 0]], items, [0, 1, 0], [1, 1, 1], wanted=1.0)
