"""A study file for a data set: what its data say is filled in, the rest are the defaults with a word about each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pandas as pd

from irtbench.building.prune_rules import FEWEST_ITEMS
from irtbench.data.grading import is_closed
from irtbench.data.input_error import InputError
from irtbench.data.items import ItemTable
from irtbench.data.readers.long_table import LongTable
from irtbench.data.readers.table import one_value_each
from irtbench.study.examination import Examination

if TYPE_CHECKING:
    from irtbench.data.grading import NormalisationRule

Preset = Literal["standard", "lalor2016", "none"]
#: Rules of ``[grading] normalise`` that a study file begins with.
NORMALISE: tuple[NormalisationRule, ...] = ("strip", "casefold")

MOST_OPTIONS = 10  # distinct keys, up to which they are options that can be guessed at
#: Findings with which no study can be built.
STOPPING = ("few_respondents", "duplicates", "finer_scores", "vocabulary", "unknown_items", "no_keys", "no_key")
FEWEST_TO_JUDGE = 20  # answers of a respondent, below which hardly anybody is surely better than by guessing


def study_text(
    given: Mapping[str, Mapping[str, object]], found: Examination, items: ItemTable | None, *, output: Path
) -> str:
    """The study file as TOML, with what the data say: screening, scales, prior, trials; results go to `output`.

    The tables of what is `given` before the data are looked at are taken as they are, without what is None or empty.
    A scale for each label if each has enough items; attention checks are all to be right; the prior that suits the
    number of respondents; of several trials of raw answers the first. No rule that depends on ability is set; with few
    options, and enough answers each, that of chance is there as a comment.
    """
    for code in STOPPING:
        stop = found.finding(code)
        if stop is not None and not (code == "finer_scores" and given["data"].get("threshold") is not None):
            raise InputError(f"{given['data']['answers']}: no study can be built from this yet: {stop.text}")
    data, of_answers = {**given["data"]}, given["data"]["content"] is None
    if of_answers and found.finding("trials") is not None and data.get("trials", "error") == "error":
        data["trials"] = "first"
    grades = found.finding("grades") is not None or bool(data.get("levels"))
    tables: list[tuple[str, str, Mapping[str, object]]] = [
        ("study", "", {**given["study"], "seed": 1}),
        ("data", "", {key: value for key, value in data.items() if value not in ("", (), [], {}, "error")}),
        ("screening", "who is left out", {"attention_share": 1.0 if items and items.attention_items else None}),
    ]
    if of_answers:
        rules = {"normalise": list(NORMALISE), "empty": "wrong", **given["grading"]}
        tables.append(("grading", "how answers are compared with the key", rules))
    by = "label" if items is not None and _has_scales(items) else "none"
    prior = None if grades or found.prior == "none" else found.prior  # of grades `build` chooses
    tables += [
        ("scales", "label: one scale a label of the items; none: one for all", {"by": by}),
        ("model", "", {"kind": "grm" if grades else "2pl", "prior": prior}),
        ("pruning", "standard, lalor2016 or none; single rules next to it", given["pruning"]),
        ("score", "systems to score at the end", given["score"]),
        ("output", "", {"directory": output.as_posix()}),
    ]
    if given["card"]:
        tables.append(("card", "what the bank says of itself", given["card"]))
    lines = [f"# Study file of irtbench: irtbench build {output.name}.toml"]
    for name, comment, table in tables:
        lines += ["", f"[{name}]" + (f"  # {comment}" if comment else "")]
        lines += [f"{key} = {toml_value(value)}" for key, value in table.items() if value is not None]
        if name == "screening" and of_answers and (n := _options_to_guess_at(found, items)):
            lines.append(f"# chance_level = {1 / n:.4f}  # leaves out who may guess, and honest weak people too")
    return "\n".join(lines) + "\n"


def _options_to_guess_at(found: Examination, items: ItemTable | None) -> int:
    """How many options there are where respondents may guess, and answered enough to be judged; else 0."""
    known = () if items is None else zip(items.item_ids, items.key, strict=True)
    keys = {item: key for item, key in known if key is not None}
    n_options, each = len(set(keys.values())), found.summary.n_responses / max(1, found.summary.n_respondents)
    return n_options if is_closed(keys) and 2 <= n_options <= MOST_OPTIONS and each >= FEWEST_TO_JUDGE else 0


def toml_value(value: object) -> str:
    """A value as TOML writes it: texts, numbers, truth values, lists and inline tables.

    Examples
    --------
    >>> print(toml_value({"a b": [1, True, "x"]}))
    { "a b" = [1, true, "x"] }
    """
    match value:
        case bool() | int() | float():
            return json.dumps(value)
        case Mapping():
            pairs = ", ".join(f"{toml_text(str(key))} = {toml_value(entry)}" for key, entry in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
        case list() | tuple():
            return f"[{', '.join(toml_value(entry) for entry in value)}]"
    return toml_text(str(value))


def toml_text(text: str) -> str:
    """A text as a TOML basic string, whose escapes are those of JSON but for DEL, which JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def items_from_columns(table: LongTable, columns: Mapping[str, str]) -> pd.DataFrame:
    """Table of the items with what columns of the answers say of them, such as ``{"label": "benchmark"}``."""
    found = table.frame[["item_id"]].drop_duplicates().reset_index(drop=True)
    for name, column in columns.items():
        if column not in table.frame.columns:
            raise InputError(
                f"file {table.path}: no column '{column}' for the {name} of the items; a {table.format} table has it "
                "in a table of items (--items)"
            )
        known = table.frame[table.frame[column].notna()]
        values = one_value_each(known, "item_id", column, "item", f"file {table.path}")
        found[name] = found["item_id"].map(values)
    return found


def _has_scales(items: ItemTable) -> bool:
    """Whether each item has a label and each label enough items for a scale."""
    labels = [label for label, check in zip(items.label, items.attention, strict=True) if not check]
    counts = Counter(labels)
    return None not in counts and len(counts) > 1 and min(counts.values()) > FEWEST_ITEMS
