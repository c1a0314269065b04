"""Which columns of a wide table are items, and which are what a survey tool says beside them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.readers.table import MISSING
from irtbench.data.responses import name_first

#: What survey tools (Qualtrics, LimeSurvey, Google Forms, Prolific's links) write beside the answers.
METADATA = {
    "startdate", "enddate", "status", "ipaddress", "progress", "duration (in seconds)", "finished", "recordeddate",
    "responseid", "recipientlastname", "recipientfirstname", "recipientemail", "externalreference",
    "externaldatareference", "locationlatitude", "locationlongitude", "distributionchannel", "userlanguage",
    "q_recaptchascore", "q_relevantidduplicate", "q_relevantidduplicatescore", "q_relevantidfraudscore",
    "q_relevantidlaststartdate", "q_duplicaterespondent", "q_ballotboxstuffing", "q_totalduration",
    "prolific_pid", "study_id", "session_id", "submitdate", "lastpage", "startlanguage", "seed", "datestamp",
    "timestamp", "email address", "token", "ipaddr", "refurl", "workerid", "assignmentid", "hitid",
}  # fmt: skip
#: What tables say of respondents beside their answers; so do columns ``cov_...`` of the Item Response Warehouse.
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
#: Of these, what names a respondent, the surest first.
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

    Parameters
    ----------
    frame
        The table.
    respondent_column
        Its column of respondents.
    path
        The file, for the errors.
    items
        Pattern of the items' columns, such as ``Q*``; None for all.
    exclude
        Names or patterns of columns that are none.
    graded
        Whether responses are wanted.
    threshold
        Whether scores on a finer scale are.

    Raises
    ------
    InputError
        If a pattern matches no column, or no column is left.
    """
    others = [str(name) for name in frame.columns if name != respondent_column]
    exclude = each_pattern(exclude, others)
    for pattern in [*exclude, *([] if items is None else [items])]:
        if not any(fnmatchcase(name, pattern) for name in others):
            raise InputError(f"file {path}: no column matches '{pattern}'; it has: {name_first(others, most=12)}")
    chosen = [name for name in others if not any(fnmatchcase(name, pattern) for pattern in exclude)]
    if items is not None:
        chosen = [name for name in chosen if fnmatchcase(name, items)]
    else:
        chosen = [name for name in chosen if not is_metadata(name)]
        if graded:
            chosen = [name for name in chosen if _looks_graded(frame[name], threshold)]
    if not chosen and others:
        what = "of 1, 0 or missing" if graded and threshold is None else "of items"
        raise InputError(
            f"file {path}: no column {what} beside '{respondent_column}'; it has: {name_first(others, most=12)}"
            + ("; raw answers are graded by the items' key" if graded else "")
        )
    taken = set(chosen)
    return chosen, [name for name in others if name not in taken]


def _looks_graded(column: pd.Series[str], threshold: float | None) -> bool:
    counts = {text: n for text, n in Counter(column.to_list()).items() if text not in MISSING and text != "-1"}
    fits = [n for text, n in counts.items() if text.lower() in _GRADED or (threshold is not None and _is_number(text))]
    return 2 * sum(fits) >= sum(counts.values())


def _is_number(text: str) -> bool:
    return bool(pd.notna(pd.to_numeric(text, errors="coerce")))
