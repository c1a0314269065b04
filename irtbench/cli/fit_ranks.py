"""``irtbench fit`` in several processes: what all but the first of them do, and what it shares with them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from irtbench.cli.large import cache_folder, choice_of
from irtbench.data.input_error import InputError

if TYPE_CHECKING:
    import pandas as pd

    from irtbench.bank.bank import ItemBank
    from irtbench.bank.scale import Scale
    from irtbench.cli.reading import Reading
    from irtbench.data.readers.large_table import LargeTable
    from irtbench.data.stored_responses import StoredResponses
    from irtbench.estimation.distributed.ranks import Ranks
    from irtbench.scoring.scores import ScoringSettings

SCORES = "scores"  # folder of scores that are finished, in that of the responses


def demand_stored(table: LargeTable | None, file: Path, cache: Path | None, ranks: Ranks) -> LargeTable:
    """Refuse what several processes do not fit.

    Raises
    ------
    InputError
        If there is no table to encode on disk, or it would be in a folder that not all processes see.
    """
    if table is None:
        file.stat()  # a file that is not there is the first thing to say
        raise InputError(
            f"{file}: several processes fit a Parquet table, wide or long, with options that need no response in "
            "memory; expected one, or a single process"
        )
    if cache is None and not ranks.on_one_machine:
        raise InputError("--cache: processes on several machines need a folder that all of them see; expected one")
    return table


@contextmanager
def shared_responses(
    table: LargeTable,
    reading: Reading,
    cache: Path | None,
    progress: Callable[[str], None],
    ranks: Ranks,
    *,
    remove_cache: bool,
) -> Iterator[StoredResponses]:
    """The responses encoded on disk: the first process encodes them, or takes what is there, and the others follow.

    With a cache the sums of every pass are kept in it until the block ends well.
    """
    from irtbench.data.readers.encode import encode_table
    from irtbench.data.response_store import ResponseStore, unchanged

    if not ranks.is_first:
        stored = ResponseStore.of_this_run(Path(ranks.told_text("")))
        if cache is not None:
            ranks.keep_passes(stored)
        yield stored
        ranks.wait_for_all()
        return
    with cache_folder(cache, table, remove=remove_cache) as folder:
        stored = encode_table(table, folder, choice_of(reading), progress=progress)
        ranks.told_text(str(folder.resolve()))
        if cache is not None:
            ranks.keep_passes(stored)
        with unchanged(stored):
            yield stored
        ranks.wait_for_all()
        if ranks.kept is not None:
            ranks.kept.remove()


def score_together(
    bank: ItemBank | Scale,
    data: StoredResponses,
    file: Path,
    progress: Callable[[str], None],
    ranks: Ranks,
    settings: ScoringSettings | None = None,
    *,
    before: pd.DataFrame | None = None,
    columns: Sequence[str] | None = None,
    role: str = "",
) -> None:
    """Score all respondents, a part after the other by whichever process is free; the first joins the parts to a file.

    Parts that an earlier run has left in the cache are taken as they are. See `score_stored` and `score_parts`.
    """
    from irtbench.bank.bank import ItemBank
    from irtbench.data.readers.wide_parts import ROWS
    from irtbench.scoring.bulk import score_parts, score_stored
    from irtbench.scoring.kept_scores import KeptScores
    from irtbench.scoring.scores import scales_of

    identity = {
        "bank": ItemBank(scales_of(bank)).content_hash, "n": data.n_respondents, "rows": ROWS, "file": file.suffix,
        "settings": repr(settings), "columns": columns, "role": role,
        "respondents": None if data.places is None else hashlib.sha256(data.places.tobytes()).hexdigest(),
    }  # fmt: skip
    kept = None
    for one in (True, False):  # the first makes the folder before the others look into it
        if ranks.is_first == one:
            kept = KeptScores(data.folder / SCORES, identity)
        ranks.wait_for_all()
    assert kept is not None
    numbers = iter(lambda: ranks.next_of(SCORES), None)
    score_parts(bank, data, file, numbers, kept, settings, columns=columns, role=role)
    ranks.wait_for_all()
    if ranks.is_first:
        score_stored(bank, data, file, settings, kept=kept, before=before, role=role, progress=progress)
        kept.folder.rmdir()
