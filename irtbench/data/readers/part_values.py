"""What the cells of a part of a large table mean: responses, answers and their keys, or scores and their levels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from irtbench.data.coded_responses import MISSING as NOT_OBSERVED
from irtbench.data.grading import GradingSettings, as_compared, as_meant, labels_of
from irtbench.data.harmless_text import GUARD, unguarded
from irtbench.data.input_error import InputError
from irtbench.data.readers.table import MISSING, WORDS, graded, is_text, numbers_among, refuse_first
from irtbench.data.responses import name_first

FIRST_ANSWERS = 10_000  # that show whether the answers are meant for the keys


def numbers_of(
    column: pa.Array, source: str | Path, name: str, first_row: int = 1, *, expected: str = "1, 0 or missing"
) -> NDArray[np.float64]:
    """Numbers of a column, NaN where it is null or missing."""
    if is_text(column.type):
        column = column.dictionary_encode()
    found: NDArray[np.float64]
    if pa.types.is_dictionary(column.type):
        texts = tuple(column.dictionary.cast(pa.string()).to_pylist())
        codes = pa.compute.fill_null(column.indices, len(texts)).to_numpy(zero_copy_only=False)
        found = _numbers(texts)[codes]
        place = f"column {name}: expected {expected} but it holds"
        refuse_first(
            np.isinf(found), lambda row: f"file {source}, row {first_row + row}, {place} '{texts[codes[row]]}'"
        )
        return found
    try:
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        found = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(f"file {source}, column {name}: expected {expected} but it holds {column.type}") from None
    return found


@lru_cache(32)  # parts of a table have the same few texts in column after column
def _numbers(texts: tuple[str, ...]) -> NDArray[np.float64]:
    """Texts as numbers, and NaN at the end for what is null."""
    return np.append(numbers_among(pd.Index(texts, dtype=object), WORDS), np.nan)


def coded_responses(
    column: pa.Array, source: str | Path, name: str, first_row: int, threshold: float | None = None
) -> NDArray[np.int8]:
    """Responses 1, 0 and -1 from a column of numbers, truth values or texts, or of scores that a threshold grades."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_integer(column.type) and threshold is None:
        whole = pa.compute.fill_null(column, NOT_OBSERVED) if column.null_count else column
        values = whole.to_numpy(zero_copy_only=False)
        if len(values) == 0 or (values.min() >= NOT_OBSERVED and values.max() <= 1):
            return values.astype(np.int8, copy=False)
    numbers = numbers_of(column, source, name, first_row)
    numbers = np.where(numbers == NOT_OBSERVED, np.nan, numbers)
    place = f"column {name}: expected 1, 0 or missing but got"
    found = graded(numbers, threshold, lambda row: f"file {source}, row {first_row + row}, {place} {numbers[row]:g}")
    return np.where(np.isnan(found), NOT_OBSERVED, found).astype(np.int8)


def coded_names(column: pa.Array, source: Path | str, name: str, first_row: int) -> pa.DictionaryArray:
    """Names in a column, none of them empty, as codes."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    given = as_text(column.dictionary, f"file {source}", name)
    names = without_guards(given)
    if column.null_count or pa.compute.any(pa.compute.equal(names, "")).as_py():
        names_of(column.cast(pa.string()), source, name, first_row)  # says where
    coded = pa.DictionaryArray.from_arrays(column.indices, names)
    return coded if names is given else coded.cast(pa.string()).dictionary_encode()  # two may be one without guards


def without_guards(names: pa.Array) -> pa.Array:
    """Texts without the apostrophe that keeps a text from being a spreadsheet's formula."""
    if not pa.compute.any(pa.compute.starts_with(names, GUARD)).as_py():
        return names
    return pa.array([None if name is None else unguarded(name) for name in names.to_pylist()], pa.string())


def as_text(column: pa.Array, place: str, name: str) -> pa.Array:
    """A column as texts."""
    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        raise InputError(f"{place}, column {name}: expected text or numbers but it holds {column.type}") from None


def names_of(column: pa.Array, source: Path | str, name: str, first_row: int) -> pa.Array:
    """Names in a column, none of them empty."""
    names = without_guards(as_text(column, f"file {source}", name))
    empty = pa.compute.fill_null(pa.compute.equal(names, ""), True)
    if pa.compute.any(empty).as_py():
        row = first_row + pa.compute.index(empty, True).as_py()
        raise InputError(f"file {source}, row {row}, column {name}: expected a name but it is empty")
    return names


@dataclass(frozen=True)
class Keys:
    """Right answers by which the cells of a table of answers are graded.

    Parameters
    ----------
    of_item
        The key of each item, normalised.
    rules
        How answers are compared with them.
    """

    of_item: Mapping[str, str]
    rules: GradingSettings

    def of(self, items: Sequence[str]) -> list[str]:
        """Keys of these items."""
        lacking = [item for item in items if item not in self.of_item]
        if lacking:
            raise InputError(f"grading: no key for item {name_first(lacking)}; expected one for every item answered")
        return [self.of_item[item] for item in items]

    def texts(self, coded: pa.DictionaryArray) -> NDArray[np.object_]:
        """Distinct answers of a coded column as they are compared with the keys; empty for what is missing."""
        texts = ["" if text is None or text in MISSING else text for text in coded.dictionary.to_pylist()]
        given: Iterable[str] = as_compared(pd.Series(texts, dtype=object), self.rules)
        return np.array(labels_of(given, self.of_item) if self.rules.unknown == "stray" else [*given], dtype=object)

    def grade_column(self, column: pa.Array, item: str) -> NDArray[np.int8]:
        """Responses 1, 0 and -1 from the answers to one item in a wide table, where empty means not asked."""
        coded = _coded(column)
        bare = [text is None or text in MISSING for text in coded.dictionary.to_pylist()]
        right = (self.texts(coded) == self.of([item])[0]).astype(np.int8)
        right[np.array(bare, dtype=np.bool_)] = NOT_OBSERVED
        graded: NDArray[np.int8] = right[coded.indices.to_numpy()]
        return graded

    def grade_rows(self, column: pa.Array, columns: NDArray[np.int32], items: Sequence[str]) -> NDArray[np.int8]:
        """Responses 1, 0 and -1 from the rows of a long table, by the column of each row's item."""
        coded = _coded(column)
        codes, texts = coded.indices.to_numpy(), self.texts(coded)
        answered = np.unique(columns[columns >= 0])
        keys = self.of([items[k] for k in answered])
        number_of = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        key_of_item = np.full(len(items) + 1, -2)  # the last is of an item that is not wanted
        key_of_item[answered] = [number_of[key] for key in keys]
        text_number = np.array([number_of.get(text, -1) for text in texts])
        graded = (text_number[codes] == key_of_item[columns]).astype(np.int8)
        if self.rules.empty == "missing":
            graded[np.array([text == "" for text in texts], dtype=np.bool_)[codes]] = NOT_OBSERVED
        return graded

    def demand_meant(self, answers: pa.Array) -> None:
        """Refuse answers that cannot be meant for these keys, see ``as_meant``."""
        coded = _coded(answers.slice(0, FIRST_ANSWERS))
        given = as_compared(pd.Series(self.texts(coded)[coded.indices.to_numpy()]), self.rules)
        as_meant(given, self.of_item, self.rules)


def _coded(column: pa.Array) -> pa.DictionaryArray:
    """A column of texts as codes, null made empty."""
    if not pa.types.is_dictionary(column.type) or column.null_count:
        column = pa.compute.fill_null(column.cast(pa.string()), "").dictionary_encode()
    return column


MOST_LEVELS = 100


@dataclass(frozen=True)
class ScoreLevels:
    """Scores in their order, the lowest first: numbers, or labels."""

    levels: tuple[Any, ...]

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
    """Its values, without those that mean missing."""
    return [value for value in pa.compute.unique(column).to_pylist() if not is_missing(value)]


def is_missing(value: Any) -> bool:
    """Whether a cell is missing."""
    return value is None or value in MISSING or value != value
