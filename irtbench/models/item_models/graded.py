"""The graded response model: P(at least k) = 1 / (1 + exp(-(a theta + d_k))) (Samejima, 1969)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from irtbench.models.item_models.item_model import ItemModel, Maths, Parameters, by_ability, slopes, steps_of_shares


class Graded(ItemModel):
    """Slope a, d_1, and the logarithms of d_1 - d_2, d_2 - d_3, ..., so that intercepts fall whatever step is taken."""

    name: ClassVar[str] = "graded"

    def parameters(self, n_categories: int, n_abilities: int) -> Parameters:
        """``a, d1, d2, ...``."""
        later: Parameters = tuple((f"d{k}", "gap") for k in range(2, n_categories))
        return (*slopes(n_abilities), ("d1", "intercept"), *later)

    def log_probabilities(self, x: Any, theta: Any, maths: Maths) -> Any:
        """log(s(z_k) - s(z_k+1)) = log s(z_k) + log s(-z_k+1) + log(1 - exp(z_k+1 - z_k)), without underflow."""
        z, rest = by_ability(x, theta)
        z = z + falling(rest, maths)
        between = maths.log_sigmoid(z[..., :-1, :]) + maths.log_sigmoid(-z[..., 1:, :])
        between = between + maths.log1p(-maths.exp(-maths.exp(rest[..., 1:, :])))
        return maths.join([maths.log_sigmoid(-z[..., :1, :]), between, maths.log_sigmoid(z[..., -1:, :])])

    def start(self, shares: NDArray[np.float64], slope: float) -> NDArray[np.float64]:
        """Intercepts of these shares."""
        d = steps_of_shares(shares, slope)
        return np.array([slope, d[0], *np.log(np.maximum(-np.diff(d), 0.05))])

    def told(self, x: Any, n_abilities: int, maths: Maths) -> Any:
        """``a, d1, d2, ...``: intercepts, not the logarithms of their distances."""
        return maths.join([x[..., :n_abilities, :], falling(x[..., n_abilities:, :], maths)])


def falling(rest: Any, maths: Maths) -> Any:
    """d_1, d_2, ... of d_1 and the logarithms of their distances."""
    return maths.cumulative(maths.join([rest[..., :1, :], -maths.exp(rest[..., 1:, :])]))
