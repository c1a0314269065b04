"""The responses that ``irtbench fit`` is given: in memory, or encoded on disk, where several processes share them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from irtbench.cli.large import demand_shared, encoded
from irtbench.cli.loading import ESTIMATION, loading_beside

if TYPE_CHECKING:
    from irtbench.cli.reading import Reading
    from irtbench.data.readers.large_table import LargeTable
    from irtbench.data.stored_responses import AnyResponses
    from irtbench.estimation.distributed.ranks import Ranks


@contextmanager
def given_responses(
    file: Path,
    table: LargeTable | None,
    reading: Reading,
    cache: Path | None,
    progress: Callable[[str], None],
    ranks: Ranks | None = None,
    *,
    remove_cache: bool,
) -> Iterator[AnyResponses]:
    """The responses: in memory or, of a large table, encoded on disk, where they stay while the block runs.

    Of several processes the first encodes them, or takes what is there, and the others follow. With a cache the sums
    of every pass are kept in it until the block ends well.
    """
    if ranks is not None:
        if table is None:
            file.stat()  # a file that is not there is the first thing to say
        demand_shared(
            file, "fit a Parquet table, wide or long, with options that need no response", table, cache, ranks
        )
    if table is None:
        with loading_beside(file, ESTIMATION):
            given = reading.response_matrix(file)
        yield given
        return
    if ranks is None:
        with encoded(table, reading, cache, progress, remove=remove_cache) as stored:
            yield stored
        return
    from irtbench.data.response_store import ResponseStore

    with ExitStack() as stack:
        if ranks.is_first:
            stored = stack.enter_context(encoded(table, reading, cache, progress, remove=remove_cache))
            ranks.told_text(str(stored.folder.resolve()))
        else:
            stored = ResponseStore.of_this_run(Path(ranks.told_text("")))
        if cache is not None:
            ranks.keep_passes(stored)
        yield stored
        ranks.wait_for_all()
        if ranks.is_first and ranks.kept is not None:
            ranks.kept.remove()
