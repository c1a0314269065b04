"""Features of items from a table: a row an item."""

from __future__ import annotations

from pathlib import Path

from irtbench.data.input_error import InputError
from irtbench.data.item_features import ItemFeatures
from irtbench.data.readers.column_names import with_known_names
from irtbench.data.readers.table import demand_columns, demand_filled, read_table
from irtbench.data.responses import name_first


def read_features(path: str | Path, *, columns: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> ItemFeatures:
    r"""Read a table with ``item_id`` and a column a feature, see `ItemFeatures.from_frame`.

    Parameters
    ----------
    path
        A CSV or Parquet file with a row for each item.
    columns
        Those that are features; all but ``item_id`` if none is named.
    exclude
        Those that are not.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing or has an empty field, or as `ItemFeatures`.

    Examples
    --------
    >>> from pathlib import Path
    >>> import irtbench
    >>> _ = Path("features.csv").write_text("item_id,length,negated\nq1,4,true\nq2,9,false\n")
    >>> irtbench.read_features("features.csv")
    <ItemFeatures: 2 items, 2 features: length, negated>
    """
    frame = with_known_names(read_table(path), "item_id")
    demand_columns(frame, ["item_id", *columns, *exclude], path)
    demand_filled(frame, "item_id", path)
    wanted = [name for name in (columns or frame.columns) if name != "item_id" and name not in exclude]
    texts = [name for name in wanted if _is_text(frame[name].nunique(), len(frame))]
    if texts and len(frame) > 2:
        numbers = {name: ItemFeatures.numbers_of(frame[name]) for name in texts}
        long = [name for name, found in numbers.items() if found is None]
        if long:
            raise InputError(
                f"file {path}: column {name_first(long)} has a text of its own for nearly every item; "
                "expected numbers or a few kinds (leave it out with --exclude-features)"
            )
    try:
        return ItemFeatures.from_frame(frame[["item_id", *wanted]])
    except InputError as error:
        raise InputError(f"file {path}: {error}") from None


def _is_text(n_kinds: int, n_rows: int) -> bool:
    """Whether a column has so many values that they cannot be kinds of items."""
    return n_kinds > n_rows / 2
