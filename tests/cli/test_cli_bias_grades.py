"""Item bias of grades as a user types it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import refused, run


@pytest.fixture(scope="module")
def grades(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels of 300 people and 300 machines on six prompts; the machines' first is graded lower."""
    folder, rng = tmp_path_factory.mktemp("grades"), np.random.default_rng(5)
    theta, machine = rng.normal(size=(600, 1, 1)), np.arange(600) >= 300
    steps = (
        np.array([-0.8, 0.6]) + rng.normal(0, 0.5, (6, 1)) + 0.8 * machine[:, None, None] * (np.arange(6) == 0)[:, None]
    )
    score = (1.4 * (theta - steps) + rng.logistic(size=(600, 6, 1)) > 0).sum(axis=2)
    names = [f"r{k}" for k in range(600)]
    wide = pd.DataFrame(np.array(["poor", "fair", "good"])[score], columns=[f"p{k}" for k in range(6)])
    wide.assign(respondent_id=names).melt("respondent_id", var_name="item_id", value_name="score").to_csv(
        folder / "labels.csv", index=False
    )
    pd.DataFrame({"respondent_id": names, "group": np.where(machine, "machine", "person")}).to_csv(
        folder / "groups.csv", index=False
    )
    return folder


@pytest.mark.parametrize("options", [[], ["--method", "logistic"], ["--method", "logistic", "--match", "score"]])
def test_the_prompt_graded_lower_is_found(grades: Path, tmp_path: Path, options: list[str]) -> None:
    done = run(
        f"bias {grades}/labels.csv --groups {grades}/groups.csv --model grm --levels poor,fair,good "
        f"-o {tmp_path}/out --figures {tmp_path} --html {tmp_path}/page.html",
        *options,
    )
    found, about = pd.read_csv(tmp_path / "out/bias.csv"), json.loads((tmp_path / "out/bias.json").read_text())
    assert about["flagged"] == ["p0"]
    assert "of grades it is not known" in done.out
    assert found["p"].idxmin() == 0


def test_what_does_not_go_with_grades_is_one_line(grades: Path, tmp_path: Path) -> None:
    files = (grades / "labels.csv", "--groups", grades / "groups.csv", "-o", tmp_path / "out")
    refused("bias", *files, "--model", "grm", "--method", "mantel-haenszel", saying="expected likelihood or logistic")
    refused("bias", *files, "--levels", "poor,fair,good", saying="--levels: goes with grades: --model grm or gpcm")
