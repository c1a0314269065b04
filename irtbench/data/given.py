"""What a Python caller has, as what the functions work on: arrays, tensors and data frames are taken at the door.

Every public function that wants a `ResponseMatrix`, a table of answers or an `ItemTable` calls one of these first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from irtbench.data.input_error import InputError, refuse_first
from irtbench.data.items import ItemTable
from irtbench.data.readers.item_table import COLUMNS_OF_ITEMS, items_of
from irtbench.data.readers.long_table import COUNTS, LongTable, long_columns
from irtbench.data.responses import ResponseMatrix, Responses, name_first, numbered
from irtbench.data.sparse_responses import responses_from_long

#: Graded responses in any form that `as_responses` takes.
ResponsesLike = ResponseMatrix | LongTable | pd.DataFrame | ArrayLike
#: Raw answers in any form that `as_answers` takes.
AnswersLike = LongTable | pd.DataFrame
#: Kinds of NumPy's types that NumPy would turn into numbers and are none: complex numbers, dates, times, records.
OTHER_KINDS = "cMmV"
#: Items with their keys in any form that `as_items` takes.
ItemsLike = ItemTable | pd.DataFrame


def as_responses(
    given: ResponsesLike | Responses, *, item_ids: Sequence[str] | None = None, name: str = "responses"
) -> ResponseMatrix:
    """Graded responses as a matrix.

    Parameters
    ----------
    given
        One of

        - a `ResponseMatrix`, which is given back, or what `read_responses` gives;
        - a long data frame: columns ``respondent_id, item_id, response``, or others that the readers of files know;
          with ``n_correct, n_trials`` in place of a response the number right of several trials;
        - a wide data frame: a row a respondent, named by the index or by a column ``respondent_id``, a column an item;
        - an array or a tensor, shape (n_respondents, n_items).

        A response is 1 (or True) or 0; NaN, None, or what a masked array masks, is missing.
    item_ids
        Names of an array's columns; None for ``item1 ...``. Its rows are named ``r1 ...``.
    name
        What the errors call it.

    Raises
    ------
    InputError
        Naming the first value that is no response by its row and column; or as `ResponseMatrix`.

    Examples
    --------
    >>> as_responses([[1, 0], [0, 1], [1, None]]).item_ids
    ('item1', 'item2')
    >>> as_responses(pd.DataFrame({"i1": [1, 0], "i2": [0, 2]}, index=["ann", "bob"]))
    Traceback (most recent call last):
    irtbench.data.input_error.InputError: responses: row bob, column i2: expected 1, 0 or missing but got 2
    """
    if isinstance(given, ResponseMatrix):
        return given
    if isinstance(given, Responses):
        in_memory = "scores in categories" if given.in_categories else "a list of sparse responses"
        what = "responses on disk" if given.on_disk else in_memory
        raise InputError(f"{name}: expected a matrix but got {what}; its to_matrix() makes one")
    if (table := _long_table(given, name)) is not None:
        return ResponseMatrix.from_long(table)
    if not isinstance(given, pd.DataFrame):
        return _from_array(given, item_ids, name)  # type: ignore[arg-type]  # a LongTable is a long table
    wide = _by_respondent(given)
    respondents, items = _texts(wide.index), _texts(wide.columns)
    values = _numbers(wide.to_numpy(), name, lambda row, column: f": row {respondents[row]}, column {items[column]}")
    return ResponseMatrix(values, respondents, items)


def as_any_responses(given: ResponsesLike | Responses) -> Responses:
    """The same where sparse or stored responses serve as well; a large and nearly empty long table becomes sparse."""
    if isinstance(given, Responses) and given.in_categories:
        raise InputError("responses: scores in categories, not right or wrong; expected fit_categories, or responses")
    if isinstance(given, Responses):
        return given
    table = _long_table(given, "responses")
    return as_responses(given) if table is None else responses_from_long(table)


def as_answers(given: AnswersLike) -> pd.DataFrame:
    """Raw answers as the long table ``respondent_id, item_id, answer``, with what other columns it has.

    Parameters
    ----------
    given
        What `read_answers` gives, a long data frame (``answer`` may be called ``label``), or a wide one: a row a
        respondent, named by the index or by a column ``respondent_id``, a column an item. A missing cell of a wide one
        is no answer: the item may never have been asked.

    Raises
    ------
    InputError
        If it is no data frame, has no answers, or a respondent or an item has no name.

    Examples
    --------
    >>> as_answers(pd.DataFrame({"i1": ["yes", "no"], "i2": ["no", None]}, index=["ann", "bob"]))
      respondent_id item_id answer
    0           ann      i1    yes
    1           ann      i2     no
    2           bob      i1     no
    """
    frame = given.frame if isinstance(given, LongTable) else given
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"answers: expected a data frame, long or wide, but got {_kind_of(given, 'read')}")
    if long_columns(_names(frame), {}):
        return _our_columns(frame, "answer", "answers")
    wide = _by_respondent(frame)
    if wide.empty:
        raise InputError("answers: the table is empty; expected at least one answer")
    texts = wide.to_numpy(dtype=object)
    rows, columns = np.nonzero(~pd.isna(texts))
    respondents, items = (np.array(names, dtype=object) for names in (_texts(wide.index), _texts(wide.columns)))
    return pd.DataFrame({"respondent_id": respondents[rows], "item_id": items[columns], "answer": texts[rows, columns]})


def as_items(given: ItemsLike) -> ItemTable:
    """Items as a table of ours.

    Parameters
    ----------
    given
        An `ItemTable`, or a data frame with a row an item, named by a column ``item_id`` or by the index, and of
        ``key, label, group, text, attention`` the columns it has, under the names that `read_items` knows.

    Raises
    ------
    InputError
        If it is neither, or as `ItemTable`.

    Examples
    --------
    >>> as_items(pd.DataFrame({"key": ["yes", "no"]}, index=["i1", "i2"])).key
    ('yes', 'no')
    """
    if isinstance(given, ItemTable):
        return given
    if not isinstance(given, pd.DataFrame):
        raise InputError(f"items: expected an ItemTable or a data frame but got {_kind_of(given, 'read_items')}")
    table = given.set_axis(_names(given), axis=1)
    return items_of(
        table.loc[:, ~table.columns.duplicated()],
        {ours: next((name for name in aliases if name in table), None) for ours, aliases in COLUMNS_OF_ITEMS.items()},
    )


def _kind_of(given: object, reader: str) -> str:
    """What was given in place of data; of a path, what reads it."""
    if isinstance(given, str | Path):
        return f"a path; expected what irtbench.{reader}({str(given)!r}) gives"
    return type(given).__name__


def _from_array(given: ArrayLike, item_ids: Sequence[str] | None, name: str) -> ResponseMatrix:
    if hasattr(given, "detach"):  # a tensor, perhaps on a GPU or with a gradient
        try:
            tensor: Any = given.detach().cpu()
            given = (tensor.double() if tensor.is_floating_point() else tensor).numpy()
        except (TypeError, RuntimeError) as error:
            raise InputError(f"{name}: expected a dense tensor of numbers ({str(error).rstrip('.')})") from None
    if isinstance(given, np.ma.MaskedArray):
        given = np.ma.filled(given.astype(np.float64), np.nan)
    try:
        cells = np.asarray(given)
    except ValueError:
        raise InputError(f"{name}: expected rows of one length, a row a respondent, a column an item") from None
    except TypeError:  # it seems to be a sequence and is none
        cells = np.asarray(None)
    if cells.ndim != 2:
        what = f"shape {cells.shape}" if cells.ndim else _kind_of(given, "read")
        raise InputError(f"{name}: expected a data frame or an array of shape (n_respondents, n_items) but got {what}")
    if item_ids is not None and cells.shape[1] != len(item_ids):
        raise InputError(
            f"{name}: an array of {cells.shape[1]} columns for {len(item_ids)} items; expected a column for each, or a "
            "data frame that names its columns"
        )
    values = _numbers(cells, name, lambda row, column: f"[{row}, {column}]")
    return ResponseMatrix(
        values,
        numbered("r", cells.shape[0]),
        numbered("item", cells.shape[1]) if item_ids is None else tuple(item_ids),
    )


def _long_table(given: ResponsesLike | Responses, name: str) -> pd.DataFrame | None:
    """Responses of a long table under our names, ids as texts; None where it is none."""
    frame = given.frame if isinstance(given, LongTable) else given
    found = long_columns(_names(frame), {}) if isinstance(frame, pd.DataFrame) else {}
    if not found or not isinstance(frame, pd.DataFrame):
        return None
    if "n_trials" in found:
        counted = _our_columns(frame.assign(response=np.nan), "response", name).drop(columns="response")
        return counted.astype(dict.fromkeys(COUNTS, np.float64))
    table = _our_columns(frame, "response", name)
    pairs = table[["respondent_id", "item_id"]].to_numpy()
    values = _numbers(
        table["response"].to_numpy()[:, None], name,
        lambda row, _: f": row {frame.index[row]} (respondent {pairs[row][0]}, item {pairs[row][1]})",
    )  # fmt: skip
    return table.assign(response=values[:, 0])


def _our_columns(frame: pd.DataFrame, want: str, name: str) -> pd.DataFrame:
    """A long table under our names, ids as texts."""
    names = _names(frame)
    found = long_columns(names, {})
    if want not in found:
        holds = f"it has: {name_first(names, most=12)}"
        if want == "response" and "answer" in found:
            holds = f"column {found['answer']} holds answers: grade(answers, items) grades them by the items' key"
        raise InputError(f"{name}: no column of {want}s in the long table; {holds}")
    ours = {found[name]: name for name in ("respondent_id", "item_id", want)}
    table = frame.set_axis(names, axis=1)
    table = table.drop(columns=[new for old, new in ours.items() if new != old and new in names]).rename(columns=ours)
    for ids in ("respondent_id", "item_id"):
        refuse_first(
            table[ids].isna().to_numpy(),
            lambda k, ids=ids: f"{name}: row {frame.index[k]}, column {ids}: expected a name but it is missing",
        )
        if not pd.api.types.is_string_dtype(table[ids]):
            table[ids] = _texts(table[ids])
    return table


def _by_respondent(frame: pd.DataFrame) -> pd.DataFrame:
    """A wide table whose index names the respondents."""
    return frame.set_index("respondent_id") if "respondent_id" in _names(frame) else frame


def _numbers(cells: NDArray[Any], name: str, place: Callable[[int, int], str]) -> NDArray[np.float64]:
    """Cells as 1, 0 or NaN; the first that is none of them is an error that says where it is."""
    if cells.dtype.kind in OTHER_KINDS:
        raise InputError(f"{name}: expected 1, 0 or missing but got values of type {cells.dtype}")
    try:
        values = np.array(cells, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):  # there is a pd.NA, a huge number or a text in it
        values = np.array([[_number(cell) for cell in row] for row in cells], dtype=np.float64).reshape(cells.shape)
    wrong = ~((values == 0) | (values == 1) | np.isnan(values))
    if wrong.any():
        row, column = (int(k) for k in np.argwhere(wrong)[0])
        cell = cells[row, column]
        got = f"{values[row, column]:g}" if isinstance(cell, int | float | np.number) else repr(cell)
        if isinstance(cell, str):
            got += " (respondents are named by the index or by a column respondent_id)"
        raise InputError(f"{name}{place(row, column)}: expected 1, 0 or missing but got {got}")
    return values


def _number(cell: Any) -> float:
    """The number in a cell, NaN where it is missing, infinity where there is none."""
    if pd.isna(cell) is True:
        return np.nan
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return np.inf


def _names(frame: pd.DataFrame) -> list[str]:
    return [str(name) for name in frame.columns]


def _texts(names: Any) -> tuple[str, ...]:
    return tuple(str(name) for name in names)
