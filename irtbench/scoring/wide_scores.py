"""Scores of a wide table, which a stopped run may have begun and several processes may share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from irtbench.bank.bank import ItemBank
from irtbench.data.grading import GradingSettings
from irtbench.data.input_error import InputError
from irtbench.data.readers.wide_parts import ROWS, WideTable, read_wide_parts
from irtbench.scoring.kept_scores import KeptScores
from irtbench.scoring.part_scores import PartScorer, write_parts
from irtbench.scoring.scores import ScoringSettings, grading_of
from irtbench.scoring.scores_file import ScoresFile

NOT_TOGETHER = "several processes score a wide Parquet table; expected one, or a single process"


class Processes(Protocol):
    """What one of several processes that score a table together knows of the others, as `Ranks` of torchrun does."""

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes the file."""

    def next_of(self, what: str) -> int:
        """Numbers from 0, each handed out once to whichever process asks."""

    def wait_for_all(self) -> None:
        """Go on when all processes have come here."""


def score_wide(
    bank: ItemBank,
    table: WideTable,
    settings: ScoringSettings,
    grading: GradingSettings | None,
    target: str | Path,
    unfinished: Path | None,
    progress: Callable[[str], None],
    together: Processes | None,
) -> int:
    """Score a wide table into a file, with others if there are any, and say how many respondents it holds.

    Raises
    ------
    InputError
        If several processes are to score a table that is not Parquet, or have no folder for finished parts.
    """
    parquet = all(file.separator is None for file in table.files)
    if together is None:
        kept = None
        if unfinished is not None and parquet:
            kept = KeptScores(unfinished, identity_of(bank, table, target, settings, grading))
        return write_parts(bank, table.items, settings, table.parts, target, progress, kept)
    if not parquet or unfinished is None:
        raise InputError(f"file {table.files[0].path}: {NOT_TOGETHER}")
    kept = score_pieces(bank, table, settings, grading, target, unfinished, together)
    n = sum(sum(file.group_rows) for file in table.files)
    return (
        write_parts(bank, table.items, settings, table.parts, target, progress, kept, of=n) if together.is_first else n
    )


def score_pieces(
    bank: ItemBank,
    table: WideTable,
    settings: ScoringSettings,
    grading: GradingSettings | None,
    target: str | Path,
    unfinished: Path,
    together: Processes,
) -> KeptScores:
    """Scores of all rows, each piece by whichever process is free."""
    pieces = table.pieces()
    identity = identity_of(bank, table, target, settings, grading) | {"pieces": len(pieces)}
    for first in (True, False):  # the first makes the folder before the others look into it
        if together.is_first == first:
            kept = KeptScores(unfinished, identity)
        together.wait_for_all()
    scorer, file = PartScorer(bank, table.items, settings), ScoresFile(target)
    for number in iter(lambda: together.next_of("pieces of scores"), None):
        if number >= len(pieces):
            break
        if kept.has(number):
            continue
        source, groups = pieces[number]
        done = [file.rows_of(scorer(part())) for part in read_wide_parts(table, source, groups=groups)]
        if done:
            scores = pa.concat_tables([done[0], *(each.cast(done[0].schema) for each in done[1:])])
            kept.put(number, scores, len(scores) // len(bank.scales))
    together.wait_for_all()
    return kept


def identity_of(
    bank: ItemBank,
    table: WideTable,
    target: str | Path,
    settings: ScoringSettings,
    grading: GradingSettings | None,
) -> dict[str, Any]:
    """All that scores of a wide table depend on."""
    return {
        "files": [file.identity for file in table.files],
        "bank": bank.content_hash,
        "columns": [table.respondent, *table.items],
        "settings": repr(settings),
        "grading": None if table.keys is None else repr(grading or grading_of(bank)),
        "target": "".join(Path(target).suffixes),
        "rows": ROWS,
    }
