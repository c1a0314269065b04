"""One thread where there is little to compute, and as many as before afterwards."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from builders.simulated import drawn
from irtbench.estimation import fit
from irtbench.estimation.fit import fit_model
from irtbench.estimation.threads import FEW_CELLS, threads_for


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with threadpool_limits(limits=2, user_api="blas"):
        yield
    torch.set_num_threads(before)


def blas_threads() -> set[int]:
    np.ones((2, 2)) @ np.ones((2, 2))
    found = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
    assert found
    return found


@pytest.mark.usefixtures("two_threads")
def test_little_is_computed_by_one_thread_of_torch_and_of_numpy() -> None:
    assert blas_threads() == {2}
    with threads_for(FEW_CELLS):
        assert (torch.get_num_threads(), blas_threads()) == (1, {1})
        with threads_for(1):
            assert (torch.get_num_threads(), blas_threads()) == (1, {1})
        assert (torch.get_num_threads(), blas_threads()) == (1, {1})
    assert (torch.get_num_threads(), blas_threads()) == (2, {2})
    with threads_for(FEW_CELLS + 1):
        assert (torch.get_num_threads(), blas_threads()) == (2, {2})


@pytest.mark.usefixtures("two_threads")
def test_a_fit_limits_both_and_gives_them_back_even_if_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[tuple[int, set[int]]] = []

    def broken(*arguments: object) -> None:
        inside.append((torch.get_num_threads(), blas_threads()))
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(fit, "estimate", broken)
    with pytest.raises(RuntimeError, match="broken on purpose"):
        fit_model(drawn(50, 4))
    assert inside == [(1, {1})]
    assert (torch.get_num_threads(), blas_threads()) == (2, {2})
