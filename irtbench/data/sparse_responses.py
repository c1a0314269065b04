"""Responses of which most are missing, kept as a list: never a matrix of the full size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from irtbench.data.input_error import InputError, refuse_first
from irtbench.data.responses import (
    MISSING,
    Duplicates,
    ResponseMatrix,
    Responses,
    coded,
    hash_of,
    name_first,
    positions_of,
    resolve_duplicates,
    trials_words,
    wrong_counts,
)

MOST_DENSE_CELLS = 20_000_000  # a matrix of so many responses is 160 MB
SPARSE_BELOW = 0.1  # share of cells observed


def trial_counts(table: pd.DataFrame) -> pd.DataFrame | None:
    """A row for each pair with ``n_correct`` of ``n_trials``; None where no pair has several trials."""
    pair = ["respondent_id", "item_id"]
    repeated = "trial" in table.columns and table.duplicated(pair).any()
    if "n_trials" in table.columns:
        counts = table.assign(n_trials=table["n_trials"].fillna(0), n_correct=table["n_correct"].fillna(0))
    else:
        if not repeated:
            return None
        response = table["response"].astype(np.float64)
        refuse_first(
            ~(response.isin((0, 1)) | response.isna()).to_numpy(),
            lambda k: f"responses: expected 1, 0 or missing in each trial but got {response.iloc[k]:g}",
        )
        counts = table.drop(columns="response").assign(n_correct=response.fillna(0), n_trials=response.notna())
        counts["n_trials"] = counts["n_trials"].astype(np.int64)
    if not repeated or table.duplicated([*pair, "trial"]).any() or table[pair].isna().any(axis=None):
        return counts  # repeated pairs that nothing tells apart are refused by who asked
    sums = counts.groupby(pair, sort=False)[["n_correct", "n_trials"]].sum()
    rest = counts[~counts.duplicated(pair)].drop(columns=["trial", "n_correct", "n_trials"])
    return rest.assign(n_correct=sums["n_correct"].to_numpy(), n_trials=sums["n_trials"].to_numpy())


@dataclass(frozen=True, eq=False)
class SparseResponses(Responses):
    """Graded responses of respondents to items, one entry a pair, in order of respondents.

    Parameters
    ----------
    rows, columns
        Positions of respondent and item, shape (n_pairs,); `rows` does not decrease.
    correct
        Whether the response is correct, or the number correct of the trials, shape (n_pairs,).
    respondent_ids, item_ids
        Unique names of the positions.
    trials
        Number of trials, at least 1, shape (n_pairs,); None where no item was tried twice.
    """

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    correct: NDArray[np.bool_] | NDArray[np.int64]
    respondent_ids: tuple[str, ...]
    item_ids: tuple[str, ...]
    trials: NDArray[np.int64] | None = None

    at_once: ClassVar[int] = 1000

    @property
    def n_pairs(self) -> int:
        """Number of pairs of a respondent and an item with a response, or several."""
        return len(self.rows)

    @property
    def n_by_respondent(self) -> NDArray[np.int64]:
        """Number of observed responses of each respondent, each trial being one, shape (n_respondents,)."""
        return _totals(self.rows, self.trials, self.n_respondents)

    @property
    def n_by_item(self) -> NDArray[np.int64]:
        """Number of observed responses to each item, each trial being one, shape (n_items,)."""
        return _totals(self.columns, self.trials, self.n_items)

    @property
    def n_correct_by_item(self) -> NDArray[np.int64]:
        """Number of correct responses to each item, shape (n_items,)."""
        return _totals(self.columns, self.correct, self.n_items)

    def where(self, kept: NDArray[np.bool_] | slice) -> SparseResponses:
        """The pairs that are kept (shape (n_pairs,)), positions and names as they are."""
        return replace(
            self,
            rows=self.rows[kept],
            columns=self.columns[kept],
            correct=self.correct[kept],
            trials=None if self.trials is None else self.trials[kept],
        )

    def select_items(self, item_ids: Sequence[str]) -> SparseResponses:
        """Keep these items, in this order.

        Raises
        ------
        InputError
            If an item is not among these.
        """
        old = positions_of(item_ids, self.item_ids)
        new = np.full(self.n_items, -1)
        new[old] = np.arange(len(old))
        columns = new[self.columns]
        kept = columns >= 0
        return replace(self.where(kept), columns=columns[kept], item_ids=tuple(item_ids))

    def select_respondents(self, keep: NDArray[np.bool_]) -> SparseResponses:
        """Keep the respondents where ``keep`` (shape (n_respondents,)) is true, in their order."""
        kept, new = keep[self.rows], np.cumsum(keep) - 1
        ids = tuple(self.respondent_ids[i] for i in np.flatnonzero(keep))
        return replace(self.where(kept), rows=new[self.rows[kept]], respondent_ids=ids)

    @property
    def content_hash(self) -> str:
        """Hash of the responses and of the names."""
        return hash_of(self.rows, self.columns, self.correct, self.trials, self.respondent_ids, self.item_ids)

    def respondents(self, start: int, stop: int) -> SparseResponses:
        """Consecutive respondents, with all items."""
        first, last = np.searchsorted(self.rows, [start, stop])
        own = self.where(slice(first, last))
        return replace(own, rows=own.rows - start, respondent_ids=self.respondent_ids[start:stop])

    def part(self, start: int, stop: int) -> ResponseMatrix:
        """Consecutive respondents as a matrix of all items."""
        own = self.respondents(start, stop)
        codes, shape, trials = coded(own.correct), (own.n_respondents, own.n_items), None
        values = np.full(shape, MISSING, dtype=codes.dtype)
        values[own.rows, own.columns] = codes
        if own.trials is not None:
            trials = np.zeros(shape, dtype=np.int64)
            trials[own.rows, own.columns] = own.trials
        return ResponseMatrix.from_coded(values, own.respondent_ids, own.item_ids, trials)

    def parts(self, n_respondents: int | None = None) -> Iterator[ResponseMatrix]:
        """So many respondents at a time, each time with the items that they answered."""
        most = n_respondents or self.at_once
        for start in range(0, self.n_respondents, most):
            own = self.respondents(start, start + most)
            asked = np.flatnonzero(own.n_by_item)
            yield own.select_items([own.item_ids[j] for j in asked]).to_matrix()

    @classmethod
    def from_long(
        cls, table: pd.DataFrame, *, item_ids: Sequence[str] | None = None, duplicates: Duplicates = "error"
    ) -> SparseResponses:
        """Build from a long table with columns ``respondent_id, item_id, response``, see `ResponseMatrix.from_long`.

        Rows without a response are left out, but their respondent and item are kept.

        Raises
        ------
        InputError
            On a column missing, a duplicate pair (by default), a missing name, an item outside ``item_ids``, a response
            that is none of 1, 0 and missing, or an empty table.
        """
        if table.empty:
            raise InputError("responses: the table is empty; expected at least one response")
        result = "n_correct" if {"n_correct", "n_trials"} <= {*table} else "response"
        if lacking := [name for name in ("respondent_id", "item_id", result) if name not in table]:
            raise InputError(f"responses: column {lacking[0]} missing; it has: {name_first(list(table), most=12)}")
        counts = trial_counts(table)
        table = resolve_duplicates(table if counts is None else counts, duplicates=duplicates)
        rows, respondents = pd.factorize(table["respondent_id"])
        columns, items = pd.factorize(table["item_id"])
        if item_ids is not None:
            columns, items = pd.Index(item_ids).get_indexer(pd.Index(table["item_id"])), pd.Index(item_ids)
            if (columns < 0).any():
                raise InputError(
                    f"responses: unknown item {name_first(list(pd.unique(table['item_id'][columns < 0])))}"
                )
        respondent_ids, names = (tuple(map(str, each)) for each in (respondents, items))
        right = table["response" if counts is None else "n_correct"].to_numpy(dtype=np.float64)
        n = (~np.isnan(right)).astype(np.float64) if counts is None else counts["n_trials"].to_numpy(dtype=np.float64)

        def message(k: int) -> str:
            expected = "1, 0 or missing" if counts is None else f"a whole number right of {trials_words(n[k])}"
            got = f"{right[k]:g}" if counts is None else f"{right[k]:g} of {n[k]:g}"
            return (
                f"responses: respondent {respondent_ids[rows[k]]}, item {names[columns[k]]}: expected {expected} but "
                f"got {got}"
            )

        refuse_first((n != 0) & wrong_counts(right, n), message)
        there = np.flatnonzero(n > 0)
        there = there[np.argsort(rows[there], kind="stable")]
        several = bool((n > 1).any())
        correct = right[there].astype(np.int64) if several else right[there] == 1
        trials = n[there].astype(np.int64) if several else None
        return cls(rows[there], columns[there], correct, respondent_ids, names, trials)

    def table(self) -> pd.DataFrame:
        """One row a pair: the long table, see `ResponseMatrix.to_long`."""
        return self._long(self.rows, self.columns, self.correct, self.trials)


def _totals(
    positions: NDArray[np.intp], numbers: NDArray[np.int64] | NDArray[np.bool_] | None, n: int
) -> NDArray[np.int64]:
    """Sums of numbers, None for ones, by position, shape (n,)."""
    if numbers is None:
        return np.bincount(positions, minlength=n)
    return np.bincount(positions, numbers, minlength=n).astype(np.int64)


def responses_from_long(table: pd.DataFrame) -> Responses:
    """A matrix, or a list where the matrix would be large and nearly empty; errors as `ResponseMatrix.from_long`.

    Examples
    --------
    >>> import pandas as pd
    >>> import irtbench
    >>> rows = [("ann", "i1", 1), ("ann", "i2", 0), ("bob", "i1", 1)]
    >>> table = pd.DataFrame(rows, columns=["respondent_id", "item_id", "response"])
    >>> irtbench.responses_from_long(table)
    <ResponseMatrix: 2 respondents x 2 items, 75% observed, 67% correct>
    """
    found = SparseResponses.from_long(table)
    n_cells = found.n_respondents * found.n_items
    return found if n_cells > MOST_DENSE_CELLS and len(table) < SPARSE_BELOW * n_cells else found.to_matrix()
