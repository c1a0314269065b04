"""Some respondents drawn at random in place of all, where all are more than a step needs, or than memory holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_RESPONDENTS = 20_000  # of a table too large for memory, unless said otherwise


@dataclass(frozen=True)
class Sampled:
    """Of how many respondents a sample was drawn.

    Parameters
    ----------
    n, of
        Respondents drawn, and of how many.
    seed
        Of the random numbers.
    """

    n: int
    of: int
    seed: int

    def __str__(self) -> str:
        return f"{self.n} respondents, drawn at random of {self.of} (seed {self.seed})"

    @property
    def is_all(self) -> bool:
        """Whether nobody is left out."""
        return self.n == self.of

    @property
    def stated(self) -> dict[str, int]:
        """What files of results say of it; nothing where nobody is left out."""
        return {} if self.is_all else {"sampled_from": self.of, "sample_seed": self.seed}


def draw_respondents(of: int, most: int, seed: int) -> tuple[Sampled, NDArray[np.intp]]:
    """At most so many respondents, all alike likely, and their places in ascending order."""
    if of <= most:
        return Sampled(of, of, seed), np.arange(of)
    places = np.sort(np.random.default_rng(seed).choice(of, most, replace=False, shuffle=False))
    return Sampled(most, of, seed), places
