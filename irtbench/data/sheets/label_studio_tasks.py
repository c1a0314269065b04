"""Tasks of Label Studio, JSON, a file a booklet, and the labelling interface."""

from __future__ import annotations

import json
from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

import pandas as pd


def label_studio_tasks(placed: pd.DataFrame, options: Sequence[str], question: str) -> dict[str, str]:
    """``label_studio_0001.json`` and on, in the order of the booklet, and ``label_studio.xml``.

    A booklet is a project with sequential sampling: Label Studio hands all annotators of a project the same order. Its
    tasks get numbers of its own; the item's name stands in the data of the task.
    """
    files = {}
    for number in placed["booklet"].unique().tolist():
        rows = placed[placed["booklet"] == number]
        tasks = [
            {"data": {"item_id": item, "text": text}, "meta": {"booklet": number, "position": position}}
            for item, text, position in zip(rows["item_id"], rows["text"], rows["position"].tolist(), strict=True)
        ]
        files[f"label_studio_{number:04d}.json"] = json.dumps(tasks, indent=1, ensure_ascii=False) + "\n"
    choices = "\n".join(f"    <Choice value={quoteattr(option)}/>" for option in options)
    files["label_studio.xml"] = (
        "<View>\n"
        '  <Text name="text" value="$text"/>\n'
        f"  <Header value={quoteattr(question)}/>\n"
        '  <Choices name="answer" toName="text" choice="single" required="true">\n'
        f"{choices}\n"
        "  </Choices>\n"
        "</View>\n"
    )
    return files
