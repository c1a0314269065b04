"""Responses read into a matrix at once are those of the long table, and the errors too."""

from pathlib import Path

import numpy as np
import pytest

from irtbench.data.input_error import InputError
from irtbench.data.readers.recognise import read_response_matrix, read_responses
from irtbench.data.responses import ResponseMatrix
from irtbench.data.sparse_responses import responses_from_long

WIDE = "who,i1,i2,i3,note\nb,1,0,NA,fine\na,-1,true,0.0,no\nc,,1,0,\n"
LONG = "respondent_id,item_id,response\nb,i1,1\na,i2,0\nb,i2,\n"


@pytest.mark.filterwarnings("ignore:.*left out as no items")
@pytest.mark.parametrize(
    ("text", "options"),
    [
        (WIDE, {}),
        (WIDE, {"items": "i*"}),
        (WIDE, {"exclude": ["note", "i2"]}),
        (WIDE.replace("0.0", "0.7").replace("true", "0.2"), {"threshold": 0.5, "items": "i*"}),
        (WIDE.replace("who,i1", "x,who").replace("i1", "who"), {"format": "wide"}),
        (LONG, {}),
        (LONG + "b,i1,0\n", {"trials": "last"}),
    ],
)
def test_it_is_the_matrix_of_the_long_table(tmp_path: Path, text: str, options: dict) -> None:
    (tmp_path / "t.csv").write_text(text)
    found = read_response_matrix(tmp_path / "t.csv", **options)
    expected = responses_from_long(read_responses(tmp_path / "t.csv", **options).frame)
    assert isinstance(found, ResponseMatrix)
    assert isinstance(expected, ResponseMatrix)
    assert (found.respondent_ids, found.item_ids) == (expected.respondent_ids, expected.item_ids)
    np.testing.assert_array_equal(found.values, expected.values)


@pytest.mark.filterwarnings("ignore:.*left out as no items")
@pytest.mark.parametrize(
    ("text", "saying"),
    [
        (WIDE.replace("true", "7"), "row 2 (line 3), column i2: expected 1, 0 or missing but got '7'"),
        ("who,i1,i2\na,1,8\nb,9,0\nc,1,1\nd,0,1\n", "row 1 (line 2), column i2: expected 1, 0 or missing but got '8'"),
        (WIDE.replace("\nc,", "\n,"), "expected a name but it is empty"),
        (WIDE.replace("\nc,", "\na,"), "neither a long table"),
        (LONG + "b,i1,0\n", "duplicate"),
    ],
)
def test_it_refuses_what_the_long_table_refuses(tmp_path: Path, text: str, saying: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    messages = []
    for read in (read_response_matrix, lambda path: responses_from_long(read_responses(path).frame)):
        with pytest.raises(InputError) as raised:
            read(tmp_path / "t.csv")
        messages.append(str(raised.value))
    assert messages[0] == messages[1]
    assert saying in messages[0]


def test_words_of_truth_are_responses(tmp_path: Path) -> None:
    (tmp_path / "words.csv").write_text(
        "respondent_id,item_id,response\na,i1,true\na,i2,false\nb,i1,False\nb,i2,TRUE\n"
    )
    found = read_responses(tmp_path / "words.csv").frame
    assert found["response"].tolist() == [1, 0, 0, 1]
