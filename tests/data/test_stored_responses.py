"""Responses on disk: what was written is read, from any place, and a store that was damaged is known."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from builders.refusals import is_refused
from builders.simulated import drawn
from builders.stored import on_disk
from irtbench.data.input_error import InputError
from irtbench.data.response_store import LOCK, ResponseStore, checksum, locked, unchanged
from irtbench.data.stored_responses import RESPONSES, STATE, NameFile, StoredResponses

IDENTITY = {"files": [["a", 1, "2"]]}
VALUES = np.array([[1, 0, -1], [0, 0, 1], [-1, -1, -1], [1, 1, 1]], dtype=np.int8)


def finish(store: ResponseStore) -> ResponseStore:
    store.add(pa.array(["cy", "dee"]), VALUES[2:])
    store.end_part()
    store.finish()
    return store


def stored(folder: Path) -> ResponseStore:
    store = ResponseStore.begin(folder, ("i1", "i2", "i3"), IDENTITY)
    store.add(pa.array(["ann", "böb"]), VALUES[:2])
    store.end_part()
    return finish(store)


def test_names_are_read_from_any_place(tmp_path: Path) -> None:
    names = ["ann", "", "böb", "d" * 300, "日本"]
    file = NameFile(tmp_path, "names")
    for path in (file.texts, file.ends):
        path.touch()
    file.append(pa.array(names[:2]))
    file.append(pa.array([], pa.string()))
    file.append(pa.array(["before", *names[2:]])[1:])  # a slice, whose offsets do not begin at 0
    assert len(file) == 5
    for start in range(6):
        for stop in range(start, 6):
            assert file.read(start, stop).to_pylist() == names[start:stop]


def test_what_was_stored_is_read_and_counted(tmp_path: Path) -> None:
    """By hand: three have a response; i1 was asked of three and right twice, i3 of two and right twice."""
    found = stored(tmp_path).responses()
    assert (found.n_respondents, found.n_items, found.n_responses, found.is_complete) == (3, 3, 8, False)
    assert (found.n_by_item.tolist(), found.n_correct_by_item.tolist()) == ([3, 3, 2], [2, 1, 2])
    assert (found.respondent_ids[:3], found.idle_ids()) == (("ann", "böb", "dee"), ("cy",))
    assert found.rows(1, 3).tolist() == [[0, 0, 1], [1, 1, 1]]
    assert found.n_by_respondent.tolist() == [2, 3, 3]
    assert found.at(np.array([0, 2])).tolist() == [[1, 0, -1], [1, 1, 1]]
    np.testing.assert_array_equal(found.to_matrix().correct, [[1, 0, np.nan], [0, 0, 1], [1, 1, 1]])


KEPT = arrays(np.bool_, 40, elements=st.booleans())


@given(keep=KEPT, again=KEPT, block=st.integers(1, 90), missing=st.sampled_from([0.0, 0.3, 0.9]))
def test_any_respondents_and_items_are_those_of_the_matrix(
    keep: NDArray[np.bool_], again: NDArray[np.bool_], block: int, missing: float, tmp_path_factory
) -> None:
    whole = drawn(40, 5, missing=missing)
    stored = on_disk(whole, tmp_path_factory.mktemp("store"))
    whole = whole.answered()
    keep, again = keep[: whole.n_respondents], again[: whole.n_respondents]
    items = ["item4", "unasked", "item1", "item2"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("irtbench.data.stored_responses.BLOCK", block)
        found = stored.with_items(items).select_respondents(keep).select_respondents(again[keep])
        expected = whole.select_respondents(keep & again)
        values = np.full((expected.n_respondents, 4), np.nan)
        values[:, [0, 2, 3]] = expected.select_items(["item4", "item1", "item2"]).correct
        assert found.item_ids == tuple(items)
        np.testing.assert_array_equal(found.to_matrix().correct, values)
        assert found.to_matrix().respondent_ids == expected.respondent_ids
        assert found.n_by_item.tolist() == (~np.isnan(values)).sum(axis=0).tolist()
        assert found.n_correct_by_item.tolist() == (values == 1).sum(axis=0).tolist()
        two = found.select_items(["item2", "unasked"]).answered()
        answered = ~np.isnan(values[:, 3])
        np.testing.assert_array_equal(two.to_matrix().correct, values[answered][:, [3, 1]])
        assert two.n_by_item.tolist() == [answered.sum(), 0]


def test_few_respondents_that_lie_far_apart_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = drawn(200, 4)
    keep = np.isin(np.arange(200), [3, 5, 90, 91, 199])
    found = on_disk(whole, tmp_path)
    monkeypatch.setattr("irtbench.data.stored_responses.BLOCK", 40)
    read: list[int] = []
    stored = StoredResponses._stored

    def counted(self: StoredResponses, start: int, stop: int) -> NDArray[np.int8]:
        read.append(stop - start)
        return stored(self, start, stop)

    monkeypatch.setattr(StoredResponses, "_stored", counted)
    np.testing.assert_array_equal(found.select_respondents(keep).rows(0, 5), whole.correct[keep])
    assert max(read) <= 10


@pytest.mark.parametrize("name", [RESPONSES, "respondents.bin", "respondents-ends.bin", "left_out.bin"])
@pytest.mark.parametrize("damage", [lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda data: data[:-1], None])
def test_a_damaged_file_is_noticed(name: str, damage: Callable[[bytes], bytes] | None, tmp_path: Path) -> None:
    stored(tmp_path)
    file = tmp_path / name
    file.unlink() if damage is None else file.write_bytes(damage(file.read_bytes()))
    assert ResponseStore.resume(tmp_path, IDENTITY) is None


def test_no_edit_of_the_record_passes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each figure and name in it is changed in turn, to one that fits as well: a warning says so in one line."""
    stored(tmp_path)
    text = (tmp_path / STATE).read_text()
    record = json.loads(text)["record"]
    edits = [
        {"item_ids": ["i3", "i2", "i1"]}, {"n_respondents": 2}, {"n_by_item": [1, 1, 1]}, {"finished": False},
        {"n_correct_by_item": [1, 1, 1]}, {"n_parts": 0}, {"identity": "another"}, {"version": 7},
        {"files": dict.fromkeys(record["files"], (0, 0))},
    ]  # fmt: skip
    for edit in edits:
        caplog.clear()
        changed = json.loads(text) | {"record": record | edit}
        (tmp_path / STATE).write_text(json.dumps(changed))
        assert ResponseStore.resume(tmp_path, IDENTITY) is None
        assert caplog.messages == [f"cache {tmp_path}: {STATE} is not what was written; encoded anew"]
    for damaged in ("", "{", "[]", "{}", '{"version": 1}', "null"):
        (tmp_path / STATE).write_text(damaged)
        assert ResponseStore.resume(tmp_path, IDENTITY) is None
    (tmp_path / STATE).write_text(text)
    assert ResponseStore.resume(tmp_path, {"files": [["a", 1, "3"]]}) is None
    found = ResponseStore.resume(tmp_path, IDENTITY)
    assert found is not None
    assert found.finished
    assert found.responses().n_correct_by_item.tolist() == [2, 1, 2]


def test_a_cache_that_is_changed_while_it_is_read_is_refused(tmp_path: Path) -> None:
    """Of the same size and time too; a second link to it is no change."""
    stored(tmp_path)
    found = ResponseStore.of_this_run(tmp_path)
    file = tmp_path / RESPONSES
    with unchanged(found):
        os.link(file, tmp_path / "copy")
    before, content = file.stat(), bytearray(file.read_bytes())
    content[0] ^= 1
    reading = unchanged(found)
    reading.__enter__()
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    is_refused(f"{RESPONSES} is not what was written", reading.__exit__, None, None, None)
    file.write_bytes(content[:-1])
    is_refused("was cut off while it was read", found.rows, 0, found.n_respondents)


def test_a_store_that_was_stopped_goes_on_after_its_last_part(tmp_path: Path) -> None:
    store = ResponseStore.begin(tmp_path, ("i1", "i2", "i3"), IDENTITY)
    store.add(pa.array(["ann", "böb"]), VALUES[:2])
    store.end_part()
    store.add(pa.array(["lost"]), VALUES[3:])  # and the run is killed
    again = ResponseStore.resume(tmp_path, IDENTITY)
    assert again is not None
    assert (again.finished, again.n_parts, again.n_respondents) == (False, 1, 2)
    finish(again)
    found = again.responses()
    assert found.respondent_ids[:3] == ("ann", "böb", "dee")
    assert found.n_correct_by_item.tolist() == [2, 1, 2]
    record = json.loads((tmp_path / STATE).read_text())["record"]
    assert record["files"][RESPONSES] == list(checksum(tmp_path / RESPONSES))


def test_a_store_has_one_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "new" / "folder"
    with locked(folder), pytest.raises(InputError, match="another run works in it"), locked(folder):
        pass
    with locked(folder):
        (folder / "scores").mkdir()
    with locked(folder, remove=True):
        (folder / RESPONSES).touch()
    assert not folder.exists()
    monkeypatch.setattr("fcntl.flock", lambda *_: (tmp_path / LOCK).unlink())  # another run has just removed it
    with pytest.raises(InputError, match="another run works in it"), locked(tmp_path):
        pass
