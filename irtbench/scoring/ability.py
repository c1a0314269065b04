"""Ability from responses and known items: EAP, MAP, ML, WLE, EAP from the sum score (NumPy only).

Many complete patterns of a 2PL are computed at once. Who answered every item of a 2PL without guessing has a posterior
of theta that depends on s = sum_j a_j x_j alone (Birnbaum, 1968), and so have its mean, standard deviation and
quantiles; lz* depends on theta, s and sum_j d_j x_j. These functions are smooth, and cubic splines through more places
than are needed give them to 1e-7.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from irtbench.data.given import ResponsesLike
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, decoded, share_correct
from irtbench.data.shown import Drawn, counted, spanned
from irtbench.diagnostics.person_fit import LEAST_VARIANCE_LEFT, PatternTerms
from irtbench.models.curves import item_curves, log_icc
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.parameter_table import ParametersLike, responses_and_items
from irtbench.models.quadrature import Quadrature, refine
from irtbench.models.sum_score_distribution import score_distribution
from irtbench.models.theta_posterior import (
    STANDARD_NORMAL,
    Posterior,
    Trials,
    grid_for_complete_patterns,
    known_items,
    node_posterior,
    posterior_of,
    row_batches,
    some_rows,
    step_for_any_pattern,
)
from irtbench.scoring.modal import find_modes

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
        if few or items.categories is not None or items.has_asymptotes or responses.trials is not None:
            return None
        if not slope.any():
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
        skewed for short tests and extreme scores, where theta +- 1.96 se covers one tail too much.
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
    theta_upper    2.31
    method          wle
    """
    responses, items = responses_and_items(responses, items, upper_asymptotes=True, categories=True)
    if method not in get_args(Method):
        raise InputError(f"ability: method must be one of {', '.join(get_args(Method))} but got {method}")
    if not 0 < level < 1:
        raise InputError(f"ability: level must be between 0 and 1 but got {level:g}")
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


def eap(
    responses: ResponseMatrix,
    items: ItemParameters,
    *,
    quadrature: Quadrature | None = None,
    level: float = 0.95,
) -> Abilities:
    """Expected a posteriori ability, the default of ``estimate_ability``; parameters and errors as there."""
    return estimate_ability(responses, items, method="eap", quadrature=quadrature, level=level)


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
