"""Files of other programs of item response theory: py-irt's responses, and item parameters on our scale."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.readers.observations import LINES, Head, LeftOut, Observation, Observations, Reader, Wanted, records
from irtbench.data.readers.records import json_value
from irtbench.data.readers.table import field_places, to_numbers

NEARLY_ONE = 0.99  # an upper asymptote from here on is taken for 1


def recognises(head: Head) -> bool:
    """Whether a file holds parameters that py-irt estimated."""
    return head.kind == "object" and head.has("diff", "item_ids")


def read_py_irt_parameters(path: str | Path) -> pd.DataFrame:
    """Item parameters as columns ``item_id, discrimination, intercept``, on a theta of mean 0 and standard deviation 1.

    The models of py-irt are P = 1 / (1 + exp(-a (theta - b))) with a = 1 in the 1PL. With its hierarchical priors
    neither location nor scale of theta is fixed, so that items are rescaled by the mean m and standard deviation s of
    its estimated abilities: a' = a s and d' = a (m - b). What it fits as 3PL and 4PL has an upper asymptote,
    (1 - lambda) or lambda times the curve, and no lower one.
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
        kind = "missing" if values is None else f"of type {type(values).__name__}"
        raise InputError(f"file {path}, field {name}: expected a list of numbers but it is {kind}")
    wrong = [value for value in values if isinstance(value, bool) or not isinstance(value, int | float)]
    if wrong or not all(math.isfinite(value) for value in values):
        raise InputError(f"file {path}, field {name}: expected finite numbers but it holds {str(wrong or values)[:60]}")
    return np.array(values, dtype=np.float64)


#: Slope, place, lower and upper asymptote; ``d`` is the intercept in the one and the upper asymptote in the other.
MIRT, CATR = ("a1", "d", "g", "u"), ("a", "b", "c", "d")


def in_our_columns(table: pd.DataFrame, path: str | Path) -> pd.DataFrame:
    """The table under our names ``item_id, discrimination, intercept, guessing``; any other table as it is.

    There is a column ``upper_asymptote`` where one is below 1.
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


def read(head: Head, settings: Wanted, left_out: LeftOut) -> Observations:
    """Read the responses of each subject."""
    for line in records(head):
        responses = line.fields("responses")
        for item, response in responses.values.items():
            scored = (None, None, "without a response") if response is None else (responses.score(item), None, "")
            yield Observation(line.name("subject_id"), item, line.number, *scored)


READER = Reader(
    "py-irt",
    "responses for py-irt",
    "response",
    lambda head: head.kind in LINES and head.has("subject_id") and isinstance(head.first.get("responses"), dict),
    read,
    alone=True,
)
