"""A large table a batch of rows at a time: CSV (also gzipped), or Parquet, see `LargeTable`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from irtbench.data.file_hash import file_hash
from irtbench.data.harmless_text import unguarded
from irtbench.data.input_error import InputError
from irtbench.data.place import address_of
from irtbench.data.readers.large_table import LargeTable
from irtbench.data.readers.packed import GZIP, PARQUET, first_bytes
from irtbench.data.readers.table import MISSING, demand_few_columns, separator_of
from irtbench.data.responses import demand_unique

BLOCK = 2**22  # bytes of a CSV file that are parsed at a time
HEADER = 2**20  # bytes that hold the header


class TextAmongNumbers(Exception):
    """A column of a CSV file that was to be read as numbers holds a text."""


@dataclass(frozen=True)
class TextTable:
    """A CSV file with the names of its columns.

    Parameters
    ----------
    path
        The file.
    names
        Its columns, in their order.
    separator
        Between its fields.
    changed
        What the file system has of the last change.
    """

    path: Path
    names: tuple[str, ...]
    separator: str
    changed: tuple[int, ...]

    @classmethod
    def open(cls, path: Path) -> TextTable:
        """Look at the header alone.

        Raises
        ------
        InputError
            If the file cannot be read, or a column name is repeated.
        """
        try:
            head = _stream(path).read(HEADER)
            separator = separator_of(head)
            text = io.StringIO(head.decode("utf-8-sig", errors="replace"), newline="")
            header = next((row for row in csv.reader(text, delimiter=separator) if row), [])
            changed = _change_of(path)
        except (OSError, pa.ArrowException, csv.Error) as error:
            raise InputError(f"file {path}: cannot be read ({error})") from None
        names = tuple(unguarded(name) for name in header)
        demand_few_columns(len(names), path)
        demand_unique(names, f"file {path}: column names")
        return cls(path, names, separator, changed)

    n_parts, n_rows = 1, None  # it is read from its beginning, and its end alone says how long it is

    @property
    def in_words(self) -> str:
        """Where it is."""
        return f"file {self.path}"

    @property
    def identity(self) -> dict[str, Any]:
        """What is no longer the same once the file is changed: place, and what it holds."""
        return {"place": str(self.path.resolve()), "hash": file_hash(self.path)}

    def is_text(self, column: str) -> bool:
        """Whether a column holds text, as all may."""
        return column in self.names

    def rows(
        self,
        columns: Sequence[str],
        *,
        rows: int,
        coded: Sequence[str] = (),
        numbers: Sequence[str] = (),
        part: int | None = None,
    ) -> Iterator[tuple[Path | str, int, pa.RecordBatch]]:
        """The file, the number of the first row from 1, and the rows in their order, at most so many at a time.

        Parameters
        ----------
        columns
            Those wanted, in the order of the batches.
        rows
            Most rows of a batch.
        coded
            Those read as dictionaries of few texts.
        numbers
            Those that are read as numbers; the others are texts.
        part
            Number of the part; a CSV file has one.

        Raises
        ------
        TextAmongNumbers
            When a field of `numbers` is none; batches given before hold then not all there is.
        InputError
            If the file is damaged.
        """
        first = 1
        for batch in self._batches(columns, rows, coded, numbers):
            yield self.path, first, batch
            first += len(batch)

    def _batches(
        self, columns: Sequence[str], rows: int, coded: Sequence[str], numbers: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        text = pa.string()
        of_names = dict.fromkeys(columns, text) | dict.fromkeys(coded, pa.dictionary(pa.int32(), text))
        try:
            reader = pa.csv.open_csv(
                _stream(self.path),
                read_options=pa.csv.ReadOptions(block_size=BLOCK, column_names=list(self.names), skip_rows=1),
                parse_options=pa.csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
                convert_options=pa.csv.ConvertOptions(
                    include_columns=list(columns),
                    column_types=of_names | dict.fromkeys(numbers, pa.float32()),
                    null_values=list(MISSING),
                    strings_can_be_null=False,
                ),
            )
            for batch in reader:
                for first in range(0, len(batch), rows):
                    yield batch.slice(first, rows)
        except pa.ArrowInvalid as error:
            if "conversion error" in str(error) and "UTF8" not in str(error):
                raise TextAmongNumbers(str(error)) from None
            raise InputError(f"file {self.path}: {error}") from None
        except OSError as error:
            raise InputError(f"file {self.path}: cannot be read ({error})") from None

    def demand_unchanged(self) -> None:
        """Refuse a file that is no longer what it was.

        Raises
        ------
        InputError
            Naming it.
        """
        if _change_of(self.path) != self.changed:
            raise InputError(f"file {self.path}: was changed or removed while it was read; expected it to stay")


def opened_table(place: str | Path, allow_address: Sequence[str] = ()) -> LargeTable | TextTable:
    """A table in a CSV or Parquet file, or in the Parquet files of a folder or at an address, of the same columns.

    Raises
    ------
    InputError
        If a file cannot be read, or has other columns than the first.
    """
    if address_of(place) is None and not Path(place).is_dir():
        try:
            parquet = first_bytes(place) == PARQUET
        except OSError as error:
            raise InputError(f"file {place}: cannot be read ({error})") from None
        if not parquet:
            return TextTable.open(Path(place))
    table = LargeTable.open(place, allow_address=allow_address)
    table.demand_alike()
    return table


def _stream(path: Path | str) -> pa.NativeFile:
    return pa.input_stream(path, compression="gzip" if first_bytes(path).startswith(GZIP) else None)


def _change_of(path: Path) -> tuple[int, ...]:
    if not path.exists():
        return ()
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino
