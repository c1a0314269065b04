"""Categories of P(k) proportional to exp(z_k): generalised partial credit (Muraki, 1992) and nominal (Bock, 1972)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from irtbench.models.item_models.item_model import (
    ItemModel,
    Maths,
    Parameters,
    SteppedModel,
    along_abilities,
    by_ability,
    mirt_scored,
    slopes,
)


class PartialCredit(SteppedModel):
    """P(k) ~ exp(k a theta + d_k), d_0 = 0: slope a and d_1, d_2, ...; steps b_k = -(d_k - d_k-1) / a need not rise."""

    name = "gpcm"

    def parameters(self, n_categories: int, n_abilities: int) -> Parameters:
        """``a, d1, d2, ...``."""
        intercepts: Parameters = tuple((f"d{k}", "intercept") for k in range(1, n_categories))
        return (*slopes(n_abilities), *intercepts)

    def log_probabilities(self, x: Any, theta: Any, maths: Maths) -> Any:
        """Of the categories 0, 1, ..."""
        z, d = by_ability(x, theta)
        each = [0 * z, *((k + 1) * z + d[..., k : k + 1, :] for k in range(d.shape[-2]))]
        joined = maths.join(each)
        return joined - maths.log_sum(joined)

    def derivatives(self, x: Any, theta: Any, maths: Maths) -> tuple[Any, Any, Any]:
        """Of log P_k by a theta, k less its mean, and by each d_m, [k = m] - P_m."""
        log_p = self.log_probabilities(x, theta, maths)
        p, n = maths.exp(log_p), log_p.shape[-2]
        mean = sum(k * p[..., k : k + 1, :] for k in range(1, n))
        by_z = maths.join([k - mean for k in range(n)])
        by_d = [maths.join([float(k == m) - p[..., m : m + 1, :] for k in range(n)]) for m in range(1, n)]
        return log_p, *along_abilities(by_z, by_d, x, theta, maths)

    def start(self, shares: NDArray[np.float64], slope: float) -> NDArray[np.float64]:
        """Intercepts of these shares."""
        shares = np.maximum(shares, 0.001)
        return np.array([2 * slope / len(shares), *np.log(shares[1:] / shares[0])])

    def mirt_columns(self, natural: NDArray[np.float64], n_categories: int) -> dict[str, float]:
        """Scores 0, 1, ..."""
        return mirt_scored(float(natural[0]), np.arange(float(n_categories)), natural[1:])

    def steps(self, natural: NDArray[np.float64]) -> NDArray[np.float64]:
        """d_k - d_k-1."""
        return np.diff(natural[1:], prepend=0.0)

    def intercepts(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Their sums."""
        return np.cumsum(steps)


class Nominal(ItemModel):
    """P(k) ~ exp(a_k theta + d_k), a_0 = d_0 = 0: categories have no order. Of one ability."""

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

    def moved(self, natural: NDArray[np.float64], slope: float, intercept: float) -> NDArray[np.float64]:
        """Each a_k / slope, d_k - a_k intercept / slope."""
        a, d = np.split(natural, 2)
        return np.concatenate([a / slope, d - a * intercept / slope])

    def mirt_columns(self, natural: NDArray[np.float64], n_categories: int) -> dict[str, float]:
        """Scores from 0 to the number of the last category."""
        n = n_categories - 1
        slope = float(natural[n - 1]) / n
        return mirt_scored(slope, np.array([0.0, *natural[:n] / slope]), natural[n:])
