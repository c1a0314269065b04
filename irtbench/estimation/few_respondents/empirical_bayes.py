"""Item parameters with a prior learnt from the items themselves, for few respondents or sparse data.

With up to 500 respondents abilities and items are integrated out together (`messages`). With more, or where nothing but
a mode will do, items are at their mode, abilities integrated out, and the prior of (log |a|, d) is learnt from each
item's posterior, normal around the mode (Laplace's approximation): a joint mode over items and standard deviations
would shrink these to nothing. Location and scale of theta are set by standardising the respondents after each update,
and the steps between updates leave them alone: with thousands of items to a hundred respondents, what the prior gains
by moving all items together would otherwise outweigh the population.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from irtbench.data.input_error import InputError
from irtbench.estimation.driver import alternate
from irtbench.estimation.few_respondents.item_grid import START_DISTANCES, ItemGrid, away_from_zero, weighted_moments
from irtbench.estimation.few_respondents.learnt_prior import (
    LEAST_DEVIATION,
    learn,
    learnt_beta,
    over_densities,
    packed,
    unpacked,
)
from irtbench.estimation.few_respondents.messages import Beliefs, Surroundings, moments, settled
from irtbench.estimation.marginal.acceleration import FixedPoint
from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.fisher_scoring import MOST_PLACINGS, find_mode, find_mode_on_right_nodes
from irtbench.estimation.marginal.nodes import (
    COARSEST,
    ROOM,
    find_posteriors,
    nodes_near,
    steepest_step,
    with_adapted_nodes,
    with_right_nodes,
)
from irtbench.estimation.marginal.observed_information import (
    complete_information,
    own_information,
    parameter_covariance,
)
from irtbench.estimation.marginal.problem import Estimate, Problem
from irtbench.estimation.status import Status, Stop
from irtbench.models.priors import Hierarchy, Priors
from irtbench.models.pyro_model.model import hierarchy_density
from irtbench.models.pyro_model.rows import DenseRows
from irtbench.models.pyro_model.tensors import INTERCEPT, ItemTensors

MOST_RESPONDENTS = 500  # with more the items' posteriors are normal enough, and abilities no error of theirs
FEWEST_UPDATES, MOST_UPDATES = 3, 100
LEARNING_TOLERANCE, MODE_TOLERANCE = 10, 10  # times that of a fit
KNOWN = 0.25  # abilities are so, if the root mean square of their standard deviations is below this
START = Hierarchy((0.0, 0.0), (0.5, 1.5), of="difficulty")
MOST_ALIKE = 40  # respondents
LEAST_WIDTH = 0.06  # of an ability at the start: nodes reach eight of these


def find_hierarchical_mode(
    problem: Problem,
    priors: Priors,
    start: ItemTensors,
    *,
    tolerance: float,
    max_steps: int,
    mode_wanted: bool = False,
    standard_errors: bool = True,
) -> tuple[Problem, Priors, Estimate]:
    """Posterior means of the items under a learnt prior, with that prior, and the problem with it and the nodes used.

    Converged when the numbers of the densities and the abilities change by less than 200 times `tolerance`; at the
    mode, when that is one, and the densities and theta's location and scale change by less than ten times `tolerance`.

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
    standard_errors
        Whether the covariance is to hold the error that items share through abilities.

    Raises
    ------
    InputError
        If a mode is wanted where abilities are known so well that items are many more than respondents.
    """
    in_categories, items = isinstance(problem, CategoryProblem), start
    if not in_categories:
        items = replace(start, slope=away_from_zero(start.slope))
    if in_categories or len(problem.rows) <= MOST_RESPONDENTS:
        problem = reaching(problem, items)
        around = Surroundings.of(problem, items)
        if not mode_wanted:
            grid = starting_grid(problem, items, priors)
            priors = replace(priors, distances=dict.fromkeys(grid.names, START_DISTANCES))
            return integrated_out(problem, priors, grid, around, tolerance=200 * tolerance)
        if float(around.abilities[1].mean()) < KNOWN**2:
            raise InputError(
                "fit: with so few respondents the hierarchical prior gives posterior means already; "
                "expected no posterior"
            )
    return at_the_mode(
        problem, priors, items, tolerance=tolerance, max_steps=max_steps, standard_errors=standard_errors
    )


def integrated_out(
    problem: Problem,
    priors: Priors,
    grid: ItemGrid,
    around: Surroundings,
    *,
    tolerance: float,
) -> tuple[Problem, Priors, Estimate]:
    """Posterior means of the items and, where these outnumber respondents, the abilities."""
    chosen, place, counts = alike(around, grid)
    beliefs = Beliefs(around.of_items(chosen), grid.of_items(chosen, counts), replace(priors, hierarchy=START), priors)
    beliefs, learning = settled(beliefs, tolerance=tolerance)
    priors, mean, covariance, quantiles = beliefs.estimates()
    mean, covariance, quantiles = mean[place], covariance[place], quantiles[:, place]
    remark = "items and abilities integrated out, estimates are posterior means"
    if min(priors.pair.deviation) <= LEAST_DEVIATION * 1.01:
        remark = f"items are alike: a standard deviation of the prior is at its least, {LEAST_DEVIATION:g}; {remark}"
    learning = replace(learning, remark=remark)
    status = Status(
        Stop.CONVERGED if learning.settled else Stop.STEP_LIMIT, learning.updates, change=learning.change,
        learning=learning,
    )  # fmt: skip
    found = Estimate(
        problem.of_read(mean), "mean", math.nan, beliefs.evidence,
        status, covariance=covariance, quantiles=quantiles,
        abilities=beliefs.around.standardised_abilities if len(mean) > len(problem.rows) else None,
    )  # fmt: skip
    return integrated_at(problem, priors, found)


def reaching(problem: Problem, items: ItemTensors) -> Problem:
    """On nodes that are right for these items, and reach some way beyond: rough items put abilities roughly."""
    posteriors = find_posteriors(problem, items)
    step = min(posteriors.narrowest, steepest_step(problem, items))
    if step >= COARSEST:
        return problem
    wide = replace(posteriors, widths=posteriors.widths.clamp(min=LEAST_WIDTH))
    return replace(problem, nodes=nodes_near(wide, step=step))


def alike(around: Surroundings, grid: ItemGrid) -> tuple[Tensor, Tensor, Tensor]:
    """One item of each set of items with the same responses, which of these each item is like, and how many are.

    Not looked for among more than 40 respondents, among whom hardly two items have the same responses.
    """
    if around.posterior.shape[1] > MOST_ALIKE or grid.n_distances:
        each = torch.arange(len(grid.sign), device=grid.sign.device)
        return each, each, torch.ones_like(each)
    known = torch.stack([grid.free.to(grid.guessing), torch.where(grid.free, 0.0, grid.guessing)])
    columns = torch.cat([around.numbers.flatten(0, 1).to(known), known])
    _, place, counts = columns.unique(dim=1, return_inverse=True, return_counts=True)
    chosen = torch.empty_like(counts)
    chosen[place] = torch.arange(len(place), device=place.device)
    return chosen, place, counts


def at_the_mode(
    problem: Problem,
    priors: Priors,
    items: ItemTensors,
    *,
    tolerance: float,
    max_steps: int,
    standard_errors: bool,
) -> tuple[Problem, Priors, Estimate]:
    """Posterior means from normal densities around the mode, under a prior learnt by Laplace's approximation."""
    start, steps, sign, beta = priors, 0, items.slope[:, 0].sign(), learnt_beta(priors, problem.guessing_free)
    path, values = (
        FixedPoint(),
        torch.tensor([*packed(priors, beta), 0.0, 0.0], dtype=torch.float64),
    )  # theta's origin and log unit last
    problem = with_adapted_nodes(problem, items, room=ROOM)

    def to_mode() -> Estimate:
        nonlocal problem, steps
        model = partial(problem.model, priors=priors, slope_sign=sign, learn_mean=True)
        problem = replace(Problem.of(model, problem.rows, problem.nodes), fixed_directions=location_and_scale(items))
        found = find_mode(problem, start=items, tolerance=MODE_TOLERANCE * tolerance, max_steps=max_steps)
        steps += found.status.steps
        return found

    def update() -> tuple[float, bool]:
        nonlocal problem, items, priors, values
        mode, before = to_mode(), values
        items, mean, deviation = standardised(problem, mode.items)
        learnt, _ = learn(with_likelihoods(normal_around(problem, items), items, priors), priors, start)
        origin, log_unit = before[-2:].tolist()
        there = [origin + math.exp(log_unit) * mean, log_unit + math.log(deviation)]
        updated = torch.tensor([*packed(learnt, beta), *there], dtype=torch.float64)
        values = path.after(before, updated)
        priors = unpacked(values[:-2].numpy(), priors, beta)
        further = values[-2:] - updated[-2:]
        items = items.rescaled(float(further[0]) / math.exp(there[1]), math.exp(further[1]))
        problem = with_adapted_nodes(problem, items, room=ROOM)
        return float((values - before).abs().max()), mode.status.converged

    learning = alternate(
        "prior", update, tolerance=LEARNING_TOLERANCE * tolerance, most=MOST_UPDATES, fewest=FEWEST_UPDATES
    )
    mode = to_mode()
    if mode.status.converged and mode.counts and with_right_nodes(problem, mode.items, mode.counts) is not problem:
        problem, mode = find_mode_on_right_nodes(
            problem, mode.items, tolerance=MODE_TOLERANCE * tolerance, max_steps=max_steps
        )
    learning = replace(learning, remark="estimates are posterior means")
    mode = replace(mode, status=replace(mode.status, steps=steps, learning=learning))
    if not mode.status.converged:
        return problem, priors, mode
    return means_around(problem, mode, about(priors, mode.items), start, standard_errors=standard_errors)


def means_around(
    problem: Problem, mode: Estimate, priors: Priors, start: Priors, *, standard_errors: bool
) -> tuple[Problem, Priors, Estimate]:
    """Posterior means from densities of the items around the mode, normal but for their likelihoods."""
    items, status = mode.items, mode.status
    problem = Problem.of(partial(problem.model, priors=priors, learn_mean=False), problem.rows, problem.nodes)
    covariance = None
    if standard_errors:
        covariance, loose = parameter_covariance(problem, items)
        status = status.unless_loose(loose.tolist())
    grid = with_likelihoods(normal_around(problem, items, covariance if status.converged else None), items, priors)
    known, weighted = over_densities(grid, priors, start)
    mean, covariance, quantiles = with_likelihoods(grid.on_points, items, priors).estimates(weighted)
    found = Estimate(
        ItemTensors.from_matrix(mean), "mean", math.nan, mode.log_posterior, status, covariance=covariance,
        quantiles=quantiles if standard_errors and status.converged else None, mode=items,
    )  # fmt: skip
    return integrated_at(problem, known, found)


def integrated_at(problem: Problem, priors: Priors, found: Estimate) -> tuple[Problem, Priors, Estimate]:
    """The estimate with the likelihood at its means, on nodes that are right there.

    The posterior mean of a slope that the responses leave open lies far above its mode: nodes that are right there may
    be far too coarse here.
    """
    for _ in range(MOST_PLACINGS):
        counts = problem.counts(found.items)
        better = with_right_nodes(problem, found.items, counts)
        if better is problem:
            return problem, priors, replace(found, log_likelihood=counts.log_likelihood)
        problem = better
    status = found.status
    if status.stop is Stop.CONVERGED:
        status = replace(status, stop=Stop.NODES_NOT_RIGHT)
    return problem, priors, replace(found, log_likelihood=problem.counts(found.items).log_likelihood, status=status)


def normal_around(problem: Problem, items: ItemTensors, covariance: Tensor | None = None) -> ItemGrid:
    """Nodes of each item's posterior, normal in (log |a|, d, logit c) around these.

    Parameters
    ----------
    problem, items
        With the mode.
    covariance
        Of (a, d, logit c), shape (n_items, 3, 3); None for that given all other items.
    """
    if covariance is None:
        covariance = own_covariances(problem, items)
    slope, free, ones = items.slope[:, 0], problem.guessing_free, torch.ones_like(items.intercept)
    rate = torch.stack([1 / slope, ones, ones], dim=1)
    logit = torch.logit(torch.where(free, items.guessing, 0.5))
    centre = torch.stack([slope.abs().log(), items.intercept, logit], dim=1)
    own = covariance * rate[:, :, None] * rate[:, None, :]
    return ItemGrid.around(centre, own, slope.sign(), free, items.guessing, "intercept")


def with_likelihoods(grid: ItemGrid, items: ItemTensors, priors: Priors) -> ItemGrid:
    """The same with the likelihood as level: the posterior less the prior that the mode was found under."""
    return replace(grid, level=grid.normal - grid.log_prior(about(priors, items)))


def about(priors: Priors, items: ItemTensors) -> Priors:
    """The priors with the mean of (log |a|, d) of these items."""
    mean = (float(items.slope[:, 0].abs().log().mean()), float(items.intercept.mean()))
    return replace(priors, hierarchy=replace(priors.pair, mean=mean))


def own_covariances(problem: Problem, items: ItemTensors) -> Tensor:
    """Inverse of the information on each item's (a, d, logit c), the others being what they are; 0 where c is fixed.

    Where that is not positive definite, which it is at a mode, the information of complete data is taken, and of
    directions of which that says nothing either at least 1.
    """
    information = own_information(problem, items)
    failed = torch.linalg.cholesky_ex(information).info > 0
    if bool(failed.any()):
        sizes, directions = torch.linalg.eigh(complete_information(problem, items))
        complete = (directions * sizes.clamp(min=1.0)[:, None, :]) @ directions.mT
        information = torch.where(failed[:, None, None], complete, information)
        information = torch.where(problem.estimated_pairs, information, problem.identity)
    return torch.where(problem.estimated_pairs, torch.linalg.inv(information), 0.0)


def starting_grid(problem: Problem, items: ItemTensors, priors: Priors) -> ItemGrid:
    """Nodes of (log |a|, b, logit c) where these items' likelihoods and the prior that learning starts from say.

    Of items in categories near these, see `ItemGrid.near`.
    """
    if isinstance(problem, CategoryProblem):
        return ItemGrid.near(problem.scale.parts, problem.n_by_item, items.matrix)
    grid = with_likelihoods(normal_around(problem, items), items, priors)
    values, log_slope = grid.nodes.clone(), grid.nodes[..., 0]
    values[..., 1] *= -grid.sign[:, None] * (-log_slope).exp()
    pairs = values[..., :2]
    log_mass = grid.log_weights + hierarchy_density(START, pairs).log_prob(pairs) - log_slope
    mean, covariance = weighted_moments(torch.softmax(log_mass + grid.log_prior_of_guessing(priors), dim=1), values)
    return ItemGrid.around(mean, covariance, grid.sign, grid.free, grid.guessing)


def joint_abilities(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor] | None:
    """Abilities with the error of the items in their covariance, items being normal around these.

    Scoring respondents on items that were estimated from the same few people counts every answer twice: with the items
    as known the standard errors are too small. None unless items outnumber up to 500 respondents, and rows are dense.
    """
    if not isinstance(problem.rows, DenseRows) or len(problem.rows) > min(MOST_RESPONDENTS, len(items) - 1):
        return None
    grid = normal_around(problem, items)
    mass: Tensor = torch.softmax(grid.normal + grid.rule.log_weights, dim=1)
    around, _ = Surroundings.of(problem, items).passed(grid, lambda part, level: mass.expand_as(level))
    return around.standardised_abilities


def location_and_scale(items: ItemTensors) -> Tensor:
    """The two directions in which theta's location and scale move all items: d by a, and a by a; orthonormal."""
    directions = torch.zeros(2, *items.matrix.shape, dtype=torch.float64, device=items.intercept.device)
    directions[0, :, INTERCEPT] = items.slope[:, 0]
    directions[1, :, 0] = items.slope[:, 0]
    length: Tensor = directions.flatten(1).norm(dim=1)
    return directions / length[:, None, None]


def standardised(problem: Problem, items: ItemTensors) -> tuple[ItemTensors, float, float]:
    """Items for theta with mean 0 and variance 1 among the respondents, and the mean and standard deviation it had."""
    mean, deviation = moments(problem.nodes.theta[:, 0], problem.counts(items).respondents / len(problem.rows))
    return items.rescaled(mean, deviation), mean, deviation
