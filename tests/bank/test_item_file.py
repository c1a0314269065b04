"""A table of items, and py-irt's estimates, in the place of a bank."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import run
from irtbench.bank.bank import load_bank
from irtbench.models.curves import icc
from irtbench.models.item_parameters import ItemParameters
from irtbench.scoring.ability import eap

ABILITY = np.array([-1.0, 0.5, 2.0, 4.5])
THEIRS = {
    "ability": ABILITY.tolist(),
    "diff": [-0.3, 1.2, 2.0],
    "disc": [0.8, 1.5, 0.7],
    "irt_model": "2pl",
    "item_ids": {"0": "q1", "1": "q2", "2": "q3"},
    "subject_ids": {"0": "a", "1": "b", "2": "c", "3": "d"},
}


@pytest.fixture
def estimated(tmp_path: Path) -> Path:
    (tmp_path / "best_parameters.json").write_text(json.dumps(THEIRS))
    return tmp_path / "best_parameters.json"


def test_scores_by_a_table_are_those_by_its_items(tmp_path: Path) -> None:
    items = ItemParameters.from_difficulty([1.5, 1.0, 2.0], [-1.0, 0.0, 1.0])
    items.table().assign(key=["a", "b", "c"]).to_csv(tmp_path / "items.csv", index=False)
    (scale,) = load_bank(tmp_path / "items.csv").scales
    assert (scale.name, scale.norms) == ("all", None)
    (tmp_path / "r.csv").write_text("respondent_id,item_id,response\ns,item1,1\ns,item2,1\ns,item3,0\n")
    run(f"score {tmp_path}/items.csv {tmp_path}/r.csv -o {tmp_path}/scores.csv --quiet")
    found = pd.read_csv(tmp_path / "scores.csv")
    assert found["theta"][0] == pytest.approx(eap([[1, 1, 0]], items).theta[0])
    # and answers by its keys
    (tmp_path / "a.csv").write_text("respondent_id,item_id,answer\ns,item1,a\ns,item2,b\ns,item3,d\n")
    run(f"score {tmp_path}/items.csv {tmp_path}/a.csv -o {tmp_path}/again.csv --quiet")
    assert pd.read_csv(tmp_path / "again.csv")["theta"][0] == found["theta"][0]


def test_py_irt_converted_scores_as_py_irt_itself_says(estimated: Path, tmp_path: Path) -> None:
    run("convert", estimated, "-o", tmp_path / "items.csv")
    (scale,) = load_bank(tmp_path / "items.csv").scales
    theirs = 1 / (1 + np.exp(-np.array(THEIRS["disc"]) * (ABILITY[:, None] - np.array(THEIRS["diff"]))))
    np.testing.assert_allclose(icc((ABILITY - ABILITY.mean()) / ABILITY.std(), scale.items), theirs, rtol=1e-12)
    (tmp_path / "r.jsonl").write_text('{"subject_id": "m", "responses": {"q1": 1, "q3": 0}}\n')
    for number, bank in enumerate((estimated, tmp_path / "items.csv")):
        run(f"score {bank} {tmp_path}/r.jsonl -o {tmp_path}/{number}.csv --quiet")
    assert (tmp_path / "0.csv").read_text() == (tmp_path / "1.csv").read_text()
    assert pd.read_csv(tmp_path / "0.csv")["n_items"].tolist() == [2]
