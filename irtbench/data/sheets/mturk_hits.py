"""HITs of Mechanical Turk, CSV, a row a booklet, and the form they are shown in (closed to new customers in 2026)."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import pandas as pd

from irtbench.data.harmless_text import guarded, guarded_table

#: Of the page: the form's own script and what it loads, and no other.
POLICY = (
    "default-src 'none'; script-src https://assets.crowd.aws; style-src 'unsafe-inline' https:; font-src https:; "
    "img-src https: data:; media-src https:; connect-src https:; form-action https:; base-uri 'none'"
)


def mturk_hits(placed: pd.DataFrame, options: Sequence[str], question: str) -> dict[str, str]:
    """``mturk.csv`` with ``item_id1, text1, item_id2, ...``, and ``mturk.html`` with a field ``q1`` and on for each."""
    rows = []
    for number, own in placed.groupby("booklet", sort=True):
        row: dict[str, object] = {"booklet": number}
        for k, (item, text) in enumerate(zip(own["item_id"], own["text"], strict=True), start=1):
            row |= {f"item_id{k}": item, f"text{k}": _as_html(text)}
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
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n<script src="https://assets.crowd.aws/crowd-html-elements.js"></script>\n<crowd-form>\n'
        + "\n".join(fields)
        + "\n</crowd-form>\n"
    )
    table = guarded_table(pd.DataFrame(rows))
    return {"mturk.csv": table.to_csv(index=False, lineterminator="\n"), "mturk.html": form}


def _as_html(text: str) -> str:
    """The text, its first letter by number where a spreadsheet would take it for a formula: a page shows the letter."""
    return text if guarded(text) == text else f"&#{ord(text[0])};{text[1:]}"
