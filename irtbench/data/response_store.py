"""Responses on their way into a folder of `StoredResponses`, part by part; a run that was stopped is taken up again.

After every part ``encoded.json`` is replaced in one step by one that knows of it. Files that are longer than it says
are cut there when the work is taken up: what a run that was stopped had written of its last part. It has a hash of
itself and the sizes and checksums of the files, so that no byte of a store changes without a run seeing it.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.place import lock_on, read_sealed, write_sealed
from irtbench.data.responses import MISSING
from irtbench.data.stored_responses import LEFT_OUT, NAMES, RESPONSES, STATE, NameFile, StoredResponses

LOCK = "lock"
#: The files of a store besides its state.
FILES = (RESPONSES, *(f"{name}{ending}" for name in (NAMES, LEFT_OUT) for ending in (".bin", "-ends.bin")))
VERSION = 2
READ = 2**24  # bytes of a file that are checked at a time

log = logging.getLogger(__name__)


@dataclass
class ResponseStore:
    """A folder that is being filled.

    Parameters
    ----------
    folder
        Where; it belongs to the store alone.
    item_ids
        Items of the columns.
    identity
        What tells the source from any other, and from itself after a change: plain JSON values.
    n_parts
        Number of parts that are in it.
    n_respondents
        Number of respondents.
    n_by_item, n_correct_by_item
        Number of responses and of correct ones to each item, shape (n_items,).
    sums
        Checksum of each file up to the last part.
    finished
        Whether all parts are in it.
    """

    folder: Path
    item_ids: tuple[str, ...]
    identity: Any
    n_parts: int
    n_respondents: int
    n_by_item: NDArray[np.int64]
    n_correct_by_item: NDArray[np.int64]
    sums: dict[str, tuple[int, int]]
    finished: bool = False

    @classmethod
    def begin(cls, folder: Path, item_ids: tuple[str, ...], identity: Any) -> ResponseStore:
        """An empty store; what was in the folder is removed."""
        (folder / STATE).unlink(missing_ok=True)
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
            (folder / name).touch()
        zeros = np.zeros(len(item_ids), dtype=np.int64)
        return cls(folder, item_ids, identity, 0, 0, zeros, zeros.copy(), dict.fromkeys(FILES, (0, 0)))

    @classmethod
    def resume(cls, folder: Path, identity: Any) -> ResponseStore | None:
        """The store that an earlier run left, finished or not; None if there is none of this source, or it is damaged.

        Every byte is checked; a warning says what is damaged.
        """
        try:
            state = _sealed(folder)
            if state["version"] != VERSION or state["identity"] != json.loads(json.dumps(identity)):
                return None
            _demand_sums(folder, state)
        except FileNotFoundError as error:
            if (folder / STATE).exists():
                log.warning("cache %s: %s is missing; encoded anew", folder, Path(error.filename).name)
            return None
        except (OSError, InputError) as error:  # nothing is lost but time
            log.warning("%s; encoded anew", error)
            return None
        found = cls._noted(folder, state)
        if not found.finished:
            for name, (size, _) in found.sums.items():
                os.truncate(folder / name, size)
        return found

    @classmethod
    def of_this_run(cls, folder: Path) -> StoredResponses:
        """What another process of this run has encoded, or found right, a moment ago; its record alone is checked."""
        return cls._noted(folder, _sealed(folder)).responses()

    @classmethod
    def _noted(cls, folder: Path, state: dict[str, Any]) -> ResponseStore:
        """The store of this record."""
        return cls(
            folder, tuple(state["item_ids"]), state["identity"], state["n_parts"], state["n_respondents"],
            np.array(state["n_by_item"], dtype=np.int64), np.array(state["n_correct_by_item"], dtype=np.int64),
            {name: (size, total) for name, (size, total) in state["files"].items()}, state["finished"],
        )  # fmt: skip

    def add(self, names: pa.Array, values: NDArray[np.int8]) -> None:
        """Add respondents with their rows of 1, 0 and -1; those without a response are noted as left out."""
        observed = values != MISSING
        answered = observed.any(axis=1)
        if not answered.all():
            NameFile(self.folder, LEFT_OUT).append(names.filter(pa.array(~answered)))
            names, values, observed = names.filter(pa.array(answered)), values[answered], observed[answered]
        NameFile(self.folder, NAMES).append(names)
        values = np.ascontiguousarray(values)
        with (self.folder / RESPONSES).open("ab") as file:
            file.write(values.data)
        self.n_respondents += len(values)
        self.n_by_item += observed.sum(axis=0)
        self.n_correct_by_item += (values == 1).sum(axis=0)

    def names(self, most: int) -> Iterator[list[str]]:
        """Names of all respondents that were added, so many at a time: with responses, and without."""
        for file in (NameFile(self.folder, name) for name in (NAMES, LEFT_OUT)):
            for start in range(0, len(file), most):
                yield file.read(start, min(start + most, len(file))).to_pylist()

    def end_part(self) -> None:
        """Note that all rows of a part have been added."""
        self.n_parts += 1
        for name, (size, total) in self.sums.items():
            self.sums[name] = checksum(self.folder / name, first=size, total=total)
        self._note()

    def finish(self) -> None:
        """Note that all parts have been added."""
        self.finished = True
        self._note()

    def _note(self) -> None:
        state = {
            "version": VERSION,
            "identity": self.identity,
            "item_ids": self.item_ids,
            "n_parts": self.n_parts,
            "n_respondents": self.n_respondents,
            "n_by_item": self.n_by_item.tolist(),
            "n_correct_by_item": self.n_correct_by_item.tolist(),
            "files": self.sums,
            "finished": self.finished,
        }
        write_sealed(self.folder / STATE, state)

    def responses(self) -> StoredResponses:
        """What is in it."""
        return StoredResponses(self.folder, self.n_respondents, self.item_ids, self.n_by_item, self.n_correct_by_item)


def _sealed(folder: Path) -> dict[str, Any]:
    """The record of a store, which is as it was written."""
    try:
        record: dict[str, Any] = read_sealed(folder / STATE)
    except ValueError as error:
        raise InputError(f"cache {folder}: {error}") from None
    return record


def _demand_sums(folder: Path, state: dict[str, Any]) -> None:
    """Refuse a store whose files do not hold what its record says, or more where it is finished."""
    for name, (size, total) in state["files"].items():
        to_its_end = state["finished"] and (folder / name).stat().st_size != size
        if to_its_end or checksum(folder / name, size) != (size, total):
            raise InputError(f"cache {folder}: {name} is not what was written")


def checksum(file: Path, size: int | None = None, *, first: int = 0, total: int = 0) -> tuple[int, int]:
    """Size and CRC-32 of a file, or of so many bytes of it; of a file whose first bytes' sum is known the rest is read.

    The size is smaller than asked for where the file is.
    """
    end = sys.maxsize if size is None else size
    with file.open("rb") as opened:
        opened.seek(first)
        while block := opened.read(min(READ, end - first)):
            total, first = zlib.crc32(block, total), first + len(block)
    return first, total


@contextmanager
def unchanged(responses: StoredResponses) -> Iterator[StoredResponses]:
    """The responses, whose files no other program changes while the block runs."""
    before = _marks(responses.folder)
    yield responses
    if _marks(responses.folder) != before:  # a copy by a link changes them too
        _demand_sums(responses.folder, _sealed(responses.folder))


def _marks(folder: Path) -> list[tuple[int, ...]]:
    found = (os.stat(folder / name) for name in FILES)
    return [(one.st_size, one.st_mtime_ns, one.st_ctime_ns, one.st_ino) for one in found]


@contextmanager
def locked(folder: Path, name: str = LOCK, *, remove: bool = False) -> Iterator[None]:
    """A folder of a cache, made if it is not there, for this run alone; locks of other names are others.

    With ``remove`` it is removed at the end, the lock last, so that no other run loses what it has begun in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = lock_on(folder / name, os.O_RDWR | os.O_CREAT)
    try:
        # the run that had it may have just removed it
        if sys.platform != "win32" and (lock is None or not (folder / name).exists()):
            raise InputError(f"cache {folder}: another run works in it; expected another --cache")
        try:
            yield
        finally:
            if remove:
                with suppress(OSError):
                    for path in folder.iterdir():
                        if path.name != name:
                            shutil.rmtree(path) if path.is_dir() else path.unlink()
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        if lock is not None:
            os.close(lock)
