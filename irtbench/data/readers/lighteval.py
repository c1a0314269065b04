"""lighteval: details/<model>/<date>/details_<task>_<date>.parquet (as of 0.13).

The file has no id of an item: it is named by the hash of its query and choices, a repeated one with #2, #3.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from irtbench.data.input_error import InputError
from irtbench.data.readers.observations import (
    Fields,
    Head,
    LeftOut,
    MetricChoice,
    Observation,
    Observations,
    Reader,
    Wanted,
    content_hash,
)
from irtbench.data.readers.records import parsed, table_rows

_FILE = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT.+)\.parquet")
_DATE = re.compile(r"\d{4}-\d\d-\d\dT.+")
_SCORES = ("metric", "metrics")


def read(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read one metric of the documents."""
    scores = next(name for name in _SCORES if head.has(name))
    named = _FILE.fullmatch(head.path.name)
    model, times, choice = _model(head.path), Counter[str](), MetricChoice(settings)
    for number, row in enumerate(table_rows(head.path, ["doc", scores]), start=1):
        record = Fields({name: parsed(value) for name, value in row.items()}, head.path, "row", number)
        doc, metric = record.fields("doc"), record.fields(scores)
        there = [name for name, value in metric.values.items() if isinstance(value, bool | int | float)]
        chosen = choice.of(there, record.place(scores)) if there else None
        if chosen is None:
            left_out["not scored"] += 1
            continue
        task = doc.text("task_name") or (named["task"] if named else head.path.stem)
        choices, gold = doc.entries("choices"), doc.values.get("gold_index")
        content = content_hash(doc.values.get("query"), choices)
        times[content] += 1
        right = gold[0] if isinstance(gold, list) and gold else gold
        yield Observation(
            respondent_id=model,
            item_id=f"{task}/{content}" + (f"#{times[content]}" if times[content] > 1 else ""),
            number=number,
            score=metric.score(chosen),
            date=named["date"][:10] if named else None,
            gold=str(choices[right]) if isinstance(right, int) and 0 <= right < len(choices) else None,
            item_hash=content,
            tags={"task": task},
        )
    choice.demand()


def _model(path: Path) -> str:
    """The folders between ``details`` and the date: organisation and model."""
    parts = list(path.absolute().parent.parts)
    if _DATE.fullmatch(parts[-1]):
        parts.pop()
    after = parts[len(parts) - parts[::-1].index("details") :] if "details" in parts else parts[-1:]
    if not after:
        raise InputError(f"file {path}: of which model? expected details/<model>/<date>/ before the name of the file")
    return "/".join(after)


READER = Reader(
    "lighteval",
    "details of lighteval",
    "response",
    lambda head: (
        head.kind == "parquet" and head.has("doc", "model_response") and any(head.has(name) for name in _SCORES)
    ),
    read,
    alone=True,
)
