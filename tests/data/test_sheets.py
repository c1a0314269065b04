"""From sheet to answers and back: what is uploaded, answered in the tool's own layout, is read under the same names."""

import json
import xml.etree.ElementTree as ElementTree
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from irtbench.data.item_sampling import make_booklets
from irtbench.data.readers import read_answers
from irtbench.data.sheets import SheetFormat, crowd_sheets

OPTIONS = ("yes", "no", 'it "depends" <a & b>')
ITEMS = [f"i{j}" for j in range(8)]
CHECKS = ["check1", "check2"]
TEXTS = {item: f'Text of "{item}", with a comma & <marks>\nand a line' for item in (*ITEMS, *CHECKS)}


@pytest.fixture
def booklets() -> pd.DataFrame:
    return make_booklets(ITEMS, n_booklets=4, n_each=5, checks=CHECKS, rng=np.random.default_rng(1))


def answered(booklets: pd.DataFrame) -> pd.Series:
    """An answer by each of one respondent a booklet, to each of its items."""
    pairs = zip("worker" + booklets["booklet"].astype(str), booklets["item_id"], strict=True)
    names = pd.MultiIndex.from_tuples(pairs, names=["respondent_id", "item_id"])
    return pd.Series(np.random.default_rng(2).choice(OPTIONS, len(booklets)), names, name="answer")


def files_of(booklets: pd.DataFrame, format: SheetFormat) -> dict[str, str]:
    return crowd_sheets(booklets, TEXTS, format=format, options=OPTIONS, question="True?")


def demand_read(place: Path | list[Path], booklets: pd.DataFrame, format: str) -> pd.DataFrame:
    """Every answer is read, of the respondent and to the item that it was given to."""
    table = read_answers(place)
    assert table.format == format
    pd.testing.assert_series_equal(
        table.frame.set_index(["respondent_id", "item_id"])["answer"].sort_index(), answered(booklets).sort_index()
    )
    return table.frame


def test_label_studio(booklets: pd.DataFrame, tmp_path: Path) -> None:
    files = files_of(booklets, "label-studio")
    given = answered(booklets)
    interface = ElementTree.fromstring(files.pop("label_studio.xml"))
    assert [choice.get("value") for choice in interface.iter("Choice")] == list(OPTIONS)
    name = interface.find("Choices").get("name")
    for k, (file, content) in enumerate(sorted(files.items()), start=1):
        tasks = json.loads(content)
        own = booklets[booklets["booklet"] == k]
        assert [task["data"]["item_id"] for task in tasks] == list(own["item_id"])
        for number, task in enumerate(tasks, start=100 * k):  # a counter of Label Studio's own
            answer = given[f"worker{k}", task["data"]["item_id"]]
            result = {"from_name": name, "to_name": "text", "type": "choices", "value": {"choices": [answer]}}
            annotation = {
                "id": number, "completed_by": {"email": f"worker{k}"}, "result": [result], "was_cancelled": False,
                "lead_time": 3.5, "created_at": "2026-11-01T10:00:00Z", "ground_truth": False,
            }  # fmt: skip
            task |= {"id": number, "annotations": [annotation]}
        (tmp_path / file).write_text(json.dumps(tasks))
    demand_read(tmp_path, booklets, "label-studio")


def test_potato(booklets: pd.DataFrame, tmp_path: Path) -> None:
    files = files_of(booklets, "potato")
    config = json.loads(files["potato.yaml"])
    lines = [json.loads(line) for line in files["potato_items.jsonl"].splitlines()]
    assert {line["id"]: line["text"] for line in lines} == TEXTS
    groups = config["batch_assignment"]["groups"]
    assert [group["instances"] for group in groups] == [list(own["item_id"]) for _, own in booklets.groupby("booklet")]
    (scheme,) = config["annotation_schemes"]
    assert [label["name"] for label in scheme["labels"]] == list(OPTIONS)
    export = [
        {"instance_id": item, "user_id": who, "labels": {scheme["name"]: {answer: "true"}}}
        for who, item, answer in answered(booklets).reset_index().itertuples(index=False)
    ]
    (tmp_path / "annotations.jsonl").write_text("\n".join(map(json.dumps, export)))
    demand_read(tmp_path / "annotations.jsonl", booklets, "potato")


def test_mturk(booklets: pd.DataFrame, tmp_path: Path) -> None:
    files = files_of(booklets, "mturk")
    hits = pd.read_csv(StringIO(files["mturk.csv"]), dtype=str)
    assert len(hits) == 4
    assert hits["text1"].tolist() == [TEXTS[item] for item in hits["item_id1"]]
    form = files["mturk.html"]
    assert all(f'name="q{k}"' in form and f"${{text{k}}}" in form for k in range(1, 8))
    given = answered(booklets)
    batch = hits.add_prefix("Input.")
    for k in range(1, 8):
        batch[f"Answer.q{k}"] = [given[f"worker{row['booklet']}", row[f"item_id{k}"]] for _, row in hits.iterrows()]
    for column, letters in (("HITId", "H"), ("AssignmentId", "A"), ("WorkerId", "worker")):
        batch.insert(0, column, letters + hits["booklet"])
    batch.assign(AssignmentStatus="Submitted").to_csv(tmp_path / "batch.csv", index=False)
    demand_read(tmp_path / "batch.csv", booklets, "mturk")


def test_prolific(booklets: pd.DataFrame, tmp_path: Path) -> None:
    """Answers as a survey tool gives them, and Prolific's table of participants."""
    files = files_of(booklets, "prolific")
    points = pd.read_csv(StringIO(files["prolific.csv"]), dtype=str)
    schema = json.loads(files["prolific_schema.json"])["fields"]
    assert set(schema) == set(points)
    assert [name for name, field in schema.items() if field["type"] == "text"] == ["text"]
    assert points["text"].tolist() == [TEXTS[item] for item in points["item_id"]]
    (instruction,) = json.loads(files["prolific_instructions.json"])
    assert [choice["value"] for choice in instruction["options"]] == list(OPTIONS)
    given = answered(booklets)
    points["respondent_id"] = "worker" + points["booklet"].str[-1]
    points["answer"] = [given[pair] for pair in zip(points["respondent_id"], points["item_id"], strict=True)]
    points.to_csv(tmp_path / "answers.csv", index=False)
    people = sorted(points["respondent_id"].unique())
    pd.DataFrame(
        {"Submission id": [f"s{k}" for k in range(4)], "Participant id": people, "Status": "APPROVED",
         "Started at": "2026-11-01", "Completed at": "2026-11-01", "Time taken": "600", "Total approvals": "10"}
    ).to_csv(tmp_path / "prolific.csv", index=False)  # fmt: skip
    frame = demand_read([tmp_path / "answers.csv", tmp_path / "prolific.csv"], booklets, "long")
    assert set(frame["submission_seconds"]) == {600.0}


@pytest.mark.parametrize("format", ["prolific", "label-studio", "potato", "mturk"])
def test_nothing_says_which_items_are_checks(booklets: pd.DataFrame, format: SheetFormat) -> None:
    names = {item: f"n{k}" for k, item in enumerate((*ITEMS, *CHECKS))}
    renamed, texts = booklets.replace({"item_id": names}), dict.fromkeys(names.values(), "text")
    content = "".join(crowd_sheets(renamed, texts, format=format, options=OPTIONS).values())
    assert "attention" not in content
    assert "check" not in content


def test_no_formula_in_a_sheet_and_no_foreign_script_in_a_page() -> None:
    booklets = pd.DataFrame({"booklet": [1], "position": [1], "item_id": ["@SUM(1+1)"]})
    texts = {"@SUM(1+1)": "=2+3 is five"}
    files = crowd_sheets(booklets, texts, format="mturk", options=["yes", "no"])
    assert files["mturk.csv"].splitlines()[1] == "1,'@SUM(1+1),&#61;2+3 is five"
    assert files["mturk.html"].startswith('<meta http-equiv="Content-Security-Policy" content="default-src \'none\';')
    files = crowd_sheets(booklets, texts, format="prolific", options=["yes", "no"])
    assert "'@SUM(1+1)" in files["prolific.csv"]
