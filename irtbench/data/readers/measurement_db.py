"""Tables of measurement-db (Stanford), Parquet: responses of subjects to the items of benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from irtbench.data.input_error import InputError
from irtbench.data.readers.observations import Head, LeftOut, Observation, Observations, Reader, Wanted
from irtbench.data.readers.records import look_at, table_rows

_TAKEN = ("subject_id", "item_id", "benchmark_id", "trial", "test_condition", "response", "correct_answer")
_NO_CONDITION = "none"


def read(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the responses under one test condition; the metrics of the settings name it where there are several."""
    hashes, chosen = _hashes(head.path), None
    if "test_condition" in head.columns:
        there = dict.fromkeys(_condition(row) for row in table_rows(head.path, ["test_condition"]))
        chosen = settings.choose(list(there), f"file {head.path}", word="test condition") if there else None
    for number, row in enumerate(table_rows(head.path, [n for n in _TAKEN if n in head.columns]), start=1):
        if chosen is not None and _condition(row) != chosen:
            left_out["under another test condition"] += 1
            continue
        place, response = f"file {head.path}, row {number}", row["response"]
        for name in ("subject_id", "item_id"):
            if row[name] is None or row[name] == "":
                raise InputError(f"{place}, column {name}: expected a name but it is empty")
        missing = response is None or response != response  # NaN is not itself
        if not missing and not isinstance(response, bool | int | float):
            raise InputError(f"{place}, column response: expected a number but got '{response}'")
        yield Observation(
            respondent_id=str(row["subject_id"]),
            item_id=str(row["item_id"]),
            number=number,
            score=None if missing else float(response),
            reason="without a response" if missing else "",
            trial=None if row.get("trial") is None else str(row["trial"]),
            gold=None if row.get("correct_answer") is None else str(row["correct_answer"]),
            item_hash=hashes.get(str(row["item_id"])),
            tags={"benchmark": str(row["benchmark_id"])},
        )


def _condition(row: dict[str, Any]) -> str:
    return str(row["test_condition"] or _NO_CONDITION)


def _hashes(path: Path) -> dict[str, str]:
    """Content hashes from the table of items in the folder, if it is there."""
    for file in sorted(path.parent.glob("*.parquet")):
        if look_at(file).has("item_id", "raw_item_id", "content_hash"):
            rows = table_rows(file, ["item_id", "content_hash"])
            return {str(row["item_id"]): str(row["content_hash"]) for row in rows if row["content_hash"]}
    return {}


READER = Reader(
    "measurement-db",
    "tables of measurement-db",
    "response",
    lambda head: head.kind == "parquet" and head.has("subject_id", "item_id", "benchmark_id", "response"),
    read,
    # the tables of items, subjects and benchmarks
    accompanies=lambda head: (
        head.kind == "parquet"
        and (
            head.has("item_id", "raw_item_id", "content_hash")
            or head.has("subject_id", "display_name")
            or head.has("benchmark_id", "response_type")
        )
    ),
    alone=True,
)
