"""Exports of crowd platforms: what Potato's own writer writes, and each other in its exact layout."""

import json

import pytest

from builders.refusals import is_refused
from irtbench.data.readers import holds_responses, read_answers, read_responses

POTATO = """
from potato.export.base import ExportContext
from potato.export.parquet_exporter import ParquetExporter
from potato.export.tabular_exporter import CSVExporter, JSONLExporter, TSVExporter

annotations = [
    {"instance_id": "i1", "user_id": "ann", "spans": {}, "links": {},
     "labels": {"nli": {"entailment": "true"}, "note": {"text_box": "so, so"}, "tags": {"a": "true", "b": "true"}}},
    {"instance_id": "i2", "user_id": "ann", "spans": {}, "links": {}, "labels": {"nli": {"neutral": "true"}}},
    {"instance_id": "i1", "user_id": "bob", "spans": {}, "links": {},
     "labels": {"nli": {"contradiction": "true"}, "tags": {"b": "true"}}},
]
schemas = [
    {"annotation_type": "radio", "name": "nli", "labels": ["entailment", "neutral", "contradiction"]},
    {"annotation_type": "text", "name": "note"},
    {"annotation_type": "multiselect", "name": "tags", "labels": ["a", "b"]},
]
context = ExportContext(
    config={}, annotations=annotations, items={"i1": {"id": "i1"}, "i2": {"id": "i2"}}, schemas=schemas, output_dir="."
)
for exporter in (CSVExporter, TSVExporter, JSONLExporter, ParquetExporter):
    assert exporter().export(context, exporter.__name__).success
"""


def test_potato_by_its_own_writer(run_writer, triples):
    folder = run_writer("potato", POTATO)
    for kind in ("CSV", "TSV", "JSONL", "Parquet"):
        exported = folder / f"{kind}Exporter"
        is_refused("several questions: 'nli', 'note', 'tags'", read_answers, exported)
        table = read_answers(exported, metric="nli")
        assert table.format == "potato"
        assert triples(table) == [("ann", "i1", "entailment"), ("ann", "i2", "neutral"), ("bob", "i1", "contradiction")]
        assert triples(read_answers(exported, metric="note")) == [("ann", "i1", "so, so")]
        tags = read_answers(exported, metric="tags")
        assert triples(tags) == [("ann", "i1", "a|b"), ("bob", "i1", "b")]
        assert tags.left_out == {"annotations without an answer to this question": 1}


def test_potato_columns_of_labels_are_one_answer(write, triples):
    path = write("annotations.csv", "instance_id,user_id,nli.yes,nli.no\ni1,ann,true,\ni1,bob,,true\ni2,bob,,\n")
    assert not holds_responses(path)
    table = read_answers(path)
    assert triples(table) == [("ann", "i1", "yes"), ("bob", "i1", "no")]
    assert table.left_out == {"annotations without an answer to this question": 1}
    is_refused(r"row 1, field nli: expected a score \(it is an answer, 'yes': grade it", read_responses, path)
    is_refused("no question 'truth'; expected one of nli", read_answers, path, metric="truth")


def annotation(who, answer="yes", **changes):
    result = {"from_name": "nli", "to_name": "text", "type": "choices", "value": {"choices": [answer]}}
    return {
        "id": 1, "result": [result], "was_cancelled": False, "ground_truth": False, "lead_time": 2.5,
        "completed_by": who, "created_at": "2026-11-01T00:00:00Z",
    } | changes  # fmt: skip


def task(number, *annotations):
    return {"id": number, "data": {"text": "x"}, "annotations": list(annotations)}


def test_label_studio_cancelled_are_dropped_and_ground_truth_is_the_key(write, triples):
    key = annotation(9, "no", ground_truth=True)
    tasks = [
        task(1, annotation(4), key, annotation(5, was_cancelled=True)),
        task(2, annotation({"id": 4, "email": "a@b.c"}), annotation(6, result=[])),
    ]
    table = read_answers(write("export.json", tasks))
    assert (table.format, triples(table)) == ("label-studio", [("4", "1", "yes"), ("a@b.c", "2", "yes")])
    assert table.frame["gold"].tolist()[0] == "no"
    assert list(table.frame["seconds"]) == [2.5, 2.5]
    assert table.left_out == {
        "annotations that were cancelled": 1,
        "annotations that are the ground truth (their answers are the key)": 1,
        "annotations without an answer to this question": 1,
    }
    # at the first annotation no question is known yet; those after it count
    table = read_answers(write("late.json", [task(1, annotation(4, result=[]), annotation(5), annotation(6, "no"))]))
    assert triples(table) == [("5", "1", "yes"), ("6", "1", "no")]
    assert table.left_out == {"annotations without an answer": 1}


def test_label_studio_several_questions_are_chosen_from(write, triples):
    both = annotation(4)
    both["result"] += [{"from_name": "sure", "to_name": "text", "type": "rating", "value": {"rating": 4}}]
    path = write("export.json", [task(1, both)])
    is_refused(r"record 1, field annotations\[0\]\.result: several questions: 'nli', 'sure'", read_answers, path)
    assert list(read_answers(path, metric="sure").frame["answer"]) == ["4"]
    path = write("broken.json", [task(1, annotation(None))])
    is_refused(r"record 1, field annotations\[0\]\.completed_by: expected a name but it is", read_answers, path)
    # minimal exports
    record = {
        "id": 1, "text": "x", "nli": "yes", "annotator": 4, "annotation_id": 7, "created_at": "2026",
        "updated_at": "2026", "lead_time": 3.5,
    }  # fmt: skip
    other = record | {"annotator": 5}
    path = write("min.json", [record, other | {"nli": {"choices": ["a", "b"]}}])
    is_refused("several questions: 'text', 'nli'", read_answers, path)
    assert triples(read_answers(path, metric="nli")) == [("4", "1", "yes"), ("5", "1", "a|b")]
    path = write("min.csv", [record, other | {"nli": json.dumps({"choices": ["a"]})}])
    table = read_answers(path, metric="nli")
    assert triples(table) == [("4", "1", "yes"), ("5", "1", "a")]
    assert list(table.frame["seconds"]) == [3.5, 3.5]


def test_argilla_drafts_are_left_out(write, triples):
    drafted = [{"value": "yes", "user_id": "u1"}, {"value": "no", "user_id": "u2", "status": "draft"}]
    several = [{"value": ["b", "a"], "user_id": "u1"}]
    records = [
        {"id": f"r{k}", "fields": {"text": "x"}, "metadata": {}, "status": "completed", "responses": responses}
        for k, responses in enumerate(({"nli": drafted}, {}, {"nli": several}))
    ]
    for path in (write("records.json", records), write("records.jsonl", records)):
        table = read_answers(path)
        assert (table.format, triples(table)) == ("argilla", [("u1", "r0", "yes"), ("u1", "r2", "a|b")])
        assert table.left_out == {"responses with status draft": 1, "records without a response": 1}
    is_refused(r"line 1, field responses\.nli\[0\]\.value: expected a number", read_responses, path)
    records[0]["responses"]["other"] = []
    saying = "record 1, field responses: several questions: 'nli', 'other'"
    is_refused(saying, read_answers, write("records.json", records))


def test_prodigy_choices_and_binary_tasks(write, triples):
    def done(k, answer="accept", **more):
        return {
            "text": f"t{k}", "answer": answer, "_input_hash": k, "_task_hash": 10 * k, "_timestamp": 0,
            "_annotator_id": "set-ann", "_session_id": "set-ann",
        } | more  # fmt: skip

    options = {"options": [{"id": "a", "text": "A"}, {"id": "b", "text": "B"}]}
    lines = [
        done(1, **options, accept=["b"]), done(2, **options, accept=["b", "a"]), done(3, **options, accept=[]),
        done(4, "reject", **options, accept=[]), done(5, "ignore"), done(6), done(-7, "reject", _annotator_id=None),
    ]  # fmt: skip
    path = write("p.jsonl", lines)
    table = read_answers(path)
    assert table.format == "prodigy"
    assert triples(table) == [
        ("set-ann", "10", "b"), ("set-ann", "20", "a|b"), ("set-ann", "60", "accept"), ("set-ann", "-70", "reject")
    ]  # fmt: skip
    assert set(table.frame["date"]) == {"1970-01-01T00:00:00+00:00"}
    assert table.left_out == {
        "tasks without a chosen option": 1,
        "tasks that were rejected": 1,
        "tasks that were ignored": 1,
    }
    is_refused("responses were wanted but annotations of Prodigy hold answers", read_responses, path)


def assignment(hit, worker, **columns):
    return {
        "HITId": hit, "AssignmentId": f"{hit}{worker}", "WorkerId": worker, "AssignmentStatus": "Approved",
        "SubmitTime": "2020", "WorkTimeInSeconds": "30", "LifetimeApprovalRate": "100% (9/9)",
    } | columns | {"Approve": "x", "Reject": ""}  # fmt: skip


def test_mturk_several_items_a_hit_and_rejected_assignments(write, triples):
    def asked(hit, worker, first, second, **more):
        questions = {"Input.prompt1": f"{hit} one", "Input.prompt2": "common"}
        return assignment(hit, worker, **questions, **{"Answer.q1": first, "Answer.q2": second}, **more)

    rejected = asked("H1", "W2", "a", "a", AssignmentStatus="Rejected")
    path = write("batch.csv", [asked("H1", "W1", "a", "b"), asked("H2", "W1", "c", ""), rejected])
    table = read_answers(path)
    assert table.format == "mturk"
    assert triples(table) == [("W1", "H1/q1", "a"), ("W1", "H1/q2", "b"), ("W1", "H2/q1", "c")]
    assert table.left_out == {"empty answers": 1, "assignments that were rejected": 1}
    assert "seconds" not in table.frame  # the time is that of the whole assignment
    assert table.frame["item_hash"].nunique() == 3


def test_mturk_items_under_their_id_and_joined_by_content(write, triples):
    named = {"Input.id1": "i7", "Input.text1": "x", "Input.id2": "i8", "Input.text2": "y"}
    path = write("named.csv", [assignment("H1", "W1", **named, **{"Answer.q1": "a", "Answer.q2": "b"})])
    assert triples(read_answers(path)) == [("W1", "i7", "a"), ("W1", "i8", "b")]
    same = {"Input.text": "same", "Answer.label": "a"}
    path = write("hits.csv", [assignment(hit, worker, **same) for hit, worker in ((1, "V"), (2, "W"))])
    assert read_answers(path).frame[["item_id", "seconds"]].to_numpy().tolist() == [["1", 30], ["2", 30]]
    with pytest.warns(UserWarning, match="one content under several names: 1 = 2"):
        assert read_answers(path, join="hash").frame["item_id"].nunique() == 1
    # forms
    form = [{"q1": {"label": "Positive"}, "q2": {"yes": False, "no": True}, "q3": "free text"}]
    path = write("forms.csv", [assignment("H", "W", **{"Answer.taskAnswers": json.dumps(form)})])
    assert triples(read_answers(path)) == [("W", "H/q1", "Positive"), ("W", "H/q2", "no"), ("W", "H/q3", "free text")]
    path = write("forms.csv", [assignment("H", "W", **{"Answer.taskAnswers": "[{"})])
    is_refused(r"row 1, field Answer\.taskAnswers: expected a JSON list", read_answers, path)


def participants(*rows):
    return [
        {"Submission id": f"s{who}", "Participant id": who, "Status": status, "Started at": "2026-11-01T10:00",
         "Completed at": "2026-11-01T10:05", "Time taken": seconds, "Completion code": "C", "Total approvals": "5",
         "Age": age}
        for who, status, seconds, age in rows
    ]  # fmt: skip


def test_prolific_says_who_counts_and_how_long_it_took(write, triples):
    answers = write("answers.csv", "respondent_id,item_id,answer\np1,q1,a\np2,q1,b\np3,q1,c\nx,q1,d\n")
    people = participants(
        ("p1", "APPROVED", "300", "31"), ("p2", "RETURNED", "9", "20"), ("p3", "AWAITING REVIEW", "200", "DATA_EXPIRED")
    )
    table = read_answers([answers, write("prolific.csv", people)])
    assert triples(table) == [("p1", "q1", "a"), ("p3", "q1", "c")]
    assert list(table.frame["submission_seconds"]) == [300, 200]
    assert table.frame["Age"].fillna("").tolist() == ["31", ""]
    assert table.left_out == {
        "answers of respondents who are not among Prolific's participants": 1,
        "answers of submissions that Prolific does not count (returned, timed out, rejected)": 1,
    }


FIRST = ("p1", "APPROVED", "1", "1")


@pytest.mark.parametrize(
    ("rows", "saying"),
    [
        ([("z", *FIRST[1:])], "column Participant id: none of z gave answers; expected the ids"),
        ([("p1", "APPROVED", "long", "1")], r"row 1 \(line 2\), column Time taken: expected a number but got 'long'"),
        ([FIRST, FIRST], "names must be unique but p1 is repeated; expected one row a respondent that counts"),
    ],
)
def test_prolific_faults_are_named(write, rows, saying):
    answers = write("answers.csv", "respondent_id,item_id,answer\np1,q1,a\n")
    table = write("prolific.csv", participants(*rows))
    is_refused(saying, read_answers, [answers, table])
    is_refused("no file of a known format", read_answers, table)
