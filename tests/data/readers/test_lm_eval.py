"""lm-evaluation-harness: what its own writer writes with the dummy model, and each trap of the format."""

import json
import re

import pytest

from builders.refusals import is_refused
from irtbench.data.readers import read_answers, read_responses

DATE = "2026-11-21T23-55-05.942347"

WRITER = """
import json, sys
from pathlib import Path

Path("tasks").mkdir()
with open("tasks/sums.jsonl", "w") as file:
    file.writelines(json.dumps({"question": f"{i}+{i}=", "answer": str(2 * i)}) + "\\n" for i in range(6))
with open("tasks/even.jsonl", "w") as file:
    file.writelines(json.dumps({"question": f"Is {i} even?", "options": ["yes", "no"], "right": i % 2}) + "\\n"
                    for i in range(6))
common = {"dataset_path": "json", "test_split": "test", "doc_to_text": "{{question}}"}
where = lambda name: {"dataset_kwargs": {"data_files": {"test": str(Path(f"tasks/{name}.jsonl").absolute())}}}
Path("tasks/sums.yaml").write_text(json.dumps(common | where("sums") | {
    "task": "sums", "output_type": "generate_until", "doc_to_target": "{{answer}}",
    "generation_kwargs": {"until": ["\\n"]}, "metric_list": [{"metric": "exact_match"}],
    "filter_list": [
        {"name": "strict-match",
         "filter": [{"function": "regex", "regex_pattern": "([0-9]+)"}, {"function": "take_first"}]},
        {"name": "flexible-extract", "filter": [{"function": "take_first"}]},
    ]}))
Path("tasks/even.yaml").write_text(json.dumps(common | where("even") | {
    "task": "even", "output_type": "multiple_choice", "doc_to_target": "{{right}}", "doc_to_choice": "{{options}}",
    "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}]}))
sys.argv = ["lm_eval", "--model", "dummy", "--tasks", "sums,even", "--include_path", "tasks", "--output_path", "out",
            "--log_samples", "--seed", "1"]
from lm_eval.__main__ import cli_evaluate
cli_evaluate()
"""


def line(doc_id, value=1.0, filter="none", metric="acc", **changes):
    return {
        "doc_id": doc_id, "doc": {"question": f"q{doc_id}"}, "target": "yes",
        "arguments": {"gen_args_0": {"arg_0": "prompt", "arg_1": {}}}, "resps": [["yes"]], "filtered_resps": ["yes"],
        "filter": filter, "metrics": [metric], "doc_hash": f"hash{doc_id}", "prompt_hash": "p", "target_hash": "t",
        metric: value,
    } | changes  # fmt: skip


def results(model, **more):
    return {"results": {}, "configs": {}, "model_name": model} | more


@pytest.fixture
def run(write):
    def write_run(lines, model="org/model", folder="org__model", task="even"):
        path = write(f"{folder}/samples_{task}_{DATE}.jsonl", lines)
        if model is not None:
            write(f"{folder}/results_{DATE}.json", results(model))
        return path

    return write_run


def test_samples_of_its_own_writer(run_writer):
    folder = run_writer("lm_eval", WRITER) / "out"
    printed = json.loads(next(folder.rglob("results*.json")).read_text())
    table = read_responses(folder, metric=["acc", "exact_match,flexible-extract"])
    assert table.format == "lm-eval"
    assert table.left_out == {"of another metric or filter": 6}
    assert set(table.frame["respondent_id"]) == {printed["model_name"]}
    shares = table.frame.groupby("task")["response"].mean()
    assert shares["even"] == pytest.approx(printed["results"]["even"]["acc,none"])
    assert shares["sums"] == pytest.approx(printed["results"]["sums"]["exact_match,flexible-extract"])
    assert sorted(table.frame["item_id"]) == [f"{task}/{k}" for task in ("even", "sums") for k in range(6)]
    sums = next(folder.rglob("samples_sums*"))
    assert set(read_answers(sums, metric="exact_match,flexible-extract").frame["answer"]) == {"lol"}


def test_without_results_the_folder_names_the_model_and_those_of_several_are_refused(run, write):
    path = run([line(0)], model=None)
    assert set(read_responses(path).frame["respondent_id"]) == {"org__model"}
    for k, name in enumerate(("a", "b")):
        write(f"org__model/results_2026-01-0{k + 1}.json", results(name))
    is_refused(r"of which model\? the results in its folder name a, b", read_responses, path)


def test_neither_a_row_a_filter_nor_a_run_that_is_there_twice_counts_twice(run, triples):
    # GSM8K has 2,638 rows for 1,319 questions
    filters = ("strict-match", "flexible-extract")
    path = run([line(k, float(k % 2), name, "exact_match") for name in filters for k in range(4)], task="gsm8k")
    is_refused("line 5, .*several scores: 'exact_match,strict-match', 'exact_match,flex", read_responses, path)
    saying = "line 5, field filter: several filters: 'exact_match,flexible-extract'"
    is_refused(saying, read_responses, path, metric="exact_match")
    table = read_responses(path, metric="exact_match,strict-match")
    assert (len(table.frame), table.left_out) == (4, {"of another metric or filter": 4})
    table = read_responses(run([line(0, 1.0), line(1, 1.0), line(0, 0.0), line(1, 1.0)]))
    assert triples(table) == [("org/model", "even/0", 0), ("org/model", "even/1", 1)]
    assert table.left_out == {"superseded by a later line of the same document: the file was appended to": 2}


def test_wrong_doc_ids_after_unsorted_samples_are_named_and_joined_by_hash(run, tmp_path):
    run([line(0), line(1, 0.0)])
    run([line(0, doc_hash="hash1"), line(1, 0.0, doc_hash="hash0")], model="other", folder="other")
    is_refused("one name and different content: even/0, even/1; join by 'hash'", read_responses, tmp_path)
    with pytest.warns(UserWarning, match="different content"):
        table = read_responses(tmp_path, join="hash")
    other = table.frame[table.frame["respondent_id"] == "other"].set_index("item_id")["response"]
    assert dict(other) == {"hash1": 1, "hash0": 0}


def test_no_score_is_a_list_nor_a_metric_of_which_less_is_better(run, write):
    path = run([line(0, f1=[1, 0], metrics=["acc", "f1"])])
    assert list(read_responses(path).frame["response"]) == [1]  # the only number
    path = run([line(0, metric="f1", value=[1, 0])])
    is_refused(r"line 1, field f1: expected a number but it is \[1, 0\]", read_responses, path, metric="f1")
    is_refused("no score found", read_responses, path)
    path = run([line(0, metric="wrong"), line(1, metric="acc")], model=None)
    better = {"even": {"wrong": False, "acc": True}}
    write(f"org__model/results_{DATE}.json", results("m", higher_is_better=better))
    is_refused("line 1, field wrong: the results say that less is better", read_responses, path, metric="wrong")
    assert len(read_responses(path, metric="acc").frame) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"doc_id": None}, "line 2, field doc_id: expected a name but it is null"),
        ({"acc": "yes"}, "line 2"),
        ({"acc": 0.3}, "line 2: expected a score of 1, 0 or missing but got 0.3"),
        ({"metrics": "acc"}, 'line 2, field metrics: expected a list but it is "acc"'),
    ],
)
def test_wrong_fields_are_named(run, changes, message):
    path = run([line(0), line(1) | changes])
    is_refused(re.escape(f"file {path}, {message}"), read_responses, path, metric="acc")
