"""Argilla: records with the responses of users to questions, JSON or JSON lines (as of 2.8)."""

from __future__ import annotations

from typing import Any

from irtbench.data.readers.observations import (
    LINES,
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


def read(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the responses to one question; drafts and discarded ones are left out."""
    choice = MetricChoice(settings, "question")
    for record in records(head):
        responses = record.fields("responses")
        if not responses.values:
            left_out["records without a response"] += 1
        question = choice.of(list(responses.values), record.place("responses"))
        for response in responses.objects(question or ""):
            status, answer = response.text("status") or "submitted", _text(response.values.get("value"))
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


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        return "|".join(sorted(str(part) for part in value)) or None
    return None if value is None or value == "" else str(value)


READER = Reader(
    "argilla",
    "records of Argilla",
    "answer",
    lambda head: head.kind in ("array", *LINES) and head.has("id", "fields", "responses"),
    read,
)
