"""What a result's ``.table()`` gives is what the command writes: the same columns, the same numbers."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import run

ITEMS = irtbench.ItemParameters.from_difficulty([1.2, 1.5, 0.9, 1.1, 1.4], [-1.0, -0.5, 0.0, 0.5, 1.0])


@pytest.fixture
def responses(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    drawn = irtbench.simulate_responses(rng.normal(size=120), ITEMS, rng=rng, missing=0.1)
    file = tmp_path / "responses.csv"
    drawn.table().astype({item: "Int64" for item in drawn.item_ids}).to_csv(file, index=False)
    return file


def same(file: Path, table: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(pd.read_csv(file), table, check_dtype=False)


def test_items_of_a_fit(responses: Path, tmp_path: Path) -> None:
    run(f"fit {responses} -o {tmp_path}/out --prior none --quiet")
    same(tmp_path / "out" / "items.csv", irtbench.fit_model(irtbench.read(responses)).table())


def test_scores_begin_with_the_table_of_abilities(responses: Path, tmp_path: Path) -> None:
    scale = irtbench.Scale("all", ITEMS, irtbench.ItemTable.plain(ITEMS.item_ids))
    irtbench.save_bank(irtbench.ItemBank((scale,)), tmp_path / "bank.json")
    run(f"score bank.json {responses} -o scores.csv --quiet", cwd=tmp_path)
    scores = pd.read_csv(tmp_path / "scores.csv")
    abilities = irtbench.estimate_ability(irtbench.read(responses), ITEMS)
    for table in (abilities.table(), irtbench.percentiles(abilities).table()):
        pd.testing.assert_frame_equal(scores[list(table.columns)], table, check_dtype=False)


def test_long_tables(responses: Path, tmp_path: Path) -> None:
    run(f"convert {responses} -o {tmp_path}/long.csv --quiet")
    same(tmp_path / "long.csv", irtbench.read(responses).table())
