"""A large wide table of responses or answers, a part of the respondents at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from irtbench.data.coded_responses import MISSING
from irtbench.data.input_error import InputError
from irtbench.data.readers.batches import TableFile, without_guards
from irtbench.data.readers.part_values import FIRST_ANSWERS, Keys, coded_responses
from irtbench.data.readers.seen_names import SeenNames
from irtbench.data.responses import ResponseMatrix

ROWS = 2**15  # respondents of a part
ROWS_OF_PIECE = 2**17  # about so many are one process's work at a time


class Part:
    """Some respondents of the file: names, and values of 1, 0 and NaN, shape (n, n_items).

    With several trials of an item the values are numbers right, and `trials`, of the same shape, says of how many.
    """

    def __init__(
        self, respondent_ids: tuple[str, ...], values: NDArray[np.float32], trials: NDArray[np.int64] | None = None
    ) -> None:
        self.respondent_ids = respondent_ids
        self.values = values
        self.trials = trials

    def matrix(self, items: Sequence[str]) -> ResponseMatrix:
        """The same as a response matrix."""
        return ResponseMatrix(self.values, self.respondent_ids, tuple(items), self.trials)  # type: ignore[arg-type]


#: A part that is yet to be made of what was read, in whichever thread.
UnmadePart = Callable[[], Part]


@dataclass(frozen=True, eq=False)
class WideTable:
    """A wide table of responses or answers, in one file or several.

    Parameters
    ----------
    files
        Its files, of the same columns.
    respondent
        Their column of names.
    items
        The items wanted.
    keys
        By which answers are graded; None where the files hold responses.
    as_text
        Whether responses in a CSV file are read as text, in which ``true`` and ``false`` are known: slower.
    """

    files: tuple[TableFile, ...]
    respondent: str
    items: Sequence[str]
    keys: Keys | None = None
    as_text: bool = False

    def parts(self, n_done: int = 0, seen: SeenNames | None = None) -> Iterator[UnmadePart]:
        """All rows but the first so many of Parquet files, a part after the other, see ``read_wide_parts``.

        Parameters
        ----------
        n_done
            Number of rows that are passed over.
        seen
            Their names.
        """
        seen = seen or SeenNames()
        for file in self.files:
            n_rows = sum(file.group_rows) if n_done else 0
            if n_rows <= n_done and n_rows:
                n_done -= n_rows
                continue
            yield from read_wide_parts(self, file, n_done=n_done, seen=seen)
            n_done = 0

    def pieces(self) -> list[tuple[TableFile, tuple[int, ...]]]:
        """Groups of rows of a Parquet file that are one process's work at a time, in the order of the rows."""
        found: list[tuple[TableFile, tuple[int, ...]]] = []
        for file in self.files:
            first, n = 0, 0
            for number, rows in enumerate(file.group_rows, start=1):
                n += rows
                if n >= ROWS_OF_PIECE or number == len(file.group_rows):
                    found.append((file, tuple(range(first, number))))
                    first, n = number, 0
        return found


def read_wide_parts(
    table: WideTable,
    file: TableFile,
    *,
    n_done: int = 0,
    groups: tuple[int, ...] | None = None,
    seen: SeenNames | None = None,
) -> Iterator[UnmadePart]:
    """Read a file of a wide table part by part, and check it: names when a part is read, responses when it is made.

    Parameters
    ----------
    table
        The table.
    file
        One of its files.
    n_done
        Number of rows, the first of a Parquet file, that are passed over.
    groups
        Of a Parquet file the groups of rows that are read, one behind the other; None for all.
    seen
        Names of respondents before.

    Raises
    ------
    TextAmongNumbers
        When responses that are read as numbers are not.
    InputError
        Naming row and column of what is wrong.
    """
    source, items, keys = file.path, table.items, table.keys
    seen = seen or SeenNames()
    first_row = 1 + (n_done if groups is None else sum(file.group_rows[: groups[0]]))
    begins = first_row == 1 and file == table.files[0]
    numbers = () if table.as_text or keys is not None else items
    columns = [table.respondent, *items]
    for batch in file.batches(columns, rows=ROWS, numbers=numbers, n_done=n_done, groups=groups):
        ids = tuple(without_guards(batch.column(table.respondent).cast(pa.string())).to_pylist())
        if None in ids or "" in ids:
            raise InputError(f"file {source}, column {table.respondent}: expected a name in every row but one is empty")
        if (twice := seen.add(ids)) is not None:
            raise InputError(f"file {source}: respondent {twice} comes twice; expected a row for each")
        if keys is None:
            yield partial(part_of_responses, batch, ids, items, source, first_row)
        else:
            if begins and items:
                few = max(1, FIRST_ANSWERS // len(items))
                first = [batch.column(item).slice(0, few).cast(pa.string()) for item in items]
                keys.demand_meant(pa.concat_arrays(first))
            graded = np.empty((len(ids), len(items)), dtype=np.float32, order="F")
            for k, item in enumerate(items):
                graded[:, k] = keys.grade_column(batch.column(item), item)
            yield partial(Part, ids, graded)
        first_row, begins = first_row + len(ids), False


def part_of_responses(
    batch: pa.RecordBatch, ids: tuple[str, ...], items: Sequence[str], source: Path | str, first_row: int
) -> Part:
    """The responses of some respondents, whose first row has this number."""
    values = np.empty((len(ids), len(items)), dtype=np.float32, order="F")
    for k, item in enumerate(items):
        values[:, k] = coded_responses(batch.column(item), source, item, first_row)
    values[values == MISSING] = np.nan
    return Part(ids, values)
