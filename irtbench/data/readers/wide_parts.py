"""A large wide table of responses or answers, a part of the respondents at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.readers.batches import TableFile, without_guards
from irtbench.data.readers.part_values import FIRST_ANSWERS, Keys, numbers_of
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
        return ResponseMatrix(self.values, self.respondent_ids, tuple(items), self.trials)


def read_wide_parts(
    file: TableFile, respondents: str, items: Sequence[str], *, keys: Keys | None = None, as_text: bool = False
) -> Iterator[Part]:
    """Read a wide file part by part, and check it.

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

    Raises
    ------
    TextAmongNumbers
        When responses that are read as numbers are not.
    InputError
        Naming row and column of what is wrong.
    """
    source = file.path
    seen: set[int] = set()
    first_row = 1
    numbers = () if as_text or keys is not None else items
    for batch in file.batches([respondents, *items], rows=ROWS, numbers=numbers):
        ids = tuple(without_guards(batch.column(respondents).cast(pa.string())).to_pylist())
        hashes = {hash(name) for name in ids}
        if None in ids or "" in ids:
            raise InputError(f"file {source}, column {respondents}: expected a name in every row but one is empty")
        if len(hashes) < len(ids) or not seen.isdisjoint(hashes):
            twice = next(name for k, name in enumerate(ids) if hash(name) in seen or name in ids[:k])
            raise InputError(f"file {source}: respondent {twice} comes twice; expected a row for each")
        seen |= hashes
        values = np.empty((len(ids), len(items)), dtype=np.float32, order="F")
        if keys is not None and first_row == 1 and items:
            few = max(1, FIRST_ANSWERS // len(items))
            keys.demand_meant(pa.concat_arrays([batch.column(item).slice(0, few).cast(pa.string()) for item in items]))
        for k, item in enumerate(items):
            column = batch.column(item)
            values[:, k] = (
                numbers_of(column, source, item, first_row) if keys is None else keys.grade_column(column, item)
            )
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
        first_row += len(ids)
        yield Part(ids, values)
