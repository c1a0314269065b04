"""Rows of a long table brought into the order of their respondents and items, by DuckDB, on disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

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
