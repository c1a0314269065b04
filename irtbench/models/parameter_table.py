"""Item parameters as the table items.csv, there and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.readers.head import look_at
from irtbench.data.readers.py_irt_parameters import read_py_irt_parameters, recognises
from irtbench.data.readers.table import demand_columns, field_places, read_table, to_numbers
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.sparse_responses import SparseResponses
from irtbench.models.item_parameters import ItemParameters


def parameter_table(items: ItemParameters, responses: ResponseMatrix | SparseResponses) -> pd.DataFrame:
    """Parameters with their standard errors and the classical figures of the same responses, a row an item.

    Raises
    ------
    InputError
        If the responses lack one of the items.
    """
    data = responses.select_items(items.item_ids)
    errors = items.standard_errors()
    return pd.DataFrame(
        {
            "item_id": items.item_ids,
            "model": items.model,
            "discrimination": items.discrimination,
            "difficulty": items.difficulty,
            "guessing": items.guessing,
            "intercept": items.intercept,
            "se_discrimination": errors["discrimination"],
            "se_difficulty": errors["difficulty"],
            "se_guessing": errors["guessing"],
            "se_intercept": errors["intercept"],
            "n_responses": data.n_by_item,
            "proportion_correct": data.proportion_correct(),
        }
    )


def read_parameters(path: str | Path) -> ItemParameters:
    """Read item parameters from a table with ``item_id, discrimination, intercept`` and, if there, ``guessing, model``.

    Instead of a table it may be py-irt's ``best_parameters.json`` (see ``read_py_irt_parameters``). Without a column
    ``guessing`` it is 0; guessing counts as estimated where ``model`` says ``3pl``.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, a value is no number, or the items have several abilities.
    """
    if recognises(look_at(Path(path))):
        found = read_py_irt_parameters(path)
        a, d = found["discrimination"].to_numpy(), found["intercept"].to_numpy()
        return ItemParameters(tuple(found["item_id"]), a, d, np.zeros_like(a), np.zeros(len(a), dtype=np.bool_))
    table = read_table(path)
    demand_columns(table, ["item_id", "discrimination", "intercept"], path)
    if "slope_2" in table:
        raise InputError(
            f"{path}: column slope_2: items of several abilities; expected one ability (fit without --factors, or the "
            "items of each ability by themselves)"
        )
    number = {
        name: to_numbers(table[name], place=field_places(path, name))
        for name in ("discrimination", "intercept", "guessing")
        if name in table
    }
    model = table["model"] if "model" in table else pd.Series("", index=table.index)
    try:
        return ItemParameters(
            tuple(table["item_id"]),
            number["discrimination"],
            number["intercept"],
            number.get("guessing", np.zeros(len(table))),
            (model == "3pl").to_numpy(),
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def read_models(path: str | Path) -> dict[str, Literal["2pl", "3pl"] | float]:
    """Read each item's model from a table with ``item_id, model`` and, for a fixed guessing, ``guessing``.

    ``model`` is ``2pl``, ``3pl`` or ``2pl_fixed_guessing``, as in items.csv.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, an item is named twice, or a model is none of these.
    """
    table = read_table(path)
    demand_columns(table, ["item_id", "model"], path)
    fixed = table["model"] == "2pl_fixed_guessing"
    if fixed.any():
        demand_columns(table, ["guessing"], path)
    wrong = ~(fixed | table["model"].isin(["2pl", "3pl"]))
    if wrong.any():
        place = field_places(path, "model")(int(np.flatnonzero(wrong)[0]))
        raise InputError(f"{place}: expected 2pl, 3pl or 2pl_fixed_guessing but got {table['model'][wrong].iloc[0]!r}")
    if table["item_id"].duplicated().any():
        raise InputError(f"{path}: item {table['item_id'][table['item_id'].duplicated()].iloc[0]}: named twice")
    models: dict[str, Literal["2pl", "3pl"] | float] = dict(zip(table["item_id"], table["model"], strict=True))
    if fixed.any():
        guessing = to_numbers(table["guessing"], place=field_places(path, "guessing"))
        models |= dict(zip(table["item_id"][fixed], guessing[fixed.to_numpy()].tolist(), strict=True))
    return models


def read_pattern(path: str | Path, item_ids: Sequence[str]) -> NDArray[np.bool_]:
    """Read which slopes of a model with several abilities are zero, shape (n_items, n_factors).

    Parameters
    ----------
    path
        A table with ``item_id, slope_1, slope_2, ...``: 1 where a slope is estimated, 0 where it is zero.
    item_ids
        The items wanted; the table may have others.

    Raises
    ------
    InputError
        If the file cannot be read, a column or an item is missing, an item is named twice, or a value is neither 0 nor
        1.
    """
    table = read_table(path)
    demand_columns(table, ["item_id", "slope_1", "slope_2"], path)
    names = [name for k in range(1, len(table.columns)) if (name := f"slope_{k}") in table]
    if table["item_id"].duplicated().any():
        raise InputError(f"{path}: item {table['item_id'][table['item_id'].duplicated()].iloc[0]}: named twice")
    free = pd.DataFrame(index=pd.Index(table["item_id"]))
    for name in names:
        values = to_numbers(table[name], place=field_places(path, name))
        wrong = np.flatnonzero(~np.isin(values, (0, 1)))
        if wrong.size:
            place = field_places(path, name)(int(wrong[0]))
            raise InputError(f"{place}: expected 1 (estimated) or 0 (zero) but got {table[name].iloc[wrong[0]]!r}")
        free[name] = values == 1
    if missing := [item for item in item_ids if item not in free.index]:
        raise InputError(f"{path}: no row for item {name_first(missing)}")
    return ~free.loc[list(item_ids)].to_numpy(dtype=np.bool_)
