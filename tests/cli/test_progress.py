"""What long work says while it runs, and what it promises of its end."""

import time

import pytest

from builders.terminal import run_on_terminal
from irtbench.cli import progress
from irtbench.cli.progress import Steps, reporting


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which stands still until a test moves it."""
    now = [0.0]
    monkeypatch.setattr("irtbench.cli.progress.time.monotonic", lambda: now[0])
    return now


def test_time_left_is_told_of_steps_that_are_counted(clock: list[float]) -> None:
    steps = Steps()
    for k in range(4):
        clock[0] = 10.0 * k
        steps.note(f"{1000 * (k + 1)} of 20000 rows read")
    # 30 s for 3,000 rows: .01 s each, 16,000 to read and the one at hand
    assert steps.line() == "4000 of 20000 rows read, up to about 3 min more"
    clock[0] += 100.0  # and nothing came since
    assert steps.line() == "4000 of 20000 rows read, up to about 60 s more"
    clock[0] += 100.0  # longer than that: nothing is promised
    assert steps.line() == "4000 of 20000 rows read"


def test_nothing_is_promised_of_other_work_nor_of_the_first_steps(clock: list[float]) -> None:
    steps = Steps()
    for k, message in enumerate(["sample 1 of 50", "sample 2 of 50"]):
        clock[0] = 10.0 * k
        steps.note(message)
    assert steps.line() == "sample 2 of 50"  # one step alone says little
    for message in ("round 2: sample 30 of 50", "fitting 20 respondents x 5 items", "sample 40 of 90"):
        clock[0] += 10.0
        steps.note(message)
        assert steps.line() == message
    assert (steps.done, steps.total) == (40, 90)


def test_the_same_work_of_another_round_is_measured_anew(clock: list[float]) -> None:
    steps = Steps()
    for k in range(1, 10):
        clock[0] += 10.0
        steps.note(f"local dependence: sample {k} of at most 99")
    assert steps.line().endswith("up to about 15 min more")
    steps.note("local dependence: sample 1 of at most 99")
    assert steps.line() == "local dependence: sample 1 of at most 99"


def test_what_says_its_time_itself_is_left_as_it_is(clock: list[float]) -> None:
    steps = Steps()
    for k in range(1, 5):
        clock[0] += 10.0
        steps.note(f"sample {k} of at most 99, up to about 4 min more")
    assert steps.line() == "sample 4 of at most 99, up to about 4 min more"


def test_a_long_silent_step_is_told_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.05)
    with reporting(quiet=False) as report:
        report("fitting")
        time.sleep(0.5)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1  # it does not change, and is said once a minute
    assert said[0].endswith("s] fitting")
    with reporting(quiet=True) as report:
        report("fitting")
        time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_short_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with reporting(quiet=False) as report:
        report("reading")
    assert capsys.readouterr().err == ""


PROGRAM = """
import time
from irtbench.cli import progress
progress.SILENT_SECONDS = 0.1
with progress.reporting(quiet=False) as report:
    for k in range(1, 6):
        report(f"control {k} of 5: a long line about what it found, \x1b[31mred, that no narrow terminal has room for")
        time.sleep(0.3)
print("done")
"""


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 20])
def test_a_bar_moves_on_one_line_of_a_terminal_and_goes_away(columns: int) -> None:
    seen = run_on_terminal(program=PROGRAM, columns=columns)
    assert seen.status == 0
    assert "control" in seen.raw
    assert "\x1b[31m" not in seen.raw.replace("\x1b[31m ", "")
    frames = [line for part in seen.lines for line in part.split("\r") if "control" in line]
    assert len(frames) > 2
    assert max(map(len, frames)) <= columns
    assert seen.lines[-1].endswith("done")


@pytest.mark.slow
def test_a_dumb_terminal_gets_plain_lines() -> None:
    seen = run_on_terminal(program=PROGRAM, TERM="dumb")
    assert "\x1b" not in seen.raw
    assert any(line.startswith("[  0.") and "control" in line for line in seen.lines)
