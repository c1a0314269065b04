"""Quantiles of the items' posteriors: the ends of intervals where these are skewed.

A slope has a long tail to the right, and b = -d / a one away from the middle, so that 1.96 standard deviations on
either side of the mean miss on one side.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

QUANTILES = {"lower": 0.025, "median": 0.5, "upper": 0.975}
PARAMETERS = ("discrimination", "difficulty", "guessing", "upper_asymptote")
LEAST_MASS = 1e-12


def quantile_columns(
    quantiles: NDArray[np.float64], guessing_estimated: NDArray[np.bool_], levels: Sequence[str] = tuple(QUANTILES)
) -> dict[str, NDArray[np.float64]]:
    """Quantiles as columns of items.csv: ``discrimination_lower, ..., difficulty_lower, ..., guessing_upper``.

    Parameters
    ----------
    quantiles
        The 2.5, 50 and 97.5% quantiles of (a, b, c), perhaps of u too, shape (3, n_items, 3 or 4); or ends of
        intervals, shape (2, n_items, 3).
    guessing_estimated
        Where c is estimated, or was to be, shape (n_items,); elsewhere its quantiles are NaN.
    levels
        What the quantiles are called.
    """
    found = {}
    for k, name in enumerate(PARAMETERS[: quantiles.shape[2]]):
        for level, values in zip(levels, quantiles[:, :, k], strict=True):
            found[f"{name}_{level}"] = np.where(guessing_estimated, values, np.nan) if name == "guessing" else values
    return found


def turned(quantiles: Tensor) -> Tensor:
    """The same for theta of the opposite sign: a and b change theirs, and lower and upper end their places."""
    return torch.cat([-quantiles.flip(0)[:, :, :2], quantiles[:, :, 2:]], dim=2)


def weighted_quantiles(values: Tensor, mass: Tensor) -> Tensor:
    """Quantiles of many distributions, each given by weighted points.

    Points are spread as evenly as may be (`normal_points`), so that the distribution function is smooth: half of a
    point's mass is below it, and between points its normal quantile is linear.

    Parameters
    ----------
    values
        Shape (n_items, n_points).
    mass
        Of the points, rows summing to 1, shape (n_items, n_points).

    Returns
    -------
    Tensor
        Shape (n_levels, n_items), a row for each of `QUANTILES`.
    """
    values, order = values.sort(dim=1)
    mass = mass.gather(1, order)
    below = torch.special.ndtri((mass.cumsum(dim=1) - mass / 2).clamp(LEAST_MASS, 1 - LEAST_MASS))
    wanted = torch.special.ndtri(values.new_tensor(list(QUANTILES.values())))
    after = torch.searchsorted(below, wanted.expand(len(values), -1).contiguous()).clamp(1, values.shape[1] - 1)
    (low, high), (first, last) = ((part.gather(1, after - 1), part.gather(1, after)) for part in (values, below))
    share = (wanted - first) / (last - first).clamp(min=LEAST_MASS)
    return (low + share.clamp(0, 1) * (high - low)).T


@cache
def normal_points(n_dimensions: int, n_points: int) -> Tensor:
    """Quasi-random points of a standard normal density (a Sobol sequence), shape (n_points, n_dimensions).

    Parameters
    ----------
    n_points
        A power of two.
    """
    points = torch.quasirandom.SobolEngine(n_dimensions).draw(n_points, dtype=torch.float64)
    return torch.special.ndtri(points + 0.5 / n_points)
