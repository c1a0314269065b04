"""Files of records: what tells their format, without reading them all, and their records, one in memory at a time.

The bare ``NaN`` that some writers of JSON leave (inspect_ai) is read as that number.
"""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from irtbench.data.input_error import InputError
from irtbench.data.place import address_of
from irtbench.data.readers.large_table import opened_table
from irtbench.data.readers.packed import PARQUET, ZipArchive, open_bytes
from irtbench.data.readers.table import header_of

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
        if self.kind in ("table", "parquet"):
            yield from enumerate(table_rows(self.path), start=1)
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
    """Look at the beginning of a file, or at the columns of Parquet at an address."""
    if address_of(path) is not None:
        return Head(path, "parquet", columns=opened_table(path).names)
    if path.is_dir():
        raise InputError(f"file {path}: is a folder; expected a file")
    with open_bytes(path) as file:
        start = file.read(4)
        if start == b"PK\x03\x04":
            with ZipArchive.open(path) as archive:
                return Head(path, "zip", members=archive.names)
        if start == PARQUET:
            return Head(path, "parquet", columns=opened_table(path).names)
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
        return Head(path, "table", columns=tuple(header_of(start)[1]))


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


def table_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a table, or some columns of them, a part of the file in memory at a time."""
    table = opened_table(path)
    for rows in table.rows(columns or table.names, rows=ROWS_READ):
        yield from rows.batch.to_pylist()


BYTES_READ = 2**20
LONGEST_WORD = 64  # characters: what may still be the unfinished number, true, false or null at the end of a part
MOST_VALUE = 2**27  # bytes of one value; as an object it takes up to twenty times that in memory
TOO_DEEP = "nested too deep"


def json_value(text: str | bytes) -> Any:
    """The value of a JSON text; a ValueError where it is none, or is nested too deep to be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None


def parsed(text: Any) -> Any:
    """The value of a JSON text; what is none, as it is."""
    try:
        return json_value(text) if isinstance(text, str) else text
    except ValueError:
        return text


def json_file(path: Path, expected: str) -> Any:
    """The value of the JSON in a file; an error says what was expected where it is none."""
    with open_bytes(path) as file:
        try:
            return json_value(file.read())
        except ValueError:
            raise InputError(f"file {path}: expected {expected}") from None


def json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """The line number from 1 and the value of each line that is not empty."""
    with open_bytes(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MOST_VALUE + 1), b""), start=1):
            if not line.strip():
                continue
            if len(line) > MOST_VALUE:
                raise InputError(f"file {path}, line {number}: {_too_long()}")
            try:
                yield number, json_value(line)
            except UnicodeDecodeError as error:
                raise InputError(f"file {path}, line {number}: expected UTF-8 text ({error.reason})") from None
            except ValueError as error:
                raise InputError(f"file {path}, line {number}: expected a JSON value but {_reason(error)}") from None


def entries_in(path: Path, *opened: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Entries of the JSON in a file, see `JsonText.entries`."""
    with open_bytes(path) as file:
        yield from JsonText(file, path).entries(opened)


class JsonText:
    """A JSON text read from left to right, its large arrays and objects an entry at a time.

    Parameters
    ----------
    file
        The bytes, UTF-8.
    path
        Its name, for the errors.

    Examples
    --------
    >>> import io
    >>> text = JsonText(io.BytesIO(b'{"a": 1, "b": [2, {"c": 3}]}'), Path("t.json"))
    >>> [(name, list(text.elements()) if name == "b" else text.value()) for name in text.members()]
    [('a', 1), ('b', [2, {'c': 3}])]
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self._file, self._path = file, path
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._ended = "", 0, False
        self._decode = json.JSONDecoder().raw_decode

    def entries(self, opened: Sequence[str] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
        """The entries of the object or array that begins here, in their order: where each is, and its value.

        A member that is opened is no entry itself, but has entries; so has one of these by the next name, and so on.
        """
        if self._peek() == "[":
            yield from (((str(k),), value) for k, value in enumerate(self.elements()))
            return
        for name in self.members():
            if opened and name == opened[0]:
                yield from (((name, *inner), value) for inner, value in self.entries(opened[1:]))
            else:
                yield (name,), self.value()

    def elements(self) -> Iterator[Any]:
        """The values of the array that begins here."""
        for _ in self._entries("[]"):
            yield self.value()

    def members(self) -> Iterator[str]:
        """The names of the object that begins here; the caller reads the value of each before going on."""
        for _ in self._entries("{}"):
            name = self.value()
            self._take(":")
            yield name

    def _entries(self, brackets: str) -> Iterator[None]:
        """Once for each entry that is to be read between brackets."""
        self._take(brackets[0])
        sign = self._peek()
        if sign == brackets[1]:
            self._take(sign)
        while sign != brackets[1]:
            yield
            sign = self._take("," + brackets[1])

    def value(self) -> Any:
        """The whole value that begins here."""
        self._peek()
        while True:
            try:
                found, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                unfinished = error.pos > len(self._text) - LONGEST_WORD or error.msg.startswith("Unterminated")
                if unfinished and self._more():
                    continue
                raise InputError(f"file {self._path}: no JSON, or damaged: {_reason(error)}") from None
            except RecursionError:
                raise InputError(f"file {self._path}: no JSON that can be read: {TOO_DEEP}") from None
            except ValueError as error:  # a number of thousands of digits
                raise InputError(f"file {self._path}: no JSON that can be read: {error}") from None
            if len(self._text) - end < 3 and not self._ended:
                self._more()  # a number may go on: 1.5e-
                continue
            self._at = end
            return found

    def _peek(self) -> str:
        """The next character that is no white space; nothing at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _take(self, expected: str) -> str:
        found = self._peek()
        if not found or found not in expected:
            wanted = " or ".join(f"'{sign}'" for sign in expected)
            got = f"'{found}'" if found else "the end"
            raise InputError(f"file {self._path}: no JSON, or damaged: expected {wanted} but got {got}")
        self._at += 1
        return found

    def _more(self) -> bool:
        """Read on, twice as much as is waiting so that a long value is not tried too often; whether there was more."""
        if self._ended:
            return False
        waiting = self._text[self._at :]
        if len(waiting) > MOST_VALUE:
            raise InputError(f"file {self._path}: {_too_long()}")
        try:
            data = self._file.read(max(BYTES_READ, 2 * len(waiting)))
            self._ended = not data
            self._text, self._at = waiting + self._utf8.decode(data, final=self._ended), 0
        except UnicodeDecodeError as error:
            raise InputError(f"file {self._path}: expected UTF-8 text ({error.reason})") from None
        return not self._ended


def _reason(error: ValueError) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    return f"{error.msg[:1].lower()}{error.msg[1:]} (character {error.pos + 1})"


def _too_long() -> str:
    return f"one JSON value of more than {MOST_VALUE >> 20} MiB; expected records, each smaller"
