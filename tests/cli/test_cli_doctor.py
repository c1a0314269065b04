"""`irtbench doctor` and `irtbench init` as a user meets them: a screenful, and a study file that build takes."""

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import run, run_apart
from builders.valid_inputs import write_valid_inputs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_valid_inputs(tmp_path)
    return tmp_path


def test_a_screenful_and_status_1_where_it_says_error(folder: Path) -> None:
    frame = pd.read_csv(folder / "responses.csv")
    pd.concat([frame, frame[:3]]).to_csv(folder / "twice.csv", index=False)
    ended = run("doctor twice.csv", cwd=folder, status=1)
    run("doctor responses.csv -q", cwd=folder)
    run("doctor twice.csv --json", cwd=folder, status=1)
    lines = ended.out.splitlines()
    assert lines[0] == "twice.csv: long, 60 respondents x 8 items, 483 responses, 100.0% of all pairs"
    assert lines[3].startswith("error     3 pairs of respondent and item come more than once")
    assert any(line.startswith("fit             no  first: repeated pairs") for line in lines)
    assert len(lines) < 24
    assert "The status is 1 where one is an error" in " ".join(run("doctor --help").out.split())


@pytest.mark.parametrize("arguments", [["answers.csv", "--items", "items.csv"], ["responses.csv"]])
def test_build_takes_the_study_file_of_init_as_it_is(folder: Path, arguments: list[str]) -> None:
    options = ["--system", "systems.csv"] if "--items" in arguments else []
    ended = run("init", *arguments, *options, "--preset", "none", "--yes", "-o", "mine.toml", cwd=folder)
    assert "build it: irtbench build mine.toml" in ended.out
    written = tomllib.loads((folder / "mine.toml").read_text())
    assert written["data"]["answers"] == arguments[0]
    assert written["model"]["prior"] == "weak"  # of 60 respondents
    assert written["screening"] == {}  # no rule that depends on ability
    run("build mine.toml -q", cwd=folder)
    assert (folder / "results" / "mine" / "bank.json").exists()


def test_without_a_terminal_a_question_is_refused_in_a_line(folder: Path) -> None:
    ended = run_apart("init", "responses.csv", "-o", "asked.toml", cwd=folder, status=2)
    assert "no terminal to ask at: Title of the study; expected --yes, which asks nothing" in ended.stderr
    assert not (folder / "asked.toml").exists()


def test_capitals_that_the_study_file_makes_one_keep_no_study_from_being_built(folder: Path) -> None:
    answers = pd.read_csv(folder / "answers.csv")
    answers.loc[::3, "answer"] = answers["answer"].str.capitalize()
    answers.to_csv(folder / "capitals.csv", index=False)
    assert "nearly the same" not in run("init capitals.csv --items items.csv --yes -o new.toml", cwd=folder).out
    assert "nearly the same" in run("doctor capitals.csv --items items.csv", cwd=folder, status=1).out


@pytest.mark.parametrize("content", ["responses", "answers"])
def test_columns_may_say_what_the_items_are(folder: Path, content: str) -> None:
    frame = pd.read_csv(folder / f"{content}.csv")
    first = frame["item_id"].isin([f"item{k}" for k in range(1, 5)])
    frame.assign(benchmark=np.where(first, "a", "b"), right="yes").to_csv(folder / "all.csv", index=False)
    columns = "--column label=benchmark" + (" --column key=right" if content == "answers" else "")
    run(f"init all.csv {columns} --content {content} --preset none --yes -o mine.toml", cwd=folder)
    items = pd.read_csv(folder / "mine_items.csv")
    assert set(items["item_id"]) == set(frame["item_id"])
    assert items.loc[items["label"] == "a", "item_id"].tolist() == ["item1", "item2", "item3", "item4"]
    assert "key" in items or content == "responses"
    assert tomllib.loads((folder / "mine.toml").read_text())["data"]["items"] == "mine_items.csv"
