"""Every command that reads responses or answers reads the files of evaluation harnesses as they are."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import irtbench
from builders.command_line import run
from builders.harness_logs import write_logs
from builders.simulated import simulated
from builders.valid_inputs import write_valid_inputs

N = 30
COMMANDS = {
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inputs of all commands, with the responses as folders of logs."""
    folder = tmp_path_factory.mktemp("logs")
    write_valid_inputs(folder)
    responses = simulated(N, 8, seed=3)[0]
    write_logs(responses, range(N), folder / "runs")
    write_logs(responses, range(3), folder / "few")
    names = {f"{item}": f"t/{item}" for item in responses.item_ids}  # a harness's items are named task/id
    for table in ("items.csv", "twins.csv", "parameters.csv"):
        frame = pd.read_csv(folder / table, keep_default_na=False)
        frame.replace(names).to_csv(folder / table, index=False)
    scales = []
    for scale in irtbench.load_bank(folder / "bank.json").scales:
        ids = tuple(names[item] for item in scale.items.item_ids)
        items, details = replace(scale.items, item_ids=ids), replace(scale.details, item_ids=ids)
        scales.append(replace(scale, items=items, details=details))
    (folder / "bank.json").unlink()
    irtbench.save_bank(irtbench.ItemBank(tuple(scales)), folder / "bank.json")
    return folder


@pytest.mark.filterwarnings("ignore:human accuracy of a new vote is undefined")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_of_logs_is_read_by(folder: Path, command: str, tmp_path: Path) -> None:
    run(COMMANDS[command].replace("-o out", f"-o {tmp_path}/out"), "--metric", "acc,strict", "-q", cwd=folder)
    if command == "init":
        assert '[card]  # what the bank says of itself\nrespondents = "models"' in (tmp_path / "out.toml").read_text()
