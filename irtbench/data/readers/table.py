"""Tables from disk: CSV and Parquet, every field as text, every error with its file, row and column."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from irtbench.data.harmless_text import GUARD, unguarded
from irtbench.data.input_error import InputError, refuse_any, refuse_first
from irtbench.data.place import address_of
from irtbench.data.readers.packed import MOST_BYTES, PARQUET, open_bytes
from irtbench.data.responses import demand_unique, name_first
from irtbench.data.shown import counted

EXPECTED_ONCE = "; expected each once, or a table of respondent_id, item_id, response"
#: Fields that mean "nothing here" wherever a value may be missing.
MISSING = ("", "NA", "NaN", "nan")
OTHER_SCORES = "; grades that are words need --levels, lowest first; numbers are written 0.6, not 0,6, 60% or 3/5"
WORDS = {"true": 1.0, "false": 0.0}  # that mean responses

#: A table that is read whole: at most ``MOST_BYTES`` of text (unpacked, where it is gzipped), which takes eight times
#: that in memory; so many fields of a Parquet file, bytes of text in a column of it, and columns.
MOST_FIELDS, MOST_COLUMN_BYTES, MOST_COLUMNS = 2**27, 2**31, 100_000

BLOCK = 2**22  # bytes of a text table that are parsed at a time
END = "\x04 end of the table"  # in the row that is put behind a text table
_UTF16 = {b"\xff\xfe", b"\xfe\xff"}
HEADER = 2**20  # bytes of a text table that are looked at
_HEAD = 4096  # bytes that tell the kind of a file
LONGEST_FIELD = 2**31 - 1  # in place of what Python's csv reads by itself: a quote that stays open swallows rows


def read_table(path: str | Path, columns: Sequence[str] = ()) -> pd.DataFrame:
    """Read a CSV (also gzipped) or Parquet file with every field as text.

    Nothing is guessed: ids such as ``1``, ``01`` and ``NA`` stay what they are, and an empty field, or a null of
    Parquet, is the empty string. The kind of file is known by its first bytes, not by its name; the separator of a
    text file is whichever of comma, tab and semicolon its header has most of. Text is UTF-8; empty lines are skipped,
    and rows of separators alone at the end.
    An apostrophe that keeps a field from being a spreadsheet's formula is taken away. What comes from a pipe, such as
    ``/dev/stdin``, is kept, since it can be read only once. A table that lacks one of the columns named is refused.
    """
    path = Path(path)
    data = _read_bytes(path)
    if data.startswith(PARQUET):
        table = _parse_parquet(data, path)
    else:
        text = TextTable.of(partial(io.BytesIO, data), path)
        table = pa.Table.from_batches(text.rows(text.names))
    if table.num_rows == 0:
        raise InputError(f"file {path}: no rows below the header; expected at least one")
    frame = table.to_pandas()
    demand_columns(frame, columns, path)
    return frame


def demand_columns(frame: pd.DataFrame | Sequence[str], names: Iterable[str], path: str | Path) -> None:
    """Refuse a table, or columns, that lacks one of these columns."""
    there = list(frame)
    for name in names:
        if name not in there:
            raise InputError(f"file {path}: column '{name}' missing; it has: {name_first(there, most=12)}")


def demand_known(columns: Iterable[str], known: Iterable[str]) -> None:
    """Refuse columns named by the user under names that are none of ours."""
    if unknown := [name for name in columns if name not in known]:
        raise InputError(f"columns: unknown name {name_first(unknown)}; expected some of {', '.join(known)}")


def demand_filled(frame: pd.DataFrame, path: str | Path, *names: str) -> None:
    """Refuse an empty field in one of these columns."""
    for name in names:
        refuse_first(
            (frame[name].str.strip() == "").to_numpy(),
            lambda k, name=name: (
                f"{field_places(path, name)(int(frame.index.to_numpy()[k]))}: expected a name but it is empty"
            ),
        )


def one_value_each(rows: pd.DataFrame, name: str, value: str, word: str, place: str) -> pd.Series[str]:
    """The value of each respondent or item (what `name` names, by its word) in rows that repeat it; refuse two."""
    pairs = rows[[name, value]].drop_duplicates()
    if (twice := pairs[name].duplicated()).any():
        first = pairs[name][twice].iloc[0]
        both = " and ".join(map(str, pairs[value][pairs[name] == first][:2]))
        raise InputError(f"{place}, column {value}: {word} {first} has both {both}; expected one value for each {word}")
    return pairs.set_index(name)[value]


def demand_cells(table: pd.DataFrame, name: str, path: str | Path, right: NDArray[np.bool_], expected: str) -> None:
    """Refuse a column of which a cell is not right, naming the first."""
    place = field_places(path, name)
    refuse_first(~right, lambda row: f"{place(row)}: expected {expected} but got {table[name].iloc[row]!r}")


def field_places(path: str | Path, column: str) -> Callable[[int], str]:
    """The place of the field of a row (counted from 0): ``file X, row 17 (line 18), column correct``."""
    return lambda row: f"{row_place(path, row)}, column {column}"


def row_place(path: str | Path, row: int) -> str:
    """The place of a row (counted from 0) in its file: ``file X, row 17 (line 18)``.

    Rows are counted from 1 below the header. Lines, which text files alone have, differ from rows by more than the
    header where a quoted field holds a line break or empty lines were skipped, so the file is read again.
    """
    place = f"file {path}, row {row + 1}"
    if address_of(path) is not None or (data := _read_bytes(Path(path))).startswith(PARQUET):
        return place
    if data.lstrip()[:1] in (b"{", b"["):
        return f"file {path}, record {row + 1}"
    line, _ = next(islice(numbered_rows(io.BytesIO(data), separator_of(data)), row + 1, None))
    return f"{place} (line {line})"


def to_numbers(
    texts: pd.Series[str], *, place: Callable[[int], str], words: Mapping[str, float] | None = None, advice: str = ""
) -> NDArray[np.float64]:
    """Convert texts to numbers; those of ``MISSING`` become NaN."""
    if isinstance(texts.dtype, pd.CategoricalDtype):
        codes, distinct = texts.cat.codes.to_numpy(), texts.cat.categories
    else:
        codes, distinct = pd.factorize(texts)
    found = numbers_among(distinct, words)[codes]
    refuse_first(np.isinf(found), lambda row: f"{place(row)}: expected a number but got '{texts.iloc[row]}'{advice}")
    return found


def numbers_among(texts: pd.Index[str], words: Mapping[str, float] | None = None) -> NDArray[np.float64]:
    """Texts as numbers, see `to_numbers`: NaN where missing, infinite where there is none."""
    numbers = pd.to_numeric(pd.Series(texts), errors="coerce").to_numpy(dtype=np.float64, copy=True)
    for word, number in (words or {}).items():
        numbers[texts.str.lower() == word] = number
    numbers[~np.isfinite(numbers)] = np.inf
    numbers[texts.isin(MISSING)] = np.nan
    return numbers


def graded(scores: NDArray[np.float64], threshold: float | None, message: Callable[[int], str]) -> NDArray[np.float64]:
    """Scores as responses, by a threshold, or without one by being 1, 0 or missing; the error where they are not."""
    if threshold is not None:
        return np.where(np.isnan(scores), np.nan, scores >= threshold)
    refuse_first(~((scores == 0) | (scores == 1) | np.isnan(scores)), message)
    return scores


def to_scores(texts: pd.Series[str], *, place: Callable[[int], str], levels: Sequence[str] = ()) -> NDArray[np.float64]:
    """Convert texts to numbers, NaN where missing; see ``to_responses``. Of levels to their places, 0, 1, ..."""
    if levels:
        demand_levels(levels)
        places = pd.Index([*map(as_level, levels)]).get_indexer(pd.Index(texts.astype(str)).map(as_level))
        refuse_first(
            (places < 0) & ~texts.isin(MISSING).to_numpy(),
            lambda row: f"{place(row)}: expected one of {', '.join(levels)} but got '{texts.iloc[row]}'",
        )
        return np.where(places < 0, np.nan, places)
    scores = to_numbers(texts, place=place, words=WORDS, advice=OTHER_SCORES)
    scores[scores == -1] = np.nan
    return scores


@lru_cache(2**10)
def as_level(text: str) -> str:
    """A label as it is compared: in small letters, and a whole number without the .0 of columns that have gaps."""
    return re.sub(r"^(-?\d+)\.0+$", r"\1", text.strip().lower())


def demand_levels(levels: Sequence[Any]) -> None:
    """Refuse levels of which two are the same as they are compared."""
    demand_unique([as_level(str(level)) for level in levels], "levels")


def to_responses(
    texts: pd.Series[str], *, place: Callable[[int], str], threshold: float | None = None
) -> NDArray[np.float64]:
    """Convert texts to responses: 1, 0, or NaN where missing.

    ``true`` and ``false`` in any case mean 1 and 0. Missing is what ``MISSING`` lists, and -1.
    """
    return graded(
        to_scores(texts, place=place),
        threshold,
        lambda row: (
            f"{place(row)}: expected 1, 0 or missing but got '{texts.iloc[row]}'; "
            "say from which score on one is right (--threshold), or fit grades (--model grm); labels are answers "
            "(convert, score: --content answers)"
        ),
    )


def coded_cells(frame: pd.DataFrame, names: Sequence[str]) -> pd.Series[str]:
    """The fields of some text columns row by row, as categories: each distinct text is kept once."""
    columns = pa.Table.from_pandas(frame[list(names)], preserve_index=False).columns
    coded = pa.chunked_array([chunk for column in columns for chunk in column.chunks]).dictionary_encode()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in coded.chunks])
    texts = pd.Index(coded.chunk(0).dictionary.to_pylist())
    row_by_row = codes.reshape(len(names), len(frame)).T.ravel()
    return pd.Series(pd.Categorical.from_codes(row_by_row, categories=texts))


def _read_bytes(path: Path) -> bytes:
    if path.is_dir():
        raise InputError(f"file {path}: is a folder; expected a CSV or Parquet file")
    with open_bytes(path, math.inf) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise InputError(
            f"file {path}: holds more than {MOST_BYTES >> 20} MiB of text; expected at most that in a table read whole "
            "(score reads larger files of responses part by part)"
        )
    return data


class TextSource:
    """The bytes of a text table without the rows of separators at its end, which spreadsheets leave there.

    Behind them is a row of `END` in each field, which a quote that stays open swallows.

    Parameters
    ----------
    stream
        The bytes.
    separator, n_columns
        Of the table.
    """

    closed = False

    def __init__(self, stream: Any, separator: str, n_columns: int) -> None:
        self._stream, self._ready, self._held = stream, b"", b""
        self._rest = separator.join([END] * n_columns).encode()

    def read(self, n: int = -1) -> bytes:
        """Read on: what was read before, so that the end of the table is known, and last the row behind it."""
        while data := self._stream.read(n):
            data, ready = self._held + data, self._ready
            end = len(data.rstrip(b",;\t\r\n "))
            self._held = data[end:]
            if end:
                self._ready = data[:end]
                if ready:
                    return ready
        ready, self._ready = self._ready, b""
        if ready:
            return ready + self._held.partition(b"\n")[0] + b"\n"
        rest, self._rest = self._rest, b""
        return rest


@dataclass(frozen=True)
class TextTable:
    """A text table by its header.

    Parameters
    ----------
    opened
        Opens its bytes.
    path
        The file.
    separator
        Between its fields.
    names
        Its columns.
    lines
        Lines up to the first row.
    """

    opened: Callable[[], Any]
    path: Path
    separator: str
    names: tuple[str, ...]
    lines: int

    @classmethod
    def of(cls, opened: Callable[[], Any], path: Path) -> TextTable:
        """Look at the header; refuse what is no text in UTF-8 at first sight, with what it seems to be."""
        with opened() as stream:
            start = stream.read(HEADER)
        head = start[:_HEAD]
        zeros = max(head[::2].count(0), head[1::2].count(0))
        refuse_any((holds, f"file {path}: {why}") for holds, why in (
            (not start.strip(), "the file is empty; expected a header and rows"),
            ("".join(head.decode(errors="replace").split())[:2] in ('{"', "[{"),
             "holds JSON; expected a table, CSV or Parquet"),
            (head[:2] in _UTF16 or zeros > len(head) // 4,
             "expected UTF-8 text but it seems to be UTF-16; save it as CSV UTF-8"),
            (head.startswith(b"PK\x03\x04"),
             "is a zip archive or a spreadsheet; expected CSV or Parquet (save it as CSV)"),
            (0 in head, "is no text; expected CSV or Parquet"),
        ))  # fmt: skip
        separator = separator_of(start)
        try:
            line, header = next(numbered_rows(opened(), separator))
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(describe_damage(opened, path, separator) or f"file {path}: {error}") from None
        demand_few_columns(len(header), path)
        names = tuple(unguarded(name) for name in header)
        demand_unique(names, f"file {path}: column names", expected=EXPECTED_ONCE)
        return cls(opened, path, separator, names, line + "".join(header).count("\n"))

    def rows(self, columns: Sequence[str], coded: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """The rows of some columns, every field as text, or of some as codes and texts, all without guards."""
        text, last = pa.string(), None
        options = [
            pa.csv.ReadOptions(block_size=BLOCK, column_names=list(self.names), skip_rows=self.lines),
            pa.csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
            pa.csv.ConvertOptions(
                include_columns=list(columns),
                column_types=dict.fromkeys(columns, text) | dict.fromkeys(coded, pa.dictionary(pa.int32(), text)),
                strings_can_be_null=False,
            ),
        ]
        try:
            with self.opened() as stream:
                for batch in pa.csv.open_csv(TextSource(stream, self.separator, len(self.names)), *options):
                    if last is not None:
                        yield pa.record_batch([without_guards(each) for each in last.columns], last.schema)
                    last = batch
            if last is None or last.column(0)[-1].as_py() != END:
                raise pa.ArrowInvalid("CSV parse error: a quote is never closed")
            rest = last.slice(0, len(last) - 1)  # without what the last row has put among the texts of a column, too
            yield pa.record_batch(
                [without_guards(each.cast(text).cast(each.type)) for each in rest.columns], rest.schema
            )
        except pa.ArrowInvalid as error:
            raise InputError(
                describe_damage(self.opened, self.path, self.separator) or f"file {self.path}: {error}"
            ) from None


def _parse_parquet(data: bytes, path: Path) -> pa.Table:
    try:
        file = pa.parquet.ParquetFile(pa.BufferReader(data))
        demand_few_columns(file.metadata.num_columns, path)
        demand_few_fields(file.metadata.num_rows, file.metadata.num_columns, path)
        text = [field.name for field in file.schema_arrow if is_text(field.type)]
        table = pa.parquet.ParquetFile(pa.BufferReader(data), read_dictionary=text).read()
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise InputError(f"file {path}: damaged Parquet file ({error})") from None
    return as_texts(table, path)


def demand_few_fields(n_rows: int, n_columns: int, path: str | Path) -> None:
    """Refuse Parquet of more than `MOST_FIELDS`."""
    if n_rows * n_columns > MOST_FIELDS:
        raise InputError(
            f"file {path}: {n_rows} rows of {n_columns} columns; expected at most {MOST_FIELDS} fields in a table read "
            "whole (score reads larger files of responses part by part)"
        )


def as_texts(table: pa.Table, path: str | Path) -> pa.Table:
    """Rows of Parquet with every field as text, empty where null."""
    demand_unique(table.column_names, f"file {path}: column names", expected=EXPECTED_ONCE)
    columns = {}
    for name in table.column_names:
        if text_bytes(table[name]) > MOST_COLUMN_BYTES:
            raise InputError(
                f"file {path}, column {name}: unpacks to more than {MOST_COLUMN_BYTES >> 20} MiB of text; expected at "
                "most that in a table read whole"
            )
        try:
            columns[name] = table[name].cast(pa.string()).fill_null("")
        except (pa.ArrowException, UnicodeDecodeError):
            raise InputError(
                f"file {path}, column {name}: expected text or numbers but it holds {table[name].type}"
            ) from None
    return pa.table(columns)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def text_bytes(column: pa.ChunkedArray | pa.Array) -> int:
    """Bytes of a column of texts that is read as a dictionary, once each row has its own; 0 for any other."""
    if not pa.types.is_dictionary(column.type):
        return 0
    total = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        n_bytes = pa.compute.fill_null(pa.compute.binary_length(chunk.dictionary), 0).to_numpy(zero_copy_only=False)
        counts = np.bincount(chunk.indices.drop_null().to_numpy(zero_copy_only=False), minlength=len(n_bytes))
        total += int(counts @ n_bytes.astype(np.int64))
    return total


def demand_few_columns(n: int, path: str | Path) -> None:
    """Refuse a table of more than `MOST_COLUMNS`, which no command reads in sensible time."""
    if n > MOST_COLUMNS:
        raise InputError(
            f"file {path}: {n} columns; expected at most {MOST_COLUMNS} (a table of more items is given in long form)"
        )


def without_guards(texts: pa.Array) -> pa.Array:
    """Texts, perhaps coded, without the apostrophe that keeps a text from being a spreadsheet's formula."""
    if pa.types.is_dictionary(texts.type):
        bare = without_guards(texts.dictionary)
        if bare is texts.dictionary:
            return texts
        return pa.DictionaryArray.from_arrays(texts.indices, bare).cast(pa.string()).dictionary_encode()
    if not pa.compute.any(pa.compute.starts_with(texts, GUARD)).as_py():
        return texts
    distinct = texts.unique()
    bare = pa.array([text and unguarded(text) for text in distinct.to_pylist()], pa.string())
    return bare.take(pa.compute.index_in(texts, value_set=distinct))


def separator_of(data: bytes) -> str:
    """Whichever of comma, tab and semicolon the header has most of."""
    header = data.lstrip().split(b"\n", 1)[0].decode("utf-8", errors="replace")
    return max(",\t;", key=header.count)


def numbered_rows(file: IO[bytes], separator: str, *more: str) -> Iterator[tuple[int, list[str]]]:
    """The line each row of a text file begins at, and its fields; the header first, empty lines and ``sep=;`` skipped.

    More lines may be put behind those of the file.
    """
    usual = csv.field_size_limit(LONGEST_FIELD)
    try:
        with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
            rows, line = csv.reader(chain(text, more), delimiter=separator), 1
            for fields in rows:
                # Excel writes sep=; above the header, with the separator
                if fields and (line > 1 or fields != ["sep=", ""]):
                    yield line, fields
                line = rows.line_num + 1
    finally:
        csv.field_size_limit(usual)


def header_of(head: bytes) -> tuple[int, list[str]]:
    """The line that the first bytes of a text table have its header on, and its names; none where there are none."""
    text = io.BytesIO(head.decode(errors="replace").encode())
    return next(numbered_rows(text, separator_of(head)), (1, []))


def describe_damage(opened: Callable[[], IO[bytes]], path: str | Path, separator: str) -> str | None:
    """Say what is wrong with a text file that could not be parsed; None if nothing is found."""
    header: list[str] = []
    try:
        for row, (line, fields) in enumerate(numbered_rows(opened(), separator, END)):
            header = header or fields
            if fields == [END]:
                return None
            if fields[-1].endswith(END):
                line += "".join(fields[:-1]).count("\n")
                return (
                    f"file {path} (line {line}): a quote opens here and is never closed; expected one behind the field"
                )
            if len(fields) != len(header):
                place = f"file {path}, row {row} (line {line})"
                return f"{place}: expected {counted(len(header), 'field')} but got {len(fields)}"
    except UnicodeDecodeError:
        with opened() as file:
            for line, text in enumerate(file, start=1):
                try:
                    text.decode()
                except UnicodeDecodeError as error:
                    return f"file {path} (line {line}): expected UTF-8 text but got byte 0x{text[error.start]:02x}"
    except csv.Error as error:
        return f"file {path}: {error}"
    return None
