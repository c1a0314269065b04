"""Responses of some respondents after the other: blocks of them from memory, from disk, or from a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from irtbench.data.responses import ResponseMatrix, Responses
from irtbench.data.stored_scores import StoredScores

ROWS = 2**15  # respondents of a block

#: A block that is yet to be made of what was read, in whichever thread; what is wrong in it is told then.
Unmade = Callable[[], ResponseMatrix]


@dataclass(frozen=True)
class Blocks:
    """Responses of some respondents after the other.

    Parameters
    ----------
    item_ids
        Items of the columns.
    pieces
        Each gives its blocks, in their order, as often as it is asked, and is one process's work at a time.
    n_respondents
        How many there are; None where only the last block tells.
    distinct
        Whether names of respondents are known to differ.
    identity
        Gives all that they depend on: plain JSON values.
    """

    item_ids: Sequence[str]
    pieces: Sequence[Callable[[], Iterator[Unmade]]]
    n_respondents: int | None = None
    distinct: bool = True
    identity: Callable[[], Mapping[str, Any]] = dict


def blocks_of(responses: Responses | StoredScores) -> Blocks:
    """Responses in memory or on disk, each block a piece."""
    n = responses.n_respondents

    def block(start: int) -> Iterator[Unmade]:
        yield partial(responses.part, start, min(start + ROWS, n))

    return Blocks(responses.item_ids, [partial(block, start) for start in range(0, n, ROWS)], n)
