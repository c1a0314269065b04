"""How long a task a system completes with a given probability: difficulty as time that people need.

    b_j = g_0 + g_1 log t_j + e_j,  e_j ~ N(0, s^2),  log a_j ~ N(m, u^2):    P(t) = E[1 / (1 + exp(-a (D - e)))]

with D = theta - g_0 - g_1 log t, and the mean over e and a: a task that is not known may have any. P falls with t and
is p where D = k_p(s, m, u), so that the horizon is log t = (theta - g_0 - k_p) / g_1, a ratio of estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtri, stdtrit

from irtbench.analysis.explained_responses import (
    ExplanatoryItems,
    Kind,
    fit_explanatory_items,
    with_responses,
    without_prior,
)
from irtbench.analysis.meta_regression import MetaRegression, meta_regression
from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError, demand_share, refuse_any
from irtbench.data.responses import ResponseMatrix, name_first
from irtbench.data.shown import Drawn, counted, crossed
from irtbench.estimation.settings import Device
from irtbench.models.curves import item_curves
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.theta_posterior import STANDARD_NORMAL, ability_posterior

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
        return crossed(
            {"respondent_id": self.respondent_ids, "share": self.shares},
            {"horizon": self.horizon, "lower": self.lower, "upper": self.upper, "flags": self.flags},
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


@np.errstate(invalid="ignore")
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
        roots = (middle + np.multiply.outer([-1.0, 1.0], np.sqrt(middle**2 - square * level))) / square
        beyond = np.where((roots - best) * side > 0, roots, side * np.inf)
        ends.append(side * (side * beyond).min(axis=0))
    return best, ends[0], ends[1]


FEWEST_TASKS = 8
BY_NORMAL = (16 * 3**0.5 / (15 * np.pi)) ** 2  # a logistic curve averaged over a normal error is another, less steep
LEAST_DEVIATION = 1e-4  # of residual and slopes, where their precision is needed


def time_horizon(
    responses: ResponsesLike,
    lengths: Mapping[str, float] | pd.Series,
    *,
    shares: Sequence[float] = (0.5, 0.8),
    unit: str = "minutes",
    model: Kind = "2pl",
    level: float = 0.95,
    device: Device = "auto",
    progress: Callable[[str], None] = lambda message: None,
) -> TimeHorizon:
    """The length of tasks at which each system succeeds half (or 80%) of the time (Kwa et al., 2025).

    Difficulty is regressed on the logarithm of the length, with a residual, as in `explain_responses`, and a task of a
    length is any such task: the probability of success is averaged over the residual and over the slopes of the items.
    At the difficulty that is typical of a length the curve is steeper, and what is solved 80% of the time lies far too
    near what is solved half of the time; see docs/difficulty.md.

    Ability, the effect of length and the residual are estimated from the same responses. Abilities are those of the
    likelihood, no prior drawing them to the middle, under curves averaged over what is not known of each item; errors
    are from the expected information of all abilities, items and the effect of length together, so that zero and unit
    of the scale, which are in all of them, drop out. The interval of log t is that of a ratio (Fieller, 1954), to which
    that of the residual is added in squares (Zou & Donner, 2008): it has no end where the effect of length is not
    clear, or a system solved all or none. Lengths are taken as known; where they are estimates, so is the unit.

    Parameters
    ----------
    responses
        Graded responses of the systems; a task that all or none solved is a task like the others.
    lengths
        Of at least the tasks of the responses, all above 0, by task: the time that a person needs.
    shares
        Of tasks solved, between 0 and 1.
    unit
        Of the lengths, in words.
    model
        ``2pl`` or ``rasch``.
    level
        Nominal coverage of the intervals.
    device
        As in `FitSettings`.
    progress
        Called with a line about each update.

    Raises
    ------
    InputError
        If a length is missing or not above 0, all tasks are equally long, there are fewer than eight, or a share or the
        level does not lie between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import irtbench
    >>> rng = np.random.default_rng(3)
    >>> minutes = np.exp(rng.uniform(0, 6, 60))
    >>> b = 0.6 * (np.log(minutes) - 3) + rng.normal(0, 0.8, 60)
    >>> tasks = irtbench.ItemParameters.from_difficulty(np.full(60, 1.5), b)
    >>> responses = irtbench.simulate_responses(np.linspace(-1.5, 1.5, 12), tasks, rng=rng)
    >>> found = irtbench.analysis.time_horizon(responses, pd.Series(minutes, tasks.item_ids), model="rasch")
    >>> found.table().round({"horizon": -1, "lower": -1, "upper": -1}).drop(columns="flags").tail(2)
       respondent_id  share  horizon  lower  upper
    22           r12    0.5    180.0   80.0  520.0
    23           r12    0.8     40.0   20.0   90.0
    """
    for name, value in [("level", level), *(("share", share) for share in shares)]:
        demand_share(f"time horizon: {name}", value)
    if not len(shares):
        raise InputError("time horizon: no share of successes; expected at least one")
    data = with_responses(responses)
    log_t = log_lengths(lengths, data.item_ids)
    columns = (log_t - log_t.mean())[:, None]
    fit = fit_explanatory_items(data, columns, kind=model, device=device, progress=progress)
    found = meta_regression(fit.estimates, columns, interval=True)
    theta, covariance = _abilities(data, fit, found, columns[:, 0])
    reach = float(stdtrit(len(log_t) - 2, (1 + level) / 2))
    away = theta - found.coefficients[0]
    effect, se_effect = float(found.coefficients[1]), float(covariance[-1, -1] ** 0.5)
    ends = np.empty((3, len(theta), len(shares)))
    for k, share in enumerate(shares):
        points = [
            point_of(share, s, fit.slope) for s in (found.residual_sd, found.residual_lower, found.residual_upper)
        ]
        further = (np.array([max(points), min(points)]) - points[0]) * reach / ndtri(0.975)
        ends[:, :, k] = ratios(away - points[0], effect, covariance, further, reach)
    with np.errstate(over="ignore"):
        horizon, lower, upper = np.exp(ends + log_t.mean())
    shortest, longest = float(np.exp(log_t.min())), float(np.exp(log_t.max()))
    right = data.accuracy()[:, None]
    lower, upper = np.where(right == 0, 0.0, lower), np.where(right == 1, np.inf, upper)
    flags = {
        "beyond_longest": horizon > longest,
        "below_shortest": horizon < shortest,
        "all_correct": np.broadcast_to(right == 1, horizon.shape),
        "all_wrong": np.broadcast_to(right == 0, horizon.shape),
        "no_slope": np.full(horizon.shape, effect <= reach * se_effect),
    }
    words = [";".join(word for word in flags if flags[word].flat[place]) for place in range(horizon.size)]
    return TimeHorizon(
        respondent_ids=data.respondent_ids,
        shares=tuple(shares),
        horizon=horizon,
        lower=lower,
        upper=upper,
        flags=np.array(words, dtype=object).reshape(horizon.shape),
        effect=effect,
        se_effect=se_effect,
        residual_sd=found.residual_sd,
        shortest=shortest,
        longest=longest,
        unit=unit,
        converged=fit.learning.settled,
        level=level,
    )


def log_lengths(lengths: Mapping[str, float] | pd.Series, item_ids: Sequence[str]) -> Array:
    """Logarithms of the lengths of these tasks."""
    given = pd.to_numeric(pd.Series(lengths), errors="coerce")
    known = given.set_axis(given.index.astype(str)).groupby(level=0).first().reindex(list(item_ids))
    none, wrong = known.index[known.isna()], known[~known.between(0, np.inf, inclusive="neither")]
    refuse_any((
        (len(none) > 0, f"time horizon: no length of task {name_first(list(none))}; expected that of every task"),
        *((True, f"time horizon: the length of task {task} is {own:g}; expected a time above 0")
          for task, own in wrong.items()),
        (len(known) < FEWEST_TASKS, f"time horizon: {len(known)} tasks; expected at least {FEWEST_TASKS}"),
        (known.max() <= known.min() * (1 + 1e-9),
         "time horizon: every task has the same length; expected lengths that differ"),
    ))  # fmt: skip
    return np.asarray(np.log(known.to_numpy(dtype=np.float64)))


def _abilities(data: ResponseMatrix, fit: ExplanatoryItems, found: MetaRegression, x: Array) -> tuple[Array, Array]:
    """Abilities by their likelihood, and the covariance of their errors and that of the effect of length, the last.

    Of zero and unit of the scale, which horizons do not depend on, g_0 and the mean log slope are fixed.
    """
    a, b = fit.items.discrimination, fit.items.difficulty
    less = np.sqrt(1 + BY_NORMAL * (a * fit.sd) ** 2)
    flat = ItemParameters.from_difficulty(a / less, b, item_ids=data.item_ids)
    posterior = ability_posterior(data, flat, quadrature=fit.population)
    mean = posterior.mean()
    theta = without_prior(mean, posterior.standard_deviation() ** 2, 0.0, fit.population.deviation).values
    weight = data.n_trials * item_curves(mean, flat).information_zz / less
    z = a * (mean[:, None] - b)
    residual, slope = (max(each, LEAST_DEVIATION) ** -2 for each in (found.residual_sd, fit.slope[1]))
    own_b, own_a = (weight * a**2).sum(axis=0) + residual, (weight * z**2).sum(axis=0) + slope
    both = -(weight * a * z).sum(axis=0)
    det = own_b * own_a - both**2
    known = (weight * a**2).sum(axis=1)
    theta -= (weight * a * (z * own_b + a * both) / det).sum(axis=1) / known  # what its own responses did to the slopes
    of_b, of_a = np.vstack([-weight * a**2, -residual * x]), np.vstack([weight * a * z, np.zeros_like(x)])
    mixed = (of_b * both / det) @ of_a.T
    by_items = (of_b * own_a / det) @ of_b.T + (of_a * own_b / det) @ of_a.T - mixed - mixed.T
    return theta, np.linalg.inv(np.diag(np.append(known, residual * x @ x)) - by_items)
