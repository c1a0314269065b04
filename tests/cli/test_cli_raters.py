"""``irtbench crowd raters``: tables, page and figures of ratings, and what is wrong with them in a line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import refused, run
from builders.valid_inputs import write_ratings

WORDS = ["poor", "fair", "good"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raters")
    write_ratings(folder / "ratings.csv")
    pd.read_csv(folder / "ratings.csv").assign(note="x").to_csv(folder / "ratings.csv", index=False)
    return folder


def test_raters_items_and_fair_scores_are_written(folder: Path) -> None:
    done = run("crowd raters ratings.csv -o out --figures --html page.html", cwd=folder)
    assert "most severe first" in done.out
    raters, scores = pd.read_csv(folder / "out" / "raters.csv"), pd.read_csv(folder / "out" / "scores.csv")
    assert list(raters.columns[:5]) == ["rater_id", "n", "mean_score", "severity", "se"]
    assert raters.loc[raters["severity"].idxmax(), "rater_id"] == "judge2"
    assert scores["fair_lower"].le(scores["fair_score"]).all()
    assert scores["fair_score"].le(scores["fair_upper"]).all()
    assert set(pd.read_csv(folder / "out" / "precision.csv")) == {"n_ratings", "se", "reliability"}
    about = json.loads((folder / "out" / "raters.json").read_text())
    assert about["converged"]
    assert about["n_raters"] == 3
    assert (folder / "out" / "severities.svg").is_file()
    assert "Fair score" in (folder / "page.html").read_text()


def test_words_names_of_columns_and_groups(folder: Path) -> None:
    table = pd.read_csv(folder / "ratings.csv")
    table["grade"] = np.array(WORDS)[table.pop("score")]
    table = table.rename(columns={"respondent_id": "model", "item_id": "prompt", "rater_id": "who"})
    table.assign(family=table["model"].str[-1]).to_csv(folder / "words.csv", index=False)
    found = run(
        "crowd raters words.csv --column rater_id=who --levels poor,fair,good --by family --model grm --json -o words",
        cwd=folder,
    ).json
    assert {row["rater_id"] for row in found["raters"]} == {"judge0", "judge1", "judge2"}
    groups = pd.read_csv(folder / "words" / "interactions.csv")
    assert list(groups.columns[:4]) == ["rater_id", "family", "n", "severity"]
    assert groups["p_adjusted"].ge(groups["p"]).all()


@pytest.mark.parametrize(
    ("words", "saying"),
    [
        (["--levels", "poor,fair"], "expected one of poor, fair but got '0'"),
        (["--column", "score=absent"], "absent"),
        (["--column", "answer=score"], "unknown name answer"),
        (["--by", "absent"], "absent"),
        (["--column", "score=note"], "column note: expected a number but got 'x'"),
        (["--rater-steps", "--model", "rasch"], "rasch"),
    ],
)
def test_what_is_wrong_is_one_line(folder: Path, words: list[str], saying: str) -> None:
    refused("crowd raters ratings.csv -o wrong", *words, saying=saying, cwd=folder)
    assert not (folder / "wrong").exists()
