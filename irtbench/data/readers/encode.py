"""A large table of Parquet files, long or wide, into a folder of responses of a byte each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from irtbench.data.input_error import InputError
from irtbench.data.readers.cells import MOST_LEVELS, Grader, ScoreLevels, is_missing
from irtbench.data.readers.large_table import LargeTable
from irtbench.data.readers.table import demand_levels
from irtbench.data.readers.table_blocks import (
    ROWS_READ,
    ColumnChoice,
    LongFile,
    TableLayout,
    layout_of,
    ordered_blocks,
    wide_blocks,
)
from irtbench.data.response_blocks import Blocks, SeenNames
from irtbench.data.response_store import ResponseStore, locked
from irtbench.data.stored_responses import NAMES_READ, StoredResponses, StoredScores


def encode_table(
    table: LargeTable,
    folder: str | Path,
    choice: ColumnChoice | None = None,
    *,
    progress: Callable[[str], None] = lambda message: None,
) -> StoredResponses:
    """Encode graded responses into a folder, or take what an earlier run has left there of the same files.

    Of a wide table what a run that was stopped had encoded is kept. A long one is brought into the order of its
    respondents' names first, on the disk of the folder.

    Parameters
    ----------
    table
        The files.
    folder
        Where to; made if it is not there. It must hold nothing else, and what is read of it later stays only while no
        other run encodes another table into it.
    choice
        Which columns are what, where they are not to be recognised.
    progress
        Called with a line now and then.

    Raises
    ------
    InputError
        Naming file, row and column of what is no response; if a respondent of a wide table or a pair of a long one
        comes twice, a file is damaged or was changed meanwhile, or the disk is too small.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> responses.table().to_parquet("responses.parquet")
    >>> stored = irtbench.encode_table(irtbench.LargeTable.open("responses.parquet"), "cache")
    >>> stored
    <StoredResponses: 300 respondents x 6 items, 100% observed, 47% correct>
    >>> irtbench.fit_model(stored)
    <FittedModel: 6 items (2pl), 300 respondents, log-likelihood -930.74, converged>
    """
    choice = choice or ColumnChoice()
    return encoded_by(Grader(choice.threshold), table, Path(folder), choice, progress)


def encode_scores(
    table: LargeTable,
    folder: str | Path,
    levels: Sequence[Any] | None = None,
    choice: ColumnChoice | None = None,
    *,
    progress: Callable[[str], None] = lambda message: None,
) -> StoredScores:
    """Encode scores in categories into a folder, as `encode_table` does responses: for `fit_categories`.

    Parameters
    ----------
    table, folder, choice, progress
        As for `encode_table`.
    levels
        All scores in their order, the lowest first, up to 100 numbers or labels; None for the numbers there are, which
        takes a pass.

    Raises
    ------
    InputError
        As `encode_table`, or naming an item and a score that is none of the levels.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> theta, steps = rng.normal(size=(400, 1, 1)), np.array([-1.0, 0.0, 1.0])
    >>> grades = 1 + (1.5 * theta + rng.logistic(size=(400, 5, 1)) > 1.5 * steps).sum(axis=2)
    >>> frame = pd.DataFrame(grades, columns=[f"q{k}" for k in range(1, 6)])
    >>> frame.insert(0, "respondent_id", [f"r{k}" for k in range(400)])
    >>> frame.to_parquet("grades.parquet")
    >>> stored = irtbench.encode_scores(irtbench.LargeTable.open("grades.parquet"), "grades_cache")
    >>> stored
    <StoredScores: 400 respondents x 5 items, 100% observed, 4 levels>
    >>> irtbench.fit_categories(stored, "gpcm")
    <FittedCategories: 5 items (gpcm), 400 respondents, log-likelihood -2603.87, converged>
    """
    demand_table(table)
    choice = choice or ColumnChoice()
    if choice.threshold is not None:
        raise InputError("threshold: makes scores right or wrong; expected none for scores in categories")
    if levels is None:
        table.demand_alike()
        scores = ScoreLevels(levels=numbers_in(table, layout_of(table, choice, graded=False)))
    else:
        scores = ScoreLevels(levels=tuple(levels))
        demand_levels(levels)
        if not 2 <= len(levels) <= MOST_LEVELS:
            raise InputError(f"levels: {len(levels)}; expected 2 to {MOST_LEVELS}")
    return StoredScores.of(encoded_by(scores, table, Path(folder), choice, progress), scores.levels)


def demand_table(table: LargeTable) -> None:
    """Refuse what is none, such as a path."""
    if not isinstance(table, LargeTable):
        raise InputError(f"table: expected a LargeTable (LargeTable.open makes one) but got {type(table).__name__}")


def encoded_by(
    grader: Grader, table: LargeTable, folder: Path, choice: ColumnChoice, progress: Callable[[str], None]
) -> StoredResponses:
    """Responses, or scores by their levels, in the folder; see `encode_table`."""
    demand_table(table)
    table.demand_alike()
    chosen: dict[str, Any] = {"columns": dict(choice.columns), "items": choice.items, "exclude": list(choice.exclude)}
    chosen |= {} if choice.threshold is None else {"threshold": choice.threshold}
    scores = {"levels": list(grader.levels)} if isinstance(grader, ScoreLevels) else {}
    identity = table.identity | {"choice": chosen} | scores
    with locked(folder):
        store = ResponseStore.resume(folder, identity)
        if store is not None and store.finished:
            progress("the responses are encoded already")
            return store.responses()
        layout = layout_of(table, choice, graded=not scores)
        if layout.item:
            store = ResponseStore.begin(folder, items_of(table, layout), identity)
            blocks = ordered_blocks(LongFile(table, layout, store.item_ids, grader=grader), folder)
        else:
            store = store or ResponseStore.begin(folder, layout.items, identity)
            n_bytes, free = table.n_rows * len(layout.items), shutil.disk_usage(folder).free
            if n_bytes > free:
                raise InputError(
                    f"cache {folder}: {n_bytes / 1e9:.1f} GB of responses do not fit on its disk, where "
                    f"{free / 1e9:.1f} GB are free; expected another --cache"
                )
            blocks = wide_blocks(table, layout.respondent, layout.items, grader)
        encode_blocks(blocks, store, table, progress)
        if store.n_respondents == 0:
            raise InputError(f"{table.place}: no responses; expected at least one")
        table.demand_unchanged()
        store.finish()
    return store.responses()


def encode_blocks(blocks: Blocks, store: ResponseStore, table: LargeTable, progress: Callable[[str], None]) -> None:
    """Add the pieces that are not in the store yet, none of whose respondents may come twice."""
    of, seen = "" if blocks.n_respondents is None else f" of {blocks.n_respondents}", SeenNames()
    for names in () if blocks.distinct else store.names(NAMES_READ):
        seen.add(names)
    for piece in blocks.pieces[store.n_parts :]:
        for block in piece():
            made = block()
            if not blocks.distinct:
                seen.add(made.respondent_ids)
            store.add(pa.array(made.respondent_ids, pa.string()), made.coded_responses)
            progress(f"{store.n_respondents}{of} respondents encoded")
        store.end_part()
    if (twice := seen.repeated(store.names(NAMES_READ))) is not None:
        raise InputError(f"{table.place}: respondent {twice} comes twice; expected a row for each")


def items_of(table: LargeTable, layout: TableLayout) -> tuple[str, ...]:
    """Items of a long table in the order in which they first appear."""
    found: dict[str, None] = {}
    for part in table.rows([layout.item], rows=ROWS_READ, coded=[layout.item]):
        names = part.cells(layout.item).names()
        found.update(dict.fromkeys(names.dictionary.take(names.indices.unique()).to_pylist()))
    return tuple(found)


def numbers_in(table: LargeTable, layout: TableLayout) -> tuple[float, ...]:
    """The numbers that a table of scores holds, ascending, in one pass."""
    found: set[float] = set()
    names = [layout.response] if layout.item else list(layout.items)
    for part in table.rows(names, rows=ROWS_READ, coded=names):
        for name in names:
            for value in (value for value in part.cells(name).distinct()[0] if not is_missing(value)):
                try:
                    found.add(float(value))
                except ValueError:
                    raise InputError(
                        f"responses: column {name}: {value!r} is no number; expected numbers, or levels"
                    ) from None
        if len(found) > MOST_LEVELS:
            raise InputError(f"responses: {len(found)} different scores; expected at most {MOST_LEVELS}")
    return tuple(int(value) if value.is_integer() else value for value in sorted(found))
