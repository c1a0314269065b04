"""Item parameters with a prior learnt from the items themselves, for few respondents or sparse data.

The prior's scales are updated with each item's posterior variance (empirical Bayes from the Laplace covariance): a
joint mode over items and scales would shrink the scales to nothing. Theta's origin and unit are set by standardising
the respondents after each update, and the steps between updates leave them alone: with thousands of items to a hundred
respondents, what the prior gains by moving all items together would otherwise outweigh the population.

Where abilities are well known, items are integrated out instead (`random_items`), and the estimates are their posterior
means; elsewhere the posteriors are taken as normal around the mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from irtbench.estimation.few_respondents.random_items import LEAST_DEVIATION, fit_random_items, known_abilities
from irtbench.estimation.marginal.e_step import Problem, expected_counts
from irtbench.estimation.marginal.m_step import item_derivatives, with_probability
from irtbench.estimation.marginal.mode import Mode, find_mode
from irtbench.estimation.marginal.nodes import with_adapted_nodes
from irtbench.estimation.marginal.response_rows import DenseRows
from irtbench.models.priors import Hierarchy

FEWEST_STEPS, MOST_UPDATES = 3, 100
SMALLEST_SLOPE = 0.2  # of a start: log |a| must be finite, and the sign is kept


def find_hierarchical_mode(
    problem: Problem,
    start: Tensor,
    *,
    tolerance: float,
    max_steps: int,
    progress: Callable[[str], None] = lambda message: None,
) -> tuple[Problem, Mode]:
    """Mode of the item parameters under a learnt prior, and the problem with that prior and the nodes used.

    Converged when the last mode is one, and the prior's scales and correlation, and theta's origin and unit, changed
    by less than two hundred times `tolerance` in the last update.
    """
    parameters = start.clone()
    sign = torch.where(parameters[:, 0] < 0, -1.0, 1.0)
    parameters[:, 0] = sign * parameters[:, 0].abs().clamp(min=SMALLEST_SLOPE)
    problem = with_adapted_nodes(problem, parameters, shrink=0.35)
    theta = known_abilities(problem, parameters)
    if theta is not None:
        return items_integrated_out(problem, theta, parameters, tolerance=200 * tolerance, progress=progress)
    steps = 0
    for update in range(1, MOST_UPDATES + 1):
        problem = replace(problem, held=origin_and_unit(parameters))
        mode = find_mode(problem, start=parameters, tolerance=100 * tolerance, max_steps=max_steps)
        steps += mode.steps
        parameters, origin, unit = standardised(problem, mode.parameters)
        problem = with_adapted_nodes(problem, parameters, shrink=0.6)
        before = problem.priors.hierarchy or Hierarchy()
        learnt = learn(problem, parameters)
        problem = replace(problem, priors=replace(problem.priors, hierarchy=learnt))
        change = max(largest_change(before, learnt), abs(origin), abs(unit - 1))
        progress(f"prior updated {update} times, last change {change:.1e}")
        settled = change < 200 * tolerance
        if not mode.converged or (update >= FEWEST_STEPS and settled):
            break
    settled = mode.converged and settled
    problem = replace(problem, held=origin_and_unit(parameters))
    mode = find_mode(problem, start=parameters, tolerance=100 * tolerance, max_steps=max_steps)
    how = "settled" if settled else "not settled"
    reason = f"prior {how} after {update} updates (last change {change:.1e}); {mode.stopped_because}"
    converged = settled and mode.converged
    return problem, replace(mode, steps=steps + mode.steps, converged=converged, stopped_because=reason)


def items_integrated_out(
    problem: Problem,
    theta: Tensor,
    parameters: Tensor,
    *,
    tolerance: float,
    progress: Callable[[str], None] = lambda message: None,
) -> tuple[Problem, Mode]:
    """The fit of `random_items` in the form of a mode: posterior means of the items, and the abilities."""
    assert isinstance(problem.rows, DenseRows)
    found = fit_random_items(problem.rows, theta, parameters[:, 0] < 0, tolerance=tolerance, progress=progress)
    means = torch.nn.functional.pad(found.mean, (0, 1))  # nothing is guessed
    problem = replace(problem, priors=replace(problem.priors, hierarchy=found.prior))
    problem = with_adapted_nodes(problem, means, shrink=1.0)
    how = "settled" if found.converged else "not settled"
    reason = f"abilities and prior {how} after {found.updates} updates (last change {found.change:.1e})"
    if min(found.prior.deviation) <= LEAST_DEVIATION * 1.01:
        reason += f"; items are alike: a standard deviation of the prior is at its least, {LEAST_DEVIATION:g}"
    return problem, Mode(
        parameters=means,
        log_likelihood=expected_counts(problem, means).log_likelihood,
        log_posterior=found.log_likelihood,
        gradient=math.nan,
        change=found.change,
        steps=found.updates,
        converged=found.converged,
        stopped_because=f"{reason}; items integrated out, estimates are posterior means",
        covariance=torch.nn.functional.pad(found.covariance, (0, 1, 0, 1)),
        abilities=(found.theta, found.theta_covariance),
    )


def origin_and_unit(parameters: Tensor) -> Tensor:
    """The two directions in which theta's origin and unit move all items: d by a, and a by a; orthonormal."""
    directions = torch.zeros(2, *parameters.shape, dtype=torch.float64, device=parameters.device)
    directions[0, :, -2] = parameters[:, 0]
    directions[1, :, 0] = parameters[:, 0]
    return directions / directions.flatten(1).norm(dim=1)[:, None, None]


def standardised(problem: Problem, parameters: Tensor) -> tuple[Tensor, float, float]:
    """Item parameters for theta with mean 0 and variance 1 among the respondents, and the mean and sd it had."""
    theta = problem.nodes.theta[:, 0]
    respondents = expected_counts(problem, parameters).respondents / len(problem.rows)
    mean = float(respondents @ theta)
    deviation = float(respondents @ (theta - mean) ** 2) ** 0.5
    result = parameters.clone()
    result[:, -2] += parameters[:, 0] * mean
    result[:, 0] *= deviation
    return result, mean, deviation


def largest_change(before: Hierarchy, after: Hierarchy) -> float:
    """Largest change of a standard deviation or the correlation; the mean is theta's origin and unit."""
    return max(
        abs(after.deviation[0] - before.deviation[0]),
        abs(after.deviation[1] - before.deviation[1]),
        abs(after.correlation - before.correlation),
    )


def learn(problem: Problem, parameters: Tensor) -> Hierarchy:
    """Mean and covariance of (log |a|, d) over items: of their modes, plus the average posterior covariance."""
    counts = expected_counts(problem, parameters)
    information = item_derivatives(problem, with_probability(problem, parameters), counts).information
    covariance = torch.linalg.inv(information)[:, [0, -2]][:, :, [0, -2]]
    by_log = torch.stack([1 / parameters[:, 0], torch.ones_like(parameters[:, 0])], dim=1)
    covariance = covariance * by_log[:, :, None] * by_log[:, None, :]
    values = torch.stack([parameters[:, 0].abs().log(), parameters[:, -2]], dim=1)
    mean = values.mean(dim=0)
    total = (values - mean).T @ (values - mean) / len(values) + covariance.mean(dim=0)
    deviation = torch.diagonal(total).sqrt()
    return Hierarchy(
        (float(mean[0]), float(mean[1])),
        (float(deviation[0]), float(deviation[1])),
        float(total[0, 1] / (deviation[0] * deviation[1])),
    )
