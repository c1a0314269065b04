"""Millions of patterns: scores from file to file, a part at a time, by `SharedGridScorer` where it applies."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from irtbench.bank.bank import ItemBank
from irtbench.bank.left_out import LeftOut, among, items_left_out
from irtbench.bank.scale import Scale
from irtbench.data.coded_responses import MISSING
from irtbench.data.grading import GradingSettings
from irtbench.data.input_error import InputError
from irtbench.data.items import UnknownItems
from irtbench.data.readers.batches import TextAmongNumbers, files_of, without_guards
from irtbench.data.readers.long_parts import LongFile, RowsScattered, read_scattered, read_together
from irtbench.data.readers.long_table import find_id_columns
from irtbench.data.readers.seen_names import SeenNames
from irtbench.data.readers.wide_parts import ROWS, Part, UnmadePart, WideTable, read_wide_parts
from irtbench.data.stored_responses import StoredResponses
from irtbench.scoring.kept_scores import KeptScores
from irtbench.scoring.scores import ScoringSettings, grading_of, in_order_of_respondents, scales_of, score_responses
from irtbench.scoring.scores_file import ScoresFile
from irtbench.scoring.shared_grid import SharedGridScorer
from irtbench.scoring.tables_to_score import Content, Layout, long_to_score, wide_to_score

WORKERS = max(2, min(8, os.cpu_count() or 1))
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


def score_file(
    bank: ItemBank,
    source: str | Path,
    target: str | Path,
    settings: ScoringSettings | None = None,
    *,
    layout: Layout = "auto",
    content: Content = "auto",
    columns: Mapping[str, str] | None = None,
    unknown_items: UnknownItems = "error",
    grading: GradingSettings | None = None,
    left_out: list[LeftOut] | None = None,
    unfinished: Path | None = None,
    progress: Callable[[str], None] = lambda message: None,
    together: Processes | None = None,
) -> int:
    """Score a table of responses or answers, long or wide, into a table with the columns of scores.csv.

    Both are CSV (also gzipped) or Parquet; the table may be a folder of Parquet files, or one at an address. Only a few
    parts of the table are in memory at a time. EAP with known items works in single precision; other methods, and
    several trials of an item, part by part as ``score_responses`` does. Respondents stand in the order of their first
    row.

    Parameters
    ----------
    bank
        The scales.
    source
        Wide: a row for each respondent; a column of names (the first, unless ``columns`` says otherwise) and one for
        each item, of 1, 0 and null, NaN or -1 where missing. Long: a row for each response, with columns of
        respondents, items and responses. The rows of a respondent need not stand together; where they do, the file is
        read once and little of it kept, else see ``read_scattered``. A column ``trial`` tells several trials of a pair
        apart, or ``n_correct`` and ``n_trials`` stand in place of responses. Answers are graded by the bank's keys.
    target
        The file to write: Parquet, or CSV by any other name.
    settings
        As for ``score_responses``.
    layout
        ``auto``: long if there are columns of respondents and of items.
    content
        ``auto``: responses in a long table with a column of them, and in a wide one if most of its first cells are.
    columns
        The file's column for ``respondent_id``, and in a long table for ``item_id`` and ``response`` or ``answer``.
    unknown_items
        What items outside the bank mean: an error that names the first five, or nothing.
    grading
        How answers are compared with the key; None for as the bank's study did.
    left_out
        Here are added the items of the table that the bank's own study left out, which are no error.
    unfinished
        A folder for the scores of finished parts of a wide Parquet file, which a run that was stopped leaves there and
        the next takes up; None to begin anew.
    progress
        Called with a line now and then.
    together
        The processes that score a wide Parquet table together, each calling this with the same arguments; the first
        writes the file. They need ``unfinished``.

    Returns
    -------
    int
        Number of respondents.

    Raises
    ------
    InputError
        Naming file, row and column, if a value is none of these, a respondent of a wide table or a pair of respondent
        and item of a long one comes twice; and as ``score_responses`` and ``grade_answers``.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids))
    >>> import pandas as pd
    >>> responses.table().to_csv("responses.csv", index=False)
    >>> irtbench.score_file(irtbench.ItemBank((scale,)), "responses.csv", "scores.csv")
    300
    >>> pd.read_csv("scores.csv")[["respondent_id", "n_correct", "percentile"]].round(1).head(2)
      respondent_id  n_correct  percentile
    0            r1          3        50.0
    1            r2          4        68.7
    """
    settings, columns = settings or ScoringSettings(), columns or {}
    left_out = [] if left_out is None else left_out
    files = files_of(source)
    for given in columns.values():
        if given not in files[0].names:
            raise InputError(f"file {files[0].path}: column '{given}' missing")
    pair = find_id_columns(files[0].names, columns)
    asked = content, columns, unknown_items, grading
    if layout == "wide" or (layout == "auto" and pair is None):

        def score(as_text: bool) -> int:
            table, left_out[:] = wide_to_score(bank, files, *asked, as_text=as_text)
            return _score_wide(bank, table, settings, grading, target, unfinished, progress, together)

    else:
        if together is not None:
            raise InputError(f"{source}: {NOT_TOGETHER}")

        def score(as_text: bool) -> int:
            table = long_to_score(bank, files, pair, *asked, as_text=as_text)
            n = _score_long(bank, table, settings, target, progress)
            left_out[:] = among(items_left_out(bank.scales), sorted(table.seen_left_out))
            return n

    try:
        return score(False)
    except TextAmongNumbers:
        progress("not all responses are numbers: reading them as text")
        return score(True)


def score_stored(
    bank: ItemBank | Scale,
    responses: StoredResponses,
    target: str | Path,
    settings: ScoringSettings | None = None,
    *,
    kept: KeptScores | None = None,
    before: pd.DataFrame | None = None,
    role: str = "",
    progress: Callable[[str], None] = lambda message: None,
) -> int:
    """Score stored responses into a file as ``score_file`` does, and say how many respondents they are of.

    Parameters
    ----------
    bank, responses, target, settings
        The scales, the responses, the file, and how they are scored.
    kept
        Parts that are scored already.
    before
        Rows that stand before those of the respondents, with the same columns.
    role
        What a last column ``role`` says of each respondent; none if empty.
    progress
        Called with a line now and then.
    """
    return _write(
        ItemBank(scales_of(bank)),
        responses.item_ids,
        settings or ScoringSettings(),
        lambda n_done, seen: stored_parts(responses, n_done),
        target,
        progress,
        kept,
        of=responses.n_respondents,
        before=before,
        finish=finishing(role, None if before is None else list(before.columns)),
    )


def score_parts(
    bank: ItemBank | Scale,
    responses: StoredResponses,
    target: str | Path,
    numbers: Iterable[int],
    kept: KeptScores,
    settings: ScoringSettings | None = None,
    *,
    columns: Sequence[str] | None = None,
    role: str = "",
) -> None:
    """Score parts of stored responses, by their numbers from 0, of which no scores are kept yet.

    Parameters
    ----------
    bank, responses, target, settings, role
        As of ``score_stored``, which writes the scores later.
    numbers
        Of some parts, such as another process does not score; they end where a number is beyond the last part.
    kept
        Where they go.
    columns
        Those of the rows before them; None where there are none.
    """
    scorer = PartScorer(ItemBank(scales_of(bank)), responses.item_ids, settings or ScoringSettings())
    file, finish = ScoresFile(target), finishing(role, columns)
    for number in numbers:
        if number * ROWS >= responses.n_respondents:
            return
        if not kept.has(number):
            part = stored_part(responses, number * ROWS)
            kept.put(number, file.rows_of(finish(scorer(part))), len(part.respondent_ids))


def finishing(role: str, columns: Sequence[str] | None) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """What is done to scores before they are written: a last column ``role``, if there is one, and columns as given."""

    def finish(scores: pd.DataFrame) -> pd.DataFrame:
        told = scores.assign(role=role) if role else scores
        return told if columns is None else told.reindex(columns=list(columns))

    return finish


def stored_parts(responses: StoredResponses, n_done: int = 0) -> Iterator[UnmadePart]:
    """Stored responses some respondents at a time, without so many of the first."""
    for start in range(n_done, responses.n_respondents, ROWS):
        yield partial(stored_part, responses, start)


def stored_part(responses: StoredResponses, start: int) -> Part:
    """As many respondents as are scored at a time."""
    stop = min(start + ROWS, responses.n_respondents)
    return Part(responses.respondent_ids(start, stop), in_single(responses.rows(start, stop)))


def in_single(rows: NDArray[np.int8]) -> NDArray[np.float32]:
    """Rows of 1, 0 and -1 as numbers, NaN where missing."""
    values = rows.astype(np.float32)
    values[rows == MISSING] = np.nan
    return values


def _score_wide(
    bank: ItemBank,
    table: WideTable,
    settings: ScoringSettings,
    grading: GradingSettings | None,
    target: str | Path,
    unfinished: Path | None,
    progress: Callable[[str], None],
    together: Processes | None,
) -> int:
    parquet = all(file.separator is None for file in table.files)
    if together is None:
        kept = None
        if unfinished is not None and parquet:
            kept = KeptScores(unfinished, identity_of(bank, table, target, settings, grading))
        return _write(bank, table.items, settings, table.parts, target, progress, kept)
    if not parquet or unfinished is None:
        raise InputError(f"file {table.files[0].path}: {NOT_TOGETHER}")
    kept = _score_pieces(bank, table, settings, grading, target, unfinished, together)
    n = sum(sum(file.group_rows) for file in table.files)
    return _write(bank, table.items, settings, table.parts, target, progress, kept, of=n) if together.is_first else n


def _score_pieces(
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


def _score_long(
    bank: ItemBank,
    table: LongFile,
    settings: ScoringSettings,
    target: str | Path,
    progress: Callable[[str], None],
) -> int:
    try:
        return _write(bank, table.items, settings, lambda *_: map(made, read_together(table)), target, progress)
    except RowsScattered:
        progress("the rows of a respondent do not stand together: collecting them first")
        scattered = read_scattered(table, progress)
        return _write(bank, table.items, settings, lambda *_: map(made, scattered), target, progress)


def made(part: Part) -> UnmadePart:
    """A part that is there."""
    return lambda: part


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
        shares_grid = settings.method == "eap" and settings.item_error == "none"
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


def _write(
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
    n, n_parts, seen = 0, 0, SeenNames()
    try:
        with ScoresFile(target) as file:

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
            for table in _in_turn(calls):
                file.write(table)
                n += len(table) // len(bank.scales)
                progress(f"{n} respondents scored" if of is None else f"{n} of {of} respondents scored")
        if n == 0:
            raise InputError("responses: no rows; expected at least one respondent")
    except (InputError, TextAmongNumbers):  # what was scored is of no use to a run with other input
        if kept is not None:
            kept.remove()
        raise
    if kept is not None:
        kept.remove()
    return n


def _in_turn(calls: Iterator[Callable[[], pa.Table]]) -> Iterator[pa.Table]:
    """Results of calls in their order, a few of which are worked on at a time."""
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(WORKERS) as pool:
        waiting: deque[Future[pa.Table]] = deque()
        for call in calls:
            waiting.append(pool.submit(call))
            if len(waiting) > WORKERS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
