"""What the cells of a part of a large table of scores say: places among levels, or missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from irtbench.data.coded_responses import MISSING as NOT_OBSERVED
from irtbench.data.input_error import InputError
from irtbench.data.readers.large_columns import TableLayout
from irtbench.data.readers.large_table import LargeTable
from irtbench.data.readers.table import MISSING
from irtbench.data.responses import name_first

MOST_LEVELS = 100
ROWS_READ = 2**20


@dataclass(frozen=True)
class ScoreLevels:
    """Scores in their order, the lowest first: numbers, or labels."""

    levels: tuple[Any, ...]

    @classmethod
    def among(cls, table: LargeTable, layout: TableLayout) -> ScoreLevels:
        """The numbers that a table holds, in one pass.

        Raises
        ------
        InputError
            If there is a score that is no number, or there are more than 100.
        """
        found: set[float] = set()
        names = [layout.response] if layout.item else list(layout.items)
        for _, _, batch in table.rows(names, rows=ROWS_READ, coded=names):
            for name, column in zip(names, batch.columns, strict=True):
                for value in distinct(column):
                    try:
                        found.add(float(value))
                    except ValueError:
                        raise InputError(
                            f"responses: column {name}: {value!r} is no number; expected numbers, or levels"
                        ) from None
            if len(found) > MOST_LEVELS:
                raise InputError(f"responses: {len(found)} different scores; expected at most {MOST_LEVELS}")
        return cls(tuple(int(value) if value.is_integer() else value for value in sorted(found)))

    @cached_property
    def place(self) -> dict[Any, int]:
        """Place of each level, by number or label."""
        return {self._as_level(level): k for k, level in enumerate(self.levels)}

    @cached_property
    def are_numbers(self) -> bool:
        """Whether all levels are numbers."""
        return all(isinstance(level, int | float) for level in self.levels)

    def _as_level(self, value: Any) -> Any:
        if not self.are_numbers:
            return f"{value:g}" if isinstance(value, float) else str(value)
        try:
            return float(value)
        except ValueError:
            return value

    def grade_column(self, column: pa.Array, item: str) -> NDArray[np.int8]:
        """Places of the scores of one item in a wide table, -1 where there is none."""
        places, codes = self._places(column)
        self._demand_known(places[codes], column, lambda row: item)
        return np.asarray(places[codes].clip(NOT_OBSERVED), dtype=np.int8)

    def grade_rows(self, column: pa.Array, columns: NDArray[np.int32], items: Sequence[str]) -> NDArray[np.int8]:
        """Places of the scores in the rows of a long table, by the column of each row's item."""
        places, codes = self._places(column)
        found = np.where(columns >= 0, places[codes], NOT_OBSERVED)
        self._demand_known(found, column, lambda row: items[int(columns[row])])
        return np.asarray(found, dtype=np.int8)

    def demand_meant(self, answers: pa.Array) -> None:
        """Each score is checked as it is read."""

    def _places(self, column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The place of each distinct value, -1 where missing and -2 where it is none; which of them each row has."""
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        values = column.dictionary.to_pylist()
        places = [NOT_OBSERVED if is_missing(one) else self.place.get(self._as_level(one), -2) for one in values]
        codes = pa.compute.fill_null(column.indices, len(values)).to_numpy(zero_copy_only=False)
        return np.array([*places, NOT_OBSERVED]), codes

    def _demand_known(self, found: NDArray[np.int64], column: pa.Array, item: Callable[[int], str]) -> None:
        if (found == -2).any():
            row = int((found == -2).argmax())
            raise InputError(
                f"responses: item {item(row)}: {column[row].as_py()} is none of its categories; expected "
                f"{name_first(self.levels)}"
            )


def distinct(column: pa.Array) -> list[Any]:
    """Its values, those left out that stand for nothing."""
    return [value for value in pa.compute.unique(column).to_pylist() if not is_missing(value)]


def is_missing(value: Any) -> bool:
    """Whether a cell stands for nothing."""
    return value is None or value in MISSING or value != value
