"""k right of n trials that scatter more than binomial: the beta-binomial distribution around a 2PL."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from irtbench.models.item_models.item_model import (
    Maths,
    Parameters,
    SlopeAndShares,
    by_ability,
    slopes,
    steps_of_shares,
)

START = -2.0  # of the logarithm of the dispersion's odds


@dataclass(frozen=True)
class BetaBinomial(SlopeAndShares):
    """Slope, intercept, and the dispersion rho on the scale of the logarithm of its odds g = rho / (1 - rho).

    P(k) = (n over k) prod_{i<k} (P + i g) prod_{i<n-k} (1 - P + i g) / prod_{i<n} (1 + i g), of mean n P and variance
    n P (1 - P) (1 + (n - 1) rho): binomial where rho is 0. The categories are k = 0, 1, ..., n.

    Parameters
    ----------
    n
        Number of trials.
    """

    n: int
    name = "beta_binomial"
    shares = ("dispersion",)

    def parameters(self, n_categories: int, n_abilities: int) -> Parameters:
        """``a, d, rho``."""
        return (*slopes(n_abilities), ("d", "intercept"), ("rho", "dispersion"))

    def log_probabilities(self, x: Any, theta: Any, maths: Maths) -> Any:
        """Of k = 0, 1, ..., n: sums of logarithms of P + i g, 1 - P + i g and 1 + i g."""
        z, rest = by_ability(x, theta)
        z, g = z + rest[..., :1, :], rest[..., 1:2, :]
        by_trial = [math.log(i) + g + 0 * z for i in range(1, self.n)]
        right, wrong = (
            [log_p, *(maths.log_sum(maths.join([log_p, each])) for each in by_trial)]
            for log_p in (maths.log_sigmoid(z), maths.log_sigmoid(-z))
        )
        so_far = [maths.join([0 * z, maths.cumulative(maths.join(terms))]) for terms in (right, wrong)]
        scale = sum((-maths.log_sigmoid(-each) for each in by_trial), 0 * z)
        ways = [math.log(math.comb(self.n, k)) + 0 * z for k in range(self.n + 1)]
        missed = [so_far[1][..., self.n - k : self.n - k + 1, :] for k in range(self.n + 1)]
        return maths.join(ways) + so_far[0] + maths.join(missed) - scale

    def start(self, shares: NDArray[np.float64], slope: float) -> NDArray[np.float64]:
        """Intercept of the mean share right."""
        right = float(shares @ np.arange(self.n + 1)) / self.n
        return np.array([max(slope, 0.3), *steps_of_shares(np.array([1 - right, right]), slope), START])
