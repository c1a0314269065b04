"""A large table of Parquet files, long or wide, into a folder of responses of a byte each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from irtbench.data.input_error import InputError
from irtbench.data.name_file import NameFile
from irtbench.data.readers.encode_long import database, encode_long
from irtbench.data.readers.large_columns import ColumnChoice, TableLayout, layout_of
from irtbench.data.readers.large_table import LargeTable
from irtbench.data.readers.part_values import coded_responses, names_of
from irtbench.data.response_store import ResponseStore, held
from irtbench.data.stored_responses import NAMES, StoredResponses

ROWS_READ = 2**15  # at a time
NAMES_READ = 2**20
HASH = "hash(name)"


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
    if not isinstance(table, LargeTable):
        raise InputError(f"table: expected a LargeTable (LargeTable.open makes one) but got {type(table).__name__}")
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


def encode_wide(table: LargeTable, layout: TableLayout, store: ResponseStore, progress: Callable[[str], None]) -> None:
    """Add the rows of a wide table that are not in the store yet."""
    _demand_room(table.n_rows * len(layout.items), store.folder)
    columns = [layout.respondent, *layout.items]
    for file, groups in table.parts()[store.n_parts :]:
        for first_row, batch in table.batches(file, groups, columns, rows=ROWS_READ):
            names = names_of(batch.column(0), file.path, layout.respondent, first_row)
            by_item = np.empty((len(layout.items), len(batch)), dtype=np.int8)
            for values, column, item in zip(by_item, batch.columns[1:], layout.items, strict=True):
                values[:] = coded_responses(column, file.path, item, first_row)
            store.add(names, np.ascontiguousarray(by_item.T))
            progress(f"{store.n_respondents} of {table.n_rows} respondents encoded")
        store.end_part()
    twice = repeated_name(NameFile.within(store.folder, NAMES))
    if twice is not None:
        raise InputError(f"{table.place}: respondent {twice} comes twice; expected a row for each")


def repeated_name(names: NameFile) -> str | None:
    """A name that comes twice; None where all differ. Names of one hash, of 64 bits, are compared themselves."""
    n = len(names)

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, n, NAMES_READ):
            yield pa.record_batch([names.read(start, min(start + NAMES_READ, n))], schema=schema)

    schema = pa.schema([("name", pa.large_string())])
    with database({"threads": "1"}) as connection:
        connection.register("given", pa.RecordBatchReader.from_batches(schema, batches()))
        hashes = connection.execute(f"SELECT {HASH} AS hash FROM given").fetchnumpy()["hash"]
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
