"""Differential test functioning: R mirt's figures, the truth covered, nothing seen where nothing is."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from builders.mirt_figures import verbal
from builders.refusals import is_refused
from irtbench import ItemParameters, icc, simulate_responses
from irtbench.analysis.bias_of_test import DifferentialTestFunctioning, differential_test_functioning
from irtbench.estimation.multiple_groups import GroupedModel, fit_groups
from irtbench.models.quadrature import normal_population


def fitted(
    shift: dict[int, float], *, seed: int, n: tuple[int, int] = (500, 300), mean: float = -0.7, **keywords: object
) -> tuple[GroupedModel, ItemParameters, ItemParameters]:
    """Two groups with these items free, harder for the second by their shift; and the true items of each."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0.8, 2, 15), rng.normal(0, 0.8, 15)
    harder = b + [shift.get(item, 0.0) for item in range(15)]
    first, second = (ItemParameters.from_difficulty(a, values) for values in (b, harder))
    abilities = rng.normal(0, 1, n[0]), rng.normal(mean, 1, n[1])
    values = [simulate_responses(theta, items, rng=rng).values
              for theta, items in zip(abilities, (first, second), strict=True)]  # fmt: skip
    groups = ["r"] * n[0] + ["f"] * n[1]
    free = [f"item{item + 1}" for item in shift]
    return fit_groups(np.vstack(values), groups, reference="r", free_items=free, **keywords), first, second


def functioning(grouped: GroupedModel, *, n_draws: int = 500) -> DifferentialTestFunctioning:
    return differential_test_functioning(grouped, rng=np.random.default_rng(1), n_draws=n_draws)


def test_signed_and_unsigned_areas_are_those_of_mirt(reference: Path) -> None:
    responses, women = verbal(reference)
    parameters = pd.read_csv(reference / "next" / "04_dif" / "verbal_dtf_pars.csv").set_index("item")
    groups = np.where(women, "women", "men").tolist()
    free = list(parameters.index[~parameters["anchor"]])
    grouped = fit_groups(responses, groups, reference="women", free_items=free)
    found = functioning(grouped)
    expected = pd.read_csv(reference / "next" / "04_dif" / "verbal_dtf.csv").loc[0]
    # mirt: women less men; ours: men less women, as delta has it
    assert found.signed[0, 1] == pytest.approx(-expected["sDTF.score"], abs=1e-4)
    assert found.unsigned[0, 1] == pytest.approx(expected["uDTF.score"], abs=1e-4)
    row = found.table().set_index("over").loc["even"]
    assert row["signed_percent"] == pytest.approx(-expected["sDTF(%).score"], abs=1e-3)
    assert row["unsigned_percent"] == pytest.approx(expected["uDTF(%).score"], abs=1e-3)
    curves = pd.read_csv(reference / "next" / "04_dif" / "verbal_tcc.csv")
    for k, name in enumerate(("tcc_ref", "tcc_foc")):
        np.testing.assert_allclose(np.interp(curves["theta"], found.theta, found.expected[k]), curves[name], atol=2e-3)


def test_over_the_group_it_is_the_integral_over_its_density() -> None:
    grouped, _, _ = fitted({3: 0.8, 6: 0.5}, seed=1)
    found = functioning(grouped, n_draws=50)
    reference, own = grouped.items
    theta = np.linspace(-9, 9, 8001)
    difference = (icc(theta, own) - icc(theta, reference)).sum(axis=1)
    expected = difference @ norm.pdf(theta, grouped.mean[1], grouped.sd[1]) * 18 / 8000
    assert found.signed[0, 0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [{1: 0.6, 4: 0.6, 7: -0.6}, {1: 0.0, 4: 0.0, 7: 0.0}])
def test_intervals_cover_the_true_differences(shift: dict[int, float]) -> None:
    covered, rejected, n_sets = np.zeros((2, 2)), 0, 15
    population = normal_population(-0.7, 1.0)
    for seed in range(n_sets):
        grouped, first, second = fitted(shift, seed=seed)
        found = functioning(grouped)
        for column, (theta, weights) in enumerate(
            ((population.nodes, population.weights), (np.linspace(-6, 6, 1000), np.full(1000, 1e-3)))
        ):
            difference = (icc(theta, second) - icc(theta, first)).sum(axis=1)
            signed, unsigned = difference @ weights, np.abs(difference) @ weights
            covered[0, column] += found.signed_lower[0, column] <= signed <= found.signed_upper[0, column]
            covered[1, column] += found.unsigned_lower[0, column] <= unsigned <= found.unsigned_upper[0, column] + 1e-9
        rejected += found.p[0, 0] < 0.05
    # binomial(15, .95) is below 11 once in 1,800, and binomial(15, .05) above 4 once in 1,600
    assert covered.min() >= 11
    if not any(shift.values()):
        assert rejected <= 4


def test_several_groups_each_have_their_rows_and_the_plain_fit_no_intervals() -> None:
    rng = np.random.default_rng(2)
    items = ItemParameters.from_difficulty(np.full(8, 1.3), np.linspace(-1.5, 1.5, 8))
    harder = ItemParameters.from_difficulty(np.full(8, 1.3), items.difficulty + np.eye(8)[2])
    values = [simulate_responses(rng.normal(size=300), part, rng=rng).values for part in (items, items, harder)]
    groups = ["a"] * 300 + ["b"] * 300 + ["c"] * 300
    grouped = fit_groups(np.vstack(values), groups, reference="a", free_items=["item3"])
    found = functioning(grouped)
    assert found.table()["group"].tolist() == ["b", "b", "c", "c"]
    assert abs(found.signed[0, 0]) < 0.1
    assert found.signed[1, 0] < -0.1
    assert set(found.curves_table()["group"]) == {"a", "b", "c"}
    without = fit_groups(np.vstack(values), groups, reference="a", free_items=["item3"], standard_errors=False)
    plain = functioning(without)
    np.testing.assert_allclose(plain.signed, found.signed, atol=1e-6)
    assert np.isnan([plain.signed_lower, plain.unsigned_upper, plain.p]).all()
    assert np.isnan(plain.difference_lower).all()


def test_wrong_input_is_named() -> None:
    is_refused("no item is free", functioning, fitted({}, seed=1)[0])
    grouped, rng = fitted({2: 0.5}, seed=1)[0], np.random.default_rng(1)
    is_refused("level must be between 0 and 1", differential_test_functioning, grouped, rng=rng, level=95)
    is_refused("at least two draws but got 1", differential_test_functioning, grouped, rng=rng, n_draws=1)
