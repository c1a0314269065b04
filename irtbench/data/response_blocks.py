"""Some respondents at a time: blocks of all of them, from memory, disk or a table, or a sample drawn at random."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
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
    return drawn, responses.to_matrix() if drawn.is_all else responses.sample(places)


ROWS_READ = 2**20  # at a time
SORTING_MEMORY = "1GB"
SORTING_THREADS = 2


def in_order(rows: Iterator[pa.RecordBatch], schema: pa.Schema, folder: Path, place: str) -> Iterator[pa.RecordBatch]:
    """The same rows, ordered by their first two columns; `folder` is made, and removed at the end.

    What is wrong with the rows, and a signal that comes while they are sorted, is raised as it is.
    """
    import duckdb

    failed: list[BaseException] = []

    def checked() -> Iterator[pa.RecordBatch]:
        try:
            yield from rows
        except BaseException as error:  # a signal's too, of which DuckDB would make another
            failed.append(error)
            raise

    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": SORTING_MEMORY, "threads": SORTING_THREADS, "temp_directory": str(folder),
    }  # fmt: skip
    try:
        with duckdb.connect(config=config) as connection:
            connection.register("given", pa.RecordBatchReader.from_batches(schema, checked()))
            yield from connection.sql(f"SELECT * FROM given ORDER BY {', '.join(schema.names[:2])}").to_arrow_reader(
                ROWS_READ
            )
    except duckdb.Error as error:
        if failed:
            raise failed[0] from None
        raise InputError(f"{place}: its rows cannot be brought into order ({error})") from None
    except RuntimeError as error:
        if "interrupted" not in str(error):
            raise
        raise KeyboardInterrupt from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class SeenNames:
    """Names by their hashes of 64 bits, eight bytes each."""

    def __init__(self) -> None:
        self._parts = [np.empty(0, dtype=np.uint64)]

    def add(self, names: Sequence[str]) -> None:
        """Add names."""
        self._parts.append(hashes_of(names))

    def alike(self) -> NDArray[np.uint64]:
        """The hashes that two names or more have, ascending."""
        self._parts = [np.concatenate(self._parts)]
        hashes = self._parts[0]
        hashes.sort()
        return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])

    def repeated(self, again: Iterable[Sequence[str]]) -> str | None:
        """A name that was added twice; those of one hash, of the names when they are read again, are compared."""
        alike, found = self.alike(), set[str]()
        for names in again if alike.size else ():
            for place in np.flatnonzero(np.isin(hashes_of(names), alike)).tolist():
                if names[place] in found:
                    return names[place]
                found.add(names[place])
        return None


def hashes_of(names: Sequence[str]) -> NDArray[np.uint64]:
    """Hashes of names."""
    found: NDArray[np.uint64] = pd.util.hash_array(np.array(names, dtype=object), categorize=False)
    return found
