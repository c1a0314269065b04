"""A large table of Parquet files, long or wide, into a folder of responses of a byte each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.name_file import NameFile
from irtbench.data.readers.batches import without_guards
from irtbench.data.readers.large_table import LargeTable, TableFileInfo
from irtbench.data.readers.long_table import find_column, find_counts, find_id_columns
from irtbench.data.readers.part_values import numbers_of
from irtbench.data.readers.wide_columns import item_columns
from irtbench.data.readers.wide_table import likely_respondent_column
from irtbench.data.response_store import ResponseStore, held
from irtbench.data.responses import name_first
from irtbench.data.stored_responses import MISSING, NAMES, StoredResponses

ROWS_WIDE, ROWS_LONG = 2**15, 2**20  # read at a time
FIRST_ROWS = 1_000  # by which it is told which columns of a wide table hold responses
SORTING_MEMORY = "1GB"
SORTING_THREADS = 2
HASH = "hash(name)"


@dataclass(frozen=True)
class TableLayout:
    """Which columns of a table are what.

    Parameters
    ----------
    respondent
        Names of respondents.
    items
        Of a wide table: the columns of responses.
    item, response
        Of a long one: names of items, and responses; empty otherwise.
    """

    respondent: str
    items: tuple[str, ...] = ()
    item: str = ""
    response: str = ""


@dataclass(frozen=True)
class ColumnChoice:
    """What a user says of columns, see `read_responses`."""

    columns: Mapping[str, str] = field(default_factory=dict)
    items: str | None = None
    exclude: tuple[str, ...] = ()


def is_long(table: LargeTable, choice: ColumnChoice) -> bool:
    """Whether a table is a long one, by the names of its columns."""
    return find_id_columns(table.names, choice.columns) is not None


def has_trials(table: LargeTable, choice: ColumnChoice) -> bool:
    """Whether a long table may hold several trials of an item."""
    names = table.names
    return is_long(table, choice) and ("trial" in names or find_counts(names, choice.columns) is not None)


def encode_table(
    table: LargeTable,
    folder: str | Path,
    choice: ColumnChoice | None = None,
    *,
    progress: Callable[[str], None] = lambda message: None,
) -> StoredResponses:
    """Encode graded responses into a folder, or take what an earlier run has left there of the same files.

    Of a wide table what a run that was stopped had encoded is kept. A long one is brought into the order of its
    respondents' names first, on the disk of the folder.

    Parameters
    ----------
    table
        The files.
    folder
        Where to; made if it is not there. It must hold nothing else, and what is read of it later stays only while no
        other run encodes another table into it.
    choice
        Which columns are what, where they are not to be recognised.
    progress
        Called with a line now and then.

    Raises
    ------
    InputError
        Naming file, row and column of what is no response; if a respondent of a wide table or a pair of a long one
        comes twice, a file is damaged or was changed meanwhile, or the disk is too small.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> responses.table().to_parquet("responses.parquet")
    >>> stored = irtbench.encode_table(irtbench.LargeTable.open("responses.parquet"), "cache")
    >>> stored
    <StoredResponses: 300 respondents x 6 items, 100% observed, 47% correct>
    >>> irtbench.fit_model(stored)
    <FittedModel: 6 items (2pl), 300 respondents, log-likelihood -930.74, converged>
    """
    choice, folder = choice or ColumnChoice(), Path(folder)
    table.demand_alike()
    chosen = {"columns": dict(choice.columns), "items": choice.items, "exclude": list(choice.exclude)}
    identity = table.identity | {"choice": chosen}
    with held(folder):
        store = ResponseStore.resume(folder, identity)
        if store is not None and store.finished:
            progress("the responses are encoded already")
            return store.responses()
        layout = layout_of(table, choice)
        if layout.item:
            store = encode_long(table, layout, folder, identity, progress)
        else:
            store = store or ResponseStore.begin(folder, layout.items, identity)
            encode_wide(table, layout, store, progress)
        if store.n_respondents == 0:
            raise InputError(f"{table.place}: no responses; expected at least one")
        table.demand_unchanged()
        store.finish()
    return store.responses()


def layout_of(table: LargeTable, choice: ColumnChoice) -> TableLayout:
    """Tell which columns are what.

    Raises
    ------
    InputError
        If a column that was named is not there, or none holds responses.
    """
    for name in choice.columns.values():
        if name not in table.names:
            raise InputError(f"{table.place}: column '{name}' missing; it has: {name_first(table.names, most=12)}")
    pair = find_id_columns(table.names, choice.columns)
    if pair is not None:
        response = find_column(table.names, "response", choice.columns)
        if response is None:
            raise InputError(
                f"{table.place}: no column of responses; it has: {name_first(table.names, most=12)}; answers are "
                "graded by build"
            )
        return TableLayout(pair[0], item=pair[1], response=response)
    respondent = likely_respondent_column(list(table.names), choice.columns)
    first = next(table.batches(*table.parts()[0], table.names, rows=FIRST_ROWS), None)
    if first is None:
        raise InputError(f"{table.place}: no rows; expected at least one")
    frame = pd.DataFrame({
        name: pa.compute.fill_null(as_text(column, table.place, name), "").to_pylist()
        for name, column in zip(table.names, first[1].columns, strict=True)
    }, dtype=object)  # fmt: skip
    items, _ = item_columns(frame, respondent, table.place, items=choice.items, exclude=choice.exclude, graded=True)
    return TableLayout(respondent, items=tuple(items))


def as_text(column: pa.Array, place: str, name: str) -> pa.Array:
    """A column as texts."""
    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        raise InputError(f"{place}, column {name}: expected text or numbers but it holds {column.type}") from None


def encode_wide(table: LargeTable, layout: TableLayout, store: ResponseStore, progress: Callable[[str], None]) -> None:
    """Add the rows of a wide table that are not in the store yet."""
    _demand_room(table.n_rows * len(layout.items), store.folder)
    columns = [layout.respondent, *layout.items]
    for file, groups in table.parts()[store.n_parts :]:
        for first_row, batch in table.batches(file, groups, columns, rows=ROWS_WIDE):
            names = names_of(batch.column(0), file, layout.respondent, first_row)
            by_item = np.empty((len(layout.items), len(batch)), dtype=np.int8)
            for values, column, item in zip(by_item, batch.columns[1:], layout.items, strict=True):
                values[:] = coded_responses(column, file, item, first_row)
            store.add(names, np.ascontiguousarray(by_item.T))
            progress(f"{store.n_respondents} of {table.n_rows} respondents encoded")
        store.end_part()
    twice = repeated_name(NameFile.within(store.folder, NAMES))
    if twice is not None:
        raise InputError(f"{table.place}: respondent {twice} comes twice; expected a row for each")


def encode_long(
    table: LargeTable, layout: TableLayout, folder: Path, identity: object, progress: Callable[[str], None]
) -> ResponseStore:
    """Encode a long table, its rows in any order: brought by DuckDB into that of the respondents' names, on disk."""
    item_ids = items_of(table, layout)
    store = ResponseStore.begin(folder, item_ids, identity)
    rows = _LongRows(table, layout, item_ids, progress)
    sorting = folder / "sorting"
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": SORTING_MEMORY,
        "threads": str(SORTING_THREADS),
        "temp_directory": str(sorting),
    }
    try:
        with duckdb.connect(config=config) as database:
            database.register("given", rows.reader())
            found = database.sql("SELECT respondent, item, response FROM given ORDER BY respondent, item")
            progress("the rows are in order")
            together = _Together(table, store)
            in_order: pa.RecordBatchReader = found.to_arrow_reader(ROWS_LONG)
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
    for file, groups in table.parts():
        for first_row, batch in table.batches(file, groups, [layout.item], rows=ROWS_LONG, coded=[layout.item]):
            column = batch.column(0)
            column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            occurring = column.dictionary.take(column.indices.unique().drop_null()).cast(pa.string())
            present = without_guards(occurring).to_pylist()
            if column.null_count or "" in present:
                names_of(column.cast(pa.string()), file, layout.item, first_row)  # says where
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
        self.error: InputError | None = None

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a stream."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._checked()
        except InputError as error:
            self.error = error
            raise

    def _checked(self) -> Iterator[pa.RecordBatch]:
        layout, n = self.layout, 0
        columns = [layout.respondent, layout.item, layout.response]
        for file, groups in self.table.parts():
            for first_row, batch in self.table.batches(file, groups, columns, rows=ROWS_LONG, coded=[layout.item]):
                names = names_of(batch.column(0), file, layout.respondent, first_row)
                places = pa.compute.index_in(without_guards(batch.column(1).cast(pa.string())), value_set=self.items)
                responses = pa.array(coded_responses(batch.column(2), file, layout.response, first_row))
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


def names_of(column: pa.Array, file: TableFileInfo, name: str, first_row: int) -> pa.Array:
    """Names in a column, none of them empty."""
    names = without_guards(as_text(column, f"file {file.path}", name))
    empty = pa.compute.fill_null(pa.compute.equal(names, ""), True)
    if pa.compute.any(empty).as_py():
        row = first_row + pa.compute.index(empty, True).as_py()
        raise InputError(f"file {file.path}, row {row}, column {name}: expected a name but it is empty")
    return names


def coded_responses(column: pa.Array, file: TableFileInfo, name: str, first_row: int) -> NDArray[np.int8]:
    """Responses 1, 0 and -1 from a column of numbers, truth values or texts."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_integer(column.type):
        whole = pa.compute.fill_null(column, MISSING) if column.null_count else column
        values = whole.to_numpy(zero_copy_only=False)
        if len(values) == 0 or (values.min() >= MISSING and values.max() <= 1):
            return values.astype(np.int8, copy=False)
    numbers = numbers_of(column, file.path, name, first_row)
    missing = np.isnan(numbers) | (numbers == MISSING)
    wrong = ~(missing | (numbers == 0) | (numbers == 1))
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"file {file.path}, row {first_row + row}, column {name}: expected 1, 0 or missing but got {numbers[row]:g}"
        )
    return np.where(missing, np.float32(MISSING), numbers).astype(np.int8)


def repeated_name(names: NameFile) -> str | None:
    """A name that comes twice; None where all differ. Names of one hash, of 64 bits, are compared themselves."""
    n = len(names)

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, n, ROWS_LONG):
            yield pa.record_batch([names.read(start, min(start + ROWS_LONG, n))], schema=schema)

    schema = pa.schema([("name", pa.large_string())])
    with duckdb.connect(config={"threads": "1"}) as database:
        database.register("given", pa.RecordBatchReader.from_batches(schema, batches()))
        hashes = database.execute(f"SELECT {HASH} AS hash FROM given").fetchnumpy()["hash"]
    order = np.sort(hashes)
    alike = np.unique(order[1:][order[1:] == order[:-1]])
    seen: set[str] = set()
    for place in np.flatnonzero(np.isin(hashes, alike)) if len(alike) else ():
        (name,) = names.read(int(place), int(place) + 1).to_pylist()
        if name in seen:
            return str(name)
        seen.add(name)
    return None


def _demand_room(n_bytes: int, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise InputError(
            f"cache {folder}: {n_bytes / 1e9:.1f} GB of responses do not fit on its disk, where {free / 1e9:.1f} GB "
            "are free; expected another --cache"
        )
