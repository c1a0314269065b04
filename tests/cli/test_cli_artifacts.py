"""``irtbench evaluate artifacts`` as a user meets it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import refused, run
from irtbench.data.readers.item_table import read_items


@pytest.fixture
def items(tmp_path: Path) -> Path:
    """100 items; the right option of most holds a word that others never have."""
    rng = np.random.default_rng(0)
    rows = []
    for j in range(100):
        texts = [" ".join(f"w{k}" for k in rng.integers(100, size=4)) for _ in range(3)]
        right = int(rng.integers(3))
        if j < 70:
            texts[right] += " indeed"
        rows.append({"item_id": f"q{j}", "question": "?", **dict(zip("ABC", texts, strict=True)), "gold": "ABC"[right]})
    table = pd.DataFrame(rows).rename(columns={name: f"option_{name}" for name in "ABC"})
    table.to_csv(tmp_path / "items.csv", index=False)
    return tmp_path / "items.csv"


def test_it_writes_a_table_that_a_study_can_use(items: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = run(f"evaluate artifacts {items} --repeats 2 -o {out} --json").json
    assert sorted(file.name for file in out.iterdir()) == ["artifacts.csv", "artifacts.json", "artifacts.svg"]
    assert json.loads((out / "artifacts.json").read_text()) == found
    plausible = next(row for row in found["baselines"] if row["baseline"] == "plausible_answer")
    assert plausible["p_adjusted"] < 1e-6
    assert plausible["chance"] == pytest.approx(1 / 3)
    assert plausible["corrected"] == pytest.approx((plausible["accuracy"] - 1 / 3) / (2 / 3))
    table = pd.read_csv(out / "artifacts.csv")
    given = pd.read_csv(items)
    assert table[list(given)].equals(given)
    assert table.loc[table["suspect"] == 1, "item_id"].tolist() == found["suspect"]
    assert table["suspect"][:70].mean() > 0.9
    assert read_items(out / "artifacts.csv", where={"suspect": "0"}).n_items == 100 - found["n_suspect"]
    # run on its own output it replaces its columns
    run(f"evaluate artifacts {out}/artifacts.csv --repeats 2 -o {tmp_path}/again --quiet")
    assert (tmp_path / "again" / "artifacts.csv").read_text() == (out / "artifacts.csv").read_text()


@pytest.mark.slow
def test_winograd_schemas_from_their_own_columns(real_data: Path) -> None:
    assert "0 of 273 items are given away" in run(f"evaluate artifacts {real_data}/wsc273/items.csv --repeats 1").out


@pytest.mark.parametrize(
    ("options", "saying"),
    [
        (["--key", "right"], "column 'right' missing"),
        (["--key", "question"], "expected an option, its column or its letter but got '?'"),
        (["--option", "option_A"], "no columns of options"),
        (["--group", "passage"], "column 'passage' missing"),
        (["--group", "question"], "expected at least 2"),
        (["--alpha", "0"], "alpha"),
    ],
)
def test_what_is_wrong_is_refused_and_nothing_is_written(
    items: Path, tmp_path: Path, options: list[str], saying: str
) -> None:
    refused(f"evaluate artifacts {items}", *options, "-o", tmp_path / "out", saying=saying)
    assert not (tmp_path / "out").exists()
