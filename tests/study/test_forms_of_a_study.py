"""`[forms]` of a study file: the same forms as `assemble` makes of the study's bank; a wish too many stops nothing."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import run
from irtbench.models.curves import simulate_responses

STUDY = """[data]
answers = "answers.csv"
content = "responses"
items = "items.csv"
where = { set = "one" }
[pruning]
preset = "none"
[forms]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    rng = np.random.default_rng(1)
    items = irtbench.ItemParameters.from_difficulty(rng.uniform(0.8, 2, 12), rng.normal(size=12))
    simulate_responses(rng.normal(size=300), items, rng=rng).to_long().to_csv(folder / "answers.csv", index=False)
    table = pd.DataFrame({"item_id": items.item_ids, "topic": ["x", "y", "z"] * 4, "set": "one"})
    other = pd.DataFrame({"item_id": ["other"], "topic": ["x"], "set": ["two"]})
    pd.concat([other, table]).to_csv(folder / "items.csv", index=False)
    return folder


def test_forms_are_those_of_the_bank(folder: Path) -> None:
    (folder / "study.toml").write_text(
        f'{STUDY}length = 4\nlimits = [{{ column = "topic", value = "x", at_least = 2 }}]\n'
    )
    run(f"build {folder}/study.toml -o {folder}/out -q")
    form = pd.read_csv(folder / "out" / "form.csv")
    assert (form["topic"] == "x").sum() >= 2
    bank = irtbench.load_bank(folder / "out" / "bank.json")
    columns = pd.read_csv(folder / "items.csv")
    again = irtbench.assemble_forms(bank, length=4, limits=[irtbench.Limit("topic", "x", 2)], columns=columns)
    assert form["item_id"].tolist() == list(again.forms[0])
    assert json.loads((folder / "out" / "form.json").read_text())["optimal"] is True
    assert irtbench.load_bank(folder / "out" / "form_bank.json").scales[0].items.item_ids == again.forms[0]


def test_a_wish_that_cannot_be_met_leaves_the_rest(folder: Path) -> None:
    (folder / "long.toml").write_text(f"{STUDY}length = 40\n")
    done = run(f"build {folder}/long.toml -o {folder}/long -q")
    assert "no form: no form of the bank's 12 items meets all wishes; this has to give way: length 40" in done.err
    assert (folder / "long" / "bank.json").exists()
    assert not (folder / "long" / "form.csv").exists()
