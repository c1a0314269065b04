"""Names that come twice are found, whichever part they are in."""

import numpy as np

from irtbench.data.readers.seen_names import SeenNames


def test_the_first_name_that_has_been_seen_is_told() -> None:
    seen = SeenNames()
    assert seen.add(()) is None
    assert seen.add(("a", "b", "c")) is None
    assert seen.add(("d", "c", "a")) == "c"
    assert SeenNames().add(("x", "y", "x", "y")) == "x"


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
