"""Repeated trials from the command line: simulate, convert, fit, score, power."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import run


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trials")
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


def test_fit_and_score_and_power(simulated: Path, tmp_path: Path) -> None:
    responses, bank = simulated / "responses.csv", simulated / "items.csv"
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
    errors = {}
    for trials in ("count", "majority"):
        said = run(f"score {bank} {responses} --item-error none -o {tmp_path}/{trials}.csv --trials", trials).out
        scored = pd.read_csv(tmp_path / f"{trials}.csv")
        errors[trials] = scored["se"].mean()
        assert ("n_trials" in scored) == (" of 6" in said) == (trials == "count")  # right of all trials
    assert errors["count"] < 0.75 * errors["majority"]
    found = run(f"evaluate power -n 15 --responses {responses} -o {tmp_path}/power --json").json
    assert 0.5 < found["trial_variance"]["agreement"] < 1
    assert list(pd.read_csv(tmp_path / "power" / "trials.csv")["n_trials"]) == [1, 2, 5, 10]
    (row,) = run(f"evaluate power -n 15 --bank {bank} --trials 2 --json").json["trials"]
    assert row["se_theta_with_trial"] < row["se_theta_with_item"] < row["se_theta"]


def test_compare_by_shares_and_likelihood_and_predict_counts_trials(simulated: Path, tmp_path: Path) -> None:
    table = pd.read_csv(simulated / "responses.csv")
    few = table[table["respondent_id"].isin(table["respondent_id"].unique()[:3])]
    few.to_csv(tmp_path / "few.csv", index=False)
    run(f"compare few.csv --bank {simulated}/items.csv --item-error none -o out --quiet", cwd=tmp_path)
    scores = run(f"score {simulated}/items.csv few.csv --item-error none --json", cwd=tmp_path).json
    theta = {row["respondent_id"]: row["theta"] for row in scores}
    shares = few.assign(share=few["n_correct"] / few["n_trials"]).pivot(
        index="item_id", columns="respondent_id", values="share"
    )
    pairs = pd.read_csv(tmp_path / "out" / "comparison.csv")
    assert len(pairs) == 3
    for row in pairs.itertuples():
        both = shares[[row.first, row.second]].dropna()
        assert row.accuracy_difference == pytest.approx((both[row.first] - both[row.second]).mean())
        assert row.theta_difference == pytest.approx(theta[row.first] - theta[row.second], abs=0.03)
    table[table["item_id"].isin(sorted(table["item_id"].unique())[:6])].to_csv(tmp_path / "form.csv", index=False)
    run(f"predict {simulated}/items.csv {tmp_path}/form.csv -o {tmp_path}/prediction.csv --quiet")
    found = pd.read_csv(tmp_path / "prediction.csv")
    assert list(found)[-2:] == ["method", "n_trials"]
    assert (found["n_trials"] == 4 * found["n_seen"]).all()


@pytest.mark.slow
def test_a_study_of_trials(tmp_path: Path) -> None:
    run(f"simulate -o {tmp_path}/s --respondents 150 --items 8 --trials 3 --seed 2 -q")
    (tmp_path / "study.toml").write_text(
        '[data]\nanswers = "s/responses.csv"\ncontent = "responses"\n[score]\nsystems = ["systems.csv"]\n'
        '[pruning]\npreset = "lalor2016"\nbootstrap_samples = 19\n'
    )
    table = pd.read_csv(tmp_path / "s" / "responses.csv")
    systems = table[table["respondent_id"].isin(table["respondent_id"].unique()[:2])]
    systems.assign(respondent_id="s" + systems["respondent_id"]).to_csv(tmp_path / "systems.csv", index=False)
    run("build study.toml -o built --quiet", cwd=tmp_path)
    (scale,) = json.loads((tmp_path / "built" / "summary.json").read_text())["scales"]
    assert scale["rejected"] is None  # M2 is not known and rejects nothing
    assert "several trials" in scale["global_fit_before"]["reason"]
    items, scores, pairs = (
        pd.read_csv(tmp_path / "built" / f"{name}.csv") for name in ("items", "scores", "rounds_pairs")
    )
    assert len(items) > 4
    assert (scores["n_trials"] == 3 * scores["n_items"]).all()
    assert pairs["p"].isna().all()  # of LD-X2 by chi-square: with trials there is the bootstrap alone
    assert "p_bootstrap" in pairs
    truth = pd.read_csv(tmp_path / "s" / "items.csv").set_index("item_id").loc[items["item_id"], "difficulty"]
    assert np.corrcoef(items["difficulty"], truth)[0, 1] > 0.95
    # and the same with every trial on a row of its own
    rows = table.loc[table.index.repeat(3)].assign(trial=np.tile([1, 2, 3], len(table)))
    rows["response"] = (rows["trial"] <= rows["n_correct"]).astype(int)
    rows.drop(columns=["n_correct", "n_trials"]).to_csv(tmp_path / "s" / "responses.csv", index=False)
    run("build study.toml -o again --quiet", cwd=tmp_path)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "again" / "items.csv"), items)
