"""`irtbench compare` as a user meets it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank of one scale, and four systems, two of them alike."""
    folder = tmp_path_factory.mktemp("compare")
    rng = np.random.default_rng(1)
    items = irtbench.ItemParameters.from_difficulty(rng.lognormal(0.3, 0.3, 60), rng.normal(size=60))
    items = replace(items, covariance=np.broadcast_to(np.diag([0.01, 0.01, 0.0]), (60, 3, 3)))
    details = replace(irtbench.ItemTable.plain(items.item_ids), key=("yes",) * 60)
    irtbench.save_bank(irtbench.ItemBank((irtbench.Scale("all", items, details),)), folder / "bank.json")
    drawn = irtbench.simulate_responses([-1.5, 0.0, 2.0], items, rng=rng).values
    values = np.concatenate([drawn, drawn[1:2]])
    names = ("low", "middle", "high", "twin")
    long = irtbench.ResponseMatrix(values, names, items.item_ids).to_long()
    long.to_csv(folder / "responses.csv", index=False)
    long["answer"] = np.where(long["response"] == 1, "yes", "no")
    long[["respondent_id", "item_id", "answer"]].to_csv(folder / "answers.csv", index=False)
    return folder


def test_pairs_and_ranking(folder: Path, tmp_path: Path) -> None:
    done = run(f"compare {folder}/responses.csv --bank {folder}/bank.json -o {tmp_path}/out")
    pairs = pd.read_csv(tmp_path / "out" / "comparison.csv").set_index(["first", "second"])
    assert len(pairs) == 6
    wide = pd.read_csv(folder / "responses.csv").pivot(index="item_id", columns="respondent_id", values="response")
    alone = irtbench.paired_bootstrap(wide["low"], wide["high"])
    row = pairs.loc[("low", "high")]
    assert row["accuracy_difference"] == pytest.approx(alone.difference)
    assert row["accuracy_p"] == pytest.approx(alone.p)
    assert pairs.columns[-1] == "accuracy_p_greater"
    assert row["theta_upper"] < 0
    assert row["theta_p_adjusted"] >= row["theta_p"]
    assert pairs.loc[("middle", "twin"), "accuracy_p"] == 1
    assert pairs.loc[("middle", "twin"), "theta_p"] == pytest.approx(1, abs=1e-6)
    ranking = pd.read_csv(tmp_path / "out" / "ranking.csv", keep_default_na=False).set_index("respondent_id")
    assert list(ranking.index[[0, 3]]) == ["high", "low"]
    assert ranking.loc[["middle", "twin"], "indistinguishable_from"].tolist() == ["twin", "middle"]
    assert ranking["probability_best"].sum() == pytest.approx(1)
    assert "indistinguishable from" in done.out


def test_without_a_bank_accuracy_alone(folder: Path, tmp_path: Path) -> None:
    found = run(f"compare {folder}/responses.csv -o {tmp_path}/out --json").json
    assert list(found) == ["comparison"]
    assert "theta_p" not in found["comparison"][0]
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["comparison.csv"]


def test_answers_are_graded_by_the_bank_and_runs_repeat(folder: Path, tmp_path: Path) -> None:
    for name, file in (("one", "responses.csv"), ("two", "answers.csv")):
        run(f"compare {folder}/{file} --bank {folder}/bank.json -o {tmp_path}/{name} --quiet --seed 3")
    for file in ("comparison.csv", "ranking.csv"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_of_many_systems_a_screenful_is_shown_and_all_is_written(folder: Path, tmp_path: Path) -> None:
    items = irtbench.load_bank(folder / "bank.json").scales[0].items
    rng = np.random.default_rng(2)
    drawn = irtbench.simulate_responses(np.linspace(-2, 2, 40), items, rng=rng)
    drawn.to_long().to_csv(tmp_path / "many.csv", index=False)
    done = run(f"compare {tmp_path}/many.csv --bank {folder}/bank.json -o {tmp_path}/out")
    assert len(pd.read_csv(tmp_path / "out" / "comparison.csv")) == 780
    assert len(done.out.splitlines()) <= 60
    assert "12 of 780 pairs" in done.out
    assert f"all are in {tmp_path / 'out' / 'comparison.csv'}" in done.out
    assert "12 of 40 rows" in done.out
    ranking = pd.read_csv(tmp_path / "out" / "ranking.csv")
    shown = [line for line in done.out.splitlines() if "[" in line and "best" not in line]
    assert any(ranking["respondent_id"].iloc[0] in line for line in shown)
    assert any(ranking["respondent_id"].iloc[-1] in line for line in shown)
