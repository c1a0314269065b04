"""How long a task a system completes with a given probability: difficulty as time that people need (NumPy only).

    b_j = g_0 + g_1 log t_j + e_j,  e_j ~ N(0, s^2),  log a_j ~ N(m, u^2):    P(t) = E[1 / (1 + exp(-a (D - e)))]

with D = theta - g_0 - g_1 log t, and the mean over e and a: a task that is not known may have any. P falls with t and
is p where D = k_p(s, m, u), so that the horizon is log t = (theta - g_0 - k_p) / g_1, a ratio of estimates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from irtbench.data.shown import Drawn, counted
from irtbench.models.theta_posterior import STANDARD_NORMAL

Array = NDArray[np.float64]

TIMES = {"seconds": 1, "minutes": 60, "hours": 3600}


@dataclass(frozen=True, eq=False)
class TimeHorizon(Drawn):
    """The length of tasks at which each system succeeds a given share of the time.

    Parameters
    ----------
    respondent_ids
        The systems that have any response.
    shares
        Of tasks solved, for each of which there is a horizon.
    horizon, lower, upper
        In the unit of the lengths, with intervals, shape (n_respondents, n_shares); NaN where longer tasks are not
        harder, and ends of 0 and infinity where the data set none.
    flags
        Words parted by semicolons, shape (n_respondents, n_shares): ``beyond_longest`` and ``below_shortest``, where
        the horizon is not among the lengths of the tasks and is extrapolated; ``all_correct``, ``all_wrong``;
        ``no_slope``, where longer tasks are not harder, or not clearly so.
    effect, se_effect
        How much harder a task e times as long is: g_1.
    residual_sd
        Standard deviation s of the difficulty of tasks of the same length.
    shortest, longest
        Of the tasks.
    unit
        Of the lengths.
    converged
        Whether the fit came to an end.
    level
        Nominal coverage of the intervals.
    """

    respondent_ids: tuple[str, ...]
    shares: tuple[float, ...]
    horizon: Array
    lower: Array
    upper: Array
    flags: NDArray[np.object_]
    effect: float
    se_effect: float
    residual_sd: float
    shortest: float
    longest: float
    unit: str
    converged: bool
    level: float

    def table(self) -> pd.DataFrame:
        """One row a system and share: columns of horizon.csv."""
        n = len(self.shares)
        return pd.DataFrame(
            {
                "respondent_id": np.repeat(np.array(self.respondent_ids, dtype=object), n),
                "share": np.tile(self.shares, len(self.respondent_ids)),
                "horizon": self.horizon.ravel(),
                "lower": self.lower.ravel(),
                "upper": self.upper.ravel(),
                "flags": self.flags.ravel(),
            }
        )

    def in_short(self) -> str:
        """How many systems, the span of their horizons at the first share, and the regression behind them."""
        known = self.horizon[np.isfinite(self.horizon[:, 0]), 0]
        span = (
            " to ".join(in_words(end, self.unit) for end in (known.min(), known.max())) if known.size else "not known"
        )
        return (
            f"{counted(len(self.respondent_ids), 'system')}, {self.shares[0]:.0%} horizons {span}, "
            f"effect of log length {self.effect:.2f}, residual {self.residual_sd:.2f}"
        )


def in_words(length: float, unit: str) -> str:
    """A length in its unit; where that is one of time, in the one that suits."""
    if unit not in TIMES or not 0 < length < np.inf:
        return f"{length:.3g} {unit}"
    seconds = length * TIMES[unit]
    name = [word for word, size in TIMES.items() if seconds >= 2 * size or size == 1][-1]
    return f"{seconds / TIMES[name]:.3g} {name}"


def point_of(share: float, residual: float, slope: tuple[float, float]) -> float:
    """k_p: how far above the difficulty that its length says ability must lie for this share of tasks to be solved."""
    nodes, weights = STANDARD_NORMAL.nodes, STANDARD_NORMAL.weights
    steep, away = np.exp(slope[0] + slope[1] * nodes)[:, None], residual * nodes
    reach = 10 * residual + 2
    while weights @ expit(-steep * (reach + away)) @ weights > min(share, 1 - share):
        reach *= 2
    return float(brentq(lambda d: float(weights @ expit(steep * (d - away)) @ weights) - share, -reach, reach))


def ratios(above: Array, effect: float, covariance: Array, further: Array, reach: float) -> tuple[Array, Array, Array]:
    """The x with above = effect x, and the nearest on either side that the data refute, as Fieller has them.

    ``further`` is how much more and how much less may have to be taken off what is above.
    """
    best = above / effect if effect > 0 else np.full_like(above, np.nan)
    ends = []
    for side, more in zip((-1, 1), further, strict=True):
        # roots of (above - effect x)^2 = reach^2 var(above - effect x) + more^2
        square = effect**2 - reach**2 * covariance[-1, -1]
        middle = above * effect - reach**2 * covariance[:-1, -1]
        level = above**2 - reach**2 * np.diagonal(covariance)[:-1] - more**2
        with np.errstate(invalid="ignore"):
            roots = (middle + np.multiply.outer([-1.0, 1.0], np.sqrt(middle**2 - square * level))) / square
        beyond = np.where((roots - best) * side > 0, roots, side * np.inf)
        ends.append(side * (side * beyond).min(axis=0))
    return best, ends[0], ends[1]
