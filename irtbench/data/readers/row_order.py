"""Any number of rows brought into the order of their names, and names that come twice, on disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Self

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from irtbench.data.input_error import InputError

ROWS_READ = 2**20  # at a time
SORTING_MEMORY = "1GB"
SORTING_THREADS = 2


def in_order(rows: Iterator[pa.RecordBatch], schema: pa.Schema, folder: Path, place: str) -> Iterator[pa.RecordBatch]:
    """The same rows, ordered by their first two columns; `folder` is made, and removed at the end.

    What is wrong with the rows, and a signal that comes while they are sorted, is raised as it is.

    Raises
    ------
    InputError
        If the disk is too small.
    """
    import duckdb

    failed: list[BaseException] = []

    def checked() -> Iterator[pa.RecordBatch]:
        try:
            yield from rows
        except BaseException as error:  # a signal's too, of which DuckDB would make another
            failed.append(error)
            raise

    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": SORTING_MEMORY, "threads": SORTING_THREADS, "temp_directory": str(folder),
    }  # fmt: skip
    try:
        with duckdb.connect(config=config) as connection:
            connection.register("given", pa.RecordBatchReader.from_batches(schema, checked()))
            yield from connection.sql(f"SELECT * FROM given ORDER BY {', '.join(schema.names[:2])}").to_arrow_reader(
                ROWS_READ
            )
    except duckdb.Error as error:
        if failed:
            raise failed[0] from None
        raise InputError(f"{place}: its rows cannot be brought into order ({error})") from None
    except RuntimeError as error:
        if "interrupted" not in str(error):
            raise
        raise KeyboardInterrupt from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


MOST = 2**22  # sorted in memory
SCHEMA = pa.schema([("hash", pa.uint64())])


class SeenNames:
    """Hashes of names, of 64 bits, in a file without a name; as a context it closes it.

    Parameters
    ----------
    folder
        Where the file is; None for the folder of temporary files.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder, self._file = folder, TemporaryFile(dir=folder)  # noqa: SIM115 - it is one

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def add(self, names: Sequence[str]) -> None:
        """Add names."""
        self._file.write(hashes_of(names).tobytes())

    def alike(self) -> NDArray[np.uint64]:
        """The hashes that two names or more have, ascending."""
        found, last = [np.empty(0, dtype=np.uint64)], np.empty(0, dtype=np.uint64)
        for part in self._sorted():
            hashes = np.concatenate([last, part])
            found.append(hashes[1:][hashes[1:] == hashes[:-1]])
            last = part[-1:]
        return np.unique(np.concatenate(found))

    def repeated(self, again: Iterable[Sequence[str]]) -> str | None:
        """A name that was added twice; those of one hash, of the names when they are read again, are compared."""
        alike, found = self.alike(), set[str]()
        for names in again if alike.size else ():
            for place in np.flatnonzero(np.isin(hashes_of(names), alike)).tolist():
                if names[place] in found:
                    return names[place]
                found.add(names[place])
        return None

    def _sorted(self) -> Iterator[NDArray[np.uint64]]:
        n = self._file.tell() // 8
        self._file.seek(0)
        parts = (np.frombuffer(part, dtype=np.uint64) for part in iter(partial(self._file.read, 8 * MOST), b""))
        if n <= MOST:
            yield from map(np.sort, parts)
            return
        from irtbench.data.readers.row_order import in_order

        rows = (pa.record_batch([pa.array(part)], schema=SCHEMA) for part in parts)
        with TemporaryDirectory(prefix="irtbench-", dir=self.folder) as place:
            for batch in in_order(rows, SCHEMA, Path(place) / "sorting", "names"):
                yield batch.column(0).to_numpy()


def hashes_of(names: Sequence[str]) -> NDArray[np.uint64]:
    """Hashes of names."""
    found: NDArray[np.uint64] = pd.util.hash_array(np.array(names, dtype=object), categorize=False)
    return found
