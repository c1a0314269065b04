"""How many threads compute: one where there is little to compute; sums over very many respondents by several.

Threads inside each small matrix product wait for each other thousands of times a pass, which on a busy machine costs
several times what they gain. Threads with respondents of their own wait once, and processes add their sums once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cache, reduce
from typing import TypeVar

import scipy.linalg  # noqa: F401 - so that its library is loaded and found
import torch
from threadpoolctl import ThreadpoolController
from torch import Tensor

from irtbench.models.pyro_model.rows import ResponseRows, SparseRows, StoredRows, Together

FEW_CELLS = 2**26  # respondents x (nodes or items) up to which a second thread gains next to nothing


def threads_for(n_cells: int) -> AbstractContextManager[None]:
    """Compute with one thread of torch and of NumPy's and SciPy's linear algebra where there is little to compute.

    Threads wait for each other by turning in circles: on a busy machine that costs more than they gain. The numbers of
    threads are the process's; they are as before afterwards.

    Parameters
    ----------
    n_cells
        Respondents times nodes or items, whichever are more.
    """
    return nullcontext() if n_cells > FEW_CELLS else one_thread()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread of torch and of linear algebra."""
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    with linear_algebra().limit(limits=1, user_api="blas"):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


@cache
def linear_algebra() -> ThreadpoolController:
    """The libraries of this process whose threads can be limited; finding them takes longer than a small step."""
    return ThreadpoolController()


Part = TypeVar("Part")
Sums = TypeVar("Sums")


def over_spans(rows: ResponseRows, sums: Callable[[ResponseRows], Sums]) -> list[Sums]:
    """What `sums` makes of consecutive respondents, in their order: of all at once, or where they are many, by spans.

    There are as many spans as torch has threads, so that the same machine adds in the same order.
    """
    n_threads = torch.get_num_threads()
    few = len(rows) * rows.n_items <= FEW_CELLS
    if few or n_threads == 1 or isinstance(rows, SparseRows) or rows.device.type != "cpu":
        return [sums(rows)]
    spans: Sequence[ResponseRows] = rows.spans(n_threads)
    return in_threads(sums, spans, n_threads)


def in_threads(made: Callable[[Part], Sums], parts: Sequence[Part], n_threads: int) -> list[Sums]:
    """What is made of each part, in their order, by so many threads of which each computes alone; one is this one."""

    def alone(part: Part) -> Sums:
        torch.set_num_threads(1)  # of this thread
        with torch.no_grad():
            return made(part)

    with one_thread():
        if min(n_threads, len(parts)) < 2:
            return [alone(part) for part in parts]
        with ThreadPoolExecutor(n_threads) as pool:
            return list(pool.map(alone, parts))


def summed(
    rows: ResponseRows,
    what: str,
    at: Sequence[Tensor],
    sums: Callable[[ResponseRows], tuple[Tensor, ...]],
) -> tuple[Tensor, ...]:
    """Sums over all respondents, of whichever process they are.

    Parameters
    ----------
    rows
        The respondents of this process.
    what
        Which sums these are, and of what options.
    at
        All tensors that they depend on besides the responses.
    sums
        Makes them of some respondents; zeros of none.
    """
    together = processes_of(rows)
    if together is None:
        return added(over_spans(rows, sums))
    assert isinstance(rows, StoredRows)
    nothing = replace(rows, last=rows.first, together=None)
    return together.summed(what, at, lambda: added(over_spans(rows, sums)), lambda: sums(nothing))


def total(rows: ResponseRows | None, *sums: Tensor) -> tuple[Tensor, ...]:
    """Sums over all respondents from those over the respondents of this process."""
    together = processes_of(rows)
    return sums if together is None else together.total(*sums)


def least(rows: ResponseRows | None, values: Tensor) -> float:
    """The smallest value of any respondent, from the values of those of this process."""
    own = float(values.min()) if values.numel() else math.inf
    together = processes_of(rows)
    return own if together is None else together.least(own)


def processes_of(rows: ResponseRows | None) -> Together | None:
    """The processes that have the other respondents; None where there are no others."""
    return rows.together if isinstance(rows, StoredRows) else None


def added(parts: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Sums over all from those over spans."""
    return tuple(reduce(torch.add, each) for each in zip(*parts, strict=True))
