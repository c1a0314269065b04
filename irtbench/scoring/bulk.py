"""Millions of patterns: scores from file to file, a part at a time, by `SharedGridScorer` where it applies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.bank.bank import ItemBank
from irtbench.bank.left_out import LeftOut, among, items_left_out
from irtbench.bank.scale import Scale
from irtbench.data.coded_responses import MISSING
from irtbench.data.grading import GradingSettings
from irtbench.data.input_error import InputError
from irtbench.data.items import UnknownItems
from irtbench.data.readers.batches import TextAmongNumbers, files_of
from irtbench.data.readers.long_parts import LongFile, RowsScattered, read_scattered, read_together
from irtbench.data.readers.long_table import find_id_columns
from irtbench.data.readers.wide_parts import ROWS, Part, UnmadePart
from irtbench.data.stored_responses import StoredResponses
from irtbench.scoring.kept_scores import KeptScores
from irtbench.scoring.part_scores import PartScorer, write_parts
from irtbench.scoring.scores import ScoringSettings, scales_of
from irtbench.scoring.scores_file import ScoresFile
from irtbench.scoring.tables_to_score import Content, Layout, long_to_score, wide_to_score
from irtbench.scoring.wide_scores import NOT_TOGETHER, Processes, score_wide


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
    allow_address: Sequence[str] = (),
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
    allow_address
        Beginnings of addresses that are read besides those that are read anyway, see `LargeTable.open`.

    Returns
    -------
    int
        Number of respondents.

    Raises
    ------
    InputError
        Naming file, row and column, if a value is none of these, a respondent of a wide table or a pair of respondent
        and item of a long one comes twice; if a file is changed meanwhile; and as ``score_responses`` and
        ``grade_answers``.

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
    files = files_of(source, allow_address)
    for given in columns.values():
        if given not in files[0].names:
            raise InputError(f"file {files[0].path}: column '{given}' missing")
    pair = find_id_columns(files[0].names, columns)
    asked = content, columns, unknown_items, grading
    if layout == "wide" or (layout == "auto" and pair is None):

        def score(as_text: bool) -> int:
            table, left_out[:] = wide_to_score(bank, files, *asked, as_text=as_text)
            return score_wide(bank, table, settings, grading, target, unfinished, progress, together)

    else:
        if together is not None:
            raise InputError(f"{source}: {NOT_TOGETHER}")

        def score(as_text: bool) -> int:
            table = long_to_score(bank, files, pair, *asked, as_text=as_text)
            n = _score_long(bank, table, settings, target, progress)
            left_out[:] = among(items_left_out(bank.scales), sorted(table.seen_left_out))
            return n

    before = [file.change for file in files]
    try:
        n = score(False)
    except TextAmongNumbers:
        progress("not all responses are numbers: reading them as text")
        n = score(True)
    for file, change in zip(files, before, strict=True):
        if file.change != change:
            raise InputError(f"file {file.path}: was changed while it was read; expected it to stay")
    return n


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
    return write_parts(
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


def _score_long(
    bank: ItemBank,
    table: LongFile,
    settings: ScoringSettings,
    target: str | Path,
    progress: Callable[[str], None],
) -> int:
    try:
        return write_parts(
            bank, table.items, settings, lambda _, seen: map(made, read_together(table, seen)), target, progress
        )
    except RowsScattered:
        progress("the rows of a respondent do not stand together: collecting them first")
        scattered = read_scattered(table, progress)
        return write_parts(bank, table.items, settings, lambda *_: map(made, scattered), target, progress)


def made(part: Part) -> UnmadePart:
    """A part that is there."""
    return lambda: part
