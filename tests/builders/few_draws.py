"""Posteriors by variational inference at the price of a test."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from irtbench.estimation.variational import importance_weights, item_posterior


@contextmanager
def few_draws(block: int, particles: int = 1, tolerance: float = 0.05, steps: int = 2_000) -> Iterator[None]:
    """Draws in blocks of that size until they are worth half a block, and a guide with few draws at each step."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("BLOCK", block), ("ENOUGH", block / 2), ("FEWEST", block / 8)):
            patch.setattr(importance_weights, name, value)
        patch.setattr(item_posterior.fit_guide, "__defaults__", (particles, tolerance, steps))
        yield
