"""The fit of one scale, whatever its items: their mode, next to anchors or in groups, and its errors.

Next to anchors these respondents' mean and standard deviation of ability are estimated with the other items. They are
one of two groups (`GroupProblem`), of which the other, of N(0, 1) on the anchors' scale, has no responses. All of that
rests on the anchors' parameters y as well, which have an error of their own, of covariance S, if they come from a bank.
With x what is estimated, all parameters E x + Y y, and I their observed information, the estimate moves by B dy with
B = -(E'IE)^-1 E'IY, and all parameters by T dy with T = E B + Y, so that their covariance is

    V = E (E'IE)^-1 E' + T S T'.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.data.responses import Responses
from irtbench.estimation.anchors import MOST_COUPLED_ITEMS as MOST_ANCHORED
from irtbench.estimation.anchors import KnownItems
from irtbench.estimation.few_respondents.empirical_bayes import find_hierarchical_mode
from irtbench.estimation.item_quantiles import turned
from irtbench.estimation.marginal.fisher_scoring import find_mode, find_mode_on_right_nodes, rough_start
from irtbench.estimation.marginal.group_problem import GroupProblem, by_differences, groups_of, problem_of_groups
from irtbench.estimation.marginal.guessing_profile import without_guessing_at_zero
from irtbench.estimation.marginal.nodes import ROOM, with_adapted_nodes
from irtbench.estimation.marginal.observed_information import (
    LEAST_SD,
    MOST_COUPLED_ITEMS,
    NOTHING,
    Errors,
    NormalMoments,
    blocks_of,
    errors_of_joint,
    invert,
    joint_sampling_covariance,
    natural_by_steps,
    observed_information,
    sampling_covariance,
    shared_errors,
)
from irtbench.estimation.marginal.population import find_mode_with_population
from irtbench.estimation.marginal.problem import Estimate, Problem
from irtbench.estimation.settings import FitSettings
from irtbench.estimation.status import ALL_ITEMS, POPULATION, Status, Stop
from irtbench.estimation.variational.loss import adam_mode
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.rows import MISSING, DenseRows, ResponseRows, SparseRows
from irtbench.models.pyro_model.tensors import ItemTensors

FEW, SAMPLE = 0.05, 2_000  # a tolerance for a start, and respondents it is from


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
    if anchors is not None:
        return fit_next_to_anchors(problem, settings, anchors, start=start, design=design)
    problem = problem if design is None else problem.with_shared(design)
    near, covariance = rough_start(problem) if start is None else (start, None)
    problem = with_adapted_nodes(problem, near, room=ROOM)
    problem, priors, found = find_estimate(problem, near, settings, covariance)
    return judged(problem, with_positive_direction(problem, found), settings, priors)


def judged(problem: Problem, found: Estimate, settings: FitSettings, priors: Priors) -> ScaleFit:
    """What is known of a scale with this mode: its errors, and whether it is one."""
    status = found.status
    if status.converged and not problem.prior.informative and more_parameters_than_patterns(problem):
        status = status.unless_loose([True] * problem.rows.n_items)
    shared = problem.prior.shared is not None
    if status.converged and shared and float(problem.slopes(found.items).abs().max()) <= LEAST_SD:
        status = replace(status, stop=Stop.NO_ABILITY)
    status, errors = with_errors(status, settings, lambda: errors_of(problem, found))
    moments = moments_by_theta(problem, found.items, errors)
    return ScaleFit(problem, found, priors, status, problem.n_estimated + found.n_density_parameters, errors, moments)


def with_errors(status: Status, settings: FitSettings, find: Callable[[], Errors]) -> tuple[Status, Errors | None]:
    """The errors of a maximum where they are wanted, and the status by what they say of it."""
    if not (settings.standard_errors and status.converged):
        return status, None
    errors = find()
    return status.unless_loose(errors.loose.tolist()), errors


def fit_in_groups(
    groups: GroupProblem,
    start: ItemTensors,
    settings: FitSettings,
    *,
    design: Tensor | None = None,
    anchors: KnownItems | None = None,
) -> ScaleFit:
    """Find the mode of items and of the groups' populations, and its errors, those of the anchors in them if any."""
    groups = groups if design is None else groups.with_shared(design)
    finder = adam_mode if settings.optimiser == "adam" else find_mode
    problem, found = find_mode_on_right_nodes(
        groups, start, tolerance=settings.tolerance, max_steps=settings.max_steps, find=finder
    )
    find = partial(errors_in_groups, groups_of(problem), found.items, anchors)
    status, errors = with_errors(found.status, settings, find)
    return ScaleFit(problem, found, settings.priors, status, problem.n_estimated, errors)


def fit_next_to_anchors(
    problem: Problem,
    settings: FitSettings,
    anchors: KnownItems,
    *,
    start: ItemTensors | None = None,
    design: Tensor | None = None,
) -> ScaleFit:
    """The mode of the items that are not known, and of the population; `problem` has the known items as constants.

    `start` are items on the anchors' scale.
    """
    first = anchored_start(problem) if start is None else (known_in_place(problem, start),)

    def grouped(rows: ResponseRows) -> GroupProblem:
        both = nothing(rows), rows
        return problem_of_groups(replace(problem, rows=rows), both, n_nodes=settings.n_nodes, start=first[0])[0]

    groups, stride = grouped(problem.rows), problem.rows.n_respondents // SAMPLE
    at = groups.prior.joined(*first)
    if stride >= 2 and not isinstance(problem.rows, SparseRows) and start is None:
        smaller = grouped(problem.rows.every(stride))
        _, rough = find_mode_on_right_nodes(smaller, at, tolerance=FEW, max_steps=settings.max_steps)
        at = rough.items if rough.status.converged else at
    fit = fit_in_groups(groups, at, settings, design=design, anchors=anchors)
    part, items = groups_of(fit.problem).respondents(fit.found.items)
    mean, sd = groups_of(fit.problem).log_moments(fit.found.items)[1].tolist()
    counts = None if fit.found.counts is None else fit.found.counts.each[1]  # type: ignore[attr-defined]
    if fit.found.status.converged and math.exp(sd) <= LEAST_SD:
        fit = replace(fit, status=replace(fit.found.status, stop=Stop.NO_ABILITY), errors=None)
    of_moments = (math.nan, math.nan) if fit.errors is None else fit.errors.moments
    moments = NormalMoments(mean, math.exp(sd), *of_moments)
    return replace(fit, problem=part, found=replace(fit.found, items=items, counts=counts), moments=moments)


def moments_by_theta(problem: Problem, items: ItemTensors, errors: Errors | None) -> NormalMoments | None:
    """Mean 0 and standard deviation of ability, where slopes by it are 1; else None."""
    if (shared := problem.prior.shared) is None or not shared.unit_slopes:
        return None
    sd = max(float(shared.nearest(items.linear)), LEAST_SD)
    return NormalMoments(0.0, sd, 0.0, math.nan if errors is None else errors.moments[1])


def find_estimate(
    problem: Problem, start: ItemTensors, settings: FitSettings, covariance: Tensor | None
) -> tuple[Problem, Priors, Estimate]:
    """The estimate, with the prior (learnt, perhaps) and the population and nodes it was found with."""
    tolerance, max_steps, priors = settings.tolerance, settings.max_steps, settings.priors
    if settings.optimiser == "adam":
        return problem, priors, adam_mode(problem, start, tolerance=tolerance, max_steps=max_steps)
    if priors.hierarchy is not None:
        return find_hierarchical_mode(
            problem, priors, start, tolerance=tolerance, max_steps=max_steps,
            mode_wanted=settings.posterior is not None, standard_errors=settings.standard_errors,
        )  # fmt: skip
    if settings.population == "estimated":
        problem, mode = find_mode_with_population(problem, start, tolerance=tolerance, max_steps=max_steps)
    else:
        problem, mode = find_mode_on_right_nodes(
            problem,
            start,
            tolerance=tolerance,
            max_steps=max_steps,
            find=partial(find_mode, covariance=covariance),
        )
    problem, mode = without_guessing_at_zero(problem, mode)
    return problem, priors, mode


def with_positive_direction(problem: Problem, found: Estimate) -> Estimate:
    """Turn theta's sign, if need be, so that the expected number of correct responses rises with it."""
    theta, items = problem.nodes.theta, found.items
    covariance_with_theta = (problem.nodes.log_weights.exp() * theta[:, 0]) @ problem.expected_score(items)
    return found if float(covariance_with_theta) >= 0 else turned_round(problem, found)


def turned_round(problem: Problem, found: Estimate) -> Estimate:
    """The estimate for abilities of the opposite sign."""
    items, covariance = found.items, found.covariance
    if covariance is not None:
        sign = problem.turned(ItemTensors.from_matrix(torch.ones_like(items.matrix))).matrix  # -1 of slopes
        covariance = covariance * sign[:, :, None] * sign[:, None, :]
    abilities = None if found.abilities is None else (-found.abilities[0], found.abilities[1])
    mode = found.mode and found.mode.turned()
    quantiles = None if found.quantiles is None else turned(found.quantiles)
    return replace(
        found, items=problem.turned(items), covariance=covariance, quantiles=quantiles, abilities=abilities, mode=mode
    )


def more_parameters_than_patterns(problem: Problem, n_turns: int = 0) -> bool:
    """Whether items have more parameters than patterns of responses have shares: 2^J - 1 of a 2PL of J items.

    Each response is one trial; of items that share slopes it is not known. Turns of axes that change nothing are none
    of the parameters.
    """
    rows = problem.rows
    if rows.most_trials is not None or problem.prior.one_slope:
        return False
    columns = problem.columns[0] if rows.categories is None else rows.categories[0]
    return problem.n_estimated - n_turns > float((torch.bincount(columns) + 1).double().prod()) - 1


def errors_of(problem: Problem, found: Estimate) -> Errors:
    """Covariance of each item's parameters, of all with each other where these are few, and the undetermined."""
    if found.covariance is not None:
        nowhere = torch.zeros(len(found.items), dtype=torch.bool)
        return Errors(found.covariance.cpu().numpy(), None, nowhere)
    if problem.prior.one_slope:
        return shared_errors(problem, found.items)
    if len(found.items) > MOST_COUPLED_ITEMS and problem.prior.shared is None:
        own, loose = sampling_covariance(problem, found.items)
        return Errors(own, None, loose)
    return errors_of_joint(problem, *joint_sampling_covariance(problem, found.items))


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


def nothing(rows: ResponseRows) -> DenseRows:
    """A respondent who answered none of these items."""
    values = torch.full((1, rows.n_items), MISSING, dtype=torch.int8, device=rows.device)
    return DenseRows(values, torch.zeros_like(rows.n_correct), complete=False, categories=rows.categories)


def known_in_place(problem: Problem, items: ItemTensors) -> ItemTensors:
    """The items with the known parameters where these are known."""
    return ItemTensors.from_matrix(torch.where(problem.free, items.matrix, problem.prior.fixed.matrix))


def anchored_start(problem: Problem) -> tuple[ItemTensors, Tensor, Tensor]:
    """Items, mean and log standard deviation to start from: by the anchors on their scale and on that of N(0, 1).

    With ability m + s z slopes by z are s a and intercepts d + m a: s and m by least squares.
    """
    start, known, free = problem.starting_values(), problem.prior.fixed.matrix, problem.free
    known_slope = ~free[:, 0] & problem.scale.where("intercept")[:, 1]  # where slope and intercept are the first two
    a, d = known[known_slope, 0], known[known_slope, 1]
    size = (a @ a).clamp(min=1e-6)
    if float(a @ start.matrix[known_slope, 0]) < 0:
        start = problem.turned(start)
    mean, sd = (a @ (start.matrix[known_slope, 1] - d)) / size, (a @ start.matrix[known_slope, 0]) / size
    sd = sd.clamp(min=0.1) if bool(known_slope.any()) else torch.ones_like(sd)
    placed = problem.rescaled(start, float(-mean / sd), float(1 / sd))
    return known_in_place(problem, placed), mean[None], sd.log()[None]


def errors_in_groups(groups: GroupProblem, everything: ItemTensors, anchors: KnownItems | None) -> Errors:
    """The errors of items and populations; next to anchors of the items as respondents meet them, and of these."""
    n_items, width = len(groups.prior.differs), groups.prior.width
    if anchors is not None and n_items > MOST_ANCHORED:
        return errors_of_many(groups, everything)
    if anchors is None or anchors.covariance is None:
        joint, loose = joint_sampling_covariance(groups, everything)
    else:
        joint, loose = joint_next_to_anchors(groups, everything, anchors)
    each = loose[:n_items] | (loose.any() & ~loose[:n_items].any())  # a population is determined by all
    if anchors is None:
        return Errors(blocks_of(joint), joint, each)
    population = joint[n_items][groups.prior.population_columns, n_items, groups.prior.population_columns]
    of_items = joint[:n_items, -width:, :n_items, -width:]
    of_items[np.abs(of_items) < NOTHING] = 0.0
    mean, sd = np.sqrt(population.diagonal()).tolist()
    return Errors(blocks_of(of_items), of_items, each, (mean, sd))


def joint_next_to_anchors(
    groups: GroupProblem, everything: ItemTensors, anchors: KnownItems
) -> tuple[NDArray[np.float64], Tensor]:
    """What `joint_sampling_covariance` has, with the error of the anchors in it."""
    (n_rows, n_columns), width = groups.free.shape, groups.prior.width
    scale, every = natural_by_steps(groups, everything), groups.with_all_free(everything)
    chosen = torch.nonzero(every.free.reshape(-1))[:, 0]
    whole = torch.zeros(every.free.numel(), every.free.numel(), dtype=torch.float64, device=chosen.device)
    whole[chosen[:, None], chosen] = observed_information(every, everything)
    by_free = groups.by_estimated(torch.eye(groups.n_estimated, dtype=torch.float64, device=whole.device))
    inverse, loose = invert(by_free.T @ whole @ by_free)
    places, own = torch.tensor(anchors.places, device=whole.device), slice(n_columns - width, None)
    by_known = torch.zeros(n_rows, n_columns, len(places), width, dtype=torch.float64, device=whole.device)
    known = every.free[places, own]
    steps = torch.linalg.pinv(torch.where(known[:, :, None] & known[:, None], scale[places, own, own], 0.0))
    by_known[places, own, torch.arange(len(places), device=whole.device)] = steps
    moved = by_known.flatten(2).flatten(0, 1)
    moved = moved - by_free @ (inverse @ (by_free.T @ (whole @ moved)))
    error = torch.from_numpy(np.array(anchors.covariance)).to(whole).flatten(2).flatten(0, 1)
    covariance = by_free @ inverse @ by_free.T + moved @ error @ moved.T
    joint = torch.einsum("jab,jbkc,kdc->jakd", scale, covariance.view(n_rows, n_columns, n_rows, n_columns), scale)
    return joint.cpu().numpy(), (by_free[:, loose] != 0).view(n_rows, -1).any(dim=1)


def errors_of_many(groups: GroupProblem, everything: ItemTensors) -> Errors:
    """The same of each item where the population is known, and of the population with items that are."""
    own, loose = sampling_covariance(*groups.respondents(everything))
    by_population = [part for _, part in by_differences(groups, 1, everything)]
    mean, log_deviation = torch.linalg.inv(torch.stack(by_population)).diagonal().clamp(min=0).sqrt().tolist()
    sd = float(groups.log_moments(everything)[1, 1].exp())
    return Errors(own, None, loose, (mean, log_deviation * sd))
