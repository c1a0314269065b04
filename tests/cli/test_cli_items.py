"""``irtbench items``: a bank, or what `fit` alone left behind, as a thing to read."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import refused, run


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("items"), np.random.default_rng(3)
    items = irtbench.ItemParameters.from_difficulty(rng.uniform(0.8, 2, 12), np.linspace(-2, 2, 12))
    drawn = irtbench.simulate_responses(rng.normal(size=400), items, rng=rng)
    drawn.to_long().astype({"response": int}).to_csv(folder / "responses.csv", index=False)
    run(f"fit {folder}/responses.csv -o {folder}/fit -q")
    return folder


@pytest.mark.usefixtures("drawn_files")
def test_items_of_a_bank_are_shown_and_written(fitted: Path) -> None:
    bank = fitted / "fit" / "bank.json"
    shown = run(f"items show -o {fitted}/out --figures {bank}").out  # a flag, and no folder of figures
    for words in ("hardest", "least discriminating", "raw score", "percentile"):
        assert words in shown
    out = fitted / "out"
    names = ["items.csv", "score_table.csv", "test_information.csv", "test_information.svg", "wright_map.svg"]
    assert sorted(file.name for file in out.iterdir()) == names
    scores = pd.read_csv(out / "score_table.csv")
    (scale,) = irtbench.load_bank(bank).scales
    expected = irtbench.sum_score_table(scale).table().assign(scale="all")
    pd.testing.assert_frame_equal(scores, expected)
    items = pd.read_csv(out / "items.csv")
    assert items["difficulty"].is_monotonic_decreasing
    again = irtbench.read_parameters(out / "items.csv")
    np.testing.assert_allclose(again.select(scale.items.item_ids).intercept, scale.items.intercept)
    assert "400 respondents" in (out / "wright_map.svg").read_text()
    run(f"items show {bank} -o {out} -q")
    assert sorted(file.name for file in out.iterdir()) == names[:3]


def test_a_table_of_items_with_texts_from_another(fitted: Path) -> None:
    names = pd.read_csv(fitted / "fit" / "items.csv")["item_id"]
    texts = pd.DataFrame({"item_id": names, "question": [f"what is {name}?" for name in names]})
    texts.to_csv(fitted / "texts.csv", index=False)
    found = run("items show fit/items.csv --items texts.csv --item-column text=question --json", cwd=fitted).json
    assert found["items"][0]["text"] == f"what is {found['items'][0]['item_id']}?"
    assert [row["score"] for row in found["score_table"]] == list(range(13))
    texts.iloc[1:].to_csv(fitted / "texts.csv", index=False)
    refused("items show fit/items.csv --items texts.csv --item-column text=question",
            saying="no row for item item1 of the bank", cwd=fitted)  # fmt: skip


def test_several_scales_and_a_scale_too_long_for_a_table(tmp_path: Path) -> None:
    short = irtbench.ItemParameters.from_difficulty([1.0, 2.0], [0.0, 1.0], item_ids=["$a$", "_b"])
    long = irtbench.ItemParameters.from_difficulty([1.0] * 1001, np.linspace(-8, 8, 1001))
    scales = [irtbench.Scale(name, items, irtbench.ItemTable.plain(items.item_ids))
              for name, items in (("x", short), ("y", long))]  # fmt: skip
    irtbench.save_bank(irtbench.ItemBank(tuple(scales)), tmp_path / "bank.json")
    done = run(f"items show {tmp_path}/bank.json -o {tmp_path}/out --figures")
    assert "no score table: 1001 items" in done.out
    assert sorted(file.name for file in (tmp_path / "out").glob("*.svg")) == [
        "test_information.svg", "wright_map_1.svg", "wright_map_2.svg",
    ]  # fmt: skip
    assert set(pd.read_csv(tmp_path / "out" / "score_table.csv")["scale"]) == {"x"}
    assert len(pd.read_csv(tmp_path / "out" / "items.csv")) == 1003
