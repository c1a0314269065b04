"""A study of two scales with checks of attention, some gaps, and people who did not read."""

from pathlib import Path

import numpy as np
import pandas as pd

from irtbench.data.responses import ResponseMatrix
from irtbench.models.curves import simulate_responses
from irtbench.models.item_parameters import ItemParameters

N = 1700
RULES = """
[screening]
min_responses = 6
attention_share = 0.6
chance_level = 0.02
[pruning]
min_items = 4
min_share_kept = 0.6
local_dependence_p = "chi_square"
"""
ITEMS = [f"item{k}" for k in range(1, 19)]


def responses() -> ResponseMatrix:
    """Two scales of eight items and two checks, some gaps, somebody who answered nothing and some who clicked."""
    rng = np.random.default_rng(7)
    items = ItemParameters.from_difficulty(rng.uniform(1.2, 2, 16), np.tile(np.linspace(-1.2, 1.2, 8), 2))
    values = simulate_responses(rng.normal(size=N), items, rng=rng).values.copy()
    values[:, 3] = 1 - values[:, 3]  # a wrong key
    values[::5, 11] = values[::5, 10]  # and a twin
    values[rng.random(values.shape) < 0.1] = np.nan
    checks = (rng.random((N, 2)) < 0.9).astype(float)
    values = np.hstack([values, checks])
    values[40] = np.nan
    values[50:60, 2:16] = np.nan
    return ResponseMatrix(values, tuple(f"r{i:04}" for i in range(N)), tuple(ITEMS))


def item_table(folder: Path, *, more: int = 0) -> None:
    labels = ["one"] * 8 + ["two"] * 8 + ["check"] * 2 + ["two"] * more
    names = [*ITEMS, *(f"unasked{k}" for k in range(more))]
    attention = [int(label == "check") for label in labels]
    pd.DataFrame({"item_id": names, "label": labels, "attention": attention}).to_csv(folder / "items.csv", index=False)


def study(folder: Path, answers: object, *, rules: str = RULES, data: str = "", more: str = "") -> Path:
    file = folder / "study.toml"
    file.write_text(
        f'[study]\nseed = 3\n[data]\nanswers = "{answers}"\nitems = "items.csv"\ncontent = "responses"\n{data}\n'
        f"{rules}\n{more}"
    )
    return file
