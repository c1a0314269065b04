"""Multiple-choice items from a table: a row an item, a column an option."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from irtbench.data.choices import ChoiceItems
from irtbench.data.input_error import InputError
from irtbench.data.readers.table import MISSING, demand_columns, demand_filled, field_places, read_table

#: Columns taken as options, in their order, unless the user names them: option1, option_A, answer0, choice B, ...
_OPTION = re.compile(r"(option|answer|choice)[ _]?([0-9]+|[a-z])", re.IGNORECASE)


def read_choices(
    path: str | Path,
    *,
    item: str = "item_id",
    key: str = "gold",
    options: Sequence[str] = (),
    group: str | None = None,
) -> tuple[ChoiceItems, pd.DataFrame]:
    r"""Read multiple-choice items.

    Parameters
    ----------
    path
        A CSV or Parquet file with a row for each item.
    item
        The column of item names.
    key
        The column that says which option is right: by its text, by the name of its column, by that name's last part
        (``B`` of ``option_B``, ``0`` of ``answer0``).
    options
        The columns of options; none given, all that look like it (``option_A``, ``answer0``, ``choice2``). An empty
        field is no option.
    group
        The column of items that belong together.

    Returns
    -------
    ChoiceItems, pandas.DataFrame
        The items, and the table as it stands in the file.

    Raises
    ------
    InputError
        If a column is missing, no column looks like an option, a name is empty or repeated, an item has fewer than two
        options, or the key points at none of them.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("items.csv").write_text("item_id,option_A,option_B,gold\nq1,a cat,a dog,B\n")
    >>> choices, table = irtbench.read_choices("items.csv")
    >>> choices.options, choices.right
    ((('a cat', 'a dog'),), (1,))
    """
    frame = read_table(path)
    demand_columns(frame, [item, key, *options, *([group] if group else [])], path)
    columns = list(options) or [name for name in frame.columns if _OPTION.fullmatch(name)]
    if len(columns) < 2:
        raise InputError(
            f"file {path}: no columns of options such as option_A, option_B; expected columns named by you"
        )
    demand_filled(frame, item, path)
    texts, right = [], []
    for row, fields in enumerate(frame[columns].itertuples(index=False)):
        present = [(name, str(text)) for name, text in zip(columns, fields, strict=True) if str(text).strip()]
        wanted = str(frame[key].iloc[row]).strip()
        position = _find(present, wanted)
        if position is None:
            place = field_places(path, key)(row)
            raise InputError(f"{place}: expected an option, its column or its letter but got '{wanted}'")
        texts.append(tuple(text for _, text in present))
        right.append(position)
    groups = [None] * len(frame) if group is None else [None if g in MISSING else g for g in frame[group]]
    return ChoiceItems(tuple(frame[item]), tuple(texts), tuple(right), tuple(groups)), frame


def _find(present: list[tuple[str, str]], wanted: str) -> int | None:
    """Position of the option that the key means; its text goes before the name of its column."""
    texts = [text.strip() for _, text in present]
    if texts.count(wanted) == 1:
        return texts.index(wanted)
    for position, (name, _) in enumerate(present):
        pattern = _OPTION.fullmatch(name)
        if wanted.lower() in {name.lower(), pattern[2].lower() if pattern else name.lower()}:
            return position
    return None
