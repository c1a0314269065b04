"""Scores of a table a part at a time, several of which are worked on at once, in the order of its rows."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa
from threadpoolctl import threadpool_limits

from irtbench.bank.bank import ItemBank
from irtbench.data.input_error import InputError
from irtbench.data.readers.batches import TextAmongNumbers, without_guards
from irtbench.data.readers.seen_names import SeenNames
from irtbench.data.readers.wide_parts import Part, UnmadePart
from irtbench.scoring.kept_scores import KeptScores
from irtbench.scoring.scores import ScoringSettings, goes_by_grid, in_order_of_respondents, score_responses
from irtbench.scoring.scores_file import ScoresFile
from irtbench.scoring.shared_grid import SharedGridScorer

WORKERS = max(2, min(8, os.cpu_count() or 1))


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


def write_parts(
    bank: ItemBank,
    items: Sequence[str],
    settings: ScoringSettings,
    parts: Callable[[int, SeenNames], Iterator[UnmadePart]],
    target: str | Path,
    progress: Callable[[str], None],
    kept: KeptScores | None = None,
    *,
    of: int | None = None,
    before: pd.DataFrame | None = None,
    finish: Callable[[pd.DataFrame], pd.DataFrame] = lambda scores: scores,
) -> int:
    """Score the parts behind those that are kept into a file, and say how many respondents they held.

    There are `of` respondents, where that is known. Rows `before` go first; `finish` is done to those of each part.
    """
    scorer = PartScorer(bank, items, settings)
    n, n_parts = 0, 0
    try:
        with SeenNames(Path(target).parent) as seen, ScoresFile(target) as file:

            def score(number: int, part: UnmadePart) -> pa.Table:
                whole = part()
                table = file.rows_of(finish(scorer(whole)))
                if kept is not None:
                    kept.put(number, table, len(whole.respondent_ids))
                return table

            if before is not None:
                file.write(file.rows_of(before))
            for table, n_rows in kept.tables() if kept is not None else ():
                names = without_guards(table.column("respondent_id").combine_chunks())
                if (twice := seen.add(names.to_pylist()[:: len(bank.scales)])) is not None:
                    raise InputError(f"responses: respondent {twice} comes twice; expected a row for each")
                file.write(table)
                n, n_parts = n + n_rows, n_parts + 1
                progress(f"{n} respondents scored before")
            calls = (partial(score, number, part) for number, part in enumerate(parts(n, seen), n_parts))
            for table in in_turn(calls):
                file.write(table)
                n += len(table) // len(bank.scales)
                progress(f"{n} respondents scored" if of is None else f"{n} of {of} respondents scored")
            if (repeated := seen.twice()) is not None:
                with SeenNames(Path(target).parent) as again:
                    names = (name for part in parts(0, again) for name in part().respondent_ids)
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
