"""``irtbench build`` in several processes under torchrun is the build by one."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.parquet_folder import wide_frame, write_parts
from builders.torchrun import as_torchrun
from irtbench.bank.bank import load_bank

N = 1300
SETTINGS = """
[study]
seed = 3
[data]
answers = "in"
items = "items.csv"
content = "responses"
[screening]
min_responses = 4
[pruning]
min_items = 4
local_dependence_p = "chi_square"
[score]
systems = ["systems.csv"]
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two scales with gaps, and somebody without a response to one of them."""
    place = tmp_path_factory.mktemp("study")
    rng = np.random.default_rng(7)
    items = irtbench.ItemParameters.from_difficulty(rng.uniform(1.2, 2, 14), np.tile(np.linspace(-1.2, 1.2, 7), 2))
    values = irtbench.simulate_responses(rng.normal(size=N), items, rng=rng).values.copy()
    values[rng.random(values.shape) < 0.1] = np.nan
    values[17, :7] = np.nan
    whole = irtbench.ResponseMatrix(values, tuple(f"r{k}" for k in range(N)), items.item_ids)
    write_parts(wide_frame(whole), place / "in")
    labels = ["one"] * 7 + ["two"] * 7
    pd.DataFrame({"item_id": items.item_ids, "label": labels}).to_csv(place / "items.csv", index=False)
    rows = whole.to_long()
    rows[rows["respondent_id"] == "r5"].assign(respondent_id="machine").to_csv(place / "systems.csv", index=False)
    (place / "study.toml").write_text(SETTINGS)
    return place / "study.toml"


@pytest.mark.slow
def test_two_processes_build_what_one_builds(study: Path) -> None:
    place = study.parent
    given = ("build", study, "--sample", 1000, "--quiet", "-o")
    by_two = as_torchrun(2, *given, place / "two", "--cache", place / "cache")
    alone = as_torchrun(1, *given, place / "alone")
    assert (alone.status, alone.lines) == (0, [])
    assert (by_two.status, by_two.out, by_two.lines) == (0, "", [])
    assert {line.split()[1] for line in by_two.faults if int(line.split()[3])} == {"0", "1"}  # both have read
    found, expected = place / "two", place / "alone"
    names = sorted(file.name for file in expected.iterdir())
    assert names == sorted(file.name for file in found.iterdir())
    for name in names:
        if name.endswith(".csv"):
            table, wanted = (pd.read_csv(folder / name) for folder in (found, expected))
            pd.testing.assert_frame_equal(table, wanted, rtol=1e-6, atol=1e-6)
    for one, other in zip(load_bank(found / "bank.json").scales, load_bank(expected / "bank.json").scales, strict=True):
        for name in ("discrimination", "intercept", "covariance"):
            np.testing.assert_allclose(getattr(one.items, name), getattr(other.items, name), rtol=1e-8, atol=1e-10)
    assert json.loads((found / "summary.json").read_text())["sampled_from"] > 1000
    (folder,) = (place / "cache").iterdir()
    assert not {file.name for file in folder.iterdir()} & {"passes", "scores", "places.npy", "bank.json"}
