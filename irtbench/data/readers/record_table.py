"""JSON records as a table: one a row, the fields of its objects under names such as ``scores.exact_match``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.readers.head import Head
from irtbench.data.readers.observations import records

KINDS = ("lines", "array")


def names_of(head: Head) -> list[str]:
    """The columns that the first record has."""
    return [name for name, _ in _fields(head.first)]


def record_table(head: Head) -> pd.DataFrame:
    """The records with every field as text, as ``read_table`` gives a table; lists, which are no fields, as JSON."""
    rows = [dict(_fields(record.values)) for record in records(head)]
    if not rows:
        raise InputError(f"file {head.path}: no records; expected at least one")
    return pd.DataFrame(rows).fillna("").astype(str)


def _fields(values: Mapping[str, Any], inside: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _fields(value, f"{inside}{name}.")
        elif value is not None:
            yield f"{inside}{name}", value if isinstance(value, str) else json.dumps(value)
