"""Norm samples from a table: what of it is of the people, and what of their test."""

from pathlib import Path

import pandas as pd

import irtbench
from builders.command_line import refused, run
from builders.valid_inputs import write_valid_inputs

ITEMS = irtbench.ItemParameters.from_difficulty([1.5] * 4, [-1.0, -0.3, 0.3, 1.0])
BANK = irtbench.ItemBank((irtbench.Scale("all", ITEMS, irtbench.ItemTable.plain(ITEMS.item_ids)),))


def test_columns_of_scores_are_no_groups_of_people(tmp_path: Path) -> None:
    write_valid_inputs(tmp_path)
    run("score bank.json systems.csv -o scores.csv -q", cwd=tmp_path)
    scores = pd.read_csv(tmp_path / "scores.csv")
    assert irtbench.with_norms(BANK, tmp_path / "scores.csv").scales[0].norms is not None
    scores.assign(country="de", age=31, **{"percentile:country=de": 0.5}).to_csv(tmp_path / "people.csv", index=False)
    norms = irtbench.with_norms(BANK, tmp_path / "people.csv").scales[0].norms
    assert norms is not None
    assert list(norms.groups) == ["country", "age"]


def test_a_column_of_scores_is_refused_where_groups_are_asked_for(tmp_path: Path) -> None:
    write_valid_inputs(tmp_path)
    run("score", "bank.json", "systems.csv", "-o", "scores.csv", "-q", cwd=tmp_path)
    asked = ("score", "bank.json", "systems.csv", "--norms", "scores.csv", "--norm-groups", "accuracy")
    refused(*asked, cwd=tmp_path, saying="no column accuracy in the norm sample; there is: none")
