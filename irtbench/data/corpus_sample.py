"""Items for a crowd out of the table of a corpus: which of them, and what people read."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.item_sampling import AgreementLevel, annotated_items, sample_items
from irtbench.data.items import ItemTable
from irtbench.data.readers.item_table import read_items
from irtbench.data.readers.table import read_table
from irtbench.data.responses import name_first

OURS = ("item_id", "key", "label", "n_agree", "n_annotators", "set", "attention", "text")
NO_LABEL = ("-", "NA", "NaN")


def corpus_sample(
    file: Path, *, columns: Mapping[str, str], where: Mapping[str, str], text: str | None, checks: Path | None,
    annotations: Sequence[str], **drawn: Any,
) -> tuple[pd.DataFrame, pd.DataFrame]:  # fmt: skip
    """The items chosen in our columns, and with the corpus's own; `drawn` as of `draw`.

    Raises
    ------
    InputError
        If the table has no such columns, or an item is also an attention check.
    """
    known, corpus = read_items(file, columns=columns, where=where), read_table(file)
    id_column = columns.get("item_id", "item_id")
    corpus = corpus.set_index(id_column, drop=False).loc[list(known.item_ids)]
    chosen = draw(known, annotated(corpus, file, annotations), **drawn)
    rows = corpus.loc[list(chosen["item_id"])]
    chosen["text"] = known.select(list(chosen["item_id"])).text if text is None else filled(text, rows, file)
    if checks is not None:
        more = read_items(checks)
        own = pd.DataFrame({"item_id": more.item_ids, "key": more.key, "text": more.text, "attention": 1})
        chosen = pd.concat([chosen, own], ignore_index=True)
    chosen = chosen[[name for name in OURS if name in chosen]]
    twice = chosen["item_id"][chosen["item_id"].duplicated()]
    if not twice.empty:
        raise InputError(f"sample: item {name_first(list(twice))} is both an item and an attention check")
    rest = rows.drop(columns=[name for name in rows.columns if name in OURS or name == id_column])
    return chosen, chosen.merge(rest, left_on="item_id", right_index=True, how="left")


def draw(
    known: ItemTable, labelled: pd.DataFrame | None, *, agreement: Sequence[str], per_label: int, labels: Sequence[str],
    rng: np.random.Generator,
) -> pd.DataFrame:  # fmt: skip
    """Items drawn by label and agreement, and attention checks; all, where no column of annotators is named."""
    everything = pd.DataFrame(
        {"item_id": known.item_ids, "key": known.key, "label": known.label, "attention": np.array(known.attention, int)}
    )
    if labelled is None:
        return everything
    levels = [AgreementLevel.read(given) for given in agreement]
    said = annotated_items(labelled.loc[list(known.scale_items)])
    drawn = sample_items(said, levels=levels, per_label=per_label, labels=labels, rng=rng)
    own = everything[everything["attention"] == 1]
    return pd.concat([drawn.assign(key=drawn["label"], attention=0), own], ignore_index=True)


def annotated(corpus: pd.DataFrame, file: Path, annotations: Sequence[str]) -> pd.DataFrame | None:
    """The columns with an annotator's label each; None where no pattern of them is given."""
    if not annotations:
        return None
    names = [name for name in corpus.columns if any(fnmatch.fnmatchcase(name, each) for each in annotations)]
    if not names:
        raise InputError(
            f"file {file}: no column like {', '.join(annotations)}; it has: {name_first(list(corpus), most=12)}"
        )
    return corpus[names].mask(lambda cells: cells.isin(NO_LABEL), "")


def filled(template: str, rows: pd.DataFrame, file: Path) -> list[str]:
    """The template with each row's columns in the place of their names in braces.

    Raises
    ------
    InputError
        If it names a column that is not there, or its braces do not match.
    """
    try:
        return [template.format_map(row) for row in rows.to_dict(orient="records")]
    except KeyError as error:
        raise InputError(
            f"--text: file {file} has no column {error}; it has: {name_first(list(rows.columns), most=12)}"
        ) from None
    except (ValueError, IndexError, AttributeError):
        raise InputError(f"--text {template}: expected text with columns in braces, such as {{text}}") from None
