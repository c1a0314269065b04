"""Item parameters with a prior learnt from the items themselves, for few respondents or sparse data.

The prior's standard deviations are updated with each item's posterior variance (empirical Bayes from the Laplace
covariance): a joint mode over items and standard deviations would shrink these to nothing. Location and scale of theta
are set by standardising the respondents after each update, and the steps between updates leave them alone: with
thousands of items to a hundred respondents, what the prior gains by moving all items together would otherwise outweigh
the population.

Where abilities are well known, items are integrated out instead (`random_items`), and the estimates are their posterior
means; elsewhere the posteriors are taken as normal around the mode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from irtbench.data.input_error import InputError
from irtbench.estimation.driver import alternate
from irtbench.estimation.estimate import Estimate
from irtbench.estimation.few_respondents.latent_scale import location_and_scale, standardised
from irtbench.estimation.few_respondents.random_items import LEAST_DEVIATION, fit_random_items, known_abilities
from irtbench.estimation.marginal.m_step import item_derivatives
from irtbench.estimation.marginal.mode import find_mode, find_mode_on_right_nodes
from irtbench.estimation.marginal.nodes import with_adapted_nodes, with_right_nodes
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.status import Status, Stop
from irtbench.models.priors import Hierarchy, Priors
from irtbench.models.pyro_model.item_tensors import INTERCEPT, ItemTensors
from irtbench.models.pyro_model.rows import DenseRows

FEWEST_UPDATES, MOST_UPDATES = 3, 100
SMALLEST_SLOPE = 0.2  # of a start: log |a| must be finite, and the sign is kept


def find_hierarchical_mode(
    problem: Problem,
    priors: Priors,
    start: ItemTensors,
    *,
    tolerance: float,
    max_steps: int,
    mode_wanted: bool = False,
    progress: Callable[[str], None] = lambda message: None,
) -> tuple[Problem, Priors, Estimate]:
    """Mode of the item parameters under a learnt prior, with that prior, and the problem with it and the nodes used.

    Converged when the last mode is one, and the prior's standard deviations and correlation, and theta's location and
    scale, changed by less than two hundred times `tolerance` in the last update.

    Parameters
    ----------
    problem
        Whose model takes ``priors``, ``slope_sign`` and ``learn_mean``, see `logistic_model`.
    priors
        Where learning starts from.
    start
        Items to start from.
    tolerance, max_steps
        Of a fit under a prior that is given.
    mode_wanted
        Whether nothing but a mode will do, as for a variational posterior around it.
    progress
        Told of each update.

    Raises
    ------
    InputError
        If a mode is wanted where abilities are known so well that items are integrated out.
    """
    sign = torch.where(start.slope[:, 0] < 0, -1.0, 1.0)
    items = replace(start, slope=(sign * start.slope[:, 0].abs().clamp(min=SMALLEST_SLOPE))[:, None])
    problem = with_adapted_nodes(problem, items, room=0.6)
    theta = known_abilities(problem, items)
    if theta is not None and mode_wanted:
        raise InputError(
            "fit: with so few respondents the hierarchical prior gives posterior means already; expected no posterior"
        )
    if theta is not None:
        return items_integrated_out(problem, priors, theta, items, tolerance=200 * tolerance, progress=progress)
    steps = 0

    def mode_under(priors: Priors) -> Estimate:
        nonlocal problem, steps
        model = partial(problem.model, priors=priors, slope_sign=sign, learn_mean=True)
        problem = replace(Problem.of(model, problem.rows, problem.nodes), fixed_directions=location_and_scale(items))
        found = find_mode(problem, start=items, tolerance=100 * tolerance, max_steps=max_steps)
        steps += found.status.steps
        return found

    def update() -> tuple[float, bool]:
        nonlocal problem, priors, items
        mode = mode_under(priors)
        items, mean, deviation = standardised(problem, mode.items)
        problem = with_adapted_nodes(problem, items, room=0.6)
        before = priors.hierarchy or Hierarchy()
        learnt = learn(problem, items)
        priors = replace(priors, hierarchy=learnt)
        return max(largest_change(before, learnt), abs(mean), abs(deviation - 1)), mode.status.converged

    learning = alternate(
        "prior", update, tolerance=200 * tolerance, most=MOST_UPDATES, fewest=FEWEST_UPDATES, progress=progress
    )
    mode = mode_under(priors)
    problem, mode = on_right_nodes(problem, mode, tolerance=100 * tolerance, max_steps=max_steps)
    last = torch.stack([mode.items.slope[:, 0].abs().log(), mode.items.intercept], dim=1).mean(dim=0)
    assert priors.hierarchy is not None
    priors = replace(priors, hierarchy=replace(priors.hierarchy, mean=(float(last[0]), float(last[1]))))
    model = partial(problem.model, priors=priors, learn_mean=False)
    status = replace(mode.status, steps=steps, learning=learning)
    return Problem.of(model, problem.rows, problem.nodes), priors, replace(mode, status=status)


def items_integrated_out(
    problem: Problem,
    priors: Priors,
    theta: Tensor,
    items: ItemTensors,
    *,
    tolerance: float,
    progress: Callable[[str], None] = lambda message: None,
) -> tuple[Problem, Priors, Estimate]:
    """The fit of `random_items`: posterior means of the items, and the abilities."""
    assert isinstance(problem.rows, DenseRows)
    found = fit_random_items(problem.rows, theta, items.slope[:, 0] < 0, tolerance=tolerance, progress=progress)
    means = ItemTensors(found.mean[:, :1], found.mean[:, 1], torch.zeros_like(theta.new_zeros(len(items))))
    priors = replace(priors, hierarchy=found.prior)
    problem = with_adapted_nodes(problem, means, room=0.6)
    remark = "items integrated out, estimates are posterior means"
    if min(found.prior.deviation) <= LEAST_DEVIATION * 1.01:
        alike = f"items are alike: a standard deviation of the prior is at its least, {LEAST_DEVIATION:g}"
        remark = f"{alike}; {remark}"
    learning = replace(found.learning, remark=remark)
    stop = Stop.CONVERGED if learning.settled else Stop.STEP_LIMIT
    return (
        problem,
        priors,
        Estimate(
            means,
            "mean",
            problem.counts(means).log_likelihood,
            found.log_likelihood,
            Status(stop, learning.updates, change=learning.change, learning=learning),
            covariance=torch.nn.functional.pad(found.covariance, (0, 1, 0, 1)),
            abilities=(found.theta, found.theta_covariance),
        ),
    )


def on_right_nodes(problem: Problem, mode: Estimate, *, tolerance: float, max_steps: int) -> tuple[Problem, Estimate]:
    """The mode, found once more where its nodes turn out not to be right."""
    if not mode.status.converged or mode.counts is None:
        return problem, mode
    if with_right_nodes(problem, mode.items, mode.counts) is problem:
        return problem, mode
    return find_mode_on_right_nodes(problem, mode.items, tolerance=tolerance, max_steps=max_steps)


def largest_change(before: Hierarchy, after: Hierarchy) -> float:
    """Largest change of a standard deviation or the correlation; the mean follows theta's location and scale."""
    return max(
        abs(after.deviation[0] - before.deviation[0]),
        abs(after.deviation[1] - before.deviation[1]),
        abs(after.correlation - before.correlation),
    )


def learn(problem: Problem, items: ItemTensors) -> Hierarchy:
    """Mean and covariance of (log |a|, d) over items: of their modes, plus the average posterior covariance."""
    information = item_derivatives(problem, items, problem.counts(items)).information
    covariance = torch.linalg.inv(information)[:, [0, INTERCEPT]][:, :, [0, INTERCEPT]]
    slope = items.slope[:, 0]
    by_log = torch.stack([1 / slope, torch.ones_like(slope)], dim=1)
    covariance = covariance * by_log[:, :, None] * by_log[:, None, :]
    values = torch.stack([slope.abs().log(), items.intercept], dim=1)
    mean = values.mean(dim=0)
    total = (values - mean).T @ (values - mean) / len(values) + covariance.mean(dim=0)
    deviation = torch.diagonal(total).sqrt()
    return Hierarchy(
        (float(mean[0]), float(mean[1])),
        (float(deviation[0]), float(deviation[1])),
        float(total[0, 1] / (deviation[0] * deviation[1])),
    )
