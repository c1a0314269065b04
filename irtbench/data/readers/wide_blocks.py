"""A large wide table of responses or answers, some respondents at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from irtbench.data import response_blocks
from irtbench.data.input_error import InputError
from irtbench.data.readers.batches import TextTable
from irtbench.data.readers.large_table import LargeTable
from irtbench.data.readers.part_values import FIRST_ANSWERS, Keys, coded_responses, names_of
from irtbench.data.response_blocks import Blocks, Unmade
from irtbench.data.responses import ResponseMatrix


def wide_blocks(
    table: LargeTable | TextTable,
    respondent: str,
    items: Sequence[str],
    keys: Keys | None = None,
    *,
    as_text: bool = False,
) -> Blocks:
    """The respondents of a wide table; groups of rows of Parquet files are pieces.

    Parameters
    ----------
    table
        One file, or files of the same columns.
    respondent, items
        Its column of names, and those of the items wanted.
    keys
        By which answers are graded; None where the cells are responses.
    as_text
        Whether responses in a CSV file are read as text, in which ``true`` and ``false`` are known: slower. Otherwise
        a text among them raises `TextAmongNumbers`.
    """
    numbers = () if as_text or keys is not None else items

    def piece(number: int) -> Iterator[Unmade]:
        rows = table.rows([respondent, *items], rows=response_blocks.ROWS, numbers=numbers, part=number)
        for k, (source, first_row, batch) in enumerate(rows):
            if keys is not None and number == 0 and k == 0 and items:
                few = max(1, FIRST_ANSWERS // len(items))
                keys.demand_meant(
                    pa.concat_arrays([batch.column(item).slice(0, few).cast(pa.string()) for item in items])
                )
            yield partial(_block, batch, respondent, tuple(items), keys, source, first_row)

    pieces: list[Callable[[], Iterator[Unmade]]] = [partial(piece, number) for number in range(table.n_parts)]
    return Blocks(items, pieces, table.n_rows, distinct=False)


def _block(
    batch: pa.RecordBatch,
    respondent: str,
    items: tuple[str, ...],
    keys: Keys | None,
    source: Path | str,
    first_row: int,
) -> ResponseMatrix:
    """Responses of rows of which the first has this number."""
    names = tuple(names_of(batch.column(respondent), source, respondent, first_row).to_pylist())
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise InputError(f"file {source}: respondent {twice} comes twice; expected a row for each")
    coded = np.empty((len(batch), len(items)), dtype=np.int8, order="F")
    for k, item in enumerate(items):
        column = batch.column(item)
        coded[:, k] = (
            coded_responses(column, source, item, first_row) if keys is None else keys.grade_column(column, item)
        )
    return ResponseMatrix.from_coded(coded, names, items)
