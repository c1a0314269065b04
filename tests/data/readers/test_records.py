"""JSON as a stream says what the whole text says, whatever the size of the parts it is read in."""

import gzip
import io
import json
import re
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.refusals import is_refused
from irtbench.data.readers import read_responses, records
from irtbench.data.readers.records import JsonText, json_lines

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def text_of(data, **options):
    return JsonText(io.BytesIO(data if isinstance(data, bytes) else json.dumps(data, **options).encode()), Path("t"))


@given(st.lists(values, max_size=6), st.integers(1, 40), st.sampled_from([None, 2]), st.booleans())
@settings(max_examples=20)
def test_elements_are_those_of_the_whole_text(entries, size, indent, ascii):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "BYTES_READ", size)
        assert list(text_of(entries, indent=indent, ensure_ascii=ascii).elements()) == entries


@given(st.dictionaries(st.text(max_size=4), st.lists(values, max_size=3), max_size=5), st.integers(1, 40))
@settings(max_examples=20)
def test_members_may_be_read_whole_or_entry_by_entry(members, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "BYTES_READ", size)
        text = text_of(members)
        read = {name: list(text.elements()) if k % 2 else text.value() for k, name in enumerate(text.members())}
        assert read == members


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'[1, {"a": }]', "no JSON, or damaged: expecting value"),
        (b"[1, 2", "expected ',' or ']' but got the end"),
        (b'[{"a": 1', "no JSON, or damaged"),
        (b"[1 2]", "expected ',' or ']' but got '2'"),
        (b'["\xff"]', "expected UTF-8 text"),
        (b"", "expected '[' but got the end"),
    ],
)
def test_damaged_text_is_refused(data, message):
    is_refused(re.escape(message), list, text_of(data).elements())


def test_lines_keep_their_number_may_be_gzipped_and_damage_is_named(tmp_path):
    # an odd line separator inside a text is no end of a line
    data = '{"a": 1}\n\n{"a": "x\u2028y"}\n'.encode()
    for path, written in ((tmp_path / "t.jsonl", data), (tmp_path / "t.jsonl.gz", gzip.compress(data, mtime=0))):
        path.write_bytes(written)
        assert list(json_lines(path)) == [(1, {"a": 1}), (3, {"a": "x\u2028y"})]
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1}\n{"a": \n')
    is_refused(r"t\.jsonl, line 2: expected a JSON value but expecting value", list, json_lines(path))
    whole = gzip.compress(b"".join(b'{"a": %d}\n' % k for k in range(20_000)), mtime=0)
    path.write_bytes(whole[: len(whole) - 2000])
    is_refused(r"t\.jsonl: damaged gzip file", list, json_lines(path))


def test_a_large_file_of_long_prompts_is_never_in_memory_at_once(tmp_path):
    # 10 MB in 200 lines; of a line nothing is kept but the ids and the score
    line = {"doc": {"question": "x" * 25_000}, "target": "y", "arguments": {}, "resps": [["z" * 25_000]],
            "filtered_resps": ["z"], "filter": "none", "metrics": ["acc"], "acc": 1.0}  # fmt: skip
    path = tmp_path / "model" / "samples_t.jsonl"
    path.parent.mkdir()
    with path.open("w") as file:
        file.writelines(json.dumps({"doc_id": k, "doc_hash": str(k)} | line) + "\n" for k in range(200))
    assert path.stat().st_size > 10_000_000
    read_responses(path)  # what is imported on first use does not count
    tracemalloc.start()
    try:
        assert len(read_responses(path).frame) == 200
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3_000_000
