"""What the cells of a part of a large table mean: responses, scores and their levels, answers and their keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from irtbench.data.grading import GradingSettings, as_compared, as_meant, labels_of
from irtbench.data.input_error import InputError, refuse_first
from irtbench.data.readers.large_table import Cells
from irtbench.data.readers.table import MISSING, as_level, graded
from irtbench.data.responses import MISSING as NOT_OBSERVED
from irtbench.data.responses import ResponseMatrix, name_first

FIRST_ANSWERS = 10_000  # that show whether the answers are meant for the keys
MOST_LEVELS = 100
UNKNOWN = -2  # the place of a score that is none of the levels


@dataclass(frozen=True)
class Grader:
    """What makes small whole numbers of cells, -1 where missing: of responses, or scores from a threshold on, 1 and 0.

    `grade` takes the place of each row's item among the items, negative where it is not wanted; in a wide table a
    missing cell is no answer, in a long one the empty answer.
    """

    threshold: float | None = None

    def grade(
        self, cells: Cells, columns: NDArray[np.int32], items: Sequence[str], *, wide: bool = False
    ) -> NDArray[np.int8]:
        """Whole numbers for the cells."""
        column = cells.values.cast(pa.int8()) if pa.types.is_boolean(cells.values.type) else cells.values
        if pa.types.is_integer(column.type) and self.threshold is None:
            whole = pa.compute.fill_null(column, NOT_OBSERVED) if column.null_count else column
            values = whole.to_numpy(zero_copy_only=False)
            if len(values) == 0 or (values.min() >= NOT_OBSERVED and values.max() <= 1):
                return values.astype(np.int8, copy=False)
        numbers = cells.numbers()
        numbers = np.where(numbers == NOT_OBSERVED, np.nan, numbers)
        found = graded(
            numbers,
            self.threshold,
            lambda row: f"{cells.place(row)}: expected 1, 0 or missing but got {numbers[row]:g}",
        )
        return np.where(np.isnan(found), NOT_OBSERVED, found).astype(np.int8)

    def demand_meant(self, answers: Iterable[pa.Array]) -> None:
        """Refuse a table by its first cells; those of responses and scores are checked as they are read."""

    def matrix(self, coded: NDArray[np.int8], ids: tuple[str, ...], items: tuple[str, ...]) -> ResponseMatrix:
        """What is graded as a matrix."""
        return ResponseMatrix.from_coded(coded, ids, items)


@dataclass(frozen=True, kw_only=True)
class Keys(Grader):
    """Right answers, normalised, by which answers are graded, and how they are compared with them."""

    of_item: Mapping[str, str]
    rules: GradingSettings

    def _compared(self, values: Sequence[Any]) -> list[str]:
        """Answers as they are compared with the keys; empty for what is missing."""
        texts = ["" if text is None or text in MISSING else str(text) for text in values]
        given = as_compared(pd.Series(texts, dtype=object), self.rules)
        return labels_of(given, self.of_item) if self.rules.unknown == "stray" else [*given]

    def grade(
        self, cells: Cells, columns: NDArray[np.int32], items: Sequence[str], *, wide: bool = False
    ) -> NDArray[np.int8]:
        """1 and 0 by the key of each row's item."""
        values, codes = cells.distinct()
        answered = np.unique(columns[columns >= 0])
        keys = {int(k): self.of_item.get(items[k]) for k in answered}
        if lacking := [items[k] for k, key in keys.items() if key is None]:
            raise InputError(f"grading: no key for item {name_first(lacking)}; expected one for every item answered")
        number_of = {key: number for number, key in enumerate(dict.fromkeys(keys.values()))}
        key_of_item = np.full(len(items) + 1, -2)  # the last is of an item that is not wanted
        key_of_item[answered] = [number_of[key] for key in keys.values()]
        texts = self._compared(values)
        right = np.array([number_of.get(text, -1) for text in texts])[codes] == key_of_item[columns]
        no_answer = [
            (wide and (value is None or value in MISSING)) or (text == "" and self.rules.empty == "missing")
            for value, text in zip(values, texts, strict=True)
        ]
        return np.where(np.array(no_answer)[codes], NOT_OBSERVED, right).astype(np.int8)

    def demand_meant(self, answers: Iterable[pa.Array]) -> None:
        """Refuse answers that cannot be meant for these keys, see ``as_meant``."""
        first = pa.concat_arrays([part.cast(pa.string()) for part in answers]).slice(0, FIRST_ANSWERS)
        given = pd.Series(self._compared(first.to_pylist()), dtype=object)
        as_meant(as_compared(given, self.rules), self.of_item, self.rules)


@dataclass(frozen=True, kw_only=True)
class ScoreLevels(Grader):
    """Scores in their order, the lowest first, numbers or labels: the same of all items, or each item's own."""

    levels: tuple[Any, ...] = ()
    of_item: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def grade(
        self, cells: Cells, columns: NDArray[np.int32], items: Sequence[str], *, wide: bool = False
    ) -> NDArray[np.int8]:
        """Places of the scores among the levels."""
        values, codes = cells.distinct()
        levels_of = {int(k): self.of_item.get(items[k], self.levels) for k in np.unique(columns) if k >= 0}
        kinds = list(dict.fromkeys(levels_of.values()))
        kind_of = np.full(len(items) + 1, len(kinds))  # the last is of an item that is not wanted
        for k, levels in levels_of.items():
            kind_of[k] = kinds.index(levels)
        places = np.array([*(_places(values, levels) for levels in kinds), [NOT_OBSERVED] * len(values)])
        found = places[kind_of[columns], codes]

        def message(row: int) -> str:
            none = f"{values[codes[row]]} is none of its categories; expected {name_first(levels_of[columns[row]])}"
            return f"responses: item {items[columns[row]]}: {none}"

        refuse_first(found == UNKNOWN, message)
        return found.astype(np.int8)

    def matrix(self, coded: NDArray[np.int8], ids: tuple[str, ...], items: tuple[str, ...]) -> ResponseMatrix:
        """What is graded as so many of all steps."""
        most = np.array([len(self.of_item.get(item, self.levels)) - 1 for item in items])
        return ResponseMatrix.from_coded(coded, ids, items, np.where(coded == NOT_OBSERVED, 0, most))


def _places(values: Sequence[Any], levels: Sequence[Any]) -> list[int]:
    """The place of each value among levels, by number or label; other codes for what is missing, or none of them."""
    numbers = all(isinstance(level, int | float) for level in levels)

    def as_given(value: Any) -> Any:
        if not numbers:
            return as_level(f"{value:g}" if isinstance(value, float) else str(value))
        try:
            return float(value)
        except ValueError:
            return value

    place = {as_given(level): k for k, level in enumerate(levels)}
    return [NOT_OBSERVED if is_missing(value) else place.get(as_given(value), UNKNOWN) for value in values]


def is_missing(value: Any) -> bool:
    """Whether a cell is missing."""
    return value is None or value in MISSING or value != value
