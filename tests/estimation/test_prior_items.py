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
from builders.refusals import is_refused
from builders.simulated import drawn
from irtbench import FitSettings, InputError, fit_model, read_study
from irtbench.estimation.fit import problem_of
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


def test_the_width_of_a_beta_density_on_the_logit_scale() -> None:
    draws = stats.beta(5, 15).rvs(200_000, random_state=1)
    assert GuessingPrior("beta", 5, 15).logit_deviation == pytest.approx(special.logit(draws).std(), rel=0.01)
    assert GuessingPrior.read("normal: -1.1, 0.5").logit_deviation == 0.5


EXPECTED = {"item2": (-0.6, 0.3), "item5": (0.9, 0.5)}
RESPONSES = drawn(150, 6)
COUNTS = counts_of(RESPONSES.values)


def test_values_of_the_sites_there_and_back() -> None:
    settings = FitSettings(prior_items=EXPECTED, prior_slope="normal:1,0.5")
    prior = problem_of(RESPONSES, settings, irtbench.normal_grid()).prior
    a, d = torch.linspace(0.5, 2, 6).double(), torch.linspace(-1, 1, 6).double()
    items = ItemTensors(a[:, None], d, torch.zeros(6).double())
    values = prior.values_of(items)
    torch.testing.assert_close(values["difficulty"], (-d / a)[[1, 4]])
    torch.testing.assert_close(prior.items_of(values).matrix, items.matrix)


def test_beside_anchors_the_prior_is_on_their_scale() -> None:
    known = irtbench.fit_model(RESPONSES).items.select(RESPONSES.item_ids[:3])
    words = {"prior_items": {"item4": (-0.6, 0.3), "item6": (0.9, 0.5)}, "prior_slope": "normal:1.4,0.3"}
    assert_by_hand(irtbench.fit_model(RESPONSES, anchors=known, **words), [COUNTS], anchors=known.covariance)
    with pytest.raises(InputError, match="prior_items: item2 is an anchor, which stays as it is"):
        irtbench.fit_model(RESPONSES, anchors=known, prior_items={"item2": (0.0, 1.0)})


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


def test_in_groups_they_are_of_the_items_of_the_reference() -> None:
    words = {"prior_items": EXPECTED, "prior_slope": "normal:1,0.5", "reference": "a"}
    found = irtbench.fit_groups(RESPONSES, ["a", "b"] * 75, **words)
    assert_by_hand(found, [COUNTS[::2], COUNTS[1::2]])


def test_from_the_command_line_and_a_study_file(tmp_path: Path) -> None:
    RESPONSES.to_long().to_csv(tmp_path / "r.csv", index=False)
    good = pd.DataFrame({"item_id": ["item2", "item5", "later"], "mean": [-0.6, 0.9, 0.0], "sd": [0.3, 0.5, 1.0]})
    good.to_csv(tmp_path / "good.csv", index=False)
    done = run("fit r.csv -o out --prior-items good.csv", cwd=tmp_path)
    assert "b ~ Normal of its own for 2 items" in done.out
    expected = irtbench.fit_model(RESPONSES, prior_items=EXPECTED).items.difficulty
    found = pd.read_csv(tmp_path / "out" / "items.csv").set_index("item_id")["difficulty"]
    np.testing.assert_allclose(found[list(RESPONSES.item_ids)], expected, atol=1e-4)
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
    done = run("fit r.csv -o own --prior-slope normal:1.2,0.2 --prior-intercept normal:0.5,0.4", cwd=tmp_path)
    assert "prior own: a ~ Normal(1.2, 0.2), d ~ Normal(0.5, 0.4)" in done.out
    done = run("fit r.csv -o guessed --model 3pl --prior-guessing normal:-1.1,0.5 --json", cwd=tmp_path)
    assert done.json["settings"]["prior_guessing"] == "normal:-1.1,0.5"
    assert "logit c ~ Normal(-1.1, 0.5)" in done.json["prior"]
    refused("fit r.csv -o no --prior-slope normal:1", saying="prior_slope: expected normal:MEAN,SD", cwd=tmp_path)
    assert not (tmp_path / "no").exists()
    words = '[data]\nanswers = "r.csv"\n[model]\nkind = "3pl"\nprior_guessing = "{}"\n'
    study = tmp_path / "study.toml"
    study.write_text(words.format("beta:2,6"))
    assert read_study(study).model.priors.guessing == GuessingPrior("beta", 2, 6)
    study.write_text(words.format("beta"))
    is_refused(r"study.toml: model.prior_guessing: expected normal:MEAN,SD", read_study, study)


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
    others = np.arange(10) != 1
    assert np.abs((added.difficulty - b[40:]) / added.standard_errors()["difficulty"])[others].max() < 3.5
    assert added.difficulty[1] < table["mean"][1]


def test_under_priors_of_slope_and_intercept_the_mode_is_by_hand() -> None:
    own = {"prior_slope": "normal:1.2,0.2", "prior_intercept": "normal:0.5,0.4"}
    fitted = irtbench.fit_model(RESPONSES, prior="none", tolerance=1e-7, **own)
    assert (fitted.priors.slope, fitted.priors.intercept) == ((1.2, 0.2), (0.5, 0.4))
    assert_by_hand(fitted, [COUNTS])


def test_with_more_items_than_people_a_prior_of_slopes_would_set_the_scale_but_one_that_all_share() -> None:
    values = np.random.default_rng(0).integers(0, 2, (12, 20))
    with pytest.raises(InputError, match="prior of slopes sets the scale of ability in their place"):
        irtbench.fit_model(values, prior_slope="normal:1,1")
    for kind in ("rasch", "1pl"):
        assert irtbench.fit_model(values, kind=kind, prior="weak").converged
