"""The long table: one row for each answer or response, under our names or those of neighbouring tools.

Recognised are our own ``respondent_id, item_id, response`` (or ``correct``; ``answer`` or ``label`` for raw answers;
``n_correct, n_trials`` where several trials are counted), Item Response Warehouse ``id, item, resp, rt``, crowd-kit
``task, worker, label``, edstan ``jj, ii, y`` and evalci ``model, item_id, score``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError, refuse_first
from irtbench.data.readers.observations import Want, Wanted
from irtbench.data.readers.table import (
    MISSING,
    demand_columns,
    demand_filled,
    demand_known,
    field_places,
    read_table,
    to_numbers,
    to_scores,
)
from irtbench.data.responses import name_first, trials_words, wrong_counts
from irtbench.data.shown import Shown, counted

#: Names of columns that hold names of models.
OF_MODELS = ("modelname", "modelid", "model", "system", "agent")
#: Names of columns as people write them, in lower case and without spaces and marks, the most reliable first.
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


logger = logging.getLogger(__name__)

#: The respondent's and the item's column: ours, Item Response Warehouse, crowd-kit, edstan, evalci.
_ID_COLUMNS = (
    ("respondent_id", "item_id"),
    ("id", "item"),
    ("worker", "task"),
    ("jj", "ii"),
    ("model", "item_id"),
)

#: What a column may be called, the most reliable name first: a file with both ``correct`` and ``response`` may hold the
#: raw answer in the latter, and one with ``answer`` and ``label`` the item's label.
_ALIASES = {
    "response": ("correct", "response", "resp", "y", "score"),
    "answer": ("answer", "label"),
    "seconds": ("seconds", "rt"),
    "date": ("date",),
}

VALUES: tuple[Want, ...] = ("response", "answer")
_COUNTED = {"respondent_id": "respondent", "item_id": "item"}
#: Where several trials of a pair are counted in place of a response.
COUNTS = ("n_correct", "n_trials")

_OUR_NAMES = ("respondent_id", "item_id", *_ALIASES, *COUNTS)


@dataclass(frozen=True, eq=False)
class LongTable(Shown):
    """What a reader found in a file, in one form whatever the format.

    Parameters
    ----------
    frame
        One row an observation: text columns ``respondent_id, item_id``, then ``response`` (1, 0, NaN), or ``n_correct,
        n_trials`` (whole numbers), or ``answer`` (text, NaN where left empty), where the file has them ``seconds``
        (number) and ``date``, then the other columns of a long file as text under their own names, except where such a
        name is one of ours.
    path
        The file.
    format
        The format it was read as, such as ``long`` or ``wide``.
    columns
        The file's column for each of our names.
    left_out
        How much was left out, by reason.
    """

    frame: pd.DataFrame
    path: Path
    format: str
    columns: Mapping[str, str]
    left_out: Mapping[str, int] = field(default_factory=dict)

    def table(self) -> pd.DataFrame:
        """What ``convert`` writes: our columns first, responses as whole numbers."""
        ours = ["respondent_id", "item_id", "response", *COUNTS, "answer", "trial"]
        first = [name for name in ours if name in self.frame.columns]
        table = self.frame[[*first, *(name for name in self.frame.columns if name not in first)]]
        whole = "response" in table and table["response"].dropna().isin((0, 1)).all()
        counts = [name for name in COUNTS if name in table]
        return table.astype(dict.fromkeys([*(["response"] if whole else []), *counts], "Int64"))

    def in_short(self) -> str:
        """Format, rows, respondents and items."""
        frame, what = self.frame, "answer" if "answer" in self.frame else "response"
        n = frame["n_trials"].sum() if "n_trials" in frame else frame[what].notna().sum()
        sizes = [counted(frame[name].nunique(), word) for name, word in _COUNTED.items()]
        return ", ".join([f"{self.format} table of {counted(int(n), what)}", *sizes])


def long_from_frame(frame: pd.DataFrame, path: str | Path, wanted: Wanted) -> LongTable:
    """Take what is wanted from a table of texts."""
    chosen = _choose_columns(frame, path, wanted)
    found = pd.DataFrame({ours: frame[theirs] for ours, theirs in chosen.items()})
    demand_filled(frame, path, chosen["respondent_id"], chosen["item_id"])
    if "n_trials" in chosen:
        places = {name: field_places(path, chosen[name]) for name in COUNTS}
        found = found.assign(**{name: np.nan_to_num(to_numbers(found[name], place=places[name])) for name in COUNTS})
        demand_counts(found["n_correct"].to_numpy(), found["n_trials"].to_numpy(), places["n_correct"])
    elif wanted.graded:
        found["response"] = wanted.values_of(found["response"], place=field_places(path, chosen["response"]))
    else:
        found["answer"] = found["answer"].mask(found["answer"].isin(MISSING))
    if "seconds" in chosen:
        place = field_places(path, chosen["seconds"])
        seconds = to_numbers(frame[chosen["seconds"]], place=place)
        refuse_first(seconds < 0, lambda row: f"{place(row)}: expected at least 0 seconds but got {seconds[row]:g}")
        found["seconds"] = seconds
    rest = [name for name in frame.columns if name not in chosen.values() and name not in _OUR_NAMES]
    return LongTable(pd.concat([found, frame[rest]], axis=1), Path(path), "long", chosen)


def long_columns(names: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """The file's column for each of our names that it has, if it is a long table; nothing if it is none.

    Counts of trials are there where they are in place of a response.
    """
    likely = likely_long(names, columns) or {}
    pairs = [[columns.get(ours, name) for ours, name in zip(_COUNTED, pair, strict=True)] for pair in _ID_COLUMNS]
    guessed = [likely[ours] for ours in _COUNTED] if _COUNTED.keys() <= likely.keys() else []
    pair = next((pair for pair in pairs if {*pair} <= {*names}), guessed)
    found = dict(zip(_COUNTED, pair, strict=False))
    if not found:
        return {}
    as_named = any({*pair} <= {*names} for pair in _ID_COLUMNS)
    for ours, aliases in _ALIASES.items():
        column = columns.get(ours) or next((alias for alias in aliases if alias in names), None)
        if column := column or (None if as_named else likely.get(ours)):
            found[ours] = column
    counts = {ours: columns.get(ours, ours) for ours in COUNTS}
    return found | (counts if "response" not in found and {*counts.values()} <= {*names} else {})


def _choose_columns(frame: pd.DataFrame, path: str | Path, wanted: Wanted) -> dict[str, str]:
    want, columns = wanted.want, wanted.columns
    demand_known(columns, _OUR_NAMES)
    demand_columns(frame, list(columns.values()), path)
    names = list(frame.columns)
    known = long_columns(names, columns)
    if not known:
        raise InputError(
            f"file {path}: no columns of respondents and items among {name_first(names, most=12)}; "
            f"expected respondent_id and item_id, or their columns named: {column_options(columns, names)}"
        )
    if wanted.levels and want not in known and {*VALUES} & known.keys():  # grades are both
        known[want] = next(known.pop(other) for other in VALUES if other in known)
    counted = wanted.graded and "n_trials" in known and want not in known
    if not counted and want not in known:
        raise InputError(f"file {path}: {_say_what_lacks(names, known, want)}")
    taken = (*_COUNTED, *(() if counted else (want,)), "seconds", "date", *(COUNTS if counted else ()))
    chosen = {name: known[name] for name in taken if name in known}
    pair = known["respondent_id"], known["item_id"]
    if pair not in _ID_COLUMNS and not _COUNTED.keys() <= columns.keys():
        options = " ".join(f"--column {ours}={theirs}" for ours, theirs in chosen.items() if ours != theirs)
        logger.warning("file %s: columns taken by their names: %s", path, options)
    return chosen


def _say_what_lacks(names: Sequence[str], known: Mapping[str, str], want: Want) -> str:
    other: Want = "answer" if want == "response" else "response"
    expected = f"expected a column {' or '.join(_ALIASES[want])}, or one named by you"
    if other not in known:
        return f"no {want}s; {expected}; it has: {name_first(names, most=12)}"
    advice = "grade them with the items' key" if want == "response" else "graded responses cannot be turned back"
    return f"{want}s were wanted but it holds {other}s (column '{known[other]}'): {advice}; {expected}"


def demand_counts(right: NDArray[np.float64], asked: NDArray[np.float64], place: Callable[[int], str]) -> None:
    """Refuse what is no whole number right of a whole number of trials."""
    refuse_first(
        wrong_counts(right, asked),
        lambda row: (
            f"{place(row)}: expected a whole number right of {trials_words(asked[row])} but got {right[row]:g} of "
            f"{asked[row]:g}"
        ),
    )


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


#: Columns of ours by what people call them; who rates is no respondent here.
RATERS = (
    "raterid",
    "rater",
    "judgeid",
    "judge",
    "annotatorid",
    "annotator",
    "graderid",
    "grader",
    "workerid",
    "worker",
)
NAMES = {
    "respondent_id": tuple(name for name in LIKELY["respondent_id"] if name not in RATERS),
    "item_id": LIKELY["item_id"],
    "rater_id": RATERS,
    "score": ("score", "rating", "grade", "response", "label"),
}


def read_ratings(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    levels: Sequence[str] = (),
    interaction: str | None = None,
) -> pd.DataFrame:
    r"""Read a table with a row a rating, as `fit_raters` takes it.

    Parameters
    ----------
    path
        A CSV or Parquet file.
    columns
        The file's column for any of our names ``respondent_id, item_id, rater_id, score``, where it is not the one
        of that name or a usual other (``judge``, ``annotator``, ``grade``, ``rating``). Without a column of items all
        ratings are of one.
    levels
        Scores that are words, the lowest first; they become 0, 1, ....
    interaction
        Another column to keep.

    Returns
    -------
    pandas.DataFrame
        ``respondent_id, item_id, rater_id, score`` and that column, without the rows that have no score.

    Raises
    ------
    InputError
        If a column is missing or empty, or a score is neither missing nor a number (one of the levels).

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("grades.csv").write_text("model,prompt,judge,grade\nm1,p1,ann,good\nm1,p1,bob,fair\n")
    >>> irtbench.data.read_ratings("grades.csv", levels=["poor", "fair", "good"])
      respondent_id item_id rater_id  score
    0            m1      p1      ann    2.0
    1            m1      p1      bob    1.0
    """
    frame, given = read_table(path), columns or {}
    demand_known(given, NAMES)
    demand_columns(frame, [*given.values(), *([] if interaction is None else [interaction])], path)
    known = _columns_of(frame, given, path)
    found = pd.DataFrame({ours: frame[known[ours]] if ours in known else "all" for ours in NAMES})
    demand_filled(frame, path, *(column for ours, column in known.items() if ours != "score"))
    if interaction is not None:
        demand_filled(frame, path, interaction)
        found[interaction] = frame[interaction]
    texts, place = found["score"], field_places(path, known["score"])
    numbers = to_scores(texts, place=place, levels=levels) if levels else to_numbers(texts, place=place)
    return found.assign(score=numbers)[np.isfinite(numbers)].reset_index(drop=True)


def _columns_of(frame: pd.DataFrame, given: Mapping[str, str], path: str | Path) -> dict[str, str]:
    """The column for each of our names: the one given, else the likely one; there may be none of items alone."""
    theirs = {plain(name): name for name in reversed(list(frame.columns)) if name not in given.values()}
    likely = {ours: next((theirs[name] for name in usual if name in theirs), "") for ours, usual in NAMES.items()}
    known = {ours: column for ours, column in {**likely, **given}.items() if column}
    if lacking := [ours for ours in NAMES if ours not in known and ours != "item_id"]:
        options = " ".join(f"--column {name}=NAME" for name in lacking)
        raise InputError(
            f"file {path}: no column of {name_first(lacking)} among {name_first(list(frame.columns), most=12)}; "
            f"expected it, or its name: {options}"
        )
    return known
