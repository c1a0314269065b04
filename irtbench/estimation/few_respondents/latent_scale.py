"""Location and scale of theta where items outnumber respondents: set by the respondents, not by the items' priors.

A prior of each item says a little about location and scale of theta; thousands of items together say it so loudly that
abilities of a hundred respondents would take any mean and standard deviation that the priors like. Steps on the items
leave the two directions alone in which location and scale move all items, and the respondents are standardised between
modes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.item_tensors import INTERCEPT, ItemTensors


def location_and_scale(items: ItemTensors) -> Tensor:
    """The two directions in which theta's location and scale move all items: d by a, and a by a; orthonormal."""
    directions = torch.zeros(2, *items.matrix.shape, dtype=torch.float64, device=items.intercept.device)
    directions[0, :, INTERCEPT] = items.slope[:, 0]
    directions[1, :, 0] = items.slope[:, 0]
    return directions / directions.flatten(1).norm(dim=1)[:, None, None]


def standardised(problem: Problem, items: ItemTensors) -> tuple[ItemTensors, float, float]:
    """Items for theta with mean 0 and variance 1 among the respondents, and the mean and standard deviation it had."""
    theta = problem.nodes.theta[:, 0]
    respondents = problem.counts(items).respondents / len(problem.rows)
    mean = float(respondents @ theta)
    deviation = float(respondents @ (theta - mean) ** 2) ** 0.5
    return items.rescaled(mean, deviation), mean, deviation
