"""Draws from rows of probabilities, one distribution a row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from irtbench.data.input_error import InputError


def demand_probabilities(probability: NDArray[np.float64], what: str, *, exact: bool) -> None:
    """Refuse rows that are no distribution: a negative value, or a sum that is not (or, unless exact, is above) 1."""
    total = probability.sum(axis=1)
    wrong = ~((probability >= 0).all(axis=1) & (total <= 1 + 1e-6) & (not exact or total >= 1 - 1e-6))
    if wrong.any():
        first = int(wrong.argmax())
        expected = "of sum 1" if exact else "of sum 1 at most"
        raise InputError(f"{what} {first + 1}: expected probabilities {expected} but they sum to {total[first]:g}")


def draw_positions(probability: NDArray[np.float64], n_samples: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Positions drawn from one distribution, shape (n_samples,)."""
    steps = np.cumsum(probability)
    return np.searchsorted(steps, rng.random(n_samples) * steps[-1], side="right").clip(max=probability.size - 1)
