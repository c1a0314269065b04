"""promptfoo, deepeval and doccano in the layout of their writers, and what is said of the fields of JSON-MIN."""

import pytest

from irtbench.data.input_error import InputError
from irtbench.data.readers import read_answers, read_items, read_responses


def result(provider, test, success, *, prompt="p", description=None, failure=0, output="out", **more):
    return {
        "promptIdx": 0, "testIdx": test, "testCase": {"vars": {"q": test}, "description": description},
        "provider": provider, "prompt": {"raw": "{{q}}", "label": prompt}, "vars": {"q": test}, "success": success,
        "score": 0.5, "namedScores": {"tone": float(success)}, "failureReason": failure,
        "response": None if failure == 2 else {"output": output},
        "error": "assertion" if not success else None, "latencyMs": 5,
    } | more  # fmt: skip


def promptfoo(*results):
    return {"evalId": "eval-1", "results": {"version": 3, "prompts": [], "results": list(results), "stats": {}},
            "config": {"description": "d"}, "shareableUrl": None}  # fmt: skip


def test_promptfoo_tests_are_passed_or_not(write_json, triples):
    one = {"id": "openai:m", "label": "m"}
    rows = [result(one, 0, True, description="sums"), result(one, 1, False), result(one, 1, True),
            result("openai:n", 0, False, description="sums", failure=2)]  # fmt: skip
    path = write_json("results.json", promptfoo(*rows))
    table = read_responses(path, trials="first")
    assert table.format == "promptfoo"
    assert triples(table) == [("m", "sums", 1), ("m", "test 1", 0)]
    assert table.left_out == {"the run failed at this test": 1}
    assert read_responses(path, trials="count").frame["n_trials"].tolist() == [1, 2]
    assert triples(read_responses(path, trials="last", errored="wrong"))[-1] == ("openai:n", "sums", 0)
    assert triples(read_responses(path, metric="tone", trials="first"))[0] == ("m", "sums", 1)
    with pytest.raises(InputError, match="no score 'x'; expected one of success, score, tone"):
        read_responses(path, metric="x")
    assert read_answers(path, trials="first").frame["answer"].tolist() == ["out", "out"]


def test_promptfoo_prompts_of_one_provider_are_respondents(write_json, triples):
    rows = [result("m", 0, True, prompt="a"), result("m", 0, False, prompt="b")]
    path = write_json("results.json", promptfoo(*rows))
    assert triples(read_responses(path)) == [("m / a", "test 0", 1), ("m / b", "test 0", 0)]


def case(name, success, **more):
    metric = {"name": "Relevancy", "threshold": 0.5, "success": success, "score": 0.7, "evaluationModel": "j"}
    other = {"name": "Bias", "threshold": 0.5, "success": True, "score": 0.1, "error": None}
    return {"name": name, "input": f"q {name}", "actualOutput": "yes", "expectedOutput": "no", "success": success,
            "metricsData": [metric, other], "completionTime": 1.5} | more  # fmt: skip


def test_deepeval_cases_are_passed_or_not(write_json, triples):
    run = {"testCases": [case("c1", True), case("c2", False), case("c3", None)], "metricsScores": []}
    table = read_responses(write_json("run_a.json", run))
    assert table.format == "deepeval"
    assert triples(table) == [("run_a", "c1", 1), ("run_a", "c2", 0)]
    assert table.left_out == {"not scored": 1}
    whole = {"testRunData": run | {"hyperparameters": {"model": "m"}}, "testRunLink": None}
    path = write_json(".latest_test_run.json", whole)
    assert triples(read_responses(path, metric="Bias")) == [("m", "c1", 1), ("m", "c2", 1), ("m", "c3", 1)]
    with pytest.raises(InputError, match="no metric 'x'; expected one of Relevancy, Bias"):
        read_responses(path, metric="x")
    answers = read_answers(path).frame
    assert answers["answer"].tolist() == ["yes"] * 3
    assert answers["gold"].tolist() == ["no"] * 3


def test_doccano_files_are_annotators(write_lines, tmp_path):
    for who, labels in (("ann", [["pos"], ["neg", "a"]]), ("bob", [["neg"], []])):
        lines = [{"id": k, "text": f"t{k}", "label": given, "Comments": []} for k, given in enumerate(labels)]
        write_lines(f"export/{who}.jsonl", lines)
    table = read_answers(tmp_path / "export")
    assert table.format == "doccano"
    rows = list(table.frame[["respondent_id", "item_id", "answer"]].itertuples(index=False, name=None))
    assert rows == [("ann", "0", "pos"), ("ann", "1", "a|neg"), ("bob", "0", "neg")]
    assert table.left_out == {"texts without a label": 1}
    with pytest.raises(InputError, match="grade them with a key"):
        read_responses(tmp_path / "export")
    spans = write_lines("spans.jsonl", [{"id": 1, "text": "x", "label": [[0, 1, "PER"]]}])
    with pytest.raises(InputError, match="line 1, field label: expected names of labels"):
        read_answers(spans)


def test_json_min_proposes_a_question_and_no_sentence(write_json):
    rows = [
        {"id": k, "text": f"sentence {k}", "label": "pn"[k % 2], "annotator": 1, "annotation_id": k, "created_at": "d",
         "updated_at": "d", "lead_time": 1.0}
        for k in range(6)
    ]  # fmt: skip
    path = write_json("min.json", rows)
    with pytest.raises(InputError, match=r"several questions: 'label', 'text'; choose one \(--metric 'label'"):
        read_answers(path)
    assert read_answers(path, metric="label").frame["answer"].tolist() == list("pnpnpn")


def test_a_refusal_ends_with_what_is_always_taken(write_json):
    path = write_json("odd.json", {"what": 1})
    with pytest.raises(InputError, match=r"or a table of respondent_id, item_id, response$"):
        read_responses(path)


def test_promptfoo_lines_are_its_results(write_json, write_lines, triples):
    rows = [
        {"promptIdx": 0, "testIdx": k, "provider": {"id": "m", "label": ""}, "prompt": {"label": "p"}, "success": k > 0,
         "response": {"output": "x"}, "failureReason": 0, "vars": {"q": k}, "testCase": {}}
        for k in range(3)
    ]  # fmt: skip
    whole = write_json("r.json", {"evalId": "e", "config": {}, "results": {"version": 3, "results": rows}})
    lines = write_lines("r.jsonl", rows)
    assert triples(read_responses(lines)) == triples(read_responses(whole)) == [
        ("m", "test 0", 0.0), ("m", "test 1", 1.0), ("m", "test 2", 1.0)
    ]  # fmt: skip


def test_records_are_a_long_table_under_the_names_of_their_fields(write_lines, write_json, triples):
    records = [{"question_id": k, "model": f"m{k % 2}", "correct": k > 1, "metadata": {"fold": k}} for k in range(4)]
    expected = [("m0", "0", 0.0), ("m0", "2", 1.0), ("m1", "1", 0.0), ("m1", "3", 1.0)]
    for path in (write_lines("plain.jsonl", records), write_json("plain.json", records)):
        table = read_responses(path)
        assert sorted(triples(table)) == expected
        assert table.frame["metadata.fold"].tolist() == ["0", "1", "2", "3"]
    scored = [{"input": f"q{k}", "scores": {"Exact": k % 2}, "metadata": {"model": "m"}} for k in range(2)]
    named = {"item_id": "input", "respondent_id": "metadata.model", "response": "scores.Exact"}
    assert triples(read_responses(write_lines("scored.jsonl", scored), columns=named)) == [
        ("m", "q0", 0.0), ("m", "q1", 1.0)
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"their fields named \(--column respondent_id=NAME --column item_id=NAME"):
        read_responses(write_lines("scored.jsonl", scored))
    records[2]["correct"] = "maybe"
    with pytest.raises(InputError, match="record 3, column correct: expected a number but got 'maybe'"):
        read_responses(write_lines("wrong.jsonl", records))


def test_a_file_of_items_and_scores_is_of_whom_its_name_says(write_text, tmp_path, triples, caplog):
    write_text("runs/m1.csv", "item_id,correct\nq1,1\nq2,0\n")
    write_text("runs/m2.csv", "item_id,correct\nq1,1\nq2,1\n")
    expected = [("m1", "q1", 1.0), ("m1", "q2", 0.0), ("m2", "q1", 1.0), ("m2", "q2", 1.0)]
    assert triples(read_responses(tmp_path / "runs")) == expected
    assert "no column of respondents, so that its name says whose responses it holds" in caplog.text
    scores = write_text("m3.csv", "user_input,response,exact_match\nq1,some words,1.0\n")
    assert triples(read_responses(scores, columns={"response": "exact_match"})) == [("m3", "q1", 1.0)]


def test_a_table_of_truth_is_a_key_and_no_crowd(write_text):
    truth = write_text("truth.csv", "task,agg_label\nt1,yes\nt2,no\n")  # as crowd-kit's aggregations are written
    with pytest.raises(InputError, match=r"right answers are given as --items FILE, .* or a table of respondent_id"):
        read_answers(truth)
    assert read_items(truth).key == ("yes", "no")
