"""What a chain of common neighbours ties together: items by their respondents, raters by the items that they share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def linked(block: NDArray[np.int64], rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first column of each column's block, where each row ties its columns, and their blocks so far, together.

    Examples
    --------
    >>> import numpy as np
    >>> linked(np.arange(5), rows=np.array([0, 0, 1, 1]), columns=np.array([0, 2, 2, 4]))
    array([0, 1, 0, 3, 0])
    """
    n_rows = int(rows.max(initial=-1)) + 1
    while True:
        first, tied = np.full(n_rows, len(block)), block.copy()
        np.minimum.at(first, rows, block[columns])
        np.minimum.at(tied, columns, first[rows])
        moved = block.copy()
        np.minimum.at(moved, block, tied)
        moved = moved[block]
        moved = moved[moved]
        if np.array_equal(moved, block):
            return block
        block = moved
