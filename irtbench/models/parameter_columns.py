"""Item parameters in the columns that other programs read: R mirt's slope and intercept, catR's a, b, c, d."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, as_parameters

#: Programs whose columns are known.
Program = Literal["mirt", "catr"]


def parameter_columns(items: ParametersLike, program: Program) -> pd.DataFrame:
    """Parameters in a program's own columns, a row an item, ``item_id`` first.

    Parameters
    ----------
    items
        Of one ability.
    program
        ``"mirt"``: ``a1, d, g, u`` of P = g + (u - g) / (1 + exp(-(a1 theta + d))), as ``coef(model)`` of R's mirt
        prints them. ``"catr"``: ``a, b, c, d`` of P = c + (d - c) / (1 + exp(-a (theta - b))), the item bank of R's
        catR (Magis & Raîche, 2012). The upper asymptote, u or d, is 1 but in a 4PL. `read_parameters` reads both.

    Raises
    ------
    InputError
        If catR's difficulty is not defined: an item with slope 0.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.0, 2.0], [-1.0, 0.5])
    >>> irtbench.parameter_columns(items, "mirt")
      item_id   a1    d    g    u
    0   item1  1.0  1.0  0.0  1.0
    1   item2  2.0 -1.0  0.0  1.0
    >>> irtbench.parameter_columns(items, "catr")
      item_id    a    b    c    d
    0   item1  1.0 -1.0  0.0  1.0
    1   item2  2.0  0.5  0.0  1.0
    """
    known = items if isinstance(items, ItemParameters) else as_parameters(items)  # these may have upper asymptotes
    upper = np.ones(known.n_items) if known.upper_asymptote is None else known.upper_asymptote
    if program == "mirt":
        columns = {"a1": known.discrimination, "d": known.intercept, "g": known.guessing, "u": upper}
    elif program == "catr":
        if (known.discrimination == 0).any():
            flat = [item for item, a in zip(known.item_ids, known.discrimination, strict=True) if a == 0]
            raise InputError(f"items: slope 0 of {name_first(flat)}: no difficulty, which catR needs; leave them out")
        columns = {"a": known.discrimination, "b": known.difficulty, "c": known.guessing, "d": upper}
    else:
        raise InputError(f"program: expected mirt or catr but got {program!r}")
    return pd.DataFrame({"item_id": known.item_ids, **columns})
