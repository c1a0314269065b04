"""Item parameters as the table items.csv, there and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.readers.table import demand_columns, field_places, read_table, to_numbers
from irtbench.data.responses import ResponseMatrix
from irtbench.models.item_response import ItemParameters


def parameter_table(items: ItemParameters, responses: ResponseMatrix) -> pd.DataFrame:
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
            "n_responses": data.observed.sum(axis=0),
            "proportion_correct": data.proportion_correct(),
        }
    )


def read_parameters(path: str | Path) -> ItemParameters:
    """Read item parameters from a table with ``item_id, discrimination, intercept`` and, if there, ``guessing, model``.

    Without a column ``guessing`` it is 0; guessing counts as estimated where ``model`` says ``3pl``.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, or a value is no number.
    """
    table = read_table(path)
    demand_columns(table, ["item_id", "discrimination", "intercept"], path)
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
