"""What the pages show runs: shell and Python in order, output as shown, study files with keys that there are.

Examples with ``>>>`` are run by pytest itself. Blocks with ``$`` before a command are run as they stand, in one folder
a page, and each line shown must be printed; blocks of commands without it are read by their commands but not run.
"""

import ast
import tomllib
from pathlib import Path
from textwrap import dedent

import pytest

import irtbench
from builders import documentation
from builders.documentation import alike, command_lines, commands, not_printed
from code_blocks import CodeBlock, code_blocks
from irtbench.config import read_rules, read_section

ROOT = Path(irtbench.__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SLOW = ("uncertainty.md", "tutorial_crowd.md", "crowds.md", "trials.md")
#: Blocks of Python that need what the tests have not: page, first line, why.
NOT_RUN = {
    ("compact_scales.md", "from inspect_ai import Task, eval"): "needs inspect_ai and a model",
    ("scale.md", 'scorer = irtbench.PartitionScorer("bank.json", unknown_items="ignore")'): "needs Spark, Ray and Dask",
}


def blocks_of(page: Path) -> list[CodeBlock]:
    return code_blocks(page.read_text(encoding="utf-8"))


def is_run(page: Path) -> bool:
    return any("\n$ " in f"\n{block.text}" or is_script(block) for block in blocks_of(page))


def is_script(block: CodeBlock) -> bool:
    return block.language == "python" and not block.text.lstrip().startswith(">>> ")


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.slow if p.name in SLOW else (), id=p.name) for p in PAGES if is_run(p)],
)
def test_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    """In an empty folder with what ships in the checkout's root."""
    names: dict[str, object] = {}
    for name in ("data", "configs"):
        (tmp_path / name).symlink_to(ROOT / name)
    for block in blocks_of(page):
        place, first = f"{page.name}, line {block.line}", block.text.lstrip().split("\n")[0]
        stated = documentation.STATED_FILE.match(block.text)
        if stated and block.fenced:
            (tmp_path / stated["name"]).write_text(block.text, encoding="utf-8")
        elif is_script(block):
            if (page.name, first) in NOT_RUN:
                ast.parse(dedent(block.text))
            else:
                documentation.run_python(dedent(block.text), names, tmp_path)
        for command in commands(block.text):
            missing = not_printed(command.shown, printed := documentation.run(command, tmp_path))
            assert not missing, f"{place}: {command.text}: not printed: {missing}\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_study_files_have_the_options_and_keys_that_a_page_gives_them(page: Path) -> None:
    settings = pytest.importorskip("settings_reference")
    for block in blocks_of(page):
        if block.language == "console":
            for words in command_lines(dedent(block.text)):
                documentation.demand_known_options(words)
        elif block.language == "toml":
            for name, table in tomllib.loads(dedent(block.text)).items():
                if name == "pruning":
                    read_rules(page, table)
                else:
                    needed = {"answers": "answers.csv"} if name == "data" else {}
                    read_section(page, name, needed | table, settings.tables()[name])


def test_blocks_that_are_not_run_are_there_and_an_option_that_a_command_has_not_is_seen() -> None:
    firsts = {(page.name, block.text.lstrip().split("\n")[0]) for page in PAGES for block in blocks_of(page)}
    assert NOT_RUN.keys() <= firsts
    (words,) = command_lines("irtbench fit BANK -o out [--figure-of-eight]  # twice")
    with pytest.raises(Exception, match=r"[Nn]o such option"):
        documentation.demand_known_options(words)


def test_lines_shown_are_compared_with_those_printed() -> None:
    block = "$ irtbench fit x \\\n    -o y\nline one\n...\n\nline two\n$ ls\n"
    assert [(command.text, command.shown) for command in commands(block)] == [
        ("irtbench fit x      -o y", ("line one", "line two")), ("ls", ())
    ]  # fmt: skip
    printed = "┃ who ┃ theta ┃\n│ ann │  0.51 │\n│ bob │ -1.20 │\nall done"
    assert not_printed(("who theta", "ann 0.50", "all done"), printed) == []
    assert not_printed(("ann 0.49",), printed) == ["ann 0.49"]
    assert not_printed(("bob -1.20", "ann 0.51"), printed) == ["ann 0.51"]
    # numbers may differ by one in the last digit, and counts may not
    for shown, printed, same in (
        ("[0.13, 1.2]", "[0.14, 1.1]", True), ("0.13", "0.15", False), ("12 items", "13 items", False),
        ("0.5", "none", False), ("prior ...", "prior none: 1000", True),
        ("1,c22,...", "1,c22,-1.27,negative slope", True), ("1,c23,...", "1,c22,-1.27,negative slope", False),
    ):  # fmt: skip
        assert alike(shown.split(), printed.split()) == same, shown
