"""py-irt's ``best_parameters.json``: item parameters on the scale of its subjects, brought to ours.

Its models are P = 1 / (1 + exp(-a (theta - b))) with a = 1 in the 1PL. With its hierarchical priors neither location
nor scale of theta is fixed, so that items are rescaled by the mean m and standard deviation s of its estimated
abilities: a' = a s and d' = a (m - b). What it fits as 3PL and 4PL has an upper asymptote, (1 - lambda) or lambda times
the curve, and no lower one.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.readers.head import Head
from irtbench.data.readers.json_stream import json_value

NEARLY_ONE = 0.99  # an upper asymptote from here on is taken for 1


def recognises(head: Head) -> bool:
    """Whether a file holds parameters that py-irt estimated."""
    return head.kind == "object" and head.has("diff", "item_ids")


def read_py_irt_parameters(path: str | Path) -> pd.DataFrame:
    """Item parameters as columns ``item_id, discrimination, intercept``, on a theta of mean 0 and standard deviation 1.

    Raises
    ------
    InputError
        Naming the field that is missing or no list of numbers, or a model with an upper asymptote below 1.
    """
    path = Path(path)
    try:
        content = json_value(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"file {path}: not JSON: {error}; expected best_parameters.json of py-irt") from None
    model = str(content.get("irt_model", "2pl" if "disc" in content else "1pl"))
    upper = {"3pl": lambda values: 1 - values, "4pl": lambda values: values}.get(model)
    if upper is None and model not in ("1pl", "2pl"):
        raise InputError(f"file {path}, field irt_model: expected 1pl or 2pl but it is {model}")
    difficulty = _numbers(content, "diff", path)
    slope = np.ones_like(difficulty) if model == "1pl" else _numbers(content, "disc", path)
    names = content["item_ids"]
    if isinstance(names, dict):
        names = [names.get(str(k)) for k in range(len(names))]
    if not isinstance(names, list) or not all(isinstance(name, str | int) for name in names):
        raise InputError(f"file {path}, field item_ids: expected a name for each of {len(difficulty)} items")
    if not len(names) == len(difficulty) == len(slope):
        raise InputError(
            f"file {path}: {len(names)} item_ids, {len(difficulty)} diff, {len(slope)} disc; expected as many of each"
        )
    if upper is not None and (low := upper(_numbers(content, "lambdas", path)) < NEARLY_ONE).any():
        raise InputError(
            f"file {path}: a {model} of py-irt, in which {int(low.sum())} items have an upper asymptote below 1, which "
            "no item has here; expected 1pl or 2pl (fit the responses anew with irtbench fit)"
        )
    ability = _numbers(content, "ability", path)
    mean, deviation = float(ability.mean()), float(ability.std())
    if not deviation > 0:
        raise InputError(f"file {path}, field ability: expected abilities that differ, by which theta's scale is known")
    return pd.DataFrame(
        {
            "item_id": [str(name) for name in names],
            "discrimination": slope * deviation,
            "intercept": slope * (mean - difficulty),
        }
    )


def _numbers(content: dict[str, Any], name: str, path: Path) -> NDArray[np.float64]:
    values = content.get(name)
    if not isinstance(values, list) or not values:
        raise InputError(f"file {path}, field {name}: expected a list of numbers but it is {_kind(values)}")
    wrong = [value for value in values if isinstance(value, bool) or not isinstance(value, int | float)]
    if wrong or not all(math.isfinite(value) for value in values):
        raise InputError(f"file {path}, field {name}: expected finite numbers but it holds {str(wrong or values)[:60]}")
    return np.array(values, dtype=np.float64)


def _kind(value: Any) -> str:
    return "missing" if value is None else f"of type {type(value).__name__}"
