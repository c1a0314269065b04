"""The shipped crowd study is what its script makes and what its README says."""

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "data" / "crowd_study"
BY_HAND = ("README.md", "study.toml")
LABELS = ["contradiction", "entailment", "neutral"]
TRUTH = pd.read_csv(SHIPPED / "truth_items.csv", keep_default_na=False).set_index("item_id")
RESPONDENTS = pd.read_csv(SHIPPED / "truth_respondents.csv").set_index("respondent_id")


@pytest.fixture(scope="module")
def answers() -> pd.DataFrame:
    return pd.read_csv(SHIPPED / "answers.csv.gz", keep_default_na=False)


@pytest.fixture(scope="module")
def graded(answers: pd.DataFrame) -> pd.DataFrame:
    gold = pd.read_csv(SHIPPED / "items.csv").set_index("item_id")["gold"]
    right = answers["answer"] == answers["item_id"].map(gold)
    return answers.assign(right=right.astype(float)).pivot(index="respondent_id", columns="item_id", values="right")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file made; compressed ones unpacked, because versions of zlib may pack the same text apart."""
    return {
        str(path.relative_to(folder)): gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in BY_HAND
    }


def make_study(output: Path, *options: str) -> None:
    script = ROOT / "scripts" / "make_crowd_study.py"
    subprocess.run([sys.executable, script, "--output", output, *options], check=True, capture_output=True)


@pytest.mark.slow
def test_the_script_makes_the_shipped_files_again(tmp_path: Path) -> None:
    make_study(tmp_path / "one")
    made, shipped = contents(tmp_path / "one"), contents(SHIPPED)
    assert made.keys() == shipped.keys()
    assert [name for name in shipped if made[name] != shipped[name]] == []
    make_study(tmp_path / "two", "--seed", "2016")
    packed = [(tmp_path / name / "answers.csv.gz").read_bytes() for name in ("one", "two")]
    assert packed[0] == packed[1]
    assert packed[0][4:8] == bytes(4)  # the date in a gzip header


def test_everybody_answers_everything_once_in_an_order_of_their_own(answers: pd.DataFrame) -> None:
    assert len(answers) == len(answers.drop_duplicates(["respondent_id", "item_id"])) == 1000 * 93
    assert set(answers["answer"]) == {*LABELS, ""}
    assert (answers["answer"] == "").sum() == 12
    assert answers.groupby("respondent_id")["item_id"].first().nunique() == 93
    assert (answers["seconds"] > 0).all()


def test_other_items_lie_in_the_ranges_of_table_4() -> None:
    # Lalor, Wu & Yu (2016), Table 4, 5GS: min b, max b, min a, max a
    ranges = {
        "contradiction": (-2.765, 0.704, 0.846, 2.731),
        "entailment": (-3.253, -1.898, 0.78, 2.61),
        "neutral": (-2.082, -0.555, 1.271, 3.598),
    }
    for label, (b_low, b_high, a_low, a_high) in ranges.items():
        sound = TRUTH[(TRUTH["label"] == label) & ~TRUTH["planted"].isin(["flat", "reversed"])]
        assert sound["difficulty"].between(b_low, b_high).all()
        assert sound["discrimination"].between(a_low, a_high).all()


def test_respondents_are_as_stated(graded: pd.DataFrame) -> None:
    assert RESPONDENTS["kind"].value_counts().to_dict() == {"attentive": 955, "inattentive": 15, "clicker": 30}
    theta = RESPONDENTS[[f"theta_{label}" for label in LABELS]].dropna()
    assert len(theta) == 970
    # 970 draws: the standard error of a mean or sd is .03, of a correlation of .6 about .02
    np.testing.assert_allclose(theta.mean(), 0, atol=0.1)
    np.testing.assert_allclose(theta.std(), 1, atol=0.08)
    np.testing.assert_allclose(theta.corr().to_numpy()[np.triu_indices(3, 1)], 0.6, atol=0.07)
    passed = graded[["check1", "check2", "check3"]].sum(axis=1).groupby(RESPONDENTS["kind"])
    # clickers get all three right with probability 1/27; attentive workers with (.985 + .015 / 3)^3 = .97
    assert (passed.get_group("clicker") < 3).mean() > 0.8
    assert (passed.get_group("attentive") == 3).mean() == pytest.approx(0.97, abs=0.02)


def test_answers_show_what_was_planted(graded: pd.DataFrame) -> None:
    attentive = graded[RESPONDENTS["kind"] == "attentive"]
    theta = RESPONDENTS.loc[attentive.index]
    with_theta = {item: attentive[item].corr(theta[f"theta_{TRUTH['label'][item]}"]) for item in TRUTH.index}
    assert max(with_theta["c22"], with_theta["n05"]) < -0.3
    assert max(abs(with_theta["c11"]), abs(with_theta["e17"])) < 0.15
    assert min(with_theta[item] for item in TRUTH.index[~TRUTH["planted"].isin(["flat", "reversed"])]) > 0.15
    # the copy agrees with its model far more often than its neighbour does
    same = {item: (attentive["n13"] == attentive[item]).mean() for item in ("n12", "n14", "n15")}
    assert same["n14"] > max(same["n12"], same["n15"]) + 0.08
