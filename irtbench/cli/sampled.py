"""Responses of a table too large for memory for commands that need them together: a random sample of respondents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from irtbench.cli.large import cache_folder, choice_of, large_table

if TYPE_CHECKING:
    from irtbench.cli.reading import Reading
    from irtbench.data.respondent_sample import Sampled
    from irtbench.data.responses import ResponseMatrix


def matrix_or_sample(
    file: Path,
    reading: Reading,
    cache: Path | None,
    most: int,
    seed: int,
    progress: Callable[[str], None],
    allow_address: Sequence[str] = (),
) -> tuple[ResponseMatrix, Sampled | None]:
    """All responses of a file or, of a table that is encoded on disk, those of as many respondents drawn at random.

    Parameters
    ----------
    file, reading
        What to read.
    cache
        Where such a table is, or is to be, encoded; None for a temporary folder.
    most
        Number of respondents of the sample.
    seed
        Of the random numbers.
    progress
        Called with a line now and then.
    allow_address
        Beginnings of addresses that are read besides those that are read anyway.
    """
    table = large_table(file, reading, allow_address=allow_address)
    if table is None:
        return reading.matrix(file), None
    from irtbench.data.readers.encode import encode_table
    from irtbench.data.respondent_sample import draw_respondents
    from irtbench.data.response_store import unchanged

    with cache_folder(cache, table) as folder:
        stored = encode_table(table, folder, choice_of(reading), progress=progress)
        with unchanged(stored):
            drawn, places = draw_respondents(stored.n_respondents, most, seed)
            return (stored.to_matrix(), None) if drawn.is_all else (stored.sample(places), drawn)
