"""``irtbench crowd agree`` as a user meets it: figures for all, by item and by respondent, and keys that look wrong."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from builders.command_line import refused, run


@pytest.fixture
def crowd(tmp_path: Path) -> Path:
    """Six people, eight items; all say y to i0 whose key is n."""
    rows = [
        {"respondent_id": f"p{r}", "item_id": f"i{i}", "answer": "y" if i == 0 or (i + r) % 3 else "n"}
        for i in range(8)
        for r in range(6)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "answers.csv", index=False)
    items = pd.DataFrame({"item_id": [f"i{i}" for i in range(8)], "key": ["n"] + ["y"] * 7})
    items.to_csv(tmp_path / "items.csv", index=False)
    return tmp_path


def test_tables_by_item_and_respondent_stand_beside_the_figures(crowd: Path) -> None:
    out = crowd / "out"
    found = run(f"crowd agree {crowd}/answers.csv --items {crowd}/items.csv -o {out} --json").json
    assert json.loads((out / "agreement.json").read_text()) == found
    assert found["contradicts_key"] == ["i0"]
    overall = found["overall"]
    assert overall["krippendorff_lower"] < overall["krippendorff_alpha"] < overall["krippendorff_upper"]
    by_item = pd.read_csv(out / "item_agreement.csv").set_index("item_id")
    assert by_item.loc["i0", ["plurality", "key", "gold", "gold_probability"]].tolist() == ["y", "n", "y", 1]
    assert by_item["contradicts_key"].sum() == 1
    people = pd.read_csv(out / "respondent_agreement.csv")
    assert people["respondent_id"].tolist() == [f"p{r}" for r in range(6)]
    assert (people["gold_share"] > people["key_share"]).all()


def test_items_that_contradict_their_key_are_named(crowd: Path) -> None:
    said = run("crowd agree answers.csv --items items.csv", cwd=crowd).out
    assert "the majority contradicts the key of item i0" in said
    assert "contradicts" not in run(f"crowd agree {crowd}/answers.csv").out


def test_a_level_outside_its_range_is_refused_and_nothing_is_written(crowd: Path) -> None:
    refused(f"crowd agree {crowd}/answers.csv --level 2 -o {crowd}/out", saying="level must be between 0 and 1")
    assert not (crowd / "out").exists()


def test_answers_are_mapped_to_one_vocabulary_and_others_refused(crowd: Path) -> None:
    expected = run(f"crowd agree {crowd}/answers.csv --items {crowd}/items.csv --json").json
    answers = pd.read_csv(crowd / "answers.csv")
    answers["answer"] = answers["answer"].map({"y": "1", "n": "0"})
    answers.loc[answers["respondent_id"] == "p0", "answer"] = answers["answer"].map({"1": "y", "0": "n"})  # as the key
    answers.to_csv(crowd / "coded.csv", index=False)
    assert run(f"crowd agree {crowd}/coded.csv --items {crowd}/items.csv --map 1=y,0=n --json").json == expected
    refused(f"crowd agree {crowd}/coded.csv --map 7=y", saying="nobody answered 7, which is mapped; expected some of")
    refused(f"crowd agree {crowd}/coded.csv --map 1=yes", saying="are 0, y, n; expected some of yes: map them too")
    # another vocabulary than the key's is refused, not taken for disagreement with it
    answers["answer"] = answers["answer"].replace({"y": "1", "n": "0"})
    answers.to_csv(crowd / "codes.csv", index=False)
    saying = "no answer is the key of any item: 0, 1; ... --map OLD=NEW"
    refused("crowd agree codes.csv --items items.csv", saying=saying, cwd=crowd)
    run(f"crowd agree {crowd}/codes.csv --json")  # without a key any labels will do
    assert run(f"crowd agree {crowd}/codes.csv --map 1=y,0=n --json").json["overall"]["categories"] == ["n", "y"]


def test_with_levels_grades_that_are_near_count_as_near(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [(f"i{j}", f"r{k}", min(max(q + rng.integers(-1, 2), 1), 5)) for j, q in enumerate(rng.integers(1, 6, 60))
            for k in range(3)]  # fmt: skip
    pd.DataFrame(rows, columns=["item_id", "respondent_id", "answer"]).to_csv(tmp_path / "grades.csv", index=False)
    said = run(f"agree {tmp_path}/grades.csv --levels 1,2,3,4,5 -o {tmp_path}/out").out
    found = json.loads((tmp_path / "out/agreement.json").read_text())
    assert found["ordered"]["weighted_kappa"] > found["overall"]["fleiss_kappa"] + 0.2
    assert found["ordered"]["icc"] == pytest.approx(found["ordered"]["krippendorff_interval"], abs=0.03)
    assert "krippendorff_ordinal" in said


def test_grades_agree_as_scores_and_in_a_wide_table_with_gaps(tmp_path: Path) -> None:
    """The table that is fitted: a column of scores, or columns of 1.0, 2.0 as pandas writes them beside gaps."""
    grades = pd.DataFrame(np.random.default_rng(2).integers(1, 6, (12, 20)).astype(float))
    grades = grades.rename(columns="q{}".format).rename(index="r{}".format).rename_axis("respondent_id")
    grades.iloc[0, 0] = np.nan
    grades.to_csv(tmp_path / "wide.csv")
    long = grades.reset_index().melt("respondent_id", var_name="item_id", value_name="score").dropna()
    long.astype({"score": int}).to_csv(tmp_path / "long.csv", index=False)
    found = [run(f"crowd agree {tmp_path}/{name}.csv --levels 1,2,3,4,5 --json").json for name in ("wide", "long")]
    assert found[0]["ordered"] == pytest.approx(found[1]["ordered"])
    assert found[0]["overall"]["n_answers"] == 239
    refused(f"crowd agree {tmp_path}/wide.csv --levels 1,2,3,4", saying="expected one of 1, 2, 3, 4 but got '5.0'")
    run(f"fit {tmp_path}/wide.csv --model pcm --levels 1,2,3,4,5 -o {tmp_path}/fit")


def test_latent_classes_say_how_hard_items_are_and_whom_to_believe(crowd: Path) -> None:
    out = crowd / "out"
    run(f"crowd agree {crowd}/answers.csv --gold latent-class -o {out}")
    by_item = pd.read_csv(out / "item_agreement.csv")
    assert by_item["gold_probability"].between(0.5, 1).all()
    assert by_item["gold_difficulty"].notna().all()
    assert pd.read_csv(out / "respondent_agreement.csv")["accuracy_by_model"].between(0, 1).all()
