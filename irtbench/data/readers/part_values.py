"""What the cells of a part of a large table say: 1, 0 or missing, from responses or from answers and keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from irtbench.data.coded_responses import MISSING as NOT_OBSERVED
from irtbench.data.grading import GradingSettings, as_compared, as_meant
from irtbench.data.harmless_text import GUARD, unguarded
from irtbench.data.input_error import InputError
from irtbench.data.readers.table import MISSING, WORDS, refuse_first, to_numbers
from irtbench.data.responses import name_first
from irtbench.data.vocabulary import labels_by_loose_form, loose_form

FIRST_ANSWERS = 10_000  # by which it is told whether the answers are meant for the keys


def numbers_of(
    column: pa.Array, source: str | Path, name: str, first_row: int = 1, *, expected: str = "1, 0 or missing"
) -> NDArray[np.float32]:
    """Numbers of a column, NaN where it is null or stands for nothing.

    Raises
    ------
    InputError
        If it holds what is no number, naming its row if it is a text; rows are counted from ``first_row``.
    """
    found: NDArray[np.float32]
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        coded = pa.compute.fill_null(column, "").dictionary_encode()
        codes = coded.indices.to_numpy()

        def place(text: int) -> str:
            return f"file {source}, row {first_row + int((codes == text).argmax())}, column {name}"

        try:
            numbers = to_numbers(pd.Series(coded.dictionary.to_pylist(), dtype=object), place=place, words=WORDS)
        except InputError as error:
            message = str(error).replace("expected a number but got", f"expected {expected} but it holds")
            raise InputError(message) from None
        found = numbers.astype(np.float32)[codes]
        return found
    try:
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        found = column.cast(pa.float32(), safe=False).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(f"file {source}, column {name}: expected {expected} but it holds {column.type}") from None
    return found


def coded_responses(column: pa.Array, source: str | Path, name: str, first_row: int) -> NDArray[np.int8]:
    """Responses 1, 0 and -1 from a column of numbers, truth values or texts.

    Raises
    ------
    InputError
        Naming the first row of what is none of these; rows are counted from ``first_row``.
    """
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_integer(column.type):
        whole = pa.compute.fill_null(column, NOT_OBSERVED) if column.null_count else column
        values = whole.to_numpy(zero_copy_only=False)
        if len(values) == 0 or (values.min() >= NOT_OBSERVED and values.max() <= 1):
            return values.astype(np.int8, copy=False)
    numbers = numbers_of(column, source, name, first_row)
    missing = np.isnan(numbers) | (numbers == NOT_OBSERVED)
    wrong = ~(missing | (numbers == 0) | (numbers == 1))
    place = f"column {name}: expected 1, 0 or missing but got"
    refuse_first(wrong, lambda row: f"file {source}, row {first_row + row}, {place} {numbers[row]:g}")
    return np.where(missing, np.float32(NOT_OBSERVED), numbers).astype(np.int8)


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
        """Keys of these items.

        Raises
        ------
        InputError
            Naming items without one.
        """
        lacking = [item for item in items if item not in self.of_item]
        if lacking:
            raise InputError(f"grading: no key for item {name_first(lacking)}; expected one for every item answered")
        return [self.of_item[item] for item in items]

    def texts(self, coded: pa.DictionaryArray) -> NDArray[np.object_]:
        """Distinct answers of a coded column as they are compared with the keys; empty for what stands for nothing."""
        texts = ["" if text is None or text in MISSING else text for text in coded.dictionary.to_pylist()]
        given = as_compared(pd.Series(texts, dtype=object), self.rules)
        known, label_of = self._known, self._label_of
        return np.array(
            [text if text in known else label_of.get(loose_form(text), text) for text in given], dtype=object
        )

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.of_item.values())

    @cached_property
    def _label_of(self) -> Mapping[str, str]:
        return labels_by_loose_form(self.of_item) if self.rules.unknown == "stray" else {}

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
        key_of_item = np.full(len(items) + 1, -2)  # the last stands for an item that is not wanted
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
