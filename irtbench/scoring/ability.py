"""Ability from responses and known items: EAP, MAP, ML, WLE, EAP from the sum score (NumPy only).

Many complete patterns of a 2PL are computed at once. Who answered every item of a 2PL without guessing has a posterior
of theta that depends on s = sum_j a_j x_j alone (Birnbaum, 1968), and so have its mean, standard deviation and
quantiles; lz* depends on theta, s and sum_j d_j x_j. These functions are smooth, and cubic splines through more places
than are needed give them to 1e-7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import demand_choice, demand_share
from irtbench.data.responses import ResponseMatrix, decoded, share_correct
from irtbench.data.shown import Drawn, counted, spanned
from irtbench.diagnostics.person_fit import LEAST_VARIANCE_LEFT, PatternTerms
from irtbench.models.curves import by_ability, item_curves, log_icc
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.quadrature import Quadrature, refine
from irtbench.models.theta_posterior import (
    STANDARD_NORMAL,
    Posterior,
    Trials,
    grid_for_complete_patterns,
    known_items,
    log_likelihood,
    node_posterior,
    posterior_of,
    row_batches,
    score_distribution,
    some_rows,
    step_for_any_pattern,
)

ModeMethod = Literal["map", "ml", "wle"]

BOUND = 12.0  # ML has no finite root where all is right or all is wrong: theta then stops here
N_NODES = 241  # between which roots are looked for
TOLERANCE = 1e-9
MOST_STEPS = 100
BLOCK = 2**11  # respondents worked on at once: their derivatives by item fit into the processor's cache
TINY = np.finfo(np.float64).tiny


def find_modes(
    values: NDArray[np.float64],
    items: ItemParameters,
    *,
    method: ModeMethod,
    population: Quadrature,
    level: float,
    trials: Trials = None,
) -> NDArray[np.float64]:
    """Solve sum over observed items of d log P(x_j) / d theta + r0 = 0 for every respondent.

    r0 is 0 for maximum likelihood (``ml``), d log prior / d theta for the maximum of the posterior (``map``), and
    J / (2 I) for the weighted likelihood (``wle``; Warm, 1989), with I = sum P'^2 / (P Q) and J = sum P' P'' / (P Q),
    which takes most of the bias of ML away and is finite for all right and all wrong.

    With guessing a likelihood may have several maxima; the highest is taken. ML and WLE look on [-BOUND, BOUND], MAP
    on the part of the population's grid that has mass. A row a respondent: theta, the root, or the end of the range
    towards which the likelihood rises; its standard error 1 / sqrt(information), observed for ML, with the prior's for
    MAP, expected for WLE, NaN at an end; lower and upper, theta +- z standard errors within the range, for ML, WLE and
    at an end at least to where the log-likelihood lies z^2 / 2 below its maximum; and whether theta is at an end.
    """
    equation, found = _Equation(items, method, population), np.empty((len(values), 5))
    z = float(ndtri((1 + level) / 2))
    for rows in row_batches(len(values), items.n_items, most_rows=BLOCK):
        found[rows] = _solve(values[rows], some_rows(trials, rows), equation, z)
    return found


class _Equation:
    """The estimating function of theta for one set of items."""

    def __init__(self, items: ItemParameters, method: ModeMethod, population: Quadrature) -> None:
        self.items, self.method = items, method
        has_mass = np.isfinite(population.log_weights)
        self.nodes = population.nodes[has_mass]
        self.log_density = population.log_weights[has_mass] - np.log(np.gradient(self.nodes))
        self.prior_slope = np.gradient(self.log_density, self.nodes)
        self.grid = np.linspace(self.nodes[0], self.nodes[-1], N_NODES)
        if method != "map":
            self.grid = np.linspace(-BOUND, BOUND, N_NODES)
        self.on_nodes = by_ability(self.grid, items)

    def on_grid(self, values: NDArray[np.float64], trials: Trials) -> NDArray[np.float64]:
        """The function at the grid's nodes, shape (n_respondents, N_NODES)."""
        on_nodes = self.on_nodes
        found = on_nodes.total_score(values, trials)
        if self.method == "wle":
            observed = on_nodes.counted(values, trials)
            return found + _warm(observed @ on_nodes.curvature.T, observed @ on_nodes.information.T)
        return found + self._prior(self.grid)[0]

    def at(
        self, theta: NDArray[np.float64], values: NDArray[np.float64], trials: Trials
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The function at one ability a respondent, and the information: minus its slope, for WLE without r0's."""
        derivatives = by_ability(theta, self.items)
        found = derivatives.score(values, trials).sum(axis=1)
        if self.method == "wle":
            observed = derivatives.counted(values, trials)
            known, curvature = (
                (observed * terms).sum(axis=1) for terms in (derivatives.information, derivatives.curvature)
            )
            return found + _warm(curvature, known), known
        prior_slope, prior_information = self._prior(theta)
        return found + prior_slope, prior_information + derivatives.observed_information(values, trials).sum(axis=1)

    def log_objective(self, values: NDArray[np.float64], trials: Trials) -> NDArray[np.float64]:
        """Log-likelihood, and for MAP log prior, at the grid's nodes, shape (n_respondents, N_NODES)."""
        found = log_likelihood(values, self.grid, self.items, trials=trials)
        return found + np.interp(self.grid, self.nodes, self.log_density) if self.method == "map" else found

    def _prior(self, theta: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Derivative of the log density of ability, and minus its slope; 0 where there is no prior."""
        if self.method != "map":
            return np.zeros_like(theta), np.zeros_like(theta)
        cell = np.clip(np.searchsorted(self.nodes, theta, side="right") - 1, 0, self.nodes.size - 2)
        curvature = np.diff(self.prior_slope) / np.diff(self.nodes)
        return np.interp(theta, self.nodes, self.prior_slope), -curvature[cell]


def _warm(curvature: NDArray[np.float64], information: NDArray[np.float64]) -> NDArray[np.float64]:
    """J / (2 I), 0 where nothing is known."""
    return np.divide(curvature, 2 * information, out=np.zeros_like(curvature), where=information > TINY)


def _solve(values: NDArray[np.float64], trials: Trials, equation: _Equation, z: float) -> NDArray[np.float64]:
    grid = equation.grid
    on_grid = equation.on_grid(values, trials)
    rising = on_grid > 0
    # the function's integral ranks several maxima: one where it falls through zero, and an end it rises towards
    steps = (on_grid[:, 1:] + on_grid[:, :-1]) / 2 * np.diff(grid)
    height = np.concatenate([np.zeros((len(values), 1)), np.cumsum(steps, axis=1)], axis=1)
    is_top = np.concatenate([~rising[:, :1], rising[:, :-1] & ~rising[:, 1:], rising[:, -1:]], axis=1)
    candidate = np.concatenate([height[:, :1], np.maximum(height[:, :-1], height[:, 1:]), height[:, -1:]], axis=1)
    best = np.where(is_top, candidate, -np.inf).argmax(axis=1)
    theta = np.where(best == 0, grid[0], grid[-1])
    at_bound = (best == 0) | (best == grid.size)
    inside = np.flatnonzero(~at_bound)
    bracket = grid[best[inside] - 1], grid[best[inside]]
    theta[inside] = _root(equation, values[inside], some_rows(trials, inside), *bracket)
    with np.errstate(invalid="ignore", divide="ignore"):
        standard_error = 1 / np.sqrt(equation.at(theta, values, trials)[1])
    standard_error[at_bound] = np.nan
    asked = np.flatnonzero(at_bound | (equation.method != "map"))
    # to where the objective has fallen by z^2 / 2, on either side: at an end of the range it hardly falls
    objective = equation.log_objective(values[asked], some_rows(trials, asked))
    near = objective > objective.max(axis=1, keepdims=True) - z**2 / 2
    lower, upper = theta - z * standard_error, theta + z * standard_error
    lower[asked] = np.fmin(lower[asked], grid[near.argmax(axis=1)])
    upper[asked] = np.fmax(upper[asked], grid[::-1][near[:, ::-1].argmax(axis=1)])
    lower, upper = lower.clip(min=grid[0]), upper.clip(max=grid[-1])
    if equation.method != "map":
        silent = np.isnan(values).all(axis=1)
        theta[silent] = standard_error[silent] = np.nan
        lower[silent], upper[silent] = grid[0], grid[-1]
        at_bound = at_bound & ~silent
    return np.column_stack([theta, standard_error, lower, upper, at_bound])


def _root(
    equation: _Equation,
    values: NDArray[np.float64],
    trials: Trials,
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Newton's steps, halving the bracket where one would leave it."""
    lower, upper = lower.copy(), upper.copy()
    theta = (lower + upper) / 2
    for _ in range(MOST_STEPS):
        found, information = equation.at(theta, values, trials)
        lower, upper = np.where(found > 0, theta, lower), np.where(found > 0, upper, theta)
        with np.errstate(invalid="ignore", divide="ignore"):
            step = theta + found / information
        moved = np.where((step > lower) & (step < upper), step, (lower + upper) / 2)
        change = np.abs(moved - theta).max(initial=0.0)
        theta = moved
        if change < TOLERANCE:
            break
    return theta


Array = NDArray[np.float64]

PLACES_OF_ONE = 8  # of s, in one
PLACES = 2**9  # of theta
PART = 2**12  # respondents whose responses are summed, or posteriors computed, at once

Method = Literal["eap", "map", "ml", "wle", "eap_sum"]
Estimator = Literal[Method, "joint"]
AT_END = 0.01  # of the highest mass: with more at the end of the grid, the posterior leans on it


@dataclass(frozen=True, eq=False)
class CompletePatterns:
    """The respondents who answered all items."""

    items: ItemParameters
    rows: NDArray[np.intp]
    by_slope: Array
    by_intercept: Array

    @classmethod
    def of(cls, responses: ResponseMatrix, items: ItemParameters) -> CompletePatterns | None:
        """Those among these responses, to the items in their order.

        None where s does not tell all (asymptotes, categories, several trials, slopes of zero), or they are too few.
        """
        rows, slope = np.flatnonzero(responses.n_items_by_respondent == items.n_items), items.discrimination
        few = len(rows) < PLACES + PLACES_OF_ONE * np.abs(slope).sum()
        several = items.categories is not None or responses.trials is not None
        if few or several or items.has_asymptotes or not slope.any():
            return None
        weights, coded = np.stack([slope, items.intercept], axis=1), responses.coded_responses
        parts = row_batches(len(coded), items.n_items, most_rows=PART)
        sums = np.concatenate([coded[part].astype(np.float64) @ weights for part in parts])
        return cls(items, rows, *sums[rows].T)

    def posteriors(self, population: Quadrature, level: float) -> Array:
        """As `Posterior.summary`, shape (n, 5): the posterior is proportional to w exp(s theta) prod_j (1 - P_j)."""
        from scipy.interpolate import CubicSpline  # a tenth of a second

        slope, grid = self.items.discrimination, grid_for_complete_patterns(self.items, population)
        first, last = slope.clip(max=0).sum(), slope.clip(min=0).sum()
        n = int(np.ceil((last - first) * PLACES_OF_ONE * max(1.0, population.deviation))) + 4
        sums, log_wrong = np.linspace(first, last, n), log_icc(grid.nodes, self.items)[1].sum(axis=1)
        parts = [sums[rows, None] * grid.nodes + log_wrong for rows in row_batches(n, grid.nodes.size)]
        known = [Posterior(grid.nodes, node_posterior(part, grid)[0]).summary(level) for part in parts]
        return np.asarray(CubicSpline(sums, np.concatenate(known))(self.by_slope))

    def lz_star(self, rows: NDArray[np.intp], theta: Array) -> Array:
        """Person fit of some of them at their abilities, shape (n,); NaN where it is undefined.

        With v and k as of `PatternTerms`, lz* = sum_j (x_j - P_j) v_j / sqrt(sum_j P_j (1 - P_j) v_j^2), of which the
        responses give sum_j x_j v_j = (theta - k) s + sum_j d_j x_j.
        """
        from scipy.interpolate import CubicSpline

        places = np.linspace(theta.min(), theta.max() + 1e-6, PLACES)
        spline = CubicSpline(
            places, np.concatenate([self._by_theta(places[p]) for p in row_batches(PLACES, self.items.n_items)])
        )
        used_up, expected, known, left = spline(theta).T
        left[~(left > LEAST_VARIANCE_LEFT * known)] = np.nan
        return ((theta - used_up) * self.by_slope[rows] + self.by_intercept[rows] - expected) / np.sqrt(left)

    def _by_theta(self, theta: Array) -> Array:
        """k, sum_j P_j v_j, and the variances of lz known and left, shape (n, 4)."""
        curves = item_curves(theta, self.items)
        weight = np.broadcast_to(self.items.discrimination, curves.z.shape)
        terms = PatternTerms.of(curves.variance, curves.z, weight, least_left=0.0)
        expected = (curves.p * terms.remaining).sum(axis=1)
        return np.column_stack([terms.used_up, expected, terms.variance_known, np.nan_to_num(terms.variance_estimated)])


@dataclass(frozen=True, eq=False)
class Abilities(
    Drawn,
    columns="respondent_ids, n_items, n_correct, accuracy=share_correct, theta, se=standard_error, "
    "theta_lower=lower, theta_upper=upper, method, n_trials",
):
    """Ability of each respondent with its interval.

    Its table has one row a respondent, the columns of scores.csv that need no norm sample.

    Parameters
    ----------
    respondent_ids
        The respondents, in the order of the responses.
    theta
        The estimate, shape (n_respondents,).
    standard_error
        For EAP the standard deviation of theta's posterior, else 1 / sqrt(information), shape (n_respondents,).
    lower, upper
        Ends of the interval, shape (n_respondents,). For EAP the equal-tailed quantiles of the posterior: it is
        skewed for short tests and extreme scores, where theta +- 1.96 se covers one tail too much. For ML and WLE
        theta +- z se, or farther where the likelihood is: all right has no upper end but that of the range.
    level
        Nominal coverage of the interval.
    n_items, n_correct
        Items answered and correct responses of each, shape (n_respondents,).
    at_bound
        Whether the estimate leans on the end of the grid or of the allowed range, so that it says "at least" or
        "at most", shape (n_respondents,).
    method
        How theta was estimated: a `Method`, or ``joint`` with the items (see `abilities_of`).
    n_trials
        Responses observed of each, where there were several trials of an item, shape (n_respondents,); else None.
    accuracy
        Mean over the items answered of the share right; None without trials, where it is n_correct / n_items.
    """

    respondent_ids: tuple[str, ...]
    theta: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    level: float
    n_items: NDArray[np.int64]
    n_correct: NDArray[np.int64]
    at_bound: NDArray[np.bool_]
    method: Estimator
    n_trials: NDArray[np.int64] | None = None
    accuracy: NDArray[np.float64] | None = None

    @property
    def n_responses(self) -> NDArray[np.int64]:
        """Responses observed of each, trials counted one by one, shape (n_respondents,)."""
        return self.n_items if self.n_trials is None else self.n_trials

    @property
    def share_correct(self) -> NDArray[np.float64]:
        """Accuracy of each, an item counting once, NaN without an item, shape (n_respondents,)."""
        return share_correct(self.n_correct, self.n_items) if self.accuracy is None else self.accuracy

    def in_short(self) -> str:
        """How many respondents, the range of their abilities, and the method."""
        error = self.standard_error[np.isfinite(self.standard_error)]
        mean = f"mean standard error {error.mean():.2f}, " if error.size else ""
        return f"{counted(len(self.respondent_ids), 'respondent')}, theta {spanned(self.theta)}, {mean}{self.method}"


def estimate_ability(
    responses: ResponsesLike,
    items: ParametersLike,
    *,
    method: Method = "eap",
    quadrature: Quadrature | None = None,
    level: float = 0.95,
) -> Abilities:
    """Ability of every respondent by the method of choice. The items' parameters count as known.

    - ``eap``: mean and standard deviation of theta's posterior, sum_q theta_q p(theta_q | x) (Bock & Mislevy, 1982);
    - ``map``: the posterior's mode (Samejima, 1969);
    - ``ml``: the likelihood's maximum; all right or all wrong stop at the bound of ``find_modes`` and say so;
    - ``wle``: Warm's weighted likelihood (1989), without a prior, nearly unbiased and always finite;
    - ``eap_sum``: the posterior's mean given the number of right responses alone (Thissen et al., 1995).

    A respondent without any response gets the population's value where there is a prior, else NaN.

    Parameters
    ----------
    responses
        Any subset of the items, in any order; missing responses are left out of the likelihood.
    items
        Parameters of at least the items of the responses.
    method
        The estimator.
    quadrature
        The population, whose weights are the prior of ``eap, map, eap_sum``; None for the standard normal.
    level
        Nominal coverage of the interval, between 0 and 1.

    Raises
    ------
    InputError
        If the method is unknown, the responses have an item that ``items`` has not, or ``level`` lies outside (0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> abilities = irtbench.estimate_ability(responses, items)
    >>> abilities
    <Abilities: 300 respondents, theta -1.59 to 1.59, mean standard error 0.59, eap>
    >>> irtbench.estimate_ability([[1, 1, 1, 0, 1, None]], items, method="wle").table().round(2).T
                      0
    respondent_id    r1
    n_items           5
    n_correct         4
    accuracy        0.8
    theta          0.76
    se             0.79
    theta_lower   -0.79
    theta_upper     2.9
    method          wle
    """
    responses, items = responses_and_items(responses, items, upper_asymptotes=True, categories=True)
    demand_choice("ability: method", method, Method)
    demand_share("ability: level", level)
    known = known_items(responses, items)
    population = STANDARD_NORMAL if quadrature is None else quadrature
    if method == "eap" or method == "eap_sum":
        through = posterior_of if method == "eap" else sum_score_posterior
        found = posterior_means(responses, known, population, level, through)
    else:
        found = find_modes(
            responses.correct, known, method=method, population=population, level=level, trials=responses.trials
        )
    return Abilities(responses.respondent_ids, method=method, level=level, **estimates(found), **counts_of(responses))


def estimates(found: NDArray[np.float64]) -> dict[str, Any]:
    """The fields of `Abilities` that a table of theta, standard error, both ends and the lean on a bound gives."""
    theta, standard_error, lower, upper, at_bound = found.T
    return {
        "theta": theta, "standard_error": standard_error, "lower": lower, "upper": upper, "at_bound": at_bound > AT_END,
    }  # fmt: skip


def counts_of(responses: ResponseMatrix) -> dict[str, Any]:
    """The fields of `Abilities` that count items and responses."""
    counts: dict[str, Any] = {
        "n_items": responses.n_items_by_respondent,
        "n_correct": responses.n_correct_by_respondent,
    }
    if responses.trials is not None:
        counts |= {"n_trials": responses.n_by_respondent, "accuracy": responses.accuracy()}
    return counts


def posterior_means(
    responses: ResponseMatrix,
    items: ItemParameters,
    population: Quadrature,
    level: float,
    posterior_through: Callable[..., Posterior],
) -> NDArray[np.float64]:
    """Mean, standard deviation, ends of the interval and the lean on the grid's end of each posterior, (n, 5)."""
    found, trials = np.empty((responses.n_respondents, 5)), responses.trials
    rest = np.arange(len(found))
    if posterior_through is posterior_of and (complete := CompletePatterns.of(responses, items)) is not None:
        found[complete.rows] = complete.posteriors(population, level)
        rest = np.flatnonzero(responses.n_items_by_respondent < items.n_items)
    if len(rest) > PART:  # neighbours then have posteriors in the same place, for which fewer nodes serve
        rest = rest[responses.accuracy()[rest].argsort()]
    for part in row_batches(len(rest), items.n_items, most_rows=PART):
        rows = rest[part]
        values = decoded(responses.at(rows))
        found[rows] = posterior_through(values, items, population, trials=some_rows(trials, rows)).summary(level)
    return found


def sum_score_posterior(
    values: NDArray[np.float64], items: ItemParameters, population: Quadrature, *, trials: Trials = None
) -> Posterior:
    """Posterior of theta given the number of right responses, or points, on the items observed, for every respondent.

    p(theta_q | k) proportional to w_q S_k(theta_q), with S_k the probability of sum score k on those items
    (Thissen, Pommerich, Billeaud & Williams, 1995). People with the same score on the same items get the same theta,
    which is easy to explain; it uses less than the pattern says.
    """
    most = np.ones(items.n_items) if trials is None else trials.max(axis=0, initial=1)
    grid = refine(population, step_for_any_pattern(items, population, most_trials=most))
    asked = ~np.isnan(values) if trials is None else trials
    patterns, membership = np.unique(asked, axis=0, return_inverse=True)
    score = np.nansum(values, axis=1).astype(np.intp)
    mass = np.empty((len(values), grid.nodes.size))
    for g, pattern in enumerate(patterns):
        rows = np.flatnonzero(membership.ravel() == g)
        joint = score_distribution(grid.nodes, items, pattern).T * grid.weights
        mass[rows] = (joint / joint.sum(axis=1, keepdims=True))[score[rows]]
    return Posterior(grid.nodes, mass)
