"""The graded response model: P(at least k) = 1 / (1 + exp(-(a theta + d_k))) (Samejima, 1969)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from irtbench.data.input_error import InputError
from irtbench.models.item_models.item_model import (
    Maths,
    Parameters,
    SteppedModel,
    along_abilities,
    by_ability,
    slopes,
    steps_of_shares,
)


class Graded(SteppedModel):
    """Slope a, d_1, and the logarithms of d_1 - d_2, d_2 - d_3, ..., so that intercepts fall whatever step is taken."""

    name = "grm"

    def parameters(self, n_categories: int, n_abilities: int) -> Parameters:
        """``a, d1, d2, ...``."""
        later: Parameters = tuple((f"d{k}", "gap") for k in range(2, n_categories))
        return (*slopes(n_abilities), ("d1", "intercept"), *later)

    def log_probabilities(self, x: Any, theta: Any, maths: Maths) -> Any:
        """log(s(z_k) - s(z_k+1)) = log s(z_k) + log s(-z_k+1) + log(1 - exp(z_k+1 - z_k)), without underflow."""
        return of_shares(*shares_above(x, theta, maths), maths)

    def derivatives(self, x: Any, theta: Any, maths: Maths) -> tuple[Any, Any, Any]:
        """Of log P_k by z_k, s(z_k) s(-z_k) / P_k, and by z_k+1; a distance of intercepts lowers all z behind it."""
        above, below, gaps = shares_above(x, theta, maths)
        log_p = of_shares(above, below, gaps, maths)
        log_rate, none = above + below, 0 * above[..., :1, :]
        by_lower = maths.join([-maths.exp(log_rate - log_p[..., :-1, :]), none])
        by_z = maths.join([none, maths.exp(log_rate - log_p[..., 1:, :])]) + by_lower
        by_d = [by_z]
        for i in range(gaps.shape[-2]):
            later = maths.join([0 * by_z[..., : i + 1, :], by_lower[..., i + 1 : i + 2, :], by_z[..., i + 2 :, :]])
            by_d.append(-gaps[..., i : i + 1, :] * later)
        return log_p, *along_abilities(by_z, by_d, x, theta, maths)

    def start(self, shares: NDArray[np.float64], slope: float) -> NDArray[np.float64]:
        """Intercepts of these shares."""
        d = steps_of_shares(shares, slope)
        return np.array([slope, d[0], *np.log(np.maximum(-np.diff(d), 0.05))])

    def natural(self, x: Any, n_abilities: int, maths: Maths) -> Any:
        """``a, d1, d2, ...``: intercepts, not the logarithms of their distances."""
        return maths.join([x[..., :n_abilities, :], falling(x[..., n_abilities:, :], maths)])

    def unbounded(self, natural: NDArray[np.float64]) -> NDArray[np.float64]:
        """``a, d1`` and the logarithms of the distances; intercepts that do not fall are an `InputError`."""
        gaps = -np.diff(natural[1:])
        if (gaps <= 0).any():
            raise InputError("steps of a graded item must rise")
        return np.array([*natural[:2], *np.log(gaps)])

    def steps(self, natural: NDArray[np.float64]) -> NDArray[np.float64]:
        """d_k."""
        return natural[1:]

    def intercepts(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same."""
        return steps


def falling(rest: Any, maths: Maths) -> Any:
    """d_1, d_2, ... of d_1 and the logarithms of their distances."""
    return maths.cumulative(maths.join([rest[..., :1, :], -maths.exp(rest[..., 1:, :])]))


def shares_above(x: Any, theta: Any, maths: Maths) -> tuple[Any, Any, Any]:
    """Log P(at least k), log P(less than k), and the distances of intercepts."""
    z, rest = by_ability(x, theta)
    gaps = maths.exp(rest[..., 1:, :])
    z = z + maths.cumulative(maths.join([rest[..., :1, :], -gaps]))
    above = maths.log_sigmoid(z)
    return above, above - z, gaps


def of_shares(above: Any, below: Any, gaps: Any, maths: Maths) -> Any:
    """The log-probability of each category."""
    between = above[..., :-1, :] + below[..., 1:, :] + maths.log1p(-maths.exp(-gaps))
    return maths.join([below[..., :1, :], between, above[..., -1:, :]])
