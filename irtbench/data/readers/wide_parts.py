"""A large wide Parquet table of responses, a part of the respondents at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix

ROWS = 2**15  # respondents of a part
MISSING_CODE = -1.0


class Part:
    """Some respondents of the file: names, and values of 1, 0 and NaN, shape (n, n_items)."""

    def __init__(self, respondent_ids: tuple[str, ...], values: NDArray[np.float32]) -> None:
        self.respondent_ids = respondent_ids
        self.values = values

    def matrix(self, items: Sequence[str]) -> ResponseMatrix:
        """The same as a response matrix."""
        return ResponseMatrix(self.values.astype(np.float64), self.respondent_ids, tuple(items))


def read_wide_parts(
    file: pa.parquet.ParquetFile, source: str | Path, respondents: str, items: Sequence[str]
) -> Iterator[Part]:
    """Read a wide Parquet file part by part, and check it.

    Raises
    ------
    InputError
        Naming row and column of what is wrong.
    """
    seen: set[int] = set()
    first_row = 1
    for batch in file.iter_batches(ROWS, columns=[respondents, *items], use_threads=True):
        ids = tuple(batch.column(respondents).cast(pa.string()).to_pylist())
        hashes = {hash(name) for name in ids}
        if None in ids or "" in ids:
            raise InputError(f"file {source}, column {respondents}: expected a name in every row but one is empty")
        if len(hashes) < len(ids) or not seen.isdisjoint(hashes):
            twice = next(name for k, name in enumerate(ids) if hash(name) in seen or name in ids[:k])
            raise InputError(f"file {source}: respondent {twice} comes twice; expected a row for each")
        seen |= hashes
        values = np.empty((len(ids), len(items)), dtype=np.float32, order="F")
        for k, item in enumerate(items):
            values[:, k] = numbers_of(batch.column(item), source, item)
        wrong = ~((values == 0) | (values == 1) | np.isnan(values))
        if wrong.any():
            missing = values == MISSING_CODE
            values[missing] = np.nan
            bad = np.argwhere(wrong & ~missing)
            if bad.size:
                row, column = (int(k) for k in bad[0])
                raise InputError(
                    f"file {source}, row {first_row + row}, column {items[column]}: expected 1, 0 or missing but got "
                    f"{values[row, column]:g}"
                )
        first_row += len(ids)
        yield Part(ids, values)


def numbers_of(column: pa.Array, source: str | Path, name: str) -> NDArray[np.float32]:
    """Numbers of a Parquet column, NaN where it is null.

    Raises
    ------
    InputError
        If it holds what is no number.
    """
    try:
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        found: NDArray[np.float32] = column.cast(pa.float32(), safe=False).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(f"file {source}, column {name}: expected 1, 0 or missing but it holds {column.type}") from None
    return found
