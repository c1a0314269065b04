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
from irtbench.data.readers.batches import TextTable
from irtbench.data.readers.large_table import LargeTable, TableFileInfo
from irtbench.data.readers.part_values import FIRST_ANSWERS, Keys, coded_responses, names_of
from irtbench.data.readers.seen_names import SeenNames
from irtbench.data.responses import ResponseMatrix

ROWS = 2**15  # respondents of a part


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
    source
        The file, or files of the same columns.
    respondent
        Their column of names.
    items
        The items wanted.
    keys
        By which answers are graded; None where the files hold responses.
    as_text
        Whether responses in a CSV file are read as text, in which ``true`` and ``false`` are known: slower.
    """

    source: LargeTable | TextTable
    respondent: str
    items: Sequence[str]
    keys: Keys | None = None
    as_text: bool = False

    def parts(self, n_done: int = 0, seen: SeenNames | None = None) -> Iterator[UnmadePart]:
        """All rows but the first so many, a part after the other, see ``read_wide_parts``.

        Parameters
        ----------
        n_done
            Number of rows that are passed over.
        seen
            Their names.
        """
        numbers = () if self.as_text or self.keys is not None else self.items
        rows = self.source.rows([self.respondent, *self.items], rows=ROWS, numbers=numbers, n_done=n_done)
        return read_wide_parts(self, rows, seen or SeenNames(), begins=n_done == 0)

    def pieces(self) -> list[Callable[[], Iterator[UnmadePart]]]:
        """The same of Parquet files as pieces, each one process's work at a time, in the order of the rows."""
        return [
            partial(self._piece, number, *part)
            for number, part in enumerate(self.source.parts() if isinstance(self.source, LargeTable) else ())
        ]

    def _piece(self, number: int, file: TableFileInfo, groups: tuple[int, ...]) -> Iterator[UnmadePart]:
        assert isinstance(self.source, LargeTable)
        batches = self.source.batches(file, groups, [self.respondent, *self.items], rows=ROWS)
        rows = ((file.path, first, batch) for first, batch in batches)
        return read_wide_parts(self, rows, SeenNames(), begins=number == 0)


def read_wide_parts(
    table: WideTable,
    rows: Iterator[tuple[Path | str, int, pa.RecordBatch]],
    seen: SeenNames,
    *,
    begins: bool,
) -> Iterator[UnmadePart]:
    """Read rows of a wide table part by part, and check it: names when a part is read, responses when it is made.

    Parameters
    ----------
    table
        The table.
    rows
        File, number of the first row, and rows.
    seen
        Names of respondents before.
    begins
        Whether these are the first rows of the table, by which it is told whether answers are meant for the keys.

    Raises
    ------
    TextAmongNumbers
        When responses that are read as numbers are not.
    InputError
        Naming row and column of what is wrong.
    """
    items, keys = table.items, table.keys
    for source, first_row, batch in rows:
        ids = tuple(names_of(batch.column(table.respondent), source, table.respondent, first_row).to_pylist())
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
        begins = False


def part_of_responses(
    batch: pa.RecordBatch, ids: tuple[str, ...], items: Sequence[str], source: Path | str, first_row: int
) -> Part:
    """The responses of some respondents, whose first row has this number."""
    values = np.empty((len(ids), len(items)), dtype=np.float32, order="F")
    for k, item in enumerate(items):
        values[:, k] = coded_responses(batch.column(item), source, item, first_row)
    values[values == MISSING] = np.nan
    return Part(ids, values)
