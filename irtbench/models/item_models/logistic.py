"""The logistic models of right and wrong: P(right) = c + (u - c) / (1 + exp(-(a theta + d)))."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from irtbench.models.item_models.item_model import (
    Maths,
    Parameters,
    SlopeAndShares,
    along_abilities,
    by_ability,
    slopes,
    steps_of_shares,
)

START_GUESSING, START_UPPER = -1.7, 2.9  # logits of .15 and .95


@dataclass(frozen=True)
class Logistic(SlopeAndShares):
    """Slope, intercept, and logits of a lower and of an upper asymptote (Birnbaum, 1968; Barton & Lord, 1981).

    Parameters
    ----------
    lower, upper
        Whether there is such an asymptote.
    """

    lower: bool = False
    upper: bool = False

    @property
    def name(self) -> str:
        """By the number of parameters: ``2pl``, ``3pl``, ..., ``3pl_upper`` with an upper asymptote alone."""
        return f"{2 + self.lower + self.upper}pl" + ("_upper" if self.upper and not self.lower else "")

    def parameters(self, n_categories: int, n_abilities: int) -> Parameters:
        """``a, d`` and, where there are any, ``c`` and ``u``."""
        asymptotes: Parameters = ((("c", "guessing"),) if self.lower else ()) + (
            (("u", "upper"),) if self.upper else ()
        )
        return (*slopes(n_abilities), ("d", "intercept"), *asymptotes)

    def log_probabilities(self, x: Any, theta: Any, maths: Maths) -> Any:
        """log(1 - P) and log P, of P = c + (u - c) s and 1 - P = (1 - u) + (u - c) (1 - s), without underflow."""
        z, rest = by_ability(x, theta)
        z = z + rest[..., :1, :]
        right, wrong = maths.log_sigmoid(z), maths.log_sigmoid(-z)
        log_c, logit_u = rest[..., 1:2, :], rest[..., -1:, :]
        if self.lower:
            log_slip, log_c = maths.log_sigmoid(-log_c), maths.log_sigmoid(log_c)
        if self.upper:
            height = maths.log_sigmoid(logit_u)
            if self.lower:
                height = height + maths.log1p(-maths.exp(log_c - height))
            wrong = log_of_sum(maths.log_sigmoid(-logit_u), height + wrong, maths)
            right = height + right
        elif self.lower:
            right, wrong = log_slip + right, log_slip + wrong
        return maths.join([wrong, log_of_sum(log_c, right, maths) if self.lower else right])

    def derivatives(self, x: Any, theta: Any, maths: Maths) -> tuple[Any, Any, Any]:
        """Of P by z, logit c and logit u, over P and over P - 1: those of log P and log(1 - P)."""
        z, rest = by_ability(x, theta)
        log_s, log_t = maths.log_sigmoid(z + rest[..., :1, :]), maths.log_sigmoid(-z - rest[..., :1, :])
        asymptotes = self.lower or self.upper
        log_p = self.log_probabilities(x, theta, maths) if asymptotes else maths.join([log_t, log_s])
        log_c, log_u = maths.log_sigmoid(rest[..., 1:2, :]), maths.log_sigmoid(rest[..., -1:, :])
        height = log_u if self.upper else 0 * z
        if self.lower:
            height = height + maths.log1p(-maths.exp(log_c - height))
        log_z = height + log_s + log_t
        logs = [log_z]
        if self.lower:
            logs.append(log_c + maths.log_sigmoid(-rest[..., 1:2, :]) + log_t)
        if self.upper:
            logs.append(log_u + maths.log_sigmoid(-rest[..., -1:, :]) + log_s)
        by_z, *by_asymptotes = (
            maths.join([-maths.exp(log - log_p[..., :1, :]), maths.exp(log - log_p[..., 1:, :])]) for log in logs
        )
        return log_p, *along_abilities(by_z, [by_z, *by_asymptotes], x, theta, maths)

    def start(self, shares: NDArray[np.float64], slope: float) -> NDArray[np.float64]:
        """Asymptotes of .15 and .95, and an intercept that leaves its share of right responses above the lower one."""
        right = float(shares[1])
        if self.lower:
            right = float(np.clip((right - 0.15) / 0.85, 0.05, 0.999))
        d = steps_of_shares(np.array([1 - right, right]), slope)
        return np.array([slope, *d, *([START_GUESSING] if self.lower else []), *([START_UPPER] if self.upper else [])])

    @property
    def shares(self) -> tuple[str, ...]:
        """The asymptotes in the words of items.csv."""
        return (("guessing",) if self.lower else ()) + (("upper_asymptote",) if self.upper else ())


def log_of_sum(x: Any, y: Any, maths: Maths) -> Any:
    """log(exp(x) + exp(y)), of x that broadcasts against y."""
    return maths.log_sum(maths.join([x + 0 * y, y]))
