"""The mode of the items of a model with several abilities, on nodes that are right, and at a maximum.

The steps are those of one ability (`marginal.mode`). They start on a coarse grid; nodes are then placed for the
posteriors, and the result is checked as with one ability, against a finer and wider lattice. Steps uphill may end at a
saddle, such as two abilities on which all items have the same slopes: the observed information is then not positive
definite, and the steps go on in the direction in which the likelihood rises.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.estimate import Estimate
from irtbench.estimation.marginal.m_step import moved
from irtbench.estimation.marginal.mode import MOST_PLACINGS, find_mode, find_mode_on_right_nodes
from irtbench.estimation.marginal.nodes import describe_nodes, find_posteriors, with_right_nodes
from irtbench.estimation.marginal.nodes import integration_error as error_on_line
from irtbench.estimation.marginal.observed_information import sampling_covariance
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.marginal.start import starting_values
from irtbench.estimation.several_abilities.factor_information import Curvature, along, covariance_of, curvature
from irtbench.estimation.several_abilities.factor_start import factor_starts
from irtbench.estimation.several_abilities.lattice import (
    CPU,
    integration_error,
    log_likelihoods,
    nodes_are_right,
    quasi_monte_carlo_error,
    sobol_nodes,
    with_lattice,
)
from irtbench.estimation.several_abilities.rotation_freedom import positive_sign, principal_axes
from irtbench.estimation.status import Stop
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.item_tensors import LINEAR, ItemTensors
from irtbench.models.pyro_model.model import logistic_model
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.pyro_model.rows import encode_responses
from irtbench.models.quadrature import normal_grid

FIRST_STEPS, FIRST_TOLERANCE = 30, 0.05  # on the coarse grid
COARSE_ROOM, COARSE_TOLERANCE = 1.6, 0.02  # standard deviations of the narrowest posterior that nodes are apart
ROOM, FINER = 1.3, 0.7  # the same in earnest, and the share of it where nodes were found wrong
INFORMATION_ROOM = 1.5  # standard errors need no more
MOST_SADDLES = 5
STRIDES = (0.1, 0.3, 1.0)  # logits in the direction in which the likelihood rises
ONE_ABILITY_TOLERANCE = 1e-5  # of `fit_model`
MOST_PARAMETERS = 3_000  # whose information is computed at once


@dataclass(frozen=True)
class FactorMode:
    """Items of a model with several abilities.

    Parameters
    ----------
    mode
        The estimate; exploratory slopes are on principal axes.
    covariance
        Of slopes and intercept of each item, shape (n_items, n_factors + 1, n_factors + 1); None if not computed.
    nodes
        The nodes in words.
    integration_error
        Of the log-likelihood a response.
    """

    mode: Estimate
    covariance: Tensor | None
    nodes: str
    integration_error: float


def factor_problem(
    responses: ResponseMatrix,
    n_factors: int,
    zero_loadings: NDArray[np.bool_] | None,
    seed: int = 0,
    *,
    device: torch.device = CPU,
    dtype: torch.dtype = torch.float64,
) -> Problem:
    """Data of a model of several abilities without a prior, on nodes to begin with; `dtype` is that of the sums."""
    model = partial(
        logistic_model,
        priors=Priors.named("none"),
        guessing_free=torch.zeros(responses.n_items, dtype=torch.bool, device=device),
        guessing_fixed=torch.zeros(responses.n_items, dtype=torch.float64, device=device),
        slopes_free=None if zero_loadings is None else torch.from_numpy(~zero_loadings).to(device),
    )
    if n_factors == 1:
        nodes = NodeTensors.from_quadrature(normal_grid(), dtype=dtype, device=device)
    else:
        nodes = replace(sobol_nodes(n_factors, seed, device), dtype=dtype)
    return Problem.of(model, encode_responses(responses, device), nodes)


def find_factor_mode(
    problem: Problem, *, tolerance: float, max_steps: int, standard_errors: bool, seed: int
) -> FactorMode:
    """The mode of a block of items, its curvature tested and its nodes checked.

    Parameters
    ----------
    problem
        As `factor_problem` makes it.
    tolerance, max_steps
        As for `find_mode`.
    standard_errors
        Whether a covariance is wanted.
    seed
        Of the quasi-Monte Carlo points.
    """
    if problem.n_factors == 1:
        return find_one_ability(problem, min(tolerance, ONE_ABILITY_TOLERANCE), max_steps, standard_errors)
    search = Search(problem, tolerance, max_steps, seed)
    problem, mode, error, nodes = search.run()
    exploratory = problem.prior.slopes_free is None
    if exploratory:
        slopes = torch.from_numpy(principal_axes(mode.items.slope.cpu().numpy()))
        mode = replace(mode, items=replace(mode.items, slope=slopes.to(problem.rows.device)))
    else:
        signs = torch.from_numpy(positive_sign(mode.items.slope.cpu().numpy()))
        mode = replace(mode, items=replace(mode.items, slope=mode.items.slope * signs.to(problem.rows.device)))
    covariance = None
    if mode.status.converged and standard_errors and can_be_tested(problem):
        found = curvature_at(problem, mode.items)
        if found.definite:
            covariance = covariance_of(problem, mode.items, found, on_principal_axes=exploratory)
    return FactorMode(mode, covariance, nodes, error)


def find_one_ability(problem: Problem, tolerance: float, max_steps: int, standard_errors: bool) -> FactorMode:
    """A block of one ability, estimated as `fit_model` does."""
    start = starting_values(problem)
    problem, mode = find_mode_on_right_nodes(problem, start, tolerance=tolerance, max_steps=max_steps)
    covariance, error = None, float("nan")
    if mode.status.converged:
        assert mode.counts is not None
        posteriors = find_posteriors(problem, mode.items)
        error = error_on_line(problem, mode.items, mode.counts, posteriors)
        blocks, loose = sampling_covariance(problem, mode.items)
        mode = replace(mode, status=mode.status.unless_loose(loose.tolist()))
        if mode.status.converged and standard_errors:
            covariance = torch.from_numpy(blocks[:, LINEAR, LINEAR]).to(problem.rows.device)
    if float(mode.items.slope.sum()) < 0:
        mode = replace(mode, items=mode.items.turned())
        if covariance is not None:
            sign = covariance.new_tensor([-1.0, 1.0])
            covariance = covariance * sign[:, None] * sign
    return FactorMode(mode, covariance, describe_nodes(problem.nodes), error)


def can_be_tested(problem: Problem) -> bool:
    """Whether the information is small enough to be computed."""
    return int(problem.free.sum()) <= MOST_PARAMETERS


def curvature_at(problem: Problem, items: ItemTensors) -> Curvature:
    """The information on nodes as many as standard errors need."""
    return curvature(with_lattice(problem, items, room=INFORMATION_ROOM) or problem, items)


class Search:
    """Where to place the nodes, and where to go on from a saddle.

    Parameters
    ----------
    problem, tolerance, max_steps, seed
        See `find_factor_mode`.
    """

    def __init__(self, problem: Problem, tolerance: float, max_steps: int, seed: int) -> None:
        self.problem, self.tolerance, self.max_steps, self.seed = problem, tolerance, max_steps, seed
        self.steps = 0

    def run(self) -> tuple[Problem, Estimate, float, str]:
        """The problem on its last nodes, the mode, the error of the integral, and the nodes in words."""
        items = max((self._find(self.problem, start, first=True) for start in factor_starts(self.problem)), key=height)
        coarse = with_lattice(self.problem, items.items, room=COARSE_ROOM)
        if coarse is None:
            return self._by_quasi_monte_carlo(items.items)
        start = self._find(coarse, items.items, tolerance=max(COARSE_TOLERANCE, self.tolerance)).items
        problem, room, saddles = self.problem, ROOM, 0
        error, words = float("nan"), ""
        for _ in range(MOST_PLACINGS + MOST_SADDLES):
            placed = with_lattice(problem, start, room=room)
            if placed is None:
                return self._by_quasi_monte_carlo(start)
            problem = placed
            mode = self._find(problem, start)
            words = f"lattice of {len(problem.nodes.theta)} nodes where posteriors lie"
            if not mode.status.converged:
                return problem, mode, error, words
            error = integration_error(problem, mode.items, mode.log_likelihood, room=room)
            start = mode.items
            if not nodes_are_right(error):
                room *= FINER
                continue
            found = curvature_at(problem, mode.items) if can_be_tested(problem) else None
            if found is None or found.definite:
                return problem, mode, error, words
            if not found.saddle or saddles == MOST_SADDLES:
                loose = along(problem, found.loose.to(torch.float64)).any(dim=1)
                return problem, replace(mode, status=mode.status.unless_loose(loose.tolist())), error, words
            start, saddles = self._off_the_saddle(problem, mode.items, found), saddles + 1
        return problem, ended(mode, Stop.NODES_NOT_RIGHT), error, words

    def _find(
        self, problem: Problem, start: ItemTensors, *, tolerance: float | None = None, first: bool = False
    ) -> Estimate:
        """The mode on these nodes; only a few steps to begin with."""
        mode = find_mode(
            problem,
            start=start,
            tolerance=FIRST_TOLERANCE if first else tolerance or self.tolerance,
            max_steps=min(FIRST_STEPS, self.max_steps) if first else self.max_steps,
        )
        self.steps += mode.status.steps
        return replace(mode, status=replace(mode.status, steps=self.steps))

    def _by_quasi_monte_carlo(self, start: ItemTensors) -> tuple[Problem, Estimate, float, str]:
        """The mode on points that are the same for all, whose error is told but not bounded."""
        mode = self._find(self.problem, start)
        error = quasi_monte_carlo_error(self.problem, mode.items, mode.log_likelihood, seed=self.seed)
        n_points = len(self.problem.nodes.theta)
        if mode.status.converged and can_be_tested(self.problem):
            found = curvature(self.problem, mode.items)
            if found.saddle:
                mode = self._find(self.problem, self._off_the_saddle(self.problem, mode.items, found))
        return self.problem, mode, error, f"quasi-Monte Carlo, {n_points} points, their error estimated and not bounded"

    def _off_the_saddle(self, problem: Problem, items: ItemTensors, found: Curvature) -> ItemTensors:
        """The best of a few points in the direction in which the likelihood rises most."""
        direction = along(problem, found.directions[:, 0])
        direction = direction / direction.abs().max()
        tried = [moved(items, sign * stride * direction) for stride in STRIDES for sign in (-1.0, 1.0)]
        return max(tried, key=lambda there: float(log_likelihoods(problem, there, problem.nodes).sum()))


def height(mode: Estimate) -> float:
    """What is maximised."""
    return mode.log_posterior


def ended(mode: Estimate, stop: Stop) -> Estimate:
    """The same estimate with another reason of having stopped."""
    return replace(mode, status=replace(mode.status, stop=stop))


def on_right_nodes(problem: Problem, items: ItemTensors) -> Problem:
    """The problem with nodes for scoring its respondents with these items."""
    if problem.n_factors == 1:
        return with_right_nodes(problem, items, problem.counts(items))
    return with_lattice(problem, items, room=ROOM) or problem
