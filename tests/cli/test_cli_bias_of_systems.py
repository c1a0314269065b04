"""``irtbench items bias SYSTEMS --bank BANK``: its files, families, the control, one line for what is wrong."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import refused, run
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.simulation import simulate_responses


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Known items, people, and 20 systems of 10 families for which item3 is far harder."""
    folder = tmp_path_factory.mktemp("systems")
    rng = np.random.default_rng(0)
    items = ItemParameters.from_difficulty(rng.uniform(1, 2, 20), np.linspace(-2, 2, 20))
    harder = ItemParameters.from_difficulty(items.discrimination, items.difficulty + 3 * np.eye(20)[2])
    items.table().to_csv(folder / "items.csv", index=False)
    simulate_responses(rng.normal(size=300), items, rng=rng).to_long().to_csv(folder / "people.csv", index=False)
    ids = [f"s{k}" for k in range(20)]
    values = simulate_responses(rng.normal(0.5, 0.5, 20), harder, rng=rng, respondent_ids=ids).to_long()
    extra = pd.DataFrame({"respondent_id": ids, "item_id": "new", "response": 1})
    pd.concat([values, extra]).astype({"response": int}).to_csv(folder / "systems.csv", index=False)
    pd.DataFrame({"respondent_id": ids, "group": [f"f{k // 2}" for k in range(20)]}).to_csv(
        folder / "families.csv", index=False
    )
    return folder


def test_systems_against_the_people_of_a_bank(study: Path, tmp_path: Path) -> None:
    given = ("bias", study / "systems.csv", "--bank", study / "items.csv", "-o", tmp_path / "out")
    found = run(*given, "--json").json
    assert found["flagged"] == ["item3"]
    assert found["items_left_out"] == ["new"]
    assert (found["n_systems"], found["n_items"], found["method"]) == (20, 20, "random_effects")
    assert found["tau_lower"] <= found["tau"] <= found["tau_upper"]
    table = pd.read_csv(tmp_path / "out" / "bias.csv").set_index("item_id")
    assert list(table)[:5] == ["shift", "se", "shift_lower", "shift_upper", "delta"]
    assert table.loc["item3", "shift_upper"] < 0
    assert pd.read_csv(tmp_path / "out" / "systems.csv")["respondent_id"].tolist() == [f"s{k}" for k in range(20)]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["bias.csv", "bias.json", "systems.csv"]


@pytest.mark.slow
def test_families_and_the_control_are_said(study: Path, tmp_path: Path) -> None:
    done = run(
        "items bias systems.csv --bank items.csv --families families.csv --control people.csv --permutations 3 "
        f"-o {tmp_path}/out",
        cwd=study,
    )
    assert "10 families: what a family's systems share" in done.out
    assert "people in their place, 3 times" in done.out
    said = json.loads((tmp_path / "out" / "bias.json").read_text())
    assert said["n_families"] == 10
    assert said["control"]["n_groups"] == len(pd.read_csv(tmp_path / "out" / "control.csv")) == 3
    assert said["control"]["mean_tau"] < said["tau"]
    assert "family" in pd.read_csv(tmp_path / "out" / "systems.csv")


@pytest.mark.parametrize(
    ("options", "saying"),
    [
        ("", "expected --groups G, or --bank BANK"),
        ("--families families.csv", "--families: goes with --bank alone"),
        ("--bank items.csv --groups families.csv", "--groups does not go with it"),
        ("--bank items.csv --method logistic", "--method does not go with it"),
        ("--bank items.csv --control items.csv", "item"),
    ],
)
def test_what_does_not_go_together_is_refused(study: Path, tmp_path: Path, options: str, saying: str) -> None:
    refused(f"items bias systems.csv -o {tmp_path}/out {options}", saying=saying, cwd=study)


def test_several_trials_and_foreign_items_are_refused(study: Path, tmp_path: Path) -> None:
    table = pd.read_csv(study / "systems.csv")
    pd.concat([table.assign(trial=1), table.assign(trial=2)]).to_csv(tmp_path / "trials.csv", index=False)
    given = ("--bank", study / "items.csv", "-o", tmp_path / "out")
    refused(f"items bias {tmp_path}/trials.csv", *given, saying="several trials of an item")
    table.assign(item_id="x" + table["item_id"]).to_csv(tmp_path / "foreign.csv", index=False)
    refused(f"items bias {tmp_path}/foreign.csv", *given, saying="none of its items is among the responses")
