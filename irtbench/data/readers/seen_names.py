"""Names that have been seen, millions of them: eight bytes each, in sorted runs that are merged as they grow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray


class SeenNames:
    """Names by their hashes of 64 bits."""

    def __init__(self) -> None:
        self._runs: list[NDArray[np.uint64]] = []

    def add(self, names: Sequence[str]) -> str | None:
        """Add names; the first of them that has been seen before, or comes twice among them, None if there is none."""
        hashes = pd.util.hash_array(np.array(names, dtype=object), categorize=False)
        order = np.argsort(hashes, kind="stable")
        new = hashes[order]
        again = np.zeros(len(new), dtype=np.bool_)
        again[1:] = new[1:] == new[:-1]
        for run in self._runs:
            place = np.searchsorted(run, new).clip(max=len(run) - 1)
            again |= run[place] == new
        if again.any():
            return names[int(order[again].min())]
        while self._runs and len(self._runs[-1]) <= len(new):
            new = np.sort(np.concatenate([self._runs.pop(), new]), kind="stable")
        if len(new):
            self._runs.append(new)
        return None
