"""Where a system answers unlike people of its ability: its tables and sentences on the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from irtbench.data.items import ItemTable
from irtbench.report.formatting import decimal, interval
from irtbench.report.wording import words
from irtbench.scoring.optional_columns import Explanation
from irtbench.scoring.percentiles import UNLIKELY_PATTERN

MOST_SYSTEMS = 12  # with a part of their own
MOST_SURPRISES = 5  # of each kind, of a system on a scale
UNUSUAL_Z = 1.96  # beyond it, accuracy on a part of the items is seen in one of twenty people


def explained_systems(scores: pd.DataFrame | None) -> list[str]:
    """The systems with a part of their own: all, or the ``MOST_SYSTEMS`` whose answers are least like a person's."""
    if scores is None:
        return []
    answered = scores[scores["n_items"] > 0]
    systems = list(answered["respondent_id"].unique())
    if len(systems) <= MOST_SYSTEMS:
        return systems
    least = answered.groupby("respondent_id")["person_fit"].min().sort_values(kind="stable").index[:MOST_SYSTEMS]
    return [system for system in systems if system in set(least)]


def likeness(scores: pd.DataFrame, explained: Explanation, system: str) -> str:
    """Say whether the system's answers look like a person's, scale by scale, and where its accuracy does not."""
    rows = scores[(scores["respondent_id"] == system) & (scores["n_items"] > 0)].to_dict("records")
    fits = {f"{row['scale']} (lz* {decimal(row['person_fit'])})": row["person_fit"] for row in rows}
    levels = explained.difficulty
    odd = levels[(levels["respondent_id"] == system) & (levels["z"].abs() > UNUSUAL_Z)].to_dict("records")
    found = words(
        "likeness", odd=[too_many_or_few(row) for row in odd],
        like=[text for text, fit in fits.items() if fit >= UNLIKELY_PATTERN],
        unlike=[text for text, fit in fits.items() if fit < UNLIKELY_PATTERN],
        unknown=[str(row["scale"]) for row in rows if math.isnan(row["person_fit"])],
    )  # fmt: skip
    return found.rstrip()


def difficulty_table(explained: Explanation, system: str) -> pd.DataFrame:
    """Accuracy of a system on easy to hard items, and that of people of its ability."""
    columns = ["scale", "difficulty_range", "n_items", "observed", "expected", "expected_lower", "expected_upper", "z"]
    levels = explained.difficulty
    own = levels[levels["respondent_id"] == system]
    spans = [interval(low, high) for low, high in zip(own["difficulty_from"], own["difficulty_to"], strict=True)]
    return own.assign(difficulty_range=spans)[columns].reset_index(drop=True)


def surprises_table(explained: Explanation, items: ItemTable, system: str) -> pd.DataFrame:
    """Items that a system misses and people of its ability do not, and the reverse, the least likely first.

    At most ``MOST_SURPRISES`` of each kind on each scale.
    """
    columns = ["scale", "surprise", "item_id", "text", "difficulty", "expected"]
    surprises = explained.surprises()
    own = surprises[surprises["respondent_id"] == system]
    few = own.groupby(["scale", "surprise"], sort=False).head(MOST_SURPRISES)
    ordered = few.sort_values(["scale", "surprise", "chance"], kind="stable")
    text = dict(zip(items.item_ids, items.text, strict=True))
    return ordered.assign(text=[text.get(item) or "" for item in ordered["item_id"]])[columns].reset_index(drop=True)


def too_many_or_few(row: Mapping[Any, Any]) -> str:
    """Right on items of one part: ``9 of 10 right, where 5.1 are expected, on items ...``."""
    n = int(row["n_items"])
    return words("oddity", row=row, n=n, right=round(row["observed"] * n), expected=row["expected"] * n)
