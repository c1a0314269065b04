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

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from irtbench.data.input_error import InputError
from irtbench.estimation.driver import alternate
from irtbench.estimation.estimate import Estimate
from irtbench.estimation.few_respondents.item_density import LEAST_DEVIATION
from irtbench.estimation.few_respondents.item_moments import quantiles_of
from irtbench.estimation.few_respondents.item_posteriors import ItemPosteriors, item_posteriors, reversed_for_good
from irtbench.estimation.few_respondents.joint_draws import JointDraws, draw_together, drawn_together
from irtbench.estimation.few_respondents.latent_scale import location_and_scale, standardised
from irtbench.estimation.few_respondents.learnt_prior import (
    averaged_over_prior,
    learn,
    learn_guessing,
    with_shared_error,
)
from irtbench.estimation.few_respondents.random_items import fit_random_items, known_abilities
from irtbench.estimation.fixed_point import FixedPoint
from irtbench.estimation.marginal.mode import MOST_PLACINGS, find_mode, find_mode_on_right_nodes
from irtbench.estimation.marginal.nodes import ROOM, with_adapted_nodes, with_right_nodes
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.status import Learning, Status, Stop
from irtbench.models.priors import GuessingPrior, Hierarchy, Priors
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.rows import DenseRows

FEWEST_UPDATES, MOST_UPDATES = 3, 100
LEARNING_TOLERANCE, MODE_TOLERANCE = 10, 10  # times that of a fit
NEAR = 0.02  # of the prior's numbers, where draws start from what is learnt
SMALLEST_SLOPE = 0.2  # of a start: log |a| must be finite, and the sign is kept


def find_hierarchical_mode(
    problem: Problem,
    priors: Priors,
    start: ItemTensors,
    *,
    tolerance: float,
    max_steps: int,
    mode_wanted: bool = False,
    standard_errors: bool = True,
    progress: Callable[[str], None] = lambda message: None,
) -> tuple[Problem, Priors, Estimate]:
    """Posterior means of the items under a learnt prior, with that prior, and the problem with it and the nodes used.

    Converged when the last mode is one, and the prior's log standard deviations and correlation, the mean of c, and
    theta's location and scale, are within ten times `tolerance` of where accelerated updates lead; where items and
    abilities are drawn together (`joint_draws`), within .02, and the chains agree.

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
    progress
        Told of each update.

    Raises
    ------
    InputError
        If a mode is wanted where abilities are known so well that items are integrated out.
    """
    sign = torch.where(start.slope[:, 0] < 0, -1.0, 1.0)
    items = replace(start, slope=(sign * start.slope[:, 0].abs().clamp(min=SMALLEST_SLOPE))[:, None])
    problem = with_adapted_nodes(problem, items, room=ROOM)
    theta = known_abilities(problem, items)
    if theta is not None and mode_wanted:
        raise InputError(
            "fit: with so few respondents the hierarchical prior gives posterior means already; expected no posterior"
        )
    if theta is not None:
        return items_integrated_out(problem, priors, theta, items, tolerance=200 * tolerance, progress=progress)
    n_guessed = int(problem.guessing_free.sum())
    learns_guessing = n_guessed and priors.guessing is not None and priors.guessing.density == "beta"
    state = State(priors.hierarchy or Hierarchy(), guessing=priors.guessing if learns_guessing else None)
    path, steps = FixedPoint(), 0

    def mode_under(hierarchy: Hierarchy) -> Estimate:
        nonlocal problem, steps
        own = replace(state.priors(priors), hierarchy=hierarchy)
        model = partial(problem.model, priors=own, slope_sign=sign, learn_mean=True)
        problem = replace(Problem.of(model, problem.rows, problem.nodes), fixed_directions=location_and_scale(items))
        found = find_mode(problem, start=items, tolerance=MODE_TOLERANCE * tolerance, max_steps=max_steps)
        steps += found.status.steps
        return found

    def update() -> tuple[float, bool]:
        nonlocal problem, items, sign, state
        mode = mode_under(state.hierarchy)
        stays = reversed_for_good(problem, mode.items, state.hierarchy)
        if not torch.equal(stays, sign < 0):
            sign = torch.where(stays, -1.0, 1.0).to(sign)
            items = replace(mode.items, slope=sign[:, None] * mode.items.slope.abs())
            return math.inf, True
        items, mean, deviation = standardised(problem, mode.items)
        posteriors = item_posteriors(problem, items, state.hierarchy, mode.log_posterior)
        updated = state.updated(learn(posteriors), mean, deviation)
        if state.guessing is not None and priors.guessing is not None:
            guessing = learn_guessing(posteriors, n_guessed, state.guessing, priors.guessing)
            updated = replace(updated, guessing=guessing)
        further = updated.at(path.after(state.values, updated.values))
        change = float((further.values - state.values).abs().max())
        items, state = items.rescaled(*further.seen_from(updated)), further
        problem = with_adapted_nodes(problem, items, room=ROOM)
        return change, mode.status.converged

    def settled(enough: float) -> tuple[Learning, Estimate]:
        nonlocal problem
        learning = alternate(
            "prior", update, tolerance=enough, most=MOST_UPDATES, fewest=FEWEST_UPDATES, progress=progress
        )
        mode = mode_under(state.hierarchy)
        problem, mode = on_right_nodes(problem, mode, tolerance=MODE_TOLERANCE * tolerance, max_steps=max_steps)
        return learning, mode

    remark = "estimates are posterior means"
    if standard_errors and not mode_wanted and drawn_together(problem):
        learning, mode = settled(NEAR)
        if mode.status.converged:
            posteriors = item_posteriors(problem, mode.items, state.hierarchy, mode.log_posterior)
            drawn = draw_together(problem, mode.items, posteriors, state.priors(priors), priors, progress=progress)
            if drawn.agree:
                return posterior_drawn(problem, drawn, replace(mode.status, steps=steps, learning=learning), mode)
            remark = f"{remark}, for draws of items and abilities did not agree (R-hat {drawn.r_hat:.2f})"
    learning, mode = settled(LEARNING_TOLERANCE * tolerance)
    if not mode.status.converged:
        status = replace(mode.status, steps=steps, learning=learning)
        return problem, state.priors(priors), replace(mode, status=status)
    items = mode.items

    def posteriors_under(hierarchy: Hierarchy) -> ItemPosteriors:
        found = mode_under(hierarchy)
        return item_posteriors(problem, found.items, hierarchy, found.log_posterior)

    hierarchy, averaged = averaged_over_prior(posteriors_under, state.hierarchy)
    last = torch.stack([items.slope[:, 0].abs().log(), items.intercept], dim=1).mean(dim=0)
    priors = replace(state.priors(priors), hierarchy=replace(hierarchy, mean=(float(last[0]), float(last[1]))))
    problem = Problem.of(partial(problem.model, priors=priors, learn_mean=False), problem.rows, problem.nodes)
    status, quantiles = mode.status, None
    if standard_errors:
        averaged, loose = with_shared_error(problem, items, averaged)
        status = status.unless_loose(loose.tolist())
        quantiles = quantiles_of(averaged.logs, items, problem.guessing_free) if status.converged else None
    means = averaged.moments.items
    problem, right = integrated_at(problem, means)
    if status.stop is Stop.CONVERGED and not right:
        status = replace(status, stop=Stop.NODES_NOT_RIGHT)
    status = replace(status, steps=steps, learning=replace(learning, remark=remark))
    return (
        problem,
        priors,
        Estimate(
            means,
            "mean",
            problem.counts(means).log_likelihood,
            mode.log_posterior,
            status,
            covariance=averaged.moments.covariance,
            quantiles=quantiles,
            mode=items,
        ),
    )


@dataclass(frozen=True)
class State:
    """What is updated: the prior's covariance, and theta's origin and unit in terms of those at the start.

    Parameters
    ----------
    hierarchy
        The prior.
    origin, log_unit
        theta at the start = origin + exp(log_unit) theta now.
    guessing
        The Beta density of c, whose mean is learnt; None where no item is guessed, or its density is a normal one of
        logit c, which stays as it was given.
    """

    hierarchy: Hierarchy
    origin: float = 0.0
    log_unit: float = 0.0
    guessing: GuessingPrior | None = None

    def priors(self, start: Priors) -> Priors:
        """The priors as they are here, in place of those at the start."""
        return replace(start, hierarchy=self.hierarchy, guessing=self.guessing or start.guessing)

    @property
    def values(self) -> Tensor:
        """Logarithms of the standard deviations, Fisher's z of the correlation, origin, unit, and logit of c's mean."""
        prior = self.hierarchy
        logs = [math.log(deviation) for deviation in prior.deviation]
        guessing = [] if self.guessing is None else [math.log(self.guessing.first / self.guessing.second)]
        values = [*logs, math.atanh(prior.correlation), self.origin, self.log_unit, *guessing]
        return torch.tensor(values, dtype=torch.float64)

    def updated(self, learnt: Hierarchy, mean: float, deviation: float) -> State:
        """After theta, found to have this mean and standard deviation, has been standardised."""
        origin = self.origin + math.exp(self.log_unit) * mean
        return replace(self, hierarchy=learnt, origin=origin, log_unit=self.log_unit + math.log(deviation))

    def at(self, values: Tensor) -> State:
        """The state that has these values."""
        log_a, log_d, z, origin, log_unit, *logit = values.tolist()
        prior = replace(self.hierarchy, deviation=(math.exp(log_a), math.exp(log_d)), correlation=math.tanh(z))
        guessing = self.guessing
        if guessing is not None:
            mean = 1 / (1 + math.exp(-logit[0]))
            weight = guessing.first + guessing.second
            guessing = GuessingPrior("beta", weight * mean, weight * (1 - mean))
        return State(prior, origin, log_unit, guessing)

    def seen_from(self, other: State) -> tuple[float, float]:
        """Mean and standard deviation that theta has in the other's origin and unit where it is standard in this."""
        return (self.origin - other.origin) / math.exp(other.log_unit), math.exp(self.log_unit - other.log_unit)


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
    problem, right = integrated_at(problem, means)
    remark = "items integrated out, estimates are posterior means"
    if min(found.prior.deviation) <= LEAST_DEVIATION * 1.01:
        alike = f"items are alike: a standard deviation of the prior is at its least, {LEAST_DEVIATION:g}"
        remark = f"{alike}; {remark}"
    learning = replace(found.learning, remark=remark)
    stop = Stop.STEP_LIMIT
    if learning.settled:
        stop = Stop.CONVERGED if right else Stop.NODES_NOT_RIGHT
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
            quantiles=torch.nn.functional.pad(found.quantiles, (0, 1)),
            abilities=(found.theta, found.theta_covariance),
        ),
    )


def posterior_drawn(
    problem: Problem, found: JointDraws, status: Status, mode: Estimate
) -> tuple[Problem, Priors, Estimate]:
    """The estimate that draws of items and abilities are."""
    assert status.learning is not None
    problem, right = integrated_at(problem, found.items)
    learning = replace(status.learning, remark=f"estimates are means of {found.n_draws:,} draws of items and abilities")
    stop = status.stop if right else Stop.NODES_NOT_RIGHT
    return (
        problem,
        found.priors,
        Estimate(
            found.items,
            "mean",
            problem.counts(found.items).log_likelihood,
            mode.log_posterior,
            replace(status, stop=stop, learning=learning, r_hat=found.r_hat),
            covariance=found.covariance,
            quantiles=found.quantiles,
            abilities=(found.theta, found.theta_covariance),
            mode=mode.items,
        ),
    )


def on_right_nodes(problem: Problem, mode: Estimate, *, tolerance: float, max_steps: int) -> tuple[Problem, Estimate]:
    """The mode, found once more where its nodes turn out not to be right."""
    if not mode.status.converged or mode.counts is None:
        return problem, mode
    if with_right_nodes(problem, mode.items, mode.counts) is problem:
        return problem, mode
    return find_mode_on_right_nodes(problem, mode.items, tolerance=tolerance, max_steps=max_steps)


def integrated_at(problem: Problem, items: ItemTensors) -> tuple[Problem, bool]:
    """The problem on nodes that are right at these items, and whether there are such.

    The posterior mean of a slope that the responses leave open lies far above its mode: nodes that are right there may
    be far too coarse here.
    """
    for _ in range(MOST_PLACINGS):
        better = with_right_nodes(problem, items, problem.counts(items))
        if better is problem:
            return problem, True
        problem = better
    return problem, False
