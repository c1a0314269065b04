"""Items in categories as a table in a file: in the columns of items.csv, or as NAEP publishes them."""

from __future__ import annotations

import warnings
from pathlib import Path

import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.readers.table import demand_columns, field_places, to_numbers
from irtbench.data.responses import name_first
from irtbench.models.category_parameters import WORDS, CategoryParameters
from irtbench.models.item_models.named import MODELS

NAEP, NAEP_SCALE = ("a", "b", "irt_model"), ("subject", "year", "grade", "scale")


def scale_names(table: pd.DataFrame) -> pd.Series[str] | None:
    """The scale of each item; of NAEP's it is named by subject, year, grade and scale. None where none is named."""
    names = [name for name in NAEP_SCALE if name in table]
    if set(NAEP) <= {*table.columns} and names:
        return table[names].apply(lambda row: " ".join(text for text in row if text), axis=1)
    return table.get("scale")


def in_categories(table: pd.DataFrame) -> bool:
    """Whether a table of items has such as are not right or wrong."""
    return "n_categories" in table or "step_1" in table or set(NAEP) <= {*table.columns}


def read_categories(table: pd.DataFrame, path: str | Path, scaling: float | None) -> CategoryParameters:
    """The items of a table whose fields are texts; slopes are multiplied by the scaling constant D, 1 for None.

    Raises
    ------
    InputError
        If of NAEP's table, in which an item may be twice (the first row counts, with a warning), the constant is not
        given; if a column is missing, a value is no number, a model none of ours; as `CategoryParameters.from_table`.
    """
    published = set(NAEP) <= {*table.columns}
    if published and scaling is None:
        raise InputError(
            f"{path}: columns a, b, irt_model: the scaling constant D is not given; expected --scaling-constant 1.7 "
            "for NAEP's tables, 1 where slopes are logistic"
        )
    table = table.rename(columns={"irt_model": "model"})
    demand_columns(table, ["item_id", "model"], path)
    if unknown := sorted(set(table["model"]) - set(MODELS)):
        raise InputError(f"{path}: column model: {unknown[0]!r}; expected one of {', '.join(MODELS)}")
    if (repeated := table["item_id"].duplicated()).any():
        named = name_first(list(table["item_id"][repeated]), most=2)
        if not published:
            raise InputError(f"{path}: item {named}: named twice")
        warnings.warn(f"{path}: {int(repeated.sum())} items of a scale are there twice: {named}; the first row counts",
                      stacklevel=2)  # fmt: skip
        table = table[~repeated].reset_index(drop=True)
    parameters = [name for name in table.columns if name not in WORDS]
    known = {name: to_numbers(table[name], place=field_places(path, name)) for name in parameters if numeric(name)}
    found = pd.DataFrame(known, index=table.index)
    if published:
        later = [name for name in parameters if name.startswith("d_")]
        found = found.rename(columns={"a": "discrimination", "b": "difficulty", "c": "guessing"})
        found = found.assign(**{name.replace("d_", "step_"): found["difficulty"] - found[name] for name in later})
    slopes = [name for name in found.columns if name == "discrimination" or name.startswith("a")]
    found[slopes] *= 1.0 if scaling is None else scaling
    words = table[[name for name in table.columns if name in WORDS]]
    try:
        return CategoryParameters.from_table(words.join(found), [MODELS[name] for name in table["model"]])
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def numeric(name: str) -> bool:
    """Whether a column is a parameter's: of ours or NAEP's, or an item model's own."""
    ours = ("discrimination", "difficulty", "guessing", "upper_asymptote", "n_categories", "a", "b", "c")
    kind, _, number = name.partition("_")
    return name in ours or (kind in ("step", "d") and number.isdigit()) or (name[0] in "ad" and name[1:].isdigit())
