"""Tables of Parquet files on disk: the same responses as in memory, whatever their order, and nothing wrong passes."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from builders.parquet_folder import long_frame, wide_frame, write_parts
from builders.refusals import is_refused
from builders.simulated import drawn
from irtbench.data import response_blocks
from irtbench.data.input_error import InputError
from irtbench.data.place import address_of
from irtbench.data.readers import encode, large_table, table_blocks
from irtbench.data.readers.encode import encode_table
from irtbench.data.readers.large_table import LargeTable
from irtbench.data.readers.table_blocks import ColumnChoice
from irtbench.data.response_blocks import SeenNames
from irtbench.data.response_store import ResponseStore
from irtbench.data.responses import ResponseMatrix
from irtbench.data.stored_responses import STATE, StoredResponses


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_table, "ROWS_OF_PART", 50)
    monkeypatch.setattr(response_blocks, "ROWS", 7)
    monkeypatch.setattr(encode, "NAMES_READ", 11)
    monkeypatch.setattr(table_blocks, "ROWS_READ", 11)
    monkeypatch.setattr(response_blocks, "ROWS_READ", 13)


Form = Callable[[ResponseMatrix], pd.DataFrame]


def encoded(place: Path | str, folder: Path, **choice: object) -> StoredResponses:
    return encode_table(LargeTable.open(place), folder, ColumnChoice(**choice))  # type: ignore[arg-type]


def assert_same(found: StoredResponses, responses: ResponseMatrix) -> None:
    """The same responses of the same people to the same items, in any order."""
    answered = responses.answered()
    ids = found.respondent_ids
    assert set(ids) == set(answered.respondent_ids)
    assert set(found.item_ids) == set(responses.item_ids)
    expected = answered.select_items(found.item_ids).correct[[answered.respondent_ids.index(name) for name in ids]]
    np.testing.assert_array_equal(found.to_matrix().correct, expected)
    np.testing.assert_array_equal(found.n_by_item, (~np.isnan(expected)).sum(axis=0))


@pytest.mark.parametrize(("shuffled", "missing"), [(None, 0.6), (1, 0.6), (1, 0.0)])
def test_a_long_table_in_any_order(shuffled: int | None, missing: float, tmp_path: Path) -> None:
    responses = drawn(60, 7, missing=missing).answered()
    found = encoded(write_parts(long_frame(responses, shuffled=shuffled), tmp_path / "in"), tmp_path / "cache")
    assert_same(found, responses)
    assert not (tmp_path / "cache" / "sorting").exists()


@pytest.mark.parametrize("form", [wide_frame, long_frame])
def test_scores_are_graded_by_a_threshold(form: Form, tmp_path: Path) -> None:
    responses = drawn(60, 7, missing=0.1)
    frame = form(responses)
    scores = frame.columns[1:] if form is wide_frame else ["response"]
    frame[scores] = frame[scores] * 0.4 + 0.3  # 1 is .7, itself right
    place = write_parts(frame, tmp_path / "in", n_files=4)
    found = encoded(place, tmp_path / "cache", threshold=0.7)
    assert_same(found, responses)
    if form is long_frame:
        is_refused(r"expected 1, 0 or missing but got 0\.[37]", encoded, place, tmp_path / "other")
    else:  # in their order
        assert (found.item_ids, found.respondent_ids[:5]) == (responses.item_ids, responses.respondent_ids[:5])


def test_respondents_without_a_response_are_left_out_by_name(tmp_path: Path) -> None:
    frame = wide_frame(drawn(20, 4))
    frame.iloc[[3, 17], 1:] = None
    found = encoded(write_parts(frame, tmp_path / "in"), tmp_path / "cache")
    assert (found.idle_ids(), found.n_respondents, found.is_complete) == (("r4", "r18"), 18, True)
    long = long_frame(drawn(20, 4)).astype({"response": "Int8"})
    long.loc[long["respondent_id"] == "r4", "response"] = None
    assert encoded(write_parts(long, tmp_path / "long"), tmp_path / "other").idle_ids() == ("r4",)


def test_what_is_no_address_is_a_path_and_a_disk_may_be_too_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert address_of("data/large") is address_of(tmp_path) is None
    is_refused("cannot be reached", LargeTable.open, "nosuchstore://a/b", allow_address=["nosuchstore://"])
    is_refused("no Parquet file in this folder", LargeTable.open, tmp_path)
    is_refused("nothing", LargeTable.open, tmp_path / "nothing")
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=100))
    place = write_parts(wide_frame(drawn(60, 4)), tmp_path / "in")
    is_refused("do not fit on its disk", encoded, place, tmp_path / "cache")


def test_the_second_run_reads_nothing_until_the_source_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, cache, lines = write_parts(wide_frame(drawn(60, 4)), tmp_path / "in"), tmp_path / "cache", list[str]()
    first = encoded(place, cache)
    with monkeypatch.context() as patch:
        patch.setattr(LargeTable, "rows", lambda *_, **__: pytest.fail("read again"))
        again = encode_table(LargeTable.open(place), cache, progress=lines.append)
    assert lines == ["the responses are encoded already"]
    np.testing.assert_array_equal(first.rows(0, 60), again.rows(0, 60))
    more = write_parts(wide_frame(drawn(70, 4)), tmp_path / "more", n_files=1)
    (more / "part-0.parquet").rename(place / "part-1.parquet")
    is_refused("comes twice", encoded, place, cache)  # the new file has the respondents of the others
    (place / "part-0.parquet").unlink()
    (place / "part-2.parquet").unlink()
    assert encoded(place, cache).n_respondents == 70


@pytest.mark.parametrize("layout", ["wide", "long"])
@pytest.mark.parametrize("later", [0, 365 * 86_400])
def test_a_table_of_the_same_size_and_time_is_known_by_its_content(layout: str, later: int, tmp_path: Path) -> None:
    """Responses to an item are turned over and the file given the times of the other, as `cp -p` does; or later ones.

    A file that holds the same is the same, whatever its time: in the past, or the future.
    """
    responses = drawn(60, 4)
    values = np.where(np.arange(4) == 1, 1 - responses.correct, responses.correct)
    turned = ResponseMatrix(values, responses.respondent_ids, responses.item_ids)
    frame = wide_frame if layout == "wide" else long_frame
    place, other = (tmp_path / f"{name}.parquet" for name in "ab")
    for file, one in ((place, responses), (other, turned)):
        frame(one).to_parquet(file, index=False, compression=None, use_dictionary=False)
    assert place.stat().st_size == other.stat().st_size
    before = place.stat()
    assert_same(encoded(place, tmp_path / "cache"), responses)
    place.write_bytes(other.read_bytes())
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns + later * 10**9))
    assert_same(encoded(place, tmp_path / "cache"), turned)
    os.utime(place, ns=(0, before.st_mtime_ns + 10**9))
    lines: list[str] = []
    encode_table(LargeTable.open(place), tmp_path / "cache", progress=lines.append)
    assert lines == ["the responses are encoded already"]


def test_a_table_that_is_changed_or_removed_while_it_is_read_is_refused_whatever_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = write_parts(wide_frame(drawn(60, 4)), tmp_path / "in", n_files=1) / "part-0.parquet"
    before, whole, add = place.stat(), place.read_bytes(), ResponseStore.add
    content = bytearray(whole)

    def changing(store: ResponseStore, *given: object) -> None:
        add(store, *given)  # type: ignore[arg-type]
        place.write_bytes(content)
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))

    monkeypatch.setattr(ResponseStore, "add", changing)
    encoded(place, tmp_path / "cache")  # written anew with what was in it
    content[-20] ^= 1
    place.write_bytes(bytes(content[:-20]) + place.read_bytes()[-20:])
    is_refused("was changed or removed while it was read", encoded, place, tmp_path / "other")
    place.write_bytes(whole)
    table = LargeTable.open(place)
    place.unlink()
    is_refused(r"part-0.parquet: cannot be read to its end", encode_table, table, tmp_path / "third")


@pytest.mark.parametrize("n_added", [1, 9, 17])
def test_a_run_that_was_stopped_is_taken_up(n_added: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in the middle of any part: the parts before it are not read again, and the result is the same."""
    responses = drawn(130, 5, missing=0.1)
    place = write_parts(wide_frame(responses), tmp_path / "in")
    number = itertools.count()
    add = ResponseStore.add

    def killed(store: ResponseStore, *given: object) -> None:
        if next(number) == n_added:
            raise KeyboardInterrupt
        add(store, *given)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(ResponseStore, "add", killed)
        with pytest.raises(KeyboardInterrupt):
            encoded(place, tmp_path / "cache")
    read: list[object] = []
    rows = LargeTable.rows

    def noted(table: LargeTable, columns: list[str], **options: object) -> object:
        if len(columns) > 1 and options["rows"] == 7:
            read.append(options["part"])
        return rows(table, columns, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(LargeTable, "rows", noted)
    assert_same(encoded(place, tmp_path / "cache"), responses)
    n_parts = len(LargeTable.open(place).parts)
    assert n_parts == 3
    assert (len(read) < n_parts) == (n_added > 6)  # a part has 43 or 44 rows, seven at a time


def test_a_file_damaged_in_the_middle_names_it_and_finishes_nothing(tmp_path: Path) -> None:
    place = write_parts(wide_frame(drawn(600, 8, missing=0.5)), tmp_path / "in", n_files=3)
    file = place / "part-1.parquet"
    content = file.read_bytes()
    middle = len(content) // 3
    file.write_bytes(content[:middle] + b"\xff" * 400 + content[middle + 400 :])
    is_refused(r"part-1\.parquet", encoded, place, tmp_path / "cache")
    assert '"finished": true' not in (tmp_path / "cache" / STATE).read_text()
    file.write_bytes(content[:-50])
    is_refused("part-1.parquet: damaged Parquet file", LargeTable.open, place)


def test_other_columns_in_one_file(tmp_path: Path) -> None:
    place = write_parts(wide_frame(drawn(30, 4)), tmp_path / "in")
    frame = pd.read_parquet(place / "part-1.parquet").rename(columns={"item3": "q3"})
    frame.to_parquet(place / "part-1.parquet")
    with pytest.raises(InputError, match=r"part-1.parquet: lacks item3 and has besides q3; expected the columns of"):
        encoded(place, tmp_path / "cache")
    turned = frame.rename(columns={"q3": "item3"}).iloc[:, ::-1]
    turned.to_parquet(place / "part-1.parquet")  # in another order they are the same
    assert_same(encoded(place, tmp_path / "cache"), drawn(30, 4))


def with_value(form: Form, row: int, column: str, value: object) -> pd.DataFrame:
    frame = form(drawn(90, 4))
    frame[column] = frame[column].astype("float64" if isinstance(value, float) else object)
    frame.loc[row, column] = value
    return frame


LONG = long_frame(drawn(30, 3))


@pytest.mark.parametrize(
    ("frame", "saying"),
    [
        (with_value(wide_frame, 71, "item3", 2.0), r"part-2.parquet, row 12, column item3: expected 1, 0 .* got 2"),
        (with_value(wide_frame, 71, "item3", -2.0), r"part-2.parquet, row 12, column item3: expected 1, 0 .* got -2"),
        (with_value(long_frame, 200, "response", 0.5), r"part-1.parquet, row 81, column response: .* got 0.5"),
        (with_value(wide_frame, 89, "respondent_id", "r2"), "respondent r2 comes twice"),
        (with_value(wide_frame, 89, "respondent_id", None), "part-2.parquet, row 30, column respondent_id: expected"),
        (with_value(long_frame, 150, "item_id", ""), r"part-1.parquet, row 31, column item_id: expected a name"),
        (pd.concat([LONG, LONG.iloc[[40]]]).sample(frac=1, random_state=2), "respondent r14 and item item2 come twice"),
        (LONG.rename(columns={"response": "answer"}), "no column of responses"),
        (wide_frame(drawn(30, 3)).iloc[:0], "no rows"),
        (LONG.assign(response=np.nan), "no responses"),
    ],
)
def test_what_cannot_be_is_named_by_its_place(frame: pd.DataFrame, saying: str, tmp_path: Path) -> None:
    is_refused(saying, encoded, write_parts(frame, tmp_path / "in"), tmp_path / "cache")


def test_names_of_one_hash_are_compared_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_blocks, "hashes_of", lambda names: np.ones(len(names), dtype=np.uint64))
    for parts, twice in (([["a", "b", "c"]], None), ([["a", "b", "c"], ["b"]], "b")):
        seen = SeenNames()
        for names in parts:
            seen.add(names)
        assert seen.repeated(parts) == twice
