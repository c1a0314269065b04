"""``irtbench dimensions``: its files, and one line for what is wrong."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import run

EIGENVALUES = ["number", "eigenvalue", "chance_mean", "chance_limit", "ability"]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two abilities with four items each, and an item that everybody got right."""
    folder = tmp_path_factory.mktemp("dimensions")
    rng = np.random.default_rng(3)
    abilities = np.repeat(rng.normal(size=(150, 2)), 4, axis=1)
    values = (rng.random((150, 8)) < 1 / (1 + np.exp(-1.7 * abilities))).astype(int)
    wide = pd.DataFrame(values, columns=[f"i{j}" for j in range(8)]).assign(easy=1)
    wide.insert(0, "respondent_id", [f"r{i}" for i in range(150)])
    wide.to_csv(folder / "responses.csv", index=False)
    items = pd.DataFrame({"item_id": wide.columns[1:], "kind": ["left"] * 4 + ["right"] * 5})
    items.to_csv(folder / "items.csv", index=False)
    return folder


def test_dimensions_writes_its_files(study: Path, tmp_path: Path) -> None:
    found = run(
        "dimensions responses.csv --items items.csv --item-column label=kind --factors 2 --samples 5 --test-samples 5 "
        f"-o {tmp_path}/out --json",
        cwd=study,
    ).json
    assert json.loads((tmp_path / "out" / "dimensions.json").read_text()) == found
    assert found["n_abilities"] == 2
    assert found["items_left_out"] == {"easy": "all_correct"}
    assert [model["model"] for model in found["models"]] == ["1 factor", "2 factors"]
    assert found["models"][1]["delta_bic"] == 0
    (test,) = found["likelihood_ratio_tests"]
    # none of the samples of one ability reaches the statistic
    assert (test["p"], test["n_samples"], test["note"]) == (pytest.approx(1 / 6), 5, "")
    assert test["statistic"] > 60
    assert found["rotation"]["share_following"] == 1
    assert list(pd.read_csv(tmp_path / "out" / "eigenvalues.csv")) == EIGENVALUES
    assert len(pd.read_csv(tmp_path / "out" / "loadings.csv")) == 8
    assert (tmp_path / "out" / "scree.png").read_bytes().startswith(b"\x89PNG")


def test_abilities_behind_grades_are_counted(study: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    theta = np.repeat(rng.normal(size=(300, 2)), 3, axis=1)
    codes = np.digitize(rng.logistic(size=theta.shape) + 2 * theta, [-1, 1.2])
    missing = rng.random(codes.shape) < 0.5 / (1 + np.exp(2 * theta))  # the less able answer less
    words = np.where(missing, "", np.array(["poor", "fair", "good"])[codes])
    wide = pd.DataFrame(words, columns=[f"i{j}" for j in range(6)]).assign(all="fair")
    wide.insert(0, "respondent_id", [f"r{i}" for i in range(300)])
    wide.to_csv(tmp_path / "grades.csv.gz", index=False)
    numbers = wide.replace({"poor": 1, "fair": 2, "good": 3, "": None})
    numbers.melt("respondent_id", var_name="item_id", value_name="score").dropna().to_parquet(
        tmp_path / "grades.parquet"
    )
    more = f"--items {tmp_path}/items.csv --item-column label=kind --factors 2 --test-samples 0"
    pd.DataFrame({"item_id": wide.columns[1:], "kind": ["a"] * 3 + ["b"] * 4}).to_csv(
        tmp_path / "items.csv", index=False
    )
    found = [
        run(f"dimensions {file} --model grm {how} {more} --samples 5 -o out --json", cwd=tmp_path).json
        for file, how in (("grades.csv.gz", "--levels poor,fair,good"), ("grades.parquet", ""))
    ]
    assert found[0]["eigenvalues"] == pytest.approx(found[1]["eigenvalues"], abs=1e-9)
    assert found[0]["correlations"] == "polychoric"
    assert found[0]["n_abilities"] == 2
    assert found[0]["items_left_out"] == {"all": "one_category"}
    assert found[0]["rotation"]["share_following"] == 1
    assert found[0]["models"][1]["delta_bic"] == 0
    done = run("dimensions grades.csv.gz --model gpcm --levels poor,fair,good -o short", cwd=tmp_path).out
    assert "2 abilities by parallel analysis" in done
    assert "fit grades.csv.gz --model gpcm --levels poor,fair,good --factors 2 -o short/fit" in done


def test_without_labels_nothing_is_turned(study: Path, tmp_path: Path) -> None:
    done = run(f"dimensions {study}/responses.csv --factors 0 --samples 3 -o {tmp_path}/out")
    assert "2 abilities by parallel analysis" in done.out
    assert "left out: easy (all_correct)" in done.out
    found = json.loads((tmp_path / "out" / "dimensions.json").read_text())
    assert found["models"] is None
    assert found["rotation"] is None
    assert not (tmp_path / "out" / "loadings.csv").exists()
