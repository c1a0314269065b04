"""Processes of one attempt agree on a name, whatever earlier attempts have left in the store that they share."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.distributed import HashStore  # type: ignore[attr-defined]

from irtbench.estimation.ranks import name_of_attempt


@pytest.mark.parametrize("n", [1, 2, 5])
def test_every_attempt_has_a_name_of_its_own(n: int) -> None:
    store, names = HashStore(), []
    for _ in range(4):
        with ThreadPoolExecutor(n) as pool:
            # the first comes last: the others find what the attempt before has left
            found = list(pool.map(lambda rank: name_of_attempt(store, rank, n), reversed(range(n))))
        assert len(set(found)) == 1
        names.append(found[0])
    assert len(set(names)) == 4
