"""``irtbench items difficulty``: its files from a bank, a table of items and responses, and what is wrong."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import run

pytestmark = pytest.mark.usefixtures("few_samples_of_r2")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Responses to 20 items whose difficulty rises with their length, features of 22, and a fit."""
    folder = tmp_path_factory.mktemp("difficulty")
    rng = np.random.default_rng(3)
    length = rng.normal(size=22)
    items = irtbench.ItemParameters.from_difficulty(np.ones(20), 0.9 * length[:20] + rng.normal(0, 0.3, 20))
    drawn = irtbench.simulate_responses(rng.normal(size=500), items, rng=rng)
    drawn.to_long().astype({"response": int}).to_csv(folder / "responses.csv", index=False)
    names = [*items.item_ids, "new1", "new2"]
    kinds = ["art", "law"] * 11
    pd.DataFrame({"item_id": names, "length": length, "kind": kinds}).to_csv(folder / "features.csv", index=False)
    run(f"fit {folder}/responses.csv -o {folder}/fit -q")
    return folder


@pytest.mark.slow
def test_a_bank_its_items_and_the_responses_say_the_same(study: Path, tmp_path: Path) -> None:
    said = []
    for k, source in enumerate(("fit/bank.json", "fit/items.csv", "responses.csv")):
        out = tmp_path / str(k)
        done = run(f"items difficulty {study}/{source} --features {study}/features.csv -o {out} --json")
        said.append(done.json)
        files = ["difficulty.json", "effects.csv", "predictions.csv", "prior_items.csv"]
        assert sorted(path.name for path in out.iterdir()) == files
    assert [one["with_items"] for one in said] == [False, False, True]
    bank, table, joint = said  # a table of items has no joint error; with responses the residual is fitted with them
    assert table["r2"] == pytest.approx(bank["r2"], abs=5e-3)
    assert table["answers_worth"] == pytest.approx(bank["answers_worth"], rel=0.1)
    assert joint["r2"] == pytest.approx(bank["r2"], abs=1e-2)
    assert joint["residual_sd"] == pytest.approx(bank["residual_sd"], rel=0.25)
    assert all(one["residual_sd_lower"] < one["residual_sd"] < one["residual_sd_upper"] for one in said)
    effects = pd.read_csv(tmp_path / "0" / "effects.csv").set_index("term")
    assert list(effects.index) == ["intercept", "length", "kind=law"]
    assert effects.loc["length", "lower"] < 0.9 < effects.loc["length", "upper"]
    assert said[0]["r2_lower"] < said[0]["r2"] < said[0]["r2_upper"]
    assert said[0]["n_new_items"] == 2
    predictions = pd.read_csv(tmp_path / "0" / "predictions.csv")
    assert predictions["item_id"].tolist()[-2:] == ["new1", "new2"]


def test_rasch_adds_the_lltm(study: Path, tmp_path: Path) -> None:
    line = f"items difficulty responses.csv --features features.csv -o {tmp_path}/out --model rasch --feature length"
    done = run(line, cwd=study)
    assert "exactly linear in the features (LLTM)" in done.out
    assert pd.read_csv(tmp_path / "out" / "lltm.csv")["term"].tolist() == ["intercept", "length"]
    assert json.loads((tmp_path / "out" / "difficulty.json").read_text())["lltm"]["df"] == 18


@pytest.fixture(scope="module")
def tasks(study: Path) -> Path:
    """The same items as tasks of a length."""
    table = pd.read_csv(study / "features.csv")
    table.assign(human_minutes=np.exp(2 + table["length"])).drop(columns="length").to_csv(
        study / "tasks.csv", index=False
    )
    return study


def test_horizons_of_systems_are_in_the_unit_of_the_column(tasks: Path, tmp_path: Path) -> None:
    done = run(
        f"items difficulty responses.csv --features tasks.csv -o {tmp_path}/out --horizon human_minutes "
        "--feature kind --share 0.5,0.9 --model rasch --figures",
        cwd=tasks,
    )
    assert "length of tasks solved so often, in minutes" in done.out
    assert "lie beyond the longest task and are extrapolated" in done.out
    table = pd.read_csv(tmp_path / "out" / "horizon.csv")
    assert list(table.columns) == ["respondent_id", "share", "horizon", "lower", "upper", "flags"]
    assert len(table) == 2 * 500
    assert set(table["share"]) == {0.5, 0.9}
    assert (table["lower"] <= table["horizon"]).all()
    assert pd.read_csv(tmp_path / "out" / "effects.csv")["term"].tolist() == [
        "intercept",
        "kind=law",
        "log human_minutes",
    ]
    assert json.loads((tmp_path / "out" / "difficulty.json").read_text())["horizon"]["unit"] == "minutes"
    assert "<svg" in (tmp_path / "out" / "time_horizon.svg").read_text()


@pytest.mark.slow
def test_items_without_a_row_are_left_out_and_named(study: Path, tmp_path: Path) -> None:
    table = pd.read_csv(study / "features.csv").iloc[3:]
    table.to_csv(tmp_path / "features.csv", index=False)
    done = run(f"items difficulty {study}/fit/bank.json --features {tmp_path}/features.csv -o {tmp_path}/out --json")
    assert done.json["items_left_out"] == ["item1", "item2", "item3"]
