"""Which columns of a large table are scored: what a wide or a long one holds, checked against the bank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import pandas as pd
import pyarrow as pa

from irtbench.bank.bank import ItemBank
from irtbench.bank.left_out import LeftOut, items_left_out
from irtbench.data.grading import GradingSettings
from irtbench.data.input_error import InputError
from irtbench.data.items import UnknownItems
from irtbench.data.readers.batches import TextTable
from irtbench.data.readers.large_table import LargeTable
from irtbench.data.readers.long_parts import LongFile
from irtbench.data.readers.long_table import find_column, find_counts
from irtbench.data.readers.recognise import mostly_responses
from irtbench.data.readers.wide_parts import WideTable
from irtbench.scoring.scores import check_known, keys_of

FIRST_ROWS = 1_000  # of a wide table, by which it is told whether it holds answers

Layout = Literal["auto", "long", "wide"]
Content = Literal["auto", "responses", "answers"]


def wide_to_score(
    bank: ItemBank,
    source: LargeTable | TextTable,
    content: Content,
    columns: Mapping[str, str],
    unknown_items: UnknownItems,
    grading: GradingSettings | None,
    *,
    as_text: bool,
) -> tuple[WideTable, tuple[LeftOut, ...]]:
    """The items of the bank in a wide table, and those of it that the bank's study left out.

    Raises
    ------
    InputError
        As `check_known`.
    """
    names = source.names
    respondent = columns.get("respondent_id", names[0])
    items = [name for name in names if name != respondent]
    left_out = check_known(items, bank.scales, unknown_items)
    known = {item for scale in bank.scales for item in scale.items.item_ids}
    items = [item for item in items if item in known]
    keys = keys_of(bank, grading) if holds_answers(source, items, content) else None
    return WideTable(source, respondent, items, keys, as_text), left_out


def long_to_score(
    bank: ItemBank,
    source: LargeTable | TextTable,
    pair: tuple[str, str] | None,
    content: Content,
    columns: Mapping[str, str],
    unknown_items: UnknownItems,
    grading: GradingSettings | None,
    *,
    as_text: bool,
) -> LongFile:
    """A long table with these columns of respondents and items.

    Raises
    ------
    InputError
        If it has no columns of respondents and items, or none of what is asked for.
    """
    names = source.names
    response = None if content == "answers" else find_column(names, "response", columns)
    n_trials = None
    if response is None and content != "answers" and (counts := find_counts(names, columns)) is not None:
        response, n_trials = counts
    answer = None if content == "responses" or response is not None else find_column(names, "answer", columns)
    said = response or answer
    if pair is None or said is None:
        wanted = "responses or answers" if content == "auto" else content
        raise InputError(f"{source.in_words}: expected columns of respondents, items and {wanted} for a long table")
    items = list(dict.fromkeys(item for scale in bank.scales for item in scale.items.item_ids))
    keys = None if answer is None else keys_of(bank, grading)
    trial = "trial" if "trial" in names else None
    of_study = items_left_out(bank.scales)
    return LongFile(source, *pair, said, items, unknown_items, keys, as_text, trial, n_trials, of_study.keys())


def holds_answers(source: LargeTable | TextTable, items: Sequence[str], content: Content) -> bool:
    """Whether a wide table holds answers, by what most of its first cells are."""
    if content != "auto":
        return content == "answers"
    texts = [item for item in items if source.is_text(item)]
    if len(texts) < len(items):
        return False
    first = next(source.rows(texts, rows=FIRST_ROWS), None)
    if first is None:
        return False
    cells = pd.concat([pd.Series(first[2].column(item).cast(pa.string()).to_pylist(), dtype=object) for item in texts])
    return not mostly_responses(cells.fillna(""))
