"""Newton's steps to the maximum of the marginal likelihood of ratings; normal distributions of raters, learnt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack, solve_triangular
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.linalg import LinearOperator, cg

from irtbench.data.input_error import InputError
from irtbench.estimation.raters.category_curve import Floats
from irtbench.estimation.raters.rating_problem import Evaluated, RatingProblem

MOST_FACTORED = 1500  # parameters up to which every step factors the information
MOST_PARAMETERS = 20_000  # of which the inverse, 8 bytes an entry, is held
STRIP = 512  # rows of a large matrix at a time
DRAWS, MOST_DRAWS = 600, 8  # pairs of draws around the raters' mean: raters times pairs, about, and pairs at most
FROZEN = 0.05  # change of the logarithm of a variance from which on the draws stay
PROBES = 24  # random signs by which the trace of a large inverse is estimated
NARROWER = 0.25  # of a posterior's standard deviation from one pass to the next, at most
FIRST_PASSES = 5  # that place the nodes
SHORTEST, LONGEST = 2.0**-10, 4.0  # of a step
SETTLED = 1e-3  # change of the logarithm of a variance


@dataclass(frozen=True, eq=False)
class Mode:
    """Where the steps ended.

    Parameters
    ----------
    x
        The parameters.
    found
        Likelihood, derivatives and information there.
    variances
        Of the raters' normal distributions, by column of their parameters; empty where these are fixed.
    design
        The parameters by the free ones: x changes by design @ change.
    information
        Of the free parameters, with the precision of those normal distributions.
    steps, gain
        How many, and what another step would add to the log-likelihood, about.
    converged
        Whether that is little and the variances have settled.
    """

    x: Floats
    found: Evaluated
    variances: Floats
    design: csr_array
    information: csr_array
    steps: int
    gain: float
    converged: bool

    @cached_property
    def covariance(self) -> Covariance:
        """Of the estimates: the inverse of the observed information (Louis, 1982)."""
        n = self.information.shape[0]
        if n > MOST_PARAMETERS:
            raise InputError(
                f"raters: {n} parameters; the standard errors of more than {MOST_PARAMETERS} do not go into memory; "
                "expected fewer items and raters, or standard_errors=False"
            )
        factor, wrong = lapack.dpotrf(self.information.toarray(order="F"), lower=1, overwrite_a=1)
        diagonal = np.diagonal(factor).copy()
        inverse, failed = lapack.dpotri(factor, lower=1, overwrite_c=1)
        if wrong or failed:
            raise InputError(
                "raters: the ratings do not determine all parameters (the information is singular): an item, a rater "
                "or a step with too few ratings, or raters that share too little; expected raters='learnt', fewer "
                "kinds of parameters, or more ratings in common"
            )
        return Covariance(self.design, inverse, 2 * float(np.log(diagonal).sum()))


@dataclass(frozen=True, eq=False)
class Covariance:
    """Covariance of the parameters, design @ free @ design'; of `free` the lower triangle is given.

    `log_determinant` is that of the information.
    """

    design: csr_array
    free: Floats
    log_determinant: float

    def __post_init__(self) -> None:
        for k in range(0, len(self.free), STRIP):  # the upper triangle by strips, without another matrix
            own = slice(k, k + STRIP)
            self.free[:k, own] = self.free[own, :k].T
            corner = np.tril(self.free[own, own])
            self.free[own, own] = corner + np.tril(corner, -1).T

    def shift(self, along: Floats, by: Floats) -> None:
        """Replace the parameters x by x - along (by'x), in place."""
        v, m = self.design.T @ along, self.design.T @ by
        across = self.free @ m
        across -= (m @ across) / 2 * v
        for k in range(0, len(v), STRIP):
            own = slice(k, k + STRIP)
            self.free[own] -= v[own, None] * across + across[own, None] * v

    def log_determinant_of(self, places: NDArray[np.int64]) -> float:
        """Of the information on these parameters, all others known: with C the rest's covariance, log |I| + log |C|."""
        own = self.design.indices[self.design.indptr[places]]
        rest = np.setdiff1d(np.arange(len(self.free)), own)
        return self.log_determinant + float(np.linalg.slogdet(self.free[np.ix_(rest, rest)])[1])

    def variances(self, rows: Any, less: Floats | None = None) -> Floats:
        """Variances of combinations of the parameters, of each less one combination that all have."""
        own = (csr_array(rows) @ self.design).tocsc()
        heavy = np.diff(own.indptr) > 0.1 * own.shape[0]
        dense, light = own[:, heavy].toarray(), own[:, ~heavy].tocsr()
        found = ((dense @ self.free[np.ix_(heavy, heavy)]) * dense).sum(axis=1)
        found += 2 * ((light @ self.free[np.ix_(~heavy, heavy)]) * dense).sum(axis=1)
        light = own.multiply(~heavy).tocsr()
        for k in range(0, own.shape[0], 500):
            part = light[k : k + 500]
            found[k : k + 500] += part.multiply(part @ self.free).sum(axis=1)
        if less is not None:
            common = self.free @ (self.design.T @ less)
            found += common @ (self.design.T @ less) - 2 * (own @ common)
        return np.asarray(np.maximum(found, 0.0))


def design_of(problem: RatingProblem, *, learnt: bool) -> csr_array:
    """The parameters by the free ones; raters' sum to zero where no normal distribution is learnt.

    Severities sum to zero over each set of raters who share items, for they and the items' intercepts would shift
    against each other; consistencies' logarithms and steps over all raters.
    """
    free, places = problem.free.copy(), problem.places["raters"]
    last, others = list[int](), list[NDArray[np.int64]]()
    if not learnt:
        for column in range(places.shape[1]):
            sets = problem.ratings.item_parts if column == 0 else np.zeros(len(places), dtype=np.int64)
            for part in range(int(sets.max()) + 1):
                own = places[sets == part, column]
                last.append(int(own[-1]))
                others.append(own[:-1])
    free[last] = False
    number = np.cumsum(free) - 1
    rows, columns, values = np.flatnonzero(free), number[free], np.ones(int(free.sum()))
    for place, rest in zip(last, others, strict=True):
        rows = np.concatenate([rows, np.full(len(rest), place)])
        columns, values = np.concatenate([columns, number[rest]]), np.concatenate([values, np.full(len(rest), -1.0)])
    return coo_array((values, (rows, columns)), shape=(len(free), int(free.sum()))).tocsr()


def find_mode(problem: RatingProblem, *, learnt: bool, tolerance: float, max_steps: int) -> Mode:
    """Newton's steps, each with the observed information, halved until the likelihood rises.

    Raters who are drawn from a normal distribution are integrated out with a normal posterior (variational): the
    likelihood and its derivatives are averaged over it, by draws in pairs about the mean. At the mode of all parameters
    together the standard deviation of ability would be too small, where raters have few ratings. The variance of their
    distribution follows after each step: with v the posterior variances, tau^2 = sum s^2 / (R - sum v / tau^2), at
    whose fixed point tau^2 is the mean of s^2 + v.
    """
    x, design, places = problem.start(), design_of(problem, learnt=learnt), problem.places["raters"]
    variances, precision = np.full(places.shape[1], 0.5), np.zeros(len(x))
    n_respondents = len(problem.ratings.respondent_ids)
    mean, deviation = np.zeros(n_respondents), np.ones(n_respondents)
    for _ in range(FIRST_PASSES):
        found, before = problem.evaluate(x, mean, deviation), mean
        mean, deviation = found.mean, np.maximum(found.deviation, NARROWER * deviation)
        if (np.abs(mean - before) < deviation / 2).all():
            break
    found = problem.evaluate(x, mean, deviation, information=True)
    steps, change, enough = 0, np.inf if learnt else 0.0, tolerance * design.shape[1]
    draws = np.random.default_rng(0).normal(size=(int(np.clip(DRAWS // len(places), 1, MOST_DRAWS)), design.shape[1]))
    around: list[Floats] = []
    value, slope = averaged(problem, x, found, around)
    while True:
        if learnt:
            precision[places] = 1 / variances
        information = (design.T @ (found.complete - found.missing + diags_array(precision)) @ design).tocsr()
        gradient = design.T @ (slope - precision * x)
        solve = solver(information)
        direction = None if solve is None else solve(gradient)
        if direction is None or not gradient @ direction > 0:  # far from the maximum: expected of the complete data
            complete = (design.T @ (found.complete + diags_array(precision + 1e-8)) @ design).tocsr()
            direction = (solver(complete) or gradient.__mul__)(gradient)
        gain = float(gradient @ direction) / 2
        if (gain < enough and change < SETTLED) or steps == max_steps or not np.isfinite(gain):
            break
        step, objective = design @ direction, value - precision @ x**2 / 2
        length = min(1.0, LONGEST / np.abs(step).max())
        while length > SHORTEST:
            tried = x + length * step
            moved = problem.evaluate(
                tried, found.mean, np.maximum(found.deviation, NARROWER * deviation), information=True
            )
            value, slope = averaged(problem, tried, moved, around)
            if value - precision @ tried**2 / 2 >= objective - 1e-9 * abs(objective):
                break
            length /= 2
        else:
            break
        deviation = np.maximum(found.deviation, NARROWER * deviation)
        x, found, steps = tried, moved, steps + 1
        if learnt and solve is not None:
            updated = variance_by(x[places], inverse_sums(solve, design, places), variances)
            change, variances = float(np.abs(np.log(updated / variances)).max()), updated
            if change > FROZEN or not around:
                around = drawn_around(information, draws, design, places)
                value, slope = averaged(problem, x, found, around)
    settled = gain < enough and change < SETTLED
    return Mode(x, found, variances if learnt else np.zeros(0), design, information, steps, gain, settled)


def averaged(problem: RatingProblem, x: Floats, found: Evaluated, around: list[Floats]) -> tuple[float, Floats]:
    """Log-likelihood and its gradient: there, or the means over draws of the raters' parameters around it."""
    if not around:
        return float(found.log_likelihood.sum()), found.gradient
    each = [problem.evaluate(x + change, found.mean, found.deviation) for change in around]
    value = np.mean([own.log_likelihood.sum() for own in each])
    return float(value), np.mean([own.gradient for own in each], axis=0)


def variance_by(values: Floats, spread: Floats, variances: Floats) -> Floats:
    """The next variances of the raters' parameters, shape (n_raters, width), with posterior variances of these sums."""
    shrunk = np.minimum(spread / variances, 0.98 * len(values))
    return np.maximum((values**2).sum(axis=0) / (len(values) - shrunk), 1e-4)


def solver(information: csr_array) -> Callable[[Floats], Floats] | None:
    """What solves with this matrix; None if it is not positive definite."""
    n = information.shape[0]
    if n <= MOST_FACTORED:
        matrix = information.toarray()
        try:
            factor = cho_factor(matrix, lower=True)
        except LinAlgError:
            return None
        return lambda right: np.asarray(cho_solve(factor, right))
    diagonal = information.diagonal()
    if (diagonal <= 0).any():
        return None
    by_diagonal = LinearOperator((n, n), matvec=lambda right: right / diagonal)
    return lambda right: np.asarray(cg(information, right, rtol=1e-8, maxiter=1000, M=by_diagonal)[0])


def drawn_around(information: csr_array, draws: Floats, design: csr_array, places: NDArray[np.int64]) -> list[Floats]:
    """Changes of the raters' parameters drawn from their posterior, each with its opposite; of many by variances."""
    n = information.shape[0]
    if n <= MOST_FACTORED:
        factor = cho_factor(information.toarray(), lower=True)[0]
        changes = solve_triangular(factor, draws.T, lower=True, trans="T")
    else:
        changes = (draws / np.sqrt(information.diagonal())).T
    found = np.zeros((design.shape[0], len(draws)))
    found[places.reshape(-1)] = (design @ changes)[places.reshape(-1)]
    return [sign * change for change in found.T for sign in (1.0, -1.0)]


def inverse_sums(solve: Callable[[Floats], Floats], design: csr_array, places: NDArray[np.int64]) -> Floats:
    """Sums of the inverse's diagonal over the raters, by column of their parameters; of many by random signs."""
    n = design.shape[1]
    columns = design.indices[design.indptr[places]]  # of a row with one entry: without constraints each has
    if n <= MOST_FACTORED:
        return np.asarray(np.diagonal(solve(np.eye(n)))[columns].sum(axis=0))
    found, rng = np.zeros(places.shape[1]), np.random.default_rng(0)
    for _ in range(PROBES):
        for k in range(places.shape[1]):
            signs = np.zeros(n)
            signs[columns[:, k]] = rng.choice([-1.0, 1.0], len(columns))
            found[k] += signs @ solve(signs) / PROBES
    return found
