"""Sums over very many respondents by several threads, each with respondents of its own.

Threads inside each small matrix product wait for each other thousands of times a pass, which on a busy machine costs
several times what they gain. Threads with respondents of their own wait once.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import TypeVar

import torch
from torch import Tensor

from irtbench.estimation.threads import FEW_CELLS, one_thread
from irtbench.models.pyro_model.rows import ResponseRows, SparseRows

Sums = TypeVar("Sums")


def over_spans(rows: ResponseRows, sums: Callable[[ResponseRows], Sums]) -> list[Sums]:
    """What `sums` makes of consecutive respondents, in their order: of all at once, or where they are many, by spans.

    There are as many spans as torch has threads, so that the same machine adds in the same order.
    """
    n_threads = torch.get_num_threads()
    few = len(rows) * rows.n_items <= FEW_CELLS
    if few or n_threads == 1 or isinstance(rows, SparseRows) or rows.device.type != "cpu":
        return [sums(rows)]

    def alone(span: ResponseRows) -> Sums:
        torch.set_num_threads(1)  # of this thread
        with torch.no_grad():
            return sums(span)

    with one_thread(), ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(alone, rows.spans(n_threads)))


def added(parts: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Sums over all from those over spans."""
    return tuple(reduce(torch.add, each) for each in zip(*parts, strict=True))
