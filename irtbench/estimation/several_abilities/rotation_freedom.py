"""Rotations of the axes that a pattern of zero slopes leaves free, and slopes turned to principal axes.

Independent standard normal abilities stay what they are when their axes turn. A turn by a small angle adds a K to the
slopes, K antisymmetric; it is free where a K is zero wherever slopes are. An exploratory model leaves all F (F - 1) / 2
of them free, so that its likelihood has no single maximum but a surface of them.

Abilities are independent of each other. Where a pattern of zero slopes divides items and abilities into blocks without
a slope between them, the integral over all abilities is the product of integrals over those of each block, of as many
dimensions as the block has abilities (one, with simple structure).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.data.links import linked

NO_TURN = 1e-9  # relative size below which a turn leaves every slope as it is


def turns(slope: Tensor, free: Tensor) -> Tensor:
    """Directions in which slopes move when axes turn as far as the pattern lets them.

    Parameters
    ----------
    slope
        Shape (n_items, n_factors).
    free
        Where slopes are estimated, of the same shape.

    Returns
    -------
    Tensor
        Orthonormal, shape (n_turns, n_items, n_factors).
    """
    every = in_planes(slope, -1.0).flatten(1)
    size = float(every.norm())
    left, sizes, _ = torch.linalg.svd(every[:, ~free.flatten()], full_matrices=True)
    every = left[:, int((sizes > NO_TURN * size).sum()) :].T @ every
    _, sizes, right = torch.linalg.svd(every, full_matrices=False)
    return right[sizes > NO_TURN * size].reshape(-1, *slope.shape)


def in_planes(slope: Tensor, sign: float) -> Tensor:
    """The slopes on each two axes k < m exchanged, those on k times a sign, shape (n_planes, n_items, n_factors)."""
    planes = list(itertools.combinations(range(slope.shape[1]), 2))
    found = slope.new_zeros(len(planes), *slope.shape)
    for each, (k, m) in zip(found, planes, strict=True):
        each[:, k], each[:, m] = sign * slope[:, m], slope[:, k]
    return found


def number_of_turns(free: NDArray[np.bool_]) -> int:
    """How many rotations a pattern leaves free, whatever the slopes."""
    any_slopes = np.where(free, np.random.default_rng(0).normal(size=free.shape), 0.0)
    return len(turns(torch.from_numpy(any_slopes), torch.from_numpy(free)))


def principal_axes(slopes: Tensor) -> Tensor:
    """Slopes turned so that the first axis carries most of their sum of squares, the next most of the rest."""
    return slopes @ torch.linalg.svd(slopes, full_matrices=False).Vh.T


def with_positive_sums(slopes: Tensor) -> Tensor:
    """The slopes with each column's sign such that its sum is positive."""
    return torch.where(slopes.sum(dim=0) < 0, -slopes, slopes)


def towards_pattern(loadings: Tensor, free: Tensor, *, seed: int = 0, n_starts: int = 10) -> Tensor:
    """Turn loadings so that those to be zero are small (target rotation), from several starts; the best of them.

    Alternates between the target, the turned loadings with zeros in their places, and the orthogonal rotation nearest
    to it; each lowers the sum of squares where there should be zeros.
    """
    generator = torch.Generator().manual_seed(seed)
    n_factors = loadings.shape[1]
    best, best_left = loadings, float("inf")
    for number in range(n_starts):
        rotation = torch.eye(n_factors, dtype=loadings.dtype, device=loadings.device)
        if number:
            random = torch.randn(n_factors, n_factors, generator=generator, dtype=loadings.dtype)
            rotation = torch.linalg.qr(random).Q.to(loadings.device)  # the same on any device
        for _ in range(50):
            target = torch.where(free, loadings @ rotation, 0.0)
            left, _, right = torch.linalg.svd(loadings.T @ target)
            rotation = left @ right
        turned = loadings @ rotation
        left_over = float(turned[~free].square().sum())
        if left_over < best_left - 1e-12:
            best, best_left = turned, left_over
    return best


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
    of_factor = linked(np.arange(n_factors), *np.nonzero(~zero_loadings))
    of_item = of_factor[zero_loadings.argmin(axis=1)]
    blocks = []
    for one in dict.fromkeys(of_factor.tolist()):
        items, factors = np.flatnonzero(of_item == one), np.flatnonzero(of_factor == one)
        zeros = zero_loadings[np.ix_(items, factors)]
        blocks.append(Block(items, factors, zeros if zeros.any() else None))
    return blocks
