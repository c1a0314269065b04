"""The items that a form is chosen from: parameters by scale, and what else is known of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.bank.bank import BankLike, item_ids_of, scales_of
from irtbench.bank.scale import Scale
from irtbench.data.input_error import InputError
from irtbench.data.responses import name_first, positions_of
from irtbench.models.curves import information


@dataclass(frozen=True, eq=False)
class ItemPool:
    """Items to choose from."""

    scales: tuple[Scale, ...]
    item_ids: tuple[str, ...]
    columns: pd.DataFrame

    @property
    def n_items(self) -> int:
        """How many."""
        return len(self.item_ids)

    def positions(self, item_ids: tuple[str, ...]) -> NDArray[np.intp]:
        """Places of these items."""
        return positions_of(item_ids, self.item_ids)

    def spread(self, values: NDArray[np.float64], scale: Scale) -> NDArray[np.float64]:
        """Values of the items of a scale, shape (n, n_items of the scale), as those of all items; 0 for others."""
        wide = np.zeros((len(values), self.n_items))
        wide[:, self.positions(scale.items.item_ids)] = values
        return wide

    def information(self, theta: NDArray[np.float64], scale: Scale) -> NDArray[np.float64]:
        """Information of each item on a scale, shape (n_theta, n_items)."""
        return self.spread(information(theta, scale.items), scale)

    def has(self, column: str, value: str) -> NDArray[np.bool_]:
        """Whether each item has this value in the column, shape (n_items,)."""
        values = [set(cell.split(";")) for cell in self.column(column)]
        found = np.array([value in cell for cell in values], dtype=np.bool_)
        if not found.any():
            known = sorted({one for cell in values for one in cell if one})
            raise InputError(f"form: no item has {column}={value}; column {column} has: {name_first(known)}")
        return found

    def column(self, name: str) -> list[str]:
        """The texts of a column, empty where nothing is known."""
        if name not in self.columns:
            raise InputError(
                f"form: no column {name} of the items; there is: {name_first(list(self.columns), most=12)}"
            )
        return self.columns[name].tolist()

    def demand_known(self, item_ids: tuple[str, ...], what: str) -> None:
        """Refuse items that are not in the pool."""
        known = set(self.item_ids)
        unknown = [item for item in item_ids if item not in known]
        if unknown:
            raise InputError(f"form: {what}: item {name_first(unknown)} is not in the bank; expected its items")


def make_pool(bank: BankLike, columns: pd.DataFrame | None) -> ItemPool:
    """The items of a bank, with what it and a table say of each."""
    scales = scales_of(bank)
    rows = pd.concat([scale.details.table().assign(scale=scale.name) for scale in scales])
    by_item = rows.groupby("item_id", sort=False)
    known = by_item["scale"].agg(";".join).to_frame()
    for name in ("key", "label", "group"):
        if rows[name].notna().any():
            known[name] = by_item[name].last().fillna("")
    tables = [bank] if isinstance(bank, pd.DataFrame) and "item_id" in bank else []
    for table in [*tables, *([] if columns is None else [columns])]:
        known = _joined(known, table)
    return ItemPool(scales, item_ids_of(bank), known)


def _joined(known: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    if "item_id" not in table:
        raise InputError(f"form: table of items: column item_id missing; it has: {name_first(list(table.columns))}")
    names = table["item_id"].astype(str)
    if names.duplicated().any():
        raise InputError(f"form: table of items: item {names[names.duplicated()].iloc[0]} is there twice")
    rows = table.drop(columns="item_id").set_axis(names, axis=0)
    missing = [item for item in known.index if item not in rows.index]
    if missing:
        raise InputError(f"form: table of items: no row for item {name_first(missing)}")
    texts = rows.loc[list(known.index)]
    texts = texts.astype(object).where(texts.notna(), "").astype(str)
    return known.assign(**{str(name): texts[name].to_numpy() for name in texts})
