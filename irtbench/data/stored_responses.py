"""Responses encoded on disk, a byte each: a matrix of any number of respondents, few of whom are in memory at once.

The folder holds ``responses.bin`` (for each respondent a signed byte an item: 1, 0, or -1 where missing), the names of
the respondents, and ``encoded.json``, which says what they were made of. `ResponseStore` writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.name_file import NameFile
from irtbench.data.responses import ResponseMatrix, positions_of, share_correct, size_in_short
from irtbench.data.shown import Shown
from irtbench.data.sparse_responses import SparseResponses

RESPONSES, NAMES, LEFT_OUT = "responses.bin", "respondents", "left_out"
MISSING = -1
FEW = 2**6  # one respondent of so many is read alone, of more all are passed through
BLOCK = 2**24  # bytes read at once where all are passed through


@dataclass(frozen=True, eq=False)
class StoredResponses(Shown):
    """Graded responses in a folder, one of a respondent to an item.

    Parameters
    ----------
    folder
        Where they are.
    n_stored
        Number of respondents there.
    stored_items
        Items of the columns there.
    n_by_item, n_correct_by_item
        Number of responses and of correct ones to each item wanted, shape (n_items,).
    columns
        Places of the items wanted among those stored; None for all.
    places
        Places of the respondents wanted, ascending, shape (n_respondents,); None for all.
    """

    folder: Path
    n_stored: int
    stored_items: tuple[str, ...]
    n_by_item: NDArray[np.int64]
    n_correct_by_item: NDArray[np.int64]
    columns: NDArray[np.intp] | None = None
    places: NDArray[np.intp] | None = None

    @property
    def item_ids(self) -> tuple[str, ...]:
        """Names of the items."""
        return self.stored_items if self.columns is None else tuple(self.stored_items[k] for k in self.columns)

    @property
    def n_respondents(self) -> int:
        """Number of rows."""
        return self.n_stored if self.places is None else len(self.places)

    @property
    def n_items(self) -> int:
        """Number of columns."""
        return len(self.n_by_item)

    @property
    def n_responses(self) -> int:
        """Number of observed responses."""
        return int(self.n_by_item.sum())

    @property
    def n_pairs(self) -> int:
        """The same, for there is one response of a respondent to an item."""
        return self.n_responses

    @cached_property
    def is_complete(self) -> bool:
        """Whether no response is missing."""
        return self.n_responses == self.n_respondents * self.n_items

    @cached_property
    def n_by_respondent(self) -> NDArray[np.int64]:
        """Number of observed responses of each respondent, shape (n_respondents,)."""
        if self.is_complete:
            return np.broadcast_to(np.int64(self.n_items), (self.n_respondents,))
        return np.concatenate([(block != MISSING).sum(axis=1) for block in self.blocks()])

    @cached_property
    def unanswered(self) -> NDArray[np.intp]:
        """Places of the respondents without any response; everybody has one to some item of those stored."""
        if self.is_complete or self.columns is None:
            return np.empty(0, dtype=np.intp)
        start, found = 0, []
        for block in self.blocks():
            found.append(start + np.flatnonzero((block == MISSING).all(axis=1)))
            start += len(block)
        return np.concatenate(found)

    @property
    def trials(self) -> None:
        """There is one response of a respondent to an item."""

    def proportion_correct(self) -> NDArray[np.float64]:
        """Share of correct among the observed responses of each item, NaN where none was observed, shape (n_items,)."""
        return share_correct(self.n_correct_by_item, self.n_by_item)

    def table(self) -> pd.DataFrame:
        """One row an item: ``item_id, n, proportion_correct``."""
        return pd.DataFrame(
            {"item_id": self.item_ids, "n": self.n_by_item, "proportion_correct": self.proportion_correct()}
        )

    def log_coefficients(self) -> float:
        """Sum of the logarithms of the binomial coefficients: 0, there are no trials."""
        return 0.0

    def rows(self, start: int, stop: int) -> NDArray[np.int8]:
        """Responses 1, 0 and -1 of consecutive respondents, read from the disk, shape (stop - start, n_items)."""
        if self.places is None:
            found = self._stored(start, stop)
        else:
            own = self.places[start:stop]
            found = self._stored(int(own[0]), int(own[-1]) + 1)[own - own[0]] if len(own) else self._stored(0, 0)
        return found if self.columns is None else found[:, self.columns]

    def blocks(self) -> Iterator[NDArray[np.int8]]:
        """All rows in their order, some respondents at a time."""
        most = max(1, BLOCK // len(self.stored_items))
        for start in range(0, self.n_respondents, most):
            yield self.rows(start, min(start + most, self.n_respondents))

    def at(self, respondents: NDArray[np.intp]) -> NDArray[np.int8]:
        """Rows of some respondents, by their places in ascending order."""
        found = np.empty((len(respondents), self.n_items), dtype=np.int8)
        if len(respondents) * FEW <= self.n_respondents:
            for row, place in zip(found, respondents.tolist(), strict=True):
                row[:] = self.rows(place, place + 1)[0]
            return found
        start = 0
        for block in self.blocks():  # a file mapped into memory would count as memory as far as it is touched
            first, last = np.searchsorted(respondents, [start, start + len(block)])
            found[first:last] = block[respondents[first:last] - start]
            start += len(block)
        return found

    def respondent_ids(self, start: int, stop: int) -> tuple[str, ...]:
        """Names of consecutive respondents."""
        names = NameFile.within(self.folder, NAMES)
        if self.places is None:
            return tuple(names.read(start, stop).to_pylist())
        own = self.places[start:stop]
        return tuple(names.read(int(own[0]), int(own[-1]) + 1).take(own - own[0]).to_pylist()) if len(own) else ()

    def idle_ids(self) -> tuple[str, ...]:
        """Names of respondents who are not among these: those without any response, or none to the items wanted."""
        names = NameFile.within(self.folder, LEFT_OUT)
        found = tuple(names.read(0, len(names)).to_pylist())
        if self.places is None:
            return found
        others = np.setdiff1d(np.arange(self.n_stored), self.places, assume_unique=True)
        stored = NameFile.within(self.folder, NAMES)
        return found + tuple(stored.read(int(place), int(place) + 1)[0].as_py() for place in others)

    def select_items(self, item_ids: Sequence[str]) -> StoredResponses:
        """Keep these items, in this order.

        Raises
        ------
        InputError
            If an item is not among those stored.
        """
        if tuple(item_ids) == self.item_ids:
            return self
        own = positions_of(item_ids, self.item_ids)
        return replace(
            self,
            n_by_item=self.n_by_item[own],
            n_correct_by_item=self.n_correct_by_item[own],
            columns=own if self.columns is None else self.columns[own],
        )

    def select_respondents(self, keep: NDArray[np.bool_]) -> StoredResponses:
        """Keep the respondents where ``keep`` (shape (n_respondents,)) is true; the others have no response."""
        if len(np.setdiff1d(np.flatnonzero(~keep), self.unanswered)):
            raise InputError("stored responses: only respondents without a response can be left out")
        own = np.flatnonzero(keep)
        return replace(self, places=own if self.places is None else self.places[own])

    def to_matrix(self) -> ResponseMatrix:
        """The same as a matrix in memory."""
        n = self.n_respondents
        return ResponseMatrix(in_numbers(self.rows(0, n)), self.respondent_ids(0, n), self.item_ids)

    def sample(self, respondents: NDArray[np.intp]) -> ResponseMatrix:
        """Some respondents as a matrix in memory, by their places in ascending order."""
        ids = [self.respondent_ids(place, place + 1)[0] for place in respondents.tolist()]
        return ResponseMatrix(in_numbers(self.at(respondents)), tuple(ids), self.item_ids)

    def in_short(self) -> str:
        """Size, share observed and share correct."""
        return size_in_short(self)

    def _stored(self, start: int, stop: int) -> NDArray[np.int8]:
        width = len(self.stored_items)
        count = (stop - start) * width
        found = np.fromfile(self.folder / RESPONSES, dtype=np.int8, count=count, offset=start * width)
        return found.reshape(stop - start, width)


def in_numbers(rows: NDArray[np.int8]) -> NDArray[np.float64]:
    """Rows of 1, 0 and -1 as numbers, NaN where missing."""
    values = rows.astype(np.float64)
    values[rows == MISSING] = np.nan
    return values


#: Graded responses in any form that a model is fitted to.
AnyResponses = ResponseMatrix | SparseResponses | StoredResponses
