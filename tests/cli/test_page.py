"""What a terminal shows of lines and tables: never more than fits on it, and nothing cut that is nowhere else."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from builders.terminal import run_on_terminal
from builders.valid_inputs import write_valid_inputs
from irtbench.cli.output import Shown
from irtbench.cli.page import CUT, screenful

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=30)
NAMES = st.from_regex(r"[a-z]{1,9}(_[a-z]{1,9}){0,2}", fullmatch=True)


@st.composite
def pages(draw: st.DrawFn) -> list[str | Shown]:
    parts: list[str | Shown] = [draw(TEXTS) for _ in range(draw(st.integers(0, 3)))]
    for _ in range(draw(st.integers(0, 2))):
        n = draw(st.integers(0, 60))
        names = draw(st.lists(NAMES, min_size=1, max_size=8, unique=True))
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        columns: dict[str, object] = {
            name: rng.normal(size=n).tolist() if k % 2 else [draw(TEXTS)] * n for k, name in enumerate(names)
        }
        parts.append(Shown(pd.DataFrame(columns), title=draw(TEXTS), rest="rest.csv"))
    return [*parts, "next: irtbench score"]


def height(lines: list[str], width: int) -> int:
    return sum(max(1, -(-cell_len(line) // width)) for line in lines)


@given(page=pages(), width=st.integers(10, 170), lines=st.integers(1, 60))
def test_a_page_fits_on_the_screen_and_keeps_its_first_and_last_line(
    page: list[str | Shown], width: int, lines: int
) -> None:
    shown = screenful(page, width, lines)
    whole = screenful(page, width, 1_000_000)
    ends = height([whole[0], CUT.format(len(whole)), whole[-1]], width)  # shorter than that no page can be
    assert height(shown, width) <= max(lines - 1, 9, ends)
    assert shown[-1] == "next: irtbench score"


@given(width=st.integers(8, 200))
def test_every_number_and_name_stands_in_a_table_that_may_be_as_long_as_it_likes(width: int) -> None:
    table = pd.DataFrame(
        {
            "respondent_id": ["gpt-x", "llama"],
            "ability": [0.123, -1.5],
            "better than ... of the crowd": ["43% [22, 66]", "7% [2, 19]"],
            "remarks": ["", "all right: at least this able"],
        }
    )
    words = " ".join(" ".join(Shown(table).lines(width, 40)).split())
    assert all(text in words for text in ("0.123", "-1.500"))
    letters = words.replace(" ", "")
    for text in ("gpt-x", "43%", "66]", "llama"):
        assert text in letters


def test_where_columns_do_not_fit_beside_one_another_each_value_gets_a_line() -> None:
    table = pd.DataFrame({"who": ["a", "b"], "discrimination": [1.0, 2.0], "difficulty": [0.5, np.nan]})
    assert Shown(table).lines(20, 40) == [
        "who: a", "discrimination: 1.000", "difficulty: 0.500", "", "who: b", "discrimination: 2.000",
    ]  # fmt: skip
    assert Shown(table).lines(30, 40)[1:] == [
        "a            1.000      0.500",
        "b            2.000",
    ]
    assert Shown(table).lines(60, 40)[0].startswith("┏━━━")


def test_columns_names_are_folded_at_their_words() -> None:
    table = pd.DataFrame({"item_id": ["i1"], "proportion_correct": [0.5], "n_responses": [100]})
    assert Shown(table).lines(31, 40) == [
        "        proportion_",
        "item_id     correct n_responses",
        "i1            0.500         100",
    ]


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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_valid_inputs(folder)
    return folder


@pytest.mark.parametrize(
    ("columns", "lines"),
    [pytest.param(80, 24, marks=pytest.mark.slow), (20, 24), pytest.param(200, 50, marks=pytest.mark.slow)],
)
def test_a_command_on_terminals_of_all_sizes(folder: Path, columns: int, lines: int) -> None:
    seen = run_on_terminal("score", "bank.json", "systems.csv", columns=columns, lines=lines, cwd=folder)
    assert seen.status == 0
    assert seen.height < lines
    assert "Ability: 0 is the mean of the crowd" in seen.raw
    assert max(map(cell_len, seen.lines[:-1])) <= max(columns, 120)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "escapes"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_escape_sequences_go_only_where_they_are_understood(
    folder: Path, environment: dict[str, str], escapes: bool
) -> None:
    seen = run_on_terminal("score", "bank.json", "systems.csv", cwd=folder, **environment)
    assert ("\x1b" in seen.raw) == escapes


@pytest.mark.slow
def test_a_terminal_without_unicode_gets_what_it_can_show(folder: Path) -> None:
    (folder / "names.csv").write_text("respondent_id,item_id,response\nGrün,i1,1\nGrün,i2,0\nGrün,i3,1\n", "utf-8")
    seen = run_on_terminal("convert", "names.csv", "-o", "ascii.csv", cwd=folder, PYTHONIOENCODING="ascii")
    assert seen.status == 0
    assert seen.raw.isascii()
    seen = run_on_terminal("convert", "names.csv", "-o", "Grün.csv", cwd=folder, PYTHONIOENCODING="ascii")
    assert "written to Gr\\u00fcn.csv" in seen.raw
