"""What is known of respondents besides their answers: country, age group, a weight."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from irtbench.data.input_error import InputError
from irtbench.data.readers import prolific
from irtbench.data.readers.head import look_at
from irtbench.data.readers.table import MISSING, demand_columns, demand_filled, read_table
from irtbench.data.responses import demand_unique, name_first

#: What the column of respondents is called, in lower case: ours, then those of survey tools and crowd platforms.
RESPONDENT_COLUMNS = (
    "respondent_id", "participant id", "prolific_pid", "prolific id", "responseid", "workerid", "user_id", "worker",
    "model", "respondent", "id",
)  # fmt: skip


def join_respondents(frame: pd.DataFrame, path: str | Path, left_out: Counter[str]) -> pd.DataFrame:
    """Join a table of respondents to the long table of their answers, by the respondents' names.

    Prolific's table of participants also says whose answers count (see ``prolific.counted``). Of any other table the
    columns are added that the answers do not have; respondents whom it does not name keep their answers, and a warning
    counts them.

    Parameters
    ----------
    frame
        Has a column ``respondent_id``.
    path
        A table with a row for each respondent, named in one of ``RESPONDENT_COLUMNS``.
    left_out
        Here is counted what is left out, by reason.

    Raises
    ------
    InputError
        If the table has no column of respondents, names one twice, or names none who answered.
    """
    path = Path(path)
    table, of_prolific = read_table(path), prolific.recognises(look_at(path))
    column_of = {name.strip().lower(): name for name in reversed(table.columns)}
    key = next((column_of[name] for name in RESPONDENT_COLUMNS if name in column_of), None)
    if key is None:
        raise InputError(
            f"file {path}: no column that names respondents among {name_first(list(table.columns), most=12)}; expected "
            "respondent_id"
        )
    demand_filled(table, key, path)
    answered = frame["respondent_id"].unique()
    unknown = sorted(set(answered) - set(table[key]))
    if len(unknown) == len(answered):
        raise InputError(
            f"file {path}, column {key}: none of {name_first(list(table[key]))} gave answers; expected the ids of the "
            f"respondents, such as {name_first(list(answered))}"
        )
    if of_prolific:
        frame, table = prolific.counted(frame, table, path, left_out)
    demand_unique(
        table[key].tolist(), f"file {path}, column {key}: names", expected="; expected one row a respondent that counts"
    )
    if unknown and not of_prolific:
        warnings.warn(f"file {path}: {len(unknown)} respondents are not in it: {name_first(unknown)}", stacklevel=2)
    own = table.set_index(key)
    new = {name: frame["respondent_id"].map(own[name]) for name in own.columns if name not in frame.columns}
    return frame.assign(**new)


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
    if "respondent_id" in names:
        raise InputError(f"file {path}: column respondent_id names the respondents; expected one that says more")
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
