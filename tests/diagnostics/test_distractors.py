"""Options by score group against ShinyItemAnalysis and CTT, against counting, and what raises a flag."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from irtbench import InputError, ResponseMatrix
from irtbench.diagnostics.internal_consistency import BY_THE_ABLE, MORE_THAN_KEY, NOBODY, distractor_table

COLUMNS = {  # our column, the reference's
    "n": "n",
    "share": "p",
    "share_low": "p_low",
    "share_middle": "p_middle",
    "share_high": "p_high",
    "point_biserial": "pbis_total",
    "point_biserial_rest": "pbis_rest",
}


def graded(answers: pd.DataFrame, keys: dict[str, str]) -> ResponseMatrix:
    response = (answers["answer"] == answers["item_id"].map(keys)).astype(float)
    return ResponseMatrix.from_long(answers.assign(response=response), item_ids=tuple(keys))


def test_options_agree_with_shiny_item_analysis(reference: Path) -> None:
    folder = reference / "next"
    wide = pd.read_csv(folder / "data" / "hci_answers.csv")
    keys = pd.read_csv(folder / "data" / "hci_key.csv").set_index("item")["key"].to_dict()
    wide.insert(0, "respondent_id", [f"p{k}" for k in range(len(wide))])
    answers = wide.melt("respondent_id", var_name="item_id", value_name="answer")
    offered = {item: list("ABCDE") for item in keys}
    found = distractor_table(answers, keys, graded(answers, keys), options=offered).set_index(["item_id", "option"])
    expected = pd.read_csv(folder / "03_distractor" / "hci_distractors.csv").set_index(["item", "option"])
    found = found.loc[expected.index]
    for ours, theirs in COLUMNS.items():
        np.testing.assert_allclose(found[ours], expected[theirs], rtol=1e-8, atol=1e-9, err_msg=ours)
    assert (found["is_key"] == expected["key"]).all()
    assert found.loc[found["n"] == 0, "flags"].str.contains(NOBODY).all()


def test_flags_and_shares_that_can_be_counted() -> None:
    # Six able with 3 of 4 right, six in the middle with 2, six weak with 1 of 4 (the last with none).
    options = {"able": ("b", "x", "x", "x"), "middle": ("c", "x", "x", "y"), "weak": ("a", "y", "y", "y")}
    items = ("keyed wrongly", "good 1", "good 2", "good 3")
    rows = [
        (f"{group} {k}", item, option)
        for group, chosen in options.items()
        for k in range(6)
        for item, option in zip(items, "" if (group, k) == ("weak", 5) else chosen, strict=False)
    ]
    rows += [("weak 5", item, option) for item, option in zip(items, ("", "y", "y", "y"), strict=True)]
    answers = pd.DataFrame(rows, columns=["respondent_id", "item_id", "answer"])
    keys = {"keyed wrongly": "a", "good 1": "x", "good 2": "x", "good 3": "x"}
    table = distractor_table(answers, keys, graded(answers, keys), options={"good 1": ["x", "y", "z"]})
    by_option = table.set_index(["item_id", "option"])
    wrong = by_option.loc[("keyed wrongly", "b")]
    assert wrong["flags"] == f"{BY_THE_ABLE}; {MORE_THAN_KEY}"
    assert (wrong["n"], wrong["share"], wrong["share_low"], wrong["share_high"]) == (6, 6 / 18, 0.0, 1.0)
    assert by_option.loc[("keyed wrongly", "a")][["n", "share"]].tolist() == [5, pytest.approx(5 / 18)]
    assert by_option.loc[("good 1", "z")]["flags"] == NOBODY
    assert by_option.loc[("good 2", "y")]["flags"] == ""
    assert by_option.loc[("keyed wrongly", "c")]["share_middle"] == 1.0
    with pytest.raises(InputError, match="item good 1 has no key"):
        distractor_table(answers, {"keyed wrongly": "a"}, graded(answers, keys))


def test_frames_give_what_the_matrix_gives_and_strangers_are_refused() -> None:
    wide = pd.DataFrame({"i1": list("aab"), "i2": list("cdd")}, index=["r1", "r2", "r3"])
    keys = {"i1": "a", "i2": "c"}
    long = wide.melt(var_name="item_id", value_name="answer", ignore_index=False)
    long = long.rename_axis("respondent_id").reset_index()
    expected = distractor_table(long, keys, graded(long, keys))
    assert expected["option"].tolist() == ["a", "b", "c", "d"]
    assert expected["n"].tolist() == [2, 1, 1, 2]
    responses = (wide == ["a", "c"]).astype(int)
    pd.testing.assert_frame_equal(distractor_table(wide, keys, responses), expected)
    stranger = pd.DataFrame({"respondent_id": ["zoe"], "item_id": ["i1"], "answer": [""]})
    pd.testing.assert_frame_equal(distractor_table(pd.concat([long, stranger]), keys, responses), expected)
    with pytest.raises(InputError, match="answers: respondent zoe has answers but no row in the responses"):
        distractor_table(pd.concat([long, stranger.assign(answer="a")]), keys, responses)


def test_an_item_that_is_not_scored_is_seen_by_the_score_of_the_others() -> None:
    rng = np.random.default_rng(4)
    values = (rng.random((90, 6)) < 1 / (1 + np.exp(-rng.normal(size=(90, 1))))).astype(float)
    values[rng.random(values.shape) < 0.1] = np.nan
    data = ResponseMatrix(values, tuple(f"p{k}" for k in range(90)), tuple(f"i{k}" for k in range(6)))
    answers = data.to_long()
    answers = answers.assign(answer=np.where(answers["response"] == 1, "a", "b")).drop(columns="response")
    keys = dict.fromkeys(data.item_ids, "a")
    others = set(data.item_ids) - {"i2"}
    whole = distractor_table(answers, keys, data).set_index(["item_id", "option"])
    found = distractor_table(answers, keys, data, scored=others).set_index(["item_id", "option"])
    # the score of those kept is what the rest of the score is to the one removed
    np.testing.assert_allclose(found.loc["i2", "point_biserial"], whole.loc["i2", "point_biserial_rest"])
    np.testing.assert_allclose(found.loc["i2", "point_biserial_rest"], whole.loc["i2", "point_biserial_rest"])
    kept = [item for item in data.item_ids if item in others]
    alone = distractor_table(answers[answers["item_id"] != "i2"], keys, data.select_items(kept))
    there = found.drop(index="i2", level="item_id").reset_index()
    pd.testing.assert_frame_equal(there, alone, check_like=True)
