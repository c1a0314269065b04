"""What packed files unpack to: bounds by size and by ratio, and damage of any kind named with the file."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from builders.refusals import is_refused
from irtbench.data.input_error import InputError
from irtbench.data.readers import large_table, packed, read_responses, records
from irtbench.data.readers import table as tables
from irtbench.data.readers.encode import encode_table
from irtbench.data.readers.large_table import LargeTable

HEADER = {"version": 2, "status": "success", "eval": {"model": "m", "task": "t", "created": "2026-01-01"}}


def log(path: Path, summaries: str, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("header.json", json.dumps(HEADER))
        archive.writestr("summaries.json", summaries)
    return path


def sample(id: str) -> dict:
    return {"id": id, "epoch": 1, "scores": {"match": {"value": "C"}}}


def test_a_log_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path: Path, monkeypatch) -> None:
    one_text = log(tmp_path / "a.eval", json.dumps([sample("a") | {"target": "x" * 2_000_000}]))
    assert one_text.stat().st_size < 10_000
    monkeypatch.setattr(packed, "TIMES_FROM", 10_000)
    monkeypatch.setattr(packed, "MOST_TIMES", 100)
    is_refused(r"a\.eval: member summaries\.json unpacks to more than 100 times its size", read_responses, one_text)
    monkeypatch.setattr(packed, "MOST_TIMES", 10_000)
    monkeypatch.setattr(records, "MOST_VALUE", 200_000)
    monkeypatch.setattr(records, "BYTES_READ", 100_000)
    is_refused("one JSON value of more than 0 MiB", read_responses, one_text)
    many = json.dumps([sample(str(k)) for k in range(5_000)])  # each of them small
    assert read_responses(log(tmp_path / "b.eval", many)).frame["item_id"].nunique() == 5_000


def test_damage_anywhere_in_a_log_is_named(tmp_path: Path) -> None:
    """Single bytes all over the archive: its directory, the heads of its members, what they hold."""
    whole = log(tmp_path / "a.eval", json.dumps([sample("a"), sample("b")])).read_bytes()
    assert len(read_responses(tmp_path / "a.eval").frame) == 2
    rng = np.random.default_rng(1)
    refused = 0
    for place in range(4, len(whole), 8):
        data = bytearray(whole)
        data[place] = rng.integers(0, 256)
        (tmp_path / "b.eval").write_bytes(data)
        try:
            read_responses(tmp_path / "b.eval")
        except InputError as error:
            refused += str(error).startswith("file ")
    assert refused > 25


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_json_nested_without_end_is_refused(tmp_path: Path, opening: str) -> None:
    for name in ("a.json", "a.jsonl", "a.csv"):
        (tmp_path / name).write_text(opening * 100_000)
        is_refused(name, read_responses, tmp_path / name)


def test_whole_numbers_beyond_all_floats_and_names_longer_than_a_field_of_csv(tmp_path: Path) -> None:
    path = log(tmp_path / "a.eval", json.dumps([sample("a") | {"scores": {"m": {"value": 10**400}}}]))
    is_refused(r"a\.eval", read_responses, path)
    (tmp_path / "b.json").write_text('[{"respondent": ' + "9" * 5_000 + "}]")
    is_refused(r"b\.json", read_responses, tmp_path / "b.json")
    (tmp_path / "a.csv").write_text(f"respondent_id,item_id,response\n{'x' * 200_000},i1,1\nb,i1,7\n")
    saying = r"row 2 \(line 3\), column response: expected 1, 0 or missing but got"
    is_refused(saying, read_responses, tmp_path / "a.csv")


def test_one_bound_for_names_that_a_column_repeats(tmp_path: Path, monkeypatch) -> None:
    """A name of 1,000 letters that 11,000 rows repeat is a few bytes of Parquet and 11 MB once each row has it."""
    n = 11_000
    ids = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array(["x" * 1_000]))
    items = pa.array([f"i{k}" for k in range(n)])
    table = pa.table({"respondent_id": ids, "item_id": items, "response": pa.array(np.ones(n, np.int8))})
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(table, path, compression="zstd")
    assert len(read_responses(path).frame) == n
    assert encode_table(LargeTable.open(path), tmp_path / "cache").n_respondents == 1
    monkeypatch.setattr(large_table, "MOST_BYTES", 10_000_000)
    monkeypatch.setattr(large_table, "MOST_TIMES", 100)
    is_refused("the names of its respondents unpack to about", encode_table, LargeTable.open(path), tmp_path / "other")
    monkeypatch.setattr(tables, "MOST_COLUMN_BYTES", 10_000_000)
    is_refused("column respondent_id: unpacks to more than 9 MiB of text", read_responses, path)
