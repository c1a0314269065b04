"""The regression of difficulty fitted with the items: against lme4, by brute force, and where two steps go wrong."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from builders.mirt_figures import verbal
from builders.simulated import with_values
from irtbench import InputError, ItemFeatures, ItemParameters, ResponseMatrix, fit_model
from irtbench.analysis.explained_responses import (
    Kind,
    explain_grades,
    explain_responses,
    fit_explanatory_items,
    without_prior,
)
from irtbench.analysis.meta_regression import Estimates, meta_regression
from irtbench.models.curves import simulate_responses

EFFECTS = np.array([0.8, -0.4])


@pytest.fixture(autouse=True)
def hardly_any_samples_of_r2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its interval counts, a test asks for few_samples_of_r2."""
    monkeypatch.setattr("irtbench.analysis.explained_difficulty.N_SAMPLES", {False: 10, True: 10})


def study(
    n_respondents: int, n_items: int, *, seed: int, missing: float = 0.0, kind: Kind = "rasch", residual: float = 0.5
) -> tuple[ResponseMatrix, ItemFeatures, NDArray[np.float64]]:
    """Responses to items whose difficulty is linear in two features but for a residual; the features; difficulties."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_items, 2))
    b = x @ EFFECTS + rng.normal(0, residual, n_items)
    a = np.ones(n_items) if kind == "rasch" else rng.lognormal(0.2, 0.3, n_items)
    items = ItemParameters.from_difficulty(a, b)
    responses = simulate_responses(rng.normal(size=n_respondents), items, rng=rng, missing=missing)
    return responses.answered(), ItemFeatures(items.item_ids, ("x", "y"), x), b


def test_verbal_aggression_is_that_of_lme4(reference: Path) -> None:
    """glmer with persons and items at random, by Laplace's approximation and maximum likelihood; ours is REML's."""
    folder = reference / "next" / "10_lltm"
    features = pd.read_csv(folder / "verbal_features.csv").rename(columns={"item": "item_id"})
    data, _ = verbal(reference)
    found = explain_responses(data, features, model="rasch", rng=np.random.default_rng(1))
    printed = pd.read_csv(folder / "verbal_lltm_coef.csv").set_index("term").loc[list(found.terms)]
    fit = pd.read_csv(folder / "verbal_fit.csv").set_index("stat")["value"]
    # effects on easiness there, and short by Laplace's approximation: by no more than it is without a residual
    short = fit["sd_glmer_AGQ25"] / fit["sd_glmer_laplace"]
    longer = -found.effect / printed["glmer_random_item"]
    assert longer.between(1.0, short).all()
    as_ml = np.sqrt((24 - 5) / 24)
    assert found.residual_sd * as_ml == pytest.approx(fit["sd_item_random_item"], abs=0.01)
    assert found.residual_lower < fit["sd_item_random_item"] < found.residual_upper
    np.testing.assert_allclose(found.se * as_ml, printed["se_glmer_random_item"], rtol=0.03)
    joint = fit_explanatory_items(data, features.drop(columns="item_id").to_numpy(float), kind="rasch")
    assert joint.population.deviation == pytest.approx(fit["sd_person_random_item"], abs=0.01)
    assert found.converged
    assert found.with_items


def test_a_normal_posterior_gives_the_estimate_back() -> None:
    estimate, error, expected, residual = 1.2, 0.4, 0.3, 0.6
    variance = 1 / (error**-2 + residual**-2)
    mean = variance * (estimate / error**2 + expected / residual**2)
    found = without_prior(np.array([mean]), np.array([variance]), expected, residual)
    assert [float(found.values[0]), float(found.sd[0])] == pytest.approx([estimate, error])


@pytest.fixture
def few_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the end of the fit is no matter."""
    monkeypatch.setattr("irtbench.analysis.explained_responses.MOST_UPDATES", 12)


@pytest.mark.slow
def test_ten_answers_an_item_are_enough_where_two_steps_go_wrong() -> None:
    residuals = []
    for seed in range(2):
        data, features, _ = study(100, 100, seed=seed, missing=0.9, residual=0.6)
        joint = explain_responses(data, features, model="rasch", rng=np.random.default_rng(1))
        assert joint.converged
        assert len(joint.item_ids) == 100  # those that all got right among them
        assert np.isfinite(joint.difficulty).all()
        kept = (data.proportion_correct() > 0) & (data.proportion_correct() < 1)
        some = data.select_items([item for item, one in zip(data.item_ids, kept, strict=True) if one])
        fitted = fit_model(some.answered(), kind="rasch")
        se = fitted.items.standard_errors()["difficulty"]
        steps = meta_regression(Estimates(fitted.items.difficulty, se), features.values[kept])
        residuals.append((joint.residual_sd, steps.residual_sd))
    joint_mean, steps_mean = np.mean(residuals, axis=0)
    assert joint_mean == pytest.approx(0.6, abs=0.12)
    assert steps_mean < 0.45


@pytest.mark.slow
@pytest.mark.usefixtures("few_samples_of_r2")
def test_intervals_cover_with_few_uneven_answers() -> None:
    covered, r2 = np.zeros(4), []
    n_sets = 5
    for seed in range(n_sets):
        data, features, b = study(120, 100, seed=100 + seed, missing=0.85, kind="2pl")
        some = data.select_items(data.item_ids[:80]).answered()
        found = explain_responses(some, features, rng=np.random.default_rng(seed))
        r2.append(found.r2)
        truth = EFFECTS @ EFFECTS / (EFFECTS @ EFFECTS + 0.25)
        covered += [
            ((found.lower[1:] <= EFFECTS) & (found.upper[1:] >= EFFECTS)).mean(),
            found.residual_lower <= 0.5 <= found.residual_upper,
            found.r2_lower <= truth <= found.r2_upper,
            ((found.new_lower <= b[80:]) & (b[80:] <= found.new_upper)).mean(),
        ]
    assert np.mean(r2) == pytest.approx(0.76, abs=0.08)
    # standard errors: effects .06, s and R2 .1, items .04 (of 24 sets .89 are covered)
    assert (covered / n_sets > [0.83, 0.7, 0.7, 0.82]).all()


def test_items_answered_alike_by_all_are_items_like_others() -> None:
    data, features, _ = study(200, 40, seed=3)
    values = data.values.copy()
    values[:, 5], values[:, 6] = 1.0, 0.0
    found = fit_explanatory_items(with_values(data, values), features.values, kind="2pl")
    assert found.learning.settled
    assert found.items.difficulty[5] < -1.5
    assert found.items.difficulty[6] > 1.5
    assert (found.estimates.variances > 0).all()
    assert found.items.n_items == 40


def test_wrong_input_is_named() -> None:
    data, features, _ = study(100, 20, seed=1)
    rng = np.random.default_rng(1)
    with pytest.raises(InputError, match="no row for item item1"):
        explain_responses(data, features.select(features.item_ids[1:]), rng=rng)
    with pytest.raises(InputError, match="7 items of known difficulty; expected at least 8"):
        explain_responses(data.select_items(data.item_ids[:7]), features, rng=rng)
    frame = features.table()
    frame.loc[3, "x"] = np.nan
    with pytest.raises(InputError, match="x of item item4 is empty"):
        explain_responses(data, frame, rng=rng)
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        explain_responses(data, features, level=95, rng=rng)


def test_few_respondents_of_another_mean_converge_under_rasch() -> None:
    """Fourteen respondents, most items hard for all of them: the zero of the scale is theirs."""
    rng = np.random.default_rng(2)
    feature = rng.normal(size=200)
    items = ItemParameters.from_difficulty(np.ones(200), 2.0 + 0.8 * feature + rng.normal(0, 1.5, 200))
    responses = simulate_responses(rng.normal(size=14), items, rng=rng)
    found = fit_explanatory_items(responses, feature[:, None], kind="rasch")
    assert found.learning.settled
    assert found.learning.updates < 40
    assert np.corrcoef(found.estimates.values, items.difficulty)[0, 1] > 0.7


@pytest.mark.usefixtures("few_updates")
def test_items_and_people_without_a_response_change_nothing() -> None:
    """Such an item is a new one, which its features predict."""
    data, features, _ = study(30, 12, seed=3)
    table = pd.DataFrame(data.values, data.respondent_ids, data.item_ids)
    holes = table.assign(new=np.nan)
    holes.loc["nobody"] = np.nan
    more = ItemFeatures((*features.item_ids, "new"), features.names, np.vstack([features.values, [1.0, 1.0]]))
    for explain in (explain_responses, explain_grades):
        one, other = (explain(of, more, rng=np.random.default_rng(1)) for of in (table, holes))
        pd.testing.assert_frame_equal(one.table(), other.table())
        assert other.new_item_ids == ("new",)


def one_each(table: pd.DataFrame) -> pd.DataFrame:
    """One response of each respondent, whatever the ability."""
    rng = np.random.default_rng(1)
    given = rng.integers(0, table.shape[1], (len(table), 1)) == np.arange(table.shape[1])
    values = np.where(given, rng.integers(0, 2, table.shape), np.nan)
    return pd.DataFrame(values, columns=table.columns)


@pytest.mark.usefixtures("few_updates")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table[:2], "2 respondents; expected at least 3"),
        (lambda table: table.notna() * 1.0, "all responses are the same to every item"),
        (lambda table: table.notna() * (np.arange(table.shape[1]) % 2.0), "all responses are the same to every item"),
        (one_each, "tell no abilities apart, so that it has no scale"),
    ],
)
def test_nothing_is_explained_of_nothing(change: Callable[[pd.DataFrame], pd.DataFrame], words: str) -> None:
    data, features, _ = study(40, 30, seed=3)
    table = change(pd.DataFrame(data.values, columns=data.item_ids))
    for explain in (explain_responses, explain_grades):
        with pytest.raises(InputError, match=words):
            explain(table, features, rng=np.random.default_rng(1))
