"""Millions of patterns: scores from file to file, a part at a time, by `SharedGridScorer` where it applies."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from irtbench.bank.bank import ItemBank
from irtbench.bank.left_out import LeftOut, among, items_left_out
from irtbench.bank.scale import Scale
from irtbench.data.grading import GradingSettings
from irtbench.data.input_error import InputError
from irtbench.data.items import UnknownItems
from irtbench.data.readers.batches import TableFile, TextAmongNumbers, without_guards
from irtbench.data.readers.long_parts import LongFile, RowsScattered, read_scattered, read_together
from irtbench.data.readers.long_table import find_column, find_counts, find_id_columns
from irtbench.data.readers.part_values import Keys
from irtbench.data.readers.recognise import mostly_responses
from irtbench.data.readers.seen_names import SeenNames
from irtbench.data.readers.wide_parts import ROWS, Part, UnmadePart, read_wide_parts
from irtbench.data.stored_responses import MISSING, StoredResponses
from irtbench.scoring.kept_scores import KeptScores
from irtbench.scoring.scores import (
    ScoringSettings,
    check_known,
    grading_of,
    in_order_of_respondents,
    keys_of,
    scales_of,
    score_responses,
)
from irtbench.scoring.scores_file import ScoresFile
from irtbench.scoring.shared_grid import SharedGridScorer

WORKERS = max(2, min(8, os.cpu_count() or 1))
FIRST_ROWS = 1_000  # of a wide table, by which it is told whether it holds answers

Layout = Literal["auto", "long", "wide"]
Content = Literal["auto", "responses", "answers"]


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
) -> int:
    """Score a table of responses or answers, long or wide, into a table with the columns of scores.csv.

    Both are CSV (also gzipped) or Parquet. Only a few parts of the table are in memory at a time. EAP with known items
    works in single precision; other methods, and several trials of an item, part by part as ``score_responses`` does.
    Respondents stand in the order
    of their first row.

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
    file = TableFile.open(source)
    for given in columns.values():
        if given not in file.names:
            raise InputError(f"file {source}: column '{given}' missing")
    pair = find_id_columns(file.names, columns)
    wide = layout == "wide" or (layout == "auto" and pair is None)
    for as_text in (False, True):
        try:
            if wide:
                return _score_wide(
                    bank,
                    file,
                    content,
                    columns,
                    unknown_items,
                    grading,
                    left_out,
                    as_text,
                    settings,
                    target,
                    unfinished,
                    progress,
                )
            return _score_long(
                bank,
                file,
                pair,
                content,
                columns,
                unknown_items,
                grading,
                left_out,
                as_text,
                settings,
                target,
                progress,
            )
        except TextAmongNumbers:
            progress("not all responses are numbers: reading them as text")
    raise AssertionError("text is read as text")


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
    file: TableFile,
    content: Content,
    columns: Mapping[str, str],
    unknown_items: UnknownItems,
    grading: GradingSettings | None,
    left_out: list[LeftOut],
    as_text: bool,
    settings: ScoringSettings,
    target: str | Path,
    unfinished: Path | None,
    progress: Callable[[str], None],
) -> int:
    respondents = columns.get("respondent_id", file.names[0])
    items = [name for name in file.names if name != respondents]
    left_out[:] = check_known(items, bank.scales, unknown_items)
    known = {item for scale in bank.scales for item in scale.items.item_ids}
    items = [item for item in items if item in known]
    keys = keys_of(bank, grading) if _holds_answers(file, items, content) else None
    kept = None
    if unfinished is not None and file.separator is None:
        identity = identity_of(bank, file, target, settings, [respondents, *items], keys, grading)
        kept = KeptScores(unfinished, identity)

    def parts(n_done: int, seen: SeenNames) -> Iterator[UnmadePart]:
        return read_wide_parts(file, respondents, items, keys=keys, as_text=as_text, n_done=n_done, seen=seen)

    return _write(bank, items, settings, parts, target, progress, kept)


def _score_long(
    bank: ItemBank,
    file: TableFile,
    pair: tuple[str, str] | None,
    content: Content,
    columns: Mapping[str, str],
    unknown_items: UnknownItems,
    grading: GradingSettings | None,
    left_out: list[LeftOut],
    as_text: bool,
    settings: ScoringSettings,
    target: str | Path,
    progress: Callable[[str], None],
) -> int:
    response = None if content == "answers" else find_column(file.names, "response", columns)
    n_trials = None
    if response is None and content != "answers" and (counts := find_counts(file.names, columns)) is not None:
        response, n_trials = counts
    answer = None if content == "responses" or response is not None else find_column(file.names, "answer", columns)
    said = response or answer
    if pair is None or said is None:
        wanted = "responses or answers" if content == "auto" else content
        raise InputError(f"file {file.path}: expected columns of respondents, items and {wanted} for a long table")
    items = list(dict.fromkeys(item for scale in bank.scales for item in scale.items.item_ids))
    keys = None if answer is None else keys_of(bank, grading)
    trial = "trial" if "trial" in file.names else None
    of_study = items_left_out(bank.scales)
    long = LongFile(file, *pair, said, items, unknown_items, keys, as_text, trial, n_trials, of_study.keys())
    try:
        n = _write(bank, items, settings, lambda *_: map(made, read_together(long)), target, progress)
    except RowsScattered:
        progress("the rows of a respondent do not stand together: collecting them first")
        n = _write(bank, items, settings, lambda *_: map(made, read_scattered(long, progress)), target, progress)
    left_out[:] = among(of_study, sorted(long.seen_left_out))
    return n


def _holds_answers(file: TableFile, items: Sequence[str], content: Content) -> bool:
    """Whether a wide table holds answers, by what most of its first cells are."""
    if content != "auto":
        return content == "answers"
    texts = [item for item in items if file.is_text(item)]
    if len(texts) < len(items):
        return False
    first = next(file.batches(texts, rows=FIRST_ROWS), None)
    if first is None:
        return False
    cells = pd.concat([pd.Series(first.column(item).cast(pa.string()).to_pylist(), dtype=object) for item in texts])
    return not mostly_responses(cells.fillna(""))


def made(part: Part) -> UnmadePart:
    """A part that is there."""
    return lambda: part


def identity_of(
    bank: ItemBank,
    file: TableFile,
    target: str | Path,
    settings: ScoringSettings,
    columns: Sequence[str],
    keys: Keys | None,
    grading: GradingSettings | None,
) -> dict[str, Any]:
    """All that scores of a file depend on."""
    status = file.path.stat()
    return {
        "file": [str(file.path.resolve()), status.st_size, status.st_mtime_ns],
        "bank": bank.content_hash,
        "columns": columns,
        "settings": repr(settings),
        "grading": None if keys is None else repr(grading or grading_of(bank)),
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
                seen.add(names.to_pylist()[:: len(bank.scales)])
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
