"""``irtbench crowd``: sheets and plans, agreement, keys, raters and screening as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import irtbench
from builders.command_line import refused, run, written
from builders.valid_inputs import write_ratings

# --- sample


def test_items_are_chosen_and_sheets_written(tmp_path: Path) -> None:
    """Of sixty items with five labels each, as SNLI has them, and two attention checks."""
    rng, out = np.random.default_rng(1), tmp_path / "out"
    truth = rng.choice(["yes", "no"], 60)
    labels = np.where(rng.random((60, 5)) < 0.9, truth[:, None], "maybe")
    table = pd.DataFrame(labels, columns=[f"label{k}" for k in range(1, 6)])
    table.insert(0, "pairID", [f"p{k}" for k in range(60)])
    table["premise"], table["claim"] = [f"premise {k}" for k in range(60)], [f"claim {k}" for k in range(60)]
    table.assign(genre="news").to_csv(tmp_path / "corpus.csv", index=False)
    (tmp_path / "checks.csv").write_text("item_id,key,text\nc1,yes,Choose yes\nc2,no,Choose no\n")
    line = (
        "crowd sample corpus.csv --item-column item_id=pairID --annotations label? --agreement 4/5 --agreement 5/5 "
        "--per-label 3 --text '{premise} / {claim}' --checks checks.csv --sheets mturk --booklets 4 --each 6 "
        "--checks-each 1 --seed 7"
    )
    found = written(line, out, "booklets.csv items.csv mturk.csv mturk.html sample.json", cwd=tmp_path)
    assert (found["n_items"], found["n_attention"], found["n_places"]) == (12, 2, 7)
    items = pd.read_csv(out / "items.csv")
    assert list(items)[:4] == ["item_id", "key", "label", "n_agree"]
    assert items["attention"].tolist() == [0] * 12 + [1] * 2
    assert items.loc[0, "text"].startswith("premise ")
    assert items["genre"].tolist()[:12] == ["news"] * 12
    placed = pd.read_csv(out / "booklets.csv")
    assert placed.groupby("booklet").size().tolist() == [7] * 4
    again = tmp_path / "again"
    run(line, "-o", again, "--quiet", cwd=tmp_path)
    assert {f.name: f.read_bytes() for f in out.iterdir()} == {f.name: f.read_bytes() for f in again.iterdir()}


@pytest.mark.slow
def test_a_plan_is_printed_and_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = written("crowd plan --items 20 --se-difficulty 0.3 --each 10", out, "items.csv plan.json")
    assert found["se_difficulty"] == pytest.approx(0.3, rel=0.01)
    by_item = pd.read_csv(out / "items.csv")
    assert len(by_item) == 20
    # nine tenths of the items reach what was wanted
    assert (by_item["se_difficulty"] <= 0.3 * 1.01).sum() >= 18
    assert run(f"crowd plan --pilot {out}/items.csv --respondents 300 --json").json["n_each"] == 20


# --- agree


@pytest.fixture
def crowd(tmp_path: Path) -> Path:
    """Six people, eight items; all say y to i0 whose key is n."""
    rows = [
        {"respondent_id": f"p{r}", "item_id": f"i{i}", "answer": "y" if i == 0 or (i + r) % 3 else "n"}
        for i in range(8)
        for r in range(6)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "answers.csv", index=False)
    items = pd.DataFrame({"item_id": [f"i{i}" for i in range(8)], "key": ["n"] + ["y"] * 7, "kind": ["u", "v"] * 4})
    items.to_csv(tmp_path / "items.csv", index=False)
    return tmp_path


def test_tables_by_item_and_respondent_are_written_with_the_figures(crowd: Path) -> None:
    line, out = "crowd agree answers.csv --items items.csv --item-column label=kind", crowd / "out"
    files = "agreement.json item_agreement.csv respondent_agreement.csv"
    found = written(line, out, files, cwd=crowd)
    assert (found["contradicts_key"], set(found["by_label"])) == (["i0"], {"u", "v"})
    assert set(run(f"{line} --where kind=u --json", cwd=crowd).json["by_label"]) == {"u"}
    by_item = pd.read_csv(out / "item_agreement.csv").set_index("item_id")
    assert by_item.loc["i0", ["plurality", "key", "gold", "gold_probability"]].tolist() == ["y", "n", "y", 1]
    assert by_item["contradicts_key"].sum() == 1
    people = pd.read_csv(out / "respondent_agreement.csv")
    assert people["respondent_id"].tolist() == [f"p{r}" for r in range(6)]
    assert (people["gold_share"] > people["key_share"]).all()
    assert "the majority contradicts the key of item i0" in run(line, cwd=crowd).out
    assert "contradicts" not in run(f"crowd agree {crowd}/answers.csv --gold latent-class -o {out}").out
    by_item = pd.read_csv(out / "item_agreement.csv")
    assert by_item["gold_probability"].between(0.5, 1).all()
    assert by_item["gold_difficulty"].notna().all()
    assert pd.read_csv(out / "respondent_agreement.csv")["accuracy_by_model"].between(0, 1).all()


def test_what_is_undefined_is_empty_and_said_once(tmp_path: Path) -> None:
    rows = [f"p{r},i{i},y" for r in range(6) for i in range(2)]
    (tmp_path / "alike.csv").write_text("\n".join(["respondent_id,item_id,answer", *rows]))
    (tmp_path / "items.csv").write_text("item_id,key,label\ni0,y,u\ni1,y,v\n")
    done = run("crowd agree alike.csv --items items.csv", cwd=tmp_path)
    assert "nan" not in done.out
    assert done.err.count("Fleiss' kappa is undefined") == 1


def test_answers_are_mapped_to_one_vocabulary_and_others_refused(crowd: Path) -> None:
    keyed = "--items items.csv"
    expected = run(f"crowd agree answers.csv {keyed} --json", cwd=crowd).json
    answers = pd.read_csv(crowd / "answers.csv")
    codes = answers["answer"].map({"y": "1", "n": "0"})
    answers.assign(answer=codes.mask(answers["respondent_id"] == "p0", answers["answer"])).to_csv(
        crowd / "coded.csv", index=False
    )
    assert run(f"crowd agree coded.csv {keyed} --map 1=y,0=n --json", cwd=crowd).json == expected
    # another vocabulary than the key's is refused, not taken for disagreement with it
    answers.assign(answer=codes).to_csv(crowd / "codes.csv", index=False)
    saying = "no answer is the key of any item: 0, 1; ... --map OLD=NEW"
    refused(f"crowd agree codes.csv {keyed}", saying=saying, cwd=crowd)
    found = run("crowd agree codes.csv --map 1=y,0=n --json", cwd=crowd).json  # without a key any labels will do
    assert found["overall"]["categories"] == ["n", "y"]
    # and screened: capitals as they are meant, others mapped
    answers.assign(answer=answers["answer"].str.upper() + " ").to_csv(crowd / "capitals.csv", index=False)
    screen = "crowd screen {} --items items.csv --chance-level 0.3 --chance-p 0.1 --json -o out_{}"
    given = (("answers.csv", 1), ("capitals.csv", 2), ("codes.csv --map 1=y,0=n", 3))
    found = [run(screen.format(*words), cwd=crowd).json for words in given]
    assert 0 < found[0]["n_kept"] < 6
    assert found[0] == found[1] == found[2]
    assert set(pd.read_csv(crowd / "out_2" / "answers.csv")["answer"]) == {"Y ", "N "}  # as they were given
    refused("crowd screen answers.csv --model grm --map 1=yes -o no", cwd=crowd, saying="--map: of answers with keys")


def test_grades_agree_as_scores_and_in_a_wide_table_with_gaps(tmp_path: Path) -> None:
    """The table that is fitted: a column of scores, or columns of 1.0, 2.0 as pandas writes them beside gaps."""
    grades = pd.DataFrame(np.random.default_rng(2).integers(1, 6, (12, 20)).astype(float))
    grades = grades.rename(columns="q{}".format).rename(index="r{}".format).rename_axis("respondent_id")
    grades.iloc[0, 0] = np.nan
    grades.to_csv(tmp_path / "wide.csv")
    long = grades.reset_index().melt("respondent_id", var_name="item_id", value_name="score").dropna()
    long.astype({"score": int}).to_csv(tmp_path / "long.csv", index=False)
    line = "crowd agree {}.csv --levels 1,2,3,4,5"
    wide, found = (run(f"{line} --json".format(name), cwd=tmp_path).json for name in ("wide", "long"))
    assert wide["ordered"] == pytest.approx(found["ordered"])
    assert wide["overall"]["n_answers"] == 239
    assert "krippendorff_ordinal" in run(line.format("wide"), cwd=tmp_path).out
    refused("crowd agree wide.csv --levels 1,2,3,4", saying="expected one of 1, 2, 3, 4 but got '5.0'", cwd=tmp_path)


# --- keys

KEYS = ["item_id", "key", "proposed", "p_wrong_key", "discrimination", "item_rest"]
DISTRACTORS = ["item_id", "option", "is_key", "n", "share", "point_biserial", "flags"]


def test_the_wrong_key_is_put_forward(tmp_path: Path) -> None:
    """Of 300 people and 12 items of three options; the key of item q4 is wrong, that of q9 written in another way.

    Forty people write Yes, after a byte order mark: that is no further option.
    """
    rng, names = np.random.default_rng(2), [f"q{k}" for k in range(12)]
    right = rng.random((300, 12)) < 1 / (1 + np.exp(-(1.2 * rng.normal(size=(300, 1)) + np.linspace(-1, 1.5, 12))))
    chosen = np.where(right, "yes", np.where(rng.random((300, 12)) < 0.6, "no", "maybe")).astype("U6")
    chosen[:40] = np.char.replace(chosen[:40], "yes", "\ufeffYes")
    wide = pd.DataFrame(chosen, [f"r{k}" for k in range(300)], names).rename_axis("respondent_id").reset_index()
    wide.melt("respondent_id", var_name="item_id", value_name="answer").to_csv(tmp_path / "answers.csv", index=False)
    keys = ["yes"] * 4 + ["no"] + ["yes"] * 4 + [" yes ", "yes", "yes"]
    pd.DataFrame({"item_id": names, "key": keys}).to_csv(tmp_path / "items.csv", index=False)
    done = run("crowd keys answers.csv --items items.csv -o out", cwd=tmp_path)
    assert "1 of 12 keys look wrong" in " ".join(done.out.split())
    ranked = pd.read_csv(tmp_path / "out" / "keys.csv")
    assert list(ranked)[: len(KEYS)] == KEYS
    assert ranked.loc[0, ["item_id", "key", "proposed"]].tolist() == ["q4", "no", "yes"]
    assert (ranked["p_wrong_key"][1:] < 0.1).all()
    options = pd.read_csv(tmp_path / "out" / "distractors.csv")
    assert list(options)[: len(DISTRACTORS)] == DISTRACTORS
    assert len(options) == 36
    wide.assign(**dict(zip(names, keys, strict=True))).to_csv(tmp_path / "alike.csv", index=False)
    refused("crowd keys alike.csv --items items.csv -o none", saying="keys: no item was answered", cwd=tmp_path)


# --- raters


def test_raters_items_and_fair_scores_are_written(tmp_path: Path) -> None:
    write_ratings(tmp_path / "ratings.csv")
    done = run("crowd raters ratings.csv -o out --figures --html page.html", cwd=tmp_path)
    assert "most severe first" in done.out
    out = tmp_path / "out"
    raters, scores = pd.read_csv(out / "raters.csv"), pd.read_csv(out / "scores.csv")
    assert list(raters.columns[:5]) == ["rater_id", "n", "mean_score", "severity", "se"]
    assert raters.loc[raters["severity"].idxmax(), "rater_id"] == "judge2"
    assert scores["fair_score"].between(scores["fair_lower"], scores["fair_upper"]).all()
    assert set(pd.read_csv(out / "precision.csv")) == {"n_ratings", "se", "reliability"}
    about = json.loads((out / "raters.json").read_text())
    assert (about["converged"], about["n_raters"]) == (True, 3)
    assert (out / "severities.svg").is_file()
    assert "Fair score" in (tmp_path / "page.html").read_text()


def test_words_names_of_columns_and_groups(tmp_path: Path) -> None:
    write_ratings(tmp_path / "ratings.csv")
    table = pd.read_csv(tmp_path / "ratings.csv")
    table["grade"] = np.array(["poor", "fair", "good"])[table.pop("score")]
    table = table.rename(columns={"respondent_id": "model", "item_id": "prompt", "rater_id": "who"})
    table.assign(family=table["model"].str[-1]).to_csv(tmp_path / "words.csv", index=False)
    line = "crowd raters words.csv --column rater_id=who --levels poor,fair,good --by family --model grm --json -o out"
    found = run(line, cwd=tmp_path).json
    assert {row["rater_id"] for row in found["raters"]} == {"judge0", "judge1", "judge2"}
    groups = pd.read_csv(tmp_path / "out" / "interactions.csv")
    assert list(groups.columns[:4]) == ["rater_id", "family", "n", "severity"]
    assert groups["p_adjusted"].ge(groups["p"]).all()


# --- screen

CROWD = Path(irtbench.__file__).parents[1] / "data" / "crowd_study"
SHIPPED = "answers.csv.gz --items items.csv --item-column label=gold"


def test_rules_without_a_fit_need_no_torch(tmp_path: Path) -> None:
    rules, out = "--attention-share 1 --fast-quantile 0.01 --max-straight-line 12 --max-pattern 12", tmp_path / "out"
    line = f"crowd screen {SHIPPED} {rules} --min-effort 0.9 --rapid missing"
    found = written(line, out, "answers.csv item_times.csv respondents.csv screening.json", cwd=CROWD)
    people = pd.read_csv(out / "respondents.csv", keep_default_na=False)
    assert list(people)[:3] == ["respondent_id", "kept", "reason"]
    assert people["kept"].sum() == found["n_kept"] == found["reasons"]["kept"]
    truth = pd.read_csv(CROWD / "truth_respondents.csv").set_index("respondent_id")["kind"]
    kind = people["respondent_id"].map(truth)
    assert people.loc[kind == "clicker", "kept"].mean() < 0.1
    assert people.loc[kind == "attentive", "kept"].mean() > 0.93  # 4.4% of them fail a check
    answers = pd.read_csv(out / "answers.csv")
    assert set(answers["respondent_id"]) == set(people.loc[people["kept"], "respondent_id"])
    assert len(answers) == found["n_answers_kept"]


def test_what_a_fit_can_say_is_written_on_request(tmp_path: Path) -> None:
    """Of thirty people on 24 items; p0 and p1 gave the same answers, wrong ones included."""
    rows = [
        {"respondent_id": f"p{r}", "item_id": f"i{i}", "answer": "abc"[0 if (7 * r + 5 * i) % 31 > i else 1 + r % 2]}
        | {"approval_rate": "90%" if r == 29 else "99% (98/99)"}
        for r in (0, 0, *range(2, 30))
        for i in range(24)
    ]
    table = pd.DataFrame(rows)
    table.loc[24:47, "respondent_id"] = "p1"
    table.to_csv(tmp_path / "answers.csv", index=False)
    pd.DataFrame({"item_id": [f"i{i}" for i in range(24)], "key": "a"}).to_csv(tmp_path / "items.csv", index=False)
    rules = "--min-approval 0.97 --person-fit-p 1e-06 --similar 0.5 --effect"
    found = run(f"crowd screen answers.csv --items items.csv {rules} -o out --json", cwd=tmp_path).json
    assert found["reasons"] == {"kept": 29, "low approval rate": 1}
    out = tmp_path / "out"
    effect = pd.read_csv(out / "screening_effect.csv")
    assert effect["stage"].tolist() == ["before", "after"]
    assert effect["n_respondents"].tolist() == [30, 29]
    assert {"difficulty_before", "difficulty_after", "se_difficulty_after"} <= set(
        pd.read_csv(out / "items_effect.csv")
    )
    assert len(pd.read_csv(out / "similar_pairs.csv")) == found["n_similar_pairs"]
    people = pd.read_csv(out / "respondents.csv")
    assert {"similar_to", "similar_p", "person_fit"} <= set(people)
    assert people["person_fit"].notna().sum() == 29


def write_careless_grades(tmp_path: Path, levels: np.ndarray, n: int, n_items: int) -> None:
    """Of 120 with grades missing by ability four click fast at random, one gives the same grade, two are alike.

    Eight give the ends at random, ten give three grades, and two of low approval stand in a table of respondents.
    """
    rng = np.random.default_rng(4)
    theta, top = rng.normal(size=(n, 1)), rng.integers(2, 5, n_items)  # items of three to five grades
    logits = 1.5 * (theta - 0.7 * rng.normal(size=n_items)) + rng.logistic(size=(n, n_items))
    steps = [1.5 * np.linspace(-1.2, 1.2, k) for k in top]
    codes = np.stack([np.digitize(*each) for each in zip(logits.T, steps, strict=True)], axis=1)
    codes[5] = np.where(rng.random(n_items) < 0.95, codes[4], codes[5])
    seconds = rng.lognormal(2.5, 0.3, codes.shape)
    codes[10:14], seconds[10:14] = rng.integers(0, top + 1, (4, n_items)), rng.uniform(0.3, 0.6, (4, n_items))
    codes[20], seconds[30, :2] = 1, 0.2
    codes[60:68] = rng.integers(0, 2, (8, n_items)) * top
    missing = rng.random(codes.shape) < 0.4 / (1 + np.exp(1.5 * theta))
    missing[[4, 5, 20, 30, *range(60, 68)]] = False
    missing[70:80, 3:] = True
    ids, items = [f"r{i:03d}" for i in range(n)], [f"q{j:02d}" for j in range(n_items)]
    long = pd.DataFrame({"respondent_id": np.repeat(ids, n_items), "item_id": np.tile(items, n)})
    long = long.assign(score=levels[codes].ravel(), seconds=seconds.ravel())[~missing.ravel()]
    checks = pd.DataFrame({"respondent_id": ids, "item_id": "check", "score": "weak", "seconds": 9.0})
    checks.loc[50, "score"] = "fair"  # higher than what the check asks for, and wrong
    pd.concat([long, checks]).to_csv(tmp_path / "words.csv.gz", index=False)
    known = pd.DataFrame({"item_id": [*items, "check"], "key": [None] * n_items + ["weak"]})
    known.assign(attention=known["key"].notna().astype(int)).to_csv(tmp_path / "items.csv", index=False)
    approval = np.where(np.isin(np.arange(n), [40, 41]), 0.2, 0.95)
    pd.DataFrame({"respondent_id": ids, "approval_rate": approval}).to_csv(tmp_path / "people.csv", index=False)


def test_grades_are_screened_without_keys_as_build_screens_them(tmp_path: Path) -> None:
    levels, n, n_items = np.array(["poor", "weak", "fair", "good", "best"]), 120, 30
    write_careless_grades(tmp_path, levels, n, n_items)
    graded = f"crowd screen words.csv.gz --model grm --levels {','.join(levels)}"
    line = (
        f"{graded} --attention-share 1 --min-effort 0.9 --max-straight-line 15 --rapid missing --similar 0.05 --effect "
        "--min-responses 5 --person-fit-p 0.001 --respondents people.csv --min-approval 0.9 -o out --json --items"
    )
    found = run(line, "items.csv", cwd=tmp_path).json
    out = tmp_path / "out"
    people = pd.read_csv(out / "respondents.csv").set_index("respondent_id")
    reasons = {
        "r050": "failed attention checks", "r010": "rapid guessing", "r013": "rapid guessing",
        "r020": "straight-lining", "r070": "too few responses", "r079": "too few responses",
        "r040": "low approval rate", "r041": "low approval rate",
    }  # fmt: skip
    assert people.loc[[*reasons], "reason"].tolist() == [*reasons.values()]
    assert (people["reason"][60:68] == "unlike the model").sum() >= 7
    counted = {"failed attention checks": 1, "rapid guessing": 4, "straight-lining": 1, "too few responses": 10}
    assert found["reasons"] == found["reasons"] | counted | {"low approval rate": 2}
    assert found["n_kept"] == people["kept"].sum() == n - 18 - found["reasons"]["unlike the model"]
    assert people.loc["r004", "similar_to"] == "r005"
    pairs = pd.read_csv(out / "similar_pairs.csv")
    assert "n_identical_wrong" not in pairs
    assert [*zip(pairs["respondent_1"], pairs["respondent_2"], strict=True)] == [("r004", "r005")]
    kept = pd.read_csv(out / "answers.csv")
    assert [*kept] == ["respondent_id", "item_id", "score", "seconds"]
    assert [*kept["respondent_id"].unique()] == [*people.index[people["kept"]]]
    assert set(kept["score"]) == set(levels)
    assert kept["respondent_id"].eq("r030").sum() == n_items - 2  # its two rapid grades are left out
    assert "check" not in set(kept["item_id"])
    effect = pd.read_csv(out / "screening_effect.csv").set_index(["scale", "stage"])
    assert [*effect["n_respondents"]] == [n, found["n_kept"]]
    assert effect.loc[("all", "before"), "n_responses"] == people["n_responses"].sum()
    assert len(pd.read_csv(out / "items_effect.csv")) == n_items
    known = pd.read_csv(tmp_path / "items.csv")
    known.drop(columns="key").to_csv(tmp_path / "keyless.csv", index=False)
    saying = "attention check check has no key; expected the grade that is asked for"
    refused(line.replace("-o out", "-o no"), "keyless.csv", saying=saying, cwd=tmp_path)


def test_grades_in_numbers_are_screened_and_other_columns_left_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    grades = pd.DataFrame(rng.integers(1, 6, (20, 8)).astype(float)).rename(columns="q{}".format, index="s{}".format)
    grades.iloc[:3, 2:] = np.nan
    grades.assign(hours=rng.integers(1, 6, 20)).rename_axis("respondent_id").to_csv(tmp_path / "hours.csv")
    graded = "crowd screen hours.csv --exclude-columns hours --model grm --levels 1,2,3,4,5"
    found = run(f"{graded} --min-responses 5 -o out --json", cwd=tmp_path).json
    people = pd.read_csv(tmp_path / "out/respondents.csv").set_index("respondent_id")
    assert found["reasons"] == {"kept": 17, "too few responses": 3}
    assert found["n_answers_kept"] == people.loc[people["kept"], "n_responses"].sum() == 17 * 8
    # answers given, points, and their share of those that could be had: grades 1 to 5 are 0 to 4 points
    np.testing.assert_array_equal(people["n_responses"], grades.notna().sum(axis=1))
    np.testing.assert_array_equal(people["n_correct"], (grades - 1).sum(axis=1))
    np.testing.assert_allclose(people["accuracy"], (grades - 1).sum(axis=1) / (4 * grades.notna().sum(axis=1)))
    for line, saying in (
        ("crowd screen hours.csv", "--items: missing; ... or of grades --model"),
        (f"{graded} --rapid missing", "has no seconds"),
        (f"{graded} --chance-level .2", "by chance"),
    ):
        refused(f"{line} -o no", saying=saying, cwd=tmp_path)
