"""Scores of blocks of respondents, several of which are worked on at once, in the order of their rows.

Scores are written by one process, or made by several of which each takes the next piece.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Protocol

import pandas as pd
import pyarrow as pa
from threadpoolctl import threadpool_limits

from irtbench.bank.bank import ItemBank
from irtbench.data import response_blocks
from irtbench.data.input_error import InputError
from irtbench.data.readers.batches import TextAmongNumbers
from irtbench.data.readers.part_values import without_guards
from irtbench.data.readers.row_order import SeenNames
from irtbench.data.response_blocks import Blocks, Unmade
from irtbench.data.responses import ResponseMatrix
from irtbench.scoring.kept_scores import KeptScores
from irtbench.scoring.scores import ScoringSettings, score_responses
from irtbench.scoring.scores_file import ScoresFile

END = pa.table({"end": pa.array([], pa.bool_())})  # behind the blocks of a piece
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
        A folder for scores of finished blocks, which a run that was stopped leaves there; None to begin anew.
    trials
        Whether there may be several trials of an item.
    """

    target: str | Path
    before: pd.DataFrame | None = None
    finish: Callable[[pd.DataFrame], pd.DataFrame] = as_scored
    unfinished: Path | None = None
    trials: bool = False


class BlockScorer:
    """Scores of one block of respondents after the other.

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

    def __call__(self, block: ResponseMatrix) -> pd.DataFrame:
        """Rows of scores.csv."""
        return score_responses(self.bank, block, self.settings)


@dataclass(frozen=True)
class BlockScores:
    """Scores of blocks on their way into a file, and those that an earlier run has kept."""

    scorer: BlockScorer
    blocks: Blocks
    wanted: ScoresWanted
    file: ScoresFile
    kept: KeptScores | None

    def of(self, piece: int, number: int, block: Unmade) -> pa.Table:
        """The scores of a block, kept if they are to be."""
        scores = self.kept.get(piece, number) if self.kept is not None else None
        if scores is None:
            table = self.scorer(block())
            if self.wanted.trials and "n_trials" not in table:
                table["n_trials"] = table["n_items"]  # the columns of all blocks are the same
            scores = self.file.rows_of(self.wanted.finish(table))
            if self.kept is not None:
                self.kept.put(piece, number, scores)
        return scores

    def calls(self, pieces: Iterable[int]) -> Iterator[Callable[[], pa.Table]]:
        """What gives the scores of the blocks of these pieces, in order; pieces that are kept whole are not read."""
        for piece in pieces:
            n_kept = 0
            while self.kept is not None and (scores := self.kept.get(piece, n_kept)) is not None:
                if len(scores) == 0:
                    break
                n_kept += 1
                yield partial(_as_it_is, scores)
            else:
                number = -1
                for number, block in enumerate(self.blocks.pieces[piece]()):
                    if number >= n_kept:
                        yield partial(self.of, piece, number, block)
                if self.kept is not None:
                    self.kept.put(piece, number + 1, END)

    def share(self, together: Processes) -> None:
        """Score one piece after the other, each by whichever process is free."""
        numbers = iter(partial(together.next_of, "pieces of scores"), None)
        for call in self.calls(takewhile(lambda piece: piece < len(self.blocks.pieces), numbers)):
            call()
        together.wait_for_all()


def score_blocks(
    bank: ItemBank,
    blocks: Blocks,
    settings: ScoringSettings,
    wanted: ScoresWanted,
    progress: Callable[[str], None],
    together: Processes | None = None,
) -> int:
    """Score blocks into a file, with other processes if there are any, and say how many respondents they are of."""
    scorer = BlockScorer(bank, blocks.item_ids, settings)
    kept = None
    if wanted.unfinished is not None:
        identity = {
            **blocks.identity(), "bank": bank.content_hash, "settings": repr(settings), "rows": response_blocks.ROWS,
            "target": "".join(Path(wanted.target).suffixes), "pieces": len(blocks.pieces),
        }  # fmt: skip
        for first in (True, False):  # the first makes the folder before the others look into it
            if together is None or together.is_first == first:
                kept = kept or KeptScores(wanted.unfinished, identity)
            if together is not None:
                together.wait_for_all()
    if together is not None and kept is not None:
        BlockScores(scorer, blocks, wanted, ScoresFile(wanted.target), kept).share(together)
        if not together.is_first:
            return blocks.n_respondents or 0
    try:
        with ScoresFile(wanted.target) as file:
            n = _write(BlockScores(scorer, blocks, wanted, file, kept), progress)
    except (InputError, TextAmongNumbers):  # what was scored is of no use to a run with other input
        if kept is not None:
            kept.remove()
        raise
    if kept is not None:
        kept.remove()
    return n


def _write(scores: BlockScores, progress: Callable[[str], None]) -> int:
    """Write the scores of all blocks, and say how many respondents they are of."""
    blocks, n, n_scales = scores.blocks, 0, len(scores.scorer.bank.scales)
    of = "" if blocks.n_respondents is None else f" of {blocks.n_respondents}"
    if scores.wanted.before is not None:
        scores.file.write(scores.file.rows_of(scores.wanted.before))
    with SeenNames(scores.file.path.parent) as seen:
        for table in in_turn(scores.calls(range(len(blocks.pieces)))):
            if not blocks.distinct:
                seen.add(without_guards(table.column("respondent_id").combine_chunks()).to_pylist()[::n_scales])
            scores.file.write(table)
            n += len(table) // n_scales
            progress(f"{n}{of} respondents scored")
        again = (block().respondent_ids for piece in blocks.pieces for block in piece())
        if (twice := seen.repeated(again)) is not None:
            raise InputError(f"responses: respondent {twice} comes twice; expected a row for each")
    if n == 0:
        raise InputError("responses: no rows; expected at least one respondent")
    return n


def _as_it_is(scores: pa.Table) -> pa.Table:
    return scores


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
