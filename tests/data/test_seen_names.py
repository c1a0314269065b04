"""Names that come twice are found among any number of them, in memory and on disk; those of one hash are compared."""

import numpy as np
import pytest

from irtbench.data.readers import row_order
from irtbench.data.readers.row_order import SeenNames


@pytest.mark.parametrize("most", [1000, 7])
def test_a_name_that_comes_twice(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_order, "MOST", most)
    monkeypatch.setattr(row_order, "ROWS_READ", 5)
    names = [f"r{k}" for k in np.random.default_rng(1).permutation(60)]
    with SeenNames() as seen:
        for first in range(0, 60, 9):
            seen.add(names[first : first + 9])
        assert seen.repeated([names]) is None
    with SeenNames() as seen:
        seen.add(names)
        seen.add(["r7", "other"])
        assert seen.alike().size == 1
        assert seen.repeated([names, ["r7", "other"]]) == "r7"


def test_names_of_one_hash_are_compared_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_order, "hashes_of", lambda names: np.ones(len(names), dtype=np.uint64))
    with SeenNames() as seen:
        seen.add(["a", "b", "c"])
        assert seen.repeated([["a", "b", "c"]]) is None
        seen.add(["b"])
        assert seen.repeated([["a", "b", "c"], ["b"]]) == "b"


def test_none_at_all() -> None:
    with SeenNames() as seen:
        assert seen.repeated([]) is None
