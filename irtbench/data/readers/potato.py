"""Potato annotations: annotations.csv, .tsv, .jsonl and .parquet (as of 2.12).

A schema is a question. What was chosen is ``true`` under its label, what was written or rated as the value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    records,
)

_IDS = ("instance_id", "user_id")
_YES, _NO = ("true", "True", "1"), ("", "false", "False", "0", "None")


def read(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the answers to one schema; those who left it empty have no answer."""
    choice = MetricChoice(settings, "question")
    for row, labels in _rows(head):
        if not settings.metric and len(choice.seen | labels) > 1:
            choice.seen.update((name, None) for _, more in _rows(head) for name in more)
        schema = choice.of(list(labels), f"file {head.path}")
        answer = None if schema is None else _answer(labels[schema])
        scored = settings.graded and answer is not None
        yield Observation(
            row.name("user_id"),
            row.name("instance_id"),
            row.number,
            row.score_in(str(schema), str(answer)) if scored else None,
            None if scored else answer,
            "annotations without an answer to this question" if answer is None else "",
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
        if name in _IDS:
            continue
        if dot:
            found.setdefault(schema, {})
            if isinstance(found[schema], dict):
                found[schema][label] = value
        else:
            found[schema] = value
    return found


def _answer(given: Any) -> str | None:
    """The answer in one text; several labels are joined by a bar, in the order of their names."""
    if isinstance(given, dict):
        chosen = [
            label if str(value) in _YES else str(value)
            for label, value in given.items()
            if value is not None and str(value) not in _NO
        ]
        return "|".join(sorted(chosen)) or None
    if isinstance(given, list):
        return "|".join(sorted(str(label) for label in given)) or None
    if given is None or given != given or str(given).strip() == "":  # NaN is not itself
        return None
    return f"{given:g}" if isinstance(given, float) else str(given)


READER = Reader(
    "potato",
    "annotations of Potato",
    "answer",
    # its side files have a row for each change or event, and a schema
    lambda head: (
        (head.kind in ("table", "parquet") or (head.kind in LINES and head.has("labels")))
        and head.has(*_IDS)
        and not head.has("schema")
    ),
    read,
    # other tables of the Parquet export: items, spans, answers of the survey pages
    accompanies=lambda head: (
        head.kind == "parquet" and head.path.name in ("items.parquet", "spans.parquet", "phase_responses.parquet")
    ),
)
