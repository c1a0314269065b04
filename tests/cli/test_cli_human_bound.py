"""``irtbench evaluate human-bound`` as a user meets it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import refused, run


@pytest.fixture
def responses(tmp_path: Path) -> Path:
    """Five votes on 600 items: 500 with 5 right, 50 with 4, 50 with 2."""
    right = np.repeat([5, 4, 2], [500, 50, 50])
    rows = [(f"w{i}", f"q{j}", int(i < count)) for j, count in enumerate(right) for i in range(5)]
    pd.DataFrame(rows, columns=["respondent_id", "item_id", "response"]).to_csv(tmp_path / "votes.csv", index=False)
    return tmp_path / "votes.csv"


def test_it_writes_its_tables_and_figures(responses: Path, tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("system,seed,accuracy\nm,1,0.5\nm,2,0.7\nother,1,0.4\nother,2,0.4\n")
    out = tmp_path / "out"
    found = run(f"evaluate human-bound {responses} --runs {tmp_path}/runs.csv -o {out} --json").json
    names = ["crowd_filter.csv", "crowd_filter.svg", "human_bound.json", "human_bound.svg"]
    assert sorted(file.name for file in out.iterdir()) == names
    assert json.loads((out / "human_bound.json").read_text()) == found
    assert (found["n_items"], found["n_kept"]) == (600, 550)
    kept = found["human_accuracy"]["items kept"]
    assert (kept["n_votes"], kept["margin"]) == (2_750, 0.03)
    assert kept["accuracy"] == pytest.approx(2_700 / 2_750)
    assert kept["confidence"] == pytest.approx(1 - np.exp(-2 * 2_750 * 0.0009))
    assert found["human_accuracy"]["all items"]["accuracy"] == pytest.approx(2_800 / 3_000)
    # 3 of 4 others right: 2,700 right votes out, 50 wrong ones; 4 of 4: 2,500 and 50; the lower of the two first
    assert found["new_vote_lower"] == pytest.approx(2_500 / 2_550)
    assert found["new_vote_upper"] == pytest.approx(2_700 / 2_750)
    assert found["runs"][0] == {"system": "m", "n_runs": 2, "mean": pytest.approx(0.6), "lowest": 0.5,
                                "highest": 0.7, "sd": pytest.approx(np.sqrt(0.02))}  # fmt: skip
    table = pd.read_csv(out / "crowd_filter.csv")
    assert list(table) == ["item_id", "n_votes", "n_correct", "kept"]
    assert table["kept"].sum() == 550
    assert "Hoeffding" in (out / "human_bound.svg").read_text()


def test_a_filter_that_keeps_nothing_is_a_result(responses: Path, tmp_path: Path) -> None:
    votes = pd.read_csv(responses)
    votes[votes["item_id"].isin(["q550", "q551"])].to_csv(tmp_path / "hard.csv", index=False)
    found = run(f"evaluate human-bound {tmp_path}/hard.csv -o {tmp_path}/out --json").json
    assert found["n_kept"] == 0
    assert found["human_accuracy"]["items kept"]["accuracy"] is None


@pytest.mark.parametrize(
    ("options", "saying"),
    [
        (["-n", "4"], "expected 4 votes on every item but got other numbers on q0 (5)"),
        (["-k", "6"], "1 <= k <= n"),
        (["--margin", "0"], "margin must be between 0 and 1"),
        (["--level", "1"], "level must be between 0 and 1"),
        (["--column", "response=nothing"], "nothing"),
    ],
)
def test_what_is_wrong_is_refused_and_nothing_is_written(
    responses: Path, tmp_path: Path, options: list[str], saying: str
) -> None:
    refused(f"evaluate human-bound {responses}", *options, "-o", tmp_path / "out", saying=saying)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "saying"),
    [
        ("system,seed\nm,1\n", "column 'accuracy' missing"),
        ("system,seed,accuracy\nm,1,high\n", "'high'"),
        ("system,seed,accuracy\nm,1,\n", "it is missing"),
        ("system,seed,accuracy\nm,1,.5\nm,1,.6\n", "row 2 ... two runs with this seed"),
    ],
)
def test_wrong_runs_are_refused(responses: Path, tmp_path: Path, content: str, saying: str) -> None:
    (tmp_path / "runs.csv").write_text(content)
    refused(f"evaluate human-bound {responses} --runs {tmp_path}/runs.csv -o {tmp_path}/out", saying=saying)
    assert not (tmp_path / "out").exists()
