"""Scores of blocks of respondents, several of which are worked on at once, in the order of their rows.

What is scored part by part, a table or responses on disk, is a source of `Blocks`; scores are written by one process,
or by several of which each takes the next piece.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa
from threadpoolctl import threadpool_limits

from irtbench.bank.bank import ItemBank
from irtbench.data.input_error import InputError
from irtbench.data.readers.batches import TextAmongNumbers
from irtbench.data.readers.part_values import without_guards
from irtbench.data.readers.seen_names import SeenNames
from irtbench.data.readers.wide_parts import ROWS, Part, UnmadePart
from irtbench.scoring.kept_scores import KeptScores
from irtbench.scoring.scores import ScoringSettings, goes_by_grid, in_order_of_respondents, score_responses
from irtbench.scoring.scores_file import ScoresFile
from irtbench.scoring.shared_grid import SharedGridScorer

WORKERS = max(2, min(8, os.cpu_count() or 1))


class Processes(Protocol):
    """What one of several processes that score together knows of the others, as `Ranks` of torchrun does."""

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes the file."""

    def next_of(self, what: str) -> int:
        """Numbers from 0, each handed out once to whichever process asks."""

    def wait_for_all(self) -> None:
        """Go on when all processes have come here."""


@dataclass(frozen=True)
class Blocks:
    """Responses of some respondents after the other.

    Parameters
    ----------
    items
        Items of the columns.
    parts
        Those behind the first so many respondents; the names of respondents in a table are added to those seen.
    pieces
        The same parts as shares, each one process's work at a time; empty where one process alone can read them.
    n_respondents
        How many there are; None where only the last part tells.
    identity
        Gives all that they depend on: plain JSON values.
    """

    items: Sequence[str]
    parts: Callable[[int, SeenNames], Iterator[UnmadePart]]
    pieces: Sequence[Callable[[], Iterable[UnmadePart]]] = ()
    n_respondents: int | None = None
    identity: Callable[[], Mapping[str, Any]] = dict


def as_scored(scores: pd.DataFrame) -> pd.DataFrame:
    """Scores as they are."""
    return scores


@dataclass(frozen=True)
class ScoresWanted:
    """What the scores of blocks are written into, and with what beside them.

    Parameters
    ----------
    target
        The file.
    before
        Rows that go first.
    finish
        What is done to the scores of each part.
    unfinished
        A folder for scores of finished parts, which a run that was stopped leaves there; None to begin anew.
    """

    target: str | Path
    before: pd.DataFrame | None = None
    finish: Callable[[pd.DataFrame], pd.DataFrame] = as_scored
    unfinished: Path | None = None


class PartScorer:
    """Scores of one part of a table after the other.

    Parameters
    ----------
    bank
        The scales.
    items
        Items of the columns.
    settings
        Estimator, norm and level.
    """

    def __init__(self, bank: ItemBank, items: Sequence[str], settings: ScoringSettings) -> None:
        self.bank, self.items, self.settings = bank, items, settings
        shares_grid = goes_by_grid(bank.scales, settings)
        self.scorers = [SharedGridScorer(scale, items, settings) for scale in bank.scales] if shares_grid else []

    def __call__(self, part: Part) -> pd.DataFrame:
        """Rows of scores.csv."""
        single = part.trials is None or bool((part.trials <= 1).all())
        if self.scorers and single:
            tables = [scorer.score(part.values, part.respondent_ids) for scorer in self.scorers]
            scores = tables[0] if len(tables) == 1 else in_order_of_respondents(tables)
        else:  # a grid shared by all patterns would have to be fine enough for any number of trials
            scores = score_responses(self.bank, part.matrix(self.items), self.settings)
        if part.trials is not None and "n_trials" not in scores:
            scores["n_trials"] = scores["n_items"]  # the columns of all parts are the same
        return scores


def score_blocks(
    bank: ItemBank,
    blocks: Blocks,
    settings: ScoringSettings,
    wanted: ScoresWanted,
    progress: Callable[[str], None],
    together: Processes | None = None,
) -> int:
    """Score blocks into a file, with other processes if there are any, and say how many respondents they are of."""
    kept = None
    if wanted.unfinished is not None:
        kept = _kept_by_all(bank, blocks, settings, wanted, together)
    if together is not None and not together.is_first:
        return blocks.n_respondents or 0
    return _write(PartScorer(bank, blocks.items, settings), blocks, wanted, progress, kept)


def _kept_by_all(
    bank: ItemBank, blocks: Blocks, settings: ScoringSettings, wanted: ScoresWanted, together: Processes | None
) -> KeptScores:
    """Scores that are kept: of several processes those of all pieces, each by whichever process is free."""
    assert wanted.unfinished is not None
    identity = {
        **blocks.identity(), "bank": bank.content_hash, "settings": repr(settings), "rows": ROWS,
        "target": "".join(Path(wanted.target).suffixes),
    }  # fmt: skip
    if together is None:
        return KeptScores(wanted.unfinished, identity)
    for first in (True, False):  # the first makes the folder before the others look into it
        if together.is_first == first:
            kept = KeptScores(wanted.unfinished, identity | {"pieces": len(blocks.pieces)})
        together.wait_for_all()
    scorer, file = PartScorer(bank, blocks.items, settings), ScoresFile(wanted.target)
    for number in iter(lambda: together.next_of("pieces of scores"), None):
        if number >= len(blocks.pieces):
            break
        if kept.has(number):
            continue
        done = [file.rows_of(wanted.finish(scorer(part()))) for part in blocks.pieces[number]()]
        if done:
            scores = pa.concat_tables([done[0], *(each.cast(done[0].schema) for each in done[1:])])
            kept.put(number, scores, len(scores) // len(bank.scales))
    together.wait_for_all()
    return kept


def _write(
    scorer: PartScorer,
    blocks: Blocks,
    wanted: ScoresWanted,
    progress: Callable[[str], None],
    kept: KeptScores | None,
) -> int:
    """Score the parts behind those that are kept into the file, and say how many respondents all are of."""
    n, n_parts, n_scales = 0, 0, len(scorer.bank.scales)
    beside, of = Path(wanted.target).parent, "" if blocks.n_respondents is None else f" of {blocks.n_respondents}"
    try:
        with SeenNames(beside) as seen, ScoresFile(wanted.target) as file:

            def score(number: int, part: UnmadePart) -> pa.Table:
                whole = part()
                table = file.rows_of(wanted.finish(scorer(whole)))
                if kept is not None:
                    kept.put(number, table, len(whole.respondent_ids))
                return table

            if wanted.before is not None:
                file.write(file.rows_of(wanted.before))
            for table, n_rows in kept.tables() if kept is not None else ():
                names = without_guards(table.column("respondent_id").combine_chunks())
                if (twice := seen.add(names.to_pylist()[::n_scales])) is not None:
                    raise InputError(f"responses: respondent {twice} comes twice; expected a row for each")
                file.write(table)
                n, n_parts = n + n_rows, n_parts + 1
                progress(f"{n} respondents scored before")
            calls = (partial(score, number, part) for number, part in enumerate(blocks.parts(n, seen), n_parts))
            for table in in_turn(calls):
                file.write(table)
                n += len(table) // n_scales
                progress(f"{n}{of} respondents scored")
            if (repeated := seen.twice()) is not None:
                with SeenNames(beside) as again:
                    names = (name for part in blocks.parts(0, again) for name in part().respondent_ids)
                    twice = next(name for name in names if seen.hashes_of([name])[0] == repeated)
                raise InputError(f"responses: respondent {twice} comes twice; expected a row for each")
        if n == 0:
            raise InputError("responses: no rows; expected at least one respondent")
    except (InputError, TextAmongNumbers):  # what was scored is of no use to a run with other input
        if kept is not None:
            kept.remove()
        raise
    if kept is not None:
        kept.remove()
    return n


def in_turn(calls: Iterator[Callable[[], pa.Table]]) -> Iterator[pa.Table]:
    """Results of calls in their order, a few of which are worked on at a time."""
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(WORKERS) as pool:
        waiting: deque[Future[pa.Table]] = deque()
        for call in calls:
            waiting.append(pool.submit(call))
            if len(waiting) > WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
