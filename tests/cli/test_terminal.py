"""The command line around its commands: help, completion, Ctrl-C, what is missing, and what comes next."""

import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from builders.command_line import PROGRESS_LINE, refused, run, run_program, run_without
from builders.documentation import not_printed
from builders.terminal import ROOT, run_on_terminal
from builders.valid_inputs import COMMANDS_READING, write_valid_inputs
from code_blocks import code_blocks
from irtbench.cli.build import copy_files
from irtbench.cli.main import COMMANDS, GROUPS, HEADINGS, RENAMED, TOP, command_in, of_today
from irtbench.data.input_error import InputError

SLOW_TO_LOAD = {"torch", "pyro", "pandas", "numpy", "scipy", "matplotlib"}
#: All that `pip install --no-deps irtbench` needs beside it to score: docs/terminal.md.
LEAN = {
    "numpy", "scipy", "pandas", "pyarrow", "pydantic", "threadpoolctl", "typer", "rich",
}  # fmt: skip
LEFT_OUT = {"torch", "pyro", "statsmodels", "sklearn", "matplotlib", "duckdb", "jinja2", "fsspec"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_valid_inputs(tmp_path)
    return tmp_path


# -- help and completion -------------------------------------------------------------------------------------------


def test_help_names_every_command_on_a_line_of_its_own_and_loads_none() -> None:
    for command in ([], ["score"]):
        assert run(*command, "-h") == run(*command, "--help")
        assert "Usage: irtbench" in run(*command, "-h").out
    run_without(SLOW_TO_LOAD, "--version")
    lines = run_without(SLOW_TO_LOAD, "--help").splitlines()
    for name in TOP:
        assert any(line.split(maxsplit=1) == [name, GROUPS.get(name) or COMMANDS[name]] for line in lines)
    assert len(TOP) <= 18
    assert [line.removesuffix(":") for line in lines if line.endswith(":")][1:] == list(HEADINGS.values())
    assert max(map(len, lines)) <= 80


def completed(line: str, shell: str = "bash") -> list[str]:
    """What a shell is told; torch must not be loaded for it, nor pandas for the name of a command."""
    words = line.split()
    settings = {"_IRTBENCH_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        settings |= {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - (not line.endswith(" ")))}
    else:
        settings |= {"_TYPER_COMPLETE_ARGS": line}
    heavy = SLOW_TO_LOAD if command_in(words[1:]) == "" and not line.endswith(" ") else {"torch", "pyro", "matplotlib"}
    program = (
        "import sys\nfrom irtbench.cli.main import main\nsys.argv = ['irtbench']\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        f"assert not {heavy!r} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | settings, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_shell_completes_commands_options_and_choices() -> None:
    assert completed("irtbench co") == ["convert", "compare"]
    assert completed("irtbench evaluate co") == ["consistency"]
    assert "--min-seconds" in completed("irtbench crowd screen --min-")
    assert sorted(completed("irtbench score --norm-g")) == ["--norm-group", "--norm-groups"]
    models = ["rasch", "1pl", "2pl", "3pl", "4pl", "grm", "gpcm", "pcm", "rsm", "nominal"]
    assert completed("irtbench fit --model ") == models
    assert "score" in completed("irtbench nonsense ")  # no command: all of them
    assert any(COMMANDS["score"] in line for line in completed("irtbench sco", "zsh"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_by_the_script_that_is_shown(tmp_path: Path) -> None:
    own = tmp_path / "irtbench"
    own.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m irtbench "$@"\n')
    own.chmod(0o755)
    program = (
        'eval "$(irtbench --show-completion)"; COMP_WORDS=(irtbench sc); COMP_CWORD=1; '
        '_irtbench_completion irtbench; echo "${COMPREPLY[@]}"'
    )
    settings = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", program], env=settings, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "score\n"


# -- ends -----------------------------------------------------------------------------------------------------------


def test_ctrl_c_ends_a_command_with_a_line() -> None:
    program = (
        "import os, signal, typer\nfrom irtbench.cli import main as command\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job in the background is born deaf to it
        "def work() -> None:\n    os.kill(os.getpid(), signal.SIGINT)\n    signal.pause()\n"
        "def application(names):\n    app = typer.Typer(callback=lambda: None)\n    app.command('fit')(work)\n"
        "    return app\n"
        "command.application = application\ncommand.main()\n"
    )
    done = run_program(program, "fit")
    assert (done.returncode, done.stderr) == (130, "irtbench: stopped by Ctrl-C\n")


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    line = f"{shlex.quote(sys.executable)} -c 'from irtbench.cli.main import main; main()' score bank.json systems.csv"
    done = subprocess.run(
        ["bash", "-c", f"{line} --json | head -1"], cwd=folder, capture_output=True, text=True, check=False, timeout=60,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == ("[", "")


WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {modules!r}:
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)
sys.meta_path.insert(0, Missing())
from irtbench.cli.main import main
"""


def run_missing(modules: set[str], *words: str, cwd: Path, work: str = "main()") -> subprocess.CompletedProcess[str]:
    """Run the command where these cannot be imported."""
    return run_program(WITHOUT.format(modules=modules) + work, *words, cwd=cwd)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "library", "whole"),
    [
        ("fit responses.csv -o out", "torch", "irtbench"),
        ("quickstart -o out/q", "torch", "irtbench"),
        ("evaluate artifacts choices.csv", "scikit-learn", "'irtbench[artifacts]'"),
    ],
)
def test_a_library_that_is_missing_is_named_with_what_installs_it(
    folder: Path, line: str, library: str, whole: str
) -> None:
    done = run_missing({"torch", "pyro", "sklearn"}, *line.split(), cwd=folder)
    said = [line for line in done.stderr.splitlines() if not PROGRESS_LINE.match(line)]  # of a slow machine
    assert said == [
        f"irtbench: this needs {library}, which is not installed; pip install {whole} installs all that is missing"
    ]
    assert (done.returncode, done.stdout) == (2, "")
    assert not (folder / "out").exists()


LIGHT = (
    *(" ".join(COMMANDS_READING[name][0]) for name in (
        "score", "compare", "predict", "convert", "items show", "crowd agree", "crowd screen", "form adapt",
        "form assemble",
    )),
    "doctor answers.csv --items items.csv",
    "evaluate calibration predictions.csv --samples 20",
    "simulate --respondents 20 --items 5 -o out/simulated",
)  # fmt: skip
DRAWN_LIGHT = (
    "items show bank.json -o out/drawn --figures",
    "evaluate power -n 100 -o out/power",
    "evaluate human-bound responses.csv --other-counts share -o out/bound",
)


@pytest.mark.parametrize(
    ("modules", "lines"),
    [(LEFT_OUT, LIGHT), pytest.param({"torch", "pyro"}, DRAWN_LIGHT, marks=pytest.mark.slow)],
)
def test_scoring_and_reading_go_without_what_fits(folder: Path, modules: set[str], lines: tuple[str, ...]) -> None:
    one_after_the_other = (
        "for line in sys.argv[1:]:\n    sys.argv = ['irtbench', *line.split()]\n"
        "    try:\n        main()\n    except SystemExit as stop:\n        assert not stop.code, line\n"
    )
    done = run_missing(modules, *lines, cwd=folder, work=one_after_the_other)
    assert done.returncode == 0, done.stderr


# -- what comes next -------------------------------------------------------------------------------------------------


def next_command(said: str) -> list[str]:
    """The command that the last line names, without the program's name."""
    last = said.splitlines()[-1]
    assert last.startswith("next: irtbench "), said
    words = shlex.split(last.removeprefix("next: irtbench "))
    assert command_in(words)
    return words


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("items show bank.json -o out", "form assemble"),
        ("convert answers.csv -o out.csv", "doctor"),
        ("crowd screen answers.csv --items items.csv --min-responses 2 -o out", "crowd agree"),
        ("score bank.json wide.csv -o out/scores.csv", "compare"),
    ],
)
def test_the_next_command_runs_as_it_stands(folder: Path, line: str, command: str) -> None:
    words = next_command(run(line, cwd=folder).out)
    assert command_in(words) == command
    run(*words, cwd=folder)


# -- names of the last release ---------------------------------------------------------------------------------------


def test_a_name_of_the_last_release_still_works_and_names_that_of_today(folder: Path) -> None:
    once, now = (run(f"{name} bank.json --replay wide.csv", cwd=folder) for name in ("adapt", "form adapt"))
    assert (once.status, once.out) == (now.status, now.out)
    assert once.err == f"{now.err}irtbench: warning: irtbench adapt is now: irtbench form adapt\n"
    assert run("adapt bank.json --replay wide.csv -q", cwd=folder).err == now.err
    # every such name leads to a command and is not in the help
    help_of_today = run("--help").out.split()
    assert set(RENAMED) & set(help_of_today) == set()
    assert all(command_in(of_today([name])[0]) for name in RENAMED)
    assert of_today(["items", "--help"]) == (["items", "--help"], "")


# -- quickstart ------------------------------------------------------------------------------------------------------


def test_the_study_is_copied_and_nothing_of_the_users_is_replaced(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    (source / "items.csv").write_text("shipped")
    copy_files(source, target)
    copy_files(source, target)  # the same again
    assert (target / "items.csv").read_text() == "shipped"
    (target / "items.csv").write_text("mine")
    with pytest.raises(InputError, match="is there already"):
        copy_files(source, target)
    assert (target / "items.csv").read_text() == "mine"


@pytest.mark.slow
def test_quickstart_prints_the_figures_of_the_readme_and_a_command_that_runs(tmp_path: Path) -> None:
    seen = run_on_terminal("quickstart", cwd=tmp_path, columns=160, lines=60)
    assert seen.status == 0
    said, readme = "\n".join(seen.lines), (ROOT / "README.md").read_text(encoding="utf-8")
    first = "Simulated crowd study: 932 of 1000 respondents kept, 85 of 90 items kept"
    for row in (first, "-2.96 to 0.62", "1.23 to 2.33", "-0.14 [-0.70, 0.44]", "44% [24, 67]"):
        assert row in said
        assert row in readme
    assert (tmp_path / "quickstart" / "report.html").exists()
    run(*next_command(said), cwd=tmp_path)
    shown = [block.text for block in code_blocks(readme) if block.text.startswith(("Simulated crowd", "who "))]
    assert len(shown) == 2
    for text in shown:
        assert not_printed(tuple(filter(str.strip, text.splitlines())), said) == []
    there, shipped = (folder / "study.toml" for folder in (tmp_path / "quickstart/study", ROOT / "data/crowd_study"))
    assert there.read_bytes() == shipped.read_bytes()  # which was built


# -- questions -------------------------------------------------------------------------------------------------------


def test_init_asks_at_the_keyboard_and_its_study_file_is_there(folder: Path) -> None:
    typed = "My people\nitems.csv\nlalor2016\n"
    seen = run_on_terminal("init", "answers.csv", "-o", "mine.toml", cwd=folder, typed=typed)
    assert seen.status == 0
    assert any("Title of the study [answers]: " in line for line in seen.lines)
    assert seen.lines[-1].endswith("written to mine.toml; build it: irtbench build mine.toml")
    written = tomllib.loads((folder / "mine.toml").read_text())
    assert (written["study"]["title"], written["data"]["items"]) == ("My people", "items.csv")
    assert written["pruning"]["preset"] == "lalor2016"


@pytest.mark.skipif(os.name == "nt", reason="what is closed is closed by a shell here")
def test_closed_streams_are_no_error(folder: Path) -> None:
    words = f"{sys.executable} -m irtbench predict bank.json wide.csv -o out.csv <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", words], check=False, cwd=folder, timeout=60).returncode == 0
    assert (folder / "out.csv").read_text().startswith("respondent_id,")


@pytest.mark.skipif(os.name == "nt", reason="no such locale here")
def test_no_home_and_a_locale_without_letters(folder: Path) -> None:
    (folder / "wide.csv").write_text((folder / "wide.csv").read_text().replace("\na,", "\nÄ,"), encoding="utf-8")
    bare = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PATH": os.environ["PATH"]}
    words = [sys.executable, "-m", "irtbench", "predict", "bank.json", "wide.csv"]
    done = subprocess.run(
        words, capture_output=True, check=False, cwd=folder, timeout=60, env=bare | {"PYTHONPATH": str(ROOT)}
    )
    said = [line for line in done.stderr.decode().splitlines() if not PROGRESS_LINE.match(line)]
    assert (done.returncode, said) == (0, [])
    assert b"\\u00c4" in done.stdout


def test_a_million_columns_are_refused_at_once(folder: Path) -> None:
    (folder / "w.csv").write_text("system" + ",c" * 10**6 + "\nr" + ",1" * 10**6 + "\n" + "x" * 10_000_000)
    refused("score bank.json w.csv -o out.csv", cwd=folder, saying="columns; expected at most 100000")


def test_the_two_installs_are_those_of_the_documentation() -> None:
    text = " ".join((ROOT / "docs" / "terminal.md").read_text(encoding="utf-8").split())
    assert f"pip install {' '.join(sorted(LEAN))}" in text
