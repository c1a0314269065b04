"""Responses encoded on disk, a byte each: a matrix of any number of respondents, few of whom are in memory at once.

The folder holds ``responses.bin`` (for each respondent a signed byte an item: 1, 0, or -1 where missing), the names of
the respondents, and ``encoded.json``, which says what they were made of. `ResponseStore` writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.coded_responses import MISSING
from irtbench.data.input_error import InputError
from irtbench.data.name_file import NameFile
from irtbench.data.responses import ResponseMatrix, Responses, hash_of, positions_of

RESPONSES, NAMES, LEFT_OUT, STATE = "responses.bin", "respondents", "left_out", "encoded.json"
NAMES_READ = 2**20  # at once
BLOCK = 2**24  # bytes read at once where all are passed through
FEW_BETWEEN = 2  # respondents read for one that is wanted, up to which all between are read at once


@dataclass(frozen=True, eq=False)
class StoredResponses(Responses):
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
        Places of the items wanted among those stored, and behind them the absent ones; None for all.
    places
        Places of the respondents wanted, ascending, shape (n_respondents,); None for all.
    absent_items
        Items that were not stored: nobody has a response to them.
    """

    folder: Path
    n_stored: int
    stored_items: tuple[str, ...]
    n_by_item: NDArray[np.int64]
    n_correct_by_item: NDArray[np.int64]
    columns: NDArray[np.intp] | None = None
    places: NDArray[np.intp] | None = None
    absent_items: tuple[str, ...] = ()

    on_disk: ClassVar[bool] = True
    at_once: ClassVar[int] = 2**13

    @property
    def item_ids(self) -> tuple[str, ...]:
        """Names of the items."""
        if self.columns is None:
            return self.stored_items
        known = (*self.stored_items, *self.absent_items)
        return tuple(known[k] for k in self.columns)

    @property
    def n_respondents(self) -> int:
        """Number of rows."""
        return self.n_stored if self.places is None else len(self.places)

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

    def table(self) -> pd.DataFrame:
        """One row an item: ``item_id, n, proportion_correct``."""
        return pd.DataFrame(
            {"item_id": self.item_ids, "n": self.n_by_item, "proportion_correct": self.proportion_correct()}
        )

    def rows(self, start: int, stop: int) -> NDArray[np.int8]:
        """Responses 1, 0 and -1 of consecutive respondents, read from the disk, shape (stop - start, n_items)."""
        return self._wanted(self._stored(start, stop) if self.places is None else self._chosen(self.places[start:stop]))

    def _wanted(self, found: NDArray[np.int8]) -> NDArray[np.int8]:
        """The columns of the items wanted."""
        if self.columns is None:
            return found
        there = self.columns < len(self.stored_items)
        if there.all():
            return found[:, self.columns]
        wanted = np.full((len(found), len(self.columns)), MISSING, dtype=np.int8)
        wanted[:, there] = found[:, self.columns[there]]
        return wanted

    def blocks(self) -> Iterator[NDArray[np.int8]]:
        """All rows in their order, some respondents at a time."""
        most = max(1, BLOCK // len(self.stored_items))
        for start in range(0, self.n_respondents, most):
            yield self.rows(start, min(start + most, self.n_respondents))

    def at(self, respondents: NDArray[np.intp]) -> NDArray[np.int8]:
        """Rows of some respondents, by their places in ascending order."""
        return self._wanted(self._chosen(respondents if self.places is None else self.places[respondents]))

    @property
    def respondent_ids(self) -> tuple[str, ...]:
        """Names of all respondents, read from the disk."""
        return self.names(0, self.n_respondents)

    def names(self, start: int, stop: int) -> tuple[str, ...]:
        """Names of consecutive respondents."""
        if self.places is None:
            return tuple(NameFile.within(self.folder, NAMES).read(start, stop).to_pylist())
        return self._names(self.places[start:stop])

    def name_of(self, respondent: int) -> str:
        """The name of the respondent at a place."""
        return self.names(respondent, respondent + 1)[0]

    def _names(self, places: NDArray[np.intp]) -> tuple[str, ...]:
        """Names at places among those stored, ascending; those between are read, some at a time."""
        names, found = NameFile.within(self.folder, NAMES), list[str]()
        for own in np.split(places, np.searchsorted(places, np.arange(NAMES_READ, self.n_stored, NAMES_READ))):
            if len(own):
                found += names.read(int(own[0]), int(own[-1]) + 1).take(own - own[0]).to_pylist()
        return tuple(found)

    def idle_ids(self) -> tuple[str, ...]:
        """Names of the respondents without any response to these items; those to no item stored are the first."""
        left_out, without = NameFile.within(self.folder, LEFT_OUT), self.unanswered
        own = self._names(without if self.places is None else self.places[without])
        return (*left_out.read(0, len(left_out)).to_pylist(), *own)

    def everybody(self) -> Iterator[ResponseMatrix]:
        """All respondents, some at a time, and last those who have no response to any item stored."""
        yield from self.parts()
        left_out = NameFile.within(self.folder, LEFT_OUT)
        for start in range(0, len(left_out), self.at_once):
            ids = tuple(left_out.read(start, min(start + self.at_once, len(left_out))).to_pylist())
            nothing = np.full((len(ids), self.n_items), MISSING, dtype=np.int8)
            yield ResponseMatrix.from_coded(nothing, ids, self.item_ids)

    @property
    def content_hash(self) -> str:
        """Hash of the record of what is stored, and of what of it is wanted."""
        record = (self.folder / STATE).read_bytes()
        return hash_of(record, self.item_ids, self.places, self.n_by_item, self.n_correct_by_item)

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

    def with_items(self, item_ids: Sequence[str]) -> StoredResponses:
        """These items, in this order; to those that are not stored nobody has a response."""
        known = set(self.item_ids)
        absent = tuple(item for item in item_ids if item not in known)
        here = self.select_items([item for item in item_ids if item in known])
        if not absent:
            return here
        own = iter(np.arange(len(self.stored_items)) if here.columns is None else here.columns)
        first = len(self.stored_items) + len(self.absent_items)
        added = iter(range(first, first + len(absent)))
        there = np.array([item in known for item in item_ids])
        columns = np.array([next(own if one else added) for one in there], dtype=np.intp)
        counts = np.zeros((2, len(columns)), dtype=np.int64)
        counts[:, there] = here.n_by_item, here.n_correct_by_item
        return replace(
            here,
            n_by_item=counts[0],
            n_correct_by_item=counts[1],
            columns=columns,
            absent_items=(*self.absent_items, *absent),
        )

    def select_respondents(self, keep: NDArray[np.bool_]) -> StoredResponses:
        """Keep the respondents where ``keep`` (shape (n_respondents,)) is true.

        Responses are counted anew, in one pass, unless none is left out.
        """
        if keep.all():
            return self
        own = np.flatnonzero(keep)
        chosen = replace(self, places=own if self.places is None else self.places[own])
        counts = np.zeros((2, self.n_items), dtype=np.int64)
        for block in chosen.blocks():
            counts += (block != MISSING).sum(axis=0), (block == 1).sum(axis=0)
        return replace(chosen, n_by_item=counts[0], n_correct_by_item=counts[1])

    def answered(self) -> StoredResponses:
        """Leave out respondents who have no response to any of these items."""
        without = self.unanswered
        if not len(without):
            return self
        own = np.delete(np.arange(self.n_stored) if self.places is None else self.places, without)
        return replace(self, places=own)  # what is left out has no response to count

    def part(self, start: int, stop: int) -> ResponseMatrix:
        """Consecutive respondents as a matrix in memory."""
        return ResponseMatrix.from_coded(self.rows(start, stop), self.names(start, stop), self.item_ids)

    def sample(self, respondents: NDArray[np.intp]) -> ResponseMatrix:
        """Some respondents as a matrix in memory, by their places in ascending order."""
        places = respondents if self.places is None else self.places[respondents]
        return ResponseMatrix.from_coded(self.at(respondents), self._names(places), self.item_ids)

    def _chosen(self, places: NDArray[np.intp]) -> NDArray[np.int8]:
        """Rows at these places, in ascending order; few that lie far apart do not fill memory with those between."""
        if not len(places):
            return self._stored(0, 0)
        most = max(1, BLOCK // len(self.stored_items))
        first, last = int(places[0]), int(places[-1]) + 1
        if last - first <= max(most, FEW_BETWEEN * len(places)):
            return self._stored(first, last)[places - first]
        found = np.empty((len(places), len(self.stored_items)), dtype=np.int8)
        start = 0
        while start < len(places):
            first = int(places[start])
            end = int(np.searchsorted(places, first + most))
            found[start:end] = self._stored(first, int(places[end - 1]) + 1)[places[start:end] - first]
            start = end
        return found

    def _stored(self, start: int, stop: int) -> NDArray[np.int8]:
        width = len(self.stored_items)
        count = (stop - start) * width
        found = np.fromfile(self.folder / RESPONSES, dtype=np.int8, count=count, offset=start * width)
        if len(found) < count:
            raise InputError(f"cache {self.folder}: {RESPONSES} was cut off while it was read; expected it to stay")
        return found.reshape(stop - start, width)
