"""What is known of items before anybody answers them: numbers by which their difficulty may be explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.responses import demand_unique, name_first, positions_of
from irtbench.data.shown import Shown, counted

MOST = 1e50  # size of a feature, whose squares are added up


@dataclass(frozen=True, eq=False)
class ItemFeatures(Shown):
    """Features of items as numbers.

    Parameters
    ----------
    item_ids
        Unique item names.
    names
        Of the features.
    values
        Shape (n_items, n_features), all finite.

    Raises
    ------
    InputError
        If shapes differ, a name is repeated, there is no feature, or a value is not finite, or of more than
        1e50 in size.
    """

    item_ids: tuple[str, ...]
    names: tuple[str, ...]
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.shape != (len(self.item_ids), len(self.names)):
            raise InputError(
                f"features: values of shape {values.shape} for {len(self.item_ids)} items, {len(self.names)} features"
            )
        demand_unique(self.item_ids, "features: item_id")
        demand_unique(self.names, "features: feature")
        if not self.names:
            raise InputError("features: no feature; expected a column beside item_id")
        if not np.isfinite(values).all():
            item, feature = np.argwhere(~np.isfinite(values))[0]
            raise InputError(
                f"features: {self.names[feature]} of item {self.item_ids[item]} is missing or not finite; "
                "expected a number in every row"
            )
        if (np.abs(values) > MOST).any():
            item, feature = np.argwhere(np.abs(values) > MOST)[0]
            raise InputError(
                f"features: {self.names[feature]} of item {self.item_ids[item]} is {values[item, feature]:g}; expected "
                f"at most {MOST:g} in size"
            )
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame) -> ItemFeatures:
        """A row an item: ``item_id`` and a column a feature.

        Numbers, true and false are taken as they are. A column of texts becomes a feature of 1 and 0 for each text but
        the first in alphabetical order, which the others are compared with, named ``column=text``.

        Raises
        ------
        InputError
            If there is no ``item_id``, a field is empty, or as the class.

        Examples
        --------
        >>> import pandas as pd
        >>> import irtbench
        >>> frame = pd.DataFrame({"item_id": ["q1", "q2", "q3"], "length": [4, 9, 7], "topic": ["art", "law", "art"]})
        >>> irtbench.ItemFeatures.from_frame(frame).table()
          item_id  length  topic=law
        0      q1     4.0        0.0
        1      q2     9.0        1.0
        2      q3     7.0        0.0
        """
        if "item_id" not in frame:
            raise InputError(f"features: column item_id missing; there are {name_first(list(frame.columns))}")
        columns: dict[str, NDArray[np.float64]] = {}
        for name in frame.columns:
            if name == "item_id":
                continue
            column = frame[name]
            empty = column.isna() | (column.astype(str).str.strip() == "")
            if empty.any():
                item = frame["item_id"][empty].iloc[0]
                raise InputError(f"features: {name} of item {item} is empty; expected a value in every row")
            numbers = cls.numbers_of(column)
            if numbers is not None:
                columns[str(name)] = numbers
                continue
            texts = column.astype(str)
            for text in sorted(texts.unique())[1:]:
                columns[f"{name}={text}"] = (texts == text).to_numpy(dtype=np.float64)
        ids = tuple(frame["item_id"].astype(str))
        values = np.stack(list(columns.values()), axis=1) if columns else np.empty((len(ids), 0))
        return cls(ids, tuple(columns), values)

    @staticmethod
    def numbers_of(column: pd.Series) -> NDArray[np.float64] | None:
        """A column as numbers, true and false as 1 and 0; None where a field is neither."""
        texts = column.astype(str).str.strip().str.lower().replace({"true": "1", "false": "0"})
        numbers = pd.to_numeric(texts, errors="coerce")
        return numbers.to_numpy(dtype=np.float64) if numbers.notna().all() else None

    def select(self, item_ids: Sequence[str]) -> ItemFeatures:
        """Keep these items, in this order.

        Raises
        ------
        InputError
            If an item has no features.
        """
        rows = positions_of(item_ids, self.item_ids, "features: no row for item {}")
        return ItemFeatures(tuple(item_ids), self.names, self.values[rows])

    def table(self) -> pd.DataFrame:
        """One row an item."""
        return pd.DataFrame({"item_id": self.item_ids} | dict(zip(self.names, self.values.T, strict=True)))

    def in_short(self) -> str:
        """How many items, and the features."""
        return f"{counted(len(self.item_ids), 'item')}, {counted(len(self.names), 'feature')}: {name_first(self.names)}"
