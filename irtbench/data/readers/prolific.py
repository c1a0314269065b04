"""Prolific's table of participants: answers come from the survey tool, this says who gave them, how long and whether.

It is one row a participant: ``Submission id, Participant id, Status, Started at, Completed at, Time taken, Completion
code, Total approvals`` and demographics.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pandas as pd

from irtbench.data.readers.head import Head
from irtbench.data.readers.table import MISSING, field_places, to_numbers

RESPONDENT = "Participant id"
#: Submissions that count; others were returned, timed out, rejected or screened out.
COUNTED = ("APPROVED", "AWAITING REVIEW")
_OURS = {"Started at": "started_at", "Completed at": "completed_at", "Time taken": "submission_seconds"}
_NOT_TAKEN = {"Submission id", "Status", "Completion code", "Archived at", "Reviewed at"}


def recognises(head: Head) -> bool:
    """Whether a file is Prolific's table of participants."""
    return head.kind == "table" and head.has("Submission id", "Participant id", "Status")


def counted(
    frame: pd.DataFrame, table: pd.DataFrame, path: Path, left_out: Counter[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The answers of participants whose submission counts, and what Prolific says of these, under our names.

    Answers of others, and of respondents who are not in the table, are counted as left out. Times are
    ``submission_seconds, started_at, completed_at``; the rest are demographics.
    """
    kept = table[table["Status"].str.strip().str.upper().isin(COUNTED)]
    told, taken = (frame["respondent_id"].isin(own[RESPONDENT]) for own in (table, kept))
    for others, why in (
        (~told, "answers of respondents who are not among Prolific's participants"),
        (told & ~taken, "answers of submissions that Prolific does not count (returned, timed out, rejected)"),
    ):
        if n := int(others.sum()):
            left_out[why] += n
    place = field_places(path, "Time taken")
    known = kept.drop(columns=[name for name in kept.columns if name in _NOT_TAKEN])
    known = known.mask(known.isin([*MISSING, "CONSENT_REVOKED", "DATA_EXPIRED"]))
    if "Time taken" in kept:
        known["Time taken"] = to_numbers(kept["Time taken"], place=lambda k: place(int(kept.index[k])))
    return frame[taken].reset_index(drop=True), known.rename(columns=_OURS).assign(**{RESPONDENT: kept[RESPONDENT]})
