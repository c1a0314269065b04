"""``irtbench crowd keys``: from raw answers and keys to a list of suspicious keys."""

from pathlib import Path

import numpy as np
import pandas as pd

from builders.command_line import refused, run

KEYS = ["item_id", "key", "proposed", "p_wrong_key", "discrimination", "item_rest"]
DISTRACTORS = ["item_id", "option", "is_key", "n", "share", "point_biserial", "flags"]


def write_crowd(folder: Path) -> None:
    """300 people, 12 items of three options; the key of item q4 is wrong, that of q9 written in another way."""
    rng = np.random.default_rng(2)
    theta = rng.normal(size=300)
    right = rng.random((300, 12)) < 1 / (1 + np.exp(-(1.2 * theta[:, None] + np.linspace(-1, 1.5, 12))))
    chosen = np.where(right, "yes", np.where(rng.random((300, 12)) < 0.6, "no", "maybe"))
    wide = pd.DataFrame(chosen, columns=[f"q{k}" for k in range(12)]).assign(
        respondent_id=[f"r{k}" for k in range(300)]
    )
    wide.melt("respondent_id", var_name="item_id", value_name="answer").to_csv(folder / "answers.csv", index=False)
    items = pd.DataFrame({"item_id": [f"q{k}" for k in range(12)], "key": "yes"})
    items.loc[4, "key"] = "no"
    items.loc[9, "key"] = " yes "
    items.to_csv(folder / "items.csv", index=False)


def test_the_wrong_key_is_put_forward(tmp_path: Path) -> None:
    write_crowd(tmp_path)
    done = run(f"crowd keys {tmp_path}/answers.csv --items {tmp_path}/items.csv -o {tmp_path}/out")
    assert "1 of 12 keys look wrong" in " ".join(done.out.split())
    ranked = pd.read_csv(tmp_path / "out" / "keys.csv")
    assert list(ranked)[: len(KEYS)] == KEYS
    assert ranked.loc[0, ["item_id", "key", "proposed"]].tolist() == ["q4", "no", "yes"]
    assert (ranked["p_wrong_key"][1:] < 0.1).all()
    options = pd.read_csv(tmp_path / "out" / "distractors.csv")
    assert list(options)[: len(DISTRACTORS)] == DISTRACTORS
    assert len(options) == 36
    said = run(f"crowd keys {tmp_path}/answers.csv --items {tmp_path}/items.csv -o {tmp_path}/again --json -q")
    assert said.json["keys"][0]["item_id"] == "q4"
    assert (tmp_path / "again" / "keys.csv").read_bytes() == (tmp_path / "out" / "keys.csv").read_bytes()


def test_items_without_keys_are_refused(tmp_path: Path) -> None:
    write_crowd(tmp_path)
    pd.read_csv(tmp_path / "items.csv").drop(columns="key").to_csv(tmp_path / "bare.csv", index=False)
    refused("crowd keys answers.csv --items bare.csv -o out -q", saying="no key for item", cwd=tmp_path)
    assert not (tmp_path / "out").exists()
