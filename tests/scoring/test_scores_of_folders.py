"""A table in several files, in a folder or at an address, and by several processes, is scored as one file is."""

from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pytest

from builders.answered_banks import make_scale, wide_responses
from builders.command_line import refused, run
from builders.parquet_folder import write_parts
from builders.torchrun import as_torchrun
from irtbench import ItemBank, save_bank, score_file
from irtbench.data import response_blocks
from irtbench.scoring import part_scores

N = 130
NAMES = ("found", "whole")
BANK = ItemBank((make_scale("one", 12), make_scale("two", 8)))


@pytest.fixture
def frame() -> pd.DataFrame:
    return wide_responses(BANK, N)


def long_rows(frame: pd.DataFrame) -> pd.DataFrame:
    rows = frame.melt("respondent_id", var_name="item_id", value_name="response").dropna()
    return rows.sort_values("respondent_id", key=lambda ids: ids.str[1:].astype(int), kind="stable")


def assert_same(found: Path, expected: Path) -> None:
    pd.testing.assert_frame_equal(pd.read_csv(found), pd.read_csv(expected), rtol=1e-5, atol=1e-5)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of thirty-two respondents at most, which end within files and groups of rows."""
    monkeypatch.setattr(response_blocks, "ROWS", 32)
    monkeypatch.setattr(part_scores, "WORKERS", 1)


@pytest.mark.parametrize("layout", ["wide", "long", "scattered"])
def test_a_folder_is_scored_as_one_file(frame: pd.DataFrame, layout: str, tmp_path: Path) -> None:
    rows = frame if layout == "wide" else long_rows(frame)
    if layout == "scattered":
        rows = rows.sample(frac=1, random_state=1)
    rows.to_parquet(tmp_path / "one.parquet", index=False)
    folder = write_parts(rows, tmp_path / "parts", n_files=4, rows_of_group=97)
    assert score_file(BANK, folder, tmp_path / "parts.csv") == N
    score_file(BANK, tmp_path / "one.parquet", tmp_path / "one.csv")
    assert_same(tmp_path / "parts.csv", tmp_path / "one.csv")


@pytest.mark.filterwarnings("ignore:file")
def test_what_comes_with_scores_comes_part_by_part_too(frame, tmp_path: Path, monkeypatch) -> None:
    """Surprises and accuracy by difficulty are those of a table that is read whole; values of a parts' own draws."""
    rows = long_rows(frame).sample(frac=1, random_state=1)
    rows.to_csv(tmp_path / "whole.csv", index=False)
    write_parts(rows, tmp_path / "parts", n_files=2, rows_of_group=97)
    save_bank(BANK, tmp_path / "bank.json")
    monkeypatch.setattr("irtbench.cli.large.MOST_FIELDS", 0)
    for name, file in (("found", "parts"), ("whole", "whole.csv")):
        (tmp_path / name).mkdir()
        more = f"--explain {name}/why --plausible 3 --html {name}/page.html --figures {name}/drawn --quiet"
        assert run(f"score bank.json {file} -o {name}/scores.csv {more}", cwd=tmp_path).err == ""
    found, whole = (pd.read_csv(tmp_path / name / "scores.csv").set_index(["respondent_id", "scale"]) for name in NAMES)
    assert list(found.columns) == list(whole.columns)
    drawn = [f"pv{k}" for k in (1, 2, 3)]
    pd.testing.assert_frame_equal(found.drop(columns=drawn).loc[whole.index], whole.drop(columns=drawn), rtol=1e-5)
    residual = found[drawn].sub(found["theta"], axis=0).div(found["se"], axis=0).to_numpy().ravel()
    assert abs(np.nanmean(residual)) < 0.15
    assert np.nanstd(residual) == pytest.approx(1, abs=0.1)
    assert len(np.unique(residual[~np.isnan(residual)])) == np.isfinite(residual).sum()  # no two parts draw the same
    for table, keys in (("surprises.csv", ["item_id"]), ("difficulty.csv", ["level"])):
        here, there = (
            pd.read_csv(tmp_path / name / "why" / table).set_index(["respondent_id", "scale", *keys]).sort_index()
            for name in NAMES
        )
        assert len(here) > 5
        pd.testing.assert_frame_equal(here, there, rtol=1e-5, atol=1e-8, check_dtype=False)
    pages = [(tmp_path / name / "page.html").read_text() for name in NAMES]
    assert f"{N} systems scored" in pages[0]
    assert len(pages[0]) == pytest.approx(len(pages[1]), rel=0.05)
    figures, same = ({file.name for file in (tmp_path / name / "drawn").iterdir()} for name in NAMES)
    assert figures == same


def test_the_command_scores_a_table_at_an_address(frame: pd.DataFrame, tmp_path: Path) -> None:
    memory, address = fsspec.filesystem("memory"), "memory://studies/scored"
    for file in write_parts(frame, tmp_path / "sent", n_files=2).iterdir():
        memory.pipe(f"/studies/scored/{file.name}", file.read_bytes())
    save_bank(BANK, tmp_path / "bank.json")
    assert run(f"score bank.json {address} -o found.csv --quiet", cwd=tmp_path).err == ""
    frame.to_parquet(tmp_path / "one.parquet", index=False)
    score_file(BANK, tmp_path / "one.parquet", tmp_path / "one.csv")
    assert_same(tmp_path / "found.csv", tmp_path / "one.csv")
    for options in ("", "-o o.json", "-o o.csv --trials first"):
        saying = f"{address}: a table at an address is scored part by part into a CSV"
        refused(f"score bank.json {address} {options}", cwd=tmp_path, saying=saying)
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.slow
def test_several_processes_write_what_one_writes_even_where_one_is_killed(frame: pd.DataFrame, tmp_path: Path) -> None:
    """Five files are five pieces of work; the process that ends is started again, and all go on."""
    save_bank(BANK, tmp_path / "bank.json")
    folder = write_parts(frame, tmp_path / "in", n_files=5)
    score_file(BANK, folder, tmp_path / "one.csv")
    whole = as_torchrun(3, "score", tmp_path / "bank.json", folder, "-o", tmp_path / "whole.csv")
    assert (whole.status, whole.lines) == (0, [])
    assert whole.out.count(f"{N} respondents scored") == 1
    assert_same(tmp_path / "whole.csv", tmp_path / "one.csv")
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
    wrong.loc[120, "two3"] = 5
    frame.to_csv(tmp_path / "in.csv", index=False)
    for place, options, words in (
        (twice, (), "respondent r4 comes twice; expected a row for each"),
        (write_parts(wrong, tmp_path / "wrong", n_files=3), (), "part-2.parquet, row 34, column two3: expected 1, 0"),
        (tmp_path / "in.csv", (), "several processes score a wide Parquet table"),
        (folder, ("--html", tmp_path / "page.html"), "--html needs all of them in memory"),
    ):
        ended = as_torchrun(2, "score", tmp_path / "bank.json", place, "-o", tmp_path / "out.csv", *options)
        assert ended.status != 0
        (line,) = ended.lines
        assert words in line
        assert not (tmp_path / "out.csv").exists()
