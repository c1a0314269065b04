"""What a column of a table holds, by its name: ours, those of neighbouring tools, and what people call them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

import pandas as pd

#: Names of columns that hold names of models.
OF_MODELS = ("modelname", "modelid", "model", "system", "agent")
#: Names of columns as people write them, in lower case and without spaces and marks, the surest first.
LIKELY = {
    "respondent_id": (
        "respondentid", "respondent", "workerid", "worker", "annotatorid", "annotator", "participantid", "participant",
        "prolificpid", "prolificid", "subjectid", "subject", "userid", "user", "personid", "person", "studentid",
        *OF_MODELS,
    ),
    "item_id": (
        "itemid", "item", "questionid", "question", "exampleid", "taskid", "hitid", "instanceid", "promptid", "pairid",
        "problemid", "sampleid", "docid", "stimulusid", "userinput", "example", "task", "instance", "prompt", "problem",
        "stimulus",
    ),
    "response": ("correct", "iscorrect", "response", "resp", "score", "passed", "resolved", "grade"),
    "answer": ("answer", "label", "annotation", "choice", "rating"),
}  # fmt: skip
FROM_FORM = re.compile(r"(input|answer)\.", re.IGNORECASE)  # before the names of a form's fields


@lru_cache(2**16)  # each of thousands of columns is asked for many times
def plain(name: str) -> str:
    """A name without capitals, spaces and marks, and without what a platform writes before it."""
    return re.sub(r"[^a-z0-9]", "", FROM_FORM.sub("", name).lower())


def likely_column(names: Sequence[str], ours: str) -> str | None:
    """The column that by its name holds what is one of our columns; None without any."""
    found = {plain(name): name for name in reversed(names)}
    if ours == "answer":
        given = [name for name in names if name.lower().startswith("answer.")]
        if len(given) == 1:
            return given[0]
    return next((found[known] for known in LIKELY[ours] if known in found), None)


def likely_long(names: Sequence[str], columns: Mapping[str, str]) -> dict[str, str] | None:
    """Columns of a long table by what people call them: both names, and a response or an answer; None for no such."""
    found = {ours: columns.get(ours) or likely_column(names, ours) for ours in LIKELY}
    pair = found["respondent_id"], found["item_id"]
    if None in pair or pair[0] == pair[1] or (found["response"] is None and found["answer"] is None):
        return None
    return {ours: name for ours, name in found.items() if name is not None and name in names}


def item_and_value(names: Sequence[str], columns: Mapping[str, str]) -> dict[str, str] | None:
    """Columns of items and of their responses or answers, where none names respondents; None for no such table.

    The items' column is the first, or named by the user: elsewhere its name may be that of a question.
    """
    if columns.get("respondent_id") or likely_column(names, "respondent_id"):
        return None
    found = {"item_id": columns.get("item_id") or likely_column(names[:1], "item_id")}
    found |= {ours: columns.get(ours) or likely_column(names, ours) for ours in ("response", "answer")}
    if found["item_id"] is None or (found["response"] is None and found["answer"] is None):
        return None
    return {ours: name for ours, name in found.items() if name is not None}


def column_options(columns: Mapping[str, str], names: Sequence[str]) -> str:
    """The options that name these columns, with a word in place of those that are not known."""
    wanted = {ours: columns.get(ours) or likely_column(names, ours) for ours in ("respondent_id", "item_id", "answer")}
    return " ".join(f"--column {ours}={name or 'NAME'}" for ours, name in wanted.items())


def with_known_names(frame: pd.DataFrame, *ours: str) -> pd.DataFrame:
    """The table with these columns of ours under our names, where others by their names hold the same."""
    missing = [name for name in ours if name not in frame.columns]
    taken = {found: name for name in missing if (found := likely_column(list(frame.columns), name)) is not None}
    return frame.rename(columns=taken) if taken else frame
