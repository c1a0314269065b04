"""Datapoints of Prolific's task builder, CSV with its schema (2026): a row a datapoint, a task group a booklet.

Answers come back from the survey tool or the task builder; Prolific's table of participants is joined to them
(`irtbench.data.readers.prolific`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pandas as pd

from irtbench.data.harmless_text import guarded


def prolific_datapoints(placed: pd.DataFrame, options: Sequence[str], question: str) -> dict[str, str]:
    """``prolific.csv``, ``prolific_schema.json`` and ``prolific_instructions.json``.

    Each participant does one task group, hence one booklet. Only the text is shown: item and position are metadata.
    """
    table = placed[["text", "item_id", "booklet", "position"]].assign(
        item_id=[guarded(item) for item in placed["item_id"]],
        booklet=[f"booklet_{number:04d}" for number in placed["booklet"]],
    )
    schema = {
        "strict": False,
        "fields": {
            "text": {"type": "text", "label": "Text"},
            "item_id": {"type": "metadata"},
            "position": {"type": "metadata"},
            "booklet": {"type": "task_group_id"},
        },
    }
    choice = {
        "type": "multiple_choice",
        "description": question,
        "options": [{"label": option, "value": option} for option in options],
    }
    return {
        "prolific.csv": table.to_csv(index=False, lineterminator="\n"),
        "prolific_schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n",
        "prolific_instructions.json": json.dumps([choice], indent=2, ensure_ascii=False) + "\n",
    }
