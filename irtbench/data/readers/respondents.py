"""What is known of respondents besides their answers: country, age group, a weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.readers.table import MISSING, demand_columns, demand_filled, read_table
from irtbench.data.responses import name_first


def read_respondents(
    path: str | Path, names: Sequence[str], *, columns: Mapping[str, str] | None = None
) -> pd.DataFrame:
    r"""Read columns of a table of respondents, CSV or Parquet.

    Parameters
    ----------
    path
        The file, with a column ``respondent_id`` and those asked for.
    names
        The columns to take.
    columns
        The file's column for ``respondent_id``, where it has another name.

    Raises
    ------
    InputError
        If the file cannot be read or a column is missing, and as ``respondents_of``.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("people.csv").write_text("respondent_id,country,age\nann,de,31\nbob,fr,\n")
    >>> irtbench.read_respondents("people.csv", ["country"]).to_dict()
    {'country': {'ann': 'de', 'bob': 'fr'}}
    """
    unknown = [name for name in columns or {} if name != "respondent_id"]
    if unknown:
        raise InputError(f"columns: unknown name {name_first(unknown)}; expected respondent_id")
    table = read_table(path)
    own = (columns or {}).get("respondent_id", "respondent_id")
    demand_columns(table, [own, *names], path)
    demand_filled(table, own, path)
    return respondents_of(table[[*names]].assign(respondent_id=table[own]), names, path)


def respondents_of(table: pd.DataFrame, names: Sequence[str], path: str | Path) -> pd.DataFrame:
    """Columns that are constant within a respondent, one row each, from a table that may have many rows each.

    A respondent may have a value in some rows and none in others (``MISSING``), but not two different ones.

    Parameters
    ----------
    table
        Text columns ``respondent_id`` and ``names``, such as a long table of answers.
    names
        The columns to take.
    path
        The file the table is from, for the errors.

    Returns
    -------
    DataFrame
        The columns ``names``, text, None where nothing is known; the index holds the respondents.

    Raises
    ------
    InputError
        If a column is missing, or a respondent has two values in it.
    """
    demand_columns(table, names, path)
    found = pd.DataFrame(index=pd.Index(table["respondent_id"].unique(), name="respondent_id"))
    for name in names:
        pairs = table.loc[~table[name].isna() & ~table[name].isin(MISSING), ["respondent_id", name]].drop_duplicates()
        twice = pairs["respondent_id"][pairs["respondent_id"].duplicated()]
        if not twice.empty:
            values = pairs.loc[pairs["respondent_id"] == twice.iloc[0], name].tolist()
            raise InputError(
                f"file {path}, column {name}: respondent {twice.iloc[0]} has both {values[0]} and {values[1]}; "
                "expected one value for each respondent"
            )
        values_of = pairs.set_index("respondent_id")[name].reindex(found.index).astype(object)
        found[name] = values_of.where(values_of.notna(), None)
    return found


def weights_of(respondents: pd.DataFrame, name: str, path: str | Path) -> np.ndarray:
    """Weights from a column of respondents, shape (n,).

    Raises
    ------
    InputError
        Naming the first respondent whose weight is missing or no positive number.
    """
    weights = pd.to_numeric(respondents[name], errors="coerce").to_numpy(dtype=np.float64)
    wrong = ~(np.isfinite(weights) & (weights > 0))
    if wrong.any():
        first = int(wrong.argmax())
        given = respondents[name].iloc[first]
        raise InputError(
            f"file {path}, column {name}: respondent {respondents.index[first]} has "
            f"{'no weight' if given is None else f'the weight {given}'}; expected a positive number"
        )
    return weights
