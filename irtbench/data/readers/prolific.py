"""Prolific's table of participants: answers come from the survey tool, this says who gave them, how long and whether.

It is one row a participant: ``Submission id, Participant id, Status, Started at, Completed at, Time taken, Completion
code, Total approvals`` and demographics.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.readers.head import Head
from irtbench.data.readers.table import MISSING, demand_filled, field_places, read_table, to_numbers
from irtbench.data.responses import name_first

#: Submissions that count; others were returned, timed out, rejected or screened out.
COUNTED = ("APPROVED", "AWAITING REVIEW")
_OURS = {"Started at": "started_at", "Completed at": "completed_at", "Time taken": "submission_seconds"}
_NOT_TAKEN = {"Submission id", "Participant id", "Status", "Completion code", "Archived at", "Reviewed at"}


def recognises(head: Head) -> bool:
    """Whether a file is Prolific's table of participants."""
    return head.kind == "table" and head.has("Submission id", "Participant id", "Status")


def join(frame: pd.DataFrame, path: Path, left_out: Counter[str]) -> pd.DataFrame:
    """Join what Prolific says of participants to the long table of their answers.

    Answers of participants whose submission does not count, and of respondents who are not in the table, are left out
    and counted. Added are ``submission_seconds``, ``started_at``, ``completed_at`` and the demographics.

    Raises
    ------
    InputError
        If a participant comes twice, nobody of the table gave answers, or a time is no number.
    """
    table = read_table(path)
    demand_filled(table, "Participant id", path)
    counts = table["Status"].str.strip().str.upper().isin(COUNTED)
    known = set(table["Participant id"])
    if not known & set(frame["respondent_id"]):
        raise InputError(
            f"file {path}, column Participant id: none of {name_first(sorted(known))} gave answers; expected the ids "
            f"of the respondents, such as {name_first(list(frame['respondent_id'].unique()))}"
        )
    kept = table[counts]
    if kept["Participant id"].duplicated().any():
        twice = list(kept.loc[kept["Participant id"].duplicated(), "Participant id"].unique())
        raise InputError(f"file {path}, column Participant id: {name_first(twice)} has several submissions that count")
    told = frame["respondent_id"].isin(known)
    taken = frame["respondent_id"].isin(kept["Participant id"])
    if n := int((~told).sum()):
        left_out["answers of respondents who are not among Prolific's participants"] += n
    if n := int((told & ~taken).sum()):
        left_out["answers of submissions that Prolific does not count (returned, timed out, rejected)"] += n
    own = kept.set_index("Participant id")
    time_places = field_places(path, "Time taken")
    added = {}
    for name in own.columns:
        if name in _NOT_TAKEN:
            continue
        column = own[name].mask(own[name].isin([*MISSING, "CONSENT_REVOKED", "DATA_EXPIRED"]))
        if name == "Time taken":
            column = pd.Series(to_numbers(own[name], place=lambda k: time_places(int(kept.index[k]))), index=own.index)
        added[_OURS.get(name, name)] = column
    frame = frame[taken].reset_index(drop=True)
    new = {name: frame["respondent_id"].map(column) for name, column in added.items() if name not in frame.columns}
    return frame.assign(**new)
