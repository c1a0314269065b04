"""``irtbench evaluate breakdown`` as a user meets it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import refused, run
from irtbench.bank.bank import ItemBank, save_bank
from irtbench.bank.scale import Scale
from irtbench.data.items import ItemTable
from irtbench.models.item_parameters import ItemParameters


@pytest.fixture
def study(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    items = pd.DataFrame(
        {"item_id": [f"i{k}" for k in range(60)], "kind": ["x", "y", "x; y"] * 20, "set": ["a", "b"] * 30}
    )
    items.to_csv(tmp_path / "items.csv", index=False)
    rows = [
        (system, item, int(rng.random() < p)) for system, p in (("m", 0.8), ("n", 0.4)) for item in items["item_id"]
    ]
    pd.DataFrame(rows, columns=["respondent_id", "item_id", "response"]).to_csv(tmp_path / "r.csv", index=False)
    return tmp_path


def arguments(study: Path, *more: object) -> list[object]:
    return [
        "evaluate",
        "breakdown",
        study / "r.csv",
        "--items",
        study / "items.csv",
        "--type",
        "kind",
        "--separator",
        ";",
        *more,
    ]


def test_it_writes_tables_a_json_and_figures(study: Path) -> None:
    found = run(*arguments(study, "-o", study / "out", "--json")).json
    names = sorted(file.name for file in (study / "out").iterdir())
    assert [name for name in names if name.endswith(".csv")] == ["advantage.csv", "breakdown.csv", "types.csv"]
    assert [name for name in names if name.endswith(".svg")] == ["advantage_1.svg", "breakdown.svg"]
    assert json.loads((study / "out" / "breakdown.json").read_text()) == found
    assert [(row["type"], row["n_items"], row["n_only"]) for row in found["types"]] == [("x", 40, 20), ("y", 40, 20)]
    assert found["overlaps"][0]["n_shared"] == 20
    accuracy = pd.read_csv(study / "out" / "breakdown.csv")
    responses = pd.read_csv(study / "r.csv").query("respondent_id == 'm'")["response"].to_numpy()
    own = accuracy.query("respondent_id == 'm' and type == 'x'").iloc[0]
    assert own["accuracy"] == responses[np.arange(60) % 3 != 1].mean()
    advantage = pd.read_csv(study / "out" / "advantage.csv")
    assert list(advantage["type"]) == ["(all items)", "x", "y"]
    assert (advantage["advantage"] > 0).all()


def test_types_that_overlap_are_named_and_items_can_be_chosen(study: Path) -> None:
    assert "share items and are not independent" in run(*arguments(study)).out
    part = run(*arguments(study, "--where", "set=a", "--system", "m", "--json")).json
    assert (part["n_items"], part["advantage"]) == (30, None)
    against = run(*arguments(study, "--against", "m", "--json")).json["advantage"]
    assert {(row["first"], row["second"]) for row in against} == {("n", "m")}


def test_a_bank_adds_difficulty_and_discrimination_by_type(study: Path) -> None:
    parameters = ItemParameters.from_difficulty([1.0, 2.0, 1.5], [-1.0, 0.0, 2.0], item_ids=["i0", "i3", "i1"])
    save_bank(ItemBank((Scale("all", parameters, ItemTable.plain(parameters.item_ids)),)), study / "bank.json")
    found = run(*arguments(study, "--bank", study / "bank.json", "--json")).json
    mean = {(row["figure"], row["type"]): row["mean"] for row in found["parameters"]}
    assert mean["difficulty", "x"] == pytest.approx(-0.5)  # i0 and i3
    assert mean["discrimination", "y"] == pytest.approx(1.5)  # i1


@pytest.mark.parametrize(
    ("more", "saying"),
    [
        (["--type", "sort"], "column 'sort' missing"),
        (["--system", "z"], "--system z"),
        (["--against", "z"], "--against z"),
        (["--where", "set=c"], "no item with set = c"),
        (["--level", "95"], "level"),
        (["--bank", "items.csv"], "bank"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(study: Path, more: list[str], saying: str) -> None:
    refused(*arguments(study, *more, "-o", study / "out"), saying=saying)
    assert not (study / "out").exists()


def test_items_without_a_row_are_named_in_one_line(study: Path) -> None:
    with (study / "r.csv").open("a") as file:
        file.write("m,i99,1\n")
    refused(*arguments(study), saying="unknown item i99")
