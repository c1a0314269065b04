"""Argilla: records with the responses of users to questions, JSON or JSON lines (as of 2.8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from irtbench.data.readers.head import Head
from irtbench.data.readers.metric_choice import choose_metric
from irtbench.data.readers.observations import Observation, Reader, Wanted, content_hash, records


def recognises(head: Head) -> bool:
    """Whether a file holds records of Argilla."""
    return head.kind in ("array", "lines", "object") and head.has("id", "fields", "responses")


def read(head: Head, settings: Wanted, left_out: Counter[str]) -> Iterator[Observation]:
    """Read the responses to one question; drafts and discarded ones are left out."""
    questions: dict[str, None] = {}
    for record in records(head):
        responses = record.fields("responses")
        questions.update(dict.fromkeys(responses.values))
        if not responses.values:
            left_out["records without a response"] += 1
            continue
        if settings.metrics:
            question = next((name for name in settings.metrics if name in responses.values), settings.metrics[0])
        else:
            question = choose_metric(list(questions), settings, record.place("responses"), word="question")
        content = content_hash(record.values.get("fields"))
        for response in responses.objects(question):
            status = response.text("status") or "submitted"
            answer = _text(response.values.get("value"))
            if status != "submitted":
                left_out[f"responses with status {status}"] += 1
            elif answer is None:
                left_out["responses without a value"] += 1
            else:
                yield Observation(
                    respondent_id=response.name("user_id"),
                    item_id=record.name("id"),
                    number=record.number,
                    score=response.score("value") if settings.want == "response" else None,
                    answer=answer,
                    item_hash=content,
                )
    if settings.metrics and not any(name in questions for name in settings.metrics):
        choose_metric(list(questions), settings, f"file {head.path}", word="question")


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        return "|".join(sorted(str(part) for part in value)) or None
    return None if value is None or value == "" else str(value)


READER = Reader("argilla", "records of Argilla", "answer", recognises, read)
