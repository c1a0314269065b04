"""Newton's steps to the maximum of the marginal likelihood of ratings; normal distributions of raters, learnt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, get_lapack_funcs, solve_triangular
from scipy.sparse import csr_array, diags_array, eye_array
from scipy.sparse.linalg import LinearOperator, cg

from irtbench.data.input_error import InputError
from irtbench.estimation.raters.category_curve import Floats
from irtbench.estimation.raters.rating_problem import Evaluated, RatingProblem

MOST_FACTORED = 1500  # parameters up to which every step factors the information
MOST_DOUBLE = 2000  # parameters up to which the information is inverted in double precision
MOST_PARAMETERS = 20_000  # of which the inverse, 4 bytes an entry, is stored
STRIP, ROWS = 512, 64  # rows of a large matrix, and combinations of parameters, at a time
DRAWS, MOST_DRAWS = 600, 8  # pairs of draws around the raters' mean: raters times pairs, about, and pairs at most
FROZEN = 0.05  # the same, from which on raters are integrated out
REFRESHED = 4  # steps with one information
ROUGH = 100.0  # times the gain that is enough, from which on raters are integrated out
HALVED = 10  # times that a step is, at most
START, LEAST = 0.5, 1e-4  # of a variance
PROBES = 6  # random signs by which the trace of a large inverse is estimated
NARROWER = 0.25  # of a posterior's standard deviation from one pass to the next, at most
FIRST_PASSES, PLACED = 8, 0.99  # that place the nodes, until those of such a share of respondents stay
SHORTEST, LONGEST = 2.0**-10, 4.0  # of a step
SETTLED = 2e-3  # change of the logarithm of a variance


@dataclass(frozen=True, eq=False)
class Mode:
    """Where the steps ended.

    Parameters
    ----------
    problem
        Whose they were.
    x
        The parameters.
    found
        Likelihood, derivatives and information there.
    variances
        Of the raters' normal distributions, by column of their parameters; empty where these are fixed.
    design
        The parameters by the free ones: x changes by design @ change.
    steps
        How many.
    converged
        Whether another step would add little to the log-likelihood, and the variances have settled.
    """

    problem: RatingProblem
    x: Floats
    found: Evaluated
    variances: Floats
    design: csr_array
    steps: int = 0
    converged: bool = False

    @cached_property
    def precision(self) -> Floats:
        """Of each parameter's prior, shape (n_parameters,)."""
        found = np.zeros(len(self.x))
        if len(self.variances):
            found[self.problem.places["raters"]] = 1 / self.variances
        return found

    @cached_property
    def information(self) -> csr_array:
        """Of the free parameters, with the precision of the normal distributions."""
        observed = self.found.complete - self.found.missing + diags_array(self.precision)
        return (self.design.T @ observed @ self.design).tocsr()

    def moved(
        self, x: Floats, found: Evaluated, solve: Callable[[Floats], Floats] | None, change: float
    ) -> tuple[Mode, float]:
        """A step further, and how much the logarithm of a variance of the raters' distributions changes with it.

        With v the posterior variances, tau^2 = sum s^2 / (R - sum v / tau^2), at whose fixed point it is the mean of
        s^2 + v. Without them neither variance nor the last change are others.
        """
        now, variances = replace(self, x=x, found=found, steps=self.steps + 1), self.variances
        if not len(variances) or solve is None:
            return now, change
        places = self.problem.places["raters"]
        shrunk = np.minimum(inverse_sums(solve, self.design, places) / variances, 0.98 * len(places))
        updated = np.maximum((x[places] ** 2).sum(axis=0) / (len(places) - shrunk), LEAST)
        return replace(now, variances=updated), float(np.abs(np.log(updated / variances)).max())

    @cached_property
    def covariance(self) -> Covariance:
        """Of the estimates: the inverse of the observed information (Louis, 1982)."""
        n = self.information.shape[0]
        if n > MOST_PARAMETERS:
            raise InputError(
                f"raters: {n} parameters; the standard errors of more than {MOST_PARAMETERS} do not go into memory; "
                "expected fewer items and raters, or standard_errors=False"
            )
        diagonal = self.information.diagonal()
        unit = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))  # in which single precision errs alike everywhere
        precision = np.float64 if n <= MOST_DOUBLE else np.float32
        scaled = (diags_array(unit) @ self.information @ diags_array(unit)).astype(precision).toarray(order="F")
        factored, inverted = get_lapack_funcs(("potrf", "potri"), (scaled,))
        factor, wrong = factored(scaled, lower=1, overwrite_a=1)
        roots = np.diagonal(factor).astype(np.float64) / unit
        inverse, failed = inverted(factor, lower=1, overwrite_c=1)
        if wrong or failed:
            raise InputError(
                "raters: the ratings do not determine all parameters (the information is singular): an item, a rater "
                "or a step with too few ratings, or raters that share too little; expected raters='learnt', fewer "
                "kinds of parameters, or more ratings in common"
            )
        inverse *= unit
        inverse *= unit[:, None]
        return Covariance(self.design, inverse.T, 2 * float(np.log(roots).sum()))


@dataclass(frozen=True, eq=False)
class Covariance:
    """Covariance of the parameters, design @ free @ design'; of `free` the upper triangle is given.

    `log_determinant` is that of the information.
    """

    design: csr_array
    free: Floats
    log_determinant: float

    def __post_init__(self) -> None:
        for k in range(0, len(self.free), STRIP):  # the lower triangle by strips, without another matrix
            own = slice(k, k + STRIP)
            self.free[own, :k] = self.free[:k, own].T
            corner = np.triu(self.free[own, own])
            self.free[own, own] = corner + np.triu(corner, 1).T

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

    def among(self, places: Sequence[int]) -> Floats:
        """Covariances of a few parameters."""
        own = self.design[list(places)]
        return np.asarray((own @ self.free) @ own.T)

    def variances(self, rows: Any, less: Floats | None = None) -> Floats:
        """Variances of combinations of the parameters, of each less one combination that all have."""
        own = (csr_array(rows) @ self.design).tocsr()
        found = np.empty(own.shape[0])
        for k in range(0, len(found), ROWS):
            part = own[k : k + ROWS]
            there = np.unique(part.indices)
            dense = part[:, there].toarray()
            found[k : k + ROWS] = ((dense @ self.free[np.ix_(there, there)]) * dense).sum(axis=1)
        if less is not None:
            common = self.free @ (self.design.T @ less)
            found += common @ (self.design.T @ less) - 2 * (own @ common)
        return np.asarray(np.maximum(found, 0.0))


def design_of(problem: RatingProblem, *, learnt: bool) -> csr_array:
    """The parameters by the free ones; raters' sum to zero where no normal distribution is learnt.

    Severities sum to zero over each set of raters who share items, for they and the items' intercepts would shift
    against each other; consistencies' logarithms and steps over all raters.
    """
    free, places, found = problem.free.copy(), problem.places["raters"], eye_array(problem.n_parameters, format="lil")
    for column in range(0 if learnt else places.shape[1]):
        sets = problem.ratings.item_parts if column == 0 else np.zeros(len(places), dtype=np.int64)
        for part in np.unique(sets):
            own = places[sets == part, column]
            free[own[-1]], found[own[-1], own[:-1]] = False, -1.0
    return found.tocsr()[:, free]


def find_mode(problem: RatingProblem, *, learnt: bool, tolerance: float, max_steps: int) -> Mode:
    """Newton's steps, each with the observed information, halved until the likelihood rises.

    The variance of raters' normal distribution follows after each step. What is so found is the mode of all parameters
    together, at which the standard deviation of ability is too small where raters have few ratings; `integrated` goes
    on from there.
    """
    n, design = len(problem.ratings.respondent_ids), design_of(problem, learnt=learnt)
    x, mean, deviation, enough = problem.start(), np.zeros(n), np.ones(n), tolerance * design.shape[1]
    for _ in range(FIRST_PASSES):
        found, before = problem.evaluate(x, mean, deviation), mean
        mean, deviation = found.mean, np.maximum(found.deviation, NARROWER * deviation)
        if (np.abs(mean - before) < deviation).mean() > PLACED:
            break
    found = problem.evaluate(x, mean, deviation, information=True)
    now = Mode(problem, x, found, np.full(problem.places["raters"].shape[1] * learnt, START), design)
    change = np.inf if learnt else 0.0
    while True:
        precision, solve = now.precision, solver(now.information)
        gradient = design.T @ (now.found.gradient - precision * now.x)
        direction = None if solve is None else solve(gradient)
        if direction is None or not gradient @ direction > 0:  # far from the maximum: expected of the complete data
            complete = (design.T @ (now.found.complete + diags_array(precision)) @ design).tocsr()
            direction = damped(complete)(gradient)
        gain = float(gradient @ direction) / 2
        if not np.isfinite(gain) or (gain < enough * (ROUGH if learnt else 1.0) and change < FROZEN):
            break
        if now.steps == max_steps:
            return now
        step, objective = design @ direction, now.found.log_likelihood.sum() - precision @ now.x**2 / 2
        length, little = min(1.0, LONGEST / np.abs(step).max()), 1e-9 * abs(objective)
        deviation = np.maximum(now.found.deviation, NARROWER * deviation)
        while True:
            x = now.x + length * step
            found = problem.evaluate(x, now.found.mean, deviation, information=True)
            if length == 0 or found.log_likelihood.sum() - precision @ x**2 / 2 >= objective - little:
                break
            length = length / 2 if length > 2 * SHORTEST else 0.0
        # the nodes may have moved, whose likelihood may differ from that of the former by more than a step's
        if length == 0 and abs(found.log_likelihood.sum() - now.found.log_likelihood.sum()) <= little:
            return now
        now, change = now.moved(x, found, solve, change)
    if learnt and np.isfinite(gain):
        return integrated(now, enough=10 * enough, max_steps=max_steps)
    return replace(now, converged=gain < enough)


def integrated(now: Mode, *, enough: float, max_steps: int) -> Mode:
    """Raters' parameters integrated out with a normal posterior (variational), from the mode of all together.

    The gradient is averaged over draws from that posterior, in pairs about its mean, of the same random numbers. The
    complete and the missing information are found anew after some steps, and before the last.
    """
    problem, design, places = now.problem, now.design, now.problem.places["raters"]
    n_pairs = int(np.clip(DRAWS // len(places), 1, MOST_DRAWS))
    draws = np.random.default_rng(0).choice([-1.0, 1.0], (n_pairs, places.size))  # of normal draws the least noisy
    since, change, before = 0, np.inf, now.x
    while True:
        solve = solver(now.information)
        if solve is None:
            return now
        around = drawn_around(now.information, draws, design, places)
        for _ in range(HALVED + 1):
            nodes = now.found.mean, now.found.deviation
            gradients = [problem.evaluate(now.x + away, *nodes).gradient for away in around]
            gradient = design.T @ (np.mean(gradients, axis=0) - now.precision * now.x)
            if np.isfinite(gradient).all():
                break
            now = replace(now, x=(now.x + before) / 2)  # where intercepts of graded items do not fall
        else:
            return now
        direction = solve(gradient)
        gain = float(gradient @ direction) / 2
        settled = gain < enough and change < SETTLED
        if (settled and since == 0) or now.steps == max_steps or not np.isfinite(gain):
            return replace(now, converged=settled)
        if settled or since == REFRESHED:
            now, since = replace(now, found=problem.evaluate(now.x, *nodes, information=True)), 0
            continue
        before, since = now.x, since + 1
        now, change = now.moved(now.x + design @ direction, now.found, solve, change)


def solver(information: csr_array) -> Callable[[Floats], Floats] | None:
    """What solves with this matrix; None if it is not positive definite."""
    n = information.shape[0]
    if n <= MOST_FACTORED:
        try:
            factor = cho_factor(information.toarray(), lower=True)
        except LinAlgError:
            return None
        return lambda right: np.asarray(cho_solve(factor, right))
    diagonal = information.diagonal()
    if (diagonal <= 0).any():
        return None
    by_diagonal = LinearOperator((n, n), matvec=lambda right: right / diagonal)
    return lambda right: np.asarray(cg(information, right, rtol=1e-7, maxiter=1000, M=by_diagonal)[0])


def damped(information: csr_array) -> Callable[[Floats], Floats]:
    """What solves with this matrix, its diagonal raised until it is positive definite."""
    ridge, unit = 1e-8, eye_array(information.shape[0], format="csr")
    while (solve := solver(information + ridge * unit)) is None:
        ridge = max(10 * ridge, 1e-4 * float(np.abs(information).sum(axis=1).max()))
    return solve


def drawn_around(information: csr_array, draws: Floats, design: csr_array, places: NDArray[np.int64]) -> list[Floats]:
    """Changes of the raters' parameters, drawn as if all else were known, each with its opposite; of many by variances.

    `draws` has shape (n_pairs, n_raters * width).
    """
    columns = design.indices[design.indptr[places.reshape(-1)]]  # of a row with one entry: without constraints each has
    if len(columns) <= MOST_FACTORED:
        factor = cho_factor(information[columns][:, columns].toarray(), lower=True)[0]
        changes = solve_triangular(factor, draws.T, lower=True, trans="T")
    else:
        changes = (draws / np.sqrt(information.diagonal()[columns])).T
    found = np.zeros((design.shape[0], len(draws)))
    found[places.reshape(-1)] = changes
    return [sign * change for change in found.T for sign in (1.0, -1.0)]


def inverse_sums(solve: Callable[[Floats], Floats], design: csr_array, places: NDArray[np.int64]) -> Floats:
    """Sums of the inverse's diagonal over the raters, by column of their parameters; of many by random signs."""
    n = design.shape[1]
    columns = design.indices[design.indptr[places]]
    if n <= MOST_FACTORED:
        return np.asarray(np.diagonal(solve(np.eye(n)))[columns].sum(axis=0))
    found, rng = np.zeros(places.shape[1]), np.random.default_rng(0)
    for _ in range(PROBES):
        for k in range(places.shape[1]):
            signs = np.zeros(n)
            signs[columns[:, k]] = rng.choice([-1.0, 1.0], len(columns))
            found[k] += signs @ solve(signs) / PROBES
    return found
