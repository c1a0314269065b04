"""A large table a batch of rows at a time: Parquet, in a folder or an object store, or CSV (also gzipped)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pyarrow.fs
import pyarrow.parquet
from numpy.typing import NDArray

from irtbench.data.input_error import InputError, refuse_first
from irtbench.data.place import address_of, as_given, note_credentials, without_credentials
from irtbench.data.readers.file_systems import (
    change_of,
    content_tag,
    demand_allowed,
    each_in_time,
    failures_of,
    filesystem_of,
    first_line,
    in_time,
)  # fmt: skip
from irtbench.data.readers.packed import MOST_BYTES, MOST_TIMES, PARQUET, first_bytes, open_bytes
from irtbench.data.readers.table import (
    WORDS,
    TextTable,
    as_texts,
    demand_few_columns,
    demand_few_fields,
    is_text,
    numbers_among,
)
from irtbench.data.responses import demand_unique, name_first
from irtbench.data.shown import Shown, counted

SUFFIX = ".parquet"
ROWS_OF_PART = 2**17  # about so many are taken up again where a run was stopped


@dataclass(frozen=True)
class Cells:
    """The cells of one column in some rows of a file, of which the first has this number."""

    values: pa.Array
    source: Path | str
    name: str
    first_row: int = 1

    def place(self, row: int) -> str:
        """The place of a cell, by its row among these."""
        return f"file {self.source}, row {self.first_row + row}, column {self.name}"

    def coded(self) -> pa.DictionaryArray:
        """The cells as codes and values."""
        return self.values if pa.types.is_dictionary(self.values.type) else self.values.dictionary_encode()

    def distinct(self) -> tuple[list[Any], NDArray[np.int64]]:
        """The distinct values, of which the last is None, and which of them each row has."""
        column = self.coded()
        values = column.dictionary.to_pylist()
        codes = pa.compute.fill_null(column.indices, len(values)).to_numpy(zero_copy_only=False)
        return [*values, None], codes

    def texts(self) -> pa.Array:
        """The cells as texts."""
        return self._as_text(self.values)

    def names(self) -> pa.DictionaryArray:
        """The cells as codes of names, none of them empty."""
        column = self.coded()
        names = self._as_text(column.dictionary)
        if column.null_count or pa.compute.any(pa.compute.equal(names, "")).as_py():
            empty = pa.compute.fill_null(pa.compute.equal(names.take(column.indices), ""), True)
            refuse_first(
                empty.to_numpy(zero_copy_only=False), lambda row: f"{self.place(row)}: expected a name but it is empty"
            )
        return pa.DictionaryArray.from_arrays(column.indices, names)

    def numbers(self, expected: str = "1, 0 or missing") -> NDArray[np.float64]:
        """The cells as numbers, NaN where null or missing."""
        kind = self.values.type
        if is_text(kind) or pa.types.is_dictionary(kind):
            texts, codes = self.distinct()
            found = _numbers(tuple(map(str, texts[:-1])))[codes]
            refuse_first(
                np.isinf(found),
                lambda row: f"{self.place(row)}: expected {expected} but it holds '{texts[codes[row]]}'",
            )
            return found
        try:
            whole = self.values.cast(pa.int8()) if pa.types.is_boolean(kind) else self.values
            numbers: NDArray[np.float64] = whole.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise InputError(
                f"file {self.source}, column {self.name}: expected {expected} but it holds {kind}"
            ) from None
        return numbers

    def _as_text(self, values: pa.Array) -> pa.Array:
        try:
            return values.cast(pa.string())
        except pa.ArrowException:
            raise InputError(
                f"file {self.source}, column {self.name}: expected text or numbers but it holds {values.type}"
            ) from None


@lru_cache(32)  # parts of a table have the same few texts in column after column
def _numbers(texts: tuple[str, ...]) -> NDArray[np.float64]:
    """Texts as numbers, and NaN at the end for what is null."""
    return np.append(numbers_among(pd.Index(texts, dtype=object), WORDS), np.nan)


@dataclass(frozen=True)
class Rows:
    """Some rows of a file of a table, and the number of the first of them, from 1."""

    source: Path | str
    first: int
    batch: pa.RecordBatch

    def cells(self, name: str) -> Cells:
        """The cells of a column."""
        return Cells(self.batch.column(name), self.source, name, self.first)


@dataclass(frozen=True)
class TableFileInfo:
    """A file of the table.

    Path, size in bytes, what the file system has of its last change, columns, and how many rows its groups have.
    """

    path: str
    size: int
    changed: str
    names: tuple[str, ...]
    group_rows: tuple[int, ...]


@dataclass(frozen=True)
class LargeTable(Shown):
    """Parquet files with the same columns, or a CSV file.

    Parameters
    ----------
    place
        What the user named: a file, a folder or an address, this without its credentials.
    filesystem
        Where the files are.
    files
        The files, by name.
    names
        Their columns, as the first has them in order.
    types
        What its columns hold, as text.
    text
        A CSV file, whose end alone tells how long it is; None for Parquet.
    """

    place: str
    filesystem: pa.fs.FileSystem
    files: tuple[TableFileInfo, ...]
    names: tuple[str, ...]
    types: tuple[str, ...]
    text: TextTable | None = None

    def table(self) -> pd.DataFrame:
        """One row a file: ``path, bytes, rows``."""
        return pd.DataFrame(
            {
                "path": [without_credentials(file.path) for file in self.files],
                "bytes": [file.size for file in self.files],
                "rows": [sum(file.group_rows) for file in self.files],
            }
        )

    def in_short(self) -> str:
        """Place, files, rows and columns."""
        files, rows = counted(len(self.files), "file"), counted(self.n_rows, "row")
        return f"{self.place}, {files}, {rows} of {len(self.names)} columns"

    @classmethod
    def open(cls, place: str | Path, *, allow_address: Sequence[str] = (), of_study: bool = False) -> LargeTable:
        """Look at the ends of the files alone, which say what is in them.

        Parameters
        ----------
        place
            A file, a folder or an address: of ``file``, ``memory``, ``s3``, ``gs``, ``az`` or ``abfs``, ``http`` or
            ``https``.
        allow_address
            Beginnings of other addresses that may be read: ``"ftp://data.example.org/"``, or ``"ftp://"``.
        of_study
            Whether a study file names it: then an address that names a host must be allowed, too.

        Raises
        ------
        InputError
            If there is no Parquet file, or one is damaged or cannot be read; if the address is of another scheme, or
            its server does not answer in half a minute.
        """
        address = address_of(place)
        place = str(place) if address is None else as_given(address)
        if address is not None:
            demand_allowed(place, allow_address, of_study=of_study)
            note_credentials(place)
        filesystem, path = filesystem_of(place)
        place = without_credentials(place)
        found, schemas = [], []
        for info in in_time(lambda: parquet_files(filesystem, path, place), filesystem, place):
            try:
                metadata = in_time(
                    partial(pa.parquet.read_metadata, info.path, filesystem=filesystem), filesystem, place
                )
                own = metadata.schema.to_arrow_schema()
            except failures_of(filesystem) as error:
                alone = "; expected Parquet, which alone is read at an address" if address is not None else ""
                raise InputError(f"file {info.path}: damaged Parquet file ({first_line(error)}){alone}") from None
            demand_few_columns(len(own.names), info.path)
            schemas.append(own)
            rows = tuple(metadata.row_group(k).num_rows for k in range(metadata.num_row_groups))
            found.append(TableFileInfo(info.path, info.size, change_of(filesystem, info), tuple(own.names), rows))
        types = tuple(str(field.type) for field in schemas[0])
        return cls(place, filesystem, tuple(found), tuple(schemas[0].names), types)

    @cached_property
    def n_rows(self) -> int:
        """Number of rows of all files; 0 for CSV."""
        return sum(sum(file.group_rows) for file in self.files)

    @property
    def n_fields(self) -> int:
        """Rows times columns."""
        return self.n_rows * len(self.names)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What is no longer the same once a file is changed: names, columns, and what the files hold."""
        return {
            "rows_of_part": ROWS_OF_PART,
            "files": [
                [without_credentials(file.path), file.size, content_tag(self.filesystem, file.path)]
                for file in self.files
            ],
            "columns": [list(pair) for pair in zip(self.names, self.types, strict=True)],
        }

    @cached_property
    def parts(self) -> list[tuple[TableFileInfo, tuple[int, ...]]]:
        """Row groups that are worked on together, in the order of the rows."""
        found: list[tuple[TableFileInfo, tuple[int, ...]]] = [(self.files[0], ())] if self.text is not None else []
        for file in self.files:
            filled = accumulate(file.group_rows, lambda n, rows: rows + (n if n < ROWS_OF_PART else 0))
            ends = {0, len(file.group_rows), *(k for k, n in enumerate(filled, start=1) if n >= ROWS_OF_PART)}
            found += [(file, tuple(range(*part))) for part in pairwise(sorted(ends))]
        return found

    def rows(
        self,
        columns: Sequence[str],
        *,
        rows: int,
        coded: Sequence[str] = (),
        part: int | None = None,
    ) -> Iterator[Rows]:
        """All rows in their order, or those of one part, at most so many at a time; some columns as codes and texts.

        Raises
        ------
        InputError
            If a file is damaged, or no longer there.
        """
        for file, groups in self.parts if part is None else [self.parts[part]]:
            first = 1 + sum(file.group_rows[: min(groups, default=0)])
            try:
                parquet = self._of_parquet(file, groups, rows, columns, coded)
                for batch in parquet if self.text is None else self.text.rows(columns, coded):
                    for start in range(0, len(batch), rows):
                        own = batch.slice(start, rows)
                        yield Rows(file.path, first, own)
                        first += len(own)
            except failures_of(self.filesystem) as error:
                raise InputError(f"file {file.path}: cannot be read to its end ({first_line(error)})") from None

    def _of_parquet(
        self, file: TableFileInfo, groups: Sequence[int], rows: int, columns: Sequence[str], coded: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        source = in_time(partial(self.filesystem.open_input_file, file.path), self.filesystem, file.path)
        with pa.parquet.ParquetFile(source, read_dictionary=list(coded), pre_buffer=True) as opened:
            batches = opened.iter_batches(rows, row_groups=list(groups), columns=list(columns))
            for batch in each_in_time(batches, self.filesystem, file.path):
                yield batch.select(list(columns))

    def texts(self) -> pd.DataFrame:
        """All rows, every field as text, as `read_table` gives them."""
        demand_few_fields(self.n_rows, len(self.names), self.place)
        coded = [name for name in self.names if self.is_text(name)]
        batches = [rows.batch for rows in self.rows(self.names, rows=ROWS_OF_PART, coded=coded)]
        if not batches:
            raise InputError(f"file {self.place}: no rows below the header; expected at least one")
        return as_texts(pa.Table.from_batches(batches), self.place).to_pandas()

    def is_text(self, column: str) -> bool:
        """Whether a column holds text."""
        return self.types[self.names.index(column)].startswith(("string", "large_string", "dictionary"))

    @property
    def in_words(self) -> str:
        """The file, or the folder of the first."""
        path = self.files[0].path
        return f"file {path}" if len(self.files) == 1 else f"folder {Path(path).parent}"

    def demand_bounded(self, n_bytes: int, n_rows: int) -> None:
        """Refuse a table whose names, once each row has its own, are far larger than its files.

        Parameters
        ----------
        n_bytes, n_rows
            Bytes of the names in so many of its rows.

        Raises
        ------
        InputError
            Saying what they would take.
        """
        there, wanted = sum(file.size for file in self.files), n_bytes * self.n_rows // max(1, n_rows)
        if wanted > max(MOST_BYTES, MOST_TIMES * there):
            raise InputError(
                f"{self.place}: the names of its respondents unpack to about {wanted / 1e9:.1f} GB from "
                f"{there / 1e6:.1f} MB; expected at most {MOST_TIMES:,} times its size (shorter names, or numbers)"
            )

    def demand_alike(self) -> None:
        """Refuse files of which one has other columns, or two of one name.

        Raises
        ------
        InputError
            Naming the first file and its columns.
        """
        for file in self.files:
            demand_unique(file.names, f"file {file.path}: column names")
            lacking, more = sorted(set(self.names) - set(file.names)), sorted(set(file.names) - set(self.names))
            if lacking or more:
                words = [
                    f"{word} {name_first(found)}"
                    for word, found in (("lacks", lacking), ("has besides", more))
                    if found
                ]
                raise InputError(
                    f"file {file.path}: {' and '.join(words)}; expected the columns of {self.files[0].path}"
                )

    def demand_unchanged(self) -> None:
        """Refuse a table that is no longer what it was.

        Raises
        ------
        InputError
            Naming the first file that was changed or removed.
        """
        infos = in_time(
            lambda: self.filesystem.get_file_info([file.path for file in self.files]), self.filesystem, self.place
        )
        for k, (before, now) in enumerate(zip(self.files, infos, strict=True)):
            there = now.type == pa.fs.FileType.File
            size, changed = (now.size, change_of(self.filesystem, now)) if there else (-1, "")
            if (size, changed) == (before.size, before.changed):
                continue
            same_times = size == before.size and changed.split()[:1] == before.changed.split()[:1]
            if not (same_times and content_tag(self.filesystem, before.path) == self.identity["files"][k][-1]):
                raise InputError(f"file {before.path}: was changed or removed while it was read; expected it to stay")


def parquet_files(filesystem: pa.fs.FileSystem, path: str, place: str) -> list[pa.fs.FileInfo]:
    """The files of a folder that are called ``.parquet``, by name, or the one file; hidden ones are passed over."""
    try:
        info = filesystem.get_file_info(path)
        if info.type == pa.fs.FileType.File:
            return [info]
        inner = filesystem.get_file_info(pa.fs.FileSelector(path, recursive=True))
    except failures_of(filesystem) as error:
        raise InputError(f"{place}: cannot be read ({first_line(error)})") from None
    found = [info for info in inner if info.type == pa.fs.FileType.File and info.path.endswith(SUFFIX)]
    found = [info for info in found if not any(part[:1] in "._" for part in info.path[len(path) :].split("/") if part)]
    if not found:
        raise InputError(f"{place}: no Parquet file in this folder; expected files that end in {SUFFIX}")
    return sorted(found, key=lambda info: info.path)


def opened_table(place: str | Path, allow_address: Sequence[str] = ()) -> LargeTable:
    """A table in a CSV or Parquet file, or in the Parquet files of a folder or at an address, of the same columns."""
    if address_of(place) is not None or Path(place).is_dir() or first_bytes(place) == PARQUET:
        table = LargeTable.open(place, allow_address=allow_address)
        table.demand_alike()
        return table
    path, filesystem = Path(place), pa.fs.LocalFileSystem()
    text, info = TextTable.of(partial(open_bytes, path, math.inf), path), filesystem.get_file_info(str(path))
    file = TableFileInfo(info.path, info.size, change_of(filesystem, info), text.names, ())
    return LargeTable(str(path), filesystem, (file,), text.names, ("string",) * len(text.names), text)
