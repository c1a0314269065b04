"""A run that was stopped while it scored goes on with the parts that are not there yet, to the same figures."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

from builders.answered_banks import make_scale, wide_responses
from builders.parquet_folder import write_parts
from builders.refusals import is_refused
from irtbench import ItemBank, ResponseMatrix, ScoringSettings, score_file, score_responses
from irtbench.data import response_blocks
from irtbench.data.place import SEAL
from irtbench.data.readers import large_table
from irtbench.scoring import part_scores
from irtbench.scoring.part_scores import IDENTITY, KeptScores

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


def stopped_after(n: int) -> Callable[[str], None]:
    """Progress that is interrupted when something is said for the n-th time."""
    said: list[str] = []

    def progress(message: str) -> None:
        said.append(message)
        if len(said) == n:
            raise KeyboardInterrupt

    return progress


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes: list[int] = []

    def counting(bank: ItemBank, block: ResponseMatrix, settings: ScoringSettings) -> pd.DataFrame:
        sizes.append(block.n_respondents)
        return score_responses(bank, block, settings)

    monkeypatch.setattr(part_scores, "score_responses", counting)
    return sizes


def rows_kept(*files: Path) -> int:
    """Respondents of parts; each has two scales."""
    return sum(len(pyarrow.feather.read_table(pa.BufferReader(file.read_bytes()[SEAL:]))) for file in files) // 2


@pytest.mark.parametrize(("read", "suffix"), [("csv", "parquet"), ("parquet", "csv"), ("folder", "csv")])
def test_a_run_goes_on_where_one_was_stopped(
    suffix: str, read: str, source: Path, tmp_path: Path, scored: list[int]
) -> None:
    if read == "csv":
        pd.read_parquet(source).to_csv(source := tmp_path / "in.csv", index=False)
    elif read == "folder":
        source = write_parts(pd.read_parquet(source), tmp_path / "parts", n_files=4, rows_of_group=37)
    whole, again, unfinished = tmp_path / f"whole.{suffix}", tmp_path / f"again.{suffix}", tmp_path / "unfinished"
    assert score_file(BANK, source, whole) == 250
    with pytest.raises(KeyboardInterrupt):
        score_file(BANK, source, again, unfinished=unfinished, progress=stopped_after(4 if read == "folder" else 3))
    n_kept = rows_kept(*unfinished.glob("*.arrow"))
    assert 60 < n_kept < 250
    scored.clear()
    assert score_file(BANK, source, again, unfinished=unfinished) == 250
    assert sum(scored) == 250 - n_kept
    assert again.read_bytes() == whole.read_bytes() or suffix == "parquet"
    written = pd.read_parquet if suffix == "parquet" else pd.read_csv
    pd.testing.assert_frame_equal(written(again), written(whole), check_exact=True)
    assert list(unfinished.iterdir()) == []


@pytest.mark.parametrize("change", ["bit", "cut", "swapped", "identity", "version", "input", "bank"])
def test_parts_that_are_not_what_this_run_wrote_are_scored_anew(
    change: str,
    source: Path,
    tmp_path: Path,
    scored: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Damaged or of other input: of the same size and time too, by another bank or irtbench, with another's record."""
    bank, target, whole, unfinished = BANK, tmp_path / "s.parquet", tmp_path / "w.parquet", tmp_path / "unfinished"
    with pytest.raises(KeyboardInterrupt):
        score_file(bank, source, target, unfinished=unfinished, progress=stopped_after(4))
    first, second = (parts := sorted(unfinished.glob("*.arrow")))[:2]
    n_kept, damaged = rows_kept(*parts), {"bit": (first,), "cut": (first,), "swapped": (first, second)}.get(change)
    n_anew = 250 if damaged is None else 250 - n_kept + rows_kept(*damaged)
    contents = first.read_bytes(), second.read_bytes()
    if change == "bit":
        middle = len(contents[0]) // 2
        first.write_bytes(contents[0][:middle] + bytes([contents[0][middle] ^ 1]) + contents[0][middle + 1 :])
    elif change == "cut":
        first.write_bytes(contents[0][:100])
    elif change == "swapped":
        first.write_bytes(contents[1])
        second.write_bytes(contents[0])
    elif change == "identity":
        KeptScores(tmp_path / "other", {"of": "another"})
        (unfinished / IDENTITY).write_text((tmp_path / "other" / IDENTITY).read_text())
    elif change == "version":
        monkeypatch.setattr("irtbench.scoring.part_scores.version", lambda name: "0.0")
    elif change == "input":
        before, frame = source.stat(), pd.read_parquet(source)
        frame.assign(**{frame.columns[1]: 1 - frame.iloc[:, 1]}).to_parquet(source, index=False, row_group_size=60)
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert source.stat().st_size == before.st_size
    else:
        first_scale, second_scale = BANK.scales
        harder = replace(first_scale.items, intercept=first_scale.items.intercept - 0.1)
        bank = ItemBank((replace(first_scale, items=harder), second_scale))
    score_file(bank, source, whole)
    caplog.clear()
    scored.clear()
    score_file(bank, source, target, unfinished=unfinished)
    assert sum(scored) == n_anew
    pd.testing.assert_frame_equal(pd.read_parquet(target), pd.read_parquet(whole), check_exact=True)
    assert len(caplog.messages) == len(damaged or ())


def test_an_input_that_is_changed_while_it_is_read_is_refused(source: Path, tmp_path: Path) -> None:
    saying, target = "in.parquet: was changed or removed while it was read", tmp_path / "s.parquet"
    is_refused(saying, score_file, BANK, source, target, progress=lambda _: os.utime(source, ns=(0, 0)))


def test_a_name_that_comes_again_behind_the_parts_that_are_kept_is_refused(source: Path, tmp_path: Path) -> None:
    frame = pd.read_parquet(source)
    frame.loc[230, "who"] = "r3"
    frame.to_parquet(source, index=False, row_group_size=60)
    target, unfinished = tmp_path / "s.parquet", tmp_path / "unfinished"
    with pytest.raises(KeyboardInterrupt):
        score_file(BANK, source, target, unfinished=unfinished, progress=stopped_after(2))
    is_refused("respondent r3 comes twice", score_file, BANK, source, target, unfinished=unfinished)
    assert list(unfinished.iterdir()) == []  # nothing is kept of input that is wrong
