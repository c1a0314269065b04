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
    drawn = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    drawn.to_long().astype({"response": int}).to_csv(folder / "responses.csv", index=False)
    features = pd.DataFrame({"item_id": [*items.item_ids, "new1", "new2"], "kind": ["art", "law"] * 11})
    features.assign(length=length).to_csv(folder / "features.csv", index=False)
    features[1:].assign(human_minutes=np.exp(2 + length)[1:]).to_csv(folder / "tasks.csv", index=False)
    run(f"fit {folder}/responses.csv -o {folder}/fit -q")
    return folder


@pytest.mark.slow
def test_a_bank_its_items_and_the_responses_say_the_same(study: Path, tmp_path: Path) -> None:
    said = []
    for k, source in enumerate(("fit/bank.json", "fit/items.csv", "responses.csv")):
        line = f"items difficulty {source} --features features.csv -o {tmp_path}/{k} --json"
        said.append(run(line, cwd=study).json)
        files = ["difficulty.json", "effects.csv", "predictions.csv", "prior_items.csv"]
        assert sorted(path.name for path in (tmp_path / str(k)).iterdir()) == files
    assert [one["with_items"] for one in said] == [False, False, True]
    bank, table, joint = said  # a table of items has no joint error; with responses the residual is fitted with them
    assert table["r2"] == pytest.approx(bank["r2"], abs=1e-2)
    assert table["answers_worth"] == pytest.approx(bank["answers_worth"], rel=0.15)
    assert joint["r2"] == pytest.approx(bank["r2"], abs=2e-2)
    assert joint["residual_sd"] == pytest.approx(bank["residual_sd"], rel=0.3)
    effects = pd.read_csv(tmp_path / "0" / "effects.csv").set_index("term")
    assert list(effects.index) == ["intercept", "kind=law", "length"]
    assert effects.loc["length", "lower"] < 0.9 < effects.loc["length", "upper"]
    assert bank["r2_lower"] < bank["r2"] < bank["r2_upper"]
    assert bank["n_new_items"] == 2
    assert pd.read_csv(tmp_path / "0" / "predictions.csv")["item_id"].tolist()[-2:] == ["new1", "new2"]


def test_horizons_are_in_the_unit_of_the_column_and_rasch_adds_the_lltm(study: Path, tmp_path: Path) -> None:
    line = "items difficulty responses.csv --features tasks.csv --horizon human_minutes --feature kind --share 0.5,0.9"
    done = run(f"{line} --model rasch --figures -o {tmp_path}/out", cwd=study)
    assert "length of tasks solved so often, in minutes" in done.out
    assert "lie beyond the longest task and are extrapolated" in done.out
    assert "exactly linear in the features (LLTM)" in done.out
    table = pd.read_csv(tmp_path / "out" / "horizon.csv")
    assert list(table.columns) == ["respondent_id", "share", "horizon", "lower", "upper", "flags"]
    assert len(table) == 2 * 300
    assert set(table["share"]) == {0.5, 0.9}
    assert (table["lower"] <= table["horizon"]).all()
    terms = ["intercept", "kind=law", "log human_minutes"]
    for name in ("effects", "lltm"):
        assert pd.read_csv(tmp_path / "out" / f"{name}.csv")["term"].tolist() == terms
    found = json.loads((tmp_path / "out" / "difficulty.json").read_text())
    assert found["horizon"]["unit"] == "minutes"
    assert found["lltm"]["df"] == 19 - 3
    assert found["items_left_out"] == ["item1"]  # which has no row
    assert (tmp_path / "out" / "time_horizon.svg").exists()
