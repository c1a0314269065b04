"""Precision over ability, the length of a test, and every coefficient of a scale's reliability at once."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import irtbench
from builders.mirt_figures import lsat6
from builders.refusals import is_refused
from irtbench import ItemParameters, Quadrature
from irtbench.diagnostics.measurement_precision import (
    empirical_reliability,
    measurement_precision,
    spearman_brown,
    times_as_informative,
    times_as_long,
)
from irtbench.scoring.ability import estimate_ability


def mirt_items(name: str, reference: Path) -> ItemParameters:
    table = pd.read_csv(reference / "next" / "02_reliability" / f"{name}_pars.csv")
    return ItemParameters.from_difficulty(table["a"], -table["d"] / table["a"], item_ids=table["item"].tolist())


@pytest.mark.parametrize("name", ["lsat6", "5gs_entailment"])
def test_information_and_marginal_reliability_agree_with_mirt(name: str, reference: Path) -> None:
    folder = reference / "next" / "02_reliability"
    curve = pd.read_csv(folder / f"{name}_test_info.csv")
    value = pd.read_csv(folder / f"{name}_reliability.csv").set_index("stat")["value"]
    found = measurement_precision(mirt_items(name, reference), theta=curve["theta"].to_numpy())
    table = found.table()
    for ours, theirs in (("information", "info"), ("se", "se_ml"), ("reliability", "reliability")):
        np.testing.assert_allclose(table[ours], curve[theirs], rtol=1e-8)
    np.testing.assert_allclose(table["expected_score"], curve["tcc"], rtol=1e-8)
    assert found.marginal_reliability == pytest.approx(value["marginal_rxx_closed_form"], abs=1e-7)
    assert found.marginal_reliability == pytest.approx(value["marginal_rxx"], abs=1e-4)


@pytest.mark.parametrize("method", ["eap", "map", "ml"])
def test_empirical_reliability_agrees_with_mirt(method: str, real_data: Path, reference: Path) -> None:
    value = pd.read_csv(reference / "next" / "02_reliability" / "lsat6_reliability.csv").set_index("stat")["value"]
    items = mirt_items("lsat6", reference)
    found = estimate_ability(lsat6(real_data, reference, "2pl")[0], items, method=method)
    reliability = empirical_reliability(found.theta, found.standard_error)
    assert reliability == pytest.approx(value[f"empirical_rxx_{method.upper()}"], abs=1e-3)


def test_a_test_of_equal_items_has_the_closed_form() -> None:
    # Eight items with a = 1, b = 0 tell 8 / 4 at theta = 0, and 8 e / (1 + e)^2 at 1 and at -1.
    items = ItemParameters.from_difficulty(np.ones(8), np.zeros(8))
    told = 8 * np.e / (1 + np.e) ** 2
    np.testing.assert_allclose(measurement_precision(items, theta=np.array([0.0, 1, -1])).information, [2, told, told])
    # of people of variance 4, by a sum of its own
    nodes = np.linspace(-12, 12, 2001)
    weights, p = norm.pdf(nodes, 0, 2) * (nodes[1] - nodes[0]), 1 / (1 + np.exp(-nodes))
    found = measurement_precision(items, population=irtbench.normal_population(0.0, 2.0)).marginal_reliability
    assert found == pytest.approx(1 - weights @ (1 / (8 * p * (1 - p) + 1 / 4)) / 4, abs=1e-4)
    one = Quadrature(np.array([0.0]), np.array([0.0]))
    is_refused("does not vary", measurement_precision, items, population=one)


def test_a_test_as_long_as_said_has_the_reliability_wanted() -> None:
    rng = np.random.default_rng(6)
    items = ItemParameters.from_difficulty(rng.uniform(0.8, 2.0, 10), rng.normal(size=10))
    times = times_as_informative(items, 0.9)
    lengthened = int(np.ceil(times))
    several = ItemParameters.from_difficulty(
        np.tile(items.discrimination, lengthened), np.tile(items.difficulty, lengthened)
    )
    shorter = several.select(several.item_ids[: 10 * (lengthened - 1)])
    assert (
        measurement_precision(shorter).marginal_reliability < 0.9 <= measurement_precision(several).marginal_reliability
    )
    assert np.isnan(times_as_informative(items, 0.999999999))  # not within a million times


def test_spearman_and_brown_undo_each_other() -> None:
    assert spearman_brown(0.5, 2) == pytest.approx(2 / 3)
    for reliability in (0.1, 0.5, 0.95):
        assert spearman_brown(reliability, times_as_long(reliability, 0.9)) == pytest.approx(0.9)
    assert np.isnan(times_as_long(-0.2, 0.9))
    is_refused("between 0 and 1", times_as_long, 0.5, 90)
    is_refused("positive number", spearman_brown, 0.5, 0)
    assert np.isnan([spearman_brown(-1.0, 2), spearman_brown(-0.5, 4)]).all()  # no such parts: 2 / 0, and 4


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
    given = responses, items, people.theta, people.standard_error
    is_refused("reliability", irtbench.scale_reliability, *given, wanted=1.0)
    # estimates without a value are left out
    theta, error = np.array([-1.0, 0.0, 1.0, np.inf]), np.array([0.5, 0.5, 0.5, np.nan])
    assert empirical_reliability(theta, error) == pytest.approx(0.8)
    assert np.isnan([empirical_reliability(theta[2:], error[2:]), empirical_reliability([1.0, 1.0], [0.0, 0.0])]).all()
