"""Some respondents at a time: blocks of all of them, from memory, disk or a table, or a sample drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from irtbench.data.responses import ResponseMatrix, Responses

ROWS = 2**15  # respondents of a block

#: A block that is yet to be made of what was read, in whichever thread; what is wrong in it is raised then.
Unmade = Callable[[], ResponseMatrix]


@dataclass(frozen=True)
class Blocks:
    """Responses of some respondents after the other.

    Parameters
    ----------
    pieces
        Each gives its blocks, in their order, as often as it is asked, and is one process's work at a time.
    n_respondents
        How many there are; None where only the last block tells.
    distinct
        Whether names of respondents are known to differ.
    identity
        Gives all that they depend on: plain JSON values.
    """

    pieces: Sequence[Callable[[], Iterator[Unmade]]]
    n_respondents: int | None = None
    distinct: bool = True
    identity: Callable[[], Mapping[str, Any]] = dict


def blocks_of(responses: Responses) -> Blocks:
    """Responses in memory or on disk, each block a piece."""
    n = responses.n_respondents

    def block(start: int) -> Iterator[Unmade]:
        yield partial(responses.part, start, min(start + ROWS, n))

    return Blocks([partial(block, start) for start in range(0, n, ROWS)], n)


MOST_RESPONDENTS = 20_000  # of a table too large for memory, unless another number is given
RESPONSES_TO_AN_ITEM = 2_000  # by which items leave: tests of fit by many more find departures that do not matter

NEARLY_ALL = 1.5  # times the sample wanted: up to so many respondents are taken all


@dataclass(frozen=True)
class Sampled:
    """Of how many respondents a sample was drawn.

    Parameters
    ----------
    n, of
        Respondents drawn, and of how many.
    seed
        Of the random numbers.
    """

    n: int
    of: int
    seed: int

    def __str__(self) -> str:
        return f"{self.n} respondents, drawn at random of {self.of} (seed {self.seed})"

    @property
    def is_all(self) -> bool:
        """Whether nobody is left out."""
        return self.n == self.of

    @property
    def stated(self) -> dict[str, int]:
        """What files of results say of it; nothing where nobody is left out."""
        return {} if self.is_all else {"sampled_from": self.of, "sample_seed": self.seed}


def enough_to_prune(responses: Responses) -> int:
    """As many respondents as give an item so many responses on average, at most as many as are drawn of any table.

    All of them where there are hardly more.

    Examples
    --------
    With half of the responses missing twice as many as with none:

    >>> import numpy as np
    >>> from pathlib import Path
    >>> from irtbench.data.stored_responses import StoredResponses
    >>> half = StoredResponses(Path(), 100_000, ("one", "two"), np.full(2, 50_000), np.full(2, 20_000))
    >>> enough_to_prune(half)
    4000
    """
    cells, n = responses.n_respondents * responses.n_items, responses.n_respondents
    wanted = min(MOST_RESPONDENTS, -(-RESPONSES_TO_AN_ITEM * cells // max(1, responses.n_responses)))
    return n if n <= NEARLY_ALL * wanted else wanted


def draw_respondents(of: int, most: int, seed: int) -> tuple[Sampled, NDArray[np.intp]]:
    """At most so many respondents, all alike likely, and their places in ascending order."""
    if of <= most:
        return Sampled(of, of, seed), np.arange(of)
    places = np.sort(np.random.default_rng(seed).choice(of, most, replace=False, shuffle=False))
    return Sampled(most, of, seed), places


def some_respondents(responses: Responses, most: int | None, seed: int) -> tuple[Sampled, ResponseMatrix]:
    """At most so many respondents in memory, see `draw_respondents`; all where there is no limit."""
    n = responses.n_respondents
    drawn, places = draw_respondents(n, n if most is None else most, seed)
    if drawn.is_all:
        return drawn, responses.to_matrix()
    return drawn, responses.sample(places)
