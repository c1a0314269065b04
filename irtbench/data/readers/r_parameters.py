"""Tables of item parameters in the columns of R's mirt (a1, d, g, u) and catR (a, b, c, d)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.readers.table import field_places, to_numbers

#: Slope, place, lower and upper asymptote; ``d`` is the intercept in the one and the upper asymptote in the other.
MIRT, CATR = ("a1", "d", "g", "u"), ("a", "b", "c", "d")


def in_our_columns(table: pd.DataFrame, path: str | Path) -> pd.DataFrame:
    """The table under our names ``item_id, discrimination, intercept, guessing``; any other table as it is.

    There is a column ``upper_asymptote`` where one is below 1.

    Parameters
    ----------
    table
        All texts, as `read_table` gives it. Items are named in ``item_id``, ``item``, or as R writes the names of rows,
        in the first column.
    path
        The file, for errors.

    Raises
    ------
    InputError
        If the items have several abilities or no names, or a value is no number.
    """
    used = next((names for names in (MIRT, CATR) if set(names[:2]) <= set(table.columns)), None)
    if {"discrimination", "difficulty"} <= {*table.columns} and "intercept" not in table:
        a, b = (to_numbers(table[name], place=field_places(path, name)) for name in ("discrimination", "difficulty"))
        return table.assign(intercept=[repr(float(d)) for d in -a * b])
    if "discrimination" in table or used is None:
        return table
    if "a2" in table:
        raise InputError(f"{path}: column a2: items of several abilities; expected one ability")
    names = next((name for name in ("item_id", "item") if name in table), str(table.columns[0]))
    if names in used:
        raise InputError(f"{path}: no column of the items' names; expected item_id, item, or names in the first column")
    number = {name: to_numbers(table[name], place=field_places(path, name)) for name in used if name in table}
    slope, place, lower, upper = used
    found = pd.DataFrame(
        {
            "item_id": table[names],
            "discrimination": table[slope],
            "intercept": table[place] if used == MIRT else [repr(float(d)) for d in -number[slope] * number[place]],
            "guessing": table.get(lower, "0"),
        }
    )
    return found.assign(upper_asymptote=table[upper]) if upper in number and (number[upper] != 1).any() else found
