"""Priors that the user names, of guessing, slope, intercept, and difficulty of single items: figures, and refusals."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import special, stats

import irtbench
from builders.by_hand import assert_by_hand, counts_of
from builders.command_line import refused, run
from builders.mirt_figures import lsat6
from irtbench import FitSettings, InputError, ItemParameters, ResponseMatrix, fit_model, read_study
from irtbench.estimation.fit import problem_of
from irtbench.models.curves import simulate_responses
from irtbench.models.priors import GuessingPrior
from irtbench.models.pyro_model.tensors import ItemTensors

AS_MIRT = FitSettings(kind="3pl", prior="none", prior_guessing="normal:-1.2,0.5", tolerance=1e-6)


def test_mirts_prior_gives_mirts_figures(real_data: Path, reference: Path) -> None:
    # R mirt 1.45.1, LSAT6, 3PL with PRIOR = (1-5, g, norm, -1.2, .5)
    responses, _, _ = lsat6(real_data, reference, "3plprior")
    mirt = pd.read_csv(reference / "mirt_lsat6_3plprior_pars.csv")
    fitted = fit_model(responses, AS_MIRT)
    assert fitted.converged
    assert fitted.priors.describe() == "none: logit c ~ Normal(-1.2, 0.5)"
    assert fitted.estimator == "maximum a posteriori"
    found, errors = fitted.items, fitted.items.standard_errors()
    np.testing.assert_allclose(found.discrimination, mirt["a"], atol=5e-5)
    np.testing.assert_allclose(found.intercept, mirt["d"], atol=5e-5)
    np.testing.assert_allclose(found.guessing, mirt["c"], atol=1e-5)
    np.testing.assert_allclose(errors["discrimination"], mirt["se_a"], rtol=1e-3)
    np.testing.assert_allclose(errors["intercept"], mirt["se_d"], rtol=1e-3)
    rate = found.guessing * (1 - found.guessing)
    np.testing.assert_allclose(errors["guessing"] / rate, mirt["se_logit_c"], rtol=1e-3)
    assert set(fitted.guessing_not_identified) == set(found.item_ids)  # widths of .47 to .50, where the prior's is .5


@pytest.fixture(scope="module")
def guessed() -> ResponseMatrix:
    rng = np.random.default_rng(3)
    items = ItemParameters.from_difficulty([1.2, 1.6, 0.9, 1.4], [-0.5, 0.3, 0.0, 0.8], [0.2, 0.25, 0.15, 0.2])
    return simulate_responses(rng.normal(size=900), items, rng=rng)


def test_a_normal_prior_is_that_of_the_posterior_written_out(guessed: ResponseMatrix) -> None:
    settings = FitSettings(kind="3pl", prior="none", prior_guessing="normal:-2.5,0.2", tolerance=1e-6)
    fitted = fit_model(guessed, settings)
    assert fitted.priors.guessing == GuessingPrior("normal", -2.5, 0.2)
    assert_by_hand(fitted, [counts_of(guessed.values)])


def test_the_width_of_a_beta_density_on_the_logit_scale() -> None:
    draws = stats.beta(5, 15).rvs(200_000, random_state=1)
    assert GuessingPrior("beta", 5, 15).logit_deviation == pytest.approx(special.logit(draws).std(), rel=0.01)
    assert GuessingPrior.read("normal: -1.1, 0.5").logit_deviation == 0.5


def test_the_usual_priors_in_words_are_the_usual_priors_and_each_replaces_its_part() -> None:
    said = FitSettings(prior="weak", prior_slope="normal:1,1.5", prior_intercept="normal:0,4").priors
    usual = FitSettings(prior="weak").priors
    assert (said.slope, said.intercept) == (usual.slope, usual.intercept)
    assert FitSettings(kind="3pl", prior_guessing="beta:5,15").priors == FitSettings(kind="3pl").priors
    other = FitSettings(kind="3pl", prior_guessing="normal:-2,0.5", prior_slope="normal:1.5,0.1").priors
    assert (other.slope, other.intercept) == ((1.5, 0.1), usual.intercept)
    assert other.guessing == GuessingPrior("normal", -2, 0.5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("normal", "expected normal:MEAN,SD of logit c, or beta:ALPHA,BETA of c but got 'normal'"),
        ("gamma:1,2", "expected normal:MEAN,SD"),
        ("normal:1", "expected normal:MEAN,SD"),
        ("normal:1,2,3", "expected normal:MEAN,SD"),
        ("normal:x,1", "expected normal:MEAN,SD"),
        ("normal:0,0", "the second above 0"),
        ("normal:nan,1", "finite numbers"),
        ("beta:0,3", "two numbers above 0"),
    ],
)
def test_what_is_no_density_or_of_what_is_not_estimated_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=rf"FitSettings.prior_guessing: .*{words}"):
        FitSettings(kind="3pl", prior_guessing=text)
    with pytest.raises(InputError, match="prior_guessing goes with guessing that is estimated; expected kind 3pl"):
        FitSettings(prior_guessing="normal:-1,1")
    assert FitSettings(by_item={"q1": "3pl"}, prior_guessing="normal:-1,1").priors.guessing is not None


def test_command_line_and_study_file(tmp_path: Path, guessed: ResponseMatrix) -> None:
    table = tmp_path / "responses.csv"
    guessed.to_long().to_csv(table, index=False)
    arguments = ["fit", table, "-o", tmp_path / "out", "--model", "3pl", "--prior-guessing"]
    ended = run(*arguments, "normal:-1.1,0.5", "--json")
    assert ended.json["settings"]["prior_guessing"] == "normal:-1.1,0.5"
    assert "logit c ~ Normal(-1.1, 0.5)" in ended.json["prior"]
    ended = run(*arguments, "normal:a", status=2)
    assert "prior_guessing: expected normal:MEAN,SD" in ended.err
    study = tmp_path / "study.toml"
    words = '[data]\nanswers = "responses.csv"\n[model]\nkind = "3pl"\nprior_guessing = "{}"\n'
    study.write_text(words.format("beta:2,6"))
    assert read_study(study).model.priors.guessing == GuessingPrior("beta", 2, 6)
    study.write_text(words.format("beta"))
    with pytest.raises(InputError, match=r"study.toml: model.prior_guessing: expected normal:MEAN,SD"):
        read_study(study)


EXPECTED = {"item2": (-0.6, 0.3), "item5": (0.9, 0.5)}


@pytest.fixture(scope="module")
def responses() -> irtbench.ResponseMatrix:
    rng = np.random.default_rng(1)
    items = irtbench.ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 6), rng.normal(size=6))
    return irtbench.simulate_responses(rng.normal(size=150), items, rng=rng)


def test_values_of_the_sites_there_and_back(responses: irtbench.ResponseMatrix) -> None:
    settings = irtbench.FitSettings(prior_items=EXPECTED, prior_slope="normal:1,0.5")
    prior = problem_of(responses, settings, irtbench.normal_grid()).prior
    a, d = torch.linspace(0.5, 2, 6).double(), torch.linspace(-1, 1, 6).double()
    items = ItemTensors(a[:, None], d, torch.zeros(6).double())
    values = prior.values_of(items)
    torch.testing.assert_close(values["difficulty"], (-d / a)[[1, 4]])
    torch.testing.assert_close(prior.items_of(values).matrix, items.matrix)


def test_beside_anchors_the_prior_is_on_their_scale() -> None:
    rng = np.random.default_rng(4)
    items = irtbench.ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 24), rng.normal(size=24))
    data = irtbench.simulate_responses(rng.normal(0.8, 0.6, size=400), items, rng=rng)
    anchors = items.select(items.item_ids[:18])
    told = irtbench.fit_model(
        data,
        anchors=anchors,
        prior_items={"item20": (0.7, 1e-4), "item21": (-0.2, 1e-4)},
        prior_slope="normal:1.4,0.01",
    )
    assert told.converged
    np.testing.assert_allclose(told.items.select(["item20", "item21"]).difficulty, [0.7, -0.2], atol=2e-3)
    np.testing.assert_allclose(told.items.discrimination[18:], 1.4, atol=0.02)
    with pytest.raises(InputError, match="prior_items: item2 is an anchor, which stays as it is"):
        irtbench.fit_model(data, anchors=anchors, prior_items={"item2": (0.0, 1.0)})


def test_an_item_that_all_got_right_is_estimated_where_its_slope_has_a_prior_too() -> None:
    rng = np.random.default_rng(5)
    values = (rng.random((60, 8)) < 1 / (1 + np.exp(-rng.normal(size=(60, 1))))).astype(float)
    values[:, 3] = np.where(np.arange(60) < 10, 1.0, np.nan)
    with pytest.raises(InputError, match="all responses are the same for item item4"):
        irtbench.fit_model(values, prior_items={"item4": (0.0, 0.5)})
    fitted = irtbench.fit_model(values, prior_items={"item4": (0.0, 0.5)}, prior_slope="normal:1.2,0.3")
    assert fitted.converged
    b, se = fitted.items.difficulty[3], fitted.items.standard_errors()["difficulty"][3]
    assert -1.2 < b < -0.1  # ten right answers say that it is easier than expected
    assert 0.3 < se < 0.5
    rasch = irtbench.fit_model(values, model="rasch", prior_items={"item4": (0.0, 0.5)})
    assert -1.2 < rasch.items.difficulty[3] < -0.1


@pytest.mark.parametrize(
    ("settings", "saying"),
    [
        ({"prior_items": {"q1": (0.0, 0.0)}}, "prior_items: item q1: .* the second above 0, but got 0"),
        ({"prior_items": {"q1": (float("nan"), 1.0)}}, "prior_items"),
        ({"prior_items": {"q1": 1.0}}, "prior_items"),
        ({"prior_items": {"q1": (0.0, 1.0)}, "prior": "hierarchical"}, "they do not with prior hierarchical"),
        ({"prior_items": {"q1": (0.0, 1.0)}, "posterior": "normal"}, "they do not with a posterior"),
        ({"prior_slope": "lognormal:0,1"}, "FitSettings.prior_slope: expected normal:MEAN,SD with SD above 0"),
        ({"prior_intercept": "normal:0,0"}, "FitSettings.prior_intercept: expected normal:MEAN,SD with SD above 0"),
        ({"prior_intercept": "normal:nan,1"}, "expected normal:MEAN,SD"),
        ({"prior": "hierarchical", "prior_slope": "normal:1,1"}, "is learnt from the items; expected no prior_slope"),
        ({"kind": "rasch", "prior_slope": "normal:1,1"}, "slopes of a rasch model are 1"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict, saying: str) -> None:
    with pytest.raises(InputError, match=saying):
        irtbench.FitSettings(**settings)


def test_in_groups_they_are_of_the_items_of_the_reference(responses: irtbench.ResponseMatrix) -> None:
    found = irtbench.fit_groups(
        responses, ["a", "b"] * 75, prior_items=EXPECTED, prior_slope="normal:1,0.5", reference="a"
    )
    counts = counts_of(responses.values)
    assert_by_hand(found, [counts[::2], counts[1::2]])


def test_from_the_command_line(responses: irtbench.ResponseMatrix, tmp_path: Path) -> None:
    responses.to_long().to_csv(tmp_path / "r.csv", index=False)
    good = pd.DataFrame({"item_id": ["item2", "item5", "later"], "mean": [-0.6, 0.9, 0.0], "sd": [0.3, 0.5, 1.0]})
    good.to_csv(tmp_path / "good.csv", index=False)
    done = run(f"fit {tmp_path}/r.csv -o {tmp_path}/out --prior-items {tmp_path}/good.csv")
    assert "b ~ Normal of its own for 2 items" in done.out
    expected = irtbench.fit_model(responses, prior_items=EXPECTED).items.difficulty
    found = pd.read_csv(tmp_path / "out" / "items.csv").set_index("item_id")["difficulty"]
    np.testing.assert_allclose(found[list(responses.item_ids)], expected, atol=1e-4)
    for wrong, saying in (
        (good.drop(columns="sd"), "sd"),
        (good.assign(sd=[0.3, 0.0, 1.0]), "row 2 (line 3), column sd: expected a number above 0"),
        (good.assign(sd=[0.3, -1.0, 1.0]), "expected a number above 0"),
        (good.assign(mean=["x", 0, 0]), "column mean"),
        (good.assign(item_id=["item2", "item2", "later"]), "item item2: named twice"),
        (good.assign(item_id=["p", "q", "later"]), "none of its items is among those of the responses"),
    ):
        wrong.to_csv(tmp_path / "wrong.csv", index=False)
        refused("fit r.csv -o no --prior-items wrong.csv", saying=saying, cwd=tmp_path)
        assert not (tmp_path / "no").exists()
    done = run("fit r.csv -o own --prior-slope normal:1.2,0.2 --prior-intercept normal:0.5,0.4", cwd=tmp_path)
    assert "prior own: a ~ Normal(1.2, 0.2), d ~ Normal(0.5, 0.4)" in done.out
    refused("fit r.csv -o no --prior-slope normal:1", saying="prior_slope: expected normal:MEAN,SD", cwd=tmp_path)
    command = "fit r.csv -o no --prior-items good.csv --posterior normal"
    refused(command, saying="they do not with a posterior", cwd=tmp_path)


@pytest.mark.slow
def test_predictions_of_new_items_extend_a_bank(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=50)
    b = 0.9 * x + rng.normal(0, 0.4, 50)
    items = irtbench.ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 50), b)
    old = irtbench.simulate_responses(rng.normal(size=400), items.select(items.item_ids[:40]), rng=rng)
    old.to_long().astype({"response": int}).to_csv(tmp_path / "old.csv", index=False)
    values = irtbench.simulate_responses(rng.normal(0.4, 0.8, size=100), items, rng=rng).values.copy()
    values[:, 40:][rng.random((100, 10)) > 0.15] = np.nan
    values[:, 41] = np.where(np.isnan(values[:, 41]), np.nan, 1.0)  # all right
    new = irtbench.as_responses(values, item_ids=items.item_ids)
    new.to_long().dropna().astype({"response": int}).to_csv(tmp_path / "new.csv", index=False)
    pd.DataFrame({"item_id": items.item_ids, "x": x}).to_csv(tmp_path / "f.csv", index=False)
    run(f"fit {tmp_path}/old.csv -o {tmp_path}/fit -q")
    bank = tmp_path / "fit" / "bank.json"
    run(f"items difficulty {bank} --features {tmp_path}/f.csv -o {tmp_path}/d -q")
    table = pd.read_csv(tmp_path / "d" / "prior_items.csv")
    assert table["item_id"].tolist() == list(items.item_ids[40:])
    predictions = pd.read_csv(tmp_path / "d" / "predictions.csv").iloc[40:]
    np.testing.assert_allclose(table["mean"], predictions["predicted"])
    np.testing.assert_allclose(table["mean"] + 1.959964 * table["sd"], predictions["predicted_upper"])
    run(f"link --extend {bank} new.csv -o e -q --prior-items d/prior_items.csv", cwd=tmp_path)
    found = json.loads((tmp_path / "e" / "extend.json").read_text())
    assert sorted(found["items"]) == sorted(items.item_ids[40:])
    assert "b ~ Normal of its own for 10 items" in found["prior"]
    (scale,) = irtbench.load_bank(tmp_path / "e" / "bank.json").scales
    added = scale.items.select(items.item_ids[40:])
    error, se = added.difficulty - b[40:], added.standard_errors()["difficulty"]
    others = np.arange(10) != 1
    assert np.abs(error / se)[others].max() < 3.5
    assert np.sqrt((error[others] ** 2).mean()) < 0.5
    assert added.difficulty[1] < table["mean"][1]
    table.assign(item_id="x" + table["item_id"]).to_csv(tmp_path / "foreign.csv", index=False)
    saying = "none of its items is among those of the responses"
    refused(f"link --extend {bank} new.csv -o no --prior-items foreign.csv", saying=saying, cwd=tmp_path)
    assert not (tmp_path / "no").exists()


def test_under_priors_of_slope_and_intercept_the_mode_is_by_hand(responses: irtbench.ResponseMatrix) -> None:
    fitted = irtbench.fit_model(
        responses, prior="none", prior_slope="normal:1.2,0.2", prior_intercept="normal:0.5,0.4", tolerance=1e-7
    )
    assert (fitted.priors.slope, fitted.priors.intercept) == ((1.2, 0.2), (0.5, 0.4))
    assert_by_hand(fitted, [counts_of(responses.values)])


def test_with_more_items_than_people_a_prior_of_slopes_would_set_the_scale() -> None:
    with pytest.raises(InputError, match="prior of slopes sets the scale of ability in their place"):
        irtbench.fit_model(np.random.default_rng(0).integers(0, 2, (12, 20)), prior_slope="normal:1,1")


@pytest.mark.parametrize("kind", ["rasch", "1pl"])
def test_a_prior_of_the_slope_that_all_share_counts_once_and_sets_no_scale(kind: str) -> None:
    rng = np.random.default_rng(4)
    theta, b = rng.normal(size=40), rng.normal(0, 2, 60)
    values = (rng.random((40, 60)) < 1 / (1 + np.exp(-1.5 * (theta[:, None] - b)))).astype(float)
    assert set(values.mean(0)) >= {0, 1}, "items that all got right, and wrong"
    fitted = irtbench.fit_model(values, kind=kind, prior="weak", tolerance=1e-7)
    assert_by_hand(fitted, [counts_of(values)])
    spread = fitted.population["sd"] if kind == "rasch" else fitted.items.discrimination[0]
    assert abs(spread - 1.5 * theta.std()) < 0.25  # two standard errors
