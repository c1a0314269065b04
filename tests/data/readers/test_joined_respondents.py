"""A second table, of respondents, joined by their names."""

from pathlib import Path

import pandas as pd
import pytest

from irtbench.data.input_error import InputError
from irtbench.data.readers import read_answers, read_responses

ROWS = "respondent_id,item_id,response,age\na,q1,1,30\na,q2,0,30\nb,q1,1,40\n"


@pytest.fixture
def responses(tmp_path: Path) -> Path:
    (tmp_path / "r.csv").write_text(ROWS)
    return tmp_path / "r.csv"


def joined(responses: Path, table: str) -> pd.DataFrame:
    (responses.parent / "people.csv").write_text(table)
    return read_responses(responses, respondents=responses.parent / "people.csv").frame


def test_columns_are_added_that_are_not_there(responses: Path) -> None:
    frame = joined(responses, "ResponseId,country,age\nb,de,1\na,fr,2\nc,it,3\n")
    assert frame["country"].tolist() == ["fr", "fr", "de"]
    assert frame["age"].tolist() == ["30", "30", "40"]
    assert frame["response"].tolist() == [1, 0, 1]


def test_respondents_who_are_not_in_it_keep_their_answers(responses: Path) -> None:
    with pytest.warns(UserWarning, match="1 respondents are not in it: a"):
        frame = joined(responses, "PROLIFIC_PID,country\nb,de\n")
    assert frame["respondent_id"].tolist() == ["a", "a", "b"]
    assert frame["country"].isna().tolist() == [True, True, False]


def test_of_prolifics_table_answers_that_do_not_count_are_left_out(responses: Path) -> None:
    table = (
        "Submission id,Participant id,Status,Started at,Completed at,Time taken,Sex\n"
        "1,a,RETURNED,,,10,Male\n2,b,APPROVED,,,20,Female\n"
    )
    frame = joined(responses, table)
    assert frame[["respondent_id", "Sex"]].to_numpy().tolist() == [["b", "Female"]]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("name,country\na,de\n", "no column that names respondents among name, country"),
        ("worker,country\na,de\na,fr\n", "column worker: names must be unique but a is repeated"),
        ("worker,country\nx,de\n", "none of x gave answers; expected the ids of the respondents, such as a, b"),
    ],
)
def test_what_does_not_fit_is_named(responses: Path, table: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        joined(responses, table)


def test_answers_take_it_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("worker,task,label\na,q1,yes\n")
    (tmp_path / "p.csv").write_text("worker,country\na,de\n")
    assert read_answers(tmp_path / "a.csv", respondents=tmp_path / "p.csv").frame["country"].tolist() == ["de"]
