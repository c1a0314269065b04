"""``irtbench items bias``: of right and wrong, of grades, and of systems against the people of a bank."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import run
from irtbench.models.curves import simulate_responses
from irtbench.models.item_parameters import ItemParameters

# --- bias

COLUMNS = {
    "likelihood_ratio": ["item_id", "delta", "size", "rms_difference", "r2_change", "x2", "df", "p", "p_adjusted"],
    "mantel-haenszel": ["item_id", "chi2", "df", "p", "p_adjusted", "odds_ratio", "delta", "ets_class"],
}
BIAS = "items bias responses.csv --groups groups.csv -o"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """People and machines; one item is far harder for machines, and one everybody got right."""
    folder = tmp_path_factory.mktemp("bias")
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 2, 10), rng.normal(0, 1, 10)
    tables, groups = [], []
    for name, size, shift in (("people", 300, 0.0), ("machines", 200, 1.8)):
        items = ItemParameters.from_difficulty(a, b + np.eye(10)[4] * shift)
        ids = [f"{name}{i}" for i in range(size)]
        tables.append(simulate_responses(rng.normal(size=size), items, rng=rng, respondent_ids=ids).to_long())
        tables.append(pd.DataFrame({"respondent_id": ids, "item_id": "easy", "response": 1}))
        groups.append(pd.DataFrame({"respondent_id": ids, "group": name}))
    pd.concat(tables).astype({"response": int}).to_csv(folder / "responses.csv", index=False)
    pd.concat(groups).to_csv(folder / "groups.csv", index=False)
    return folder


@pytest.mark.parametrize("method", COLUMNS)
def test_the_item_is_found_and_written_with_the_columns_agreed_on(study: Path, tmp_path: Path, method: str) -> None:
    found = run(f"{BIAS} {tmp_path}/out --method {method} --json", cwd=study).json
    assert found["flagged"] == ["item5"]
    table = pd.read_csv(tmp_path / "out" / "bias.csv").set_index("item_id", drop=False)
    assert list(table)[: len(COLUMNS[method])] == COLUMNS[method]
    assert table.loc["item5", "delta"] < -1.5
    if method == "likelihood_ratio":
        assert [found[name] for name in ("reference", "focal", "n_reference", "n_focal")] == [
            "people", "machines", 300, 200,
        ]  # fmt: skip
        assert found["items_left_out"] == ["easy"]
    else:
        assert found["groups"] == {"people": 300, "machines": 200}
        assert (table.loc["item5", "ets_class"], table.loc["item5", "anchor"]) == ("C", False)
        line = f"{BIAS} {tmp_path}/kept --method {method} --json"
        assert run(f"{line} --no-purify", cwd=study).json["rounds"] == 1
        turned = run(f"{line} --focal people", cwd=study).json
        assert {row["item_id"]: row for row in turned["items"]}["item5"]["delta"] > 1.5


@pytest.mark.usefixtures("drawn_files")
def test_what_the_item_does_to_the_test_is_printed_and_drawn(study: Path, tmp_path: Path) -> None:
    line, out = f"{BIAS} {tmp_path}/out --method mantel-haenszel", tmp_path / "out"
    done = run(f"{line} --figures --match score", cwd=study)
    assert "on the whole test, equally able machines score -0." in done.out
    assert "without the items that differ, ability of machines changes by +0." in done.out
    test = pd.read_csv(out / "test_bias.csv").set_index("over")
    assert list(test)[:6] == ["group", "signed", "se_signed", "signed_lower", "signed_upper", "p"]
    assert test.loc["group", "signed_upper"] < -0.2  # of one point that a single item is worth
    assert pd.read_csv(out / "ability_change.csv").groupby("group")["change"].mean()["machines"] > 0.1
    assert {row["group"] for row in json.loads((out / "bias.json").read_text())["leaving_out"]} == {
        "people", "machines",
    }  # fmt: skip
    assert all("<svg" in (out / name).read_text() for name in ("item_curves.svg", "test_curves.svg"))
    # without an item that differs there is nothing to say, and what was said before is gone
    run(f"{line} --alpha 1e-300 --no-purify", cwd=study)
    assert sorted(path.name for path in out.iterdir()) == ["bias.csv", "bias.json"]


@pytest.mark.slow
def test_the_model_is_chosen_and_an_item_that_a_group_answers_all_alike_is_named(study: Path, tmp_path: Path) -> None:
    table = pd.read_csv(study / "responses.csv")
    table.loc[table["respondent_id"].str.startswith("machines") & (table["item_id"] == "item5"), "response"] = 0
    table.to_csv(tmp_path / "responses.csv", index=False)
    line = f"items bias responses.csv --groups {study}/groups.csv -o out --model 3pl --options 5 --json"
    found = run(line, cwd=tmp_path).json
    assert (found["model"], found["converged"], found["flagged"]) == ("3pl", True, ["item5"])
    assert "c ~ Beta(4, 16)" in found["prior"]
    assert found["test_not_available"] == "answered all alike by a group, and not in it: item5"


def test_three_groups_are_compared_at_the_same_score(study: Path, tmp_path: Path) -> None:
    groups = pd.read_csv(study / "groups.csv")
    groups.loc[groups.index[:120], "group"] = "children"
    groups.to_csv(tmp_path / "groups.csv", index=False)
    line = f"items bias {study}/responses.csv --groups groups.csv --method logistic --match score --reference people"
    found = run(f"{line} -o out --json", cwd=tmp_path).json
    assert found["groups"] == {"people": 180, "children": 120, "machines": 200}
    assert found["flagged"] == ["item5"]
    assert set(pd.read_csv(tmp_path / "out" / "bias.csv")["df"]) == {4}
    assert "confirm with --method likelihood" in found["caution"]
    two = run(f"{line} -o two --focal machines", cwd=tmp_path)
    assert "machines against people" in two.out
    assert "clean items are flagged too often" in " ".join(two.out.split())


# --- bias grades


def test_the_prompt_graded_lower_is_found(tmp_path: Path) -> None:
    """Of labels of 150 people and 150 machines on four prompts; the machines' first is graded lower."""
    rng = np.random.default_rng(5)
    theta, machine = rng.normal(size=(300, 1, 1)), np.arange(300) >= 150
    lower = 1.2 * machine[:, None, None] * (np.arange(4) == 0)[:, None]
    steps = np.array([-0.8, 0.6]) + rng.normal(0, 0.5, (4, 1)) + lower
    score = (1.4 * (theta - steps) + rng.logistic(size=(300, 4, 1)) > 0).sum(axis=2)
    names = [f"r{k}" for k in range(300)]
    wide = pd.DataFrame(np.array(["poor", "fair", "good"])[score], columns=[f"p{k}" for k in range(4)])
    long = wide.assign(respondent_id=names).melt("respondent_id", var_name="item_id", value_name="score")
    long.to_csv(tmp_path / "labels.csv", index=False)
    groups = pd.DataFrame({"respondent_id": names, "group": np.where(machine, "machine", "person")})
    groups.to_csv(tmp_path / "groups.csv", index=False)
    line = "items bias labels.csv --groups groups.csv --model grm --levels poor,fair,good -o out"
    for options in ("--html page.html", "--method logistic --match score --figures ."):
        done = run(f"{line} {options}", cwd=tmp_path)
        assert json.loads((tmp_path / "out/bias.json").read_text())["flagged"] == ["p0"]
        assert "of grades it is not known" in done.out
        assert pd.read_csv(tmp_path / "out/bias.csv")["p"].idxmin() == 0


# --- bias of systems


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    families = pd.DataFrame({"respondent_id": ids, "group": [f"f{k // 2}" for k in range(20)]})
    families.to_csv(folder / "families.csv", index=False)
    return folder


def test_systems_against_the_people_of_a_bank(crowd: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = run(f"items bias systems.csv --bank items.csv -o {out} --json", cwd=crowd).json
    assert (found["flagged"], found["items_left_out"]) == (["item3"], ["new"])
    assert (found["n_systems"], found["n_items"], found["method"]) == (20, 20, "random_effects")
    table = pd.read_csv(out / "bias.csv").set_index("item_id")
    assert list(table)[:5] == ["shift", "se", "shift_lower", "shift_upper", "delta"]
    assert table.loc["item3", "shift_upper"] < 0
    assert pd.read_csv(out / "systems.csv")["respondent_id"].tolist() == [f"s{k}" for k in range(20)]
    assert sorted(path.name for path in out.iterdir()) == ["bias.csv", "bias.json", "systems.csv"]


@pytest.mark.slow
def test_families_and_the_control_are_reported(crowd: Path, tmp_path: Path) -> None:
    given = "--bank items.csv --families families.csv --control people.csv --permutations 3"
    done = run(f"items bias systems.csv {given} -o {tmp_path}/out", cwd=crowd)
    assert "10 families: what a family's systems share" in done.out
    assert "people in their place, 3 times" in done.out
    said = json.loads((tmp_path / "out" / "bias.json").read_text())
    assert said["n_families"] == 10
    assert said["control"]["n_groups"] == len(pd.read_csv(tmp_path / "out" / "control.csv")) == 3
    assert said["control"]["mean_tau"] < said["tau"]
    assert "family" in pd.read_csv(tmp_path / "out" / "systems.csv")
