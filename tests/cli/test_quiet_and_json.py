"""Of every command: quiet, nothing is on standard output; with --json one document, and nothing else."""

import shutil
from pathlib import Path

import pytest

from builders.command_line import run
from builders.valid_inputs import COMMANDS_READING
from irtbench.cli import build
from irtbench.cli.main import COMMANDS

ARGUMENTS = {name: [word for word in words if word != "-q"] for name, (words, _) in COMMANDS_READING.items()} | {
    "doctor": ["doctor", "answers.csv", "--items", "items.csv"],
    "init": ["init", "answers.csv", "--items", "items.csv", "--yes", "-o", "out.toml"],
    "simulate": ["simulate", "--items", "8", "--respondents", "20", "-o", "out"],
    "evaluate power": ["evaluate", "power", "-n", "100", "-o", "out"],
    "report": ["report", "built", "-o", "out.html"],
    "quickstart": ["quickstart", "-o", "out"],
}
LONG = ("build", "items difficulty", "dimensions", "evaluate human-bound", "quickstart", "report", "crowd plan")


def test_every_command_is_thought_of() -> None:
    assert set(ARGUMENTS) == {*COMMANDS, "link --extend"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in ARGUMENTS]
)
def test_nothing_or_one_document_on_standard_output(
    inputs: Path, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if command == "quickstart":  # a fit a label, for pruning is the same in `build`
        shipped = shutil.copytree(str(build.shipped_study()), tmp_path / "shipped")
        file = shipped / "study.toml"
        file.write_text(file.read_text(encoding="utf-8").replace('preset = "lalor2016"', 'preset = "none"'))
        monkeypatch.setattr(build, "shipped_study", lambda: shipped)
    if command == "report":
        run(f"build study.toml -o {inputs}/built -q", cwd=inputs)
    words = ARGUMENTS[command]
    options = ["-q" if len(command) % 2 else "--quiet", "--json"]
    for k, option in enumerate(options[command == "quickstart" :]):  # which is a copy and a build
        place = tmp_path / str(k)
        place.mkdir()
        given = [str(place / word) if word.startswith("out") else word for word in words]
        ended = run(*given, option, cwd=inputs)
        if option == "--json":
            assert ended.json
        else:
            assert ended.out == ""
            assert all(line.startswith("irtbench: ") for line in ended.err.splitlines())
