"""Abilities that are the root of an estimating equation: ML, MAP and Warm's weighted likelihood (NumPy only)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from irtbench.models.curves import by_ability
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.quadrature import Quadrature
from irtbench.models.theta_posterior import Trials, log_likelihood, row_batches, some_rows

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
    MAP, expected for WLE, NaN at an end; lower and upper, theta +- z standard errors within the range, at an end that
    end and where the log-likelihood lies z^2 / 2 below; and whether theta is at an end.
    """
    equation = _Equation(items, method, population)
    z = float(ndtri((1 + level) / 2))
    blocks = row_batches(len(values), items.n_items, most_rows=BLOCK)
    return np.concatenate([_solve(values[rows], some_rows(trials, rows), equation, z) for rows in blocks])


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
    lower = np.maximum(theta - z * standard_error, grid[0])
    upper = np.minimum(theta + z * standard_error, grid[-1])
    for row in np.flatnonzero(at_bound):
        own = slice(row, row + 1)
        lower[row], upper[row] = _within_drop(equation, values[own], some_rows(trials, own), z**2 / 2)
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


def _within_drop(equation: _Equation, values: NDArray[np.float64], trials: Trials, drop: float) -> tuple[float, float]:
    """Abilities from the end where the objective is highest to where it has fallen by ``drop``."""
    objective = equation.log_objective(values, trials)[0]
    above = equation.grid[objective > objective.max() - drop]
    return float(above[0]), float(above[-1])
