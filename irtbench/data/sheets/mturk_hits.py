"""HITs of Mechanical Turk, CSV, a row a booklet, and the form they are shown in (closed to new customers in 2026)."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import pandas as pd


def mturk_hits(placed: pd.DataFrame, options: Sequence[str], question: str) -> dict[str, str]:
    """``mturk.csv`` with ``item_id1, text1, item_id2, ...``, and ``mturk.html`` with a field ``q1`` and on for each."""
    rows = []
    for number, own in placed.groupby("booklet", sort=True):
        row: dict[str, object] = {"booklet": number}
        for k, (item, text) in enumerate(zip(own["item_id"], own["text"], strict=True), start=1):
            row |= {f"item_id{k}": item, f"text{k}": text}
        rows.append(row)
    places = int(placed.groupby("booklet").size().max())
    fields = []
    for k in range(1, places + 1):
        buttons = "".join(
            f'<label><input type="radio" name="q{k}" value="{escape(option)}" required> {escape(option)}</label>\n'
            for option in options
        )
        fields.append(f"<fieldset>\n<p>${{text{k}}}</p>\n<p>{escape(question)}</p>\n{buttons}</fieldset>")
    form = (
        '<script src="https://assets.crowd.aws/crowd-html-elements.js"></script>\n<crowd-form>\n'
        + "\n".join(fields)
        + "\n</crowd-form>\n"
    )
    return {"mturk.csv": pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"), "mturk.html": form}
