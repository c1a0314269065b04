"""Respondents' rows on a device, handed out in batches as matrices of numbers right and asked, dense or sparse."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from irtbench.data.responses import ResponseMatrix, Responses
from irtbench.data.sparse_responses import SparseResponses
from irtbench.data.stored_responses import StoredResponses, StoredScores
from irtbench.models.coded_scores import CodedScores

MISSING = -1  # in rows of responses 1 and 0

SPARSE_BATCH = 8192  # respondents whose sparse rows form one matrix
MOST_KEPT = 2**22  # numbers right that stay unpacked between passes


@dataclass(frozen=True)
class Batch:
    """Some respondents' responses as two matrices, each with its transpose, dense or in compressed rows.

    The matrices are of 0 and 1, or of k and n where a respondent was right k times in n trials of an item. What is
    linear in the responses is then the same sum for both.

    Parameters
    ----------
    correct, correct_by_item
        Number of correct responses, shapes (n_batch, n_items) and (n_items, n_batch).
    observed, observed_by_item
        Number of responses, of the same shapes; None where it is 1 everywhere.
    """

    correct: Tensor
    correct_by_item: Tensor
    observed: Tensor | None
    observed_by_item: Tensor | None

    def __len__(self) -> int:
        return self.correct.shape[0]

    def part(self, some: slice) -> Batch:
        """Some of the respondents of a dense batch."""
        observed = None if self.observed is None else self.observed[some]
        return Batch(self.correct[some], self.correct[some].T, observed, None if observed is None else observed.T)

    def observed_sums(self, values: Tensor) -> Tensor:
        """Sums over each respondent's items of values of shape (n_items,) or (n_items, k); one row for all if the
        same.
        """
        return values.sum(dim=0, keepdim=True) if self.observed is None else self.observed @ values

    def observed_by_item_sums(self, values: Tensor) -> Tensor:
        """Sums over each item's respondents of values of shape (n_batch,) or (n_batch, k); one for all if the same."""
        return values.sum(dim=0) if self.observed_by_item is None else self.observed_by_item @ values


class Scratch:
    """Memory that is written over again and again: fresh memory for every batch would cost more than the arithmetic."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, torch.dtype], Tensor] = {}

    def matrix(self, name: str, n_rows: int, n_columns: int, like: Tensor) -> Tensor:
        """A matrix of that shape on the device and in the precision of `like`, with whatever was last written there."""
        held = self._held.get((name, like.dtype))
        if held is None or len(held) < n_rows * n_columns:
            held = self._held[name, like.dtype] = like.new_empty(n_rows * n_columns)
        return held[: n_rows * n_columns].view(n_rows, n_columns)


class Together(Protocol):
    """Processes of which each has some of the respondents."""

    def summed(
        self,
        what: str,
        at: Sequence[Tensor],
        own: Callable[[], tuple[Tensor, ...]],
        none: Callable[[], tuple[Tensor, ...]],
    ) -> tuple[Tensor, ...]:
        """Sums of all processes (`threads.summed`): `own` makes those of this one, `none` those of no respondents."""

    def total(self, *sums: Tensor) -> tuple[Tensor, ...]:
        """Sums of all processes from those of each."""

    def least(self, value: float) -> float:
        """The smallest number that any process has."""


@dataclass(frozen=True)
class DenseRows:
    """Rows of one byte a response: 1, 0, or -1 where missing; with trials, of the number correct.

    Parameters
    ----------
    values
        int8, or int32 with trials, shape (n_respondents, n_items).
    n_correct
        Number of correct responses to each item, shape (n_items,).
    complete
        Whether there is one response of everybody to every item.
    trials
        Number of trials, int32, 0 where missing, of the same shape; None where no item was tried twice.
    categories
        The item and the category, 1, 2, ..., of each column that numbers correct have in batches, where values are
        categories, shapes (n_columns,); None where values are right or wrong.
    """

    values: Tensor
    n_correct: Tensor
    complete: bool
    trials: Tensor | None = None
    categories: tuple[Tensor, Tensor] | None = None
    scratch: Scratch = field(default_factory=Scratch, repr=False, compare=False)
    _whole: dict[torch.dtype, Batch] = field(default_factory=dict, repr=False, compare=False)
    _spans: list[DenseRows] = field(default_factory=list, repr=False, compare=False)

    def __len__(self) -> int:
        return self.values.shape[0]

    @property
    def n_respondents(self) -> int:
        """Number of respondents."""
        return len(self)

    @property
    def n_items(self) -> int:
        """Number of columns."""
        return self.values.shape[1]

    @cached_property
    def n_responses(self) -> int:
        """Number of responses that are not missing."""
        if self.trials is not None:
            return int(self.trials.sum())
        return self.values.numel() if self.complete else int((self.values != MISSING).sum())

    @cached_property
    def most_trials(self) -> Tensor | None:
        """The most trials anybody had at each item, shape (n_items,); None where no item was tried twice."""
        return None if self.trials is None else self.trials.amax(dim=0).to(self.n_correct)

    @property
    def right(self) -> Tensor:
        """Number of correct responses, 0 where missing, shape (n_respondents, n_items)."""
        return right_in(self.values, self.trials, self.categories)

    @property
    def asked(self) -> Tensor:
        """Number of responses, shape (n_respondents, n_items)."""
        return self.values != MISSING if self.trials is None else self.trials

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return self.values.device

    def every(self, stride: int) -> DenseRows:
        """The first respondent and every so many-th after."""
        return self.where(slice(None, None, stride))

    def spans(self, n: int) -> tuple[DenseRows, ...]:
        """The respondents in so many parts, each with memory of its own to unpack into; `n_correct` is that of all."""
        if len(self._spans) != n:
            self._spans[:] = [
                replace(
                    self,
                    values=self.values[a:b],
                    trials=None if self.trials is None else self.trials[a:b],
                    scratch=Scratch(),
                    _whole={},
                    _spans=[],
                )
                for a, b in span_ends(len(self), n)
            ]
        return tuple(self._spans)

    def where(self, rows: Tensor | slice) -> DenseRows:
        """Some of the respondents: those at which a mask of shape (n_respondents,) is true, or of a slice."""
        trials = None if self.trials is None else self.trials[rows].contiguous()
        some = DenseRows(self.values[rows].contiguous(), self.n_correct, self.complete, trials, self.categories)
        return replace(some, n_correct=some.right.sum(dim=0).to(self.n_correct))

    def of_items(self, items: Tensor | slice) -> DenseRows:
        """The same respondents, some of the items."""
        trials = None if self.trials is None else self.trials[:, items]
        return DenseRows(self.values[:, items], self.n_correct[items], self.complete, trials)

    def batches(self, most: int, dtype: torch.dtype) -> Iterator[Batch]:
        """Batches of up to so many respondents; each is written over by the next, where all are not few."""
        most = max(1, most)
        if most >= len(self) or len(self) * len(self.n_correct) <= MOST_KEPT:
            if dtype not in self._whole:
                self._whole[dtype] = self._unpacked(slice(None), dtype, Scratch())
            for first in range(0, len(self), most):
                yield self._whole[dtype].part(slice(first, first + most))
        else:
            for first in range(0, len(self), most):
                yield self._unpacked(slice(first, first + most), dtype, self.scratch)

    def _unpacked(self, some: slice, dtype: torch.dtype, scratch: Scratch) -> Batch:
        """Consecutive rows as matrices."""
        trials = None if self.trials is None else self.trials[some]
        return unpacked(self.values[some], trials, dtype, scratch, complete=self.complete, categories=self.categories)


def span_ends(n_respondents: int, n: int) -> list[tuple[int, int]]:
    """Where each of so many parts of the respondents begins and ends."""
    ends = [k * n_respondents // n for k in range(n + 1)]
    return list(pairwise(ends))


def right_in(rows: Tensor, trials: Tensor | None, categories: tuple[Tensor, Tensor] | None) -> Tensor:
    """Numbers right in rows of 1, 0 and -1 (or numbers right, with trials), 0 where missing.

    Of categories whether the response to a column's item was its category, shape (n_rows, n_columns).
    """
    if categories is not None:
        item, category = categories
        by_item = rows.T.contiguous()  # whose rows are copied whole
        return (by_item.index_select(0, item) == category.to(rows.dtype)[:, None]).T
    return rows == 1 if trials is None else rows.clamp(min=0)


def unpacked(
    rows: Tensor,
    trials: Tensor | None,
    dtype: torch.dtype,
    scratch: Scratch,
    *,
    complete: bool,
    categories: tuple[Tensor, Tensor] | None = None,
) -> Batch:
    """Such rows as matrices in scratch memory."""
    right = rows if complete and categories is None else right_in(rows, trials, categories)
    like = rows.new_empty(0, dtype=dtype)
    correct = scratch.matrix("correct", len(right), right.shape[1], like).copy_(right)
    if complete:
        return Batch(correct, correct.T, None, None)
    observed = scratch.matrix("observed", len(rows), rows.shape[1], like).copy_(
        rows != MISSING if trials is None else trials
    )
    return Batch(correct, correct.T, observed, observed.T)


@dataclass(frozen=True)
class SparseRows:
    """Rows of which only the observed responses are kept, in matrices of compressed rows.

    Parameters
    ----------
    parts
        Batches of consecutive respondents in float64.
    n_correct
        Number of correct responses to each item, shape (n_items,).
    n_respondents
        Number of rows.
    most_trials
        The most trials anybody had at each item, shape (n_items,); None where no item was tried twice.
    categories
        As of `DenseRows`.
    """

    parts: tuple[Batch, ...]
    n_correct: Tensor
    n_respondents: int
    most_trials: Tensor | None = None
    categories: tuple[Tensor, Tensor] | None = None
    complete: bool = False
    scratch: Scratch = field(default_factory=Scratch, repr=False, compare=False)

    def __len__(self) -> int:
        return self.n_respondents

    @property
    def n_items(self) -> int:
        """Number of items."""
        observed = self.parts[0].observed
        assert observed is not None
        return observed.shape[1]

    @cached_property
    def n_responses(self) -> int:
        """Number of responses that are not missing."""
        return sum(int(part.observed.values().sum()) for part in self.parts if part.observed is not None)

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return self.parts[0].correct.device

    def batches(self, most: int, dtype: torch.dtype) -> Iterator[Batch]:
        """The parts as they were made, whatever their size; always in float64, which costs little here."""
        del most, dtype
        yield from self.parts


@dataclass(frozen=True)
class StoredRows:
    """Rows of a byte a response in a file, which every pass reads again, one batch at a time.

    Parameters
    ----------
    responses
        Where they are.
    n_correct
        Number of correct responses to each item, on the device of the batches, shape (n_items,).
    first, last
        The respondents whose rows these are, `last` not among them.
    together
        The processes that have the other respondents; None where these are all, or where a part of them is meant.
    categories
        As of `DenseRows`, the categories by what stands for them in the file.
    """

    responses: StoredResponses
    n_correct: Tensor
    first: int
    last: int
    together: Together | None = None
    categories: tuple[Tensor, Tensor] | None = None
    most_trials: None = None
    scratch: Scratch = field(default_factory=Scratch, repr=False, compare=False)
    _spans: list[StoredRows] = field(default_factory=list, repr=False, compare=False)

    def __len__(self) -> int:
        return self.last - self.first

    @property
    def n_respondents(self) -> int:
        """Number of respondents, those of other processes among them."""
        return len(self) if self.together is None else self.responses.n_respondents

    @property
    def n_items(self) -> int:
        """Number of columns."""
        return self.responses.n_items

    @property
    def complete(self) -> bool:
        """Whether there is a response of everybody to every item."""
        return self.responses.is_complete

    @property
    def n_responses(self) -> int:
        """Number of responses that are not missing, in all of the file."""
        return self.responses.n_responses

    @property
    def device(self) -> torch.device:
        """Where batches are."""
        return self.n_correct.device

    def every(self, stride: int) -> DenseRows:
        """The first respondent and every so many-th after, in memory: of all processes, the same in each."""
        first = 0 if self.together is not None else self.first
        chosen = np.arange(first, first + self.n_respondents, stride)
        values = torch.from_numpy(self.responses.at(chosen)).to(self.device)
        return DenseRows(values, self.n_correct, self.complete, categories=self.categories).where(slice(None))

    def spans(self, n: int) -> tuple[StoredRows, ...]:
        """As of `DenseRows`."""
        if len(self._spans) != n:
            ends = span_ends(len(self), n)
            whole = replace(self, together=None)
            self._spans[:] = [
                replace(whole, first=self.first + a, last=self.first + b, scratch=Scratch(), _spans=[]) for a, b in ends
            ]
        return tuple(self._spans)

    def batches(self, most: int, dtype: torch.dtype) -> Iterator[Batch]:
        """Batches of up to so many respondents, each written over by the next."""
        for start in range(self.first, self.last, max(1, most)):
            rows = torch.from_numpy(self.responses.rows(start, min(start + max(1, most), self.last)))
            yield unpacked(
                rows.to(self.device), None, dtype, self.scratch, complete=self.complete, categories=self.categories
            )


ResponseRows = DenseRows | SparseRows | StoredRows


def as_rows(value: Tensor | ResponseRows) -> ResponseRows:
    """Rows of a tensor of 1, 0 and -1 for missing, shape (n_respondents, n_items); rows stay as they are."""
    if not isinstance(value, Tensor):
        return value
    n_correct = (value == 1).sum(dim=0).to(torch.float64)
    return DenseRows(value.to(torch.int8), n_correct, not bool((value == MISSING).any()))


def encode_responses(responses: Responses, device: torch.device) -> ResponseRows:
    """Copy responses to the device, sparse ones without a matrix of the full size; stored ones stay where they are."""
    n_correct = torch.from_numpy(responses.n_correct_by_item.astype(np.float64)).to(device)
    if isinstance(responses, StoredResponses):
        return StoredRows(responses, n_correct, 0, responses.n_respondents)
    if isinstance(responses, ResponseMatrix):
        held = responses.coded_responses
        values = torch.from_numpy(held.astype(np.int8 if responses.trials is None else np.int32)).to(device)
        if responses.trials is None:
            return DenseRows(values, n_correct, responses.is_complete)
        return DenseRows(values, n_correct, False, torch.from_numpy(responses.trials.astype(np.int32)).to(device))
    assert isinstance(responses, SparseResponses)
    row, item, right = responses.rows, responses.columns, responses.correct.astype(np.float64)
    asked, given = np.ones(len(row)), right > 0
    if responses.trials is not None:
        asked, given = responses.trials.astype(np.float64), np.ones_like(given)  # both matrices have one pattern
    return sparse_rows(
        (row, item, asked), (row[given], item[given], right[given]), n_correct, responses.n_respondents,
        responses.n_items, device,
    )  # fmt: skip


def rows_in_categories(codes: NDArray[np.int8], columns: tuple[Tensor, Tensor], device: torch.device) -> DenseRows:
    """Categories 0, 1, ..., -1 where missing, shape (n_respondents, n_items), on the device."""
    values = torch.from_numpy(codes).to(device)
    by_category = torch.stack([(values == k).sum(dim=0) for k in range(int(columns[1].max()) + 1)])
    n = by_category[columns[1], columns[0]].to(torch.float64)
    return DenseRows(values, n, bool((values != MISSING).all()), categories=columns)


def scores_on_device(
    scores: CodedScores | StoredScores, columns: tuple[Tensor, Tensor], device: torch.device
) -> ResponseRows:
    """Responses in categories on the device; `columns` are item and category of each column, see `DenseRows`."""
    if isinstance(scores, StoredScores):
        item, later = columns[0], np.concatenate([np.flatnonzero(own)[1:] for own in scores.given])
        n = torch.from_numpy(scores.n_by_level[item.cpu().numpy(), later].astype(np.float64)).to(device)
        kinds = item, torch.from_numpy(later).to(device)
        return StoredRows(scores, n, 0, scores.n_respondents, categories=kinds)
    if scores.places is None:
        return rows_in_categories(scores.codes, columns, device)
    first = np.searchsorted(columns[0].cpu().numpy(), np.arange(scores.n_items))
    order = np.argsort(scores.places[0], kind="stable")
    (row, item), codes = scores.places[:, order], scores.codes[order]
    later = codes > 0
    column, ones = first[item[later]] + codes[later] - 1, np.ones(len(row))  # repeated pairs add up
    n = torch.from_numpy(np.bincount(column, minlength=len(columns[0])).astype(np.float64)).to(device)
    return sparse_rows(
        (row, item, ones), (row[later], column, ones[later]), n, scores.n_respondents, scores.n_items, device, columns
    )


#: Respondents in their order, columns and numbers, shape (n_pairs,) each.
Entries = tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]


def sparse_rows(
    asked: Entries,
    right: Entries,
    n_correct: Tensor,
    n_respondents: int,
    n_items: int,
    device: torch.device,
    categories: tuple[Tensor, Tensor] | None = None,
) -> SparseRows:
    """Rows of numbers asked and right, in batches of two matrices and their transposes."""
    parts, most = [], np.zeros(n_items)
    for start in range(0, n_respondents, SPARSE_BATCH):
        n_rows = min(SPARSE_BATCH, n_respondents - start)
        matrices = []
        for (rows, places, numbers), width in ((right, len(n_correct)), (asked, n_items)):
            own = slice(*np.searchsorted(rows, [start, start + n_rows]))
            matrix = sparse.csr_matrix((numbers[own], (rows[own] - start, places[own])), (n_rows, width))
            matrices += [matrix, matrix.T.tocsr()]
        most = np.maximum(most, matrices[2].max(axis=0).toarray()[0])
        parts.append(Batch(*(compressed_rows(matrix, device) for matrix in matrices)))
    several = torch.from_numpy(most).to(device) if most.max() > 1 else None
    return SparseRows(tuple(parts), n_correct, n_respondents, several, categories=categories)


def compressed_rows(matrix: sparse.csr_matrix, device: torch.device) -> Tensor:
    """A SciPy matrix of compressed rows as one of torch."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            torch.from_numpy(matrix.data),
            size=matrix.shape,
            check_invariants=True,
            device=device,
        )
