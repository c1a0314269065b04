"""`score`, `compare` and `predict` leave out what the bank's study left out: one line, and in the JSON."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from builders.command_line import refused, run
from builders.valid_inputs import write_valid_inputs
from irtbench.bank.bank import NOT_ON_A_SCALE, ItemBank, load_bank, save_bank

LINE = "irtbench: 2 items left out, as in the bank's own study: removed (negative slope), check (attention check)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bank whose study removed an item and had an attention check, and systems that answered both."""
    folder = tmp_path_factory.mktemp("left_out")
    write_valid_inputs(folder)
    (scale,) = load_bank(folder / "bank.json").scales
    provenance = {
        "pruning": [{"item_id": "removed", "reason": "negative_slope"}],
        NOT_ON_A_SCALE: [
            {"item_id": "check", "reason": "attention_check", "scale": None},
            {"item_id": "lost", "reason": "scale_rejected", "scale": "other"},
        ],
    }
    (folder / "bank.json").unlink()
    save_bank(ItemBank((replace(scale, provenance=provenance),)), folder / "bank.json")
    more = pd.DataFrame({"respondent_id": ["r3", "r5"], "item_id": ["removed", "check"], "answer": ["yes", "blue"]})
    pd.concat([pd.read_csv(folder / "systems.csv"), more]).to_csv(folder / "more.csv", index=False)
    return folder


def test_scores_are_those_without_them(folder: Path) -> None:
    ended, alone = (run(f"score bank.json {name} --json", cwd=folder) for name in ("more.csv", "systems.csv"))
    assert LINE in ended.err.splitlines()
    assert alone.err == ""
    rows, wanted = ended.json, alone.json
    left_out = [{"item_id": "removed", "reason": "negative_slope"}, {"item_id": "check", "reason": "attention_check"}]
    assert [row.pop("items_left_out") for row in rows + wanted] == [left_out, left_out, [], []]
    assert rows == wanted


@pytest.mark.parametrize(
    "line", ["compare more.csv --bank bank.json --item-error none -o out", "predict bank.json more.csv"]
)
def test_the_same_of_other_commands(folder: Path, line: str) -> None:
    ended = run(f"{line} --json", cwd=folder)
    assert LINE in ended.err.splitlines()
    found = ended.json if line.startswith("compare") else ended.json[0]
    assert [item["item_id"] for item in found["items_left_out"]] == ["removed", "check"]


def test_a_large_file_says_the_same(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irtbench.cli.score.LARGE_TEXT", 1)
    ended = run(f"score bank.json more.csv -o {tmp_path}/s.csv --json", cwd=folder)
    assert {item["item_id"] for item in ended.json["items_left_out"]} == {"check", "removed"}
    assert "2 items left out, as in the bank's own study" in ended.err


def test_labels_of_another_vocabulary_are_refused_and_mapped(folder: Path) -> None:
    frame = pd.read_csv(folder / "systems.csv")
    frame["answer"] = frame["answer"].map({"yes": "2", "no": "1"})
    frame.to_csv(folder / "codes.csv", index=False)
    refused("score bank.json codes.csv", saying="no answer is the key of any item: 1, 2; ... --map OLD=NEW", cwd=folder)
    mapped = run("score bank.json codes.csv --map 2=yes,1=no --json", cwd=folder).json
    assert mapped == run("score bank.json systems.csv --json", cwd=folder).json
