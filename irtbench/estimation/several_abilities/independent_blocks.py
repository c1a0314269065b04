"""Blocks of items that share no ability: their likelihoods multiply, so that each is a model of its own.

Abilities are independent of each other. Where a pattern of zero slopes divides items and abilities into blocks without
a slope between them, the integral over all abilities is the product of integrals over those of each block, of as many
dimensions as the block has abilities (one, with simple structure).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components


@dataclass(frozen=True, eq=False)
class Block:
    """Items and abilities with slopes among themselves alone.

    Parameters
    ----------
    items, factors
        Their positions.
    zero_loadings
        Where slopes are zero, shape (len(items), len(factors)); None if nowhere.
    """

    items: NDArray[np.intp]
    factors: NDArray[np.intp]
    zero_loadings: NDArray[np.bool_] | None


def independent_blocks(n_items: int, n_factors: int, zero_loadings: NDArray[np.bool_] | None) -> list[Block]:
    """The smallest such blocks, in the order of their first ability.

    Examples
    --------
    >>> [block.items.tolist() for block in independent_blocks(3, 2, np.array([[0, 1], [1, 0], [0, 1]], dtype=bool))]
    [[0, 2], [1]]
    """
    if zero_loadings is None:
        return [Block(np.arange(n_items), np.arange(n_factors), None)]
    links = sparse.csr_matrix(~zero_loadings)
    _, label = connected_components(sparse.bmat([[None, links], [links.T, None]]), directed=False)
    of_item, of_factor = label[:n_items], label[n_items:]
    blocks = []
    for one in dict.fromkeys(of_factor.tolist()):
        items, factors = np.flatnonzero(of_item == one), np.flatnonzero(of_factor == one)
        zeros = zero_loadings[np.ix_(items, factors)]
        blocks.append(Block(items, factors, zeros if zeros.any() else None))
    return blocks
