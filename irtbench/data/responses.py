"""The response matrix: respondents x items of 1, 0 or NaN, and its long form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.data.shown import Shown, counted

Duplicates = Literal["error", "first", "last"]


def name_first(values: Sequence[object], *, most: int = 5) -> str:
    """List the first few values for an error message: ``'a, b, c and 4 more'``."""
    shown = ", ".join(str(value) for value in values[:most])
    return shown if len(values) <= most else f"{shown} and {len(values) - most} more"


def numbered(prefix: str, n: int) -> tuple[str, ...]:
    """Names for what has none: ``item1, item2, ...``."""
    return tuple(f"{prefix}{k}" for k in range(1, n + 1))


def positions_of(item_ids: Sequence[str], known: Sequence[str]) -> NDArray[np.intp]:
    """Where these items stand among the known ones; one that is not there is an `InputError` that names it."""
    positions = pd.Index(known).get_indexer(pd.Index(list(item_ids), dtype=object))
    if (positions < 0).any():
        unknown = [item for item, position in zip(item_ids, positions, strict=True) if position < 0]
        raise InputError(f"responses: unknown item {name_first(unknown)}")
    return positions


def share_correct(n_correct: NDArray[np.int64], n: NDArray[np.int64]) -> NDArray[np.float64]:
    """Shares of correct responses, NaN where there was none."""
    return np.divide(n_correct, n, out=np.full(n.shape, np.nan), where=n > 0)


class Sized(Protocol):
    """Responses that can be counted."""

    @property
    def n_respondents(self) -> int: ...  # noqa: D102
    @property
    def n_items(self) -> int: ...  # noqa: D102
    @property
    def n_responses(self) -> int: ...  # noqa: D102
    @property
    def n_correct_by_item(self) -> NDArray[np.int64]: ...  # noqa: D102


def size_in_short(responses: Sized) -> str:
    """``1000 respondents x 30 items, 98% observed, 61% correct``."""
    size = f"{counted(responses.n_respondents, 'respondent')} x {counted(responses.n_items, 'item')}"
    n_cells, n = responses.n_respondents * responses.n_items, responses.n_responses
    if n == 0:
        return f"{size}, none observed"
    return f"{size}, {n / n_cells:.0%} observed, {responses.n_correct_by_item.sum() / n:.0%} correct"


def resolve_duplicates(table: pd.DataFrame, *, duplicates: Duplicates = "error") -> pd.DataFrame:
    """Keep one row for each (respondent, item) of a long table of answers or responses.

    Parameters
    ----------
    table
        Has columns ``respondent_id, item_id``.
    duplicates
        What a second row for one pair means: an error that names the first five pairs, or the first or last row
        counts.

    Raises
    ------
    InputError
        On a duplicate pair (by default), or a row without a respondent or an item.
    """
    pair = table[["respondent_id", "item_id"]]
    if pair.isna().any(axis=None):
        raise InputError("long table: expected a respondent_id and an item_id in every row but one is missing")
    repeated = pair.duplicated(keep="last" if duplicates == "last" else "first")
    if not repeated.any():
        return table
    if duplicates == "error":
        pairs = [f"({r}, {i})" for r, i in pair[repeated].drop_duplicates().itertuples(index=False)]
        raise InputError(f"long table: duplicate (respondent, item) pairs: {name_first(pairs)}; expected one each")
    return table[~repeated]


@dataclass(frozen=True, eq=False)
class ResponseMatrix(Shown):
    """Graded responses of respondents (rows) to items (columns).

    Parameters
    ----------
    values
        Shape (n_respondents, n_items); 1 correct, 0 wrong, NaN not observed (the only missing value).
    respondent_ids, item_ids
        Unique names of the rows and columns.

    Raises
    ------
    InputError
        If shapes and ids do not agree, an id is repeated, or a value is none of 1, 0, NaN.
    """

    values: NDArray[np.float64]
    respondent_ids: tuple[str, ...]
    item_ids: tuple[str, ...]

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "respondent_ids", tuple(self.respondent_ids))
        object.__setattr__(self, "item_ids", tuple(self.item_ids))
        if values.shape != (len(self.respondent_ids), len(self.item_ids)):
            raise InputError(
                f"response matrix: shape {values.shape} does not fit "
                f"{len(self.respondent_ids)} respondents x {len(self.item_ids)} items"
            )
        for name, ids in (("respondent_id", self.respondent_ids), ("item_id", self.item_ids)):
            if len(set(ids)) != len(ids):
                index = pd.Index(ids)
                repeated = list(index[index.duplicated()].unique())
                raise InputError(f"response matrix: {name} must be unique but {name_first(repeated)} is repeated")
        wrong = ~((values == 0) | (values == 1) | np.isnan(values))
        if wrong.any():
            row, column = (int(k) for k in np.argwhere(wrong)[0])
            raise InputError(
                f"response matrix: respondent {self.respondent_ids[row]}, item {self.item_ids[column]}: "
                f"expected 1, 0 or missing but got {values[row, column]:g}"
            )
        values.setflags(write=False)

    @property
    def n_respondents(self) -> int:
        """Number of rows."""
        return len(self.respondent_ids)

    @property
    def n_items(self) -> int:
        """Number of columns."""
        return len(self.item_ids)

    @property
    def observed(self) -> NDArray[np.bool_]:
        """Where a response was observed, shape (n_respondents, n_items)."""
        return ~np.isnan(self.values)

    @cached_property
    def is_complete(self) -> bool:
        """Whether no response is missing."""
        return not bool(np.isnan(self.values.sum()))

    @property
    def n_responses(self) -> int:
        """Number of observed responses."""
        return int(self.n_by_item.sum())

    @cached_property
    def n_by_respondent(self) -> NDArray[np.int64]:
        """Number of observed responses of each respondent, shape (n_respondents,)."""
        return np.full(self.n_respondents, self.n_items) if self.is_complete else self.observed.sum(axis=1)

    @cached_property
    def n_by_item(self) -> NDArray[np.int64]:
        """Number of observed responses to each item, shape (n_items,)."""
        return np.full(self.n_items, self.n_respondents) if self.is_complete else self.observed.sum(axis=0)

    @cached_property
    def n_correct_by_item(self) -> NDArray[np.int64]:
        """Number of correct responses to each item, shape (n_items,)."""
        return (self.values if self.is_complete else np.nan_to_num(self.values)).sum(axis=0).astype(np.int64)

    def proportion_correct(self) -> NDArray[np.float64]:
        """Share of correct among the observed responses of each item, NaN where none was observed, shape (n_items,)."""
        return share_correct(self.n_correct_by_item, self.n_by_item)

    def select_items(self, item_ids: Sequence[str]) -> ResponseMatrix:
        """Keep these items, in this order.

        Raises
        ------
        InputError
            If an item is not in the matrix.
        """
        columns = positions_of(item_ids, self.item_ids)
        return ResponseMatrix(self.values[:, columns], self.respondent_ids, tuple(item_ids))

    def select_respondents(self, keep: NDArray[np.bool_]) -> ResponseMatrix:
        """Keep the respondents where ``keep`` (shape (n_respondents,)) is true, in their order."""
        rows = np.flatnonzero(keep)
        return ResponseMatrix(self.values[rows], tuple(self.respondent_ids[i] for i in rows), self.item_ids)

    def to_long(self) -> pd.DataFrame:
        """Observed responses as the long table ``respondent_id, item_id, response``."""
        rows, columns = np.nonzero(self.observed)
        return pd.DataFrame(
            {
                "respondent_id": np.array(self.respondent_ids, dtype=object)[rows],
                "item_id": np.array(self.item_ids, dtype=object)[columns],
                "response": self.values[rows, columns].astype(np.int8),
            }
        )

    @classmethod
    def from_long(
        cls,
        table: pd.DataFrame,
        *,
        item_ids: Sequence[str] | None = None,
        duplicates: Duplicates = "error",
    ) -> ResponseMatrix:
        """Build the matrix from a long table with columns ``respondent_id, item_id, response``.

        Respondents stand in order of first appearance. Items too, unless ``item_ids`` gives their order (items
        without a row are then all missing).

        Parameters
        ----------
        table
            One row a response; ``response`` is 1, 0 or NaN.
        item_ids
            The columns wanted; None for those that appear.
        duplicates
            What a second row for one (respondent, item) means; see ``resolve_duplicates``.

        Raises
        ------
        InputError
            On a duplicate pair (by default), a missing name, an item outside ``item_ids``, or an empty table.
        """
        if table.empty:
            raise InputError("responses: the table is empty; expected at least one response")
        table = resolve_duplicates(table, duplicates=duplicates)
        rows, respondents = pd.factorize(table["respondent_id"])
        if item_ids is None:
            columns, appeared = pd.factorize(table["item_id"])
            wanted = tuple(str(item) for item in appeared)
        else:
            wanted = tuple(item_ids)
            columns = pd.Index(wanted).get_indexer(pd.Index(table["item_id"]))
            if (columns < 0).any():
                unknown = list(pd.unique(table["item_id"][columns < 0]))
                raise InputError(f"responses: unknown item {name_first(unknown)}")
        values = np.full((len(respondents), len(wanted)), np.nan)
        values[rows, columns] = table["response"].to_numpy(dtype=np.float64)
        return cls(values, tuple(str(r) for r in respondents), wanted)

    def table(self) -> pd.DataFrame:
        """One row a respondent: a wide table, the respondents in its first column."""
        table = pd.DataFrame(self.values, columns=list(self.item_ids))
        table.insert(0, "respondent_id", self.respondent_ids, allow_duplicates=True)
        return table

    def in_short(self) -> str:
        """Size, share observed and share correct."""
        return size_in_short(self)
