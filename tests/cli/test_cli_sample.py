"""``irtbench crowd sample`` and ``irtbench crowd plan`` as a user meets them, without torch."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import refused, run


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Sixty items with five labels each, as SNLI has them, and two attention checks."""
    rng = np.random.default_rng(1)
    truth = rng.choice(["yes", "no"], 60)
    labels = np.where(rng.random((60, 5)) < 0.9, truth[:, None], "maybe")
    table = pd.DataFrame(labels, columns=[f"label{k}" for k in range(1, 6)])
    table.insert(0, "pairID", [f"p{k}" for k in range(60)])
    table["premise"], table["claim"] = [f"premise {k}" for k in range(60)], [f"claim {k}" for k in range(60)]
    table["genre"] = "news"
    table.to_csv(tmp_path / "corpus.csv", index=False)
    checks = {"item_id": ["c1", "c2"], "key": ["yes", "no"], "text": ["Choose yes", "Choose no"]}
    pd.DataFrame(checks).to_csv(tmp_path / "checks.csv", index=False)
    return tmp_path


def test_items_are_chosen_and_sheets_written(corpus: Path) -> None:
    out = corpus / "out"
    arguments = (
        "sample", corpus / "corpus.csv", "--item-column", "item_id=pairID", "--annotations", "label?", "--agreement",
        "4/5", "--agreement", "5/5", "--per-label", 3, "--text", "{premise} / {claim}", "--checks",
        corpus / "checks.csv", "--sheets", "mturk", "--booklets", 4, "--each", 6, "--checks-each", 1, "--seed", 7,
    )  # fmt: skip
    found = run(*arguments, "-o", out, "--json").json
    assert json.loads((out / "sample.json").read_text()) == found
    assert (found["n_items"], found["n_attention"], found["n_places"]) == (12, 2, 7)
    items = pd.read_csv(out / "items.csv")
    assert list(items)[:4] == ["item_id", "key", "label", "n_agree"]
    assert items["attention"].tolist() == [0] * 12 + [1] * 2
    assert items.loc[0, "text"].startswith("premise ")
    assert items["genre"].tolist()[:12] == ["news"] * 12
    placed = pd.read_csv(out / "booklets.csv")
    assert placed.groupby("booklet").size().tolist() == [7] * 4
    assert sorted(file.name for file in out.iterdir()) == [
        "booklets.csv", "items.csv", "mturk.csv", "mturk.html", "sample.json",
    ]  # fmt: skip
    again = corpus / "again"
    run(*arguments, "-o", again, "--quiet")
    assert {f.name: f.read_bytes() for f in out.iterdir()} == {f.name: f.read_bytes() for f in again.iterdir()}


def test_all_items_are_taken_where_no_annotations_are_named(corpus: Path) -> None:
    run(f"crowd sample {corpus}/checks.csv --sheets label-studio --booklets 2 -o {corpus}/out -q")
    assert len(pd.read_csv(corpus / "out" / "items.csv")) == 2
    assert (corpus / "out" / "label_studio_0002.json").exists()


@pytest.mark.parametrize(
    ("arguments", "saying"),
    [
        (("--annotations", "vote*"), "no column like vote*"),
        (("--annotations", "label?", "--agreement", "4"), "expected two numbers such as 4/5"),
        (("--annotations", "label?", "--per-label", "50"), "expected at least 50"),
        (("--text", "{nothing}"), "has no column 'nothing'"),
        (("--text", "{premise"), "expected text with columns in braces"),
        (("--sheets", "mturk", "--text", "{premise}"), "at least two different answers"),
        (("--sheets", "mturk", "--option", "a", "--option", "b"), "has no text"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(
    corpus: Path, arguments: tuple[str, ...], saying: str
) -> None:
    refused("crowd sample corpus.csv --item-column item_id=pairID -o out", *arguments, saying=saying, cwd=corpus)
    assert not (corpus / "out").exists()


@pytest.mark.slow
def test_a_plan_is_printed_and_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = run(f"crowd plan --items 20 --se-difficulty 0.3 --each 10 -o {out} --json").json
    assert json.loads((out / "plan.json").read_text()) == found
    assert found["se_difficulty"] == pytest.approx(0.3, rel=0.01)
    by_item = pd.read_csv(out / "items.csv")
    assert len(by_item) == 20
    # nine tenths of the items reach what was wanted
    assert (by_item["se_difficulty"] <= 0.3 * 1.01).sum() >= 18
    assert run(f"crowd plan --pilot {out}/items.csv --respondents 300 --json").json["n_each"] == 20


@pytest.mark.parametrize(
    ("arguments", "saying"),
    [
        (("--se-theta", "0.3"), "expected either --items N"),
        (("--items", "20"), "wanted standard error of b or theta"),
        (("--items", "20", "--se-theta", "0.1"), "all 20 items give"),
        (("--items", "20", "--se-difficulty", "-1"), "se_difficulty"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(arguments: tuple[str, ...], saying: str) -> None:
    refused("crowd plan", *arguments, saying=saying)
