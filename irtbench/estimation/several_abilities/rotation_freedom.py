"""Rotations of the axes that a pattern of zero slopes leaves free, and slopes turned to principal axes.

Independent standard normal abilities stay what they are when their axes turn. A turn by a small angle adds a K to the
slopes, K antisymmetric; it is free where a K is zero wherever slopes are. An exploratory model leaves all F (F - 1) / 2
of them free, so that its likelihood has no single maximum but a surface of them.
"""

from __future__ import annotations

import itertools

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
    n_items, n_factors = slope.shape
    directions = []
    for k, m in itertools.combinations(range(n_factors), 2):
        direction = torch.zeros_like(slope)
        direction[:, k], direction[:, m] = -slope[:, m], slope[:, k]
        directions.append(direction.flatten())
    if not directions:
        return slope.new_zeros(0, n_items, n_factors)
    every = torch.stack(directions)
    outside = every[:, ~free.flatten()]
    size = float(every.norm())
    if outside.shape[1]:
        left, sizes, _ = torch.linalg.svd(outside, full_matrices=True)
        rank = int((sizes > NO_TURN * size).sum())
        every = left[:, rank:].T @ every
    if not len(every):
        return slope.new_zeros(0, n_items, n_factors)
    _, sizes, right = torch.linalg.svd(every, full_matrices=False)
    return right[sizes > NO_TURN * size].reshape(-1, n_items, n_factors)


def number_of_turns(free: NDArray[np.bool_]) -> int:
    """How many rotations a pattern leaves free, whatever the slopes."""
    any_slopes = np.where(free, np.random.default_rng(0).normal(size=free.shape), 0.0)
    return len(turns(torch.from_numpy(any_slopes), torch.from_numpy(free)))


def principal_axes(slopes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Turn slopes so that the first axis carries most of their sum of squares, the next most of the rest."""
    _, _, axes = np.linalg.svd(slopes, full_matrices=False)
    turned = slopes @ axes.T
    return turned * positive_sign(turned)


def positive_sign(slopes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sign of each column that makes its sum positive."""
    return np.where(slopes.sum(axis=0) < 0, -1.0, 1.0)


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
