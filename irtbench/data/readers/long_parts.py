"""A large long table of responses or answers, one row each, a part of the respondents at a time.

Where the rows of a respondent stand together, as they do in a file that was written respondent by respondent, one
reading suffices and little is kept. Where they do not, the responses of as many respondents as memory allows are
collected in one reading of the file, those of the next in another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.items import UnknownItems, unknown_items_error
from irtbench.data.readers.batches import TextTable
from irtbench.data.readers.large_table import LargeTable
from irtbench.data.readers.part_values import Keys, coded_responses, names_of, numbers_of, without_guards
from irtbench.data.readers.seen_names import SeenNames
from irtbench.data.readers.wide_parts import ROWS, Part
from irtbench.data.responses import MOST_TRIALS

ROWS_READ = 2**21  # rows of the file in memory at once
CELLS = 2**24  # respondents x items of a part at most
CELLS_KEPT = 2**29  # respondents x items, a byte each, collected in one reading where rows are scattered

UNSEEN, MISSING, WRONG, RIGHT = range(4)  # what a byte of a collected table says: two more than -1, 0, 1
MEANING = np.array([np.nan, np.nan, 0, 1], dtype=np.float32)


class RowsScattered(Exception):
    """The rows of a respondent do not stand together."""


@dataclass(frozen=True, eq=False)
class LongFile:
    """A long file of responses or answers.

    Parameters
    ----------
    table
        The file, or files of the same columns, one behind the other.
    respondent, item, response
        Its columns; the last holds answers where there are keys.
    items
        The items wanted, in the order of the columns of the parts.
    unknown_items
        What other items mean: an error that names the first five, or nothing.
    left_out
        Other items that never are an error; those that occur are added to ``seen_left_out``.
    keys
        By which answers are graded; None where the file holds responses.
    as_text
        Whether responses in a CSV file are read as text, in which ``true`` and ``false`` are known: slower.
    trial
        The column that tells several trials of a pair apart; None where there is none.
    n_trials
        The column of the number of trials, where `response` is that of the number right.
    """

    table: LargeTable | TextTable
    respondent: str
    item: str
    response: str
    items: Sequence[str]
    unknown_items: UnknownItems = "error"
    keys: Keys | None = None
    as_text: bool = False
    trial: str | None = None
    n_trials: str | None = None
    left_out: Collection[str] = ()
    seen_left_out: set[str] = field(default_factory=set)

    @property
    def has_trials(self) -> bool:
        """Whether a respondent may have answered an item more than once."""
        return self.trial is not None or self.n_trials is not None

    def batches(self) -> Iterator[_Rows]:
        """The rows in the order of the file, checked."""
        columns_read = [self.respondent, self.item, self.response]
        coded = columns_read if self.keys is not None else columns_read[:2]
        numbers = columns_read[2:] if self.keys is None and not self.as_text else []
        if self.n_trials is not None:
            columns_read = [*columns_read, self.n_trials]
            numbers = [] if self.as_text else columns_read[2:]
        elif self.trial is not None:
            columns_read, coded = [*columns_read, self.trial], [*coded, self.trial]
        column_of = {item: k for k, item in enumerate(self.items)}
        begins = True
        read = self.table.rows(columns_read, rows=ROWS_READ, coded=coded, numbers=numbers)
        for source, first_row, batch in read:
            respondent_codes, occurring, names = self._coded(
                batch.column(self.respondent), self.respondent, source, first_row
            )
            respondents = renumbered(respondent_codes, occurring, np.arange(len(occurring)))
            item_codes, occurring, items = self._coded(batch.column(self.item), self.item, source, first_row)
            others = [item for item in items.to_pylist() if item not in column_of]
            unknown = [item for item in others if item not in self.left_out]
            if unknown and self.unknown_items == "error":
                raise unknown_items_error(unknown)
            self.seen_left_out.update(set(others) - set(unknown))
            columns = renumbered(item_codes, occurring, [column_of.get(item, -1) for item in items.to_pylist()])
            counts: tuple[NDArray[np.int64], ...] = ()
            if self.n_trials is not None:
                right, asked = self._numbers(batch, source, first_row)
                said, counts = (asked > 0).astype(np.uint8), (right, asked, np.zeros_like(asked))
            elif self.keys is None:
                found = coded_responses(batch.column(self.response), source, self.response, first_row)
                said = (found + np.int8(WRONG)).astype(np.uint8)
            else:
                said = self._graded(self.keys, batch.column(self.response), columns, first=begins)
            if self.trial is not None and not counts:
                right, answered = (said == RIGHT).astype(np.int64), (said > MISSING).astype(np.int64)
                counts = right, answered, _hashes(batch.column(self.trial))
            yield _Rows(respondents, names, columns, said, counts)
            begins = False

    def _coded(
        self, column: pa.Array, name: str, source: Path | str, first_row: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], pa.Array]:
        """Code of each row of a column of names, the codes that occur in order of appearance, and their names."""
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        occurring = column.indices.unique()
        names = without_guards(column.dictionary.take(occurring).cast(pa.string()))
        if column.null_count or pa.compute.any(pa.compute.equal(names, "")).as_py():
            names_of(column.cast(pa.string()), source, name, first_row)  # says where
        return column.indices.to_numpy(), occurring.to_numpy(), names

    def _numbers(
        self, batch: pa.RecordBatch, source: Path | str, first_row: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number right and number of trials of each row."""
        assert self.n_trials is not None
        right, asked = (
            np.nan_to_num(numbers_of(batch.column(name), source, name, first_row, expected="a whole number"))
            for name in (self.response, self.n_trials)
        )
        wrong = (right < 0) | (right > asked) | (right != np.floor(right)) | (asked != np.floor(asked))
        wrong |= asked > MOST_TRIALS
        if wrong.any():
            row = int(wrong.argmax())
            raise InputError(
                f"file {source}, row {first_row + row}: expected a whole number {self.response} of a whole number "
                f"{self.n_trials}, at most {MOST_TRIALS:,}, but got {right[row]:g} of {asked[row]:g}"
            )
        return right.astype(np.int64), asked.astype(np.int64)

    def _graded(self, keys: Keys, column: pa.Array, columns: NDArray[np.int32], *, first: bool) -> NDArray[np.uint8]:
        """The same from answers."""
        if first:
            keys.demand_meant(column.filter(pa.array(columns >= 0)))
        right, empty = keys.grade_rows(column, columns, self.items)
        said = np.where(right, RIGHT, WRONG).astype(np.uint8)
        if keys.rules.empty == "missing":
            said[empty] = MISSING
        return said


def renumbered(
    codes: NDArray[np.int32], occurring: NDArray[np.int32], numbers: Sequence[int] | NDArray[np.int64]
) -> NDArray[np.int32]:
    """The number of each row's code, where ``numbers`` are those of the codes ``occurring``."""
    number_of = np.zeros(int(occurring.max(initial=0)) + 1, dtype=np.int32)
    number_of[occurring] = numbers
    return number_of[codes]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some rows: code of the respondent from 0 in order of appearance, their names, the item's column, the response.

    The column is -1 for an item that is not wanted. Where there may be trials, `counts` are the number right, the
    number of trials, and what tells the row from other trials of the pair.
    """

    respondents: NDArray[np.int32]
    names: pa.Array
    columns: NDArray[np.int32]
    said: NDArray[np.uint8]
    counts: tuple[NDArray[np.int64], ...] = ()


def _hashes(column: pa.Array) -> NDArray[np.int64]:
    """A number for each row of a column of texts, the same for the same text."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    # a null stands for a text of its own
    of_text = np.array([hash(text) for text in column.dictionary.cast(pa.string()).to_pylist()] + [0], dtype=np.int64)
    codes = pa.compute.fill_null(column.indices, len(of_text) - 1).to_numpy(zero_copy_only=False)
    found: NDArray[np.int64] = of_text[codes]
    return found


def read_together(file: LongFile, seen: SeenNames) -> Iterator[Part]:
    """Parts of a file in which the rows of each respondent stand together; their names are added to ``seen``.

    Raises
    ------
    RowsScattered
        When a respondent comes again after another; parts given before hold then not all there is.
    InputError
        Naming row and column of what is wrong, or the respondent and item of a pair that comes twice.
    """
    n_items = len(file.items)
    most = max(1, min(ROWS, CELLS // max(1, n_items)))
    # the last respondent's rows wait for those that the next rows of the file may add
    waiting: list[str] = []
    columns, said = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.uint8)
    counts: tuple[NDArray[np.int64], ...] = ()
    n_wanted = 0
    for rows in file.batches():
        n_wanted += int(np.count_nonzero(rows.columns >= 0))
        starts = np.concatenate([[0], np.flatnonzero(rows.respondents[1:] != rows.respondents[:-1]) + 1])
        names = rows.names.take(pa.array(rows.respondents[starts])).to_pylist()
        n_waiting = columns.size
        columns, said = np.concatenate([columns, rows.columns]), np.concatenate([said, rows.said])
        before = counts or tuple(each[:0] for each in rows.counts)
        counts = tuple(np.concatenate(pair) for pair in zip(before, rows.counts, strict=True))
        if waiting == names[:1]:
            starts[1:] += n_waiting
        elif waiting:
            starts, names = np.concatenate([[0], starts + n_waiting]), waiting + names
        if seen.add(names[:-1]) is not None:
            raise RowsScattered
        yield from _parts(file, names[:-1], starts, columns, said, counts, most)
        waiting, columns, said = names[-1:], columns[starts[-1] :], said[starts[-1] :]
        counts = tuple(each[starts[-1] :] for each in counts)
    if waiting:
        _demand_known(n_wanted)
        if seen.add(waiting) is not None or seen.twice() is not None:
            raise RowsScattered
        yield from _parts(file, waiting, np.array([0, columns.size]), columns, said, counts, most)


def _parts(
    file: LongFile,
    names: list[str],
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    said: NDArray[np.uint8],
    counts: tuple[NDArray[np.int64], ...],
    most: int,
) -> Iterator[Part]:
    """Parts of at most so many respondents, whose rows begin at ``starts``, shape (n + 1,)."""
    n_items = len(file.items)
    for first in range(0, len(names), most):
        ids = names[first : first + most]
        ends = starts[first : first + len(ids) + 1]
        own = slice(ends[0], ends[-1])
        wanted = columns[own] >= 0
        cells = (np.repeat(np.arange(len(ids)) * n_items, np.diff(ends)) + columns[own])[wanted]
        if counts:
            yield _part_of_trials(file, tuple(ids), cells, *(each[own][wanted] for each in counts))
            continue
        table = np.zeros(len(ids) * n_items, dtype=np.uint8)
        table[cells] = said[own][wanted]
        if np.count_nonzero(table) < cells.size:
            _refuse_repeated(file, cells, ids)
        yield Part(tuple(ids), MEANING[table].reshape(len(ids), n_items))


def _part_of_trials(
    file: LongFile,
    ids: tuple[str, ...],
    cells: NDArray[np.int64],
    right: NDArray[np.int64],
    asked: NDArray[np.int64],
    trial: NDArray[np.int64],
) -> Part:
    """Sums over the rows of each pair, no two of them of the same trial."""
    order = np.lexsort((trial, cells))
    same = (np.diff(cells[order]) == 0) & (np.diff(trial[order]) == 0)
    if same.any():
        _refuse_pair(file, int(cells[order][int(same.argmax())]), ids)
    shape = len(ids), len(file.items)
    n_right, n_asked = (
        np.bincount(cells, numbers, minlength=shape[0] * shape[1]).reshape(shape) for numbers in (right, asked)
    )
    values = np.where(n_asked > 0, n_right, np.nan).astype(np.float32)
    return Part(ids, values, n_asked.astype(np.int64))


def read_scattered(file: LongFile, progress: Callable[[str], None] = lambda message: None) -> Iterator[Part]:
    """Parts of a file in which the rows stand in any order; respondents in order of first appearance.

    Kept are the names of all respondents, and ``CELLS_KEPT`` bytes of responses. The file is read as often as that
    takes.

    Raises
    ------
    InputError
        Naming row and column of what is wrong, or the respondent and item of a pair that comes twice; if there are
        trials.
    """
    if file.has_trials:
        raise InputError(
            f"{file.table.in_words}: several trials of an item are read from so large a table where the rows of each "
            f"respondent stand together; expected it sorted by {file.respondent}"
        )
    n_items = len(file.items)
    capacity = max(1, CELLS_KEPT // max(1, n_items))
    known = pa.array([], pa.string())
    first = 0
    while first == 0 or first < len(known):
        table = np.zeros(capacity * n_items, dtype=np.uint8)
        n_rows = n_cells = 0
        for rows in file.batches():
            here, known = _places(rows.names, known)
            place = here[rows.respondents] - first
            wanted = (rows.columns >= 0) & (place >= 0) & (place < capacity)
            cells = place[wanted] * n_items + rows.columns[wanted]
            repeated = table[cells] != UNSEEN
            if repeated.any():
                _refuse_pair(file, int(cells[repeated.argmax()]), known[first:])
            table[cells] = rows.said[wanted]
            n_rows, n_cells = n_rows + rows.said.size, n_cells + cells.size
            progress(f"{n_rows} rows read, {len(known)} respondents found")
        names = known[first : first + capacity]
        _demand_known(n_cells if first == 0 else 1)
        if np.count_nonzero(table) < n_cells:
            _refuse_scattered_pair(file, known, first, len(names))
        most = max(1, min(ROWS, CELLS // max(1, n_items)))
        for start in range(0, len(names), most):
            ids = names[start : start + most].to_pylist()
            own = table[start * n_items : (start + len(ids)) * n_items]
            yield Part(tuple(ids), MEANING[own].reshape(len(ids), n_items))
        first += capacity


def _demand_known(n_wanted: int) -> None:
    if n_wanted == 0:
        raise InputError("responses: none of the items is known to the bank; expected responses to its items")


def _places(names: pa.Array, known: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Place of each name among those known, and the names known, those that were new added at the end."""
    found = pa.compute.index_in(names, value_set=known)
    new = found.is_null()
    places = found.fill_null(0).to_numpy().astype(np.int64)
    is_new = new.to_numpy(zero_copy_only=False)
    places[is_new] = len(known) + np.arange(is_new.sum())
    return places, pa.concat_arrays([known, names.filter(new)]) if is_new.any() else known


def _refuse_scattered_pair(file: LongFile, known: pa.Array, first: int, n: int) -> None:
    """Name a pair that comes twice among the rows of one batch."""
    n_items, names = len(file.items), known[first : first + n]
    for rows in file.batches():
        here = _places(rows.names, known)[0][rows.respondents] - first
        wanted = (rows.columns >= 0) & (here >= 0) & (here < n)
        _refuse_repeated(file, here[wanted] * n_items + rows.columns[wanted], names)


def _refuse_repeated(file: LongFile, cells: NDArray[np.int64], names: Sequence[str] | pa.Array) -> None:
    distinct, counts = np.unique(cells, return_counts=True)
    if (counts > 1).any():
        _refuse_pair(file, int(distinct[(counts > 1).argmax()]), names)


def _refuse_pair(file: LongFile, cell: int, names: Sequence[str] | pa.Array) -> None:
    respondent, column = divmod(cell, len(file.items))
    expected = "one row for each pair" if file.trial is None else "one row for each trial of a pair"
    raise InputError(
        f"{file.table.in_words}: respondent {names[respondent]} and item {file.items[column]} come twice; "
        f"expected {expected}"
    )
