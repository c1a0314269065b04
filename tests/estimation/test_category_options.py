"""Items in categories with every option of a fit: each gives what the plain fit gives where it says nothing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.refusals import is_refused
from irtbench.estimation.fit_categories import fit_categories


def simulated(n: int = 800, n_items: int = 12, *, mean: float = 0.0, sd: float = 1.0, seed: int = 1) -> pd.DataFrame:
    """Grades 0 to 3 by a graded response model."""
    rng = np.random.default_rng(seed)
    items = np.random.default_rng(0)
    slopes, places = items.uniform(0.8, 2.0, n_items), items.normal(0, 0.8, n_items)
    theta = rng.normal(mean, sd, (n, 1, 1))
    steps = places[None, :, None] + np.array([-1.0, 0.0, 1.0])
    grades = (slopes[:, None] * (theta - steps) + rng.logistic(size=(n, n_items, 1)) > 0).sum(axis=2)
    return pd.DataFrame(grades, columns=[f"i{j}" for j in range(n_items)])


def test_partial_credit_next_to_its_own_items_is_the_fit_of_all() -> None:
    # with anchors at the maximum, the others and the population are those of the maximum
    table = simulated(400, 8)
    every = fit_categories(table, "pcm")
    fitted = fit_categories(
        table, "pcm", anchors=replace(every.items.select(every.items.item_ids[:4]), covariance=None)
    )
    np.testing.assert_allclose(fitted.parameters, every.parameters, atol=1e-4)
    assert (fitted.parameters[:, 0] == 1).all()
    assert fitted.log_likelihood == pytest.approx(every.log_likelihood, abs=1e-6)
    assert fitted.moments.mean == pytest.approx(0, abs=1e-4)
    assert fitted.moments.sd == pytest.approx(every.moments.sd, abs=1e-4)
    assert fitted.n_parameters == every.n_parameters - 4 * 3 + 1  # less the steps of four items, and a mean


@pytest.mark.parametrize("model", ["pcm", "rsm"])
def test_slopes_of_1_in_groups_are_a_common_slope_in_other_units(model: str) -> None:
    table, groups = simulated(400, 8), ["a", "b"] * 200
    one = {"common_slope": True} if model == "pcm" else {"rating_scale": True}
    slope, unit = (fit_categories(table, which, groups=groups, **how) for which, how in (("gpcm", one), (model, {})))  # type: ignore[arg-type]
    assert unit.log_likelihood == pytest.approx(slope.log_likelihood, abs=1e-9)
    a = slope.parameters[0, 0]
    np.testing.assert_allclose(unit.groups[["mean", "sd"]], a * slope.groups[["mean", "sd"]], rtol=1e-9)
    # the reference's standard deviation is the slope, and as uncertain
    assert unit.groups["se_sd"][0] == pytest.approx(slope.covariance[0, 0, 0] ** 0.5, rel=1e-9)
    assert (unit.parameters[:, 0] == 1).all()


def test_new_items_that_outnumber_the_respondents_are_doubtful_beside_anchors_too() -> None:
    """Of 24 items four are known: 20 new ones outnumber 16 respondents, and not 23."""
    known = fit_categories(simulated(300, 24).iloc[:, :4], "grm").items
    few = [fit_categories(simulated(n, 24, seed=3), anchors=known, standard_errors=False) for n in (16, 23)]
    assert [any("20 items outnumber 16" in doubt for doubt in fitted.doubts) for fitted in few] == [True, False]
    assert not any("outnumber" in doubt for doubt in few[1].doubts)


def test_a_skewed_crowd_has_a_density_of_its_own() -> None:
    rng = np.random.default_rng(2)
    theta = np.where(rng.random(500) < 0.75, rng.normal(0.5, 0.5, 500), rng.normal(-1.5, 0.6, 500))
    drawn = fit_categories(simulated(400, 6), "grm").items.simulate(theta, rng=rng)
    normal, slope = (
        fit_categories(drawn, "gpcm", common_slope=True, population=which) for which in ("normal", "estimated")
    )
    unit = fit_categories(drawn, "pcm", population="estimated")
    assert slope.n_parameters == normal.n_parameters + 3
    assert slope.bic < normal.bic
    a = slope.parameters[0, 0]  # with slopes of 1 ability has a times the standard deviation, and so has its density
    assert unit.log_likelihood == pytest.approx(slope.log_likelihood, abs=1e-9)
    np.testing.assert_allclose(unit.estimated_population.nodes, a * slope.estimated_population.nodes, rtol=1e-12)
    mine, theirs = (irtbench.estimate_ability(fitted.items.matrix(drawn), fitted.items.as_items(),
                    quadrature=fitted.estimated_population).theta for fitted in (unit, slope))  # fmt: skip
    np.testing.assert_allclose(mine, a * theirs, atol=1e-6)


def test_repeated_responses_go_with_one_slope() -> None:
    rng = np.random.default_rng(3)
    trials = np.full((150, 5), 3)
    right = rng.binomial(trials, 1 / (1 + np.exp(-(rng.normal(size=(150, 1)) - np.linspace(-1, 1, 5)))))
    names = [f"r{i}" for i in range(150)], [f"i{j}" for j in range(5)]
    rasch = irtbench.fit_model(
        irtbench.ResponseMatrix(right.astype(float), tuple(names[0]), tuple(names[1]), trials), kind="rasch"
    )
    rows = [(r, i, k < right[a, b]) for a, r in enumerate(names[0]) for b, i in enumerate(names[1]) for k in range(3)]
    table = pd.DataFrame(rows, columns=["respondent_id", "item_id", "response"]).astype({"response": int})
    found = fit_categories(table, "pcm")
    assert found.log_likelihood == pytest.approx(rasch.log_likelihood, abs=1e-6)
    assert found.moments.sd == pytest.approx(rasch.moments.sd, abs=1e-4)


OF_RIGHT_OR_WRONG = irtbench.ItemParameters.from_difficulty([1.0], [0.0], item_ids=["i0"])
IN_GROUPS: dict[str, Any] = {"groups": ["a", "b"] * 100}


@pytest.fixture(scope="module")
def bank() -> irtbench.CategoryParameters:
    return fit_categories(simulated(200), "grm").items.select(["i0", "i1"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"posterior": "normal"}, "posterior goes with right and wrong"),
        ({"guessing": 0.2}, "guessing goes with right and wrong"),
        ({"anchors": OF_RIGHT_OR_WRONG}, "are of right and wrong"),
        ({"common_slope": True, "prior": "weak"}, "go without a prior"),
        (IN_GROUPS | {"prior": "hierarchical"}, "one group, by which it sets the scale; expected prior none or weak"),
        (IN_GROUPS | {"population": "estimated"}, "a normal population"),
        ({"prior": "learnt"}, "prior"),
        ({"anchors": "bank"}, "anchor i0 is grm of 4 categories"),
        ({"anchors": "bank", "models": "grm", "clipped": 2}, "of 3; expected the same"),
        ({"anchors": "bank", "models": "grm", "equal": [[("i0", "a"), ("i3", "a")]]}, "of an anchor and of another"),
    ],
)
def test_what_does_not_go_together_is_said_in_a_line(
    bank: irtbench.CategoryParameters, words: dict[str, Any], said: str
) -> None:
    given = {"models": "gpcm"} | words | ({"anchors": bank} if words.get("anchors") == "bank" else {})
    grades = simulated(200).clip(upper=given.pop("clipped", 3))
    is_refused(said, fit_categories, grades, **given)


def test_two_anchors_may_be_made_equal(bank: irtbench.CategoryParameters) -> None:
    both = fit_categories(simulated(200), "grm", anchors=bank, equal=[[("i0", "a"), ("i1", "a")]], max_steps=30)
    assert both.converged
