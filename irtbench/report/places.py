"""Where systems stand among people, in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from irtbench.report.addresses import Sentence
from irtbench.report.formatting import decimal, plural
from irtbench.scoring.comparability import why_not_compared
from irtbench.scoring.scores import ScoringSettings

MOST_SENTENCES = 12  # a system on a scale each; of more only the ends are told
AMONG = {
    "normal": "of the {people}",
    "empirical": "of the {people} of the norm sample",
    "smoothed": "of the {people} that the norm sample stands for",
}


def places(scores: pd.DataFrame, scoring: ScoringSettings, people: str = "") -> list[Sentence]:
    """A sentence on each system on each scale; of many, on the most and the least able of each scale.

    Parameters
    ----------
    scores
        Rows of scores.csv.
    scoring
        How they were scored.
    people
        What the bank calls its respondents; people unless it does.
    """
    said: list[Sentence] = [(place(row, scoring, people),) for row in _told(scores)]
    if len(said) < len(scores):
        n_systems = scores["respondent_id"].nunique()
        said.insert(0, (f"Of {plural(n_systems, 'system')}, the most and the least able on each scale:",))
    return said


def _told(scores: pd.DataFrame) -> list[Mapping[Any, Any]]:
    """The rows that have a sentence: all, or of each scale the least and the most able system."""
    if len(scores) <= MOST_SENTENCES:
        return list(scores.to_dict("records"))
    ends: list[Mapping[Any, Any]] = []
    for _, rows in scores[scores["theta"].notna()].groupby("scale", sort=False):
        order = rows.sort_values("theta", ascending=False, kind="stable")
        ends += order.iloc[[0, -1]].to_dict("records")
    return ends


def place(row: Mapping[Any, Any], scoring: ScoringSettings, people: str = "") -> str:
    """Where a system stands among people, or why no percentile is given.

    Parameters
    ----------
    row
        Of scores.csv.
    scoring, people
        See `places`.
    """
    who, why = f"{row['respondent_id']} on {row['scale']}", why_not_compared(row)
    if why:
        return f"{who}: no percentile is given: {why.replace('lz* -', 'lz* −')}."
    if np.isnan(row["percentile"]):
        return f"{who}: ability {decimal(row['theta'])}; no percentile without a norm sample."
    among = AMONG[scoring.norm].format(people=people or "people")
    ends = f"[{decimal(row['percentile_lower'], 0)}, {decimal(row['percentile_upper'], 0)}]"
    group = "" if scoring.norm_group is None else f" with {scoring.norm_group[0]} {scoring.norm_group[1]}"
    return f"{who} is better than {decimal(row['percentile'], 0)}% {ends} {among}{group}."
