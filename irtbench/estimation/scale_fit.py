"""The fit of one scale, whatever its items: their mode, next to anchors or in groups, and its errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from irtbench.data.responses import Responses
from irtbench.estimation.anchors import KnownItems, Placed, anchored_errors, fit_next_to_anchors
from irtbench.estimation.few_respondents.empirical_bayes import find_hierarchical_mode
from irtbench.estimation.item_quantiles import turned
from irtbench.estimation.marginal.fisher_scoring import RoughStart, find_mode, find_mode_on_right_nodes, rough_start
from irtbench.estimation.marginal.group_problem import GroupProblem, find_group_mode
from irtbench.estimation.marginal.guessing_profile import without_guessing_at_zero
from irtbench.estimation.marginal.nodes import ROOM, with_adapted_nodes
from irtbench.estimation.marginal.observed_information import (
    LEAST_SD,
    MOST_COUPLED_ITEMS,
    Errors,
    NormalMoments,
    ability_vanishes,
    blocks_of,
    joint_sampling_covariance,
    sampling_covariance,
    shared_errors,
)
from irtbench.estimation.marginal.population import find_mode_with_population
from irtbench.estimation.marginal.problem import Estimate, Problem
from irtbench.estimation.settings import FitSettings
from irtbench.estimation.status import ALL_ITEMS, POPULATION, Status, Stop
from irtbench.estimation.variational.loss import adam_mode
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.tensors import ItemTensors


@dataclass(frozen=True)
class ScaleFit:
    """What the fit of a scale found.

    Parameters
    ----------
    problem, found
        The problem that it ended with, and its mode; next to anchors that of the respondents alone.
    priors
        Prior densities, learnt perhaps.
    status
        How it ended, the errors considered.
    n_parameters
        Number of estimated parameters, those of populations included.
    errors
        None where they were not wanted, or there is no maximum.
    moments
        Mean and standard deviation of ability where they are estimated in one group; None for N(0, 1).
    """

    problem: Problem
    found: Estimate
    priors: Priors
    status: Status
    n_parameters: int
    errors: Errors | None = None
    moments: NormalMoments | None = None


def fit_scale(
    problem: Problem,
    settings: FitSettings,
    *,
    start: ItemTensors | None = None,
    anchors: KnownItems | None = None,
    design: Tensor | None = None,
) -> ScaleFit:
    """Find the mode of one group, with `anchors` whose parameters the problem has as constants, and its errors.

    `design` says which of the items' parameters are made of fewer, see `SharedParameters`.
    """
    anchored, priors = None, settings.priors
    if anchors is not None:
        placed = fit_next_to_anchors(
            problem, n_nodes=settings.n_nodes, tolerance=settings.tolerance, max_steps=settings.max_steps,
            start=start, design=design, find=mode_finder(settings),
        )  # fmt: skip
        problem, found, anchored = placed.respondents, placed.found, (placed, anchors)
    else:
        problem = problem if design is None else problem.with_shared(design)
        near = rough_start(problem) if start is None else RoughStart(start)
        problem, priors, found = find_estimate(with_adapted_nodes(problem, near.items, room=ROOM), near, settings)
        found = with_positive_direction(problem, found)
    return judged(problem, found, settings, priors, anchored)


def judged(
    problem: Problem,
    found: Estimate,
    settings: FitSettings,
    priors: Priors,
    anchored: tuple[Placed, KnownItems] | None = None,
) -> ScaleFit:
    """What is known of a scale with this mode: its errors, and whether it is one, next to anchors or alone."""
    status, errors = found.status, None
    if status.converged and anchored is None and priors.is_flat and more_parameters_than_patterns(problem):
        status = status.unless_loose([True] * problem.rows.n_items)
    if status.converged and (anchored[0].ability_vanishes if anchored else ability_vanishes(problem, found.items)):
        status = replace(status, stop=Stop.NO_ABILITY)
    if settings.standard_errors and status.converged:
        errors = anchored_errors(*anchored) if anchored else errors_of(problem, found)
        status = status.unless_loose(errors.loose.tolist())
    moments, whole = moments_by_theta(problem, found.items, errors), problem
    if anchored:
        placed, whole = anchored[0], anchored[0].problem
        moments = NormalMoments(*placed.moments, *((math.nan, math.nan) if errors is None else errors.moments))
    n_parameters = whole.n_estimated + found.n_density_parameters
    return ScaleFit(problem, found, priors, status, n_parameters, errors, moments)


def fit_in_groups(
    groups: GroupProblem, start: ItemTensors, settings: FitSettings, *, design: Tensor | None = None
) -> ScaleFit:
    """Find the mode of items and of the groups' populations, and its errors."""
    groups = groups if design is None else groups.with_shared(design)
    problem, found = find_group_mode(
        groups, start, tolerance=settings.tolerance, max_steps=settings.max_steps, find=mode_finder(settings)
    )
    status, errors, n_items = found.status, None, len(groups.prior.differs)
    if settings.standard_errors and status.converged:
        errors = errors_of(problem, found)
        loose = errors.loose[:n_items] | errors.loose[n_items:].any()  # a population is determined by all
        status = status.unless_loose(loose.tolist())
    return ScaleFit(problem, found, settings.priors, status, problem.n_estimated, errors)


def moments_by_theta(problem: Problem, items: ItemTensors, errors: Errors | None) -> NormalMoments | None:
    """Mean 0 and standard deviation of ability, where slopes by it are 1; else None."""
    if (shared := problem.prior.shared) is None or not shared.unit_slopes:
        return None
    sd = max(float(shared.nearest(items.linear)), LEAST_SD)
    return NormalMoments(0.0, sd, 0.0, math.nan if errors is None else errors.moments[1])


def mode_finder(settings: FitSettings) -> Callable[..., Estimate]:
    """What finds the mode on given nodes."""
    return adam_mode if settings.optimiser == "adam" else find_mode


def find_estimate(problem: Problem, start: RoughStart, settings: FitSettings) -> tuple[Problem, Priors, Estimate]:
    """The estimate, with the prior (learnt, perhaps) and the population and nodes it was found with."""
    tolerance, max_steps, priors = settings.tolerance, settings.max_steps, settings.priors
    if settings.optimiser == "adam":
        return problem, priors, adam_mode(problem, start.items, tolerance=tolerance, max_steps=max_steps)
    if priors.hierarchy is not None:
        return find_hierarchical_mode(
            problem, priors, start.items, tolerance=tolerance, max_steps=max_steps,
            mode_wanted=settings.posterior is not None, standard_errors=settings.standard_errors,
        )  # fmt: skip
    if settings.population == "estimated":
        problem, mode = find_mode_with_population(problem, start.items, tolerance=tolerance, max_steps=max_steps)
    else:
        problem, mode = find_mode_on_right_nodes(
            problem, start.items, tolerance=tolerance, max_steps=max_steps, covariance=start.covariance
        )
    problem, mode = without_guessing_at_zero(problem, mode)
    return problem, priors, mode


def with_positive_direction(problem: Problem, found: Estimate) -> Estimate:
    """Turn theta's sign, if need be, so that the expected number of correct responses rises with it."""
    theta, items = problem.nodes.theta, found.items
    covariance_with_theta = (problem.nodes.log_weights.exp() * theta[:, 0]) @ problem.expected_score(items)
    if float(covariance_with_theta) >= 0:
        return found
    covariance = found.covariance
    if covariance is not None:
        sign = problem.turned(ItemTensors.from_matrix(torch.ones_like(items.matrix))).matrix  # -1 of slopes
        covariance = covariance * sign[:, :, None] * sign[:, None, :]
    abilities = None if found.abilities is None else (-found.abilities[0], found.abilities[1])
    mode = found.mode and found.mode.turned()
    quantiles = None if found.quantiles is None else turned(found.quantiles)
    return replace(
        found, items=problem.turned(items), covariance=covariance, quantiles=quantiles, abilities=abilities, mode=mode
    )


def more_parameters_than_patterns(problem: Problem) -> bool:
    """Whether items have more parameters than patterns of responses have shares: a 2PL of two items, 2^2 - 1.

    Each response being one trial; of items that share slopes it is not known.
    """
    rows = problem.rows
    if rows.most_trials is not None or problem.prior.one_slope:
        return False
    if rows.categories is None:
        return problem.n_estimated > 2.0 ** min(rows.n_items, 1000) - 1
    return problem.n_estimated > float((torch.bincount(rows.categories[0]) + 1).double().prod()) - 1


def errors_of(problem: Problem, found: Estimate) -> Errors:
    """Covariance of each item's parameters, of all with each other where these are few, and the undetermined."""
    if found.covariance is not None:
        nowhere = torch.zeros(len(found.items), dtype=torch.bool)
        return Errors(found.covariance.cpu().numpy(), None, nowhere)
    if problem.prior.one_slope:
        return shared_errors(problem, found.items)
    coupled = isinstance(problem, GroupProblem) or problem.prior.shared is not None
    if len(found.items) > MOST_COUPLED_ITEMS and not coupled:
        own, loose = sampling_covariance(problem, found.items)
        return Errors(own, None, loose)
    joint, loose = joint_sampling_covariance(problem, found.items)
    return Errors(blocks_of(joint), joint, loose)


def with_names(status: Status, responses: Responses) -> Status:
    """The status with the names of items that have run away or are not determined, and how many were right."""
    ids = responses.item_ids

    def named(places: Sequence[int]) -> tuple[str, ...]:
        if max(places, default=-1) >= len(ids):
            return (POPULATION,)
        if not places or responses.in_categories:
            return tuple(f"item {ids[j]}" for j in places)
        n, p = responses.n_by_item, responses.proportion_correct()
        return tuple(f"item {ids[j]} ({round(p[j] * n[j])} of {n[j]} right)" for j in places)

    return replace(
        status,
        steep_items=ALL_ITEMS if len(status.steep) == len(responses.item_ids) else named(status.steep),
        loose_items=named(status.loose),
        guessing_at_bound_items=named(status.guessing_at_bound),
    )
