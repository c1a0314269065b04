"""The group of each respondent: people and machines, native and other speakers."""

from __future__ import annotations

from pathlib import Path

from irtbench.data.input_error import InputError
from irtbench.data.readers.column_names import with_known_names
from irtbench.data.readers.table import demand_columns, demand_filled, read_table


def read_groups(path: str | Path) -> dict[str, str]:
    r"""Read a table with columns ``respondent_id, group``: the group of each respondent.

    A single column beside the respondents' is the group, whatever its name. Others are ignored, and so are repeated
    rows that say the same (a long table of responses may serve).

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing or has an empty field, or a respondent is in two groups.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("groups.csv").write_text("respondent_id,group\nann,people\ngpt,machines\n")
    >>> irtbench.read_groups("groups.csv")
    {'ann': 'people', 'gpt': 'machines'}
    """
    table = with_known_names(read_table(path), "respondent_id")
    others = [name for name in table.columns if name != "respondent_id"]
    if len(others) == 1:
        table = table.rename(columns={others[0]: "group"})
    demand_columns(table, ["respondent_id", "group"], path)
    for name in ("respondent_id", "group"):
        demand_filled(table, name, path)
    pairs = table[["respondent_id", "group"]].drop_duplicates()
    twice = pairs["respondent_id"][pairs["respondent_id"].duplicated()]
    if not twice.empty:
        raise InputError(f"file {path}: respondent {twice.iloc[0]} is in two groups; expected one")
    return dict(pairs.itertuples(index=False, name=None))
