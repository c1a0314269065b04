"""Responses of many scales in one tensor, those of smaller scales filled up with what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from irtbench.data.responses import ResponseMatrix
from irtbench.models.pyro_model.rows import MISSING, Scratch

CHUNK_BYTES = {"cpu": 2**22, "cuda": 2**29}  # of scales x respondents x (nodes or items) computed at once
GROUP_CELLS = {"cpu": 2**18, "cuda": 2**25}  # scales x items x nodes that take their steps together
MOST_FILLING = 2.0  # respondents x nodes of a group, each scale taken to be as large as the largest, over its own


@dataclass(frozen=True)
class Chunk:
    """Some consecutive scales of a stack as matrices of floating point numbers, respondents last.

    Parameters
    ----------
    scales
        Which they are.
    correct
        Number of correct responses, shape (n_scales, n_items, n_respondents).
    observed
        Number of responses, shaped as `correct`; None if every scale is complete.
    respondents
        How many respondents each row is, 0 for what fills a scale up, shape (n_scales, n_respondents).
    """

    scales: slice
    correct: Tensor
    observed: Tensor | None
    respondents: Tensor


@dataclass(frozen=True)
class Stack:
    """Responses of scales, each with respondents and items of its own.

    Parameters
    ----------
    values
        1, 0, and -1 where missing or filled up, shape (n_scales, n_items, n_respondents); where a row is of many
        respondents, the share of them that were right.
    n_correct, n_observed
        Number of correct responses, and of all, to each item, float64, shape (n_scales, n_items).
    respondents
        How many respondents each row is, 0 for what fills a scale up, shape (n_scales, n_respondents).
    items
        1 for items, 0 for what fills a scale up, float64, shape (n_scales, n_items).
    complete
        Whether every respondent of a scale answered all of its items.
    """

    values: Tensor
    n_correct: Tensor
    n_observed: Tensor
    respondents: Tensor
    items: Tensor
    complete: bool = field(kw_only=True)
    scratch: Scratch = field(default_factory=Scratch, repr=False, compare=False, kw_only=True)

    @classmethod
    def of(cls, scales: Sequence[ResponseMatrix], device: torch.device) -> Stack:
        """Encode responses."""
        sizes = np.array([scale.correct.shape for scale in scales])
        values = np.full((len(scales), *sizes.max(axis=0)[::-1]), MISSING, dtype=np.int8)
        for own, scale in zip(values, scales, strict=True):
            part = own[: scale.n_items, : scale.n_respondents]
            np.copyto(part, scale.correct.T, casting="unsafe", where=scale.observed.T)
        n_correct, n_observed = np.zeros((2, *values.shape[:2]))
        for right, asked, scale in zip(n_correct, n_observed, scales, strict=True):
            right[: scale.n_items], asked[: scale.n_items] = scale.n_correct_by_item, scale.n_by_item
        respondents = np.arange(values.shape[2]) < sizes[:, :1]
        parts = values, n_correct, n_observed, respondents.astype(np.float64), (n_observed > 0).astype(np.float64)
        complete = all(scale.is_complete for scale in scales)
        return cls(*(torch.from_numpy(part).to(device) for part in parts), complete=complete)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def width(self) -> int:
        """Number of items of the largest scale, those of all with what fills them up."""
        return self.values.shape[1]

    def by_number_right(self) -> Stack:
        """The same with respondents of one number right as one row, of the shares of them that were right.

        With complete responses, one slope for all items and no guessing they have the same posterior (Andersen, 1977),
        and sums over respondents of what is linear in their responses are the same.
        """
        assert self.complete
        shares, numbers = [], []
        for chunk in self.chunks(self.width + 1, torch.float32):
            number_right = chunk.correct.sum(dim=1, dtype=torch.int64)[:, :, None]
            of_number = chunk.correct.new_zeros(*chunk.respondents.shape, self.width + 1)
            of_number.scatter_(2, number_right, chunk.respondents[:, :, None])
            number = of_number.sum(dim=1).to(torch.float64)
            right = torch.bmm(chunk.correct, of_number).to(torch.float64)
            shares.append(right / number.clamp(min=1)[:, None])
            numbers.append(number)
        parts = torch.cat(shares), self.n_correct, self.n_observed, torch.cat(numbers), self.items
        return Stack(*parts, complete=True, scratch=self.scratch)

    def of_scales(self, which: Tensor) -> Stack:
        """Some of the scales."""
        parts = self.values, self.n_correct, self.n_observed, self.respondents, self.items
        return Stack(*(part[which] for part in parts), complete=self.complete, scratch=self.scratch)

    def chunks(self, n_nodes: int, dtype: torch.dtype) -> Iterator[Chunk]:
        """All scales, so many at a time that matrices of respondents x nodes stay where they are quickly found.

        Each is written over by the next.
        """
        _, width, n_respondents = self.values.shape
        most = max(1, CHUNK_BYTES[self.values.device.type] // (dtype.itemsize * n_respondents * max(width, n_nodes)))
        like = self.values.new_empty(0, dtype=dtype)
        for first in range(0, len(self), most):
            some = slice(first, first + most)
            values = self.values[some]
            correct = self.scratch.matrix("correct", len(values) * width, n_respondents, like).view(values.shape)
            correct.copy_(values.clamp(min=0))
            observed = None
            if not self.complete:
                observed = self.scratch.matrix("observed", len(values) * width, n_respondents, like).view(values.shape)
                observed.copy_((values + 1).clamp_(max=1))
            yield Chunk(some, correct, observed, self.respondents[some].to(dtype))


def groups_of(scales: Sequence[ResponseMatrix], n_nodes: int, device: torch.device) -> list[list[int]]:
    """Positions of scales of like sizes, complete ones and others apart, in groups that take their steps together."""
    complete = [scale.is_complete for scale in scales]
    order = sorted(range(len(scales)), key=lambda k: (complete[k], *scales[k].correct.shape))
    groups: list[list[int]] = []
    most_rows = most_items = cells = 0
    for k in order:
        n_rows, n_items = scales[k].correct.shape
        own = n_rows * max(n_items, n_nodes)
        if groups and complete[groups[-1][0]] == complete[k]:
            number, rows, items = len(groups[-1]) + 1, max(most_rows, n_rows), max(most_items, n_items)
            filled = number * rows * max(items, n_nodes)
            if number * items * n_nodes <= GROUP_CELLS[device.type] and filled <= MOST_FILLING * (cells + own):
                groups[-1].append(k)
                most_rows, most_items, cells = rows, items, cells + own
                continue
        groups.append([k])
        most_rows, most_items, cells = n_rows, n_items, own
    return groups
