"""A run that was stopped while it scored goes on with the parts that are not there yet, to the same figures."""

import os
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

from builders.answered_banks import make_scale, wide_responses
from irtbench.bank.bank import ItemBank
from irtbench.data import response_blocks
from irtbench.data.input_error import InputError
from irtbench.data.place import SEAL
from irtbench.data.readers import large_table
from irtbench.data.responses import ResponseMatrix
from irtbench.scoring import part_scores
from irtbench.scoring.bulk import score_file
from irtbench.scoring.part_scores import IDENTITY, KeptScores
from irtbench.scoring.scores import ScoringSettings, score_responses

BANK = ItemBank((make_scale("one", 12), make_scale("two", 8)))


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Parts of forty-eight respondents at most."""
    monkeypatch.setattr(response_blocks, "ROWS", 48)
    monkeypatch.setattr(large_table, "ROWS_OF_PART", 100)
    monkeypatch.setattr(part_scores, "WORKERS", 1)
    frame = wide_responses(BANK, 250).rename(columns={"respondent_id": "who"})
    frame.to_parquet(tmp_path / "in.parquet", index=False, row_group_size=60)
    return tmp_path / "in.parquet"


def stop_after(n: int) -> object:
    saying = iter(range(1, 100))

    def progress(message: str) -> None:
        if next(saying) == n:
            raise KeyboardInterrupt

    return progress


def rows_kept(place: Path) -> int:
    """Rows of the parts in a folder, or of one."""
    files = sorted(place.glob("*.arrow")) if place.is_dir() else [place]
    return sum(len(pyarrow.feather.read_table(pa.BufferReader(file.read_bytes()[SEAL:]))) for file in files) // 2


def scored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the parts that are scored from now on."""
    sizes: list[int] = []
    score = score_responses

    def counting(bank: ItemBank, block: ResponseMatrix, settings: ScoringSettings) -> pd.DataFrame:
        sizes.append(block.n_respondents)
        return score(bank, block, settings)

    monkeypatch.setattr(part_scores, "score_responses", counting)
    return sizes


@pytest.mark.parametrize(("suffix", "read"), [("parquet", "csv"), ("csv", "parquet")])
def test_a_run_goes_on_where_one_was_stopped(
    suffix: str, read: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if read == "csv":
        pd.read_parquet(source).to_csv(source := tmp_path / "in.csv", index=False)
    whole, again, unfinished = tmp_path / f"whole.{suffix}", tmp_path / f"again.{suffix}", tmp_path / "unfinished"
    assert score_file(BANK, source, whole) == 250
    with pytest.raises(KeyboardInterrupt):
        score_file(BANK, source, again, unfinished=unfinished, progress=stop_after(3))
    n_kept = rows_kept(unfinished)
    assert 100 < n_kept < 250
    sizes = scored(monkeypatch)
    assert score_file(BANK, source, again, unfinished=unfinished) == 250
    assert sum(sizes) == 250 - n_kept
    assert again.read_bytes() == whole.read_bytes() or suffix == "parquet"
    written = pd.read_parquet if suffix == "parquet" else pd.read_csv
    pd.testing.assert_frame_equal(written(again), written(whole), check_exact=True)
    assert list(unfinished.iterdir()) == []


def test_what_is_kept_of_other_input_or_damaged_is_scored_anew(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, unfinished = tmp_path / "s.parquet", tmp_path / "unfinished"

    def stop() -> None:
        with pytest.raises(KeyboardInterrupt):
            score_file(BANK, source, target, unfinished=unfinished, progress=stop_after(4))

    stop()
    sizes = scored(monkeypatch)
    score_file(ItemBank(BANK.scales[:1]), source, target, unfinished=unfinished, unknown_items="ignore")
    assert sum(sizes) == 250  # another bank
    stop()
    second = sorted(unfinished.glob("part-0000000-*"))[1]
    n_kept = rows_kept(unfinished) - rows_kept(second)
    second.write_bytes(second.read_bytes()[:100])
    sizes.clear()
    assert score_file(BANK, source, target, unfinished=unfinished) == 250
    assert sum(sizes) == 250 - n_kept  # the damaged part and those that were not there


def test_an_input_of_the_same_size_and_time_is_scored_anew(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, unfinished = tmp_path / "s.parquet", tmp_path / "unfinished"
    with pytest.raises(KeyboardInterrupt):
        score_file(BANK, source, target, unfinished=unfinished, progress=stop_after(3))
    before, frame = source.stat(), pd.read_parquet(source)
    frame.assign(**{frame.columns[1]: 1 - frame.iloc[:, 1]}).to_parquet(source, index=False, row_group_size=60)
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert source.stat().st_size == before.st_size
    sizes = scored(monkeypatch)
    score_file(BANK, source, target, unfinished=unfinished)
    assert sum(sizes) == 250


@pytest.mark.parametrize("edit", ["byte", "number", "identity", "version"])
def test_parts_that_are_not_what_was_written_are_scored_anew(
    edit: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A bit of a score; two parts each in the other's place; the record of another run; another irtbench."""
    whole, target, unfinished = tmp_path / "w.parquet", tmp_path / "s.parquet", tmp_path / "unfinished"
    score_file(BANK, source, whole)
    with pytest.raises(KeyboardInterrupt):
        score_file(BANK, source, target, unfinished=unfinished, progress=stop_after(4))
    first, second = sorted(unfinished.glob("*.arrow"))[:2]
    n_kept, damaged = rows_kept(unfinished), rows_kept(first) + (rows_kept(second) if edit == "number" else 0)
    if edit == "byte":
        content = bytearray(first.read_bytes())
        content[len(content) // 2] ^= 1
        first.write_bytes(content)
    elif edit == "number":
        contents = first.read_bytes(), second.read_bytes()
        first.write_bytes(contents[1])
        second.write_bytes(contents[0])
    elif edit == "identity":
        score_file(BANK, source, tmp_path / "t.csv", unfinished=tmp_path / "other", progress=lambda message: None)
        KeptScores(tmp_path / "other", {"of": "another"})
        (unfinished / IDENTITY).write_text((tmp_path / "other" / IDENTITY).read_text())
    else:
        monkeypatch.setattr("irtbench.scoring.part_scores.version", lambda name: "0.0")
    caplog.clear()
    sizes = scored(monkeypatch)
    score_file(BANK, source, target, unfinished=unfinished)
    assert sum(sizes) == (250 - n_kept + damaged if edit in ("byte", "number") else 250)
    pd.testing.assert_frame_equal(pd.read_parquet(target), pd.read_parquet(whole), check_exact=True)
    assert len(caplog.messages) == {"byte": 1, "number": 2}.get(edit, 0)


def test_an_input_that_is_changed_while_it_is_read_is_refused(source: Path, tmp_path: Path) -> None:
    def change(message: str) -> None:
        os.utime(source, ns=(0, 0))

    with pytest.raises(InputError, match=r"in.parquet: was changed or removed while it was read"):
        score_file(BANK, source, tmp_path / "s.parquet", progress=change)


def test_a_name_that_comes_again_behind_the_parts_that_are_kept_is_refused(source: Path, tmp_path: Path) -> None:
    frame = pd.read_parquet(source)
    frame.loc[230, "who"] = "r3"
    frame.to_parquet(source, index=False, row_group_size=60)
    target, unfinished = tmp_path / "s.parquet", tmp_path / "unfinished"
    with pytest.raises(KeyboardInterrupt):
        score_file(BANK, source, target, unfinished=unfinished, progress=stop_after(2))
    with pytest.raises(InputError, match="respondent r3 comes twice"):
        score_file(BANK, source, target, unfinished=unfinished)
    assert list(unfinished.iterdir()) == []  # nothing is kept of input that is wrong
