"""``irtbench convert``: any format to the long table, with a word on what was read."""

import json
from pathlib import Path
from typing import get_args

import pandas as pd
import pytest

from builders.command_line import run
from irtbench.data.how_to_read import FormatName
from irtbench.data.readers.recognise import FORMATS


def lines(path: Path, *subjects: dict) -> Path:
    path.write_text("".join(json.dumps(subject) + "\n" for subject in subjects))
    return path


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_responses_to_the_long_table(tmp_path: Path, ending: str) -> None:
    first = {"subject_id": "m1", "responses": {"q1": 1, "q2": 0}}
    pyirt = lines(tmp_path / "a.jsonl", first, {"subject_id": "m2", "responses": {"q2": 1}})
    out = tmp_path / "new" / f"long.{ending}"
    found = run(f"convert {pyirt} -o {out} --json").json
    assert {name: found[name] for name in ("format", "n_respondents", "n_items", "n_responses", "n_left_out")} == {
        "format": "py-irt", "n_respondents": 2, "n_items": 2, "n_responses": 3, "n_left_out": 0,
    }  # fmt: skip
    assert found["density"] == 0.75
    assert found["proportion_correct"] == pytest.approx(2 / 3)
    table = pd.read_parquet(out) if ending == "parquet" else pd.read_csv(out)
    assert list(table) == ["respondent_id", "item_id", "response"]
    assert table["response"].tolist() == [1, 0, 1]
    if ending == "csv":
        assert out.read_text() == "respondent_id,item_id,response\nm1,q1,1\nm1,q2,0\nm2,q2,1\n"
        again = run(f"convert {out} -o {tmp_path}/again.csv --from long --json")  # the long table is ours
        assert again.json["n_responses"] == 3


def test_trials_stay_as_they_are_or_are_reduced_as_asked(tmp_path: Path) -> None:
    """Two answers of one system to one item, one to another."""
    told = (("a", True), ("a", False), ("b", True))
    events = [{"type": "match", "sample_id": item, "data": {"correct": right}} for item, right in told]
    match = lines(tmp_path / "e.jsonl", {"spec": {"completion_fns": ["gpt"], "eval_name": "t"}}, *events)
    out = tmp_path / "long.csv"
    found = run(f"convert {match} -o {out} --json").json
    assert (found["n_trials"], found["n_responses"], found["density"]) == (2, 3, 1)
    assert pd.read_csv(out)[["item_id", "response", "trial"]].to_numpy().tolist() == [
        ["t/a", 1, 1], ["t/a", 0, 2], ["t/b", 1, 1]
    ]  # fmt: skip
    run(f"convert {match} -o {out} --trials majority")
    assert pd.read_csv(out)["response"].tolist() == [0, 1]
    run(f"convert {match} -o {out} --trials mean --threshold 0.5")
    assert pd.read_csv(out)["response"].tolist() == [1, 1]
    run(f"convert {match} -o {tmp_path}/counts.csv --trials count")
    run(f"convert {tmp_path}/counts.csv -o {out}")
    counts = "respondent_id,item_id,n_correct,n_trials,task\ngpt,t/a,1,2,t\ngpt,t/b,1,1,t\n"
    assert (tmp_path / "counts.csv").read_text() == out.read_text() == counts


def test_what_was_left_out_is_counted_and_printed(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    lines(folder / "a.jsonl", {"subject_id": "m1", "responses": {"q1": 1, "q2": None}})
    (folder / "notes.txt").write_text("notes\n")
    found = run(f"convert {folder} -o {tmp_path}/long.csv --json").json
    assert found["left_out"] == {"files of no known format": 1, "without a response": 1}
    assert found["n_left_out"] == 1  # a file is no response
    assert get_args(FormatName) == FORMATS  # which the command line knows
    assert "1: without a response" in run(f"convert {folder} -o {tmp_path}/long.csv").out


@pytest.mark.parametrize(("options", "n_items"), [("", 2), ("--items q1", 1), ("--exclude-columns age", 2)])
def test_survey_columns_are_left_out_or_chosen(tmp_path: Path, options: str, n_items: int) -> None:
    (tmp_path / "wide.csv").write_text("who,age,q1,q2\nann,31,1,0\nbob,25,0,1\n")
    done = run(f"convert wide.csv -o long.csv --json {options}", cwd=tmp_path)
    assert done.json["n_items"] == n_items
    assert ("left out as no items: column age" in done.err) == (done.err != "") == (options == "")


def test_a_table_for_a_paper_has_the_columns_asked_for_rounded_and_escaped(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("item_id,label_a,b,n\nq_1,x & y <b>,0.12345,10\nq_2,z,-1.5,\n")
    made = {"o.tex": "--columns item_id,b,label_a", "o.html": "--columns item_id,b,label_a", "all.md": "--digits 1"}
    for name, options in made.items():
        run(f"convert t.csv -o {name} {options} -q", cwd=tmp_path)
    tex, html, md = ((tmp_path / name).read_text() for name in made)
    assert tex.splitlines() == [
        r"\begin{tabular}{lrl}", r"\toprule", r"item id & b & label a \\", r"\midrule", r"q\_1 & 0.12 & x \& y <b> \\",
        r"q\_2 & -1.50 & z \\", r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip
    assert "x &amp; y &lt;b&gt;" in html
    assert "<b>" not in html
    assert md.splitlines()[1:] == [
        "| --- | --- | ---: | ---: |", "| q_1 | x & y <b> | 0.1 | 10 |", "| q_2 | z | -1.5 |  |",
    ]  # fmt: skip
