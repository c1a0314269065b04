"""What a terminal shows of lines and tables, of long work while it runs, and where libraries are loaded beside it."""

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from builders.terminal import run_on_terminal
from irtbench.cli import output
from irtbench.cli.large import loading
from irtbench.cli.output import CUT, Shown, Steps, reporting, screenful, show_words, write_table

# --- page

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=30)
NAMES = st.from_regex(r"[a-z]{1,9}(_[a-z]{1,9}){0,2}", fullmatch=True)


@st.composite
def pages(draw: st.DrawFn) -> list[str | Shown]:
    parts: list[str | Shown] = [draw(TEXTS) for _ in range(draw(st.integers(0, 3)))]
    for _ in range(draw(st.integers(0, 2))):
        n = draw(st.integers(0, 40))
        names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        columns: dict[str, object] = {
            name: rng.normal(size=n).tolist() if k % 2 else [draw(TEXTS)] * n for k, name in enumerate(names)
        }
        parts.append(Shown(pd.DataFrame(columns), title=draw(TEXTS), rest="rest.csv"))
    return [*parts, "next: irtbench score"]


def height(lines: list[str], width: int) -> int:
    return sum(max(1, -(-cell_len(line) // width)) for line in lines)


@given(page=pages(), width=st.integers(10, 170), lines=st.integers(1, 60))
@settings(max_examples=12)
def test_a_page_fits_on_the_screen_and_keeps_its_first_and_last_line(
    page: list[str | Shown], width: int, lines: int
) -> None:
    shown = screenful(page, width, lines)
    whole = screenful(page, width, 1_000_000)
    ends = height([whole[0], CUT.format(len(whole)), whole[-1]], width)  # shorter than that no page can be
    assert height(shown, width) <= max(lines - 1, 9, ends)
    assert shown[-1] == "next: irtbench score"


@given(width=st.integers(8, 200))
def test_every_number_and_name_is_in_a_table_that_may_be_as_long_as_it_likes(width: int) -> None:
    table = pd.DataFrame(
        {
            "respondent_id": ["gpt-x", "llama"], "ability": [0.123, -1.5],
            "better than ... of the crowd": ["43% [22, 66]", "7% [2, 19]"],
            "remarks": ["", "all right: at least this able"],
        }
    )  # fmt: skip
    letters = "".join(" ".join(Shown(table).lines(width, 40)).split())
    assert all(text in letters for text in ("0.123", "-1.500", "gpt-x", "43%", "66]", "llama"))


def test_where_columns_do_not_fit_next_to_one_another_each_value_gets_a_line() -> None:
    table = pd.DataFrame({"who": ["a", "b"], "discrimination": [1.0, 2.0], "difficulty": [0.5, np.nan]})
    assert Shown(table).lines(20, 40) == [
        "who: a", "discrimination: 1.000", "difficulty: 0.500", "", "who: b", "discrimination: 2.000",
    ]  # fmt: skip
    assert [line.split() for line in Shown(table).lines(30, 40)[1:]] == [["a", "1.000", "0.500"], ["b", "2.000"]]
    assert Shown(table).lines(60, 40)[0].startswith("┏━━━")


def test_tables_give_way_before_lines_do() -> None:
    table = Shown(pd.DataFrame({"n": range(30)}), title="Numbers", rest="n.csv")
    shown = screenful(["first", table, "last"], 80, 24)
    assert (shown[0], shown[1], shown[-1], len(shown)) == ("first", "Numbers", "last", 23)
    # of 23 lines 3 are those, 4 the frame, 1 parts the rows, 1 says where the rest is: 14 rows
    assert shown[-2] == "the first 10 and the last 4 of 30 rows; all are in n.csv"
    lines = [f"line {k}" for k in range(40)]
    cut = screenful(lines, 80, 24)
    assert (cut[0], cut[-1], len(cut)) == ("line 0", "line 39", 23)
    assert CUT.format(18) in cut
    assert screenful(lines, 80, 41) == lines


@pytest.mark.parametrize(("columns", "lines"), [(20, 24), pytest.param(200, 50, marks=pytest.mark.slow)])
def test_a_command_on_terminals_of_all_sizes(inputs: Path, columns: int, lines: int) -> None:
    seen = run_on_terminal("score", "bank.json", "systems.csv", columns=columns, lines=lines, cwd=inputs)
    assert seen.status == 0
    assert seen.height < lines
    assert ("\x1b" in seen.raw) == (columns > 20)  # in so narrow a one no table is drawn
    assert "Ability: 0 is the mean of the crowd" in seen.raw
    assert max(map(cell_len, seen.lines[:-1])) <= max(columns, 120)


@pytest.mark.slow
@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_escape_sequences_go_only_where_they_are_understood(inputs: Path, environment: dict[str, str]) -> None:
    assert "\x1b" not in run_on_terminal("score", "bank.json", "systems.csv", cwd=inputs, **environment).raw


@pytest.mark.slow
def test_a_terminal_without_unicode_gets_what_it_can_show(tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("respondent_id,item_id,response\nGrün,i1,1\nGrün,i2,0\nGrün,i3,1\n", "utf-8")
    seen = run_on_terminal("convert", "names.csv", "-o", "ascii.csv", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert seen.status == 0
    assert seen.raw.isascii()
    seen = run_on_terminal("convert", "names.csv", "-o", "Grün.csv", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert "written to Gr\\u00fcn.csv" in seen.raw


# --- output


@pytest.mark.parametrize("texts", [["a", "", "é b", "'=1+1"], ["a", "b,c"], ['say "so"', "x"], ["a\nb", "c"]])
def test_many_rows_are_written_as_few_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: list[str]) -> None:
    rng, n = np.random.default_rng(0), 200
    numbers = rng.normal(size=n) * 10.0 ** rng.integers(-20, 20, n)
    numbers[:8] = [0.0, -0.0, 1.0, np.nan, 1e-5, 123456789012345680.0, np.inf, 5e-324]
    table = pd.DataFrame({"name": [texts[k % len(texts)] for k in range(n)], "number": numbers})
    table = table.assign(n=rng.integers(-9, 9, n), whole=rng.integers(0, 3, n).astype(np.float64))
    write_table(table, tmp_path / "few.csv")
    monkeypatch.setattr(output, "MANY_ROWS", 1)
    write_table(table, tmp_path / "many.csv")
    assert (tmp_path / "many.csv").read_bytes() == (tmp_path / "few.csv").read_bytes()


def test_of_a_long_table_the_ends_are_shown_and_where_the_rest_is(capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame({"name": [f"row{k}" for k in range(1_500)]})
    show_words([Shown(table)], Path("t.csv"))
    said = capsys.readouterr().out
    assert len(said.splitlines()) < 50
    assert all(name in said for name in ("row0 ", "row26 ", "row1487 ", "row1499 "))
    assert "row27 " not in said
    assert "the first 27 and the last 13 of 1,500 rows; all are in t.csv" in said
    show_words([Shown(table.head(40))], None)
    assert "all are in" not in capsys.readouterr().out


# --- progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which stands still until a test moves it."""
    now = [0.0]
    monkeypatch.setattr("irtbench.cli.output.time.monotonic", lambda: now[0])
    return now


def test_time_left_is_printed_for_steps_that_are_counted(clock: list[float]) -> None:
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


def test_nothing_is_promised_of_other_work_of_another_round_nor_of_the_first_steps(clock: list[float]) -> None:
    steps = Steps()
    for message in (
        "sample 1 of 50", "sample 2 of 50", "round 2: sample 30 of 50", "fitting 20 respondents x 5 items",
        "sample 40 of 90",
    ):  # fmt: skip
        clock[0] += 10.0
        steps.note(message)
        assert steps.line() == message  # one step alone says little
    assert (steps.done, steps.total) == (40, 90)
    for k in range(1, 10):
        clock[0] += 10.0
        steps.note(f"local dependence: sample {k} of at most 99")
    assert steps.line().endswith("up to about 15 min more")
    steps.note("local dependence: sample 1 of at most 99")
    assert steps.line() == "local dependence: sample 1 of at most 99"


def test_a_long_silent_step_is_printed_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "SILENT_SECONDS", 0.05)
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


PROGRAM = """
import time
from irtbench.cli import output
output.SILENT_SECONDS = 0.1
with output.reporting(quiet=False) as report:
    for k in range(1, 4):
        report(f"control {k} of 3: a long line about what it found, \x1b[31mred, that no narrow terminal has room for")
        time.sleep(0.3)
print("done")
"""


@pytest.mark.slow
def test_a_bar_moves_on_one_line_of_a_terminal_and_goes_away() -> None:
    seen = run_on_terminal(program=PROGRAM, columns=20)
    assert seen.status == 0
    assert "\x1b[31m" not in seen.raw.replace("\x1b[31m ", "")
    frames = [line for part in seen.lines for line in part.split("\r") if "control" in line]
    assert len(frames) > 2
    assert max(map(len, frames)) <= 20
    assert seen.lines[-1].endswith("done")


@pytest.mark.slow
def test_a_dumb_terminal_gets_plain_lines() -> None:
    seen = run_on_terminal(program=PROGRAM, TERM="dumb")
    assert "\x1b" not in seen.raw
    assert any(line.startswith("[  0.") and "control" in line for line in seen.lines)


# --- loading


def test_an_error_of_the_body_comes_through_and_a_missing_module_fails_where_it_is_needed() -> None:
    with pytest.raises(ValueError, match="row 3"), loading("no_such_module_anywhere"):
        raise ValueError("row 3")
