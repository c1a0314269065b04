"""The wide table: respondents as rows, items as columns, the respondent's name in the first column."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.readers.long_table import LongTable
from irtbench.data.readers.observations import Wanted
from irtbench.data.readers.table import MISSING, coded_cells, demand_columns, demand_filled, row_place
from irtbench.data.responses import ResponseMatrix, demand_unique, name_first

#: What survey tools (Qualtrics, LimeSurvey, Google Forms, Prolific's links) write next to the answers.
METADATA = {
    "startdate", "enddate", "status", "ipaddress", "progress", "duration (in seconds)", "finished", "recordeddate",
    "responseid", "recipientlastname", "recipientfirstname", "recipientemail", "externalreference",
    "externaldatareference", "locationlatitude", "locationlongitude", "distributionchannel", "userlanguage",
    "q_recaptchascore", "q_relevantidduplicate", "q_relevantidduplicatescore", "q_relevantidfraudscore",
    "q_relevantidlaststartdate", "q_duplicaterespondent", "q_ballotboxstuffing", "q_totalduration",
    "prolific_pid", "study_id", "session_id", "submitdate", "lastpage", "startlanguage", "seed", "datestamp",
    "timestamp", "email address", "token", "ipaddr", "refurl", "workerid", "assignmentid", "hitid",
    "",  # of the index of a data frame, or of R's row names
}  # fmt: skip
#: What tables say of respondents besides their answers; so do columns ``cov_...`` of the Item Response Warehouse.
OF_RESPONDENTS = {
    "accuracy", "age", "age group", "approval", "approval rate", "assignment", "batch", "comment", "comments",
    "condition", "country", "country of birth", "country of residence", "date", "device", "duration", "education",
    "email", "employment", "employment status", "ethnicity", "feedback", "first language", "form", "gender", "group",
    "income", "ip", "language", "location", "n correct", "name", "nationality", "native", "native language",
    "native speaker", "occupation", "region", "score", "seconds", "session", "sex", "student", "student status",
    "time", "total", "total score", "weight",
}  # fmt: skip
COVARIATE = "cov_"
MOST_ODD, FEWEST_ALIKE = 0.2, 5  # names unlike those of the other items, of which there are at least so many
#: What names a respondent: ours, the index of a data frame in Parquet, and of the above, the most reliable first.
OURS = ("respondent_id", "__index_level_0__")
RESPONDENTS = ("prolific_pid", "responseid", "workerid", "token", "email address")

_GRADED = ("1", "0", "1.0", "0.0", "true", "false")


def without_header_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """The table without the two rows of question texts and import ids that Qualtrics puts below the names.

    The rows keep their numbers, so that errors name the place in the file.
    """
    for row in range(min(2, len(frame))):
        if frame.iloc[row].str.startswith('{"ImportId"').any():
            return frame.iloc[row + 1 :]
    return frame


def is_metadata(name: str) -> bool:
    """Whether a column is one that survey tools add, or says something of the respondent."""
    plain = name.strip().lower()
    return plain in METADATA or plain.replace("_", " ") in OF_RESPONDENTS or plain.startswith(COVARIATE)


def each_pattern(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """The patterns one by one: one that matches no name as it is may be several, parted by commas."""
    found: list[str] = []
    for pattern in patterns:
        whole = "," not in pattern or any(fnmatchcase(name, pattern) for name in names)
        found += [pattern] if whole else [part.strip() for part in pattern.split(",") if part.strip()]
    return found


def unlike_the_others(names: Sequence[str]) -> list[str]:
    """The few items that are not named, like all the others, by one word and a number.

    Examples
    --------
    >>> unlike_the_others(["q1", "q2", "q3", "q4", "q5", "right_handed"])
    ['right_handed']
    """
    stems = [re.sub(r"\d+$", "", name) for name in names]
    stem, n = Counter(stems).most_common(1)[0] if stems else ("", 0)
    odd = [name for name, own in zip(names, stems, strict=True) if own != stem]
    few = n >= FEWEST_ALIKE and len(odd) <= MOST_ODD * len(names)
    return odd if few and names[stems.index(stem)] != stem else []


def matching(names: Sequence[str], path: str | Path, items: str | None, exclude: Sequence[str]) -> list[str]:
    """The columns that match the pattern of items, if there is one, and none of those excluded."""
    exclude = each_pattern(exclude, names)
    for pattern in [*exclude, *([] if items is None else [items])]:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise InputError(f"file {path}: no column matches '{pattern}'; it has: {name_first(names, most=12)}")
    wanted = [name for name in names if items is None or fnmatchcase(name, items)]
    return [name for name in wanted if not any(fnmatchcase(name, pattern) for pattern in exclude)]


def item_columns(
    frame: pd.DataFrame,
    respondent_column: str,
    path: str | Path,
    *,
    items: str | None = None,
    exclude: Sequence[str] = (),
    graded: bool = False,
    threshold: float | None = None,
) -> tuple[list[str], list[str]]:
    """The columns of a wide table that are items, and those that are left out.

    Left out are the columns that ``exclude`` names, those that ``items`` does not match, and unless ``items`` says
    otherwise those that survey tools add and those that say something of the respondent. Where responses 1 and 0 are
    wanted, so are columns less than half of whose filled cells are 1 or 0 (with a threshold: are numbers): one that is
    so in more than half is an item with a slip.
    """
    others = [str(name) for name in frame.columns if name != respondent_column]
    chosen = matching(others, path, items, exclude)
    if items is None:
        chosen = [name for name in chosen if not is_metadata(name)]
        if graded:
            chosen = [name for name in chosen if not share_graded(frame[name].to_list(), threshold) < 0.5]
    if not chosen and others:
        what = "of 1, 0 or missing" if graded and threshold is None else "of items"
        raise InputError(
            f"file {path}: no column {what} besides '{respondent_column}'; it has: {name_first(others, most=12)}"
            + ("; raw answers are graded by the items' key, and grades that are words need --levels" if graded else "")
        )
    taken = set(chosen)
    return chosen, [name for name in others if name not in taken]


def share_graded(cells: Sequence[str], threshold: float | None = None) -> float:
    """Share of 1 and 0 among the filled cells of a wide table, with a threshold that of numbers; NaN without any."""
    counts = {text: n for text, n in Counter(cells).items() if text not in MISSING and text != "-1"}
    fits = [
        n
        for text, n in counts.items()
        if text.lower() in _GRADED or (threshold is not None and pd.notna(pd.to_numeric(text, errors="coerce")))
    ]
    return sum(fits) / sum(counts.values()) if counts else np.nan


_ITEM_WORD = re.compile(r"(items?|questions?|tasks?|prompts?|q|i)([ _.-]?(id|\d+))?", re.IGNORECASE)


def wide_from_frame(frame: pd.DataFrame, path: str | Path, wanted: Wanted) -> LongTable:
    """A wide table of texts in the long form.

    Missing responses (empty, NA, NaN, -1) become rows with NaN. A missing answer (empty, NA, NaN) gives no row: a
    wide table cannot tell an item left empty from one never asked, and only the first may be graded wrong.
    """
    of, respondents, items, cells, place, left_out = _parts(frame, path, wanted)
    n_rows, n_items = len(respondents), len(items)
    long = pd.DataFrame(
        {
            "respondent_id": pd.Index(respondents).take(np.repeat(np.arange(n_rows), n_items)),
            "item_id": pd.Index(items).take(np.tile(np.arange(n_items), n_rows)),
        }
    )
    if wanted.graded:
        long["response"] = wanted.values_of(cells, place=place)
    else:
        long["answer"] = cells.cat.categories.take(cells.cat.codes.to_numpy())
        long = long[~long["answer"].isin(MISSING)].reset_index(drop=True)
        if long.empty:
            raise InputError(f"file {path}: every cell is empty; expected at least one answer")
    return LongTable(long, Path(path), "wide", {"respondent_id": of}, left_out)


def matrix_from_frame(frame: pd.DataFrame, path: str | Path, wanted: Wanted) -> ResponseMatrix:
    """The responses of a wide table of texts; errors and warnings as for ``wide_from_frame``."""
    _, respondents, items, cells, place, _ = _parts(frame, path, wanted)
    values = wanted.values_of(cells, place=place).reshape(len(respondents), len(items))
    return ResponseMatrix(values, tuple(respondents), tuple(items))


def _parts(
    frame: pd.DataFrame, path: str | Path, wanted: Wanted
) -> tuple[str, list[str], list[str], pd.Series[str], Callable[[int], str], Mapping[str, int]]:
    """The respondents' column, respondents, items, fields row by row, where one is in the file, what is left out."""
    column, chosen = choose_respondent_column(frame, path, wanted.columns), wanted.items
    frame = without_header_rows(frame)
    respondents = frame[column].tolist()
    others = frame.columns.drop(column)
    if others.empty or "" in frame.columns[1:]:
        raise InputError(f"file {path}: expected a named column for each item besides '{column}'")
    demand_filled(frame, path, column)
    names, left = item_columns(
        frame, column, path, items=chosen, exclude=wanted.exclude, graded=wanted.graded and not wanted.levels,
        threshold=0.0 if wanted.raw_scores and wanted.threshold is None else wanted.threshold,
    )  # fmt: skip
    asked = each_pattern(wanted.exclude, [str(name) for name in others])
    unasked = [name for name in left if chosen is None and not any(fnmatchcase(name, pattern) for pattern in asked)]
    if unasked:
        warnings.warn(
            f"file {path}: left out as no items: column {name_first(unasked, most=20)} (--items chooses the items)",
            stacklevel=3,
        )
    demand_unique(respondents, f"file {path}, column {column}: respondents")
    if looks_transposed(column, respondents, len(names)):
        warnings.warn(
            f"file {path}: {len(names)} columns and {len(frame)} rows that are named like items: "
            "the table looks transposed; rows are read as respondents",
            stacklevel=3,
        )

    def place(cell: int) -> str:
        row, k = divmod(cell, len(names))
        return f"{row_place(path, int(frame.index[row]))}, column {names[k]}"

    left_out = {f"columns that are no items: {name_first(left, most=20)}": len(left)} if left else {}
    return column, respondents, names, coded_cells(frame, names), place, left_out


def looks_transposed(first_column: str, row_names: Sequence[str], n_columns: int) -> bool:
    """Whether the rows of a wide table seem to be items.

    They do if there are more columns than rows and either the column of names is itself called after items
    (``item``, ``item_id``, ``question``, ``task``, ``prompt``, ``q``) or most row names are (``item7``, ``Q12``).
    More columns than rows alone means nothing: a hundred systems on two thousand items is an ordinary table.
    """
    if n_columns <= len(row_names):
        return False
    n_named_like_items = sum(_ITEM_WORD.fullmatch(name) is not None for name in row_names)
    return _ITEM_WORD.fullmatch(first_column) is not None or 2 * n_named_like_items > len(row_names)


def choose_respondent_column(frame: pd.DataFrame, path: str | Path, columns: Mapping[str, str]) -> str:
    """The column of respondents' names (see ``likely_respondent_column``), once ``columns`` is checked."""
    if unknown := [name for name in columns if name != "respondent_id"]:
        raise InputError(
            f"columns: {name_first(unknown)} cannot be named for a wide table (file {path}); "
            "expected respondent_id only"
        )
    demand_columns(frame, list(columns.values()), path)
    return likely_respondent_column(list(frame.columns), columns)


def likely_respondent_column(names: Sequence[str], columns: Mapping[str, str]) -> str:
    """The column that ``columns`` names for the respondents, or ours wherever it is, or the first.

    Where the first is one that survey tools add, such as a date, it is the one of theirs that names respondents.
    """
    if "respondent_id" in columns:
        return columns["respondent_id"]
    known, of_survey = {name.strip().lower(): name for name in reversed(names)}, is_metadata(names[0])
    return next((known[name] for name in (*OURS, *(RESPONDENTS if of_survey else ())) if name in known), names[0])
