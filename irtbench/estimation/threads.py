"""How many threads compute: one, where there is little to compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import scipy.linalg  # noqa: F401 - so that its library is loaded and found
import torch
from threadpoolctl import ThreadpoolController

FEW_CELLS = 2**26  # respondents x (nodes or items) up to which a second thread gains next to nothing


@contextmanager
def threads_for(n_cells: int) -> Iterator[None]:
    """Compute with one thread of torch and of NumPy's and SciPy's linear algebra where there is little to compute.

    Threads wait for each other by turning in circles: on a busy machine that costs more than they gain. The numbers of
    threads are the process's; they are as before afterwards.

    Parameters
    ----------
    n_cells
        Respondents times nodes or items, whichever are more.
    """
    if n_cells > FEW_CELLS:
        yield
        return
    with one_thread():
        yield


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
