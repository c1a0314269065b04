"""Packed files as streams: gzip, and the members of zip archives, with bounds on what they unpack to.

The members of an .eval log are compressed with zstandard (method 93), which Python's ``zipfile`` reads from 3.14 on
only: they are found by the archive's directory and decoded here.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, cast

from irtbench.data.input_error import InputError

#: Bytes that a packed file, or a member of an archive, may unpack to; and how many times its size, from so many on.
MOST_BYTES, MOST_TIMES, TIMES_FROM = 2**29, 1_000, 2**26

GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
_ZSTANDARD = 93
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, lengths of the name and of the extra field
_DAMAGED_GZIP = (OSError, EOFError, zlib.error)


class Unpacked(io.RawIOBase):
    """What a packed stream holds; damage, and more than a file may unpack to, is an error that names the file.

    Parameters
    ----------
    stream
        What unpacks it.
    packed
        Its packed size.
    path, what
        The file, and what of it this is, for the errors.
    damaged
        What the stream raises where it is damaged.
    most
        Bytes that it may hold.
    """

    def __init__(
        self,
        stream: Any,
        packed: int,
        path: Path,
        what: str,
        damaged: tuple[type[Exception], ...],
        most: float = MOST_BYTES,
    ) -> None:
        self._stream, self._packed, self._path, self._what = stream, packed, path, what
        self._damaged, self._most, self._n = damaged, most, 0

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read on."""
        try:
            data = self._stream.read(len(buffer))
        except self._damaged as error:
            raise InputError(f"file {self._path}: damaged {self._what} ({error})") from None
        buffer[: len(data)] = data
        self._n += len(data)
        if self._n > self._most:
            most = f"{self._most / 2**20:.0f} MiB"
            raise InputError(f"file {self._path}: {self._what} unpacks to more than {most}; expected at most that")
        if self._n > max(TIMES_FROM, MOST_TIMES * self._packed):
            raise InputError(
                f"file {self._path}: {self._what} unpacks to more than {MOST_TIMES:,} times its size; expected data"
            )
        return len(data)

    def close(self) -> None:
        """Close the stream too."""
        with suppress(*self._damaged):
            self._stream.close()
        super().close()


@contextmanager
def readable(path: str | Path) -> Iterator[None]:
    """Say of a file that cannot be opened in the block why."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"file {path}: no such file") from None
    except OSError as error:
        raise InputError(f"file {path}: cannot be read ({error.strerror})") from None


def first_bytes(path: str | Path) -> bytes:
    """The four bytes that tell Parquet, gzip and a zip archive."""
    with readable(path), Path(path).open("rb") as file:
        return file.read(4)


def open_bytes(path: Path, most: float = MOST_BYTES) -> IO[bytes]:
    """Open a file, gzipped or not; what comes from a pipe is kept, since it can be read only once."""
    with readable(path):
        piped = None if path.is_file() else io.BytesIO(_piped(path))
        with nullcontext(piped) if piped else path.open("rb") as file:
            zipped, size = file.read(2) == GZIP, file.seek(0, io.SEEK_END)
            file.seek(0)
        if zipped:
            unpacked = Unpacked(gzip.GzipFile(path, fileobj=piped), size, path, "gzip file", _DAMAGED_GZIP, most)
            return io.BufferedReader(unpacked, 2**17)
        return piped or path.open("rb")


@cache
def _piped(path: Path) -> bytes:
    """What comes from a pipe, up to more than is read of it."""
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


class ZipArchive:
    """A zip archive that is open, and its members as streams."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, file: IO[bytes]) -> None:
        self.path, self._archive, self._file = path, archive, file

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[ZipArchive]:
        """Open it for the block."""
        try:
            archive = zipfile.ZipFile(path)
        except _damaged_zip() as error:
            raise InputError(
                f"file {path}: begins as a zip archive or a spreadsheet and is damaged ({error}); expected a table or "
                "a log"
            ) from None
        with archive, path.open("rb") as file:
            yield cls(path, archive, file)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its members."""
        return tuple(self._archive.namelist())

    def member(self, name: str) -> IO[bytes]:
        """What a member holds."""
        try:
            info = self._archive.getinfo(name)
            stream = self._zstandard(info) if info.compress_type == _ZSTANDARD else self._archive.open(info)
        except _damaged_zip() as error:
            raise InputError(f"file {self.path}: damaged member {name} ({error})") from None
        return cast("IO[bytes]", Unpacked(stream, info.compress_size, self.path, f"member {name}", _damaged_zip()))

    def _zstandard(self, info: zipfile.ZipInfo) -> Any:
        try:
            import zstandard
        except ModuleNotFoundError:
            raise InputError(
                f"file {self.path}: its members are compressed with zstandard; install it: pip install "
                "'irtbench[inspect]'"
            ) from None
        if info.header_offset + info.compress_size > os.fstat(self._file.fileno()).st_size:
            raise EOFError("it goes beyond the end of the file")
        self._file.seek(info.header_offset)
        signature, n_name, n_extra = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
        if signature != b"PK\x03\x04":
            raise EOFError("it is not where the directory says")
        self._file.seek(n_name + n_extra, io.SEEK_CUR)
        packed = io.BytesIO(self._file.read(info.compress_size))
        return zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)


def _damaged_zip() -> tuple[type[Exception], ...]:
    """What reading a damaged zip archive raises; unknown methods and passwords are RuntimeErrors of ``zipfile``."""
    found = (*_DAMAGED_GZIP, zipfile.BadZipFile, lzma.LZMAError, struct.error, RuntimeError, ValueError, OverflowError)
    with suppress(ModuleNotFoundError):
        import zstandard

        return (*found, zstandard.ZstdError)
    return found
