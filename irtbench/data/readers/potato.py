"""Potato annotations: annotations.csv, .tsv, .jsonl and .parquet (as of 2.12).

A schema is a question. What was chosen stands as ``true`` under its label, what was written or rated as the value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from irtbench.data.readers.head import Head
from irtbench.data.readers.metric_choice import choose_metric
from irtbench.data.readers.observations import Fields, Observation, Reader, Wanted, records

_IDS = ("instance_id", "user_id")
_YES, _NO = ("true", "True", "1"), ("", "false", "False", "0", "None")


def recognises(head: Head) -> bool:
    """Whether a file holds annotations of Potato; its side files have a row for each change or event."""
    if not head.has(*_IDS) or head.has("schema"):
        return False
    return head.kind in ("table", "parquet") or (head.kind in ("lines", "object") and head.has("labels"))


def accompanies(head: Head) -> bool:
    """Whether a file is another table of the Parquet export: items, spans, answers of the survey pages."""
    return head.kind == "parquet" and head.path.name in ("items.parquet", "spans.parquet", "phase_responses.parquet")


def read(head: Head, settings: Wanted, left_out: Counter[str]) -> Iterator[Observation]:
    """Read the answers to one schema; those who left it empty have no answer."""
    schemas: dict[str, None] = {}
    for row, labels in _rows(head):
        schemas.update(dict.fromkeys(labels))
        if not settings.metrics and len(schemas) > 1:
            schemas.update((name, None) for _, more in _rows(head) for name in more)
            choose_metric(list(schemas), settings, f"file {head.path}", word="question")
        schema = next((name for name in settings.metrics if name in schemas), next(iter(schemas), None))
        answer = _answer(labels[schema]) if schema in labels else None
        if answer is None:
            left_out["annotations without an answer to this question"] += 1
            continue
        score = None
        if settings.want == "response":
            score, answer = row.score_in(str(schema), answer), None
        yield Observation(row.name("user_id"), row.name("instance_id"), row.number, score, answer)
    if settings.metrics and not any(name in schemas for name in settings.metrics):
        choose_metric(list(schemas), settings, f"file {head.path}", word="question")


def _rows(head: Head) -> Iterator[tuple[Fields, dict[str, Any]]]:
    """The rows, and what was given for each schema."""
    for row in records(head):
        of_json = head.kind in ("lines", "object")
        yield row, dict(row.fields("labels").values) if of_json else _by_schema(row.values)


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


READER = Reader("potato", "annotations of Potato", "answer", recognises, read, accompanies)
