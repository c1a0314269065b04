"""Of every command: quiet, nothing is on standard output; with --json one document. Logs of harnesses are read.

Quiet, commands that read responses or answers read the files of evaluation harnesses as they are.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import irtbench
from builders.command_line import run
from builders.harness_logs import write_logs
from builders.simulated import simulated
from builders.valid_inputs import COMMANDS_READING, write_valid_inputs
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
WITH_FIGURES = ("build", "items difficulty", "crowd plan", "dimensions", "evaluate human-bound")  # JSON is tested there
LONG = ("build", "items difficulty", "crowd plan", "quickstart", "report")
OF_LOGS = {
    "fit": "fit runs -o out",
    "items diagnose": "items diagnose runs --items parameters.csv --bootstrap 0 -o out",
    "items bias": "items bias runs --groups groups.csv --method logistic -o out",
    "dimensions": "dimensions runs --factors 0 --samples 2 -o out",
    "evaluate human-bound": "evaluate human-bound runs --right 1 --votes 5 --other-counts share -o out",
    "score": "score bank.json runs -o out/scores.csv",
    "compare": "compare few --bank bank.json --item-error none -o out",
    "predict": "predict bank.json few -o out/prediction.csv",
    "evaluate breakdown": "evaluate breakdown few --items items.csv --type type -o out",
    "evaluate consistency": "evaluate consistency few --items twins.csv -o out",
    "crowd agree": "crowd agree runs --items items.csv -o out",
    "convert": "convert runs -o out.csv",
    "doctor": "doctor runs",
    "init": "init runs -o out.toml --yes",
}


def test_every_command_is_thought_of() -> None:
    assert set(ARGUMENTS) == {*COMMANDS, "link --extend"}


def demand_silence(cwd: Path, *words: object) -> None:
    ended = run(*words, "-q" if len(words) % 2 else "--quiet", cwd=cwd)
    assert ended.out == ""
    assert all(line.startswith("irtbench: ") for line in ended.err.splitlines())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "command",
    [pytest.param(name, marks=pytest.mark.slow if name in LONG else ())
     for name in ARGUMENTS if name not in WITH_FIGURES or name not in OF_LOGS],
)  # fmt: skip
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
    words = [str(tmp_path / "json" / word) if word.startswith("out") else word for word in ARGUMENTS[command]]
    (tmp_path / "json").mkdir()
    if command not in WITH_FIGURES:
        assert run(*words, "--json", cwd=inputs).json
    if command not in OF_LOGS and command != "quickstart":  # which is a copy and a build
        demand_silence(inputs, *(word.replace("/json/out", "/out") for word in words))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inputs of all commands, with the responses as folders of logs."""
    folder = tmp_path_factory.mktemp("logs")
    write_valid_inputs(folder)
    responses = simulated(30, 8, seed=3)[0]
    write_logs(responses, range(30), folder / "runs")
    write_logs(responses, range(3), folder / "few")
    names = {f"{item}": f"t/{item}" for item in responses.item_ids}  # a harness's items are named task/id
    for table in ("items.csv", "twins.csv", "parameters.csv"):
        frame = pd.read_csv(folder / table, keep_default_na=False)
        frame.replace(names).to_csv(folder / table, index=False)
    (scale,) = irtbench.load_bank(folder / "bank.json").scales
    ids = tuple(names[item] for item in scale.items.item_ids)
    items, details = replace(scale.items, item_ids=ids), replace(scale.details, item_ids=ids)
    (folder / "bank.json").unlink()
    irtbench.save_bank(irtbench.ItemBank((replace(scale, items=items, details=details),)), folder / "bank.json")
    return folder


@pytest.mark.filterwarnings("ignore:human accuracy of a new vote is undefined")
@pytest.mark.parametrize("command", OF_LOGS)
def test_a_folder_of_logs_is_read_by(logs: Path, command: str, tmp_path: Path) -> None:
    demand_silence(logs, OF_LOGS[command].replace("-o out", f"-o {tmp_path}/out"), "--metric", "acc,strict")
    if command == "init":
        assert '[card]  # what the bank says of itself\nrespondents = "models"' in (tmp_path / "out.toml").read_text()
