"""A large wide table of responses or answers, a part of the respondents at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.readers.batches import TableFile, without_guards
from irtbench.data.readers.part_values import FIRST_ANSWERS, Keys, numbers_of
from irtbench.data.readers.seen_names import SeenNames
from irtbench.data.responses import ResponseMatrix

ROWS = 2**15  # respondents of a part
MISSING_CODE = -1.0


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


def read_wide_parts(
    file: TableFile,
    respondents: str,
    items: Sequence[str],
    *,
    keys: Keys | None = None,
    as_text: bool = False,
    n_done: int = 0,
    seen: SeenNames | None = None,
) -> Iterator[UnmadePart]:
    """Read a wide file part by part, and check it: names when a part is read, responses when it is made.

    Parameters
    ----------
    file
        The file.
    respondents
        Its column of names.
    items
        The items wanted.
    keys
        By which answers are graded; None where the file holds responses.
    as_text
        Whether responses in a CSV file are read as text, in which ``true`` and ``false`` are known: slower.
    n_done
        Number of rows, the first of a Parquet file, that are passed over.
    seen
        Their names.

    Raises
    ------
    TextAmongNumbers
        When responses that are read as numbers are not.
    InputError
        Naming row and column of what is wrong.
    """
    source = file.path
    seen = seen or SeenNames()
    first_row = 1 + n_done
    numbers = () if as_text or keys is not None else items
    for batch in file.batches([respondents, *items], rows=ROWS, numbers=numbers, n_done=n_done):
        ids = tuple(without_guards(batch.column(respondents).cast(pa.string())).to_pylist())
        if None in ids or "" in ids:
            raise InputError(f"file {source}, column {respondents}: expected a name in every row but one is empty")
        if (twice := seen.add(ids)) is not None:
            raise InputError(f"file {source}: respondent {twice} comes twice; expected a row for each")
        if keys is None:
            yield partial(part_of_responses, batch, ids, items, source, first_row)
        else:
            if first_row == 1 and items:
                few = max(1, FIRST_ANSWERS // len(items))
                first = [batch.column(item).slice(0, few).cast(pa.string()) for item in items]
                keys.demand_meant(pa.concat_arrays(first))
            graded = np.empty((len(ids), len(items)), dtype=np.float32, order="F")
            for k, item in enumerate(items):
                graded[:, k] = keys.grade_column(batch.column(item), item)
            yield partial(Part, ids, graded)
        first_row += len(ids)


def part_of_responses(
    batch: pa.RecordBatch, ids: tuple[str, ...], items: Sequence[str], source: Path, first_row: int
) -> Part:
    """The responses of some respondents, whose first row has this number."""
    values = np.empty((len(ids), len(items)), dtype=np.float32, order="F")
    for k, item in enumerate(items):
        values[:, k] = numbers_of(batch.column(item), source, item, first_row)
    wrong = ~((values == 0) | (values == 1) | np.isnan(values))
    if wrong.any():
        missing = values == MISSING_CODE
        values[missing] = np.nan
        bad = np.argwhere(wrong & ~missing)
        if bad.size:
            row, column_number = (int(k) for k in bad[0])
            raise InputError(
                f"file {source}, row {first_row + row}, column {items[column_number]}: expected 1, 0 or missing "
                f"but got {values[row, column_number]:g}"
            )
    return Part(ids, values)
