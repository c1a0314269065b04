"""``irtbench fit --groups``: concurrent calibration, with R mirt's figures and its bank."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import refused, run

SETTINGS = {"a2pl": [], "a3pl": ["--model", "3pl", "--prior", "none", "--prior-guessing", "normal:-1.5,0.5"]}


def two_forms(folder: Path, study: str, target: Path) -> None:
    """Forms X and Y with their common items as one long table, and the group of each respondent."""
    tables = []
    for form in "XY":
        wide = pd.read_csv(folder / f"{study}_data_{form}.csv")
        wide.insert(0, "respondent_id", [f"{form}{k}" for k in range(len(wide))])
        tables.append(wide.melt("respondent_id", var_name="item_id", value_name="response"))
    table = pd.concat(tables)
    table.to_csv(target / "both.csv", index=False)
    people = table["respondent_id"].drop_duplicates()
    pd.DataFrame({"respondent_id": people, "group": people.str[0]}).to_csv(target / "groups.csv", index=False)


@pytest.mark.parametrize("study", ["a2pl", "a3pl"])
def test_items_and_groups_are_those_of_mirt(reference: Path, tmp_path: Path, study: str) -> None:
    """mirt 1.45.1, multipleGroup: reference/next/05_linking. mirt stops early: mean and variance good to 3e-4."""
    folder = reference / "next" / "05_linking"
    two_forms(folder, study, tmp_path)
    done = run("fit both.csv --groups groups.csv --reference X -o out", *SETTINGS[study], cwd=tmp_path)
    found = json.loads((tmp_path / "out" / "fit.json").read_text())
    (expected,) = pd.read_csv(folder / f"{study}_concurrent_group.csv").itertuples()
    first, other = found["groups"]
    assert (first["group"], first["mean"], first["sd"], first["se_mean"]) == ("X", 0.0, 1.0, 0.0)
    assert other["mean"] == pytest.approx(expected.mean, abs=1e-3)
    assert other["sd"] ** 2 == pytest.approx(expected.var, abs=3e-3)
    assert other["se_mean"] == pytest.approx(expected.se_mean, rel=0.02)
    assert 2 * other["sd"] * other["se_sd"] == pytest.approx(expected.se_var, rel=0.02)
    if study == "a2pl":
        assert found["log_likelihood"] == pytest.approx(expected.loglik, abs=1e-3)
    items = pd.read_csv(tmp_path / "out" / "items.csv", index_col="item_id")
    pars = pd.read_csv(folder / f"{study}_concurrent_pars.csv", index_col="item").loc[items.index]
    np.testing.assert_allclose(items["discrimination"], pars["a"], atol=5e-3)
    np.testing.assert_allclose(items["intercept"], pars["d"], atol=5e-3)
    np.testing.assert_allclose(items["se_intercept"], pars["se_d"], rtol=0.02)
    assert "Y: 1500 respondents, mean 0.44" in done.out + done.err or study == "a3pl"


def test_the_bank_has_the_reference_groups_norms_and_links_with_its_errors(tmp_path: Path) -> None:
    rng = np.random.default_rng(31)
    truth = irtbench.ItemParameters.from_difficulty(rng.uniform(1, 2, 20), rng.uniform(-1.5, 1.5, 20))
    crowds = {
        "first": rng.normal(size=400),
        "second": rng.normal(0.8, 1.3, size=300),
        "third": rng.normal(-0.5, 0.8, 200),
    }
    forms = {"first": slice(0, 14), "second": slice(6, 20), "third": slice(3, 17)}
    tables, groups = [], []
    for name, theta in crowds.items():
        drawn = irtbench.simulate_responses(theta, truth.select(truth.item_ids[forms[name]]), rng=rng)
        long = drawn.to_long()
        tables.append(long.assign(respondent_id=name + long["respondent_id"]))
        groups += [(f"{name}r{k + 1}", name) for k in range(len(theta))]
    pd.concat(tables).astype({"response": int}).to_csv(tmp_path / "all.csv", index=False)
    pd.DataFrame(groups, columns=["respondent_id", "group"]).to_csv(tmp_path / "groups.csv", index=False)
    run(f"fit {tmp_path}/all.csv --groups {tmp_path}/groups.csv -o {tmp_path}/out")
    found = json.loads((tmp_path / "out" / "fit.json").read_text())
    assert [group["n_respondents"] for group in found["groups"]] == [400, 300, 200]
    for group, (mean, sd) in zip(found["groups"][1:], ((0.8, 1.3), (-0.5, 0.8)), strict=True):
        assert group["mean"] == pytest.approx(mean, abs=3 * group["se_mean"])
        assert group["sd"] == pytest.approx(sd, abs=3 * group["se_sd"])
    (scale,) = irtbench.load_bank(tmp_path / "out" / "bank.json").scales
    assert scale.norms.n == 400  # of the largest group, the reference
    each = np.arange(20)
    np.testing.assert_allclose(scale.joint_error.covariance[each, :, each, :], scale.items.covariance, rtol=1e-5)
    assert scale.joint_error.location == pytest.approx(1 / 400)
    scores = pd.read_csv(tmp_path / "out" / "scores.csv")
    assert scores["group"].value_counts().to_dict() == {"first": 400, "second": 300, "third": 200}
    table = pd.read_csv(tmp_path / "groups.csv").merge(scores, on="respondent_id", suffixes=("_given", ""))
    assert (table["group_given"] == table["group"]).all()
    true = pd.Series(np.concatenate(list(crowds.values())), index=[name for name, _ in groups])
    inside = (table["theta_lower"] < true[table["respondent_id"]].to_numpy()) & (
        true[table["respondent_id"]].to_numpy() < table["theta_upper"]
    )
    assert inside.mean() > 0.92
    means = scores.groupby("group")["theta"].mean()
    assert means["second"] == pytest.approx(found["groups"][1]["mean"], abs=0.05)  # EAPs under the group's own density
    run(f"fit {tmp_path}/all.csv -o {tmp_path}/one -q")
    linked = run("link out/bank.json --items one/bank.json -o linked -q --json", cwd=tmp_path)
    assert linked.json["errors"] == "joint"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--reference", "x"], "groups: no respondent is in group x; expected one of a, b"),
        (["--model", "rasch", "--prior", "weak"], "a rasch has one slope for all items; expected no prior with it"),
        (["--anchors", "items.csv"], "--groups: expected neither several abilities, testlets nor anchors"),
        (["--factors", "2"], "--groups: expected neither several abilities, testlets nor anchors"),
    ],
)
def test_what_does_not_go_with_groups_is_one_line(tmp_path: Path, more: list[str], said: str) -> None:
    rng = np.random.default_rng(1)
    truth = irtbench.ItemParameters.from_difficulty(np.ones(5), np.linspace(-1, 1, 5))
    truth.table().to_csv(tmp_path / "items.csv", index=False)
    irtbench.simulate_responses(rng.normal(size=40), truth, rng=rng).table().to_csv(tmp_path / "r.csv", index=False)
    groups = pd.DataFrame({"respondent_id": [f"r{k + 1}" for k in range(40)], "group": ["a", "b"] * 20})
    groups.to_csv(tmp_path / "g.csv", index=False)
    refused("fit r.csv --groups g.csv -o out", *more, saying=said, cwd=tmp_path)
    groups[3:].to_csv(tmp_path / "g.csv", index=False)
    saying = "g.csv: no group of respondent r1, r2, r3; expected one of each who answered"
    refused("fit r.csv --groups g.csv -o out", saying=saying, cwd=tmp_path)
    refused("fit r.csv --reference a -o out", saying="--reference: expected --groups with it", cwd=tmp_path)
    assert not (tmp_path / "out").exists()
