"""Approval rates of respondents, as crowd platforms write them."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.readers.table import MISSING

#: Where the rate stands: ours, and Mechanical Turk's.
APPROVAL_COLUMNS = ("approval_rate", "LifetimeApprovalRate")

_RATE = re.compile(r"\s*(?P<number>\d+(?:\.\d+)?|\.\d+)\s*(?P<percent>%?)\s*(?:\(\d+/\d+\))?\s*")


def approval_column(names: pd.Index[str]) -> str | None:
    """The column of approval rates among a table's, or None."""
    return next((name for name in APPROVAL_COLUMNS if name in names), None)


def approval_rates(table: pd.DataFrame, column: str, *, place: str) -> pd.Series[float]:
    """Approval rate of each respondent as a share; NaN where none is given.

    Read are ``97%``, ``97% (45/46)`` (Mechanical Turk), ``.97``, and, if a number of the column is above 1, ``97`` as
    percent.

    Parameters
    ----------
    table
        Text columns ``respondent_id`` and the rates, one row or many for each respondent.
    column
        The column of the rates.
    place
        The file, for the errors.

    Raises
    ------
    InputError
        If a rate is no number from 0 to 1 (or 100 percent), or a respondent has two.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> table = pd.DataFrame({"respondent_id": ["ann", "bob", "ann"], "rate": ["97% (45/46)", "100%", "97% (45/46)"]})
    >>> irtbench.approval_rates(table, "rate", place="workers.csv").to_dict()
    {'ann': 0.97, 'bob': 1.0}
    """
    given = table[["respondent_id", column]].drop_duplicates()
    given = given[~given[column].fillna("").isin(MISSING)]
    parts = given[column].str.extract(f"^{_RATE.pattern}$")
    number = parts["number"].astype(np.float64)
    percent = (parts["percent"] == "%").any() or (number > 1).any()
    rate = number / 100 if percent else number
    wrong = ~((rate >= 0) & (rate <= 1))
    if wrong.any():
        first = given[wrong].iloc[0]
        raise InputError(
            f"{place}, column {column}: respondent {first['respondent_id']} has '{first[column]}'; expected a rate, "
            "97% or .97"
        )
    twice = given["respondent_id"].duplicated()
    if twice.any():
        raise InputError(
            f"{place}, column {column}: respondent {given.loc[twice, 'respondent_id'].iloc[0]} has two rates; "
            "expected one for each respondent"
        )
    return pd.Series(rate.to_numpy(), index=pd.Index(given["respondent_id"]))
