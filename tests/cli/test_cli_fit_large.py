"""``irtbench fit`` of tables too large for memory: the figures of the fit in memory, a cache, no trace of failures."""

import json
import os
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pytest

from builders.command_line import refused, run
from builders.parquet_folder import long_frame, wide_frame, write_parts
from builders.simulated import drawn, with_a_constant_item
from irtbench.bank.bank import load_bank
from irtbench.cli import large
from irtbench.data import response_blocks
from irtbench.data.readers import large_table, table_blocks
from irtbench.data.readers.large_table import LargeTable
from irtbench.data.response_store import locked
from irtbench.data.stored_responses import RESPONSES

SAME = ("n_respondents", "n_items", "n_responses", "n_parameters", "converged", "steps", "items_left_out", "prior")


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "MOST_FIELDS", 0)
    monkeypatch.setattr(large_table, "ROWS_OF_PART", 50)
    monkeypatch.setattr(response_blocks, "ROWS", 31)
    monkeypatch.setattr(table_blocks, "ROWS_READ", 97)


def fit(place: object, output: Path, *options: object) -> dict[str, object]:
    ended = run(f"fit {place} -o {output} --quiet", *options, status=None)
    assert (ended.status, ended.err) == (0, "")
    found: dict[str, object] = json.loads((output / "fit.json").read_text())
    return found


def assert_same_results(found: Path, expected: Path) -> None:
    here, there = (json.loads((folder / "fit.json").read_text()) for folder in (found, expected))
    assert {name: here[name] for name in SAME} == {name: there[name] for name in SAME}
    assert sorted(here["respondents_left_out"]) == sorted(there["respondents_left_out"])
    assert here["log_likelihood"] == pytest.approx(there["log_likelihood"], rel=1e-12)
    items, others = (pd.read_csv(folder / "items.csv") for folder in (found, expected))
    pd.testing.assert_frame_equal(items.set_index("item_id").loc[others["item_id"]].reset_index(), others, rtol=1e-8)
    scores, others = (pd.read_csv(folder / "scores.csv") for folder in (found, expected))
    scores = scores.set_index("respondent_id").loc[others["respondent_id"]].reset_index()
    for name in ("scale", "n_items", "n_correct", "accuracy", "method"):
        assert (scores[name] == others[name]).all()
    # one grid for all in single precision: ends of intervals are right to .02 of a standard error, theta to 1e-4
    within = {"theta": 1e-4, "se": 1e-4, "theta_lower": 0.02, "theta_upper": 0.02, "percentile": 0.01}
    for name, most in within.items():
        np.testing.assert_allclose(scores[name], others[name], atol=most, rtol=0)
    np.testing.assert_allclose(scores["person_fit"], others["person_fit"], atol=1e-3, equal_nan=True)
    banks = [load_bank(folder / "bank.json", categories=True) for folder in (found, expected)]
    np.testing.assert_allclose(*(np.sort(bank.scales[0].norms.theta) for bank in banks), atol=1.01e-4)


LEVELS = "poor,fair,good,very good"


def graded() -> pd.DataFrame:
    """A long table of grades in words with gaps: q2 has one category, r007 no grade."""
    rng = np.random.default_rng(2)
    grades = (1.5 * rng.normal(size=(200, 1, 1)) + rng.logistic(size=(200, 6, 1)) > [-1.5, 0.0, 1.5]).sum(axis=2)
    given = np.array(LEVELS.split(","), dtype=object)[grades]
    given[:, 2] = given[0, 2]
    given[rng.random(given.shape) < 0.2] = None
    given[7] = None
    frame = pd.DataFrame(given, columns=[f"q{k}" for k in range(6)])
    frame.insert(0, "respondent_id", [f"r{k:03d}" for k in range(200)])
    return frame.melt("respondent_id", var_name="item_id", value_name="score")


@pytest.mark.parametrize("layout", ["wide", "long", "grades"])
def test_the_results_are_those_in_memory(layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    responses, words = with_a_constant_item(), list[str]()
    if layout == "grades":
        frame, words = graded(), ["--model", "grm", "--levels", LEVELS]
    else:
        frame = wide_frame(responses) if layout == "wide" else long_frame(responses, shuffled=1)
    place, one = write_parts(frame, tmp_path / "in"), tmp_path / "one.parquet"
    frame.to_parquet(one, index=False)
    monkeypatch.setattr(LargeTable, "rows", lambda *_, **__: pytest.fail("read as a large table"))
    fit(one, tmp_path / "memory", *words)
    monkeypatch.undo()
    monkeypatch.setattr(large, "MOST_FIELDS", 0)
    monkeypatch.setattr(response_blocks, "ROWS", 31)
    monkeypatch.setattr("irtbench.cli.options.Reading.response_matrix", lambda *_: pytest.fail("read whole"))
    if layout == "long":
        memory, address = fsspec.filesystem("memory"), "memory://studies/two"
        for file in place.iterdir():
            memory.pipe(f"/studies/two/{file.name}", file.read_bytes())
        saying = f"{address}: --posterior goes with a table on this machine"
        refused(f"fit {address} -o {tmp_path}/no --posterior normal --prior weak", saying=saying)
        monkeypatch.setattr(large, "MOST_FIELDS", 10**9)  # an address is read so whatever its size
    found = fit(address if layout == "long" else place, tmp_path / "large", *words)
    assert_same_results(tmp_path / "large", tmp_path / "memory")
    if layout == "long":
        assert list(load_bank(tmp_path / "large" / "bank.json").scales[0].provenance["data"]) == [address]
    if layout == "grades":
        assert found["items_left_out"] == [{"item_id": "q2", "reason": "one_category"}]
        assert found["respondents_left_out"] == ["r007"]
        return
    left_out = json.loads((tmp_path / "large" / "fit.json").read_text())["respondents_left_out"]
    assert left_out == (["r201", "r6"] if layout == "wide" else ["r6"])  # a long table says nothing of r201


def test_a_cache_is_kept_used_again_and_removed(
    everything_is_large: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, cache = write_parts(wide_frame(drawn(120, 5)), tmp_path / "in"), tmp_path / "cache"
    first = fit(place, tmp_path / "a", "--cache", cache, "--scores", "parquet")
    assert len(pd.read_parquet(tmp_path / "a" / "scores.parquet")) == 120
    (folder,) = cache.iterdir()
    with locked(folder, large.RUNNING):
        for options in ((), ("--remove-cache",)):
            refused(f"fit {place} -o {tmp_path}/b --cache {cache}", *options, saying="another run works in it")
    assert (folder / RESPONSES).exists()
    with monkeypatch.context() as patch:
        patch.setattr(LargeTable, "rows", lambda *_, **__: pytest.fail("read again"))
        again = fit(place, tmp_path / "b", "--cache", cache, "--remove-cache", "--scores", "none")
    assert sorted(os.listdir(tmp_path / "b")) == ["bank.json", "fit.json", "items.csv"]
    assert again["log_likelihood"] == first["log_likelihood"]
    assert list(cache.iterdir()) == []
    (tmp_path / "file").touch()
    refused(f"fit {place} -o {tmp_path}/c --cache {tmp_path}/file", saying="is not a folder")
    drawn(120, 5).to_long().to_csv(tmp_path / "small.csv", index=False)
    said = run(f"fit {tmp_path}/small.csv -o {tmp_path}/d --cache {cache} -q").err
    assert said.count("warning: --cache: not used: ") == 1
    assert list(cache.iterdir()) == []


def test_without_a_cache_nothing_is_left(
    everything_is_large: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    place = write_parts(wide_frame(drawn(120, 5)), tmp_path / "in")
    fit(place, tmp_path / "out")
    frame = wide_frame(drawn(120, 5))
    frame.loc[100, "item2"] = 2
    wrong = write_parts(frame, tmp_path / "wrong")
    ended = run(f"fit {wrong} -o {tmp_path}/failed --quiet", status=2)
    (line,) = ended.lines
    assert "row 21, column item2: expected 1, 0 or missing but got 2" in line
    assert not (tmp_path / "failed").exists()
    assert os.listdir(tmp_path / "temporary") == []


@pytest.mark.parametrize(
    "options", [("--prior", "hierarchical"), ("--factors", "2"), ("--trials", "first")], ids=lambda options: options[0]
)
def test_what_needs_all_responses_has_them_in_memory(
    options: tuple[str, str], everything_is_large: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "one.parquet"
    wide_frame(drawn(80, 6)).to_parquet(place)
    monkeypatch.setattr(LargeTable, "rows", lambda *_, **__: pytest.fail("read as a large table"))
    run(f"fit {place} -o {tmp_path}/out --quiet --allow-unconverged", *options)
