"""A bank from whatever holds items of known parameters: its own file, or a table of items."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from irtbench.bank.bank import ItemBank, load_bank
from irtbench.bank.scale import as_scale
from irtbench.data.readers.head import look_at
from irtbench.data.readers.outside_parameters import recognises
from irtbench.models.parameter_table import read_parameters, read_population


def read_bank(path: str | Path, *, categories: bool = False) -> ItemBank:
    """Read a bank, or item parameters (items.csv) as a bank of one scale without norms.

    Items in categories are refused unless `categories` is true.

    Raises
    ------
    InputError
        As `load_bank` or `read_parameters`.

    Examples
    --------
    >>> import irtbench
    >>> items = irtbench.ItemParameters.from_difficulty([1.0, 1.5], [-1.0, 1.0])
    >>> items.table().to_csv("items.csv", index=False)
    >>> irtbench.read_bank("items.csv")
    <ItemBank: 1 scale: all (2 items)>
    """
    path = Path(path)
    if path.is_file():
        head = look_at(path)
        if head.kind != "object" or recognises(head):
            scale = as_scale(read_parameters(path, categories=categories), categories=categories)
            return ItemBank((replace(scale, population=read_population(path)),))
    return load_bank(path, categories=categories)
