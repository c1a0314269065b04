"""Any number of rows brought into the order of their names, on disk, and names that come twice."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

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


class SeenNames:
    """Names by their hashes of 64 bits, eight bytes each."""

    def __init__(self) -> None:
        self._parts = [np.empty(0, dtype=np.uint64)]

    def add(self, names: Sequence[str]) -> None:
        """Add names."""
        self._parts.append(hashes_of(names))

    def alike(self) -> NDArray[np.uint64]:
        """The hashes that two names or more have, ascending."""
        self._parts = [np.concatenate(self._parts)]
        hashes = self._parts[0]
        hashes.sort()
        return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])

    def repeated(self, again: Iterable[Sequence[str]]) -> str | None:
        """A name that was added twice; those of one hash, of the names when they are read again, are compared."""
        alike, found = self.alike(), set[str]()
        for names in again if alike.size else ():
            for place in np.flatnonzero(np.isin(hashes_of(names), alike)).tolist():
                if names[place] in found:
                    return names[place]
                found.add(names[place])
        return None


def hashes_of(names: Sequence[str]) -> NDArray[np.uint64]:
    """Hashes of names."""
    found: NDArray[np.uint64] = pd.util.hash_array(np.array(names, dtype=object), categorize=False)
    return found
