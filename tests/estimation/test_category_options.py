"""Items in categories with every option of a fit: each gives what the plain fit gives where it says nothing."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import irtbench
from irtbench.estimation.fit_categories import FittedCategories, fit_categories
from irtbench.models.coded_scores import CodedScores

MODELS = ("grm", "gpcm", "nominal")


def simulated(n: int = 800, n_items: int = 12, *, mean: float = 0.0, sd: float = 1.0, seed: int = 1) -> pd.DataFrame:
    """Grades 0 to 3 by a graded response model."""
    rng = np.random.default_rng(seed)
    items = np.random.default_rng(0)
    slopes, places = items.uniform(0.8, 2.0, n_items), items.normal(0, 0.8, n_items)
    theta = rng.normal(mean, sd, (n, 1, 1))
    steps = places[None, :, None] + np.array([-1.0, 0.0, 1.0])
    grades = (slopes[:, None] * (theta - steps) + rng.logistic(size=(n, n_items, 1)) > 0).sum(axis=2)
    return pd.DataFrame(grades, columns=[f"i{j}" for j in range(n_items)])


@pytest.fixture(scope="module", params=MODELS)
def plain(request: pytest.FixtureRequest) -> tuple[str, FittedCategories]:
    return request.param, fit_categories(simulated(), request.param)


def long_of(wide: pd.DataFrame) -> pd.DataFrame:
    table = (
        wide.rename_axis("respondent_id").reset_index().melt("respondent_id", var_name="item_id", value_name="score")
    )
    return table.assign(respondent_id=table["respondent_id"].astype(str))


def test_trials_of_a_pair_are_as_many_items_of_the_same_parameters(plain: tuple[str, FittedCategories]) -> None:
    """Two trials of six items are twelve items of which each two are equal; the likelihood is the same."""
    model, _ = plain
    first, second = simulated(300, 6, seed=2), simulated(300, 6, seed=2)
    rng = np.random.default_rng(5)
    second.iloc[:, :] = np.where(rng.random(second.shape) < 0.3, (second.to_numpy() + 1) % 4, second.to_numpy())
    trials = fit_categories(pd.concat([long_of(first), long_of(second)]), model)
    both = pd.concat([first, second.add_suffix("'")], axis=1)
    names = trials.items.names[0]
    free = [name for name in names if not (model == "grm" and name in ("d2", "d3"))]
    equal = [[(f"i{j}", name), (f"i{j}'", name)] for j in range(6) for name in free]
    if model == "grm":  # distances of intercepts cannot be named: the likelihood is higher by their freedom alone
        apart = fit_categories(both, model, equal=equal)
        assert 0 < apart.log_likelihood - trials.log_likelihood < 15
    else:
        apart = fit_categories(both, model, equal=equal)
        assert trials.log_likelihood == pytest.approx(apart.log_likelihood, abs=1e-4)
        np.testing.assert_allclose(trials.parameters, apart.parameters[:6], atol=2e-3)


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


def test_one_slope_of_new_items_leaves_the_anchors_as_they_are() -> None:
    table = simulated(400, 8)
    known = fit_categories(table, "gpcm").items.select([f"i{j}" for j in range(4)])
    fitted = fit_categories(table, "gpcm", common_slope=True, anchors=known)
    np.testing.assert_allclose(fitted.parameters[:4], known.parameters, atol=1e-12)
    assert np.ptp(fitted.parameters[4:, 0]) < 1e-12
    assert fitted.n_parameters == 1 + 4 * 3 + 2


def test_new_items_that_outnumber_the_respondents_are_doubtful_beside_anchors_too() -> None:
    """Of 70 items ten are known: 60 new ones outnumber 50 respondents, and not 65."""
    known = fit_categories(simulated(600, 70).iloc[:, :10], "grm").items
    few = [fit_categories(simulated(n, 70, seed=3), anchors=known, standard_errors=False) for n in (50, 65)]
    assert [any("60 items outnumber 50" in doubt for doubt in fitted.doubts) for fitted in few] == [True, False]
    assert not any("outnumber" in doubt for doubt in few[1].doubts)


@pytest.mark.parametrize("model", ["grm", "gpcm"])
def test_a_skewed_crowd_has_a_density_of_its_own(model: str) -> None:
    rng = np.random.default_rng(2)
    theta = np.where(rng.random(2000) < 0.75, rng.normal(0.5, 0.5, 2000), rng.normal(-1.5, 0.6, 2000))
    bank = fit_categories(simulated(2000), model)
    drawn = bank.items.simulate(theta, rng=rng)
    normal, own = fit_categories(drawn, model), fit_categories(drawn, model, population="estimated")
    assert own.n_parameters == normal.n_parameters + 3
    assert own.bic < normal.bic


def test_a_long_table_of_many_items_is_coded_as_the_wide_one() -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"respondent_id": rng.integers(0, 200, 4000), "item_id": rng.integers(0, 900, 4000)})
    table = table.drop_duplicates().assign(score=lambda rows: rng.integers(0, 3, len(rows)))
    long = CodedScores.of(table)
    wide = table.pivot(index="respondent_id", columns="item_id", values="score")
    expected = CodedScores.of(wide.set_axis(wide.index.astype(str)).set_axis(wide.columns.astype(str), axis=1))
    rows = [expected.respondent_ids.index(name) for name in long.respondent_ids]
    columns = [expected.item_ids.index(name) for name in long.item_ids]
    codes = expected.codes[np.ix_(rows, columns)]
    np.testing.assert_array_equal(codes[tuple(long.places)], long.codes)
    np.testing.assert_array_equal(long.n_by_item, expected.n_by_item[columns])
    np.testing.assert_array_equal(long.n_by_respondent, expected.n_by_respondent[rows])
    assert [long.categories[k] for k in range(5)] == [expected.categories[columns[k]] for k in range(5)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"posterior": "normal"}, "posterior goes with right and wrong"),
        ({"guessing": 0.2}, "guessing goes with right and wrong"),
        ({"anchors": irtbench.ItemParameters.from_difficulty([1.0], [0.0], item_ids=["i0"])}, "are of right and wrong"),
        ({"common_slope": True, "prior": "weak"}, "go without a prior"),
        (
            {"groups": ["a", "b"] * 400, "prior": "hierarchical"},
            "one group, by which it sets the scale; expected prior none or weak",
        ),
        ({"groups": ["a", "b"] * 400, "population": "estimated"}, "a normal population"),
        ({"prior": "learnt"}, "prior"),
    ],
)
def test_what_does_not_go_together_is_said_in_a_line(words: dict[str, object], said: str) -> None:
    with pytest.raises(irtbench.InputError, match=said):
        fit_categories(simulated(), "gpcm", **words)  # type: ignore[arg-type]


def test_anchors_of_another_model_or_other_categories_are_refused(plain: tuple[str, FittedCategories]) -> None:
    model, bank = plain
    other = "gpcm" if model == "grm" else "grm"
    with pytest.raises(irtbench.InputError, match=f"anchor i0 is {model} of 4 categories"):
        fit_categories(simulated(), other, anchors=bank)
    fewer = simulated().clip(upper=2)
    with pytest.raises(irtbench.InputError, match="of 3; expected the same"):
        fit_categories(fewer, model, anchors=bank)
