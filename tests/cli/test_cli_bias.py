"""``irtbench items bias``: its files, and one line for what is wrong."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import refused, run
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.simulation import simulate_responses

COLUMNS = ["item_id", "delta", "size", "rms_difference", "r2_change", "x2", "df", "p", "p_adjusted"]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """People and machines; one item is far harder for machines, and one everybody got right."""
    folder = tmp_path_factory.mktemp("bias")
    rng = np.random.default_rng(0)
    a, b = rng.uniform(1, 2, 10), rng.normal(0, 1, 10)
    tables, groups = [], []
    for name, size, shift in (("people", 500, 0.0), ("machines", 200, 1.8)):
        items = ItemParameters.from_difficulty(a, b + np.eye(10)[4] * shift)
        ids = [f"{name}{i}" for i in range(size)]
        tables.append(simulate_responses(rng.normal(size=size), items, rng=rng, respondent_ids=ids).to_long())
        tables.append(pd.DataFrame({"respondent_id": ids, "item_id": "easy", "response": 1}))
        groups.append(pd.DataFrame({"respondent_id": ids, "group": name}))
    pd.concat(tables).astype({"response": int}).to_csv(folder / "responses.csv", index=False)
    pd.concat(groups).to_csv(folder / "groups.csv", index=False)
    return folder


@pytest.mark.parametrize("method", ["likelihood_ratio", "logistic"])
def test_bias_writes_its_files_and_finds_the_item(study: Path, tmp_path: Path, method: str) -> None:
    found = run(
        f"items bias {study}/responses.csv --groups {study}/groups.csv -o {tmp_path}/out --method {method} --json"
    ).json
    assert found["flagged"] == ["item5"]
    assert (found["reference"], found["focal"]) == ("people", "machines")
    assert (found["n_reference"], found["n_focal"]) == (500, 200)
    assert found["items_left_out"] == ["easy"]
    table = pd.read_csv(tmp_path / "out" / "bias.csv").set_index("item_id", drop=False)
    assert list(table)[: len(COLUMNS)] == COLUMNS
    assert table.loc["item5", "delta"] < -1.5
    if method == "likelihood_ratio":
        return
    turned = run(
        f"items bias responses.csv --groups groups.csv -o {tmp_path}/turned --focal people --method {method} --json",
        cwd=study,
    )
    assert {row["item_id"]: row for row in turned.json["items"]}["item5"]["delta"] > 1.5


@pytest.mark.parametrize("method", [pytest.param("likelihood", marks=pytest.mark.slow), "mantel-haenszel"])
def test_what_the_item_does_to_the_test_is_said_and_drawn(study: Path, tmp_path: Path, method: str) -> None:
    given = ("bias", study / "responses.csv", "--groups", study / "groups.csv", "--method", method)
    done = run(
        *given, "-o", tmp_path / "out", "--figures", "--match", "score" if method == "mantel-haenszel" else "ability"
    )
    assert "on the whole test, equally able machines score -0." in done.out
    assert "without the items that differ, ability of machines changes by +0." in done.out
    test = pd.read_csv(tmp_path / "out" / "test_bias.csv").set_index("over")
    assert list(test)[:6] == ["group", "signed", "se_signed", "signed_lower", "signed_upper", "p"]
    assert test.loc["group", "signed_upper"] < -0.2  # of one point that a single item is worth
    change = pd.read_csv(tmp_path / "out" / "ability_change.csv")
    assert len(change) == 700
    assert change.groupby("group")["change"].mean()["machines"] > 0.1
    said = json.loads((tmp_path / "out" / "bias.json").read_text())
    assert {row["group"] for row in said["leaving_out"]} == {"people", "machines"}
    for name in ("item_curves.svg", "test_curves.svg"):
        assert "<svg" in (tmp_path / "out" / name).read_text()
    # without an item that differs there is nothing to say, and what was said before is gone
    run(*given, "-o", tmp_path / "out", "--alpha", "1e-300", "--no-purify")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["bias.csv", "bias.json"]


@pytest.mark.slow
def test_an_item_that_a_group_answers_all_alike_is_named(study: Path, tmp_path: Path) -> None:
    table = pd.read_csv(study / "responses.csv")
    table.loc[table["respondent_id"].str.startswith("machines") & (table["item_id"] == "item5"), "response"] = 0
    table.to_csv(tmp_path / "responses.csv", index=False)
    given = ("bias", tmp_path / "responses.csv", "--groups", study / "groups.csv", "-o", tmp_path / "out")
    found = run(*given, "--json").json
    assert found["flagged"] == ["item5"]
    assert found["test_not_available"] == "answered all alike by a group, and not in it: item5"


@pytest.mark.parametrize(
    ("groups", "options", "saying"),
    [
        ("who,group\npeople0,a\n", [], "column 'respondent_id' missing"),
        ("respondent_id,group\npeople0,a\npeople0,b\n", [], "respondent people0 has both a and b"),
        ("respondent_id,group\npeople0,a\npeople1,a\n", [], "expected respondents of two groups"),
        ("respondent_id,group\npeople0,a\npeople1,b\npeople2,c\n", [], "3 groups"),
        ("respondent_id,group\npeople0,a\npeople1,b\n", ["--focal", "z"], "no respondent is in group z"),
        ("respondent_id,group\npeople0,a\npeople1,b\n", [], "expected at least 10"),
        ("respondent_id,group\npeople0,a\npeople1,b\n", ["--focal", "a", "--reference", "a"], "two groups"),
    ],
)
def test_groups_that_cannot_be_compared_are_refused(
    study: Path, tmp_path: Path, groups: str, options: list[str], saying: str
) -> None:
    (tmp_path / "groups.csv").write_text(groups)
    refused(
        f"items bias {study}/responses.csv --groups {tmp_path}/groups.csv -o {tmp_path}/out", *options, saying=saying
    )
    assert [file.name for file in tmp_path.iterdir()] == ["groups.csv"]


@pytest.mark.slow
def test_the_model_and_its_prior_are_chosen_and_reported(study: Path, tmp_path: Path) -> None:
    found = {}
    for model, prior in (("2pl", "none (marginal maximum likelihood)"), ("3pl", "c ~ Beta(4, 16)")):
        found[model] = run(
            f"items bias responses.csv --groups groups.csv -o {tmp_path}/{model} --model {model} --options 5 --json",
            cwd=study,
        ).json
        assert found[model]["model"] == model
        assert prior in found[model]["prior"]
        assert found[model]["converged"]
        assert found[model]["flagged"] == ["item5"]
    assert found["2pl"]["focal_mean"] != found["3pl"]["focal_mean"]
    refused(
        f"items bias responses.csv --groups groups.csv -o {tmp_path}/out --model 3pl --method logistic",
        saying="logistic regression knows no guessing",
        cwd=study,
    )


def test_mantel_haenszel_writes_the_columns_agreed_on(study: Path, tmp_path: Path) -> None:
    found = run(
        f"items bias responses.csv --groups groups.csv -o {tmp_path}/out --method mantel-haenszel --json", cwd=study
    ).json
    assert found["flagged"] == ["item5"]
    assert found["groups"] == {"people": 500, "machines": 200}
    table = pd.read_csv(tmp_path / "out" / "bias.csv").set_index("item_id", drop=False)
    assert list(table)[:8] == ["item_id", "chi2", "df", "p", "p_adjusted", "odds_ratio", "delta", "ets_class"]
    assert table.loc["item5", "ets_class"] == "C"
    assert table.loc["item5", "delta"] < -1.5
    assert not table.loc["item5", "anchor"]
    kept = run(
        f"items bias responses.csv --groups groups.csv -o {tmp_path}/kept --method mantel-haenszel --no-purify --json",
        cwd=study,
    )
    assert kept.json["rounds"] == 1


@pytest.mark.parametrize("method", ["mantel-haenszel", "logistic"])
def test_three_groups_are_compared_at_the_same_score(study: Path, tmp_path: Path, method: str) -> None:
    groups = pd.read_csv(study / "groups.csv")
    groups.loc[groups.index[:200], "group"] = "children"
    groups.to_csv(tmp_path / "groups.csv", index=False)
    given = ("bias", study / "responses.csv", "--groups", tmp_path / "groups.csv", "--method", method)
    found = run(*given, "-o", tmp_path / "out", "--match", "score", "--reference", "people", "--json").json
    assert found["groups"] == {"people": 300, "children": 200, "machines": 200}
    assert found["flagged"] == ["item5"]
    assert set(pd.read_csv(tmp_path / "out" / "bias.csv")["df"]) == {2 if method == "mantel-haenszel" else 4}
    two = run(*given, "-o", tmp_path / "two", "--match", "score", "--reference", "people", "--focal", "machines")
    assert "machines against people" in two.out
    assert "clean items are flagged too often" in " ".join(two.out.split())
    assert "confirm with --method likelihood" in found["caution"]


@pytest.mark.parametrize(
    ("options", "saying"),
    [
        (["--method", "mantel-haenszel", "--match", "ability"], "compares respondents of equal score"),
        (["--method", "likelihood", "--match", "score"], "compares the equally able"),
        (["--method", "mantel-haenszel", "--model", "3pl"], "a sum score knows no model"),
    ],
)
def test_what_does_not_go_together_is_refused(study: Path, tmp_path: Path, options: list[str], saying: str) -> None:
    refused(f"items bias {study}/responses.csv --groups {study}/groups.csv -o {tmp_path}/out", *options, saying=saying)
