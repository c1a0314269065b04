"""The head of a file: what tells its format, without reading it all."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from irtbench.data.input_error import InputError
from irtbench.data.readers.json_stream import BYTES_READ, JsonText, json_lines, json_value
from irtbench.data.readers.packed import PARQUET, ZipArchive, open_bytes
from irtbench.data.readers.table import read_table, separator_of

ROWS_READ = 2**14  # of a Parquet file at a time
LONGEST_LINE = 2**26  # bytes of a first line that is looked at whole

Kind = Literal["zip", "parquet", "array", "object", "lines", "table"]


@dataclass(frozen=True)
class Head:
    """What is seen of a file at first sight.

    Parameters
    ----------
    path
        The file.
    kind
        A zip archive, a Parquet file, one JSON array or object, JSON values line by line, or a text table.
    first
        The first object of an array or of lines; of one object the members in its first megabyte.
    columns
        Names of the columns of a table or of Parquet.
    members
        Names in a zip archive.
    """

    path: Path
    kind: Kind
    first: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    members: tuple[str, ...] = ()

    def has(self, *names: str) -> bool:
        """Whether all these are names of the first object, or columns."""
        return all(name in self.first or name in self.columns for name in names)

    def values(self) -> Iterator[tuple[int, Any]]:
        """The values of an array, or of lines, or the rows of a table, with their number from 1."""
        if self.kind == "table":
            frame = read_table(self.path)
            rows = frame.itertuples(index=False, name=None)
            yield from enumerate((dict(zip(frame.columns, texts, strict=True)) for texts in rows), start=1)
        elif self.kind == "parquet":
            yield from enumerate(parquet_rows(self.path), start=1)
        elif self.kind == "array":
            with open_bytes(self.path) as file:
                yield from enumerate(JsonText(file, self.path).elements(), start=1)
        else:
            yield from json_lines(self.path)

    @property
    def record_word(self) -> str:
        """What the numbers of its records count."""
        return {"lines": "line", "object": "line", "table": "row", "parquet": "row"}.get(self.kind, "record")


def look_at(path: Path) -> Head:
    """Look at the beginning of a file."""
    if path.is_dir():
        raise InputError(f"file {path}: is a folder; expected a file")
    with open_bytes(path) as file:
        start = file.read(4)
        if start == b"PK\x03\x04":
            with ZipArchive.open(path) as archive:
                return Head(path, "zip", members=archive.names)
        if start == PARQUET:
            return Head(path, "parquet", columns=_parquet_columns(path))
        start = (start + file.read(BYTES_READ - 4)).removeprefix(b"\xef\xbb\xbf").lstrip()
        if start.startswith(b"{"):
            line, _, rest = start.partition(b"\n")
            if not rest:
                line += file.readline(LONGEST_LINE)
            return _look_at_object(path, start, line, bool(rest.strip() or file.read(1)))
        if start.startswith(b"["):
            with suppress(InputError), open_bytes(path) as again:
                for first in JsonText(again, path).elements():
                    return Head(path, "array", first if isinstance(first, dict) else {})
        return Head(path, "table", columns=_header(start))


def _look_at_object(path: Path, start: bytes, line: bytes, goes_on: bool) -> Head:
    try:
        first = json_value(line)
    except ValueError:
        first = None
    if isinstance(first, dict):
        return Head(path, "lines" if goes_on else "object", first)
    found: dict[str, Any] = {}
    with suppress(InputError):
        text = JsonText(io.BytesIO(start), path)
        for name in text.members():
            found[name] = None
            found[name] = text.value()
    return Head(path, "object", found)


def _header(start: bytes) -> tuple[str, ...]:
    line = start.split(b"\n", 1)[0].decode("utf-8", errors="replace").rstrip("\r")
    try:
        return tuple(next(csv.reader([line], delimiter=separator_of(start)), []))
    except csv.Error:
        return ()  # no table; who reads it says what is wrong


def parquet_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, or some columns of them, a part of the file in memory at a time."""
    import pyarrow.parquet

    for batch in pyarrow.parquet.ParquetFile(path).iter_batches(ROWS_READ, columns=columns):
        yield from batch.to_pylist()


def _parquet_columns(path: Path) -> tuple[str, ...]:
    import pyarrow as pa
    import pyarrow.parquet

    try:
        return tuple(pa.parquet.read_schema(path).names)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"file {path}: damaged Parquet file ({error})") from None
