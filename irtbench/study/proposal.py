"""Settings of a study that suit a data set, from what was found in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pandas as pd

from irtbench.building.prune_rules import FEWEST_ITEMS
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.readers.long_table import LongTable
from irtbench.data.vocabulary import is_closed
from irtbench.study.examination import Examination
from irtbench.study.study_template import Template

MOST_OPTIONS = 10  # distinct keys, up to which they are options that can be guessed at
FEWEST_TO_JUDGE = 20  # answers of a respondent, below which hardly anybody is surely better than by guessing


def propose(template: Template, examination: Examination, items: ItemTable | None) -> Template:
    """Fill in what the data say: screening, scales, prior, trials.

    A scale for each label if each has enough items; attention checks are all to be right; the prior that suits the
    number of respondents; of several trials of raw answers the first. No rule that depends on ability is set; with few
    options, and enough answers each, that of chance stands there as a comment.

    Raises
    ------
    InputError
        If no study can be built from the data, with the finding that says why.
    """
    for code in ("few_respondents", "duplicates", "finer_scores", "vocabulary", "unknown_items", "no_keys", "no_key"):
        if code == "finer_scores" and template.data.get("threshold") is not None:
            continue
        stop = examination.finding(code)
        if stop is not None:
            raise InputError(f"{template.answers}: no study can be built from this yet: {stop.text}")
    keys = (
        {} if items is None else {i: key for i, key in zip(items.item_ids, items.key, strict=True) if key is not None}
    )
    n_options = len(set(keys.values()))
    each = examination.summary.n_responses / max(1, examination.summary.n_respondents)
    guessed = is_closed(keys) and 2 <= n_options <= MOST_OPTIONS and each >= FEWEST_TO_JUDGE
    data = dict(template.data)
    several = examination.finding("trials") is not None and template.content == "answers"
    if several and data.get("trials", "error") == "error":
        data["trials"] = "first"
    return Template(
        title=template.title,
        answers=template.answers,
        content=template.content,
        format=template.format,
        items=template.items,
        data=data,
        attention=items is not None and bool(items.attention_items),
        n_options=n_options if guessed else None,
        by_label=items is not None and _has_scales(items),
        answers_mapped=template.answers_mapped,
        prior=None if examination.prior == "none" else examination.prior,
        preset=template.preset,
        systems=template.systems,
        respondents=template.respondents,
    )


def items_from_columns(table: LongTable, columns: Mapping[str, str]) -> pd.DataFrame:
    """Table of the items with what columns of the answers say of them, such as ``{"label": "benchmark"}``.

    Raises
    ------
    InputError
        If the answers have no such column, or it says two things of one item.
    """
    found = table.frame[["item_id"]].drop_duplicates().reset_index(drop=True)
    for name, column in columns.items():
        if column not in table.frame.columns:
            raise InputError(
                f"file {table.path}: no column '{column}' for the {name} of the items; a {table.format} table has it "
                "in a table of items (--items)"
            )
        said = table.frame.loc[table.frame[column].notna(), ["item_id", column]].drop_duplicates()
        twice = said["item_id"][said["item_id"].duplicated()]
        if not twice.empty:
            raise InputError(
                f"file {table.path}: column '{column}' has several values for item {twice.iloc[0]}; expected one, "
                f"as it is the {name} of the item"
            )
        found[name] = found["item_id"].map(said.set_index("item_id")[column])
    return found


def _has_scales(items: ItemTable) -> bool:
    """Whether each item has a label and each label enough items for a scale."""
    labels = [label for label, check in zip(items.label, items.attention, strict=True) if not check]
    counts = Counter(labels)
    return None not in counts and len(counts) > 1 and min(counts.values()) > FEWEST_ITEMS
