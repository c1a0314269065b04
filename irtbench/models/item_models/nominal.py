"""The nominal model: P(k) proportional to exp(a_k theta + d_k), a_0 = d_0 = 0 (Bock, 1972)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from irtbench.models.item_models.item_model import ItemModel, Maths, Parameters, mirt_scored


class Nominal(ItemModel):
    """A slope and an intercept of every category but the first: categories have no order. Of one ability."""

    name = "nominal"

    def parameters(self, n_categories: int, n_abilities: int) -> Parameters:
        """``a1, a2, ..., d1, d2, ...``."""
        own_slopes: Parameters = tuple((f"a{k}", "slope") for k in range(1, n_categories))
        intercepts: Parameters = tuple((f"d{k}", "intercept") for k in range(1, n_categories))
        return (*own_slopes, *intercepts)

    def log_probabilities(self, x: Any, theta: Any, maths: Maths) -> Any:
        """Of the categories 0, 1, ..."""
        n = x.shape[-2] // 2
        z = x[..., :n, :] * theta[0] + x[..., n:, :]
        z = maths.join([0 * z[..., :1, :], z])
        return z - maths.log_sum(z)

    def start(self, shares: NDArray[np.float64], slope: float) -> NDArray[np.float64]:
        """Categories in their order."""
        shares = np.maximum(shares, 0.001)
        n = len(shares)
        return np.array([*(2 * slope / n * np.arange(1, n)), *np.log(shares[1:] / shares[0])])

    def moved(self, told: NDArray[np.float64], slope: float, intercept: float) -> NDArray[np.float64]:
        """Each a_k / slope, d_k - a_k intercept / slope."""
        a, d = np.split(told, 2)
        return np.concatenate([a / slope, d - a * intercept / slope])

    def mirt_columns(self, told: NDArray[np.float64], n_categories: int) -> dict[str, float]:
        """Scores from 0 to the number of the last category."""
        n = n_categories - 1
        slope = float(told[n - 1]) / n
        return mirt_scored(slope, np.array([0.0, *told[:n] / slope]), told[n:])
