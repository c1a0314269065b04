"""Items in categories: mirt's figures, the 2PL as their limit, recovery, a model of one's own, and bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from builders.refusals import is_refused
from irtbench import FittedCategories, fit_categories, item_fit
from irtbench.models.item_models.item_model import NUMPY, ItemModel, Maths, Parameters, steps_of_shares
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_models.named import MODELS
from irtbench.models.pyro_model.categories import CategoryItems
from irtbench.models.quadrature import normal_grid


def theirs(reference: Path, folder: str, data: str) -> tuple[pd.DataFrame, pd.DataFrame, float, pd.DataFrame]:
    root = reference / "graded"
    long = pd.read_csv(root / "data" / data)
    wide = long.pivot(index="respondent_id", columns="item_id", values="response")
    items = pd.read_csv(root / folder / "items_slope_intercept.csv")
    fit = json.loads((root / folder / "fit.json").read_text())
    return wide, items, fit["loglik"], pd.read_csv(root / folder / "theta.csv")


@pytest.mark.parametrize(
    ("folder", "data", "words"),
    [
        ("science_grm", "science.csv", {"models": "grm"}),
        ("science_gpcm", "science.csv", {"models": "gpcm"}),
        ("sim_grm_grm", "sim_grm.csv", {"models": "grm"}),  # 20% missing
        ("sim_grm_gpcm", "sim_grm.csv", {"models": "gpcm"}),
        ("sim_mixed_prior", "sim_mixed.csv.gz", {"prior_guessing": "normal:-1.2,0.5"}),
    ],
)
def test_the_figures_are_those_of_mirt(reference: Path, folder: str, data: str, words: dict[str, Any]) -> None:
    wide, items, log_likelihood, abilities = theirs(reference, folder, data)
    if "models" not in words:
        kinds = items.drop_duplicates("item_id").set_index("item_id")["model"].str.lower()
        words = {**words, "models": kinds.to_dict()}
    fitted = fit_categories(wide, **words)
    assert fitted.converged
    assert not fitted.doubts
    assert fitted.log_likelihood == pytest.approx(log_likelihood, abs=1e-4)
    renamed = items.assign(parameter=items["parameter"].replace({"a1": "a", "g": "c"}))
    both = fitted.coefficients().merge(renamed, on=["item_id", "parameter"])
    assert len(both) == fitted.n_parameters
    np.testing.assert_allclose(both["value_x"], both["value_y"], atol=1e-4)
    of_logit = both["se_scale"] != "natural"  # of guessing
    ours: pd.Series = both["standard_error"] / np.where(of_logit, both["value_x"] * (1 - both["value_x"]), 1.0)
    np.testing.assert_allclose(ours, both["se_oakes"], rtol=1e-3)
    found = fitted.items.scores(wide).merge(abilities, on="respondent_id")
    np.testing.assert_allclose(found["theta"], found["eap"], atol=1e-4)
    np.testing.assert_allclose(found["se_x"], found["se_y"], atol=1e-4)


def test_errors_of_steps_are_by_the_delta_method_which_mirt_gets_wrong_for_the_first(reference: Path) -> None:
    wide, items, _, _ = theirs(reference, "sim_mixed_prior", "sim_mixed.csv.gz")  # 2PL, 3PL and partial credit
    kinds = items.drop_duplicates("item_id").set_index("item_id")["model"].str.lower()
    fitted = fit_categories(wide, kinds.to_dict(), prior_guessing="normal:-1.2,0.5")
    assert fitted.covariance is not None
    table = fitted.table().set_index("item_id")
    file = reference / "graded" / "sim_mixed_prior" / "items_difficulty.csv"
    printed = pd.read_csv(file).set_index(["item_id", "parameter"])["se_oakes"]
    for item in kinds.index[kinds == "gpcm"]:
        place = fitted.items.item_ids.index(item)
        (a, *d), own = fitted.parameters[place, :4], fitted.covariance[place, :4, :4]
        by = np.column_stack([np.diff([0.0, *d]) / a**2, -np.diff(np.eye(4), axis=0)[:, 1:] / a])
        errors = np.sqrt(np.diag(by @ own @ by.T))
        ours = table.loc[item, ["se_step_1", "se_step_2", "se_step_3"]].astype(float)
        np.testing.assert_allclose(ours, errors, rtol=1e-5)
        np.testing.assert_allclose(printed[item][["b2", "b3"]], errors[1:], rtol=1e-5)
        # of the first step mirt 1.47 prints the error by derivatives of the second, and of these by a and d1 alone
        wrong = by[1] * [1, 1, 0, 0]
        assert printed[item]["b1"] == pytest.approx(np.sqrt(wrong @ own @ wrong), rel=1e-4)


def test_a_common_slope_is_the_partial_credit_model_of_mirt(reference: Path) -> None:
    wide, items, log_likelihood, abilities = theirs(reference, "science_pcm", "science.csv")
    fitted = fit_categories(wide, "gpcm", common_slope=True, tolerance=1e-6)
    assert (fitted.converged, fitted.n_parameters) == (True, 13)
    assert fitted.log_likelihood == pytest.approx(log_likelihood, abs=1e-5)
    slope = fitted.parameters[0, 0]  # theirs are 1, and the variance of ability is free: 1.0025
    assert slope**2 == pytest.approx(1.0025306749, abs=1e-4)
    both = fitted.coefficients().merge(items[items["parameter"].str.startswith("d")], on=["item_id", "parameter"])
    np.testing.assert_allclose(both["value_x"], both["value_y"], atol=2e-4)  # on other nodes
    np.testing.assert_allclose(both["standard_error"], both["se_oakes"], rtol=1e-3)
    found = fitted.items.scores(wide).merge(abilities, on="respondent_id")
    np.testing.assert_allclose(slope * found["theta"], found["eap"], atol=1e-4)


def grades(n: int = 500, n_items: int = 6, seed: int = 1, missing: float = 0.2) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    theta, a = rng.normal(size=(n, 1, 1)), np.linspace(0.8, 2.0, n_items)[:, None]
    above = rng.logistic(size=(n, n_items, 1)) + a * theta > a * np.array([-1.0, 0.2, 1.1])
    skipped = rng.random((n, n_items)) < missing
    skipped[:, 0] &= ~skipped.all(axis=1)
    return np.where(skipped, np.nan, above.sum(axis=2))


def test_order_and_names_of_categories_are_no_matter() -> None:
    given = grades()
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(len(given)), rng.permutation(6)
    names = [f"q{j}" for j in range(6)]
    first = fit_categories(pd.DataFrame(given, columns=names))
    words = pd.DataFrame(given, columns=names).replace({0.0: "poor", 1.0: "fair", 2.0: "good", 3.0: "best"})
    again = fit_categories(words.iloc[rows, columns], levels=["poor", "fair", "good", "best"])
    assert again.items.categories[0] == ("poor", "fair", "good", "best")
    both = first.coefficients().merge(again.coefficients(), on=["item_id", "parameter"])
    np.testing.assert_allclose(both["value_x"], both["value_y"], atol=1e-4)
    np.testing.assert_allclose(again.items.scores(words)["theta"], first.items.scores(given)["theta"], atol=1e-4)


def test_information_is_the_expectation_of_squared_scores() -> None:
    fitted, theta, h = fit_categories(grades(), "grm"), np.linspace(-3, 3, 7), 1e-5
    for own, item in zip(fitted.items.information(theta).T, range(6), strict=True):
        above, at, below = (fitted.items.probabilities(theta + step)[item] for step in (h, 0, -h))
        np.testing.assert_allclose(own, (((above - below) / (2 * h)) ** 2 / at).sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(sum(fitted.items.probabilities(0.3)[0][0]), 1)
    assert (np.diff(fitted.items.expected_score(theta), axis=0) > 0).all()


@pytest.mark.parametrize("name", list(MODELS))
def test_numpy_and_torch_have_the_same_curves_and_derivatives_are_those_of_differences(name: str) -> None:
    model, k = MODELS[name], 2 if isinstance(MODELS[name], Logistic) else 4
    items = CategoryItems([model] * 3, [k] * 3, 1, torch.device("cpu"))
    x, theta = np.random.default_rng(0).normal(size=(3, items.width)), np.linspace(-20, 20, 9)
    x[:, -1] += 4.0 * (name == "4pl")  # its upper asymptote is above the lower one
    (part,) = items.parts
    log_p, by_x, by_theta = part.derivatives(torch.from_numpy(x), torch.from_numpy(theta[None]))
    found = model.log_probabilities(x[:, :, None], theta[None], NUMPY)
    np.testing.assert_allclose(found, log_p, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, rtol=1e-12)
    h = 1e-5
    for p, step in enumerate(h * np.eye(items.width)):
        above, below = (model.log_probabilities((x + s * step)[:, :, None], theta[None], NUMPY) for s in (1, -1))
        np.testing.assert_allclose(by_x[:, p], (above - below) / (2 * h), rtol=1e-5, atol=1e-6)
    above, below = (model.log_probabilities(x[:, :, None], theta[None] + s * h, NUMPY) for s in (1, -1))
    np.testing.assert_allclose(by_theta[:, 0], (above - below) / (2 * h), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("never", [None, 3])
def test_a_rating_scale_is_the_maximum_of_its_likelihood_written_down(never: int | None) -> None:
    """P(k) proportional to exp(k a theta + t_k + k c_j), integrated over 61 nodes, by a search of SciPy's.

    A category that nobody gave an item is one of the scale's all the same.
    """
    rng = np.random.default_rng(6)
    theta, shift = rng.normal(0, 1.3, 400), np.array([0.0, 0.6, -0.5, 0.3])
    steps = np.array([1.0, 0.4, -1.2])  # t_1, t_2, t_3
    z = np.arange(4) * (theta[:, None, None] + shift[:, None]) + np.concatenate([[0], steps])
    grades = (np.cumsum(softmax(z, axis=2), axis=2) < rng.random((400, 4, 1))).sum(axis=2)
    grades[grades[:, 2] == never, 2] = 2
    fitted = fit_categories(grades, "gpcm", rating_scale=True)
    assert (fitted.converged, fitted.n_parameters) == (True, 7)
    assert fitted.items.categories == ((0, 1, 2, 3),) * 4
    nodes = normal_grid(61)

    def minus_log_likelihood(x: NDArray[np.float64]) -> float:
        c = np.concatenate([[0.0], x[4:]])
        log_p = np.arange(4) * (x[0] * nodes.nodes[:, None, None] + c[:, None]) + np.concatenate([[0.0], x[1:4]])
        log_p -= logsumexp(log_p, axis=2, keepdims=True)
        rows = sum(log_p[:, j][:, grades[:, j]] for j in range(4))
        return -float(logsumexp(rows + nodes.log_weights[:, None], axis=0).sum())

    best = minimize(minus_log_likelihood, np.array([1.0, 0, 0, 0, 0, 0, 0]), method="BFGS", options={"gtol": 1e-6})
    assert fitted.log_likelihood == pytest.approx(-best.fun, abs=1e-5)
    a, d = fitted.parameters[:, 0], fitted.parameters[:, 1:]
    np.testing.assert_allclose(a, best.x[0], atol=1e-4)
    np.testing.assert_allclose(d, best.x[1:4] + np.arange(1, 4) * np.concatenate([[0], best.x[4:]])[:, None], atol=2e-4)
    if never is None:  # the partial credit model has it as a special case
        assert fit_categories(grades, "gpcm", common_slope=True).log_likelihood > fitted.log_likelihood
    words = pd.DataFrame(grades).map(lambda k: "abcd"[k])
    labelled = fit_categories(words, "gpcm", rating_scale=True, levels=list("abcd"))
    assert labelled.log_likelihood == fitted.log_likelihood


def test_parameters_that_are_the_same() -> None:
    given = grades(400, 8, missing=0.0)
    pair = fit_categories(given, equal=[[("item5", "a"), ("item6", "a")], [("item3", "d1"), ("item4", "d1")]])
    free = fit_categories(given)
    a = pair.coefficients().query("parameter == 'a'")["value"].to_numpy()
    d = pair.coefficients().query("parameter == 'd1'")["value"].to_numpy()
    assert (a[4], d[2]) == (a[5], d[3])
    assert (pair.n_parameters, free.n_parameters) == (30, 32)
    assert free.log_likelihood - 10 < pair.log_likelihood < free.log_likelihood
    assert pair.items.n_free.tolist() == [4, 4, 3, 3, 3, 3, 4, 4]
    # all slopes in one set are a common slope
    whole = fit_categories(given, equal=[[(f"item{j}", "a") for j in range(1, 9)]])
    assert whole.log_likelihood == fit_categories(given, common_slope=True).log_likelihood
    for words, saying in (
        ({"equal": [[("item1", "d2"), ("item2", "d2")]]}, "no parameter .'item1', 'd2'. that can be"),
        ({"equal": [[("item1", "a")], [("item1", "a"), ("item2", "a")]]}, "in two sets"),
        ({"equal": [[("item1", "a"), ("item2", "a")]], "prior": "weak"}, "go without a prior"),
        ({"rating_scale": True}, "a rating scale is of gpcm items"),
    ):
        is_refused(saying, fit_categories, given, **words)


class CompLogLog(ItemModel):
    """P(right) = 1 - exp(-exp(a theta + d)): a curve that nears 1 faster than it leaves 0."""

    name = "cloglog"

    def parameters(self, n_categories: int, n_abilities: int) -> Parameters:
        return ("a", "slope"), ("d", "intercept")

    def log_probabilities(self, x: Any, theta: Any, maths: Maths) -> Any:
        rate = maths.exp(x[..., :1, :] * theta[0] + x[..., 1:2, :])
        return maths.join([-rate, maths.log1p(-maths.exp(-rate - 1e-300))])

    def start(self, shares: NDArray[np.float64], slope: float) -> NDArray[np.float64]:
        return np.array([slope / 1.7, *(steps_of_shares(shares, slope) / 1.7)])


def test_a_model_of_ones_own_is_a_page() -> None:
    rng = np.random.default_rng(2)
    theta, a, d = rng.normal(size=(3000, 1)), np.linspace(0.6, 1.2, 8), np.linspace(-1, 0.5, 8)
    values = (rng.random((3000, 8)) < 1 - np.exp(-np.exp(a * theta + d))).astype(int)
    own, usual = fit_categories(values, CompLogLog()), fit_categories(values, "2pl")
    assert own.converged
    assert own.log_likelihood > usual.log_likelihood + 3
    z = (own.parameters - np.stack([a, d], axis=1)) / np.sqrt(np.diagonal(own.covariance, axis1=1, axis2=2))
    assert np.sqrt(np.mean(z**2)) == pytest.approx(1, abs=0.35)
    assert np.corrcoef(own.items.scores(values)["theta"], theta[:, 0])[0, 1] > 0.8
    assert set(np.unique(own.items.simulate(np.zeros(50), rng=rng))) == {0, 1}
    right, wrong = (item_fit(values, fitted.items) for fitted in (own, usual))
    assert np.nanmin(right.p) > 0.01
    assert right.s_x2.sum() < wrong.s_x2.sum()


def test_more_items_than_respondents_are_doubtful_but_with_one_slope() -> None:
    """At 60 x 90, most answering 45% and skewed steps, 95% intervals of theta covered .83 to .93 under grm and gpcm."""
    rng = np.random.default_rng(0)
    steps = rng.exponential(1, (40, 1)) - 1.2 + np.array([-0.8, 0.0, 0.8])
    scores = (rng.normal(size=(30, 1, 1)) - steps + rng.logistic(size=(30, 40, 1)) > 0).sum(axis=2)
    assert any("40 items outnumber 30 respondents" in doubt for doubt in fit_categories(scores, "grm").doubts)
    assert not any("outnumber" in doubt for doubt in fit_categories(scores, "pcm").doubts)


def test_items_of_which_few_people_tell_little_are_named() -> None:
    rng = np.random.default_rng(5)
    theta, a, b = rng.normal(size=(12, 1, 1)), rng.uniform(0.8, 2, (6, 1)), rng.normal(size=(6, 1))
    given = (a * theta + rng.logistic(size=(12, 6, 1)) > a * (np.array([-1, 0, 1]) + b)).sum(axis=2)
    steep, ended = fit_categories(given, "gpcm"), fit_categories(given, "grm")
    assert steep.converged
    assert any(doubt.startswith("slope not identified by the data: item") for doubt in steep.doubts)
    assert not ended.converged
    assert len(ended.status.steep_items) == 1
    assert ended.status.steep_items[0] in str(ended.status)
    many = np.random.default_rng(0).integers(0, 3, (12, 20))
    is_refused("prior weak sets the scale", fit_categories, many, prior="weak")


@pytest.mark.parametrize(
    ("change", "words", "saying"),
    [
        (lambda x: x[:5], {}, "5 respondents; expected at least 10"),
        (lambda x: np.where(np.arange(6) == 2, 1, x), {}, "item item3: all responses are the same, or none"),
        (lambda x: np.where(np.arange(len(x))[:, None] == 3, np.nan, x), {}, "no response from respondent respondent4"),
        (lambda x: x, {"models": "2pl"}, "item item1: 4 categories; expected two of a 2pl item"),
        (
            lambda x: x,
            {"models": "nominal", "common_slope": True},
            "a common slope goes with other models than nominal",
        ),
        (lambda x: x > 1, {"models": "3pl"}, "guessing without a prior"),
        (lambda x: x > 1, {"models": "3pl", "prior_guessing": "beta"}, "expected normal:MEAN,SD of logit c"),
        (lambda x: x, {"models": "rasch"}, "'rasch' is none; expected one of 2pl"),
        (lambda x: x, {"models": {"item1": "grm"}}, "models: none for item item2, item3"),
        (lambda x: np.where(np.isnan(x), "", "good"), {}, "item item1: .* is no number"),
        (lambda x: x, {"levels": [0, 1, 2]}, "item item1: 3 is none of its categories"),
        (lambda x: x[:0], {}, "responses: none"),
        (lambda x: np.where(np.arange(6) == 1, np.inf, x), {}, "item item2: inf is no number"),
        (lambda x: pd.DataFrame(x, columns=list("abcdea")), {}, "item_id must be unique but a is repeated"),
        (lambda x: pd.DataFrame(x, index=["ann"] * len(x)), {}, "respondent_id must be unique but ann is repeated"),
    ],
)
def test_what_is_wrong_is_said(change: Any, words: dict[str, Any], saying: str) -> None:
    is_refused(saying, fit_categories, change(grades()), **words)


def test_a_start_is_of_the_same_items_and_models() -> None:
    data, start = grades(), fit_categories(grades(), "gpcm").items
    again = fit_categories(data, "gpcm", start=start)
    assert again.steps <= 3
    for other, model in ((data[:, :5], "gpcm"), (data, "grm"), (np.minimum(data, 1), "gpcm")):
        is_refused("start is of other items, models or categories", fit_categories, other, model, start=start)


def test_scores_are_of_the_items_by_name_and_of_known_categories() -> None:
    fitted: FittedCategories = fit_categories(grades())
    new = pd.DataFrame({"item2": [3, np.nan], "item1": [0, np.nan]}, index=["x", "y"])
    is_refused("no column of item item3, item4", fitted.items.scores, new)
    whole = new.reindex(columns=fitted.items.item_ids)
    found = fitted.items.scores(whole).set_index("respondent_id")
    assert found.loc["y", ["theta", "n_items"]].tolist() == pytest.approx([0, 0], abs=1e-6)
    assert found.loc["y", "se"] == pytest.approx(1, abs=1e-4)
    is_refused("item item2: 7", fitted.items.scores, whole.replace({"item2": {3: 7}}))
