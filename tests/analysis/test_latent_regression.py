"""Ability as a sum: recovery and coverage, where regressing estimates is biased, groups, grades, plausible values."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from builders.command_line import run
from builders.refusals import is_refused
from irtbench import ItemParameters, estimate_ability, fit_groups, icc, simulate_responses
from irtbench.analysis.latent_regression import AbilityRegression, ability_regression

TRUTH, SIGMA = np.array([-0.7, 0.5, 0.6, -0.4]), 0.7  # intercept, hours, kind b, kind c


def one_sample(
    rng: np.random.Generator, n: int = 400, n_items: int = 15
) -> tuple[AbilityRegression, np.ndarray, np.ndarray]:
    """A regression on skewed hours and uneven kinds, its design, and EAPs of the same respondents."""
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), rng.normal(0, 1, n_items))
    known = pd.DataFrame({"hours": rng.exponential(1, n), "kind": rng.choice(["a", "b", "c"], n, p=[0.6, 0.25, 0.15])})
    x = np.stack([np.ones(n), known["hours"], known["kind"] == "b", known["kind"] == "c"], axis=1).astype(float)
    theta = x @ TRUTH + SIGMA * rng.normal(size=n)
    responses = simulate_responses(theta, items, rng=rng, missing=0.2)
    keep = ~((known["hours"].to_numpy()[:, None] < 0.5) & (rng.random((n, n_items)) < 0.4))  # who has few skips more
    values = np.where(keep, responses.values, np.nan)
    values[:, 0] = responses.values[:, 0]
    return ability_regression(values, items, known), x, estimate_ability(values, items).theta


@pytest.mark.slow
def test_effects_are_found_and_covered_where_those_on_estimates_are_not() -> None:
    rng, inside, effects, naive = np.random.default_rng(1), [], [], []
    for _ in range(20):
        found, x, eap = one_sample(rng)
        assert found.terms == ("intercept", "hours", "kind: b", "kind: c")
        table = found.table()
        inside.append([*((table["lower"] <= TRUTH) & (table["upper"] >= TRUTH)),
                       abs(found.residual_sd - SIGMA) < 1.96 * found.se_residual_sd])  # fmt: skip
        effects.append(found.effects)
        naive.append(np.linalg.lstsq(x, eap, rcond=None)[0])
    np.testing.assert_allclose(np.mean(effects, axis=0), TRUTH, atol=0.05)
    assert np.mean(inside) == pytest.approx(0.95, abs=0.05)
    assert np.mean(naive, axis=0)[1] < 0.42  # of .5: EAPs are drawn to the middle


def test_respondents_far_beyond_the_items_tell_no_more_than_their_answers() -> None:
    # of x = 40 theta is 20 and all is right, which says little: the effect was .22 with an error of .02
    rng = np.random.default_rng(4)
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 15), rng.normal(0, 1, 15))
    x = np.r_[rng.normal(size=150), 40.0, 40.0, 40.0]
    responses = simulate_responses(0.5 * x + 0.8 * rng.normal(size=153), items, rng=rng).values
    found, others = ability_regression(responses, items, x), ability_regression(responses[:150], items, x[:150])
    errors = [np.sqrt(one.covariance[1, 1]) for one in (found, others)]
    assert errors[0] == pytest.approx(errors[1], rel=0.1)
    assert found.effects[1] == pytest.approx(others.effects[1], abs=0.2 * errors[1])


def test_the_likelihood_is_that_of_an_integral_written_down() -> None:
    items = ItemParameters.from_difficulty([1.0, 1.5, 0.7], [-0.5, 0.2, 1.0])
    values = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0]], dtype=float)
    hours = np.array([0.0, 1.0, 2.0, 0.5, 1.5, -1.0, 0.2])
    found = ability_regression(values, items, hours)
    theta = np.linspace(-9, 9, 8001)
    p, density = icc(theta, items), norm.pdf(theta, (found.design @ found.effects)[:, None], found.residual_sd)
    each = (np.where(values[:, None] == 1, p, 1 - p).prod(axis=2) * density).sum(axis=1) * (theta[1] - theta[0])
    assert found.log_likelihood == pytest.approx(np.log(each).sum(), abs=1e-4)


def test_of_two_groups_it_is_the_difference_of_their_means() -> None:
    rng = np.random.default_rng(3)
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 12), rng.normal(0, 1, 12))
    group = np.repeat(["a", "b"], [500, 400])
    responses = simulate_responses(rng.normal(size=900) + 0.6 * (group == "b"), items, rng=rng)
    grouped = fit_groups(responses, list(group), reference="a", seed=0)
    found = ability_regression(responses, grouped.items[0], pd.DataFrame({"group": group}))
    assert found.effects[1] == pytest.approx(grouped.mean[1], abs=0.03)
    assert found.covariance[1, 1] ** 0.5 == pytest.approx(grouped.table()["se_mean"][1], rel=0.15)


def test_plausible_values_have_the_relation_that_estimates_have_not() -> None:
    rng = np.random.default_rng(4)
    found, x, _ = one_sample(rng, n=2000, n_items=6)
    drawn = found.plausible_values(10, rng=rng)
    slopes = [np.linalg.lstsq(x, values, rcond=None)[0][1] for values in drawn.T]
    assert np.mean(slopes) == pytest.approx(0.5, abs=0.06)
    residual = drawn[:, 0] - x @ found.effects
    assert residual.std() == pytest.approx(found.residual_sd, abs=3 * found.se_residual_sd)
    assert found.scores()["theta"].std() < drawn.std()


def test_from_the_command_line_of_right_and_wrong_and_of_grades(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    hours, names = rng.uniform(0, 4, 400), [f"r{k}" for k in range(400)]
    theta = 0.4 * (hours - 2) + 0.9 * rng.normal(size=400)
    people = {"respondent_id": names, "hours": hours.round(3), "site": rng.choice(["x", "y"], 400)}
    pd.DataFrame(people).to_csv(tmp_path / "people.csv", index=False)
    z = 1.4 * (theta[:, None, None] - rng.normal(0, 1, (10, 1)) - np.array([-0.6, 0.6]))
    grades = (z + rng.logistic(size=(400, 10, 1)) > 0).sum(axis=2)
    wide = pd.DataFrame(grades, pd.Index(names, name="who"), [f"i{j}" for j in range(10)])
    wide.to_csv(tmp_path / "grades.csv")
    (wide > 0).astype(int).to_csv(tmp_path / "right.csv")
    for file, words in (("grades.csv", ["--model", "grm"]), ("right.csv", [])):
        out = tmp_path / file.removesuffix(".csv")
        said = run(f"fit {tmp_path}/{file}", *words, "--ability-on", tmp_path / "people.csv", "-o", out).out
        assert "Effects on ability" in said
        table = pd.read_csv(out / "ability_on.csv").set_index("term")
        assert abs(table["effect"]["hours"] - 0.4) < 0.12
        assert table["p"]["hours"] < 1e-6
        share = json.loads((out / "fit.json").read_text())["ability_on"]["explained"]
        assert 0.1 < share < 0.35


def test_covariates_that_tell_nothing_are_one_line_before_anything_is_fitted(tmp_path: Path) -> None:
    names = pd.Index([f"r{k}" for k in range(30)], name="respondent_id")
    values = np.random.default_rng(1).integers(0, 2, (30, 5))
    pd.DataFrame(values, names, list("abcde")).to_csv(tmp_path / "right.csv")
    for columns, saying in (
        ({"hours": ["1", "2", ""]}, "column hours: no value of respondent r2"),
        ({"hours": ["1", "1", "1"]}, "column hours: the same for all"),
        ({"hours": ["1", "2", "3"], "more": ["2", "4", "6"]}, "a term is a sum of others"),
        ({}, "no column but respondent_id"),
    ):
        pd.DataFrame({name: own * 10 for name, own in columns.items()}, names).to_csv(tmp_path / "people.csv")
        ended = run("fit right.csv --ability-on people.csv -o out", cwd=tmp_path, status=2)
        assert saying in ended.err
        assert "fitting" not in ended.err
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("place", "unit"), [(9.0, 1.0), (-20.0, 1.0), (0.0, 500.0)])
def test_neither_where_the_scale_lies_nor_the_unit_of_a_term_matters(place: float, unit: float) -> None:
    rng = np.random.default_rng(0)
    hours, rest = rng.normal(size=300), 0.8 * rng.normal(size=300)
    b, chance = np.linspace(-2, 2, 20), rng.random((300, 20))

    def effects(place: float, unit: float) -> pd.DataFrame:
        items = ItemParameters.from_difficulty([1.5] * 20, b + place)
        right = (chance < icc(place + 0.5 * hours + rest, items)).astype(float)
        return ability_regression(right, items, hours * unit).table().set_index("term")

    found, expected = effects(place, unit), effects(0.0, 1.0)
    assert found["effect"]["x1"] * unit == pytest.approx(expected["effect"]["x1"], abs=2e-3)
    assert found["se"]["x1"] * unit == pytest.approx(expected["se"]["x1"], rel=0.01)
    assert found["effect"]["intercept"] - place == pytest.approx(expected["effect"]["intercept"], abs=2e-3)


@pytest.mark.parametrize(
    ("covariates", "saying"),
    [
        (np.ones(4), "4 rows for 3 respondents"),
        ([np.inf, 0.0, 1.0], "a value is infinite"),
        (pd.DataFrame([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], columns=["x", "x"]), "x is there twice"),
        (pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0]}, index=["r1", "r2", "r3", "r3"]), "respondent r3 is there twice"),
        (pd.DataFrame({"x": [1.0, 2.0]}, index=["r1", "r2"]), "no row of respondent r3"),
    ],
)
def test_covariates_that_cannot_be_are_refused(covariates, saying: str) -> None:
    items = ItemParameters.from_difficulty([1.0] * 3, [-1.0, 0.0, 1.0])
    is_refused(saying, ability_regression, [[1, 0, 1], [0, 0, 1], [1, 1, 0]], items, covariates)


def test_a_level_or_a_number_of_values_that_cannot_be_is_refused() -> None:
    rng = np.random.default_rng(5)
    items = ItemParameters.from_difficulty([1.0] * 9, np.linspace(-1, 1, 9))
    found = ability_regression((rng.random((60, 9)) < 0.5).astype(float), items, rng.normal(size=60))
    is_refused("level must be between 0 and 1 but got 95", found.table, level=95)
    is_refused("at least one of each respondent but got 0", found.plausible_values, 0, rng=rng)
