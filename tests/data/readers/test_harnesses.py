"""Runs of systems in the layout of each harness, small files with every trap of the format."""

import re

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.command_line import run_program
from builders.refusals import is_refused
from irtbench.data.input_error import InputError
from irtbench.data.readers import holds_responses, read_answers, read_items, read_responses


def eee(sample, score=1.0, metric=None, epoch=None, model="m", **more):
    line = {
        "schema_version": "0.3.0", "evaluation_id": "e", "model_id": model, "evaluation_name": "t",
        "sample_id": sample, "sample_hash": f"recipe of {model}", "interaction_type": "single_turn",
        "input": {"raw": f"question {sample}", "reference": ["yes"], "formatted": f"prompt of {model}"},
        "answer_attribution": [{"turn_idx": 0, "extracted_value": "yes"}],
        "evaluation": {"score": score, "is_correct": score > 0},
    }  # fmt: skip
    line |= {} if metric is None else {"evaluation_result_id": metric}
    return line | ({} if epoch is None else {"metadata": {"epoch": epoch}}) | more


def test_every_eval_ever_by_metric(write, triples):
    path = write("u_samples.jsonl", [eee(k, s, m) for k in (1, 2) for m, s in (("match:acc", 1.0), ("judge:acc", 0.0))])
    is_refused("line 2, field evaluation_result_id: several scores: 'match:acc', 'judge", read_responses, path)
    table = read_responses(path, metric="judge:acc")
    assert table.format == "every-eval-ever"
    assert triples(table) == [("m", "t/1", 0), ("m", "t/2", 0)]
    assert table.left_out == {"of another metric": 2}
    is_refused("no score 'f1'; expected one of match:acc, judge:acc", read_responses, path, metric="f1")


def test_every_eval_ever_score_of_an_errored_sample_was_invented_and_is_correct_is_no_partial_credit(write):
    path = write("u_samples.jsonl", [eee(1), eee(2, 1.0, error="timeout"), eee(3, 0.25)])
    is_refused(r"line 3: expected a score of 1, 0 or missing but got 0\.25", read_responses, path)
    table = read_responses(path, threshold=0.5)
    assert table.frame[["item_id", "response"]].to_numpy().tolist() == [["t/1", 1], ["t/3", 0]]
    assert table.left_out == {"the run failed at this sample": 1}
    assert list(read_responses(path, threshold=0.5, errored="wrong").frame["response"]) == [1, 0, 0]


def test_every_eval_ever_epochs_are_trials_and_the_hash_is_our_own(write):
    one = write("a_samples.jsonl", [eee(1, epoch="1"), eee(1, 0.0, epoch="2")])
    two = write("b_samples.jsonl", [eee(1, epoch="1", model="n"), eee(1, epoch="2", model="n")])
    write("a.json", {"schema_version": "0.3.0", "evaluation_id": "e", "evaluation_results": []}, indent=1)
    table = read_responses([one.parent], trials="keep")
    assert list(table.frame["trial"]) == ["1", "2", "1", "2"]
    assert table.frame["item_hash"].nunique() == 1  # sample_hash differs between the converters
    assert table.left_out == {}
    assert list(read_answers(two, trials="first").frame["answer"]) == ["yes"]


@pytest.fixture
def measurement(tmp_path):
    def write(rows, **items):
        columns = ["subject_id", "item_id", "benchmark_id", "trial", "test_condition", "response"]
        frame = pd.DataFrame(rows, columns=columns).assign(correct_answer="x", trace="long " * 100, metadata=None)
        frame.to_parquet(tmp_path / "responses.parquet", index=False)
        if items:
            table = pd.DataFrame({"item_id": list(items), "content_hash": list(items.values())})
            table.assign(raw_item_id="r", content="c").to_parquet(tmp_path / "items.parquet", index=False)
            pd.DataFrame({"subject_id": ["s"], "display_name": ["S"]}).to_parquet(tmp_path / "subjects.parquet")
        return tmp_path / "responses.parquet"

    return write


def test_measurement_db_with_hashes_of_its_items_trials_and_test_conditions(measurement, triples):
    path = measurement([("s", "i1", "b", 1, None, 1.0), ("s", "i2", "b", 1, None, 0.0)], i1="h1", i2="h2")
    table = read_responses(path.parent)
    assert table.format == "measurement-db"
    assert triples(table) == [("s", "i1", 1), ("s", "i2", 0)]
    assert list(table.frame["item_hash"]) == ["h1", "h2"]
    assert set(table.frame["gold"]) == {"x"}
    assert table.left_out == {}
    shot = "zero-shot"
    path = measurement([("s", "i1", "b", 1, shot, 1.0), ("s", "i1", "b", 2, shot, 0.0), ("s", "i1", "b", 1, None, 0.5)])
    is_refused("several test conditions: 'zero-shot', 'none'; choose one", read_responses, path)
    table = read_responses(path, metric="zero-shot", trials="keep")
    assert list(table.frame["trial"]) == ["1", "2"]
    assert table.left_out == {"under another test condition": 1}
    is_refused(r"several trials of a pair: \(s, i1\); choose first", read_responses, path, metric="zero-shot")
    is_refused(r"row 3: expected a score of 1, 0 or missing but got 0\.5", read_responses, path, metric="none")


def helm(instance, value=1.0, trial=0, perturbation=None, **more):
    def stat(name, mean):
        return {"name": {"name": name, "split": "test"}, "count": 1, "sum": mean, "sum_squared": mean, "mean": mean}

    stats = [stat("num_output_tokens", 7.0), stat("exact_match", value), *(stat(n, v) for n, v in more.items())]
    record = {"instance_id": instance, "train_trial_index": trial, "stats": stats}
    if perturbation is not None:
        record["perturbation"] = {"name": perturbation, "robustness": True}
    return record


@pytest.fixture
def helm_run(write):
    def write_run(records, model="openai/gpt", folder="run"):
        spec = {"name": f"mmlu:subject=law,model={model.replace('/', '_')}", "adapter_spec": {"model": model}}
        write(f"{folder}/run_spec.json", spec, indent=2)
        return write(f"{folder}/per_instance_stats.json", records, indent=2)

    return write_run


def test_helm_instances_without_their_perturbed_copies_by_means_or_sums_over_counts(helm_run, triples):
    path = helm_run([helm("id1"), helm("id2", 0.0), helm("id1", 0.0, perturbation="typos")])
    table = read_responses(path)
    assert table.format == "helm"
    assert triples(table) == [("openai/gpt", "mmlu:subject=law/id1", 1), ("openai/gpt", "mmlu:subject=law/id2", 0)]
    assert table.left_out == {"perturbed copies of an instance": 1}
    only = read_responses(path, metric="exact_match::typos")
    assert triples(only) == [("openai/gpt", "mmlu:subject=law/id1", 0)]
    assert only.left_out == {"instances without the perturbation": 2}
    given, summed, none = helm("id1"), helm("id2"), helm("id3")
    given["stats"][1] |= {"mean": 1.0, "sum": 0.0, "count": 2}
    summed["stats"][1] |= {"mean": None, "sum": 2.0, "count": 2}
    none["stats"][1] |= {"mean": None, "sum": 0.0, "count": 0}
    found = triples(read_responses(helm_run([given, summed, none])))
    assert [(item, response) for _, item, response in found] == [
        ("mmlu:subject=law/id1", 1), ("mmlu:subject=law/id2", 1)
    ]  # fmt: skip


def test_helm_train_trials_are_trials_and_a_folder_is_a_study(helm_run, tmp_path):
    for k, model in enumerate(("a/x", "b/y")):
        helm_run([helm("id1", float(k), trial=t) for t in (0, 1)], model, f"runs/{k}")
    table = read_responses(tmp_path, trials="first")
    assert (list(table.frame["respondent_id"]), table.left_out) == (["a/x", "b/y"], {})


def test_helm_metric_has_to_be_chosen_among_several(helm_run, write):
    path = helm_run([helm("id1", quasi_exact_match=0.0)])
    is_refused("record 1, field stats: several scores: 'exact_match', 'quasi_exact_match'", read_responses, path)
    assert list(read_responses(path, metric="quasi_exact_match").frame["response"]) == [0]
    is_refused("answers were wanted", read_answers, path)
    (path.parent / "run_spec.json").unlink()
    is_refused(r"of which model\? expected run_spec\.json in its folder", read_responses, path)


def test_evalplus_model_in_the_name_trials_and_statuses(write, triples):
    def entry(base, plus):
        return {"task_id": "x", "solution": "def f(): pass", "base_status": base, "plus_status": plus}

    def written(last):
        runs = {"HumanEval/0": [entry("pass", "pass"), entry("pass", "timeout")], "HumanEval/1": [entry(last, None)]}
        return write(f"{model}_eval_results.json", {"date": "2026-01-01", "hash": "h", "eval": runs})

    model = "org--model_vllm_temp_0.8"
    path = written("fail")
    is_refused("several scores: 'base', 'plus'", read_responses, path)
    base = read_responses(path, metric="base", trials="keep")
    assert base.format == "evalplus"
    assert triples(base) == [(model, "HumanEval/0", 1), (model, "HumanEval/0", 1), (model, "HumanEval/1", 0)]
    assert list(base.frame["trial"]) == ["1", "2", "1"]
    plus = read_responses(path, metric="plus", trials="majority")
    assert triples(plus) == [(model, "HumanEval/0", 0)]  # one of two is no majority
    assert plus.left_out == {"without a status": 1}
    saying = 'base_status: expected pass, fail or timeout but it is "crash"'
    is_refused(saying, read_responses, written("crash"), metric="base", trials="first")


def test_lighteval_names_items_by_content(tmp_path):
    def row(query, score, **more):
        doc = {"query": query, "choices": ["yes", "no"], "gold_index": [1], "task_name": "boolq"}
        return {"doc": doc, "metric": {"em": score} | more, "model_response": {"text": ["no"]}}

    def write(rows, model="org/model"):
        path = tmp_path / "details" / model / "2026-01-01T00-00-00" / "details_boolq|0_2026-01-01T00-00-00.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path

    write([row("a?", 1.0), row("b?", 0.0), row("a?", 0.0)])
    write([row("b?", 1.0), row("a?", 1.0)], "org/other")
    table = read_responses(tmp_path)
    assert table.format == "lighteval"
    assert set(table.frame["respondent_id"]) == {"org/model", "org/other"}
    wide = table.frame.pivot(index="item_id", columns="respondent_id", values="response")
    assert len(wide) == 3
    assert sum("#2" in item for item in wide.index) == 1  # a question that comes twice is two items
    assert wide["org/other"].notna().sum() == 2
    assert set(table.frame["gold"]) == {"no"}
    is_refused("row 1, field metric: several scores: 'em', 'f1'", read_responses, write([row("a?", 1.0, f1=0.5)]))


def test_openai_evals_matches(write, triples):
    spec = {"spec": {"completion_fns": ["gpt-4"], "eval_name": "arith.dev.v0"}}

    def match(sample, correct, picked="4"):
        data = {"correct": correct, "expected": "4", "picked": picked}
        return {"run_id": "r", "event_id": 0, "sample_id": sample, "type": "match", "data": data, "created_at": "2026"}

    sampling = {"run_id": "r", "event_id": 1, "sample_id": "s.0", "type": "sampling", "data": {"prompt": "x"}}
    path = write("r.jsonl", [spec, sampling, match("s.0", True), match("s.1", False, "5"), {"final_report": {}}])
    table = read_responses(path)
    assert table.format == "openai-evals"
    assert triples(table) == [("gpt-4", "arith.dev.v0/s.0", 1), ("gpt-4", "arith.dev.v0/s.1", 0)]
    assert table.left_out == {"events of type sampling": 1}
    assert triples(read_answers(path))[1] == ("gpt-4", "arith.dev.v0/s.1", "5")
    again = write("again.jsonl", [spec, match("s.0", True), match("s.0", False)])
    assert list(read_responses(again, trials="keep").frame["trial"]) == ["1", "2"]
    assert list(read_responses(again, trials="any").frame["response"]) == [1]


PY_IRT = {"subject_id": "m1", "responses": {"q1": 1, "q2": 0}}


def test_py_irt_missing_keys_are_missing_and_half_a_character_is_refused(write, triples):
    lines = [PY_IRT, {"subject_id": "m2", "responses": {"q2": 1}}]
    path = write("t.jsonlines", lines)
    assert holds_responses(path)
    table = read_responses(path)
    assert (table.format, triples(table)) == ("py-irt", [("m1", "q1", 1), ("m1", "q2", 0), ("m2", "q2", 1)])
    wrong = write("w.jsonl", [*lines, {"subject_id": "m3", "responses": {"q1": "yes"}}])
    is_refused(r'w\.jsonl, line 3, field responses\.q1: expected a number but it is "yes"', read_responses, wrong)
    log = write("a.jsonl", [{"subject_id": "m1", "responses": {"q1": 1, "q\ud8002": 0}}])
    is_refused(r"a\.jsonl, .* half a character in the text 'q\\ud8002'; expected whole", read_responses, log)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.jsonl", [{"a": 1}, {"a": 2}], "JSON lines with a: no format that is known"),
        ("n.jsonl", [{"a": 1, "scores": {"em": 1}}] * 2, "JSON lines with a, scores.em: no format that is known"),
        ("t.json", [{"b": 1}], "a JSON array, its records with b: no format"),
        ("t.json", {"c": 1}, "a JSON object with c: no format"),
    ],
)
def test_unknown_json_says_what_it_holds(write, name, content, message):
    path = write(name, content, indent=1)
    is_refused(re.escape(f"file {path}: {message}"), read_responses, path)


def test_two_formats_in_a_folder_need_a_choice(write, tmp_path):
    log = write("a.jsonl", [PY_IRT])
    write("b_samples.jsonl", [eee(1)])
    is_refused(r"several formats: py-irt: .*a\.jsonl; every-eval-ever: .*b_samples\.jsonl", read_responses, tmp_path)
    table = read_responses(tmp_path, format="py-irt")
    assert (len(table.frame), table.left_out) == (2, {"files of no known format": 1})
    is_refused("format: expected one of auto, long, wide, inspect", read_responses, tmp_path, format="xlsx")
    table = write("b.csv", "respondent_id,item_id,response\na,q1,1\n")
    is_refused(r"several formats: py-irt: .*a\.jsonl; table: .*b\.csv; expected one", read_responses, [log, table])


def test_a_folder_of_tables_is_one_study_and_an_empty_one_is_refused(write, tmp_path):
    write("in/a.csv", "respondent_id,item_id,response\na,q1,1\n")
    write("in/b.csv", "respondent_id,item_id,response\nb,q1,0\n")
    assert list(read_responses(tmp_path / "in").frame["respondent_id"]) == ["a", "b"]
    write("in/c.csv", "who,q1,q2\nc,1,0\n")
    is_refused(r"tables of two layouts: file .*a\.csv: long; .*c\.csv: wide", read_responses, tmp_path / "in")
    (tmp_path / "empty").mkdir()
    is_refused("no files in it", read_responses, tmp_path / "empty")


def result(provider, test, success, *, prompt="p", description=None, failure=0):
    return {
        "promptIdx": 0, "testIdx": test, "testCase": {"vars": {"q": test}, "description": description},
        "provider": provider, "prompt": {"raw": "{{q}}", "label": prompt}, "vars": {"q": test}, "success": success,
        "score": 0.5, "namedScores": {"tone": float(success)}, "failureReason": failure,
        "response": None if failure == 2 else {"output": "out"},
        "error": "assertion" if not success else None, "latencyMs": 5,
    }  # fmt: skip


def promptfoo(results):
    return {"evalId": "eval-1", "results": {"version": 3, "prompts": [], "results": results, "stats": {}},
            "config": {"description": "d"}, "shareableUrl": None}  # fmt: skip


def test_promptfoo_tests_are_passed_or_not(write, triples):
    one = {"id": "openai:m", "label": "m"}
    rows = [result(one, 0, True, description="sums"), result(one, 1, False), result(one, 1, True),
            result("openai:n", 0, False, description="sums", failure=2)]  # fmt: skip
    path = write("results.json", promptfoo(rows))
    table = read_responses(path, trials="first")
    assert table.format == "promptfoo"
    assert triples(table) == [("m", "sums", 1), ("m", "test 1", 0)]
    assert triples(read_responses(write("lines.jsonl", rows), trials="first")) == triples(table)
    assert table.left_out == {"the run failed at this test": 1}
    assert read_responses(path, trials="count").frame["n_trials"].tolist() == [1, 2]
    assert triples(read_responses(path, trials="last", errored="wrong"))[-1] == ("openai:n", "sums", 0)
    assert triples(read_responses(path, metric="tone", trials="first"))[0] == ("m", "sums", 1)
    is_refused("no score 'x'; expected one of success, score, tone", read_responses, path, metric="x")
    assert read_answers(path, trials="first").frame["answer"].tolist() == ["out", "out"]
    # prompts of one provider are respondents
    path = write("results.json", promptfoo([result("m", 0, True, prompt="a"), result("m", 0, False, prompt="b")]))
    assert triples(read_responses(path)) == [("m / a", "test 0", 1), ("m / b", "test 0", 0)]


def case(name, success, **more):
    metric = {"name": "Relevancy", "threshold": 0.5, "success": success, "score": 0.7, "evaluationModel": "j"}
    other = {"name": "Bias", "threshold": 0.5, "success": True, "score": 0.1, "error": None}
    return {"name": name, "input": f"q {name}", "actualOutput": "yes", "expectedOutput": "no", "success": success,
            "metricsData": [metric, other], "completionTime": 1.5} | more  # fmt: skip


def test_deepeval_cases_are_passed_or_not(write, triples):
    run = {"testCases": [case("c1", True), case("c2", False), case("c3", None)], "metricsScores": []}
    table = read_responses(write("run_a.json", run))
    assert (table.format, triples(table)) == ("deepeval", [("run_a", "c1", 1), ("run_a", "c2", 0)])
    assert table.left_out == {"not scored": 1}
    whole = {"testRunData": run | {"hyperparameters": {"model": "m"}}, "testRunLink": None}
    path = write(".latest_test_run.json", whole)
    assert triples(read_responses(path, metric="Bias")) == [("m", "c1", 1), ("m", "c2", 1), ("m", "c3", 1)]
    is_refused("no metric 'x'; expected one of Relevancy, Bias", read_responses, path, metric="x")
    assert read_answers(path).frame[["answer", "gold"]].to_numpy().tolist() == [["yes", "no"]] * 3


def test_doccano_files_are_annotators(write, tmp_path, triples):
    for who, labels in (("ann", [["pos"], ["neg", "a"]]), ("bob", [["neg"], []])):
        lines = [{"id": k, "text": f"t{k}", "label": given, "Comments": []} for k, given in enumerate(labels)]
        write(f"export/{who}.jsonl", lines)
    table = read_answers(tmp_path / "export")
    assert (table.format, table.left_out) == ("doccano", {"texts without a label": 1})
    assert triples(table) == [("ann", "0", "pos"), ("ann", "1", "a|neg"), ("bob", "0", "neg")]
    is_refused("grade them with a key", read_responses, tmp_path / "export")
    spans = write("spans.jsonl", [{"id": 1, "text": "x", "label": [[0, 1, "PER"]]}])
    is_refused("line 1, field label: expected names of labels", read_answers, spans)


def test_records_are_a_long_table_under_the_names_of_their_fields(write, triples):
    records = [{"question_id": k, "model": f"m{k % 2}", "correct": k > 1, "metadata": {"fold": k}} for k in range(4)]
    expected = [("m0", "0", 0.0), ("m0", "2", 1.0), ("m1", "1", 0.0), ("m1", "3", 1.0)]
    for path in (write("plain.jsonl", records), write("plain.json", records)):
        table = read_responses(path)
        assert sorted(triples(table)) == expected
        assert table.frame["metadata.fold"].tolist() == ["0", "1", "2", "3"]
    scored = [{"input": f"q{k}", "scores": {"Exact": k % 2}, "metadata": {"model": "m"}} for k in range(2)]
    named = {"item_id": "input", "respondent_id": "metadata.model", "response": "scores.Exact"}
    assert triples(read_responses(write("scored.jsonl", scored), columns=named)) == [
        ("m", "q0", 0.0), ("m", "q1", 1.0)
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"their fields named \(--column respondent_id=NAME --column item_id=NAME"):
        read_responses(write("scored.jsonl", scored))
    records[2]["correct"] = "maybe"
    with pytest.raises(InputError, match="record 3, column correct: expected a number but got 'maybe'"):
        read_responses(write("wrong.jsonl", records))


def test_a_file_of_items_and_scores_is_of_whom_its_name_says(write, tmp_path, triples, caplog):
    write("runs/m1.csv", "item_id,correct\nq1,1\nq2,0\n")
    write("runs/m2.csv", "item_id,correct\nq1,1\nq2,1\n")
    expected = [("m1", "q1", 1.0), ("m1", "q2", 0.0), ("m2", "q1", 1.0), ("m2", "q2", 1.0)]
    assert triples(read_responses(tmp_path / "runs")) == expected
    assert "no column of respondents, so that its name says whose responses it holds" in caplog.text
    scores = write("m3.csv", "user_input,response,exact_match\nq1,some words,1.0\n")
    assert triples(read_responses(scores, columns={"response": "exact_match"})) == [("m3", "q1", 1.0)]
    truth = write("truth.csv", "task,agg_label\nt1,yes\nt2,no\n")  # as crowd-kit's aggregations are written: a key
    is_refused(r"right answers are given as --items FILE, .* or a table of respondent_id", read_answers, truth)
    assert read_items(truth).key == ("yes", "no")


READER = """
from irtbench.data.readers.observations import Observation, Reader

def read(head, settings, left_out):
    for number, value in head.values():
        yield Observation(value["toy"], value["q"], number, score=value["s"])

READER = Reader("toy", "toys", "response", lambda head: head.kind == "lines" and head.has("toy", "q", "s"), read)
"""
POINTS = "[irtbench.readers]\ntoy = toy_package:READER\nbroken = toy_package:NOTHING\nother = toy_package:read\n"
PROGRAM = """
import logging, sys
sys.path.insert(0, ".")
logging.basicConfig()
import irtbench
found = irtbench.read_responses("a.jsonl")
print(found.format, found.frame.to_dict("list"))
"""


def test_a_format_of_another_package(write, tmp_path):
    """One that cannot be loaded, or is no reader, is left out with a warning."""
    write("toy_package.py", READER)
    write("toy-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    write("toy-1.0.dist-info/entry_points.txt", POINTS)
    write("a.jsonl", [{"toy": "t1", "q": "i1", "s": 1}, {"toy": "t2", "q": "i1", "s": 0}])
    ended = run_program(PROGRAM, cwd=tmp_path)
    expected = {"respondent_id": ["t1", "t2"], "item_id": ["i1", "i1"], "response": [1.0, 0.0]}
    assert ended.stdout.strip() == f"toy {expected}"
    assert "broken (toy_package:NOTHING) is left out: it cannot be loaded" in ended.stderr
    assert "other (toy_package:read) is left out: expected" in ended.stderr
