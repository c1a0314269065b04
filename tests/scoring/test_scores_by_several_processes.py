"""Scores by several processes under torchrun are those of one, whatever becomes of them on the way."""

from pathlib import Path

import pandas as pd
import pytest

from builders.answered_banks import make_scale, wide_responses
from builders.parquet_folder import write_parts
from builders.torchrun import as_torchrun
from irtbench.bank.bank import ItemBank, save_bank
from irtbench.scoring.bulk import score_file

BANK = ItemBank((make_scale("one", 12), make_scale("two", 8)))


@pytest.fixture
def frame() -> pd.DataFrame:
    return wide_responses(BANK, 300)


@pytest.mark.slow
def test_several_processes_write_what_one_writes_even_where_one_is_killed(frame: pd.DataFrame, tmp_path: Path) -> None:
    """Five files are five pieces of work; the process that ends is started again, and all go on."""
    save_bank(BANK, tmp_path / "bank.json")
    folder = write_parts(frame, tmp_path / "in", n_files=5)
    score_file(BANK, folder, tmp_path / "one.csv")
    whole = as_torchrun(3, "score", tmp_path / "bank.json", folder, "-o", tmp_path / "whole.csv")
    assert (whole.status, whole.lines) == (0, [])
    assert whole.out.count("300 respondents scored") == 1
    found, expected = pd.read_csv(tmp_path / "whole.csv"), pd.read_csv(tmp_path / "one.csv")
    pd.testing.assert_frame_equal(found, expected, rtol=1e-5, atol=1e-5)
    command = ("score", tmp_path / "bank.json", folder, "-o", tmp_path / "again.csv", "--quiet")
    ended = as_torchrun(3, *command, restarts=1, scored=2)
    assert ended.status == 0, ended.err
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    left = sorted(file.name for file in tmp_path.iterdir())
    assert left == ["again.csv", "bank.json", "in", "one.csv", "whole.csv"]


@pytest.mark.slow
def test_what_goes_wrong_ends_all_with_one_line(frame: pd.DataFrame, tmp_path: Path) -> None:
    save_bank(BANK, tmp_path / "bank.json")
    folder = write_parts(frame, tmp_path / "in", n_files=3)
    twice = write_parts(pd.concat([frame, frame.iloc[[4]]]), tmp_path / "twice", n_files=3)
    wrong = frame.copy()
    wrong.loc[250, "two3"] = 5
    frame.to_csv(tmp_path / "in.csv", index=False)
    for place, options, words in (
        (twice, (), "respondent r4 comes twice; expected a row for each"),
        (write_parts(wrong, tmp_path / "wrong", n_files=3), (), "part-2.parquet, row 51, column two3: expected 1, 0"),
        (tmp_path / "in.csv", (), "several processes score a wide Parquet table"),
        (folder, ("--html", tmp_path / "page.html"), "--html needs all of them in memory"),
    ):
        ended = as_torchrun(2, "score", tmp_path / "bank.json", place, "-o", tmp_path / "out.csv", *options)
        assert ended.status != 0
        (line,) = ended.lines
        assert words in line
        assert not (tmp_path / "out.csv").exists()
