"""A file of a large table a batch of rows at a time: CSV (also gzipped) or Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.fs
import pyarrow.parquet

from irtbench.data.harmless_text import GUARD, unguarded
from irtbench.data.input_error import InputError
from irtbench.data.place import address_of, without_credentials
from irtbench.data.readers.file_systems import content_tag, each_in_time, failures_of, first_line, in_time
from irtbench.data.readers.large_table import LargeTable
from irtbench.data.readers.table import MISSING, demand_few_columns, separator_of
from irtbench.data.responses import name_first

BLOCK = 2**22  # bytes of a CSV file that are parsed at a time
HEADER = 2**20  # bytes that hold the header


class TextAmongNumbers(Exception):
    """A column of a CSV file that was to be read as numbers holds a text."""


@dataclass(frozen=True)
class TableFile:
    """A file with the names of its columns.

    Parameters
    ----------
    path
        The file.
    names
        Its columns, in their order.
    separator
        Between the fields of a CSV file; None for Parquet.
    filesystem
        Where a Parquet file is, unless it is on this machine.
    """

    path: Path | str
    names: tuple[str, ...]
    separator: str | None
    filesystem: pa.fs.FileSystem | None = None

    @classmethod
    def open(cls, path: str | Path) -> TableFile:
        """Look at the header alone.

        Raises
        ------
        InputError
            If the file is neither, or a column name is repeated.
        """
        path = Path(path)
        try:
            with path.open("rb") as file:
                parquet = file.read(4) == b"PAR1"
            if parquet:
                found = cls(path, tuple(pa.parquet.ParquetFile(path).schema_arrow.names), None)
            else:
                head = _stream(path).read(HEADER)
                separator = separator_of(head)
                text = io.StringIO(head.decode("utf-8-sig", errors="replace"), newline="")
                names = next((row for row in csv.reader(text, delimiter=separator) if row), [])
                found = cls(path, tuple(unguarded(name) for name in names), separator)
        except (OSError, pa.ArrowException, csv.Error) as error:
            raise InputError(f"file {path}: cannot be read ({error})") from None
        demand_few_columns(len(found.names), path)
        if len(set(found.names)) < len(found.names):
            repeated = sorted({name for name in found.names if found.names.count(name) > 1})
            raise InputError(f"file {path}: column names must be unique but {name_first(repeated)} is repeated")
        return found

    def batches(
        self,
        columns: Sequence[str],
        *,
        rows: int,
        coded: Sequence[str] = (),
        numbers: Sequence[str] = (),
        n_done: int = 0,
        groups: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows in the order of the file, at most so many at a time.

        Parameters
        ----------
        columns
            Those wanted, in the order of the batches.
        rows
            Most rows of a batch.
        coded
            Those read as dictionaries of few texts.
        numbers
            Those of a CSV file that are read as numbers; the others are texts. Parquet says itself what it holds.
        n_done
            Number of rows, the first of a Parquet file, that are passed over.
        groups
            Of its groups of rows those that are read; None for all.

        Raises
        ------
        TextAmongNumbers
            When a field of `numbers` is none; batches given before hold then not all there is.
        InputError
            If the file is damaged.
        """
        if self.separator is None:
            first, left = 0, list(range(len(self.group_rows)) if groups is None else groups)
            while left and first + self.group_rows[left[0]] <= n_done:
                first += self.group_rows[left.pop(0)]
            try:
                file = self._parquet(read_dictionary=list(coded))
                batches = file.iter_batches(rows, row_groups=left, columns=list(columns)) if left else iter(())
                if self.filesystem is not None:
                    batches = each_in_time(batches, self.filesystem, str(self.path))
                yield from batches if first == n_done else cut_anew(batches, rows, n_done - first)
            except self._failures as error:
                raise InputError(f"file {self.path}: cannot be read to its end ({first_line(error)})") from None
            return
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

    def is_text(self, column: str) -> bool:
        """Whether a column holds text, as all of a CSV file may."""
        if self.separator is not None:
            return True
        found = self._parquet().schema_arrow.field(column).type
        return bool(pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_dictionary(found))

    @cached_property
    def group_rows(self) -> tuple[int, ...]:
        """Number of rows of each group of a Parquet file."""
        metadata = self._parquet().metadata
        return tuple(metadata.row_group(k).num_rows for k in range(metadata.num_row_groups))

    @property
    def identity(self) -> list[Any]:
        """What is no longer the same once the file is changed: place, and what it holds."""
        place = str(Path(self.path).resolve()) if self.filesystem is None else without_credentials(str(self.path))
        return [place, content_tag(self.filesystem, self.path)]

    @property
    def change(self) -> list[Any]:
        """What the file system has of the last change."""
        if self.filesystem is None:
            status = Path(self.path).stat()
            return [status.st_size, status.st_mtime_ns, status.st_ino]
        found = in_time(partial(self.filesystem.get_file_info, self.path), self.filesystem, str(self.path))
        return [found.size, found.mtime_ns]

    @property
    def _failures(self) -> tuple[type[Exception], ...]:
        return failures_of(self.filesystem or pa.fs.LocalFileSystem())

    def _parquet(self, **options: Any) -> pa.parquet.ParquetFile:
        if self.filesystem is None:
            return pa.parquet.ParquetFile(self.path, **options)
        opened = partial(self.filesystem.open_input_file, self.path)
        return in_time(lambda: pa.parquet.ParquetFile(opened(), **options), self.filesystem, str(self.path))


def files_of(place: str | Path, allow_address: Sequence[str] = ()) -> tuple[TableFile, ...]:
    """The files of a table: one, or the Parquet files of a folder or at an address, which have the same columns.

    Raises
    ------
    InputError
        If a file cannot be read, or has other columns than the first.
    """
    if address_of(place) is None and not Path(place).is_dir():
        return (TableFile.open(place),)
    table = LargeTable.open(place, allow_address=allow_address)
    table.demand_alike()
    here = isinstance(table.filesystem, pa.fs.LocalFileSystem)
    return tuple(
        TableFile(Path(file.path) if here else file.path, file.names, None, None if here else table.filesystem)
        for file in table.files
    )


def cut_anew(batches: Iterator[pa.RecordBatch], rows: int, n_done: int) -> Iterator[pa.RecordBatch]:
    """The rows behind the first so many, so many at a time, wherever batches end."""
    held: list[pa.RecordBatch] = []
    n = -n_done
    for batch in batches:
        n += len(batch)
        if n <= 0:
            continue
        held.append(batch.slice(max(0, len(batch) - n)))
        n = sum(map(len, held))
        while n >= rows:
            together = pa.Table.from_batches(held)
            yield together.slice(0, rows).combine_chunks().to_batches()[0]
            held, n = together.slice(rows).to_batches(), n - rows
    if n > 0:
        yield pa.Table.from_batches(held).combine_chunks().to_batches()[0]


def without_guards(names: pa.Array) -> pa.Array:
    """Texts without the apostrophe that keeps a text from being a spreadsheet's formula."""
    if not pa.compute.any(pa.compute.starts_with(names, GUARD)).as_py():
        return names
    return pa.array([None if name is None else unguarded(name) for name in names.to_pylist()], pa.string())


def _stream(path: Path | str) -> pa.NativeFile:
    with Path(path).open("rb") as file:
        gzipped = file.read(2) == b"\x1f\x8b"
    return pa.input_stream(path, compression="gzip" if gzipped else None)
