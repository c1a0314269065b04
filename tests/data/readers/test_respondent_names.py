"""Whom a log's responses are of, where several files name one model."""

import json
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import run
from builders.refusals import is_refused
from irtbench.data.readers import read_responses
from irtbench.data.readers.recognise import holds_models


def log_of(model: str, right: Sequence[bool], **spec: object) -> str:
    samples = [
        {"id": f"q{j}", "epoch": 1, "input": "x", "target": "y", "scores": {"match": {"value": "IC"[int(one)]}}}
        for j, one in enumerate(right)
    ]
    made = {"task": "t", "task_version": 0, "model": model, "created": "2026-11-01T10:00:00Z"} | spec
    return json.dumps({"version": 2, "status": "success", "eval": made, "samples": samples})


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Four logs of one model, in a folder each, of the same two items; two of them are of one run."""
    for k in range(4):
        file = tmp_path / "runs" / f"agent{k}" / "log.json"
        file.parent.mkdir(parents=True)
        spec = {"run_id": f"run{k // 2}", "model_args": {"temperature": k}}
        file.write_text(log_of("maker/m", [k % 2 == 1, k % 2 == 0], **spec))
    return tmp_path / "runs"


def test_files_of_one_name_are_not_merged_without_a_word(runs: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        frame = read_responses(runs, trials="all").frame
    assert set(frame["respondent_id"]) == {"maker/m"}
    assert "4 files share the name maker/m: their responses to one item are trials" in caplog.text
    assert set(frame["run"]) == {"run0", "run1"}
    assert json.loads(frame["arguments"].iloc[-1]) == {"model_args": {"temperature": 3}}


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("run", {"maker/m run0", "maker/m run1"}),
        ("file", {f"agent{k}/log" for k in range(4)}),
        ("folder", {f"agent{k}" for k in range(4)}),
        (r"agent(\d)", {"0", "1", "2", "3"}),
    ],
)
def test_they_are_kept_apart_as_the_user_asks(runs: Path, by: str, names: set[str], caplog) -> None:
    with caplog.at_level(logging.WARNING):
        assert set(read_responses(runs, respondent=by, trials="all").frame["respondent_id"]) == names
    assert "share the name" not in caplog.text


@pytest.mark.parametrize(
    ("by", "saying"),
    [("x(", "no pattern"), ("runs/", "one group"), ("(a)(g)", "one group"), ("nowhere/(.)", "has nothing of")],
)
def test_a_pattern_that_names_nobody_is_refused(runs: Path, by: str, saying: str) -> None:
    is_refused(saying, read_responses, runs, respondent=by)


def test_the_study_file_keeps_the_choice(runs: Path, tmp_path: Path) -> None:
    for k in range(4, 12):  # as many as a fit needs
        shutil.copytree(runs / f"agent{k % 4}", runs / f"agent{k}")
    run("init", runs, "--respondent", "folder", "--yes", "-o", tmp_path / "s.toml")
    assert 'respondent = "folder"' in (tmp_path / "s.toml").read_text()


def test_a_bank_of_logs_says_that_its_respondents_are_models(tmp_path: Path) -> None:
    """What is printed of them is tested with the card."""
    right = np.random.default_rng(1).random((12, 8)) < np.linspace(0.2, 0.9, 12)[:, None]
    (tmp_path / "runs").mkdir()
    for k in range(12):
        (tmp_path / "runs" / f"log{k}.json").write_text(log_of(f"maker/m{k}", right[k], run_id="r"))
    run("fit runs -o fit -q --model rasch --prior none --allow-unconverged", cwd=tmp_path)
    assert json.loads((tmp_path / "fit" / "bank.json").read_text())["card"]["respondents"] == "models"
    # and so does a column of models
    for header in ("model,question_id,correct", "respondent_id,item_id,response", "system,q1,q2", "worker,task,label"):
        (tmp_path / "t.csv").write_text(f"{header}\na,1,1\n")
        assert holds_models(tmp_path / "t.csv") == header.startswith(("model", "system"))


def joined(folder: Path, table: str) -> pd.DataFrame:
    (folder / "r.csv").write_text("respondent_id,item_id,response,age\na,q1,1,30\na,q2,0,30\nb,q1,1,40\n")
    (folder / "people.csv").write_text(table)
    return read_responses(folder / "r.csv", respondents=folder / "people.csv").frame


def test_columns_are_added_that_are_not_there(tmp_path: Path) -> None:
    frame = joined(tmp_path, "ResponseId,country,age\nb,de,1\na,fr,2\nc,it,3\n")
    joined_rows = [["fr", "30", 1], ["fr", "30", 0], ["de", "40", 1]]
    assert frame[["country", "age", "response"]].to_numpy().tolist() == joined_rows
    with pytest.warns(UserWarning, match="no row for respondent a"):  # who keeps the answers
        frame = joined(tmp_path, "PROLIFIC_PID,country\nb,de\n")
    assert frame["respondent_id"].tolist() == ["a", "a", "b"]
    assert frame["country"].isna().tolist() == [True, True, False]
    is_refused("--column respondent_id=", read_responses, tmp_path / "r.csv", respondent="file")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("name,country\na,de\n", "no column that names respondents among name, country"),
        ("worker,country\na,de\na,fr\n", "column worker: names must be unique but a is repeated"),
        ("worker,country\nx,de\n", "none of x gave answers; expected the ids of the respondents, such as a, b"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, table: str, message: str) -> None:
    is_refused(message, joined, tmp_path, table)
