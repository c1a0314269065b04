"""What was read, in numbers: respondents, items, responses, density, trials, answers, time span, what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from irtbench.data.readers.long_table import LongTable

MOST_ANSWERS = 20  # distinct answers that are listed


@dataclass(frozen=True)
class ReadingSummary:
    """What a reader found.

    Parameters
    ----------
    format, content
        The format, and whether it gave ``response`` or ``answer``.
    n_respondents, n_items, n_responses
        How many; a response or an answer that is missing does not count.
    density
        Share of the pairs of respondent and item of which there is one.
    n_trials
        The most responses of one respondent to one item.
    proportion_correct
        Share of 1 among the responses; None for answers.
    answers
        How often each answer was given; empty for responses, and where more than ``MOST_ANSWERS`` differ.
    tasks
        Items of each task or benchmark, where the file names some.
    first_date, last_date
        When; None where the file does not say.
    left_out
        How much was left out, by reason.
    n_left_out
        Sum of these without files and columns: what would have been a response or an answer.
    """

    format: str
    content: str
    n_respondents: int
    n_items: int
    n_responses: int
    density: float
    n_trials: int
    proportion_correct: float | None
    answers: Mapping[str, int]
    tasks: Mapping[str, int]
    first_date: str | None
    last_date: str | None
    left_out: Mapping[str, int]
    n_left_out: int


def summarise(table: LongTable) -> ReadingSummary:
    """Count what a table holds."""
    frame = table.frame
    content = "answer" if "answer" in frame.columns else "response"
    counted = "n_trials" in frame.columns
    given = frame[frame["n_trials"] > 0] if counted else frame[frame[content].notna()]
    by_pair = given.groupby(["respondent_id", "item_id"], sort=False)
    pairs = by_pair["n_trials"].sum() if counted else by_pair.size()
    n_responses = int(pairs.sum())
    share = None
    if content == "response" and n_responses:
        share = float(given["n_correct"].sum() / n_responses if counted else given["response"].mean())
    n_respondents, n_items = frame["respondent_id"].nunique(), frame["item_id"].nunique()
    answers = given["answer"].value_counts() if content == "answer" else pd.Series(dtype="int64")
    dates = frame["date"][frame["date"].notna() & (frame["date"] != "")] if "date" in frame.columns else pd.Series()
    task = next((name for name in ("task", "benchmark") if name in frame.columns), None)
    tasks = {} if task is None else frame.groupby(task, sort=False)["item_id"].nunique().to_dict()
    return ReadingSummary(
        format=table.format,
        content=content,
        n_respondents=n_respondents,
        n_items=n_items,
        n_responses=n_responses,
        density=len(pairs) / (n_respondents * n_items),
        n_trials=int(pairs.max()) if len(pairs) else 0,
        proportion_correct=share,
        answers={str(text): int(n) for text, n in answers.items()} if len(answers) <= MOST_ANSWERS else {},
        tasks={str(name): int(n) for name, n in tasks.items()},
        first_date=None if dates.empty else str(dates.min()),
        last_date=None if dates.empty else str(dates.max()),
        left_out=dict(table.left_out),
        n_left_out=sum(n for why, n in table.left_out.items() if not why.startswith(("files ", "columns "))),
    )
