"""Items that a bank's own study left out are known by its provenance, and do not count."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from irtbench import GradingSettings, InputError, ItemParameters, ItemTable, Scale, score_file
from irtbench.bank.bank import NOT_ON_A_SCALE, ItemBank, LeftOut, among, items_left_out, on_no_scale
from irtbench.scoring.scores import grading_of, score_answers

REMOVED = {"item_id": "bad", "reason": "negative_slope", "round": 1}
ELSEWHERE = [
    {"item_id": "check", "reason": "attention_check", "scale": None},
    {"item_id": "lost", "reason": "scale_rejected", "scale": "other"},
]


def bank_with(provenance: dict[str, object]) -> ItemBank:
    ids = [f"i{k}" for k in range(8)]
    items = ItemParameters.from_difficulty(np.ones(8), np.linspace(-1, 1, 8), item_ids=ids)
    details = replace(ItemTable.plain(ids), key=("yes", "no") * 4)
    return ItemBank((Scale("all", items, details, provenance=provenance),))


@pytest.fixture
def bank() -> ItemBank:
    return bank_with({"pruning": [REMOVED], NOT_ON_A_SCALE: ELSEWHERE})


def test_they_are_recorded_and_known_with_their_reasons(bank: ItemBank) -> None:
    found = items_left_out(bank.scales)
    assert found == {
        "bad": LeftOut("bad", "negative_slope", "all"),
        "check": LeftOut("check", "attention_check"),
        "lost": LeftOut("lost", "scale_rejected", "other"),
    }
    assert among(found, ["i0", "lost", "bad", "lost"]) == (found["lost"], found["bad"])
    items = replace(ItemTable.plain(["a", "c"]), attention=(False, True))
    assert on_no_scale(items, {"other": ("x", "y")}) == [
        {"item_id": "c", "reason": "attention_check", "scale": None},
        {"item_id": "x", "reason": "scale_rejected", "scale": "other"},
        {"item_id": "y", "reason": "scale_rejected", "scale": "other"},
    ]


KEPT_ON_ANOTHER = [{"item_id": "i3", "reason": "item_fit"}]


@pytest.mark.parametrize("record", [KEPT_ON_ANOTHER, None, "text", [1], [{"item_id": 3, "reason": "x"}], [{}]])
def test_an_item_that_another_scale_kept_and_a_provenance_of_another_make_say_nothing(record: object) -> None:
    assert items_left_out(bank_with({"pruning": record}).scales) == {}


def answers(*texts: str) -> pd.DataFrame:
    return pd.DataFrame({"respondent_id": "s", "item_id": [f"i{k}" for k in range(len(texts))], "answer": texts})


def test_answers_are_graded_as_the_study_graded_them() -> None:
    bank = bank_with({"grading": {"normalise": ["strip", "punctuation"], "empty": "missing"}})
    assert grading_of(bank) == GradingSettings(("strip", "punctuation"), "missing", unknown="stray")
    scores = score_answers(bank, answers("yes.", "(no)", ""))
    assert scores[["n_items", "n_correct"]].to_numpy().tolist() == [[2, 2]]
    assert grading_of(bank, {"y": "yes"}).map == {"y": "yes"}
    assert grading_of(bank_with({})) == GradingSettings(unknown="stray")
    with pytest.raises(InputError, match=r"bank: provenance: GradingSettings.normalise"):
        grading_of(bank_with({"grading": {"normalise": ["stem"]}}))


def test_a_large_file_of_answers_is_mapped_and_its_capitals_pass(bank: ItemBank, tmp_path) -> None:  # type: ignore[no-untyped-def]
    answers("Yes", "NO", "y", "n", "yes", "no", "yes", "yes").to_csv(tmp_path / "a.csv", index=False)
    grading = grading_of(bank, {"y": "yes", "n": "no"})
    score_file(bank, tmp_path / "a.csv", tmp_path / "s.csv", grading=grading)
    wanted = score_answers(bank, answers("Yes", "NO", "y", "n", "yes", "no", "yes", "yes"), grading)
    assert wanted["n_correct"].tolist() == [7]
    assert pd.read_csv(tmp_path / "s.csv")["n_correct"].tolist() == [7]
    with pytest.raises(InputError, match="map y=maybe: maybe is no item's key"):
        score_file(bank, tmp_path / "a.csv", tmp_path / "s.csv", grading=GradingSettings(map={"y": "maybe"}))
