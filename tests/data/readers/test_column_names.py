"""Columns under the names that people and platforms give them."""

import logging
from pathlib import Path

import pytest

from builders.commands_here import run_main
from irtbench.data.input_error import InputError
from irtbench.data.readers.column_names import likely_column, likely_long
from irtbench.data.readers.item_table import read_features, read_items
from irtbench.data.readers.recognise import read, read_responses
from irtbench.data.readers.respondents import read_groups
from irtbench.data.readers.tagged_items import read_testlets
from irtbench.models.parameter_table import read_item_priors, read_parameters


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["WorkerId", "HITId", "Answer.sentiment"], ("WorkerId", "HITId", "Answer.sentiment")),
        (["Annotator ID", "example_id", "Label", "text"], ("Annotator ID", "example_id", "Label")),
        (["participant", "Input.item", "Answer.choice", "Answer.x"], ("participant", "Input.item", "Answer.choice")),
    ],
)
def test_common_names_are_known(names: list[str], found: tuple[str, str, str]) -> None:
    assert tuple(likely_column(names, ours) for ours in ("respondent_id", "item_id", "answer")) == found


@pytest.mark.parametrize(
    "names", [["participant", "q1", "q2"], ["worker", "task", "minutes"], ["item_id", "score"], ["model", "q", "score"]]
)
def test_a_wide_table_and_one_without_answers_are_no_long_ones(names: list[str]) -> None:
    assert likely_long(names, {}) is None


def test_what_was_taken_is_said_as_options(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "raw.csv"
    file.write_text("WorkerId,HITId,Answer.label,text\nann,h1,yes,a\nbob,h1,no,a\n")
    with caplog.at_level(logging.WARNING):
        frame = read(file, content="answers").frame
    assert list(frame.columns) == ["respondent_id", "item_id", "answer", "text"]
    options = "--column respondent_id=WorkerId --column item_id=HITId --column answer=Answer.label"
    assert f"columns taken by their names: {options}" in caplog.text
    caplog.clear()
    named = {"respondent_id": "WorkerId", "item_id": "HITId", "answer": "Answer.label"}
    assert read(file, content="answers", columns=named).frame.equals(frame)
    assert not caplog.text


def test_the_error_has_the_line_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text("WorkerId,HITId,zz\nann,h1,1\nann,h2,0\n")
    ended = run_main("doctor", tmp_path / "raw.csv")
    assert ended.status == 2
    assert "--column respondent_id=WorkerId --column item_id=HITId --column answer=NAME" in ended.err
    (tmp_path / "raw.csv").write_text("who,HITId,zz\nann,h1,1\nann,h2,0\n")
    with pytest.raises(InputError, match="--column respondent_id=NAME --column item_id=HITId"):
        read_responses(tmp_path / "raw.csv", format="long")


def test_tables_of_items_and_people_have_them_too(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("Question ID,key,passage,length\nq1,a,p,1\nq2,b,p,3\n")
    assert read_items(file).item_ids == ("q1", "q2")
    assert read_testlets(file, "passage") == {"q1": "p", "q2": "p"}
    assert read_features(file, columns=("length",)).item_ids == ("q1", "q2")
    file.write_text("annotator,group\nann,x\n")
    assert read_groups(file) == {"ann": "x"}
    file.write_text("WorkerId,sex\nann,f\n")
    assert read_groups(file) == {"ann": "f"}
    file.write_text("question_id,mean,sd\nq1,0,1\n")
    assert read_item_priors(file) == {"q1": (0.0, 1.0)}


def test_items_are_given_by_difficulty_too(tmp_path: Path) -> None:
    file = tmp_path / "items.csv"
    file.write_text("item,discrimination,difficulty,guessing\nq1,2,0.5,0.2\nq2,1,-1,0\n")
    items = read_parameters(file)
    assert items.item_ids == ("q1", "q2")
    assert items.intercept.tolist() == [-1.0, 1.0]
    assert items.guessing.tolist() == [0.2, 0.0]
