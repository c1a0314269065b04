"""Batches of Mechanical Turk, CSV (archives: closed to new customers since July 2026).

A row is an assignment, a HIT may ask several items: ``Input.prompt3`` goes with ``Answer.q3``, by the number at the
end. An item is named by an input called ``id`` or ``item_id`` (with that number), else by HIT and answer; the hash of
its inputs joins items that came in several HITs.
"""

from __future__ import annotations

import re
from typing import Any

from irtbench.data.readers.observations import (
    Fields,
    Head,
    LeftOut,
    Observation,
    Observations,
    Reader,
    Wanted,
    content_hash,
    records,
)
from irtbench.data.readers.records import json_value

_IDS = ("HITId", "AssignmentId", "WorkerId")
_NUMBERED = re.compile(r"(?P<stem>.*?)_?(?P<number>\d+)")
_JSON = "Answer.taskAnswers"
_ITEM = ("id", "item_id", "itemid", "item")  # inputs that name the item


def read(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the answers of the assignments that were not rejected."""
    for row in records(head):
        if row.values.get("AssignmentStatus") == "Rejected" or row.values.get("Reject"):
            left_out["assignments that were rejected"] += 1
            continue
        inputs = {name[6:]: value for name, value in row.values.items() if name.startswith("Input.")}
        answers = _answers(row)
        if settings.metric:
            answers = {name: value for name, value in answers.items() if {name, _stem(name)} & {*settings.metric}}
        several = len(answers) > 1
        for name, answer in answers.items():
            own = _inputs_of(name, inputs) if several else inputs
            named = (value for key, value in own.items() if _stem(key).lower() in _ITEM and value)
            yield Observation(
                respondent_id=row.name("WorkerId"),
                item_id=next(named, f"{row.name('HITId')}/{name}" if several else row.name("HITId")),
                number=row.number,
                score=row.score_in(f"Answer.{name}", answer) if settings.graded and answer != "" else None,
                answer=answer,
                reason="empty answers" if answer == "" else "",
                seconds=None if several else row.number_in_text("WorkTimeInSeconds"),
                date=row.text("SubmitTime") or None,
                item_hash=content_hash(sorted(own.values()), _stem(name)) if own else None,
                tags={"assignment": row.name("AssignmentId")},
            )


def _answers(row: Fields) -> dict[str, str]:
    plain = {name[7:]: str(row.values[name]) for name in row.values if name.startswith("Answer.") and name != _JSON}
    text = row.values.get(_JSON)
    if not text:
        return plain
    try:
        forms = json_value(text)
    except ValueError:
        raise row.wrong(_JSON, "a JSON list") from None
    for form in forms if isinstance(forms, list) else [forms]:
        if not isinstance(form, dict):
            raise row.wrong(_JSON, "a JSON list of objects")
        plain |= {name: _form_answer(value) for name, value in form.items()}
    return plain


def _form_answer(value: Any) -> str:
    """What was entered in a crowd-form: a text, the label of a classifier, the buttons that are on."""
    if isinstance(value, dict):
        if "label" in value or "labels" in value:
            return _form_answer(value.get("label", value.get("labels")))
        return "|".join(name for name, on in value.items() if on is True)
    return "|".join(map(str, value)) if isinstance(value, list) else str(value)


def _stem(name: str) -> str:
    numbered = _NUMBERED.fullmatch(name)
    return numbered["stem"] if numbered else name


def _inputs_of(answer: str, inputs: dict[str, str]) -> dict[str, str]:
    """The inputs that go with an answer: those of its number; none if it has none."""
    numbered = _NUMBERED.fullmatch(answer)
    if numbered is None:
        return {}
    found = {name: _NUMBERED.fullmatch(name) for name in inputs}
    return {name: inputs[name] for name, own in found.items() if own and int(own["number"]) == int(numbered["number"])}


READER = Reader(
    "mturk",
    "batches of Mechanical Turk",
    "answer",
    lambda head: head.kind == "table" and head.has(*_IDS) and any(name.startswith("Answer.") for name in head.columns),
    read,
)
