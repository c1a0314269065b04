"""A large long table, its rows in any order, into responses of a byte each: brought into order by DuckDB, on disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute

from irtbench.data.coded_responses import MISSING
from irtbench.data.input_error import InputError
from irtbench.data.readers.large_columns import TableLayout
from irtbench.data.readers.large_table import LargeTable
from irtbench.data.readers.part_values import coded_responses, names_of, without_guards
from irtbench.data.readers.table import text_bytes
from irtbench.data.response_store import ResponseStore

ROWS_READ = 2**20  # at a time
SORTING_MEMORY = "1GB"
SORTING_THREADS = 2


@contextmanager
def database(config: Mapping[str, str]) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with these settings; a signal that interrupts a query of it interrupts the program."""
    with duckdb.connect(config={**config}) as connection:
        try:
            yield connection
        except RuntimeError as error:
            if "interrupted" not in str(error):
                raise
            raise KeyboardInterrupt from None


def encode_long(
    table: LargeTable, layout: TableLayout, folder: Path, identity: object, progress: Callable[[str], None]
) -> ResponseStore:
    """Encode a long table, its rows in any order: brought by DuckDB into that of the respondents' names, on disk."""
    item_ids = items_of(table, layout)
    store = ResponseStore.begin(folder, item_ids, identity)
    rows = _LongRows(table, layout, item_ids, progress)
    sorting = folder / "sorting"
    config = {"memory_limit": SORTING_MEMORY, "threads": str(SORTING_THREADS), "temp_directory": str(sorting)}
    try:
        with database(config) as connection:
            connection.register("given", rows.reader())
            found = connection.sql("SELECT respondent, item, response FROM given ORDER BY respondent, item")
            together = _Together(table, store)
            in_order: pa.RecordBatchReader = found.to_arrow_reader(ROWS_READ)
            for batch in in_order:
                together.add(batch)
                progress(f"{store.n_respondents} respondents encoded")
            together.end()
    except duckdb.Error as error:
        if rows.error is not None:
            raise rows.error from None
        raise InputError(f"{table.place}: its rows cannot be brought into order ({error})") from None
    finally:
        shutil.rmtree(sorting, ignore_errors=True)
    store.end_part()
    return store


def items_of(table: LargeTable, layout: TableLayout) -> tuple[str, ...]:
    """Items of a long table in the order in which they first appear."""
    found: dict[str, None] = {}
    for source, first_row, batch in table.rows([layout.item], rows=ROWS_READ, coded=[layout.item]):
        column = batch.column(0)
        column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        occurring = column.dictionary.take(column.indices.unique().drop_null()).cast(pa.string())
        present = without_guards(occurring).to_pylist()
        if column.null_count or "" in present:
            names_of(column.cast(pa.string()), source, layout.item, first_row)  # says where
        found.update(dict.fromkeys(present))
    return tuple(found)


class _LongRows:
    """Rows of a long table, checked, for DuckDB to read; what is wrong with them is kept in `error`."""

    schema = pa.schema([("respondent", pa.string()), ("item", pa.int32()), ("response", pa.int8())])

    def __init__(
        self, table: LargeTable, layout: TableLayout, item_ids: Sequence[str], progress: Callable[[str], None]
    ) -> None:
        self.table, self.layout, self.progress = table, layout, progress
        self.items = pa.array(item_ids, pa.string())
        self.error: BaseException | None = None

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a stream."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._checked()
        except BaseException as error:  # a signal's too, of which DuckDB would make another
            self.error = error
            raise

    def _checked(self) -> Iterator[pa.RecordBatch]:
        layout, n = self.layout, 0
        columns = [layout.respondent, layout.item, layout.response]
        for source, first_row, batch in self.table.rows(columns, rows=ROWS_READ, coded=columns[:2]):
            self.table.demand_bounded(text_bytes(batch.column(0)), len(batch))
            names = names_of(batch.column(0), source, layout.respondent, first_row)
            places = pa.compute.index_in(without_guards(batch.column(1).cast(pa.string())), value_set=self.items)
            responses = pa.array(coded_responses(batch.column(2), source, layout.response, first_row))
            yield pa.record_batch([names, places, responses], schema=self.schema)
            n += len(batch)
            self.progress(f"{n} of {self.table.n_rows} rows read")


class _Together:
    """Rows in the order of respondents on their way into a store, the last respondent's kept for the next batch."""

    def __init__(self, table: LargeTable, store: ResponseStore) -> None:
        self.table, self.store = table, store
        self.waiting: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add all respondents but the last."""
        rows = pa.Table.from_batches([*self.waiting, batch]).combine_chunks()
        names = rows.column(0)
        last = pa.compute.index(names, names[-1]).as_py()
        self._store(rows.slice(0, last))
        self.waiting = rows.slice(last).to_batches()

    def end(self) -> None:
        """Add the last respondent."""
        if self.waiting:
            self._store(pa.Table.from_batches(self.waiting))

    def _store(self, rows: pa.Table) -> None:
        if not len(rows):
            return
        coded = pa.compute.run_end_encode(rows.column(0).combine_chunks())
        ends = np.asarray(coded.run_ends)
        n_items = len(self.store.item_ids)
        places = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0)) * n_items + np.asarray(rows.column(1))
        twice = np.flatnonzero(places[1:] == places[:-1])  # rows are in the order of items too
        if len(twice):
            row = int(twice[0])
            raise InputError(
                f"{self.table.place}: respondent {rows.column(0)[row]} and item "
                f"{self.store.item_ids[rows.column(1)[row].as_py()]} come twice; expected one row for each pair "
                "(several trials are taken from smaller tables)"
            )
        values = np.full(len(ends) * n_items, MISSING, dtype=np.int8)
        values[places] = np.asarray(rows.column(2))
        self.store.add(coded.values, values.reshape(len(ends), n_items))
