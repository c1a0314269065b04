"""Annotation tools: Label Studio, Argilla, doccano, Potato, Prodigy.

Label Studio: its JSON export, and JSON-MIN and CSV, which have one annotation a record. Argilla: records with the
responses of users to questions, JSON or JSON lines (as of 2.8). doccano: JSON lines of classified texts (as of 1.8), a
file an annotator, which its name says. Potato: annotations.csv, .tsv, .jsonl and .parquet (as of 2.12); a schema is a
question, and what was chosen is ``true`` under its label, what was written or rated the value. Prodigy: JSON lines of
annotated tasks, choices (``options`` and ``accept``) and accept or reject.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from irtbench.data.readers.observations import (
    LINES,
    Fields,
    Head,
    LeftOut,
    MetricChoice,
    Observation,
    Observations,
    Reader,
    Wanted,
    content_hash,
    records,
)
from irtbench.data.readers.records import parsed

#: Fields of JSON-MIN and CSV that are neither data of the task nor answers.
_MIN = ("annotator", "annotation_id", "created_at", "updated_at", "lead_time")
MOST_LOOKED_AT = 200  # records by which the question of JSON-MIN is distinguished from the task's data
_CANCELLED = "annotations that were cancelled"
_UNANSWERED = "annotations without an answer to this question"


def read_label_studio(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the answers to one question (``from_name``)."""
    return _tasks(head, settings, left_out) if head.has("annotations") else _minimal(head, settings, left_out)


def _tasks(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    choice = MetricChoice(settings, "question")
    for task in records(head):
        gold, found = None, []
        data = task.values.get("data")
        # tasks are numbered by Label Studio; who uploaded them may have named the items in their data
        given = data.get("item_id") if isinstance(data, dict) else None
        for annotation in task.objects("annotations"):
            if annotation.values.get("was_cancelled"):
                left_out[_CANCELLED] += 1
                continue
            answers = {
                result.name("from_name"): result for result in annotation.objects("result") if "value" in result.values
            }
            question = choice.of(list(answers), annotation.place("result"))
            answer = None if question is None else _value(answers[question].fields("value").values)
            if annotation.values.get("ground_truth") and choice.seen:
                gold = answer
                left_out["annotations that are the ground truth (their answers are the key)"] += 1
            elif answer is None:
                left_out[_UNANSWERED if choice.seen else "annotations without an answer"] += 1
            else:
                found.append((annotation, answer))
        for annotation, answer in found:
            yield Observation(
                respondent_id=annotation.name_in("completed_by", "email"),
                item_id=given if isinstance(given, str) and given.strip() else task.name("id"),
                number=task.number,
                score=annotation.score_in("result", answer) if settings.graded else None,
                answer=answer,
                seconds=annotation.number_of("lead_time"),
                date=annotation.text("created_at"),
                gold=gold,
                item_hash=content_hash(data),
            )


def _value(value: Mapping[str, Any]) -> str | None:
    """The answer of a result: its choices, text, rating or number; several are joined by a bar."""
    for name in ("choices", "text", "rating", "number", "taxonomy", "datetime"):
        if name in value:
            given = value[name]
            parts = given if isinstance(given, list) else [given]
            texts = ["/".join(map(str, part)) if isinstance(part, list) else str(part) for part in parts]
            return "|".join(texts) or None
    return None


def _minimal(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """JSON-MIN and CSV: nothing tells an answer from the task's data, so that the user may have to."""
    first = list(islice(records(head), MOST_LOOKED_AT))
    names = [name for name in first[0].values if name not in (*_MIN, "id")] if first else []
    names.sort(key=lambda name: len({str(record.values.get(name)) for record in first}))  # of few values: the question
    for record in records(head):
        question = settings.choose(names, record.place("id"), word="question")
        answer = _plain(record.values[question])
        yield Observation(
            respondent_id=record.name("annotator"),
            item_id=record.name("id"),
            number=record.number,
            score=None if answer is None or not settings.graded else record.score_in(question, answer),
            answer=answer,
            reason=_UNANSWERED if answer is None else "",
            seconds=record.number_in_text("lead_time"),
            date=record.text("created_at") or None,
        )


def _plain(given: Any) -> str | None:
    given = parsed(given) if isinstance(given, str) and given[:1] in ("{", "[") else given
    if isinstance(given, dict):
        return _value(given)
    if isinstance(given, list):
        return "|".join(map(str, given)) or None
    return None if given is None or given == "" else str(given)


LABEL_STUDIO = Reader(
    "label-studio",
    "exports of Label Studio",
    "answer",
    lambda head: (
        (head.kind == "array" and head.has("id", "data", "annotations"))
        or (head.kind in ("array", "table") and head.has("id", *_MIN))
    ),
    read_label_studio,
)


def read_argilla(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the responses to one question; drafts and discarded ones are left out."""
    choice = MetricChoice(settings, "question")
    for record in records(head):
        responses = record.fields("responses")
        if not responses.values:
            left_out["records without a response"] += 1
        question = choice.of(list(responses.values), record.place("responses"))
        for response in responses.objects(question or ""):
            status, answer = response.text("status") or "submitted", _joined(response.values.get("value"))
            of_status = "" if status == "submitted" else f"responses with status {status}"
            reason = of_status or ("responses without a value" if answer is None else "")
            yield Observation(
                respondent_id=response.name("user_id"),
                item_id=record.name("id"),
                number=record.number,
                score=response.score("value") if settings.graded and not reason else None,
                answer=answer,
                reason=reason,
                item_hash=content_hash(record.values.get("fields")),
            )
    choice.demand(f"file {head.path}")


def _joined(value: Any) -> str | None:
    if isinstance(value, list):
        return "|".join(sorted(str(part) for part in value)) or None
    return None if value is None or value == "" else str(value)


ARGILLA = Reader(
    "argilla",
    "records of Argilla",
    "answer",
    lambda head: head.kind in ("array", *LINES) and head.has("id", "fields", "responses"),
    read_argilla,
)


def read_doccano(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the labels; several of one text are joined by a bar."""
    for line in records(head):
        labels = line.entries("label")
        if any(not isinstance(label, str) for label in labels):
            raise line.wrong("label", "names of labels; spans of a text are no answers to an item")
        yield Observation(
            respondent_id=head.path.name.split(".")[0],
            item_id=line.name("id"),
            number=line.number,
            answer="|".join(sorted(labels)),
            reason="" if labels else "texts without a label",
            item_hash=content_hash(line.values.get("text", line.values.get("data"))),
        )


DOCCANO = Reader(
    "doccano",
    "texts of doccano",
    "answer",
    lambda head: (
        head.kind in LINES
        and head.has("id", "label")
        and isinstance(head.first["label"], list)
        and (head.has("text") or head.has("data"))
    ),
    read_doccano,
    alone=True,
)


_OURS = ("instance_id", "user_id")
_YES, _NO = ("true", "True", "1"), ("", "false", "False", "0", "None")


def read_potato(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the answers to one schema; those who left it empty have no answer."""
    choice = MetricChoice(settings, "question")
    for row, labels in _rows(head):
        if not settings.metric and len(choice.seen | labels) > 1:
            choice.seen.update((name, None) for _, more in _rows(head) for name in more)
        schema = choice.of(list(labels), f"file {head.path}")
        answer = None if schema is None else _chosen(labels[schema])
        scored = settings.graded and answer is not None
        yield Observation(
            row.name("user_id"),
            row.name("instance_id"),
            row.number,
            row.score_in(str(schema), str(answer)) if scored else None,
            None if scored else answer,
            _UNANSWERED if answer is None else "",
        )
    choice.demand(f"file {head.path}")


def _rows(head: Head) -> Iterator[tuple[Fields, dict[str, Any]]]:
    """The rows, and what was given for each schema."""
    for row in records(head):
        yield row, dict(row.fields("labels").values) if head.kind in LINES else _by_schema(row.values)


def _by_schema(values: Mapping[str, Any]) -> dict[str, Any]:
    """Columns ``schema.label`` under their schema; those of ours are the rest."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        schema, dot, label = name.partition(".")
        if name in _OURS:
            continue
        if dot:
            found.setdefault(schema, {})
            if isinstance(found[schema], dict):
                found[schema][label] = value
        else:
            found[schema] = value
    return found


def _chosen(given: Any) -> str | None:
    """The answer in one text; several labels are joined by a bar, in the order of their names."""
    if isinstance(given, dict):
        chosen = [
            label if str(value) in _YES else str(value)
            for label, value in given.items()
            if value is not None and str(value) not in _NO
        ]
        return "|".join(sorted(chosen)) or None
    if given != given or str(given).strip() == "":  # NaN is not itself
        return None
    return _joined(f"{given:g}" if isinstance(given, float) else given)


POTATO = Reader(
    "potato",
    "annotations of Potato",
    "answer",
    # its side files have a row for each change or event, and a schema
    lambda head: (
        (head.kind in ("table", "parquet") or (head.kind in LINES and head.has("labels")))
        and head.has(*_OURS)
        and not head.has("schema")
    ),
    read_potato,
    # other tables of the Parquet export: items, spans, answers of the survey pages
    accompanies=lambda head: (
        head.kind == "parquet" and head.path.name in ("items.parquet", "spans.parquet", "phase_responses.parquet")
    ),
)


def read_prodigy(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the answers: the accepted options, or whether the task was accepted. The item is the task's hash."""
    for line in records(head):
        given, choices = line.name("answer"), line.entries("options")
        if given not in ("accept", "reject", "ignore"):
            raise line.wrong("answer", "accept, reject or ignore")
        accepted = [str(option) for option in line.entries("accept")]
        if given == "ignore" or (choices and given == "reject"):
            left_out[f"tasks that were {given.removesuffix('e')}ed"] += 1
            continue
        if choices and not accepted:
            left_out["tasks without a chosen option"] += 1
            continue
        who = line.text("_annotator_id") or line.text("_session_id")
        if not who:
            raise line.wrong("_annotator_id", "the name of an annotator")
        stamp, task = line.number_of("_timestamp"), line.name("_task_hash")
        yield Observation(
            respondent_id=who,
            item_id=task,
            number=line.number,
            answer="|".join(sorted(accepted)) if choices else given,
            date=None if stamp is None else datetime.fromtimestamp(stamp, UTC).isoformat(timespec="seconds"),
            item_hash=task,
        )


PRODIGY = Reader(
    "prodigy",
    "annotations of Prodigy",
    "answer",
    lambda head: head.kind in LINES and head.has("_input_hash", "_task_hash", "answer"),
    read_prodigy,
    alone=True,
)
