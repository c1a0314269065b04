"""Respondents' rows on a device, handed out in batches as matrices of 0 and 1, kept dense or sparse."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from irtbench.data.responses import ResponseMatrix
from irtbench.data.sparse_responses import SparseResponses

MISSING = -1  # in rows of responses 1 and 0

SPARSE_BATCH = 8192  # respondents whose sparse rows form one matrix


@dataclass(frozen=True)
class Batch:
    """Some respondents' responses as two matrices of 0 and 1, each with its transpose, dense or in compressed rows.

    Parameters
    ----------
    correct, correct_by_item
        1 where a response is correct, shapes (n_batch, n_items) and (n_items, n_batch).
    observed, observed_by_item
        1 where there is a response, of the same shapes; None where no response is missing.
    """

    correct: Tensor
    correct_by_item: Tensor
    observed: Tensor | None
    observed_by_item: Tensor | None

    def __len__(self) -> int:
        return self.correct.shape[0]

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


@dataclass(frozen=True)
class DenseRows:
    """Rows of one byte a response: 1, 0, or -1 where missing.

    Parameters
    ----------
    values
        int8, shape (n_respondents, n_items).
    n_correct
        Number of correct responses to each item, shape (n_items,).
    complete
        Whether no response is missing.
    """

    values: Tensor
    n_correct: Tensor
    complete: bool
    scratch: Scratch = field(default_factory=Scratch, repr=False, compare=False)
    _whole: dict[torch.dtype, Batch] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return self.values.shape[0]

    @property
    def n_items(self) -> int:
        """Number of columns."""
        return self.values.shape[1]

    @cached_property
    def n_responses(self) -> int:
        """Number of responses that are not missing."""
        return self.values.numel() if self.complete else int((self.values != MISSING).sum())

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return self.values.device

    def every(self, stride: int) -> DenseRows:
        """The first respondent and every so many-th after."""
        return self._of(self.values[::stride].contiguous())

    def where(self, kept: Tensor) -> DenseRows:
        """The respondents at which a mask of shape (n_respondents,) is true."""
        return self._of(self.values[kept])

    def _of(self, values: Tensor) -> DenseRows:
        """Some of these rows."""
        return DenseRows(values, (values == 1).sum(dim=0).to(self.n_correct), self.complete)

    def batches(self, most: int, dtype: torch.dtype) -> Iterator[Batch]:
        """Batches of up to so many respondents; each is written over by the next, but one of all is kept."""
        if most >= len(self):
            if dtype not in self._whole:
                self._whole[dtype] = self._batch(self.values, dtype, Scratch())
            yield self._whole[dtype]
        else:
            for rows in self.values.split(max(1, most)):
                yield self._batch(rows, dtype, self.scratch)

    def _batch(self, rows: Tensor, dtype: torch.dtype, scratch: Scratch) -> Batch:
        """Unpack these rows into the scratch memory."""
        like = rows.new_empty(0, dtype=dtype)
        correct = scratch.matrix("correct", len(rows), self.n_items, like)
        if self.complete:
            correct.copy_(rows)
            return Batch(correct, correct.T, None, None)
        observed = scratch.matrix("observed", len(rows), self.n_items, like)
        correct.copy_(rows == 1)
        observed.copy_(rows != MISSING)
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
    """

    parts: tuple[Batch, ...]
    n_correct: Tensor
    n_respondents: int
    complete: bool = False
    scratch: Scratch = field(default_factory=Scratch, repr=False, compare=False)

    def __len__(self) -> int:
        return self.n_respondents

    @property
    def n_items(self) -> int:
        """Number of columns."""
        return len(self.n_correct)

    @cached_property
    def n_responses(self) -> int:
        """Number of responses that are not missing."""
        return sum(part.observed._nnz() for part in self.parts if part.observed is not None)

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return self.parts[0].correct.device

    def batches(self, most: int, dtype: torch.dtype) -> Iterator[Batch]:
        """The parts as they were made, whatever their size; always in float64, which costs little here."""
        del most, dtype
        yield from self.parts


ResponseRows = DenseRows | SparseRows


def as_rows(value: Tensor | ResponseRows) -> ResponseRows:
    """Rows of a tensor of 1, 0 and -1 for missing, shape (n_respondents, n_items); rows stay as they are."""
    if not isinstance(value, Tensor):
        return value
    n_correct = (value == 1).sum(dim=0).to(torch.float64)
    return DenseRows(value.to(torch.int8), n_correct, not bool((value == MISSING).any()))


def encode_responses(responses: ResponseMatrix | SparseResponses, device: torch.device) -> ResponseRows:
    """Copy responses to the device, sparse ones without a matrix of the full size."""
    n_correct = torch.from_numpy(responses.n_correct_by_item.astype(np.float64)).to(device)
    if isinstance(responses, ResponseMatrix):
        small = np.full(responses.values.shape, MISSING, dtype=np.int8)
        np.copyto(small, responses.values, casting="unsafe", where=responses.observed)
        return DenseRows(torch.from_numpy(small).to(device), n_correct, responses.is_complete)
    n_respondents = responses.n_respondents
    parts = (responses.respondents(start, start + SPARSE_BATCH) for start in range(0, n_respondents, SPARSE_BATCH))
    return SparseRows(tuple(sparse_batch(part, device) for part in parts), n_correct, n_respondents)


def sparse_batch(part: SparseResponses, device: torch.device) -> Batch:
    """The two matrices of some respondents' responses, and their transposes."""
    shape = (part.n_respondents, part.n_items)
    right = part.correct
    correct = sparse.csr_matrix((np.ones(int(right.sum())), (part.rows[right], part.columns[right])), shape)
    observed = sparse.csr_matrix((np.ones(len(right)), (part.rows, part.columns)), shape)
    return Batch(
        *(compressed_rows(matrix, device) for matrix in (correct, correct.T.tocsr(), observed, observed.T.tocsr()))
    )


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
