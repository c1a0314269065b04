"""Location and scale of theta where items outnumber respondents: set by the respondents, not by the items' priors.

A prior of each item says a little about location and scale of theta; thousands of items together say it so loudly that
abilities of a hundred respondents would take any mean and standard deviation that the priors like. Here the steps on
the items leave the two directions alone in which location and scale move all items, and the respondents are
standardised after each mode until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from irtbench.estimation.driver import alternate
from irtbench.estimation.estimate import Estimate
from irtbench.estimation.marginal.mode import find_mode, find_mode_on_right_nodes
from irtbench.estimation.marginal.nodes import with_adapted_nodes
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.item_tensors import INTERCEPT, ItemTensors

FEWEST_UPDATES, MOST_UPDATES = 2, 100


def find_standardised_mode(
    problem: Problem,
    start: ItemTensors,
    *,
    tolerance: float,
    max_steps: int,
    progress: Callable[[str], None] = lambda message: None,
) -> tuple[Problem, Estimate]:
    """Mode of the items under a prior that is given, theta having mean 0 and variance 1 among the respondents.

    Converged when the last mode is one, and mean and standard deviation of theta changed by less than two hundred times
    `tolerance` in the last update.
    """
    items, steps = start, 0

    def update() -> tuple[float, bool]:
        nonlocal problem, items, steps
        problem = replace(problem, fixed_directions=location_and_scale(items))
        mode = find_mode(problem, start=items, tolerance=100 * tolerance, max_steps=max_steps)
        steps += mode.status.steps
        items, mean, deviation = standardised(problem, mode.items)
        problem = with_adapted_nodes(problem, items, room=0.6)
        return max(abs(mean), abs(deviation - 1)), mode.status.converged

    learning = alternate(
        "location and scale of theta", update, tolerance=200 * tolerance, most=MOST_UPDATES, fewest=FEWEST_UPDATES,
        progress=progress,
    )  # fmt: skip
    problem = replace(problem, fixed_directions=location_and_scale(items))
    problem, mode = find_mode_on_right_nodes(problem, items, tolerance=100 * tolerance, max_steps=max_steps)
    status = replace(mode.status, steps=steps + mode.status.steps, learning=learning)
    return problem, replace(mode, status=status)


def location_and_scale(items: ItemTensors) -> Tensor:
    """The two directions in which theta's location and scale move all items: d by a, and a by a; orthonormal."""
    directions = torch.zeros(2, *items.matrix.shape, dtype=torch.float64, device=items.intercept.device)
    directions[0, :, INTERCEPT] = items.slope[:, 0]
    directions[1, :, 0] = items.slope[:, 0]
    return directions / directions.flatten(1).norm(dim=1)[:, None, None]


def standardised(problem: Problem, items: ItemTensors) -> tuple[ItemTensors, float, float]:
    """Items for theta with mean 0 and variance 1 among the respondents, and the mean and sd it had."""
    theta = problem.nodes.theta[:, 0]
    respondents = problem.counts(items).respondents / len(problem.rows)
    mean = float(respondents @ theta)
    deviation = float(respondents @ (theta - mean) ** 2) ** 0.5
    return items.rescaled(mean, deviation), mean, deviation
