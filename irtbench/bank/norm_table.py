"""A norm sample from a table of respondents, in place of the bank's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from irtbench.bank.bank import ItemBank
from irtbench.bank.norms import Norms
from irtbench.data.input_error import InputError
from irtbench.data.readers.table import MISSING, demand_columns, field_places, read_table, to_numbers

NUMBERS = ("theta", "se", "weight")
OWN = ("respondent_id", "role", "scale", *NUMBERS)
#: What scores.csv says of a respondent's test, and is no property of people by which they could be grouped.
OF_SCORES = frozenset(
    ("n_items", "n_correct", "n_trials", "accuracy", "theta_lower", "theta_upper", "person_fit", "method", "flags")
)


def with_norms(bank: ItemBank, path: str | Path) -> ItemBank:
    r"""The bank with the norm samples of a table, as scores.csv of ``build`` is one.

    The table has a column ``theta`` and, if there, ``scale``, ``se``, ``weight`` and ``role`` (rows other than
    ``respondent`` are left out). Without ``scale`` the bank must have one scale. All other columns become columns of
    the respondents, by which a norm group can be chosen, but for those that scores.csv has of every test (accuracy,
    percentiles, ...).

    Raises
    ------
    InputError
        If the file cannot be read, theta is missing or no number, a scale is unknown, or the bank has several scales
        and the table does not tell them apart.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> scale = irtbench.Scale("all", items, irtbench.ItemTable.plain(items.item_ids))
    >>> from pathlib import Path
    >>> _ = Path("people.csv").write_text("theta,country\n-0.4,de\n0.1,fr\n0.9,de\n")
    >>> bank = irtbench.with_norms(irtbench.ItemBank((scale,)), "people.csv")
    >>> bank.scales[0].norms
    <Norms: 3 respondents, theta -0.40 to 0.90, by country>
    """
    table = read_table(path)
    demand_columns(table, ["theta"], path)
    for name in NUMBERS:
        if name in table:
            table[name] = to_numbers(table[name], place=field_places(path, name))
    if "role" in table:
        table = table[table["role"] == "respondent"]
    if "scale" not in table:
        if len(bank.scales) > 1:
            raise InputError(f"norms {path}: column 'scale' missing; the bank has {len(bank.scales)} scales")
        table = table.assign(scale=bank.scales[0].name)
    scales = (
        replace(scale, norms=_norms(table[table["scale"] == scale.name], path, scale.name)) for scale in bank.scales
    )
    return replace(bank, scales=tuple(scales))


def _norms(rows: pd.DataFrame, path: str | Path, scale: str) -> Norms:
    if rows.empty:
        raise InputError(f"norms {path}: no respondent for scale {scale}")
    rows = rows[np.isfinite(rows["theta"])]
    groups = {
        str(name): tuple(None if text in MISSING else text for text in rows[name])
        for name in rows.columns
        if name not in OWN and name not in OF_SCORES and not str(name).startswith("percentile")
    }
    weights, error = (rows[name].to_numpy() if name in rows else None for name in ("weight", "se"))
    return Norms(rows["theta"].to_numpy(), weights, error, groups)
