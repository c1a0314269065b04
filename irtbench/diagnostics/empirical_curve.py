"""The share of right responses to one item along ability, and the penalised logistic regression that smooths it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from scipy.linalg import inv
from scipy.special import expit, log_expit, ndtri

from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError, demand_share, refuse_any
from irtbench.data.responses import share_correct
from irtbench.data.shown import Drawn, Shown, crossed
from irtbench.diagnostics.person_fit import check_items_agree, check_theta
from irtbench.models.curves import icc
from irtbench.models.parameter_table import ParametersLike, responses_and_items

MOST_STEPS = 50
MOST_HALVINGS = 30
SMALLEST = 1e-300  # of a probability


@dataclass(frozen=True, eq=False)
class LogisticRegression:
    """A fitted regression.

    Parameters
    ----------
    coefficients
        Shape (n_coefficients,).
    precision
        Negative second derivative of the penalised log-likelihood there, shape (n_coefficients, n_coefficients).
    log_likelihood
        Without the penalty.
    """

    coefficients: NDArray[np.float64]
    precision: NDArray[np.float64]
    log_likelihood: float


def logistic_regression(
    basis: NDArray[np.float64],
    answers: NDArray[np.float64],
    penalty: NDArray[np.float64],
    *,
    start: NDArray[np.float64] | None = None,
    trials: NDArray[np.float64] | None = None,
) -> LogisticRegression:
    """Maximise sum(x eta - n log(1 + exp(eta))) - beta' K beta / 2 over beta, with eta = basis @ beta."""
    n = np.ones(len(answers)) if trials is None else trials
    coefficients = np.zeros(basis.shape[1]) if start is None else start
    for _ in range(MOST_STEPS):
        p = expit(basis @ coefficients)
        precision = basis.T @ (basis * (n * p * (1 - p))[:, None]) + penalty
        step = np.linalg.solve(precision, basis.T @ (answers - n * p) - penalty @ coefficients)
        coefficients = coefficients + step
        if np.abs(step).max() < 1e-8:
            break
    eta = basis @ coefficients
    return LogisticRegression(coefficients, precision, float(np.sum(answers * eta + n * log_expit(-eta))))


def ordinal_regression(
    basis: NDArray[np.float64],
    counts: NDArray[np.float64],
    penalty: float,
    *,
    start: NDArray[np.float64] | None = None,
) -> LogisticRegression:
    """Maximise the likelihood of ordered outcomes by cumulative logits (McCullagh, 1980).

    P(at least k) = 1 / (1 + exp(-(t_k + basis @ beta))). Of two outcomes it is the logistic regression, t_1 being the
    constant. By Fisher scoring, steps halved where the likelihood would fall.
    """
    above = counts.sum(axis=0)[::-1].cumsum()[::-1][1:] / counts.sum()
    x = extended(np.log(above / (1 - above)) if start is None else start, basis, counts)

    def height(at: NDArray[np.float64]) -> float:
        if (np.diff(at[: len(above)]) >= 0).any():
            return -np.inf
        return float((counts * np.log(probabilities(basis, at, len(above))[0])).sum() - penalty * at @ at / 2)

    best, information = height(x), np.eye(x.size)
    for _ in range(MOST_STEPS):
        gradient, information = derivatives(basis, counts, x, penalty)
        step = np.linalg.solve(information, gradient)
        for _ in range(MOST_HALVINGS):
            found = height(x + step)
            if found >= best - 1e-12 * abs(best):
                break
            step = step / 2
        x, best = x + step, found
        if np.abs(step).max() < 1e-8:
            break
    return LogisticRegression(x, information, best + float(penalty * x @ x / 2))


def score_statistic(
    basis: NDArray[np.float64], counts: NDArray[np.float64], penalty: float, fitted: LogisticRegression
) -> float:
    """Rao's (1948) U' I^-1 U of the columns beyond those fitted, U and I at the fit without them.

    With few responses it is nearer to its chi-square than the likelihood ratio, which is too large.
    """
    gradient, information = derivatives(basis, counts, extended(fitted.coefficients, basis, counts), penalty)
    return float(gradient @ np.linalg.solve(information, gradient))


def extended(x: NDArray[np.float64], basis: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Steps and coefficients of all columns, 0 where there are none yet."""
    return np.pad(x, (0, counts.shape[1] - 1 + basis.shape[1] - x.size))


def probabilities(
    basis: NDArray[np.float64], x: NDArray[np.float64], n_steps: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of the outcomes, shape (n_respondents, n_steps + 1), and of at least each but the lowest."""
    at_least = expit(x[:n_steps] + (basis @ x[n_steps:])[:, None])
    return np.maximum(-np.diff(at_least, axis=1, prepend=1.0, append=0.0), SMALLEST), at_least


def derivatives(
    basis: NDArray[np.float64], counts: NDArray[np.float64], x: NDArray[np.float64], penalty: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gradient of the penalised log-likelihood, and its expected information, sum n P'P'^T / P, the penalty added."""
    n_steps = counts.shape[1] - 1
    p, at_least = probabilities(basis, x, n_steps)
    slope = (at_least * (1 - at_least))[:, :, None]
    by_step = np.pad(slope * np.eye(n_steps), ((0, 0), (1, 0), (0, 0))) - np.pad(
        slope * np.eye(n_steps), ((0, 0), (0, 1), (0, 0))
    )
    rate = np.concatenate([by_step, by_step.sum(axis=2, keepdims=True) * basis[:, None]], axis=2).reshape(-1, x.size)
    weight = (counts.sum(axis=1, keepdims=True) / p).reshape(-1, 1)
    gradient = rate.T @ (counts / p).ravel() - penalty * x
    return gradient, rate.T @ (weight * rate) + penalty * np.eye(x.size)


DEGREE = 3
N_SEGMENTS = 10  # of the spline, over the range of theta; the penalty, not their number, sets how smooth it is
SMOOTHNESS = np.logspace(5, -2, 15)  # penalties tried, from a straight line on the logit scale to nearly none
FIRMNESS = 1e-3  # pulls the logit to 0 with the weight of next to nothing, so that all right is finite


@dataclass(frozen=True, eq=False)
class EmpiricalCurve(Drawn, columns="theta, proportion, lower, upper, expected"):
    """Observed and expected share of right responses to an item; all arrays have shape (n_points,).

    Its table has one row a point of the curve.

    Parameters
    ----------
    item_id
        The item.
    theta
        Abilities at which the curves are given, increasing.
    proportion
        Smoothed share of right responses among the respondents near theta.
    lower, upper
        Pointwise band of the share.
    expected
        The model's curve.
    level
        Nominal coverage of the band at each point.
    n_respondents
        Respondents who answered the item.
    """

    item_id: str
    theta: NDArray[np.float64]
    proportion: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    expected: NDArray[np.float64]
    level: float
    n_respondents: int


def empirical_curve(
    responses: ResponsesLike,
    items: ParametersLike,
    item_id: str,
    theta: NDArray[np.float64],
    *,
    n_points: int = 101,
    level: float = 0.95,
) -> EmpiricalCurve:
    """Smoothing spline of the responses to one item over ability, with its pointwise band.

    logit P(x = 1 | theta) = f(theta), with f the cubic spline that maximises

        log L(f) - lambda / 2 sum (second differences of its coefficients)^2            (Eilers & Marx, 1996)

    The smoother f, the nearer it is to a straight line: to the two-parameter model. So what bends away from the
    model's curve is there because the responses ask for it. lambda maximises the marginal likelihood of f; the band
    is f +- z sd from f's posterior, carried to the scale of shares.

    Of several trials each is a response. Of items in categories x is the share of the item's points, whose variance is
    at most that of right and wrong: the band is at least as wide as it should be.

    Abilities estimated from the same responses hold a little of the item itself, more so where items are few.

    Parameters
    ----------
    responses
        Graded responses; those who did not answer the item are left out.
    items
        Parameters of the same items in the same order.
    item_id
        The item to look at.
    theta
        Abilities, shape (n_respondents,).
    n_points
        Points of the curve, evenly over the range of ability of those who answered.
    level
        Nominal coverage of the band at each point, between 0 and 1.

    Raises
    ------
    InputError
        If the items differ, theta has another shape or is not finite, the item is unknown, those who answered it do
        not differ in ability, ``level`` lies outside (0, 1), or there are fewer than two points.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> theta = irtbench.estimate_ability(responses, items).theta
    >>> irtbench.empirical_curve(responses, items, "item3", theta, n_points=3).table().round(2)
       theta  proportion  lower  upper  expected
    0  -1.59        0.02   0.01   0.08      0.13
    1   0.00        0.67   0.59   0.75      0.61
    2   1.59        0.98   0.91   1.00      0.94
    """
    responses, items = responses_and_items(responses, items, upper_asymptotes=True, categories=True)
    check_items_agree(responses, items)
    theta = check_theta(theta, responses)
    refuse_any((
        (item_id not in items.item_ids, f"empirical curve: unknown item {item_id}"),
        (n_points < 2, f"empirical curve: expected at least two points but got {n_points}"),
    ))  # fmt: skip
    demand_share("empirical curve: level", level)
    alone = responses.select_items([item_id])
    answers, trials = alone.correct[:, 0], alone.n_trials[:, 0]
    if items.categories is not None:
        answers, trials = alone.shares[:, 0], alone.observed[:, 0].astype(np.float64)
    answered = trials > 0
    abilities = theta[answered]
    if abilities.size == 0 or np.ptp(abilities) == 0:
        raise InputError(f"empirical curve: respondents of different ability must have answered item {item_id}")
    points = np.linspace(abilities.min(), abilities.max(), n_points)
    coefficients, covariance = _smooth(_basis(abilities, points), answers[answered], trials[answered])
    basis = _basis(points, points)
    logit = basis @ coefficients
    width = ndtri((1 + level) / 2) * np.sqrt(np.einsum("ij,jk,ik->i", basis, covariance, basis))
    return EmpiricalCurve(
        item_id=item_id,
        theta=points,
        proportion=expit(logit),
        lower=expit(logit - width),
        upper=expit(logit + width),
        expected=icc(points, items.select([item_id]))[:, 0],
        level=level,
        n_respondents=int(answered.sum()),
    )


def _basis(theta: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Evenly spaced B-splines over the range of ``points`` at ``theta``, shape (n_theta, N_SEGMENTS + DEGREE)."""
    segment = (points[-1] - points[0]) / N_SEGMENTS
    knots = points[0] + segment * np.arange(-DEGREE, N_SEGMENTS + DEGREE + 1)
    inside = np.clip(
        theta, knots[DEGREE], knots[-DEGREE - 1]
    )  # the last knot may differ from the last point by rounding
    return BSpline.design_matrix(inside, knots, DEGREE).toarray()


def _smooth(
    basis: NDArray[np.float64], answers: NDArray[np.float64], trials: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coefficients and their covariance under the penalty of the largest marginal likelihood (Laplace)."""
    n_coefficients = basis.shape[1]
    bends = np.diff(np.eye(n_coefficients), n=2, axis=0)
    coefficients = np.zeros(n_coefficients)
    best: tuple[float, NDArray[np.float64], NDArray[np.float64]] = -np.inf, coefficients, np.eye(n_coefficients)
    for smoothness in SMOOTHNESS:
        penalty = smoothness * bends.T @ bends + FIRMNESS * np.eye(n_coefficients)
        fit = logistic_regression(basis, answers, penalty, start=coefficients, trials=trials)
        coefficients, precision = fit.coefficients, fit.precision
        log_likelihood = fit.log_likelihood - coefficients @ penalty @ coefficients / 2
        log_determinants = len(bends) * np.log(smoothness) - np.linalg.slogdet(precision)[1]
        log_marginal = log_likelihood + log_determinants / 2
        if log_marginal > best[0]:
            best = log_marginal, coefficients, inv(precision)
    return best[1], best[2]


@dataclass(frozen=True, eq=False)
class ObservedShares(Shown, short="{item_ids:item}, {n.shape[0]:group}"):
    """Right responses to each item by group of ability; all arrays have shape (n_groups, n_items).

    Parameters
    ----------
    item_ids
        The items.
    theta
        Mean ability of those of the group who answered the item; NaN where nobody did.
    n_correct, n
        Right responses of the group, and all its responses.
    """

    item_ids: tuple[str, ...]
    theta: NDArray[np.float64]
    n_correct: NDArray[np.int64]
    n: NDArray[np.int64]

    @property
    def share(self) -> NDArray[np.float64]:
        """Share right of each group, NaN where nobody answered."""
        return share_correct(self.n_correct, self.n)

    def table(self) -> pd.DataFrame:
        """One row an item and group, the least able group first."""
        return crossed(
            {"item_id": self.item_ids, "group": range(1, len(self.n) + 1)},
            {"theta": self.theta.T, "n": self.n.T, "share": self.share.T},
        )


def observed_shares(responses: ResponsesLike, theta: NDArray[np.float64], *, n_groups: int = 10) -> ObservedShares:
    """Shares right among groups of respondents, of as equal size as can be, in order of ability.

    Of several trials each is a response. Abilities estimated from the same responses hold a little of the item itself.

    Parameters
    ----------
    responses
        Graded responses.
    theta
        Abilities, shape (n_respondents,). Respondents of equal ability stay in their order.
    n_groups
        Groups, of which each needs a respondent; fewer where there are fewer respondents.

    Raises
    ------
    InputError
        If theta has another shape or is not finite, or there is no group or respondent.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> answers = [[0, 0], [0, None], [1, 1], [1, 1]]
    >>> observed_shares(answers, np.array([-1.0, -0.5, 0.5, 1.0]), n_groups=2).table()
      item_id  group  theta  n  share
    0   item1      1  -0.75  2    0.0
    1   item1      2   0.75  2    1.0
    2   item2      1  -1.00  1    0.0
    3   item2      2   0.75  2    1.0
    """
    responses = as_responses(responses)
    theta = check_theta(theta, responses)
    if n_groups < 1 or not theta.size:
        what = f"group but got {n_groups}" if theta.size else "respondent but there is none"
        raise InputError(f"observed shares: expected at least one {what}")
    parts = np.array_split(np.argsort(theta, kind="stable"), min(n_groups, theta.size))
    right, trials, seen = np.nan_to_num(responses.correct), responses.n_trials, responses.observed
    n_seen = np.array([seen[part].sum(axis=0) for part in parts])
    total = np.array([theta[part] @ seen[part] for part in parts])
    return ObservedShares(
        item_ids=responses.item_ids,
        theta=np.divide(total, n_seen, out=np.full(total.shape, np.nan), where=n_seen > 0),
        n_correct=np.array([right[part].sum(axis=0) for part in parts], dtype=np.int64),
        n=np.array([trials[part].sum(axis=0) for part in parts], dtype=np.int64),
    )
