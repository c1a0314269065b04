"""Priors that the user names, of slope, intercept and the difficulty of single items: what is maximised and refused."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import irtbench
from builders.by_hand import assert_by_hand, counts_of
from builders.command_line import refused, run
from irtbench.data.input_error import InputError
from irtbench.estimation.fit import problem_of
from irtbench.models.pyro_model.tensors import ItemTensors

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


def test_a_rasch_item_has_the_prior_on_the_scale_of_ability(responses: irtbench.ResponseMatrix) -> None:
    tight = irtbench.fit_model(responses, model="rasch", prior_items={"item2": (0.7, 1e-4)})
    assert tight.items.difficulty[1] == pytest.approx(0.7, abs=1e-3)
    assert tight.population["sd"] != pytest.approx(1.0, abs=0.01)


def test_beside_anchors_the_prior_is_on_their_scale() -> None:
    rng = np.random.default_rng(4)
    items = irtbench.ItemParameters.from_difficulty(rng.lognormal(0.2, 0.3, 24), rng.normal(size=24))
    data = irtbench.simulate_responses(rng.normal(0.8, 0.6, size=400), items, rng=rng)
    anchors = items.select(items.item_ids[:18])
    usual = irtbench.fit_model(data, anchors=anchors)
    told = irtbench.fit_model(
        data,
        anchors=anchors,
        prior_items={"item20": (0.7, 1e-4), "item21": (-0.2, 1e-4)},
        prior_slope="normal:1.4,0.01",
    )
    assert told.converged
    np.testing.assert_allclose(told.items.select(["item20", "item21"]).difficulty, [0.7, -0.2], atol=2e-3)
    np.testing.assert_allclose(told.items.discrimination[18:], 1.4, atol=0.02)
    expected = {item: (b, 0.3) for item, b in zip(items.item_ids[18:], items.difficulty[18:], strict=True)}
    likely = irtbench.fit_model(data, anchors=anchors, prior_items=expected)
    for name in ("mean", "sd"):
        assert likely.population[name] == pytest.approx(usual.population[name], abs=0.03)
    before, after = (one.items.standard_errors()["difficulty"][18:] for one in (usual, likely))
    assert (after < before).all()
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


# -- of slope and intercept -----------------------------------------------------------------------------------------


def test_under_priors_of_slope_and_intercept_the_mode_is_by_hand(
    responses: irtbench.ResponseMatrix,
) -> None:
    fitted = irtbench.fit_model(
        responses, prior="none", prior_slope="normal:1.2,0.2", prior_intercept="normal:0.5,0.4", tolerance=1e-7
    )
    assert (fitted.priors.slope, fitted.priors.intercept) == ((1.2, 0.2), (0.5, 0.4))
    assert_by_hand(fitted, [counts_of(responses.values)])


def test_a_prior_of_slope_or_intercept_replaces_its_part_of_weak(responses: irtbench.ResponseMatrix) -> None:
    weak = irtbench.fit_model(responses, prior="weak")
    same = irtbench.fit_model(responses, prior="weak", prior_slope="normal:1,1.5", prior_intercept="normal:0,4")
    np.testing.assert_allclose(same.items.discrimination, weak.items.discrimination, atol=1e-6)
    tight = irtbench.fit_model(responses, prior="weak", prior_slope="normal:1.5,0.001")
    np.testing.assert_allclose(tight.items.discrimination, 1.5, atol=0.01)
    assert tight.priors.intercept == (0.0, 4.0)


@pytest.mark.parametrize(
    ("settings", "saying"),
    [
        ({"prior_slope": "lognormal:0,1"}, "FitSettings.prior_slope: expected normal:MEAN,SD with SD above 0"),
        ({"prior_intercept": "normal:0,0"}, "FitSettings.prior_intercept: expected normal:MEAN,SD with SD above 0"),
        ({"prior_intercept": "normal:nan,1"}, "expected normal:MEAN,SD"),
        ({"prior": "hierarchical", "prior_slope": "normal:1,1"}, "is learnt from the items; expected no prior_slope"),
        ({"kind": "rasch", "prior_slope": "normal:1,1"}, "slopes of a rasch model are 1"),
    ],
)
def test_a_prior_of_slope_or_intercept_that_cannot_be_is_refused(settings: dict, saying: str) -> None:
    with pytest.raises(InputError, match=saying):
        irtbench.FitSettings(**settings)


def test_with_more_items_than_people_a_prior_of_slopes_would_set_the_scale() -> None:
    with pytest.raises(InputError, match="prior of slopes sets the scale of ability in their place"):
        irtbench.fit_model(np.random.default_rng(0).integers(0, 2, (12, 20)), prior_slope="normal:1,1")


@pytest.mark.parametrize("kind", ["rasch", "1pl"])
def test_a_prior_of_the_slope_that_all_share_counts_once_and_sets_no_scale(kind: str) -> None:
    rng = np.random.default_rng(4)
    theta, b = rng.normal(size=40), rng.normal(0, 2, 120)
    values = (rng.random((40, 120)) < 1 / (1 + np.exp(-1.5 * (theta[:, None] - b)))).astype(float)
    assert set(values.mean(0)) >= {0, 1}, "items that all got right, and wrong"
    fitted = irtbench.fit_model(values, kind=kind, prior="weak", tolerance=1e-7)
    assert_by_hand(fitted, [counts_of(values)])
    spread = fitted.population["sd"] if kind == "rasch" else fitted.items.discrimination[0]
    assert abs(spread - 1.5 * theta.std()) < 0.25  # two standard errors


def test_slope_and_intercept_from_the_command_line(responses: irtbench.ResponseMatrix, tmp_path: Path) -> None:
    responses.to_long().to_csv(tmp_path / "r.csv", index=False)
    done = run("fit r.csv -o out --prior-slope normal:1.2,0.2 --prior-intercept normal:0.5,0.4", cwd=tmp_path)
    assert "prior own: a ~ Normal(1.2, 0.2), d ~ Normal(0.5, 0.4)" in done.out
    refused("fit r.csv -o no --prior-slope normal:1", saying="prior_slope: expected normal:MEAN,SD", cwd=tmp_path)
    assert not (tmp_path / "no").exists()
