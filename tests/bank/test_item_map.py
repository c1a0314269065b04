"""The map of items, and a table of items, or py-irt's estimates, in the place of a bank."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import run
from builders.refusals import is_refused
from builders.scales import bank_of

ITEMS = irtbench.ItemParameters.from_difficulty(
    [1.0, 2.0, 0.0, 1.5], [0.0, 1.0, 0.0, -2.0], [0.0, 0.25, 0.0, 0.0], item_ids=["a", "b", "c", "d"]
)


def test_py_irt_converted_scores_as_py_irt_itself_says(tmp_path: Path) -> None:
    """That the curves are its own is tested with its parameters."""
    theirs = {"ability": [-1.0, 0.5, 2.0, 4.5], "diff": [-0.3, 1.2, 2.0], "disc": [0.8, 1.5, 0.7], "irt_model": "2pl"}
    names = {"item_ids": {"0": "q1", "1": "q2", "2": "q3"}, "subject_ids": {str(k): "abcd"[k] for k in range(4)}}
    (tmp_path / "best_parameters.json").write_text(json.dumps(theirs | names))
    run("convert best_parameters.json -o items.csv", cwd=tmp_path)
    (tmp_path / "r.jsonl").write_text('{"subject_id": "m", "responses": {"q1": 1, "q3": 0}}\n')
    for number, bank in enumerate(("best_parameters.json", "items.csv")):
        run(f"score {bank} r.jsonl -o {number}.csv --quiet", cwd=tmp_path)
    assert (tmp_path / "0.csv").read_text() == (tmp_path / "1.csv").read_text()
    assert pd.read_csv(tmp_path / "0.csv")["n_items"].tolist() == [2]


def test_expectations_over_the_population() -> None:
    found = irtbench.item_map(ITEMS)
    # a: by symmetry 1/2; c does not depend on theta and tells nothing
    assert found.expected_correct[[0, 2]] == pytest.approx(0.5, abs=1e-12)
    assert found.information[2] == 0
    theta = np.linspace(-10, 10, 4001)
    weights = np.exp(-0.5 * theta**2) / np.exp(-0.5 * theta**2).sum()
    np.testing.assert_allclose(found.information, weights @ irtbench.information(theta, ITEMS), atol=1e-9)
    np.testing.assert_allclose(found.expected_correct, weights @ irtbench.icc(theta, ITEMS), atol=1e-9)
    assert found.share_of_information.sum() == pytest.approx(1)
    wide = irtbench.item_map(ITEMS, population=irtbench.normal_population(2.0, 1.0))
    assert (wide.expected_correct >= found.expected_correct).all()


def test_the_table_begins_with_the_hardest_and_the_extremes_are_the_ends() -> None:
    details = replace(irtbench.ItemTable.plain(ITEMS.item_ids), text=("first", "second", "third", "fourth"))
    found = irtbench.item_map(irtbench.Scale("s", ITEMS, details))
    table = found.table()
    assert (table["difficulty"].iloc[0], table["text"].iloc[0]) == (1.0, "second")
    assert table["item_id"].iloc[-2] == "d"  # c, without a slope, has no difficulty
    assert "key" not in table
    ends = found.extremes(1).set_index(["measure", "end"])["item_id"]
    assert list(ends.index[:2]) == [("difficulty", "highest"), ("difficulty", "lowest")]
    assert ends["discrimination", "highest"] == "b"
    assert ends["discrimination", "lowest"] == ends["information", "lowest"] == "c"
    assert len(irtbench.item_map(ITEMS.select(["a"])).extremes()) == 3


def test_a_bank_and_a_table_of_items_are_read_alike(tmp_path) -> None:
    table, named = tmp_path / "items.csv", ["discrimination", "intercept", "guessing"]
    irtbench.save_bank(bank_of(ITEMS), tmp_path / "bank.json")
    ITEMS.table().to_csv(table, index=False)
    for file in (tmp_path / "bank.json", table):
        (read,) = irtbench.read_bank(file).scales
        pd.testing.assert_frame_equal(read.items.table()[named], ITEMS.table()[named])
        assert read.population is None
    stated = ITEMS.table().assign(population_mean=0.5, population_sd=2.0)
    stated.to_csv(table, index=False)
    population = irtbench.read_bank(table).scales[0].population
    assert population.weights @ population.nodes == pytest.approx(0.5)
    several = stated.assign(scale=stated["item_id"], population_mean=np.arange(len(stated)) / 2)
    several.to_csv(tmp_path / "several.csv", index=False)
    means = [
        scale.population.weights @ scale.population.nodes
        for scale in irtbench.load_bank(tmp_path / "several.csv").scales
    ]
    np.testing.assert_allclose(means, several["population_mean"], atol=1e-9)
    for column, value, said in (
        ("population_sd", 0.0, "above 0"), ("population_sd", "x", "expected a number"),
        ("population_mean", "", "column population_mean"), ("population_sd", [1.0, 2, 2, 2], "the same for every item"),
    ):  # fmt: skip
        stated.assign(**{column: value}).to_csv(table, index=False)
        is_refused(said, irtbench.read_bank, table)
    is_refused("cannot be read", irtbench.read_bank, tmp_path / "nothing.json")


def test_whose_parameters_they_are_is_kept_by_bank_and_table(tmp_path) -> None:
    kind = ("rasch", "own", "fixed", "1pl")
    items = replace(ITEMS, kind=kind)
    assert items.model == ("rasch", "2pl_fixed_guessing", "fixed", "1pl")
    assert items.n_free.tolist() == [1, 2, 0, 1]
    # own: intercepts of a and d, slope and intercept of b; shared: one slope, mean and sd beside known items
    assert items.n_parameters == 1 + 2 + 0 + 1 + 1 + 2
    assert (items.select(["c", "b"]).kind, items.select(["b"]).kind) == (("fixed", "own"), None)
    assert (bank_of(items).schema_version, bank_of(ITEMS).schema_version) == (3, 1)
    irtbench.save_bank(bank_of(items), tmp_path / "bank.json")
    items.table().to_csv(tmp_path / "items.csv", index=False)
    assert irtbench.load_bank(tmp_path / "bank.json").scales[0].items.kind == kind
    assert irtbench.read_parameters(tmp_path / "items.csv").kind == irtbench.as_parameters(items.table()).kind == kind
    is_refused("kind must be one of own, rasch, 1pl, fixed for each item", replace, ITEMS, kind=("own",))


def test_scores_by_a_table_are_those_by_its_items(tmp_path: Path) -> None:
    items = irtbench.ItemParameters.from_difficulty([1.5, 1.0, 2.0], [-1.0, 0.0, 1.0])
    items.table().assign(key=["a", "b", "c"]).to_csv(tmp_path / "items.csv", index=False)
    (scale,) = irtbench.load_bank(tmp_path / "items.csv").scales
    assert (scale.name, scale.norms) == ("all", None)
    (tmp_path / "r.csv").write_text("respondent_id,item_id,response\ns,item1,1\ns,item2,1\ns,item3,0\n")
    run("score items.csv r.csv -o scores.csv --quiet", cwd=tmp_path)
    found = pd.read_csv(tmp_path / "scores.csv")
    assert found["theta"][0] == pytest.approx(irtbench.estimate_ability([[1, 1, 0]], items).theta[0])
    # and answers by its keys
    (tmp_path / "a.csv").write_text("respondent_id,item_id,answer\ns,item1,a\ns,item2,b\ns,item3,d\n")
    run("score items.csv a.csv -o again.csv --quiet", cwd=tmp_path)
    assert pd.read_csv(tmp_path / "again.csv")["theta"][0] == found["theta"][0]
