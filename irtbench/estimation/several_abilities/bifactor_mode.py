"""The mode of the items of a model with testlets, on nodes that are right, and at a maximum.

The steps are those of one ability (`marginal.mode`). Where all slopes on a specific ability are 0 the likelihood has no
gradient by them, whatever the data; so the steps start from slopes of one sign and from those that the correlations of
a testlet's residuals ask for, and go on from the better of the two. A testlet of few items says little of its ability,
so that EM is slow at the end; once the observed information is positive definite Newton steps go the rest of the way.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.estimate import Estimate
from irtbench.estimation.marginal.m_step import LARGEST_STEP, item_derivatives, moved
from irtbench.estimation.marginal.mode import MOST_PLACINGS, find_mode
from irtbench.estimation.marginal.nodes import MOST_ERROR
from irtbench.estimation.marginal.observed_information import invert, observed_information
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.marginal.start import starting_values
from irtbench.estimation.several_abilities.bifactor_problem import BifactorProblem, grid_for, integration_error
from irtbench.estimation.several_abilities.factor_mode import (
    FINER,
    FIRST_STEPS,
    FIRST_TOLERANCE,
    ROOM,
    FactorMode,
)
from irtbench.estimation.several_abilities.factor_start import (
    NORMAL_OGIVE,
    item_correlations,
    loadings_of,
    replace_slopes,
)
from irtbench.estimation.several_abilities.lattice import CPU
from irtbench.estimation.status import Stop
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.bifactor_row import ALONE, GENERAL, SPECIFIC, BifactorNodes, ItemGroups
from irtbench.models.pyro_model.item_tensors import LINEAR, ItemTensors
from irtbench.models.pyro_model.model import logistic_model
from irtbench.models.pyro_model.rows import encode_responses
from irtbench.models.pyro_model.shared import SharedParameters

START_SLOPE = 0.5  # on a specific ability
COARSE_ROOM = 1.6  # standard deviations of the narrowest posterior that nodes are apart to begin with
MOST_NEWTON_STEPS, MOST_HALVINGS = 20, 6


def bifactor_problem(
    responses: ResponseMatrix,
    testlets: ItemGroups,
    nodes: BifactorNodes | None = None,
    *,
    equal: bool = False,
    device: torch.device = CPU,
    dtype: torch.dtype = torch.float64,
) -> BifactorProblem:
    """Data of a model with testlets, without a prior.

    Parameters
    ----------
    responses, testlets
        The data.
    nodes
        None for some to begin with.
    equal
        Whether the items of each testlet have one specific slope; those of a testlet of two always have.
    device, dtype
        Where to compute, and the precision of the sums; nodes that are given are there.
    """
    n_items, testlets = responses.n_items, testlets.to(device)
    slopes_free = torch.ones(n_items, 2, dtype=torch.bool, device=device)
    zeros = torch.zeros(n_items, dtype=torch.float64, device=device)
    slopes_free[testlets.alone, SPECIFIC] = False
    alike = [members for members in testlets.members if equal or len(members) == 2]
    model = partial(
        logistic_model,
        priors=Priors.named("none"),
        guessing_free=zeros.to(torch.bool),
        guessing_fixed=zeros,
        slopes_free=None if alike else slopes_free,
        shared=SharedParameters.alike(slopes_free, SPECIFIC, alike) if alike else None,
        testlets=testlets,
    )
    if nodes is None:
        usual = ItemTensors(slopes_free.to(torch.float64), zeros, zeros)
        nodes = replace(grid_for(usual, testlets, room=COARSE_ROOM), dtype=dtype)
    traced = Problem.of(model, encode_responses(responses, device), nodes)
    return BifactorProblem(model, traced.rows, nodes, traced.prior, testlets=testlets)


def find_bifactor_mode(
    problem: BifactorProblem, *, tolerance: float, max_steps: int, standard_errors: bool
) -> FactorMode:
    """The mode on nodes that are right for everybody, its curvature tested.

    Parameters
    ----------
    problem
        As `bifactor_problem` makes it.
    tolerance, max_steps
        As for `find_mode`.
    standard_errors
        Whether a covariance is wanted.
    """
    first = (
        find_mode(problem, start=start, tolerance=FIRST_TOLERANCE, max_steps=min(FIRST_STEPS, max_steps))
        for start in bifactor_starts(problem)
    )
    start = max(first, key=lambda mode: mode.log_posterior).items
    room, steps, error, words = ROOM, 0, float("nan"), ""
    for _ in range(MOST_PLACINGS):
        grid = grid_for(start, problem.items_together, room=room)
        problem = replace(problem, nodes=replace(grid, dtype=problem.nodes.dtype))
        words = f"grid of {problem.grid.n_general} x {problem.grid.n_specific} nodes, a specific ability at a time"
        start, newton_steps = by_newton(problem, start, tolerance)
        mode = find_mode(problem, start=start, tolerance=tolerance, max_steps=max_steps)
        steps += mode.status.steps + newton_steps
        mode = replace(mode, status=replace(mode.status, steps=steps))
        if not mode.status.converged:
            return FactorMode(mode, None, words, error)
        error = integration_error(problem, mode.items, mode.log_likelihood, room=room)
        start = mode.items
        if error < MOST_ERROR:
            return with_covariance(problem, mode, words, error, standard_errors)
        room *= FINER
    return FactorMode(replace(mode, status=replace(mode.status, stop=Stop.NODES_NOT_RIGHT)), None, words, error)


def by_newton(problem: BifactorProblem, items: ItemTensors, tolerance: float) -> tuple[ItemTensors, int]:
    """Go uphill by Newton steps as long as the observed information is positive definite; and the number of steps.

    A step is halved until the likelihood rises by it.
    """
    free, by_free = problem.free[:, LINEAR].flatten(), estimated(problem)
    problem = problem.in_float64()
    here = problem.evaluate(items)
    for number in range(MOST_NEWTON_STEPS):
        gradient = by_free.T @ item_derivatives(problem, items, here.counts).gradient[:, LINEAR].flatten()
        information = by_free[free].T @ observed_information(problem, items) @ by_free[free]
        inverse, loose = invert(information, most=math.inf)
        if bool(loose.any()) or float(gradient @ inverse @ gradient) < tolerance**2:
            return items, number
        step = torch.nn.functional.pad((by_free @ inverse @ gradient).reshape(len(items), -1), (0, 1))
        step /= (step.abs().max() / LARGEST_STEP).clamp(min=1.0)
        tried = (problem.evaluate(moved(items, step / 2**halvings)) for halvings in range(MOST_HALVINGS))
        there = next((found for found in tried if found.log_posterior > here.log_posterior), None)
        if there is None:
            return items, number
        items, here = there.items, there
    return items, MOST_NEWTON_STEPS


def with_covariance(
    problem: BifactorProblem, mode: Estimate, words: str, error: float, standard_errors: bool
) -> FactorMode:
    """The mode with positive signs, if it is a maximum, and its covariance."""
    mode = replace(mode, items=with_positive_signs(problem, mode.items))
    free = problem.free[:, LINEAR].flatten()
    by_free = estimated(problem)
    information = observed_information(problem, mode.items)
    inverse, loose = invert(by_free[free].T @ information @ by_free[free])
    each = by_free.reshape(len(mode.items), -1, by_free.shape[1])
    if bool(loose.any()):
        items = (each[:, :, loose] != 0).flatten(1).any(dim=1)
        return FactorMode(replace(mode, status=mode.status.unless_loose(items.tolist())), None, words, error)
    covariance = each @ inverse @ each.transpose(1, 2) if standard_errors else None
    return FactorMode(mode, covariance, words, error)


def estimated(problem: BifactorProblem) -> Tensor:
    """Slopes and intercepts by the parameters that are estimated, shape (n_items (n_factors + 1), n_estimated)."""
    shared = problem.prior.shared
    own = problem.free[:, LINEAR] if shared is None else shared.own
    columns = torch.eye(own.numel(), dtype=torch.float64, device=own.device)[:, own.flatten()]
    return columns if shared is None else torch.cat([columns, shared.design.flatten(1).T], dim=1)


def with_positive_signs(problem: BifactorProblem, items: ItemTensors) -> ItemTensors:
    """Every ability turned so that the sum of the slopes on it is positive."""
    slope = items.slope.clone()
    slope[:, GENERAL] *= sign_of_sum(slope[:, GENERAL])
    for members in problem.items_together.members:
        slope[members, SPECIFIC] *= sign_of_sum(slope[members, SPECIFIC])
    return replace(items, slope=slope)


def sign_of_sum(slopes: Tensor) -> float:
    """-1 where slopes have a negative sum, else 1."""
    return -1.0 if float(slopes.sum()) < 0 else 1.0


def bifactor_starts(problem: BifactorProblem) -> list[ItemTensors]:
    """Slopes of one sign on each specific ability; and, where they are free, those that residual correlations say."""
    items = starting_values(problem)
    free = problem.free[:, SPECIFIC] if problem.prior.shared is None else problem.prior.shared.own[:, SPECIFIC]
    alike = items.slope.clone()
    alike[problem.items_together.of_item != ALONE, SPECIFIC] = START_SLOPE
    if not bool(free.any()):
        return [replace(items, slope=alike)]
    general = items.slope[:, GENERAL]
    loading = general / (NORMAL_OGIVE**2 + general**2).sqrt()
    residual = item_correlations(problem) - torch.outer(loading, loading)
    by_residuals = alike.clone()
    for members in problem.items_together.members:
        if bool(free[members].all()):
            own = loadings_of(residual[members][:, members], 1)
            by_residuals[members, SPECIFIC] = replace_slopes(items, own).slope[:, 0]
    return [replace(items, slope=slope) for slope in (alike, by_residuals)]
