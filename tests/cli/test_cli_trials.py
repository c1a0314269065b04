"""Repeated trials from the command line: simulate, convert, fit, score, power."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import refused, run
from irtbench.bank.bank import ItemBank, save_bank
from irtbench.bank.scale import Scale
from irtbench.data.items import ItemTable
from irtbench.models.parameter_table import read_parameters


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trials") / "sim"
    run(f"simulate -o {folder} --respondents 40 --items 15 --trials 4 --missing 0.1 --quiet")
    return folder


def test_simulated_trials_have_the_shares_of_the_truth(simulated: Path) -> None:
    table = pd.read_csv(simulated / "responses.csv")
    assert list(table) == ["respondent_id", "item_id", "n_correct", "n_trials"]
    assert (table["n_trials"] == 4).all()
    items = pd.read_csv(simulated / "items.csv").set_index("item_id").loc[table["item_id"]]
    theta = pd.read_csv(simulated / "respondents.csv").set_index("respondent_id").loc[table["respondent_id"], "theta"]
    z = items["discrimination"].to_numpy() * theta.to_numpy() + items["intercept"].to_numpy()
    p = 1 / (1 + np.exp(-z))
    away = (table["n_correct"] - 4 * p).sum() / np.sqrt((4 * p * (1 - p)).sum())
    assert abs(away) < 4


@pytest.mark.slow
def test_fit_and_score_and_power(simulated: Path, tmp_path: Path) -> None:
    responses = simulated / "responses.csv"
    run(f"fit {responses} -o {tmp_path}/fit --prior hierarchical --quiet")
    found = json.loads((tmp_path / "fit" / "fit.json").read_text())
    table = pd.read_csv(responses)
    assert found["n_responses"] == table["n_trials"].sum()
    assert found["log_binomial_coefficients"] > 0
    scores = pd.read_csv(tmp_path / "fit" / "scores.csv").set_index("respondent_id")
    own = table.groupby("respondent_id")[["n_correct", "n_trials"]].sum()
    assert (scores.loc[own.index, ["n_correct", "n_trials"]] == own).all(axis=None)
    truth = pd.read_csv(simulated / "respondents.csv").set_index("respondent_id")["theta"]
    assert np.corrcoef(scores["theta"], truth[scores.index])[0, 1] > 0.9
    # scored on a bank: the same columns, and more certain than from one response each
    items = read_parameters(simulated / "items.csv")
    save_bank(ItemBank((Scale("all", items, ItemTable.plain(items.item_ids)),)), tmp_path / "bank.json")
    errors = {}
    for trials in ("count", "majority"):
        run(f"score {tmp_path}/bank.json {responses} -o {tmp_path}/{trials}.csv --trials", trials, "-q")
        scored = pd.read_csv(tmp_path / f"{trials}.csv")
        errors[trials] = scored["se"].mean()
        assert ("n_trials" in scored) == (trials == "count")
    assert errors["count"] < 0.75 * errors["majority"]
    assert " of 6" in run(f"score {tmp_path}/bank.json {responses}").out  # right of all trials
    found = run(f"evaluate power -n 15 --responses {responses} -o {tmp_path}/power --json").json
    assert 0.5 < found["trial_variance"]["agreement"] < 1
    assert list(pd.read_csv(tmp_path / "power" / "trials.csv")["n_trials"]) == [1, 2, 5, 10]
    (row,) = run(f"evaluate power -n 15 --bank {tmp_path}/bank.json --trials 2 --json").json["trials"]
    assert row["se_theta_with_trial"] < row["se_theta_with_item"] < row["se_theta"]


def test_convert_counts_and_keeps(simulated: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("respondent_id,item_id,trial,response\ns,a,1,1\ns,a,2,0\ns,b,1,1\n")
    run(f"convert {rows} -o {tmp_path}/counts.csv --trials count --quiet")
    assert (tmp_path / "counts.csv").read_text() == ("respondent_id,item_id,n_correct,n_trials\ns,a,1,2\ns,b,1,1\n")
    run(f"convert {simulated}/responses.csv -o {tmp_path}/again.csv --quiet")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "again.csv"), pd.read_csv(simulated / "responses.csv"))


@pytest.fixture
def bank(simulated: Path, tmp_path: Path) -> Path:
    """The true items; those of a simulation have no errors."""
    items = read_parameters(simulated / "items.csv")
    save_bank(ItemBank((Scale("all", items, ItemTable.plain(items.item_ids)),)), tmp_path / "bank.json")
    return tmp_path / "bank.json"


def test_compare_by_shares_and_by_the_binomial_likelihood(simulated: Path, bank: Path, tmp_path: Path) -> None:
    table = pd.read_csv(simulated / "responses.csv")
    few = table["respondent_id"].unique()[:3]
    table[table["respondent_id"].isin(few)].to_csv(tmp_path / "few.csv", index=False)
    out = tmp_path / "compared"
    run(f"compare {tmp_path}/few.csv --bank {bank} --item-error none -o {out} --quiet")
    pairs = pd.read_csv(out / "comparison.csv")
    assert len(pairs) == 3
    shares = table.assign(share=table["n_correct"] / table["n_trials"]).pivot(
        index="item_id", columns="respondent_id", values="share"
    )
    run(f"score {bank} {tmp_path}/few.csv -o {tmp_path}/scores.csv --quiet")
    theta = pd.read_csv(tmp_path / "scores.csv").set_index("respondent_id")["theta"]
    for _, row in pairs.iterrows():
        both = shares[[row["first"], row["second"]]].dropna()
        assert row["accuracy_difference"] == pytest.approx((both[row["first"]] - both[row["second"]]).mean())
        assert row["theta_difference"] == pytest.approx(theta[row["first"]] - theta[row["second"]], abs=0.03)


def test_predict_counts_trials(simulated: Path, bank: Path, tmp_path: Path) -> None:
    table = pd.read_csv(simulated / "responses.csv")
    table[table["item_id"].isin(sorted(table["item_id"].unique())[:6])].to_csv(tmp_path / "form.csv", index=False)
    run(f"predict {bank} {tmp_path}/form.csv -o {tmp_path}/prediction.csv --quiet")
    found = pd.read_csv(tmp_path / "prediction.csv")
    assert list(found)[-2:] == ["method", "n_trials"]
    assert (found["n_trials"] == 4 * found["n_seen"]).all()
    own = table.assign(share=table["n_correct"] / table["n_trials"]).groupby("respondent_id")["share"].mean()
    away = found.set_index("respondent_id")["predicted_accuracy"] - own
    assert away.abs().mean() < 0.1


@pytest.mark.slow
def test_a_study_of_trials(tmp_path: Path) -> None:
    run(f"simulate -o {tmp_path}/s --respondents 150 --items 8 --trials 3 --seed 2 -q")
    study = """
    [data]
    answers = "s/responses.csv"
    content = "responses"
    [pruning]
    preset = "lalor2016"
    bootstrap_samples = 19
    [score]
    systems = ["systems.csv"]
    """
    (tmp_path / "study.toml").write_text(study)
    table = pd.read_csv(tmp_path / "s" / "responses.csv")
    systems = table[table["respondent_id"].isin(table["respondent_id"].unique()[:2])]
    systems.replace({"respondent_id": r"^"}, {"respondent_id": "s"}, regex=True).to_csv(
        tmp_path / "systems.csv", index=False
    )
    run(f"build {tmp_path}/study.toml -o {tmp_path}/built --quiet")
    summary = json.loads((tmp_path / "built" / "summary.json").read_text())
    (scale,) = summary["scales"]
    assert scale["rejected"] is None  # M2 is not known and rejects nothing
    assert "several trials" in scale["global_fit_before"]["reason"]
    items = pd.read_csv(tmp_path / "built" / "items.csv")
    assert len(items) > 4
    scores = pd.read_csv(tmp_path / "built" / "scores.csv")
    assert (scores["n_trials"] == 3 * scores["n_items"]).all()
    pairs = pd.read_csv(tmp_path / "built" / "rounds_pairs.csv")
    assert pairs["p"].isna().all()  # of LD-X2 by chi-square: with trials there is the bootstrap alone
    assert "p_bootstrap" in pairs
    truth = pd.read_csv(tmp_path / "s" / "items.csv").set_index("item_id").loc[items["item_id"], "difficulty"]
    assert np.corrcoef(items["difficulty"], truth)[0, 1] > 0.95
    # and the same with every trial on a row of its own
    rows = table.loc[table.index.repeat(3)].assign(trial=np.tile([1, 2, 3], len(table)))
    rows["response"] = (rows["trial"] <= rows["n_correct"]).astype(int)
    rows.drop(columns=["n_correct", "n_trials"]).to_csv(tmp_path / "s" / "responses.csv", index=False)
    run(f"build {tmp_path}/study.toml -o {tmp_path}/again --quiet")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "again" / "items.csv"), items)
