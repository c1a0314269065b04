"""The density of ability estimated with the items: smooth, with mean 0 and standard deviation 1.

Crowds have a tail of careless workers, and a normal density then distorts the items. The log density is a
polynomial in theta of degree 6 (log-linear smoothing, Holland & Thayer, 2000), whose first two moments only fix
theta's location and scale: four parameters more than the normal density has.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from irtbench.estimation.driver import alternate
from irtbench.estimation.estimate import Estimate
from irtbench.estimation.fixed_point import FixedPoint
from irtbench.estimation.marginal.mode import find_mode
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.node_tensors import NodeTensors

DEGREE = 6
N_DENSITY_PARAMETERS = DEGREE - 2  # mean and standard deviation are fixed
MOST_UPDATES = 200
MOST_SHIFT, MOST_AT_ENDS = 0.2, 1e-3  # of an accelerated density: one further off is not tried


def find_mode_with_population(
    problem: Problem,
    start: ItemTensors,
    *,
    tolerance: float,
    max_steps: int,
    progress: Callable[[str], None] = lambda message: None,
) -> tuple[Problem, Estimate]:
    """Mode of the items and the population's density together, and the problem with that density on its nodes.

    Steps on the items and on the density alternate, an EM algorithm for the density. With ten items abilities tell so
    little of it that hundreds of plain updates would not settle: updates are accelerated, and where the log-posterior
    is lower after an accelerated one, the plain one is taken. Converged when the items have a mode under a density none
    of whose cumulative masses the next plain update changes by more than ten times `tolerance`.
    """
    items, steps, path = start, 0, FixedPoint()
    highest, plain = -math.inf, None  # the plain update in place of which an accelerated one is tried
    weight = torch.exp(-0.25 * problem.nodes.theta[:, 0] ** 2)  # log densities count where there are people

    def mode_of_items() -> Estimate:
        nonlocal steps
        mode = find_mode(problem, start=items, tolerance=max(tolerance, 1e-4), max_steps=max_steps)
        steps += mode.status.steps
        return mode

    def update() -> tuple[float, bool]:
        nonlocal problem, items, path, highest, plain
        mode = mode_of_items()
        if plain is not None and not (mode.status.converged and mode.log_posterior >= highest):
            (nodes, items), path = plain, FixedPoint()
            problem = replace(problem, nodes=nodes)
            mode = mode_of_items()
        if not mode.status.converged:
            return math.inf, False
        highest, before = mode.log_posterior, problem.nodes.log_weights
        nodes, items = plain = standardised(problem.nodes, problem.counts(mode.items).respondents, mode.items)
        change = float((nodes.log_weights.exp() - before.exp()).cumsum(0).abs().max())
        if change >= 10 * tolerance:
            further = path.after(weight * before, weight * nodes.log_weights) / weight
            mass = torch.softmax(further, dim=0)
            if is_near_standard(nodes.theta[:, 0], mass):
                nodes, items = standardised(nodes, mass, items)
        problem = replace(problem, nodes=nodes)
        return change, True

    learning = alternate("density", update, tolerance=10 * tolerance, most=MOST_UPDATES, progress=progress)
    mode = find_mode(problem, start=items, tolerance=tolerance, max_steps=max_steps)
    status = replace(mode.status, steps=steps + mode.status.steps, learning=learning)
    return problem, replace(mode, status=status)


def is_near_standard(theta: Tensor, mass: Tensor) -> bool:
    """Whether a density has nearly the mean 0 and the standard deviation 1, and nothing at the ends of the nodes."""
    mean = float(mass @ theta)
    deviation = float(mass @ (theta - mean) ** 2) ** 0.5
    return (
        abs(mean) < MOST_SHIFT and abs(math.log(deviation)) < MOST_SHIFT and float(mass[[0, -1]].max()) < MOST_AT_ENDS
    )


def standardised(nodes: NodeTensors, respondents: Tensor, items: ItemTensors) -> tuple[NodeTensors, ItemTensors]:
    """Smooth the expected counts into a density of mean 0 and standard deviation 1, and take the items along.

    With theta = m + s theta', the density of theta' on the same nodes is that of theta at m + s theta', and items keep
    their curves with a' = s a, d' = d + m a.
    """
    theta = nodes.theta[:, 0]
    coefficients = smooth(theta, respondents)
    weights = torch.softmax(powers(theta) @ coefficients, dim=0)
    mean = float(weights @ theta)
    deviation = float(weights @ (theta - mean) ** 2) ** 0.5
    # the polynomial is known where there are nodes; carried on beyond them it may rise without limit
    place = (mean + deviation * theta).clamp(float(theta[0]), float(theta[-1]))
    log_weights = torch.log_softmax(powers(place) @ coefficients, dim=0)
    return NodeTensors(nodes.theta, log_weights, nodes.dtype), items.rescaled(mean, deviation)


def powers(theta: Tensor) -> Tensor:
    """Powers 1 to `DEGREE` of theta / 3, which keeps them of one size, shape (n_nodes, DEGREE)."""
    return torch.stack([(theta / 3) ** k for k in range(1, DEGREE + 1)], dim=1)


def smooth(theta: Tensor, respondents: Tensor, *, tolerance: float = 1e-9, max_steps: int = 200) -> Tensor:
    """Coefficients of the log density whose first `DEGREE` moments are those of the counts, shape (DEGREE,).

    Newton's method on the multinomial likelihood sum_q n_q log w_q, which is concave; a step that lowers it is halved.
    """
    basis = powers(theta)
    share = respondents / respondents.sum()
    coefficients = torch.zeros(DEGREE, dtype=torch.float64, device=theta.device)
    coefficients[1] = -4.5  # the standard normal density: -theta^2 / 2

    def objective(values: Tensor) -> float:
        return float(share @ torch.log_softmax(basis @ values, dim=0))

    for _ in range(max_steps):
        weights = torch.softmax(basis @ coefficients, dim=0)
        gradient = basis.T @ (share - weights)
        if float(gradient.abs().max()) < tolerance:
            break
        centred = basis - weights @ basis
        information = centred.T @ (weights[:, None] * centred)
        ridge = 1e-10 * torch.diag(torch.diagonal(information))
        step = torch.linalg.solve(information + ridge, gradient)
        while objective(coefficients + step) < objective(coefficients) - 1e-15 and float(step.abs().max()) > 1e-12:
            step = step / 2
        coefficients = coefficients + step
    return coefficients
