"""A fit by several processes under torchrun is the fit by one, whatever becomes of them on the way."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from builders.command_line import run
from builders.parquet_folder import long_frame, wide_frame, write_parts
from builders.simulated import drawn, with_a_constant_item
from builders.torchrun import Ran, as_torchrun, torchrun
from irtbench.cli import large

SAME = ("n_respondents", "n_items", "n_responses", "n_parameters", "converged", "items_left_out", "doubts", "prior")


def fit_alone(place: Path, output: Path, *options: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large, "MOST_FIELDS", 0)
        ended = run(f"fit {place} -o {output} --quiet", *options, status=None)
    assert (ended.status, ended.err) == (0, "")


def assert_same_results(found: Path, expected: Path) -> None:
    here, there = (json.loads((folder / "fit.json").read_text()) for folder in (found, expected))
    assert {name: here[name] for name in SAME} == {name: there[name] for name in SAME}
    assert here["respondents_left_out"] == there["respondents_left_out"]
    assert here["steps"] == there["steps"]
    assert here["log_likelihood"] == pytest.approx(there["log_likelihood"], rel=1e-12)
    for name, most in (("items.csv", 1e-8), ("scores.csv", 1e-6)):  # scores are made in single precision
        table, other = (pd.read_csv(folder / name) for folder in (found, expected))
        pd.testing.assert_frame_equal(table, other, rtol=most, atol=most)
    assert sorted(file.name for file in found.iterdir()) == sorted(file.name for file in expected.iterdir())


@pytest.mark.slow
def test_two_processes_find_what_one_finds(tmp_path: Path) -> None:
    place = write_parts(wide_frame(with_a_constant_item()), tmp_path / "in")
    fit_alone(place, tmp_path / "alone")
    ended = as_torchrun(2, "fit", place, "-o", tmp_path / "two")
    assert (ended.status, ended.lines) == (0, [])
    assert ended.out.count("converged") == 1  # the first process says all
    assert_same_results(tmp_path / "two", tmp_path / "alone")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ("--model", "3pl", "--prior", "weak"),
        ("--population", "estimated"),
        ("--model", "1pl", "--scores", "csv"),
    ],
    ids=lambda options: options[1],
)
def test_four_processes_of_unequal_shares_and_speed(options: tuple[str, ...], tmp_path: Path) -> None:
    """One process has no respondents at all, another sleeps in every pass."""
    place = write_parts(long_frame(drawn(240, 8, missing=0.1), shuffled=1), tmp_path / "in")
    fit_alone(place, tmp_path / "alone", *options)
    ended = as_torchrun(4, "fit", place, "-o", tmp_path / "four", "--quiet", *options, shares=[0, 100, 20, 120], slow=2)
    assert (ended.status, ended.out, ended.lines) == (0, "", [])
    assert_same_results(tmp_path / "four", tmp_path / "alone")


@pytest.mark.slow
def test_blocks_of_items_are_found_across_processes(tmp_path: Path) -> None:
    """Two shares of respondents, of whom each would call all its items linked."""
    frame = wide_frame(drawn(160, 6))
    frame.loc[:79, ["item4", "item5", "item6"]] = frame.loc[80:, ["item1", "item2", "item3"]] = None
    for linked in (False, True):
        if linked:
            frame.loc[159, "item1"] = 1
        place = write_parts(frame, tmp_path / f"in{linked}")
        ended = as_torchrun(2, "fit", place, "-o", tmp_path / f"two{linked}", "--quiet", "--prior", "weak")
        assert (ended.status, "no respondent links 2 blocks of items (of 3, 3" in ended.err) == (0, not linked)


@pytest.mark.slow
def test_many_items_whose_posteriors_are_narrow(tmp_path: Path) -> None:
    """Where nodes are placed by a pass that needs the narrowest posterior of all."""
    place = write_parts(wide_frame(drawn(160, 150)), tmp_path / "in")
    fit_alone(place, tmp_path / "alone")
    ended = as_torchrun(2, "fit", place, "-o", tmp_path / "two", "--quiet", shares=[0, 160])
    assert (ended.status, ended.lines) == (0, [])
    assert_same_results(tmp_path / "two", tmp_path / "alone")


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "started"), [(0, torchrun), (1, as_torchrun)])
def test_a_killed_process_is_started_again_and_all_go_on_from_the_last_pass(
    rank: int, started: Callable[..., Ran], tmp_path: Path
) -> None:
    """By torchrun itself, too."""
    place = write_parts(wide_frame(drawn(240, 7, missing=0.2)), tmp_path / "in")
    whole = as_torchrun(2, "fit", place, "-o", tmp_path / "whole", "--cache", tmp_path / "a", "--quiet")
    assert whole.status == 0
    (n_passes,) = {int(line.split()[3]) for line in whole.faults}
    ended = started(
        2, "fit", place, "-o", tmp_path / "again", "--cache", tmp_path / "b", "--quiet", restarts=1,
        killed=[(rank, n_passes, 0)],
    )  # fmt: skip
    assert ended.status == 0, ended.err
    assert {line for line in ended.faults if line.split()[2] == "1"} == {"pass 0 1 1", "pass 1 1 1"}  # the last alone
    for name in ("items.csv", "scores.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    kept = {file.name for folder in (tmp_path / "b").iterdir() for file in folder.iterdir()}
    assert not kept & {"passes", "scores"}


@pytest.mark.slow
def test_what_goes_wrong_ends_all_with_one_line(tmp_path: Path) -> None:
    frame = wide_frame(drawn(120, 5))
    place = write_parts(frame, tmp_path / "in")
    frame.loc[100, "item2"] = 2
    wrong = write_parts(frame, tmp_path / "wrong")
    for given, faults, words in (
        ((wrong,), {}, "row 21, column item2: expected 1, 0 or missing but got 2"),
        ((place,), {"fails": 1}, "responses.bin: Input/output error"),
        ((place,), {"killed": [(1, 3, 0)]}, "another of the 2 has ended"),
        ((place, "--nonsense"), {}, "No such option: --nonsense"),
        ((place, "--factors", 2), {}, "several processes fit a Parquet table"),
        ((tmp_path / "none.parquet",), {}, "No such file or directory"),
    ):
        ended = as_torchrun(2, "fit", *given, "-o", tmp_path / "out", **faults)
        assert ended.status != 0
        (line,) = ended.lines
        assert words in line
        assert not (tmp_path / "out").exists()
    ended = as_torchrun(2, "items", "diagnose", place, "--items", place, "-o", tmp_path / "out")
    assert "items: is run by one process; torchrun goes with fit, build, score of a large table" in ended.lines[0]
