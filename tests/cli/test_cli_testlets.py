"""``irtbench fit --testlets``: files, sentences, where the testlets are read from, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import refused, run
from irtbench.data.input_error import InputError
from irtbench.data.readers.item_table import read_testlets


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two passages of four items and two items in none: a wide table with a table of items, and a long table."""
    rng = np.random.default_rng(0)
    own = rng.normal(size=(400, 3)) * [1.5, 1.2, 0]
    z = 1.3 * rng.normal(size=(400, 1)) + own[:, [0] * 4 + [1] * 4 + [2] * 2] + np.linspace(-1, 1, 10)
    names = [f"q{j}" for j in range(10)]
    wide = pd.DataFrame((rng.random(z.shape) < 1 / (1 + np.exp(-z))).astype(int), columns=names)
    path = tmp_path_factory.mktemp("testlets")
    wide.insert(0, "respondent_id", [f"r{i}" for i in range(400)])
    wide.to_csv(path / "wide.csv", index=False)
    items = pd.DataFrame({"item_id": names, "passage": ["A"] * 4 + ["B"] * 4 + [""] * 2})
    items["twin_of"] = ["", "q0", "", "q2", "", "q4", "", "q6", "", ""]
    items.to_csv(path / "items.csv", index=False)
    long = wide.melt("respondent_id", var_name="item_id")
    long.rename(columns={"value": "response"}).merge(items).to_csv(path / "long.csv", index=False)
    return path


@pytest.mark.slow
def test_testlets_of_a_long_table_and_of_a_table_of_items_are_the_same(folder: Path, tmp_path: Path) -> None:
    done = run(f"fit {folder}/long.csv --testlets passage -o {tmp_path}/long")
    assert "model preferred: bifactor" in done.out
    assert "any effect of testlets (equal slopes against none): likelihood ratio" in done.out
    assert "omega_h" in done.out
    assert "as if there were none" in done.out
    items = pd.read_csv(tmp_path / "long" / "items.csv", keep_default_na=False)
    assert list(items["testlet"]) == ["A"] * 4 + ["B"] * 4 + [""] * 2
    assert (items["model"] == "bifactor").all()
    assert (items["slope_specific"][8:].astype(float) == 0).all()
    found = json.loads((tmp_path / "long" / "fit.json").read_text())
    assert found["model"] == "bifactor"
    assert found["n_parameters"] == 28
    assert found["converged"]
    assert found["mean_se"] > found["mean_se_one_ability"]
    assert [row["testlet"] for row in found["testlets"]] == ["A", "B"]
    assert found["likelihood_ratio_test"]["p"] < 1e-6
    scores = pd.read_csv(tmp_path / "long" / "scores.csv")
    assert list(scores.columns[-4:]) == ["theta", "se", "theta_one_ability", "se_one_ability"]
    assert len(scores) == 400
    assert not (tmp_path / "long" / "bank.json").exists()
    arguments = ("--testlets", "passage", "--item-table", folder / "items.csv", "--json")
    other = run(f"fit {folder}/wide.csv", *arguments, "-o", tmp_path / "wide").json
    assert other["log_likelihood"] == pytest.approx(found["log_likelihood"], abs=1e-6)
    refused(
        f"items diagnose {folder}/wide.csv --items long/items.csv -o no",
        saying="column slope_specific: items of several abilities; expected one ability",
        cwd=tmp_path,
    )
    refused(f"score long/items.csv {folder}/wide.csv -o scores.csv", saying="items of several abilities", cwd=tmp_path)


def test_twins_are_testlets_of_two_and_their_slopes_equal(folder: Path, tmp_path: Path) -> None:
    arguments = ("--testlets", "twin_of", "--item-table", folder / "items.csv")
    done = run(f"fit {folder}/wide.csv", *arguments, "-o", tmp_path / "twins")
    assert "one specific slope for both items of q0, q2, q4, q6, whose product alone could be known" in done.out
    items = pd.read_csv(tmp_path / "twins" / "items.csv")
    np.testing.assert_allclose(items["slope_specific"][0:8:2], items["slope_specific"][1:8:2])


def test_what_is_no_column_of_testlets_is_refused(folder: Path, tmp_path: Path) -> None:
    wide, items = folder / "wide.csv", folder / "items.csv"
    no = ("-o", tmp_path / "no")
    refused(f"fit {wide} --testlets passage", *no, saying="--item-table")
    refused(f"fit {wide} --testlets none --item-table {items}", *no, saying="none")
    refused(f"fit {wide} --item-table {items}", *no, saying="expected --testlets COLUMN")
    refused(f"fit {wide} --specific-slopes equal", *no, saying="expected --testlets COLUMN")
    for other in (("--model", "3pl"), ("--factors", "2"), ("--prior", "weak"), ("--guessing", "0.2")):
        refused(f"fit {wide} --testlets passage --item-table {items}", *other, *no, saying="--testlets: goes with")
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("text", "saying"),
    [
        ("item_id,set\na,1\na,2\n", "item a has both 1 and 2; expected one"),
        ("item_id,set\na,\nb,\n", "no item has a testlet"),
        ("item_id,set\n,1\n", "item_id"),
        ("item_id,other\na,1\n", "set"),
    ],
)
def test_tables_that_say_no_testlet_of_each_item(text: str, saying: str, tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text(text)
    with pytest.raises(InputError, match=saying):
        read_testlets(tmp_path / "items.csv", "set")
