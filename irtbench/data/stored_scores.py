"""Scores in categories encoded on disk, a byte each: what the bytes stand for, and which of them an item has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.coded_responses import MISSING
from irtbench.data.responses import ResponseMatrix
from irtbench.data.shown import Shown, counted
from irtbench.data.stored_responses import StoredResponses


@dataclass(frozen=True, eq=False)
class StoredScores(Shown):
    """Scores in a folder, one of a respondent to an item.

    Parameters
    ----------
    coded
        The folder; a byte is a place among the levels, -1 where missing.
    levels
        All scores in their order, the lowest first.
    n_by_level
        How often each was given to each item, shape (n_items, n_levels).
    given
        Which of them are the item's categories, of the same shape.
    """

    coded: StoredResponses
    levels: tuple[Any, ...]
    n_by_level: NDArray[np.int64]
    given: NDArray[np.bool_]

    @classmethod
    def of(cls, coded: StoredResponses, levels: Sequence[Any]) -> StoredScores:
        """Those of a folder, counted in one pass; an item's categories are the levels that it was given."""
        n = count_levels(coded, len(levels))
        return cls(coded, tuple(levels), n, n > 0)

    @property
    def item_ids(self) -> tuple[str, ...]:
        """Names of the items."""
        return self.coded.item_ids

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.coded.n_items

    @property
    def n_respondents(self) -> int:
        """Number of respondents."""
        return self.coded.n_respondents

    @property
    def n_by_item(self) -> NDArray[np.int64]:
        """Responses to each item, shape (n_items,)."""
        return self.coded.n_by_item

    @cached_property
    def categories(self) -> tuple[tuple[Any, ...], ...]:
        """What the codes 0, 1, ... of each item stand for."""
        return tuple(tuple(self.levels[k] for k in np.flatnonzero(own)) for own in self.given)

    @property
    def unanswered(self) -> list[str]:
        """Respondents without any response."""
        return [self.coded.name_of(int(i)) for i in self.coded.unanswered]

    @cached_property
    def _code(self) -> NDArray[np.int8]:
        """Of each byte, and of -1 in the last column: the place among the item's categories."""
        codes = np.where(self.given, self.given.cumsum(axis=1) - 1, MISSING)
        return np.pad(codes, ((0, 0), (0, 1)), constant_values=MISSING).astype(np.int8)

    def matrix_of(self, rows: NDArray[np.int8], respondent_ids: Sequence[str]) -> ResponseMatrix:
        """Rows of bytes as the matrix that is scored: category k of 0, ..., m as k right of m."""
        codes = self._code[np.arange(self.n_items), rows]
        steps = np.where(codes == MISSING, 0, self.given.sum(axis=1) - 1)
        return ResponseMatrix.from_coded(codes, tuple(respondent_ids), self.item_ids, steps)

    def part(self, start: int, stop: int) -> ResponseMatrix:
        """The same of consecutive respondents."""
        return self.matrix_of(self.coded.rows(start, stop), self.coded.names(start, stop))

    def sample(self, respondents: NDArray[np.intp]) -> ResponseMatrix:
        """The same of some respondents, by their places in ascending order, which are their names."""
        return self.matrix_of(self.coded.at(respondents), [*map(str, respondents)])

    def answered(self) -> StoredScores:
        """Leave out respondents who have no response to any of these items."""
        return replace(self, coded=self.coded.answered())

    def where(self, kept: NDArray[np.bool_]) -> StoredScores:
        """Some of the respondents, the items and their categories as they are."""
        some = self.coded.select_respondents(kept)
        return replace(self, coded=some, n_by_level=count_levels(some, len(self.levels)))

    def select_items(self, item_ids: Sequence[str]) -> StoredScores:
        """Keep these items, in this order.

        Raises
        ------
        InputError
            If an item is not among those stored.
        """
        places = {item: j for j, item in enumerate(self.item_ids)}
        some = self.coded.select_items(item_ids)
        own = [places[item] for item in item_ids]
        return replace(self, coded=some, n_by_level=self.n_by_level[own], given=self.given[own])

    def table(self) -> pd.DataFrame:
        """How often each level was given to each item: columns ``item_id, level, n``, a row an item's category."""
        item, level = np.nonzero(self.given)
        names, scores = np.array(self.item_ids, dtype=object), np.array(self.levels, dtype=object)
        return pd.DataFrame(
            {"item_id": names[item], "level": scores[level], "n": self.n_by_level[item, level]}
        ).infer_objects()

    def in_short(self) -> str:
        """Size, share observed and number of levels."""
        size = f"{counted(self.n_respondents, 'respondent')} x {counted(self.n_items, 'item')}"
        observed = self.coded.n_responses / (self.n_respondents * self.n_items)
        return f"{size}, {observed:.0%} observed, {counted(len(self.levels), 'level')}"


def count_levels(coded: StoredResponses, n_levels: int) -> NDArray[np.int64]:
    """How often each byte stands in each column, shape (n_items, n_levels)."""
    found = np.zeros((coded.n_items, n_levels), dtype=np.int64)
    for block in coded.blocks():
        found += np.stack([(block == k).sum(axis=0) for k in range(n_levels)], axis=1)
    return found
