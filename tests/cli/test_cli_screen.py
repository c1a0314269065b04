"""``irtbench crowd screen`` as a user meets it, on the shipped crowd and on small ones."""

import json
from pathlib import Path

import pandas as pd
import pytest

import irtbench
from builders.command_line import refused, run

CROWD = Path(irtbench.__file__).parents[1] / "data" / "crowd_study"
SHIPPED = (CROWD / "answers.csv.gz", "--items", CROWD / "items.csv", "--item-column", "label=gold")


def test_rules_without_a_fit_need_no_torch(tmp_path: Path) -> None:
    rules = ("--attention-share", 1, "--fast-quantile", 0.01, "--max-straight-line", 12, "--max-pattern", 12)
    found = run(
        "crowd screen", *SHIPPED, *rules, "--min-effort", 0.9, "--rapid", "missing", "-o", tmp_path / "out", "--json"
    ).json
    out = tmp_path / "out"
    assert json.loads((out / "screening.json").read_text()) == found
    names = {"respondents.csv", "answers.csv", "screening.json", "item_times.csv"}
    assert {file.name for file in out.iterdir()} == names
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


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Thirty people on 24 items of one scale; p0 and p1 gave the same answers, wrong ones included."""
    rows = [
        {"respondent_id": f"p{r}", "item_id": f"i{i}", "answer": "abc"[0 if (7 * r + 5 * i) % 31 > i else 1 + r % 2]}
        | {"approval_rate": "90%" if r == 29 else "99% (98/99)"}
        for r in range(30)
        for i in range(24)
    ]
    table = pd.DataFrame(rows)
    table.loc[table["respondent_id"] == "p1", "answer"] = table.loc[table["respondent_id"] == "p0", "answer"].to_numpy()
    table.to_csv(tmp_path / "answers.csv", index=False)
    pd.DataFrame({"item_id": [f"i{i}" for i in range(24)], "key": "a"}).to_csv(tmp_path / "items.csv", index=False)
    return tmp_path


def test_what_a_fit_can_say_is_written_on_request(small: Path) -> None:
    out = small / "out"
    found = run(
        f"crowd screen {small}/answers.csv --items {small}/items.csv --min-approval 0.97 --person-fit-p 1e-06 "
        f"--similar 0.5 --effect -o {out} --json"
    ).json
    assert found["reasons"] == {"kept": 29, "low approval rate": 1}
    effect = pd.read_csv(out / "screening_effect.csv")
    assert effect["stage"].tolist() == ["before", "after"]
    assert effect["n_respondents"].tolist() == [30, 29]
    assert effect["reliability"].between(0, 1).all()
    items = pd.read_csv(out / "items_effect.csv")
    assert {"difficulty_before", "difficulty_after", "se_difficulty_after"} <= set(items)
    pairs = pd.read_csv(out / "similar_pairs.csv")
    assert len(pairs) == found["n_similar_pairs"]
    people = pd.read_csv(out / "respondents.csv")
    assert {"similar_to", "similar_p", "person_fit"} <= set(people)
    assert people["person_fit"].notna().sum() == 29


@pytest.mark.parametrize(
    ("arguments", "saying"),
    [
        (("--similar", 2), "--similar 2: expected a level"),
        (("--rapid", "missing"), "has no seconds"),
        (("--min-seconds", 3), "min_seconds is set but no seconds"),
        (("--attention-share", 1), "no item is an attention check"),
        (("--chance-level", 3), "chance_level"),
        (("--min-approval", 0.9, "--respondents", "items.csv"), "expected columns respondent_id and approval_rate"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(
    small: Path, arguments: tuple[object, ...], saying: str
) -> None:
    refused("crowd screen answers.csv --items items.csv -o out", *arguments, saying=saying, cwd=small)
    assert not (small / "out").exists()
