"""A large table of responses or answers, long or wide, some respondents at a time.

Where the rows of a respondent are together in a long one, as they do in a file that was written respondent by
respondent, one reading suffices. Where they do not, they are brought into order first, on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from irtbench.data import response_blocks
from irtbench.data.checked_settings import Settings
from irtbench.data.input_error import InputError, refuse_first
from irtbench.data.items import UnknownItems, unknown_items_error
from irtbench.data.readers.cells import FIRST_ANSWERS, Grader
from irtbench.data.readers.large_table import LargeTable, Rows
from irtbench.data.readers.long_table import demand_counts, long_columns
from irtbench.data.readers.table import demand_columns, text_bytes
from irtbench.data.readers.wide_table import item_columns, likely_respondent_column
from irtbench.data.response_blocks import Blocks, SeenNames, Unmade, in_order
from irtbench.data.responses import MISSING, ResponseMatrix, name_first

Content = Literal["auto", "responses", "answers"]

FIRST_ROWS = 1_000  # that show which columns of a wide table hold responses


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
        Of a long one: names of items, and responses or answers; empty otherwise.
    n_trials, trial
        Of a long one: the number of trials, where `response` is that of the number right, and what tells several trials
        of a pair apart; empty where there is none.
    """

    respondent: str
    items: tuple[str, ...] = ()
    item: str = ""
    response: str = ""
    n_trials: str = ""
    trial: str = ""

    @property
    def has_trials(self) -> bool:
        """Whether a respondent may have answered an item more than once."""
        return bool(self.n_trials or self.trial)


@dataclass(frozen=True)
class ColumnChoice(Settings):
    """What a user says of columns, see `read_responses`."""

    columns: Mapping[str, str] = field(default_factory=dict)
    items: str | None = None
    exclude: tuple[str, ...] = ()
    threshold: float | None = None


#: What holds what is wanted, the most reliable first.
KINDS: Mapping[Content, tuple[str, ...]] = {
    "responses": ("response", "n_correct"),
    "answers": ("answer",),
    "auto": ("response", "n_correct", "answer"),
}


def long_layout(names: Sequence[str], columns: Mapping[str, str], content: Content) -> tuple[TableLayout, bool] | None:
    """The columns of a long table, and whether they hold answers; None where it has none of the content."""
    found = long_columns(names, columns)
    kind = next((kind for kind in KINDS[content] if kind in found), None)
    if kind is None:
        return None
    n_trials, trial = found["n_trials"] if kind == "n_correct" else "", "trial" if "trial" in names else ""
    own = TableLayout(found["respondent_id"], (), found["item_id"], found[kind], n_trials, trial)
    return own, kind == "answer"


def layout_of(table: LargeTable, choice: ColumnChoice, *, graded: bool = True) -> TableLayout:
    """Tell which columns are what; of a wide table all may be items where responses are not right or wrong."""
    demand_columns(table.names, choice.columns.values(), table.place)
    if long_columns(table.names, choice.columns):
        found = long_layout(table.names, choice.columns, "responses")
        if found is None or found[0].n_trials:
            raise InputError(
                f"{table.place}: no column of responses; it has: {name_first(table.names, most=12)}; answers are "
                "graded by build"
            )
        return replace(found[0], trial="")  # one response to an item is encoded
    respondent = likely_respondent_column(list(table.names), choice.columns)
    first = next(table.rows(table.names, rows=FIRST_ROWS), None)
    if first is None:
        raise InputError(f"{table.place}: no rows; expected at least one")
    frame = pd.DataFrame({
        name: pa.compute.fill_null(first.cells(name).texts(), "").to_pylist() for name in table.names
    }, dtype=object)  # fmt: skip
    items, _ = item_columns(
        frame, respondent, table.place, items=choice.items, exclude=choice.exclude, graded=graded,
        threshold=choice.threshold,
    )  # fmt: skip
    return TableLayout(respondent, items=tuple(items))


ROWS_READ = 2**20  # rows of the file in memory at once
CELLS = 2**24  # respondents x items of a block at most

Columns = tuple[NDArray[Any], ...]


class RowsScattered(Exception):
    """The rows of a respondent are not adjacent."""


@dataclass(frozen=True, eq=False)
class LongFile:
    """A long file of responses or answers.

    Parameters
    ----------
    table
        The file, or files of the same columns, one behind the other.
    layout
        Its columns; that of responses may hold answers, or scores in categories.
    items
        The items wanted, in the order of the columns of the blocks.
    unknown_items
        What other items mean: an error that names the first five, or nothing.
    grader
        What makes responses of the cells.
    left_out
        Other items that never are an error; those that occur are added to ``seen_left_out``.
    """

    table: LargeTable
    layout: TableLayout
    items: Sequence[str]
    unknown_items: UnknownItems = "error"
    grader: Grader = field(default_factory=Grader)
    left_out: Collection[str] = ()
    seen_left_out: set[str] = field(default_factory=set)

    @property
    def schema(self) -> pa.Schema:
        """Of `rows`, the respondent's name first."""
        counts = {"asked": pa.int64()} if self.layout.n_trials else {}
        trial = {"trial": pa.int64()} if self.layout.trial else {}
        given = pa.int64() if counts else pa.int8()
        names = {"respondent": pa.string(), "item": pa.int32(), "given": given, **counts, **trial}
        return pa.schema(list(names.items()))

    def rows(self) -> Iterator[tuple[pa.DictionaryArray, Columns]]:
        """The rows in the order of the file, checked: respondents, the column of the item or -1, and the response.

        That is 1, 0 or -1, or number right and number of trials; and a number for the trial, where one is named.
        """
        layout, places = self.layout, pa.array(self.items, pa.string())
        given = [name for name in (layout.response, layout.n_trials, layout.trial) if name]
        taken = [layout.respondent, layout.item, *given]
        for number, part in enumerate(self.table.rows(taken, rows=ROWS_READ, coded=taken)):
            self.table.demand_bounded(text_bytes(part.batch.column(layout.respondent)), len(part.batch))
            respondents, items = (part.cells(name).names() for name in taken[:2])
            place = pa.compute.fill_null(pa.compute.index_in(items.dictionary, value_set=places), -1).to_numpy()
            self._demand_known(items, place)
            columns = place.astype(np.int32)[items.indices.to_numpy()]
            response = part.cells(layout.response)
            if layout.n_trials:
                counts = [np.nan_to_num(part.cells(name).numbers("a whole number")) for name in given[:2]]
                demand_counts(counts[0], counts[1], response.place)
                values: Columns = tuple(each.astype(np.int64) for each in counts)
            else:
                if number == 0:
                    self.grader.demand_meant(cells.filter(pa.array(columns >= 0)) for cells in [response.values])
                values = (self.grader.grade(response, columns, self.items),)
            if layout.trial:
                texts, codes = part.cells(layout.trial).distinct()
                values = (*values, np.array([hash(str(text)) for text in texts])[codes])
            yield respondents, (columns, *values)

    def _demand_known(self, items: pa.DictionaryArray, place: NDArray[np.int32]) -> None:
        """Refuse items that are not wanted, unless they may be there."""
        occurring = items.indices.unique()
        others = items.dictionary.take(occurring.filter(pa.array(place[occurring.to_numpy()] < 0))).to_pylist()
        unknown = [item for item in others if item not in self.left_out]
        if unknown and self.unknown_items == "error":
            raise unknown_items_error(unknown)
        self.seen_left_out.update(set(others) - set(unknown))


def long_blocks(file: LongFile) -> Blocks:
    """The respondents in the order of their first rows, which are together; elsewhere it raises `RowsScattered`."""

    def together() -> Iterator[tuple[list[str], NDArray[np.int64], Columns]]:
        seen, last = SeenNames(), None
        for respondents, rows in file.rows():
            codes = respondents.indices.to_numpy()
            starts = np.concatenate([[0], np.flatnonzero(codes[1:] != codes[:-1]) + 1])
            if len(np.unique(codes[starts])) < len(starts):
                raise RowsScattered
            names = respondents.dictionary.take(pa.array(codes[starts])).to_pylist()
            seen.add(names[1:] if names[0] == last else names)
            last = names[-1]
            yield names, starts, rows
        if seen.alike().size:
            raise RowsScattered

    return Blocks([lambda: _blocks(file, together())])


def ordered_blocks(file: LongFile, folder: Path | None = None) -> Blocks:
    """The respondents in the order of their names, or without a folder for the sorting in that of their first rows."""
    return Blocks([partial(_ordered, file, folder)])


def _ordered(file: LongFile, folder: Path | None) -> Iterator[Unmade]:
    known = pa.array([], pa.string())  # in the order of appearance, by which they are sorted

    def given() -> Iterator[pa.RecordBatch]:
        nonlocal known
        for respondents, rows in file.rows():
            if folder is not None:
                names: pa.Array = respondents.cast(pa.string())
            else:
                place = pa.compute.index_in(respondents.dictionary, value_set=known)
                new = respondents.indices.unique().filter(place.is_null().take(respondents.indices.unique()))
                places = place.fill_null(0).to_numpy().copy()
                places[new.to_numpy()] = len(known) + np.arange(len(new))
                known = pa.concat_arrays([known, respondents.dictionary.take(new)]) if len(new) else known
                names = pa.array(places[respondents.indices.to_numpy()])
            yield pa.record_batch([names, *map(pa.array, rows)], schema=schema)

    def in_turn(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[list[str], NDArray[np.int64], Columns]]:
        for batch in batches:
            runs = pa.compute.run_end_encode(batch.column(0))
            names = runs.values if folder is not None else known.take(runs.values)
            starts = np.concatenate([[0], np.asarray(runs.run_ends)[:-1]]).astype(np.int64)
            yield names.to_pylist(), starts, tuple(column.to_numpy() for column in batch.columns[1:])

    schema = file.schema if folder is not None else file.schema.set(0, pa.field("respondent", pa.int32()))
    with TemporaryDirectory(prefix="irtbench-") if folder is None else nullcontext(folder) as place:
        sorting = Path(place) / "sorting"
        yield from _blocks(file, in_turn(in_order(given(), schema, sorting, file.table.in_words)))


def _blocks(file: LongFile, groups: Iterator[tuple[list[str], NDArray[np.int64], Columns]]) -> Iterator[Unmade]:
    """Blocks of respondents from names, the rows at which each begins, and the rows; the last of them may go on."""
    most = max(1, min(response_blocks.ROWS, CELLS // max(1, len(file.items))))
    waiting: list[str] = []
    rest: Columns = ()
    n_wanted = 0
    for names, starts, rows in groups:
        n_wanted += int(np.count_nonzero(rows[0] >= 0))
        if waiting:
            goes_on = names[0] == waiting[0]
            names, starts = waiting + names[goes_on:], np.concatenate([[0], starts[goes_on:] + len(rest[0])])
            rows = tuple(np.concatenate(pair) for pair in zip(rest, rows, strict=True))
        yield from _cut(file, names[:-1], starts, rows, most)
        waiting, rest = names[-1:], tuple(each[starts[-1] :] for each in rows)
    if waiting:
        if not n_wanted:
            raise InputError("responses: none of the items is known to the bank; expected responses to its items")
        yield from _cut(file, waiting, np.array([0, len(rest[0])]), rest, most)


def _cut(file: LongFile, names: list[str], starts: NDArray[np.int64], rows: Columns, most: int) -> Iterator[Unmade]:
    """Blocks of at most so many respondents, whose rows begin at ``starts``, shape (n + 1,)."""
    for first in range(0, len(names), most):
        ids = names[first : first + most]
        ends = starts[first : first + len(ids) + 1]
        own = tuple(each[ends[0] : ends[-1]] for each in rows)
        yield partial(_block, file, tuple(ids), np.diff(ends), own)


def _block(file: LongFile, ids: tuple[str, ...], n_rows: NDArray[np.int64], rows: Columns) -> ResponseMatrix:
    """The responses of some respondents, or sums over the rows of each pair, no two of them of the same trial."""
    columns, *given = rows
    wanted, shape = columns >= 0, (len(ids), len(file.items))
    cells = (np.repeat(np.arange(len(ids)) * shape[1], n_rows) + columns)[wanted]
    given = [each[wanted] for each in given]
    coded = np.full(shape[0] * shape[1], MISSING, dtype=np.int8)
    if not file.layout.has_trials:
        coded[cells] = 1  # whatever the response: a pair that comes twice has one cell
        if np.count_nonzero(coded == 1) < cells.size:
            _refuse_repeated(file, cells, np.zeros_like(cells), ids)
        coded[cells] = given[0]
        return file.grader.matrix(coded.reshape(shape), ids, tuple(file.items))
    right, asked = given[0].clip(0), given[1] if file.layout.n_trials else given[0] != MISSING
    _refuse_repeated(file, cells, given[-1] if file.layout.trial else np.zeros_like(cells), ids)
    n_right, n_asked = (np.bincount(cells, numbers, minlength=coded.size).reshape(shape) for numbers in (right, asked))
    correct = np.where(n_asked > 0, n_right, np.nan)
    return ResponseMatrix(correct, ids, tuple(file.items), n_asked.astype(np.int64))


def _refuse_repeated(file: LongFile, cells: NDArray[np.int64], trial: NDArray[np.int64], names: Sequence[str]) -> None:
    """Name a pair of which two rows are of the same trial; where there are no trials, that comes twice."""
    order = np.lexsort((trial, cells))
    same = (np.diff(cells[order]) == 0) & (np.diff(trial[order]) == 0)
    n_items, expected = len(file.items), f"one row for each {'trial of a pair' if file.layout.trial else 'pair'}"
    refuse_first(
        same,
        lambda k: (
            f"{file.table.in_words}: respondent {names[int(cells[order[k]]) // n_items]} and item "
            f"{file.items[int(cells[order[k]]) % n_items]} come twice; expected {expected}"
        ),
    )


def wide_blocks(table: LargeTable, respondent: str, items: Sequence[str], grader: Grader) -> Blocks:
    """The respondents of a wide table; groups of rows of Parquet files are pieces."""

    def piece(number: int) -> Iterator[Unmade]:
        parts = table.rows([respondent, *items], rows=response_blocks.ROWS, coded=items, part=number)
        for k, part in enumerate(parts):
            if number == 0 and k == 0 and items:
                few = max(1, FIRST_ANSWERS // len(items))
                grader.demand_meant(part.batch.column(item).slice(0, few) for item in items)
            yield partial(_wide_block, part, respondent, tuple(items), grader)

    pieces: list[Callable[[], Iterator[Unmade]]] = [partial(piece, number) for number in range(len(table.parts))]
    return Blocks(pieces, table.n_rows or None, distinct=False)


def _wide_block(part: Rows, respondent: str, items: tuple[str, ...], grader: Grader) -> ResponseMatrix:
    """Responses in some rows."""
    names = tuple(part.cells(respondent).names().cast(pa.string()).to_pylist())
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise InputError(f"file {part.source}: respondent {twice} comes twice; expected a row for each")
    coded = np.empty((len(names), len(items)), dtype=np.int8, order="F")
    for k, item in enumerate(items):
        columns = np.broadcast_to(np.int32(k), len(names))
        coded[:, k] = grader.grade(part.cells(item), columns, items, wide=True)
    return grader.matrix(coded, names, items)
