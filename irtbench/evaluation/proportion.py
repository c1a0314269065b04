"""The interval of a proportion (NumPy and SciPy's special functions only)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from irtbench.data.input_error import demand_share


def check_level(level: float, *, where: str) -> float:
    """Return the standard normal quantile that leaves (1 - level) / 2 above it."""
    demand_share(f"{where}: level", level)
    return float(ndtri((1 + level) / 2))


def wilson_interval(
    n_successes: ArrayLike, n: ArrayLike, *, level: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Wilson's score interval of proportions, of the shape of its arguments; NaN where n is 0.

    (p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)            (Wilson, 1927)

    Unlike p +- z sqrt(p (1 - p) / n) it stays in [0, 1] and has a width at p = 0 and p = 1. It always covers p itself:
    at 0 and n successes it ends there, which rounding must not change, and so lower <= p <= upper holds to the last bit
    for p as n_successes / n gives it.

    Raises
    ------
    InputError
        If ``level`` does not lie between 0 and 1.

    Examples
    --------
    >>> lower, upper = wilson_interval(0, 10)
    >>> print(f"{lower:.4f} {upper:.4f}")
    0.0000 0.2775
    """
    z = check_level(level, where="Wilson interval")
    count, size = np.asarray(n_successes, dtype=np.float64), np.asarray(n, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = count / size
        centre = (p + z**2 / (2 * size)) / (1 + z**2 / size)
        half = z * np.sqrt(p * (1 - p) / size + z**2 / (4 * size**2)) / (1 + z**2 / size)
    return np.minimum(np.clip(centre - half, 0, 1), p), np.maximum(np.clip(centre + half, 0, 1), p)
