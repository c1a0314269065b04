"""Responses are the same whatever the order, form, spelling and source of their table, and so are the errors."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.readers.encode import encode_table
from irtbench.data.readers.large_table import LargeTable
from irtbench.data.readers.recognise import read_response_matrix, read_responses
from irtbench.data.responses import Responses
from irtbench.data.sparse_responses import responses_from_long

WIDE = "who,i1,i2,i3,note\nb,1,0,NA,fine\na,-1,true,0.0,no\nc,,1,0,\n"
LONG = "respondent_id,item_id,response\nb,i1,1\na,i2,0\nb,i2,\n"


@pytest.mark.filterwarnings("ignore:.*left out as no items")
@pytest.mark.parametrize(
    ("text", "options"),
    [
        (WIDE, {}),
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
    pd.testing.assert_frame_equal(found.table(), expected.table())


@pytest.mark.filterwarnings("ignore:.*left out as no items")
@pytest.mark.parametrize(
    ("text", "saying"),
    [
        (WIDE.replace("true", "7"), "row 2 (line 3), column i2: expected 1, 0 or missing but got '7'"),
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


SPELLINGS = {1: ("1", "1.0", "true", "TRUE"), 0: ("0", "0.0", "False"), -1: ("", "NA", "NaN", "-1")}
CELLS = arrays(
    np.int8, array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=6), elements=st.sampled_from([1, 0, -1])
)


def observed(responses: Responses) -> dict[tuple[str, str], int]:
    found = responses.to_matrix().to_long()
    return {(who, item): right for who, item, right in found.itertuples(index=False)}


@settings(max_examples=8)
@given(cells=CELLS.filter(lambda cells: (cells >= 0).any()), seed=st.integers(0, 2**16))
def test_order_form_spelling_and_source_of_a_table_change_nothing(cells: NDArray[np.int8], seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = np.array([f"person {k}" for k in range(cells.shape[0])])
    texts = np.array([[rng.choice(SPELLINGS[int(cell)]) for cell in row] for row in cells], dtype=object)
    wide = pd.DataFrame(texts, columns=[f"question {k}" for k in range(cells.shape[1])])
    wide.insert(0, "respondent_id", names)
    long = wide.melt("respondent_id", var_name="item_id", value_name="response")
    expected = {(names[i], f"question {j}"): int(cells[i, j]) for i, j in np.ndindex(cells.shape) if cells[i, j] >= 0}
    for frame in (wide, long):
        rows = frame.iloc[rng.permutation(len(frame))]
        with TemporaryDirectory() as made:
            folder = Path(made)
            rows.to_csv(folder / "t.csv", index=False)
            rows.to_csv(folder / "t.tsv.gz", index=False, sep="\t")
            rows.to_parquet(folder / "t.parquet", index=False)
            rows.to_json(folder / "t.jsonl", orient="records", lines=True)
            for file in ("t.csv", "t.tsv.gz", "t.parquet", *(["t.jsonl"] if frame is long else [])):
                assert observed(read_response_matrix(folder / file)) == expected, file
            stored = encode_table(LargeTable.open(folder / "t.parquet"), folder / "cache")
            assert observed(stored) == expected
