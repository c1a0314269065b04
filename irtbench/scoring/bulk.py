"""Millions of patterns: scores from a table or from responses on disk into a file, some respondents at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

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
from irtbench.data.readers.batches import TextAmongNumbers, opened_table
from irtbench.data.readers.large_table import LargeTable
from irtbench.data.readers.long_parts import RowsScattered, read_scattered, read_together
from irtbench.data.readers.long_table import find_id_columns
from irtbench.data.readers.seen_names import SeenNames
from irtbench.data.readers.wide_parts import ROWS, Part, UnmadePart, WideTable
from irtbench.data.responses import ResponseMatrix
from irtbench.data.stored_responses import StoredResponses
from irtbench.scoring.part_scores import Blocks, Processes, ScoresWanted, score_blocks
from irtbench.scoring.scores import ScoringSettings, grading_of, scales_of
from irtbench.scoring.tables_to_score import Content, Layout, long_to_score, wide_to_score

SCORES = "scores"  # folder of scores that are finished, in that of stored responses
NOT_TOGETHER = "several processes score a wide Parquet table; expected one, or a single process"


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
        A folder for the scores of finished parts of a wide table, which a run that was stopped leaves there and the
        next takes up; None to begin anew.
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
    opened = opened_table(source, allow_address)
    for given in columns.values():
        if given not in opened.names:
            raise InputError(f"{opened.in_words}: column '{given}' missing")
    pair = find_id_columns(opened.names, columns)
    is_wide = layout == "wide" or (layout == "auto" and pair is None)
    if together is not None and not (is_wide and isinstance(opened, LargeTable) and unfinished is not None):
        raise InputError(f"{opened.in_words if is_wide else source}: {NOT_TOGETHER}")
    wanted = ScoresWanted(target, unfinished=unfinished if is_wide else None)
    asked = content, columns, unknown_items, grading

    def score(as_text: bool) -> int:
        if is_wide:
            wide, left_out[:] = wide_to_score(bank, opened, *asked, as_text=as_text)
            return score_blocks(bank, blocks_of_wide(bank, wide, grading), settings, wanted, progress, together)
        long = long_to_score(bank, opened, pair, *asked, as_text=as_text)
        blocks = Blocks(long.items, lambda _, seen: map(made, read_together(long, seen)))
        try:
            n = score_blocks(bank, blocks, settings, wanted, progress)
        except RowsScattered:
            progress("the rows of a respondent do not stand together: collecting them first")
            scattered = read_scattered(long, progress)
            blocks = replace(blocks, parts=lambda *_: map(made, scattered))
            n = score_blocks(bank, blocks, settings, wanted, progress)
        left_out[:] = among(items_left_out(bank.scales), sorted(long.seen_left_out))
        return n

    try:
        n = score(False)
    except TextAmongNumbers:
        progress("not all responses are numbers: reading them as text")
        n = score(True)
    opened.demand_unchanged()
    return n


def blocks_of_wide(bank: ItemBank, table: WideTable, grading: GradingSettings | None) -> Blocks:
    """A wide table some rows at a time; one in Parquet in pieces too."""

    def identity() -> dict[str, Any]:
        return {
            "source": table.source.identity,
            "columns": [table.respondent, *table.items],
            "grading": None if table.keys is None else repr(grading or grading_of(bank)),
        }

    n = table.source.n_rows if isinstance(table.source, LargeTable) else None
    return Blocks(table.items, table.parts, table.pieces(), n, identity)


def score_matrix(
    bank: ItemBank | Scale,
    responses: ResponseMatrix | StoredResponses,
    target: str | Path,
    settings: ScoringSettings | None = None,
    *,
    before: pd.DataFrame | None = None,
    columns: Sequence[str] | None = None,
    role: str = "",
    together: Processes | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> int:
    """Score responses, one of a respondent to an item, into a file as ``score_file`` does, and say of how many.

    Parameters
    ----------
    bank, responses, target, settings
        The scales, the responses, on disk or in memory, the file, and how they are scored.
    before
        Rows that stand before those of the respondents, with the same columns.
    columns
        Those of these rows, where only the first process has them; None where there are none.
    role
        What a last column ``role`` says of each respondent; none if empty.
    together
        The processes that score responses on disk together, each calling this; the first writes the file. Parts
        that an earlier run has left beside the responses are taken as they are.
    progress
        Called with a line now and then.
    """
    whole, columns = ItemBank(scales_of(bank)), columns if before is None else list(before.columns)

    def finish(scores: pd.DataFrame) -> pd.DataFrame:
        told = scores.assign(role=role) if role else scores
        return told if columns is None else told.reindex(columns=list(columns))

    blocks, unfinished = Blocks(responses.item_ids, partial(_parts, responses), (), responses.n_respondents), None
    if isinstance(responses, StoredResponses) and together is not None:
        unfinished, blocks = responses.folder / SCORES, _shared(responses, blocks, {"columns": columns, "role": role})
    wanted = ScoresWanted(target, before, finish, unfinished)
    n = score_blocks(whole, blocks, settings or ScoringSettings(), wanted, progress, together)
    if unfinished is not None and together is not None and together.is_first:
        unfinished.rmdir()
    return n


def _shared(responses: StoredResponses, blocks: Blocks, finished: Mapping[str, Any]) -> Blocks:
    """Stored responses in pieces of a part each; their scores are told apart by what is done to them as well."""
    n, places = responses.n_respondents, responses.places

    def identity() -> dict[str, Any]:
        own = None if places is None else hashlib.sha256(places.tobytes()).hexdigest()
        return {"n": n, "respondents": own, **finished}

    pieces = [partial(iter, [partial(_part, responses, start)]) for start in range(0, n, ROWS)]
    return replace(blocks, pieces=pieces, identity=identity)


def _parts(responses: ResponseMatrix | StoredResponses, n_done: int, seen: SeenNames) -> Iterator[UnmadePart]:
    """All respondents behind the first so many, as many as are scored at a time."""
    for start in range(n_done, responses.n_respondents, ROWS):
        yield partial(_part, responses, start)


def _part(responses: ResponseMatrix | StoredResponses, start: int) -> Part:
    """As many respondents as are scored at a time."""
    stop = min(start + ROWS, responses.n_respondents)
    if isinstance(responses, ResponseMatrix):
        return Part(responses.respondent_ids[start:stop], in_single(responses.coded_responses[start:stop]))
    return Part(responses.respondent_ids(start, stop), in_single(responses.rows(start, stop)))


def in_single(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Rows of 1, 0 and -1 as numbers, NaN where missing."""
    values = rows.astype(np.float32)
    values[rows == MISSING] = np.nan
    return values


def made(part: Part) -> UnmadePart:
    """A part that is there."""
    return lambda: part
