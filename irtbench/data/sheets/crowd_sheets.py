"""Sheets to upload, for whichever platform."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first
from irtbench.data.sheets.label_studio_tasks import label_studio_tasks
from irtbench.data.sheets.mturk_hits import mturk_hits
from irtbench.data.sheets.potato_project import potato_project
from irtbench.data.sheets.prolific_datapoints import prolific_datapoints

SheetFormat = Literal["prolific", "label-studio", "potato", "mturk"]

_SHEETS: Mapping[SheetFormat, Callable[[pd.DataFrame, Sequence[str], str], dict[str, str]]] = {
    "prolific": prolific_datapoints,
    "label-studio": label_studio_tasks,
    "potato": potato_project,
    "mturk": mturk_hits,
}


def crowd_sheets(
    booklets: pd.DataFrame,
    texts: Mapping[str, str],
    *,
    format: SheetFormat,
    options: Sequence[str],
    question: str = "Which answer is right?",
) -> dict[str, str]:
    """The files to upload, by name, for booklets in which every item has its place.

    Nothing in them says which items are attention checks, nor what is right.

    Parameters
    ----------
    booklets
        ``booklet, position, item_id`` as made by ``make_booklets``.
    texts
        What people read, for every item of a booklet.
    format
        The platform.
    options
        The answers to choose from, at least two.
    question
        Asked of every item.

    Raises
    ------
    InputError
        If an item has no text, there are fewer than two options, or one is repeated.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> booklets = irtbench.make_booklets(["i1", "i2", "i3"], n_booklets=2, n_each=2, rng=np.random.default_rng(1))
    >>> texts = {"i1": "A dog runs.", "i2": "A cat sleeps.", "i3": "It rains."}
    >>> files = irtbench.crowd_sheets(booklets, texts, format="mturk", options=["yes", "no"])
    >>> list(files)
    ['mturk.csv', 'mturk.html']
    >>> print(files["mturk.csv"].strip())
    booklet,item_id1,text1,item_id2,text2
    1,i2,A cat sleeps.,i3,It rains.
    2,i3,It rains.,i1,A dog runs.
    """
    without = [item for item in pd.unique(booklets["item_id"]) if not texts.get(item, "").strip()]
    if without:
        raise InputError(f"sheets: item {name_first(without)} has no text; expected what people are to read")
    if len(options) < 2 or len(set(options)) < len(options) or not all(option.strip() for option in options):
        raise InputError(f"sheets: expected at least two different answers to choose from but got {list(options)}")
    placed = booklets.sort_values(["booklet", "position"], kind="stable", ignore_index=True)
    return _SHEETS[format](placed.assign(text=placed["item_id"].map(texts)), options, question)
