"""Responses of which most are missing, kept as a list: never a matrix of the full size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import (
    Duplicates,
    ResponseMatrix,
    positions_of,
    resolve_duplicates,
    share_correct,
    size_in_short,
)
from irtbench.data.shown import Shown

MOST_DENSE_CELLS = 20_000_000  # a matrix of so many responses is 160 MB
SPARSE_BELOW = 0.1  # share of cells observed


@dataclass(frozen=True, eq=False)
class SparseResponses(Shown):
    """Graded responses of respondents to items, one entry each, in order of respondents.

    Parameters
    ----------
    rows, columns
        Positions of respondent and item, shape (n_responses,); `rows` does not decrease.
    correct
        Whether the response is correct, shape (n_responses,).
    respondent_ids, item_ids
        Unique names of the positions.
    """

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    correct: NDArray[np.bool_]
    respondent_ids: tuple[str, ...]
    item_ids: tuple[str, ...]

    @property
    def n_respondents(self) -> int:
        """Number of respondents."""
        return len(self.respondent_ids)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    @property
    def n_responses(self) -> int:
        """Number of observed responses."""
        return len(self.rows)

    @property
    def n_by_respondent(self) -> NDArray[np.int64]:
        """Number of observed responses of each respondent, shape (n_respondents,)."""
        return np.bincount(self.rows, minlength=self.n_respondents)

    @property
    def n_by_item(self) -> NDArray[np.int64]:
        """Number of observed responses to each item, shape (n_items,)."""
        return np.bincount(self.columns, minlength=self.n_items)

    @property
    def n_correct_by_item(self) -> NDArray[np.int64]:
        """Number of correct responses to each item, shape (n_items,)."""
        return np.bincount(self.columns[self.correct], minlength=self.n_items)

    def proportion_correct(self) -> NDArray[np.float64]:
        """Share of correct among the observed responses of each item, NaN where none was observed, shape (n_items,)."""
        return share_correct(self.n_correct_by_item, self.n_by_item)

    def select_items(self, item_ids: Sequence[str]) -> SparseResponses:
        """Keep these items, in this order.

        Raises
        ------
        InputError
            If an item is not among those held.
        """
        old = positions_of(item_ids, self.item_ids)
        new = np.full(self.n_items, -1)
        new[old] = np.arange(len(old))
        columns = new[self.columns]
        kept = columns >= 0
        return SparseResponses(self.rows[kept], columns[kept], self.correct[kept], self.respondent_ids, tuple(item_ids))

    def select_respondents(self, keep: NDArray[np.bool_]) -> SparseResponses:
        """Keep the respondents where ``keep`` (shape (n_respondents,)) is true, in their order."""
        kept, new = keep[self.rows], np.cumsum(keep) - 1
        ids = tuple(self.respondent_ids[i] for i in np.flatnonzero(keep))
        return SparseResponses(new[self.rows[kept]], self.columns[kept], self.correct[kept], ids, self.item_ids)

    def respondents(self, start: int, stop: int) -> SparseResponses:
        """Consecutive respondents, with all items."""
        first, last = np.searchsorted(self.rows, [start, stop])
        return SparseResponses(
            self.rows[first:last] - start,
            self.columns[first:last],
            self.correct[first:last],
            self.respondent_ids[start:stop],
            self.item_ids,
        )

    def to_matrix(self) -> ResponseMatrix:
        """The same as a matrix of the full size."""
        values = np.full((self.n_respondents, self.n_items), np.nan)
        values[self.rows, self.columns] = self.correct
        return ResponseMatrix(values, self.respondent_ids, self.item_ids)

    @classmethod
    def from_long(cls, table: pd.DataFrame, *, duplicates: Duplicates = "error") -> SparseResponses:
        """Build from a long table with columns ``respondent_id, item_id, response``; rows without a response are left
        out, but their respondent and item are kept.

        Respondents and items stand in order of first appearance.

        Raises
        ------
        InputError
            On a duplicate pair (by default), a missing name, a response that is none of 1, 0 and missing, or an empty
            table.
        """
        if table.empty:
            raise InputError("responses: the table is empty; expected at least one response")
        table = resolve_duplicates(table, duplicates=duplicates)
        rows, respondents = pd.factorize(table["respondent_id"])
        columns, items = pd.factorize(table["item_id"])
        response = table["response"].to_numpy(dtype=np.float64)
        wrong = ~((response == 0) | (response == 1) | np.isnan(response))
        if wrong.any():
            k = int(np.flatnonzero(wrong)[0])
            raise InputError(
                f"responses: respondent {respondents[rows[k]]}, item {items[columns[k]]}: "
                f"expected 1, 0 or missing but got {response[k]:g}"
            )
        held = np.flatnonzero(~np.isnan(response))
        held = held[np.argsort(rows[held], kind="stable")]
        return cls(
            rows[held],
            columns[held],
            response[held] == 1,
            tuple(str(r) for r in respondents),
            tuple(str(i) for i in items),
        )

    def table(self) -> pd.DataFrame:
        """One row a response: the long table."""
        return pd.DataFrame(
            {
                "respondent_id": np.array(self.respondent_ids, dtype=object)[self.rows],
                "item_id": np.array(self.item_ids, dtype=object)[self.columns],
                "response": self.correct.astype(np.int8),
            }
        )

    def in_short(self) -> str:
        """Size, share observed and share correct."""
        return size_in_short(self)


def responses_from_long(table: pd.DataFrame) -> ResponseMatrix | SparseResponses:
    """A matrix, or a list where the matrix would be large and nearly empty; errors as `ResponseMatrix.from_long`.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> rows = [("ann", "i1", 1), ("ann", "i2", 0), ("bob", "i1", 1)]
    >>> table = pd.DataFrame(rows, columns=["respondent_id", "item_id", "response"])
    >>> irtbench.responses_from_long(table)
    <ResponseMatrix: 2 respondents x 2 items, 75% observed, 67% correct>
    """
    n_cells = table["respondent_id"].nunique() * table["item_id"].nunique()
    if n_cells > MOST_DENSE_CELLS and len(table) < SPARSE_BELOW * n_cells:
        return SparseResponses.from_long(table)
    return ResponseMatrix.from_long(table)


def dense_parts(responses: ResponseMatrix | SparseResponses, n_respondents: int = 1000) -> Iterator[ResponseMatrix]:
    """Matrices of a limited number of respondents and the items they answered; a matrix comes whole."""
    if isinstance(responses, ResponseMatrix):
        yield responses
        return
    for start in range(0, responses.n_respondents, n_respondents):
        part = responses.respondents(start, start + n_respondents)
        asked = np.flatnonzero(part.n_by_item)
        yield part.select_items([part.item_ids[j] for j in asked]).to_matrix()
