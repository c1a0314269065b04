"""Item parameters with a prior learnt from the items themselves, for few respondents or sparse data.

The prior's scales are updated with each item's posterior variance (empirical Bayes from the Laplace covariance): a
joint mode over items and scales would shrink the scales to nothing. Theta's origin and unit are set by standardising
the respondents after each update, and the steps between updates leave them alone: with thousands of items to a hundred
respondents, what the prior gains by moving all items together would otherwise outweigh the population.

Where abilities are well known, the prior is learnt from the items' posteriors by quadrature, and the estimates are
posterior means (`item_quadrature`); elsewhere the posteriors are taken as normal around the mode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from irtbench.estimation.adaptive import with_adapted_nodes
from irtbench.estimation.item_quadrature import item_quadrature, known_abilities, largest_change, likelier_signs
from irtbench.estimation.mode import Mode, Problem, expected_counts, find_mode, gradient_and_curvature
from irtbench.models.priors import Hierarchy

FEWEST_STEPS, MOST_UPDATES = 3, 100
FEW_SETTLED = 0.02  # change of the prior's scales at which few respondents can say no more of them
MOST_STANDARDISED = 10  # times that the posterior means are
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
    by less than two hundred times `tolerance` in the last update (by less than .02 where abilities are well known).
    """
    parameters = start.clone()
    sign = torch.where(parameters[:, 0] < 0, -1.0, 1.0)
    parameters[:, 0] = sign * parameters[:, 0].abs().clamp(min=SMALLEST_SLOPE)
    problem = with_adapted_nodes(problem, parameters, shrink=0.35)
    steps = 0
    for update in range(1, MOST_UPDATES + 1):
        problem = replace(problem, held=origin_and_unit(parameters))
        mode = find_mode(problem, start=parameters, tolerance=100 * tolerance, max_steps=max_steps)
        steps += mode.steps
        parameters, origin, unit = standardised(problem, mode.parameters)
        problem = with_adapted_nodes(problem, parameters, shrink=0.6)
        before = problem.priors.hierarchy or Hierarchy()
        theta = known_abilities(problem, parameters)
        if theta is None:
            learnt = learn(problem, parameters)
        else:
            parameters = likelier_signs(problem, parameters, theta, centred(before, parameters))
            learnt = item_quadrature(problem, parameters, theta, centred(before, parameters)).learn(before)
        problem = replace(problem, priors=replace(problem.priors, hierarchy=learnt))
        change = max(largest_change(before, learnt), abs(origin), abs(unit - 1))
        progress(f"prior updated {update} times, last change {change:.1e}")
        settled = change < (200 * tolerance if theta is None else max(200 * tolerance, FEW_SETTLED))
        if not mode.converged or (update >= FEWEST_STEPS and settled):
            break
    settled = mode.converged and settled
    problem = replace(problem, held=origin_and_unit(parameters))
    mode = find_mode(problem, start=parameters, tolerance=100 * tolerance, max_steps=max_steps)
    how = "not settled" if not settled else "settled" if change < 200 * tolerance else "stopped early on purpose"
    reason = f"prior {how} after {update} updates (last change {change:.1e}); {mode.stopped_because}"
    mode = replace(mode, steps=steps + mode.steps, converged=settled and mode.converged, stopped_because=reason)
    theta = known_abilities(problem, mode.parameters)
    return problem, mode if theta is None else with_posterior_means(problem, mode, theta)


def centred(hierarchy: Hierarchy, parameters: Tensor) -> Hierarchy:
    """The density moved to where the items are, since theta's origin and unit have just been moved."""
    return replace(hierarchy, mean=(float(parameters[:, 0].abs().log().mean()), float(parameters[:, -2].mean())))


def with_posterior_means(problem: Problem, mode: Mode, theta: Tensor) -> Mode:
    """Posterior means and covariances of a and d, abilities being given, in place of the mode."""
    assert problem.priors.hierarchy is not None
    quadrature = item_quadrature(problem, mode.parameters, theta, problem.priors.hierarchy)
    mean, covariance = quadrature.moments(problem.priors.hierarchy)
    parameters = mode.parameters.clone()
    parameters[:, 0], parameters[:, -2] = mean.unbind(1)
    # theta's origin and unit were set at the mode; the means have a slightly different one
    for _ in range(MOST_STANDARDISED):
        parameters, origin, unit = standardised(problem, parameters)
        change = covariance.new_tensor([[unit, 0.0], [origin, 1.0]])
        covariance = change @ covariance @ change.T
        if abs(origin) + abs(unit - 1) < 1e-6:
            break
    counts = expected_counts(problem, parameters)
    padded = torch.nn.functional.pad(covariance, (0, 1, 0, 1))  # nothing is guessed
    return replace(
        mode, parameters=parameters, covariance=padded, log_likelihood=counts.log_likelihood,
        stopped_because=f"{mode.stopped_because}; estimates are posterior means",
    )  # fmt: skip


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


def learn(problem: Problem, parameters: Tensor) -> Hierarchy:
    """Mean and covariance of (log |a|, d) over items: of their modes, plus the average posterior covariance."""
    counts = expected_counts(problem, parameters)
    information = gradient_and_curvature(problem, parameters, counts)[1].information
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
