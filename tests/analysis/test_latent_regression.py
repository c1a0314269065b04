"""Ability as a sum: recovery and coverage, where regressing estimates is biased, groups, grades, plausible values."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from builders.command_line import run
from irtbench import InputError, ItemParameters, estimate_ability, fit_groups, icc, simulate_responses
from irtbench.analysis.latent_regression import AbilityRegression, ability_regression

TRUTH, SIGMA = np.array([-0.7, 0.5, -0.4, 0.6]), 0.7  # intercept, hours, kind c, kind b


def one_sample(
    rng: np.random.Generator, n: int = 400, n_items: int = 15
) -> tuple[AbilityRegression, np.ndarray, np.ndarray]:
    """A regression on skewed hours and uneven kinds, its design, and EAPs of the same respondents."""
    items = ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, n_items), rng.normal(0, 1, n_items))
    known = pd.DataFrame({"hours": rng.exponential(1, n), "kind": rng.choice(["a", "b", "c"], n, p=[0.6, 0.25, 0.15])})
    x = np.stack([np.ones(n), known["hours"], known["kind"] == "b", known["kind"] == "c"], axis=1).astype(float)
    theta = x @ [TRUTH[0], TRUTH[1], TRUTH[3], TRUTH[2]] + SIGMA * rng.normal(size=n)
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
        truth = TRUTH[[0, 1, 3, 2]]
        table = found.table()
        inside.append([*((table["lower"] <= truth) & (truth <= table["upper"])),
                       abs(found.residual_sd - SIGMA) < 1.96 * found.se_residual_sd])  # fmt: skip
        effects.append(found.effects)
        naive.append(np.linalg.lstsq(x, eap, rcond=None)[0])
    np.testing.assert_allclose(np.mean(effects, axis=0), TRUTH[[0, 1, 3, 2]], atol=0.05)
    assert np.mean(inside) == pytest.approx(0.95, abs=0.05)
    assert np.mean(naive, axis=0)[1] < 0.42  # of .5: EAPs are drawn to the middle


def test_the_likelihood_is_that_of_an_integral_written_down() -> None:
    items = ItemParameters.from_difficulty([1.0, 1.5, 0.7], [-0.5, 0.2, 1.0])
    values = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0]], dtype=float)
    hours = np.array([0.0, 1.0, 2.0, 0.5, 1.5, -1.0, 0.2])
    found = ability_regression(values, items, hours)

    def likelihood(row: np.ndarray, mean: float) -> float:
        def at(t: float) -> float:
            p = icc(t, items)[0]
            return float(np.prod(np.where(row == 1, p, 1 - p)) * norm.pdf(t, mean, found.residual_sd))

        return float(quad(at, mean - 8, mean + 8, points=[mean])[0])

    means = found.design @ found.effects
    expected = sum(np.log(likelihood(row, mean)) for row, mean in zip(values, means, strict=True))
    assert found.log_likelihood == pytest.approx(expected, abs=1e-4)


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
    found, x, _ = one_sample(rng, n=3000, n_items=6)
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
    pd.DataFrame({"respondent_id": names, "hours": hours.round(3), "site": rng.choice(["x", "y"], 400)}).to_csv(
        tmp_path / "people.csv", index=False
    )
    z = 1.4 * (theta[:, None, None] - rng.normal(0, 1, (10, 1)) - np.array([-0.6, 0.6])) + rng.logistic(
        size=(400, 10, 1)
    )
    wide = pd.DataFrame((z > 0).sum(axis=2), columns=[f"i{j}" for j in range(10)], index=pd.Index(names, name="who"))
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


@pytest.mark.parametrize(
    ("columns", "saying"),
    [
        ({"hours": ["1", "2", ""]}, "column hours: no value of respondent r2"),
        ({"hours": ["1", "1", "1"]}, "column hours: the same for all"),
        ({"hours": ["1", "2", "3"], "more": ["2", "4", "6"]}, "a term is a sum of others"),
        ({}, "no column but respondent_id"),
    ],
)
def test_covariates_that_tell_nothing_are_one_line(tmp_path: Path, columns: dict[str, list[str]], saying: str) -> None:
    n = 30
    table = pd.DataFrame(
        {"respondent_id": [f"r{k}" for k in range(n)]} | {name: own * 10 for name, own in columns.items()}
    )
    table.to_csv(tmp_path / "people.csv", index=False)
    values = np.random.default_rng(1).integers(0, 2, (n, 5))
    pd.DataFrame(values, columns=list("abcde"), index=pd.Index(table["respondent_id"])).to_csv(tmp_path / "right.csv")
    ended = run(f"fit {tmp_path}/right.csv --ability-on {tmp_path}/people.csv -o {tmp_path}/out", status=2)
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


def test_respondents_without_a_row_are_named() -> None:
    items = ItemParameters.from_difficulty([1.0] * 3, [-1.0, 0.0, 1.0])
    known = pd.DataFrame({"x": [1.0, 2.0]}, index=["r1", "r2"])
    with pytest.raises(InputError, match="no row of respondent r3"):
        ability_regression([[1, 0, 1], [0, 0, 1], [1, 1, 0]], items, known)


@pytest.mark.parametrize(
    ("covariates", "saying"),
    [
        (np.ones(4), "4 rows for 3 respondents"),
        ([np.inf, 0.0, 1.0], "a value is infinite"),
        (pd.DataFrame([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], columns=["x", "x"]), "x is there twice"),
        (pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0]}, index=["r1", "r2", "r3", "r3"]), "respondent r3 is there twice"),
    ],
)
def test_covariates_that_cannot_be_are_refused(covariates, saying: str) -> None:
    items = ItemParameters.from_difficulty([1.0] * 3, [-1.0, 0.0, 1.0])
    with pytest.raises(InputError, match=saying):
        ability_regression([[1, 0, 1], [0, 0, 1], [1, 1, 0]], items, covariates)


def test_a_level_or_a_number_of_values_that_cannot_be_is_refused() -> None:
    rng = np.random.default_rng(5)
    items = ItemParameters.from_difficulty([1.0] * 9, np.linspace(-1, 1, 9))
    found = ability_regression((rng.random((60, 9)) < 0.5).astype(float), items, rng.normal(size=60))
    with pytest.raises(InputError, match="level must be between 0 and 1 but got 95"):
        found.table(level=95)
    with pytest.raises(InputError, match="at least one of each respondent but got 0"):
        found.plausible_values(0, rng=rng)
