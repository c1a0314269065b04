"""A file of item parameters in the place of a bank: items.csv of a fit or a study, or py-irt's estimates."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from irtbench.bank.scale import Scale
from irtbench.data.items import ItemTable
from irtbench.data.readers.column_names import likely_column
from irtbench.data.readers.head import Head
from irtbench.data.readers.item_table import read_items
from irtbench.data.readers.outside_parameters import recognises
from irtbench.data.readers.table import read_table
from irtbench.models.category_table import in_categories, read_categories, scale_names
from irtbench.models.parameter_table import read_parameters

ENDINGS = (".csv", ".csv.gz", ".tsv", ".parquet")
ALL = "all"  # the scale where the file names none


def is_table(path: Path) -> bool:
    """Whether a file is a table, by its name."""
    return path.name.endswith(ENDINGS)


def is_of_py_irt(path: Path, content: object) -> bool:
    """Whether a JSON file holds py-irt's estimates."""
    return isinstance(content, dict) and recognises(Head(path, "object", content))


def scales_of_items(
    path: Path, *, upper_asymptotes: bool = False, categories: bool = False, scaling: float | None = None
) -> tuple[Scale, ...]:
    """A scale for each name in a column ``scale``, or one of all items; without norms, and with keys if there are any.

    Raises
    ------
    InputError
        As `read_parameters`.
    """
    if categories and is_table(path) and in_categories(table := read_table(path)):
        by_scale = table.groupby(scale_names(table), sort=False) if scale_names(table) is not None else [(ALL, table)]
        by_name = {str(name): read_categories(part, path, scaling).as_items() for name, part in by_scale}
        said = {"items": path.name}
        return tuple(
            Scale(name, known, ItemTable.plain(known.item_ids), provenance=said) for name, known in by_name.items()
        )
    items = read_parameters(path, upper_asymptotes=upper_asymptotes, scaling=scaling)
    names = np.full(items.n_items, ALL, dtype=object)
    details = ItemTable.plain(items.item_ids)
    if is_table(path):
        table = read_table(path)
        if likely_column(list(table.columns), "item_id") is not None:  # else R's names of rows, in the first column
            details = read_items(path)
        if "scale" in table:
            names = table["scale"].to_numpy(dtype=object)
    scales = []
    for name in dict.fromkeys(names):
        own = [item for item, there in zip(items.item_ids, names == name, strict=True) if there]
        scales.append(Scale(str(name), items.select(own), details.select(own), provenance={"items": path.name}))
    return tuple(scales)
