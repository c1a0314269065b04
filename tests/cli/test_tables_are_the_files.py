"""What a result's ``.table()`` gives is what the command writes: the same columns, the same numbers."""

from pathlib import Path

import numpy as np
import pandas as pd

import irtbench
from builders.command_line import run


def test_items_of_a_fit_and_a_long_table(tmp_path: Path) -> None:
    items = irtbench.ItemParameters.from_difficulty([1.2, 1.5, 0.9, 1.1, 1.4], [-1.0, -0.5, 0.0, 0.5, 1.0])
    rng, file = np.random.default_rng(1), tmp_path / "responses.csv"
    drawn = irtbench.simulate_responses(rng.normal(size=120), items, rng=rng, missing=0.1)
    drawn.table().astype({item: "Int64" for item in drawn.item_ids}).to_csv(file, index=False)
    run("fit responses.csv -o out --prior none --quiet", cwd=tmp_path)
    run("convert responses.csv -o long.csv --quiet", cwd=tmp_path)
    given = irtbench.read(file)
    for name, table in (("out/items.csv", irtbench.fit_model(given).table()), ("long.csv", given.table())):
        pd.testing.assert_frame_equal(pd.read_csv(tmp_path / name), table, check_dtype=False)
