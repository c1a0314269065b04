"""Names that come twice are found, whichever part they are in."""

from pathlib import Path

import numpy as np
import pytest

from irtbench.data.readers import seen_names
from irtbench.data.readers.seen_names import SeenNames


def test_the_first_name_that_has_been_seen_is_told() -> None:
    seen = SeenNames()
    assert seen.add(()) is None
    assert seen.add(("a", "b", "c")) is None
    assert seen.add(("d", "c", "a")) == "c"
    assert SeenNames().add(("x", "y", "x", "y")) == "x"


def test_names_that_are_many_are_on_disk_and_told_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_names, "MOST", 100)
    monkeypatch.setattr(seen_names, "BUCKETS", 4)
    for repeated in (None, "n3"):
        with SeenNames(tmp_path) as seen:
            for first in range(0, 1_000, 30):
                assert seen.add([f"n{k}" for k in range(first, first + 30)]) is None
                assert sum(map(len, seen._runs)) <= 100
            if repeated is not None:
                assert seen.add([repeated]) is None
            assert seen.twice() == (None if repeated is None else seen.hashes_of([repeated])[0])
        assert list(tmp_path.iterdir()) == []  # the files have no names
    assert SeenNames(tmp_path).twice() is None


def test_as_a_set_would_tell() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        seen, known = SeenNames(), set()
        while True:
            names = tuple(f"n{k}" for k in rng.integers(0, 30_000, size=rng.integers(1, 60)))
            twice = next((name for k, name in enumerate(names) if name in known or name in names[:k]), None)
            assert seen.add(names) == twice
            if twice is not None:
                break
            known |= set(names)
