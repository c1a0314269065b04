"""``irtbench dimensions``: its files, and one line for what is wrong."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import run, written

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
    line = "dimensions responses.csv --items items.csv --item-column label=kind --factors 2 --samples 5"
    files = "dimensions.json eigenvalues.csv loadings.csv scree.png"
    found = written(f"{line} --test-samples 3", tmp_path / "out", files, cwd=study)
    assert found["n_abilities"] == 2
    assert found["items_left_out"] == {"easy": "all_correct"}
    assert [model["model"] for model in found["models"]] == ["1 factor", "2 factors"]
    assert found["models"][1]["delta_bic"] == 0
    (test,) = found["likelihood_ratio_tests"]
    # none of the samples of one ability reaches the statistic
    assert (test["p"], test["n_samples"], test["note"]) == (pytest.approx(1 / 4), 3, "")
    assert found["rotation"]["share_following"] == 1
    assert list(pd.read_csv(tmp_path / "out" / "eigenvalues.csv")) == EIGENVALUES
    assert len(pd.read_csv(tmp_path / "out" / "loadings.csv")) == 8
    # without labels nothing is turned
    done = run(f"dimensions {study}/responses.csv --factors 0 --samples 3 -o {tmp_path}/plain")
    assert "left out: easy (all_correct)" in done.out
    found = json.loads((tmp_path / "plain" / "dimensions.json").read_text())
    assert (found["models"], found["rotation"]) == (None, None)
    assert not (tmp_path / "plain" / "loadings.csv").exists()


def test_abilities_behind_grades_are_counted(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    theta = np.repeat(rng.normal(size=(300, 2)), 3, axis=1)
    codes = np.digitize(rng.logistic(size=theta.shape) + 2 * theta, [-1, 1.2])
    missing = rng.random(codes.shape) < 0.5 / (1 + np.exp(2 * theta))  # the less able answer less
    words = np.where(missing, "", np.array(["poor", "fair", "good"])[codes])
    wide = pd.DataFrame(words, columns=[f"i{j}" for j in range(6)]).assign(all="fair")
    wide.insert(0, "respondent_id", [f"r{i}" for i in range(300)])
    wide.to_csv(tmp_path / "grades.csv.gz", index=False)
    (tmp_path / "items.csv").write_text("item_id,kind\ni0,a\ni1,a\ni2,a\ni3,b\ni4,b\ni5,b\nall,b\n")
    line = "dimensions grades.csv.gz --model grm --levels poor,fair,good"
    more = "--items items.csv --item-column label=kind --factors 2 --test-samples 0 --samples 5"
    found = run(f"{line} {more} -o out --json", cwd=tmp_path).json
    assert found["correlations"] == "polychoric"
    assert found["n_abilities"] == 2
    assert found["items_left_out"] == {"all": "one_category"}
    assert found["rotation"]["share_following"] == 1
    assert found["models"][1]["delta_bic"] == 0
    said = run(f"{line} --samples 5 -o short", cwd=tmp_path).out
    assert "2 abilities by parallel analysis" in said
    assert "fit grades.csv.gz --model grm --levels poor,fair,good --factors 2 -o short/fit" in said
