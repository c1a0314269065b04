"""Responses encoded on disk, a byte each: a matrix of any number of respondents, few of whom are in memory at once.

The folder holds ``responses.bin`` (for each respondent a signed byte an item: 1, 0, or -1 where missing), the names of
the respondents, and ``encoded.json``, which says what they were made of. `ResponseStore` writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import MISSING, ResponseMatrix, Responses, hash_of, positions_of


class NameFile:
    """Names in two files of a folder: their UTF-8 one after the other, and where each ends, eight bytes each."""

    def __init__(self, folder: Path, name: str) -> None:
        self.texts, self.ends = folder / f"{name}.bin", folder / f"{name}-ends.bin"

    def __len__(self) -> int:
        return self.ends.stat().st_size // 8

    def append(self, names: pa.Array) -> None:
        """Add names, none of them null, at the end."""
        if not len(names):
            return
        names = pa.concat_arrays([names.cast(pa.large_string())])
        _, offsets, data = names.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)[names.offset : names.offset + len(names) + 1]
        with self.texts.open("ab") as texts, self.ends.open("ab") as file:
            before = texts.tell()
            if data is not None:
                texts.write(memoryview(data)[ends[0] : ends[-1]])
            file.write((ends[1:] - ends[0] + before).tobytes())

    def read(self, start: int, stop: int) -> pa.Array:
        """Names from one place to another, the last not among them."""
        stop = max(start, stop)
        first = max(start - 1, 0)
        ends = np.fromfile(self.ends, dtype=np.int64, offset=8 * first, count=stop - first)
        if start == 0:
            ends = np.concatenate([[np.int64(0)], ends])
        data = np.fromfile(self.texts, dtype=np.uint8, offset=int(ends[0]), count=int(ends[-1] - ends[0]))
        offsets = pa.py_buffer(np.ascontiguousarray(ends - ends[0]))
        return pa.LargeStringArray.from_buffers(stop - start, offsets, pa.py_buffer(data))


RESPONSES, NAMES, LEFT_OUT, STATE = "responses.bin", "respondents", "left_out", "encoded.json"
NAMES_READ = 2**20  # at once
BLOCK = 2**24  # bytes read at once where all are passed through


def pieces_of(places: NDArray[np.intp], most: int) -> list[NDArray[np.intp]]:
    """Places in ascending order by the pieces of a file, of so many places each, that they are in."""
    return np.split(places, np.flatnonzero(np.diff(places // most)) + 1) if len(places) else []


@dataclass(frozen=True, eq=False)
class StoredResponses(Responses):
    """Graded responses in a folder, one of a respondent to an item.

    Parameters
    ----------
    folder
        Where they are.
    n_stored
        Number of respondents there.
    item_ids
        Names of the items wanted.
    n_by_item, n_correct_by_item
        Number of responses and of correct ones to each item wanted, shape (n_items,).
    columns
        Places of the items wanted among those stored, -1 for one that is not, to which nobody has a response; None for
        all that are stored.
    places
        Places of the respondents wanted, ascending, shape (n_respondents,); None for all.
    n_columns
        Number of items stored; 0 where all of them are wanted.
    """

    folder: Path
    n_stored: int
    item_ids: tuple[str, ...]
    n_by_item: NDArray[np.int64]
    n_correct_by_item: NDArray[np.int64]
    columns: NDArray[np.intp] | None = None
    places: NDArray[np.intp] | None = None
    n_columns: int = 0

    on_disk: ClassVar[bool] = True
    at_once: ClassVar[int] = 2**13

    @property
    def width(self) -> int:
        """Bytes of a respondent."""
        return self.n_columns or len(self.item_ids)

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
        return np.flatnonzero(np.concatenate([(block == MISSING).all(axis=1) for block in self.blocks()]))

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
        if self.places is None and self.columns is None:  # without a list of their places
            return self._stored(start, stop)
        return self.at(np.arange(start, stop))

    def blocks(self) -> Iterator[NDArray[np.int8]]:
        """All rows in their order, some respondents at a time."""
        most = max(1, BLOCK // self.width)
        for start in range(0, self.n_respondents, most):
            yield self.rows(start, min(start + most, self.n_respondents))

    def at(self, respondents: NDArray[np.intp]) -> NDArray[np.int8]:
        """Rows of some respondents, by their places in ascending order; those between are read too, piece by piece."""
        pieces = []
        for own in pieces_of(self._stored_at(respondents), max(1, BLOCK // self.width)):
            read = self._stored(int(own[0]), int(own[-1]) + 1)
            pieces.append(read if len(read) == len(own) else read[own - own[0]])
        found = pieces[0] if len(pieces) == 1 else np.concatenate([self._stored(0, 0), *pieces])
        if self.columns is not None:
            found = found[:, self.columns]
            found[:, self.columns < 0] = MISSING
        return found

    def _stored_at(self, respondents: NDArray[np.intp]) -> NDArray[np.intp]:
        """Places of respondents among those stored."""
        return respondents if self.places is None else self.places[respondents]

    @property
    def respondent_ids(self) -> tuple[str, ...]:
        """Names of all respondents, read from the disk."""
        return self.names_at(np.arange(self.n_respondents))

    def names_at(self, respondents: NDArray[np.intp]) -> tuple[str, ...]:
        """Names of some respondents, by their places in ascending order; those between are read, some at a time."""
        names, found = NameFile(self.folder, NAMES), list[str]()
        for own in pieces_of(self._stored_at(respondents), NAMES_READ):
            found += names.read(int(own[0]), int(own[-1]) + 1).take(own - own[0]).to_pylist()
        return tuple(found)

    def idle_ids(self) -> tuple[str, ...]:
        """Names of the respondents without any response to these items; those to no item stored are the first."""
        left_out = NameFile(self.folder, LEFT_OUT)
        return (*left_out.read(0, len(left_out)).to_pylist(), *self.names_at(self.unanswered))

    def everybody(self) -> Iterator[ResponseMatrix]:
        """All respondents, some at a time, and last those who have no response to any item stored."""
        yield from self.parts()
        left_out = NameFile(self.folder, LEFT_OUT)
        for start in range(0, len(left_out), self.at_once):
            ids = tuple(left_out.read(start, min(start + self.at_once, len(left_out))).to_pylist())
            nothing = np.full((len(ids), self.n_items), MISSING, dtype=np.int8)
            yield ResponseMatrix.from_coded(nothing, ids, self.item_ids)

    @property
    def content_hash(self) -> str:
        """Hash of the record of what is stored, and of what of it is wanted."""
        record = (self.folder / STATE).read_bytes()
        return hash_of(record, self.item_ids, self.places, self.n_by_item, self.n_correct_by_item)

    def select_items(self, item_ids: Sequence[str]) -> Self:
        """Keep these items, in this order; one that is not stored is an `InputError`."""
        positions_of(item_ids, self.item_ids)
        return self.with_items(item_ids)

    def with_items(self, item_ids: Sequence[str]) -> Self:
        """These items, in this order; to those that are not stored nobody has a response."""
        if tuple(item_ids) == self.item_ids:
            return self
        position = {item: k for k, item in enumerate(self.item_ids)}
        own = np.array([position.get(item, -1) for item in item_ids], dtype=np.intp)
        columns = np.arange(self.width) if self.columns is None else self.columns
        return replace(
            self,
            item_ids=tuple(item_ids),
            n_by_item=np.where(own < 0, 0, self.n_by_item[own]),
            n_correct_by_item=np.where(own < 0, 0, self.n_correct_by_item[own]),
            columns=np.where(own < 0, -1, columns[own]),
            n_columns=self.width,
        )

    def select_respondents(self, keep: NDArray[np.bool_]) -> Self:
        """Keep the respondents where ``keep`` (shape (n_respondents,)) is true.

        Responses are counted anew, in one pass, unless none is left out.
        """
        if keep.all():
            return self
        chosen = replace(self, places=self._stored_at(np.flatnonzero(keep)))
        counts = np.zeros((2, self.n_items), dtype=np.int64)
        for block in chosen.blocks():
            counts += (block != MISSING).sum(axis=0), (block == 1).sum(axis=0)
        return replace(chosen, n_by_item=counts[0], n_correct_by_item=counts[1])

    def answered(self) -> Self:
        """Leave out respondents who have no response to any of these items."""
        without = self.unanswered
        if not len(without):
            return self
        own = np.delete(np.arange(self.n_respondents), without)
        return replace(self, places=self._stored_at(own))  # what is left out has no response to count

    def part(self, start: int, stop: int) -> ResponseMatrix:
        """Consecutive respondents as a matrix in memory."""
        return self.sample(np.arange(start, stop))

    def sample(self, respondents: NDArray[np.intp]) -> ResponseMatrix:
        """Some respondents as a matrix in memory, by their places in ascending order."""
        return ResponseMatrix.from_coded(self.at(respondents), self.names_at(respondents), self.item_ids)

    def _stored(self, start: int, stop: int) -> NDArray[np.int8]:
        width, count = self.width, (stop - start) * self.width
        found = np.fromfile(self.folder / RESPONSES, dtype=np.int8, count=count, offset=start * width)
        if len(found) < count:
            raise InputError(f"cache {self.folder}: {RESPONSES} was cut off while it was read; expected it to stay")
        return found.reshape(stop - start, width)


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredScores(StoredResponses):
    """Scores in categories in a folder, one of a respondent to an item; a byte is a place among the levels.

    Parameters
    ----------
    levels
        All scores in their order, the lowest first.
    n_by_level
        How often each was given to each item, shape (n_items, n_levels).
    given
        Which of them are the item's categories, of the same shape.
    """

    levels: tuple[Any, ...]
    n_by_level: NDArray[np.int64]
    given: NDArray[np.bool_]

    in_categories: ClassVar[bool] = True

    @classmethod
    def of(cls, stored: StoredResponses, levels: Sequence[Any]) -> StoredScores:
        """Those of a folder, counted in one pass; an item's categories are the levels that it was given."""
        n = count_levels(stored, len(levels))
        return cls(
            **{one.name: getattr(stored, one.name) for one in fields(stored)},
            levels=tuple(levels),
            n_by_level=n,
            given=n > 0,
        )

    @cached_property
    def categories(self) -> tuple[tuple[Any, ...], ...]:
        """What the codes 0, 1, ... of each item mean."""
        return tuple(tuple(self.levels[k] for k in np.flatnonzero(own)) for own in self.given)

    def sample(self, respondents: NDArray[np.intp]) -> ResponseMatrix:
        """The matrix that is scored: category k of 0, ..., m as k right of m."""
        of_level = np.where(self.given, self.given.cumsum(axis=1) - 1, MISSING)
        of_byte = np.pad(of_level, ((0, 0), (0, 1)), constant_values=MISSING).astype(np.int8)  # -1 is the last column
        codes = of_byte[np.arange(self.n_items), self.at(respondents)]
        steps = np.where(codes == MISSING, 0, self.given.sum(axis=1) - 1)
        return ResponseMatrix.from_coded(codes, self.names_at(respondents), self.item_ids, steps)

    def select_respondents(self, keep: NDArray[np.bool_]) -> Self:
        """Keep the respondents where ``keep`` is true; items and their categories stay as they are."""
        some = super().select_respondents(keep)
        return replace(some, n_by_level=count_levels(some, len(self.levels)))

    def with_items(self, item_ids: Sequence[str]) -> Self:
        """These items, in this order, all of which are stored."""
        own = positions_of(item_ids, self.item_ids)
        return replace(super().with_items(item_ids), n_by_level=self.n_by_level[own], given=self.given[own])

    def table(self) -> pd.DataFrame:
        """How often each level was given to each item: columns ``item_id, level, n``, a row an item's category."""
        item, level = np.nonzero(self.given)
        names, scores = np.array(self.item_ids, dtype=object), np.array(self.levels, dtype=object)
        return pd.DataFrame(
            {"item_id": names[item], "level": scores[level], "n": self.n_by_level[item, level]}
        ).infer_objects()


def count_levels(stored: StoredResponses, n_levels: int) -> NDArray[np.int64]:
    """How often each byte is in each column, shape (n_items, n_levels)."""
    found = np.zeros((stored.n_items, n_levels), dtype=np.int64)
    for block in stored.blocks():
        found += np.stack([(block == k).sum(axis=0) for k in range(n_levels)], axis=1)
    return found
