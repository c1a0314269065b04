"""The mode of the item parameters: preconditioned steps on the collapsed model.

At the expected counts of the current items each takes a step or two of Fisher scoring (`item_steps`), lengthened by
what is lost of their information because abilities are not seen; the memory of past steps (`acceleration`) accounts
for the rest. For a Delta guide this is the natural-gradient form of SVI; with the first part alone it would be EM
(Bock & Aitkin, 1981).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from irtbench.estimation.marginal.acceleration import StepMemory
from irtbench.estimation.marginal.e_step import Counts, Problem, expected_counts
from irtbench.estimation.marginal.m_step import (
    ItemDerivatives,
    distance,
    item_derivatives,
    scoring_step,
    taken_again,
    with_logit,
    with_lost_information,
    with_probability,
    within_bounds,
)
from irtbench.estimation.marginal.prior_density import log_prior

FINEST_FLOAT32 = 1e-3  # standard errors; in float32 the gradient is hardly known better
SLOPE_BOUND = 30.0  # |a| beyond this means that the likelihood has no maximum in it
NEAREST_BOUND = 1e-3  # c closer to 1 than this, or to 0 where a prior keeps it off, has run away
SHORTEST_STEP = 1e-8


@dataclass(frozen=True)
class Mode:
    """Where the steps stopped, and why.

    Parameters
    ----------
    parameters
        Slopes, intercept and logit guessing of each item, shape (n_items, n_factors + 2); the last is 0 and means
        nothing where guessing is held fixed.
    log_likelihood
        Marginal log-likelihood there.
    log_posterior
        The same plus the log prior density.
    gradient
        Largest gradient of an item in units of its own standard error, sqrt(g' I^-1 g).
    change
        Largest change of a parameter in the last step.
    steps
        Number of steps.
    converged, stopped_because
        Whether this is a maximum, and the reason in words.
    covariance
        Posterior covariance of each item's (a, d, c) if `parameters` are posterior means instead, shape (n_items, 3,
        3).
    abilities
        Of the respondents with their covariance, where they were estimated too, shapes (n_respondents,) and
        (n_respondents, n_respondents).
    """

    parameters: Tensor
    log_likelihood: float
    log_posterior: float
    gradient: float
    change: float
    steps: int
    converged: bool
    stopped_because: str
    covariance: Tensor | None = None
    abilities: tuple[Tensor, Tensor] | None = None


def starting_values(problem: Problem) -> Tensor:
    """Slopes from the correlation of each item with the standardised score, intercepts from its proportion correct.

    With several abilities these are the slopes on the first; the others are zero.
    """
    n_observed = torch.zeros_like(problem.rows.n_correct)
    for batch in problem.batches(dtype=torch.float64):
        n_observed += batch.observed_by_item_sums(n_observed.new_ones(len(batch)))
    p = (problem.rows.n_correct + 0.5) / (n_observed + 1)
    spread = (p * (1 - p)).sqrt()
    # the sum over observed items of (x - p) / spread, over the root of their number
    scores = []
    for batch in problem.batches(dtype=torch.float64):
        number = batch.observed_sums(torch.ones_like(p)).clamp(min=1)
        scores.append((batch.correct @ (1 / spread) - batch.observed_sums(p / spread)) / number.sqrt())
    score = torch.cat(scores)
    mean, deviation = score.mean(), score.std().clamp(min=1e-12)
    covariance = torch.zeros_like(p)
    for batch, part in zip(problem.batches(dtype=torch.float64), scores, strict=True):
        standard = (part - mean) / deviation
        covariance += batch.correct_by_item @ standard - p * batch.observed_by_item_sums(standard)
    correlation = (covariance / n_observed / spread).clamp(-0.9, 0.9)
    slope = 1.7 * correlation / (1 - correlation**2).sqrt()
    c = torch.where(problem.guessing_free, torch.sigmoid(torch.tensor(-1.7, device=p.device)), problem.guessing_fixed)
    above_guessing = ((p - c) / (1 - c)).clamp(0.05, 0.999)
    p_start = torch.where(c > 0, above_guessing, p)
    intercept = torch.logit(p_start) * (1 + slope**2 / 2.89).sqrt()
    parameters = torch.zeros(len(p), problem.n_factors + 2, dtype=torch.float64, device=p.device)
    parameters[:, 0] = slope
    parameters[:, -2] = intercept
    parameters[:, -1] = torch.where(problem.guessing_free, -1.7, 0.0)
    return parameters


def find_mode(problem: Problem, *, start: Tensor | None = None, tolerance: float = 1e-5, max_steps: int = 500) -> Mode:
    """Maximise the log-posterior (the marginal likelihood, if no prior is set) over the item parameters.

    Parameters
    ----------
    problem
        Data, population and priors.
    start
        Parameters to start from; None for `starting_values`.
    tolerance
        Converged when no item is further from its maximum than this many of its own standard errors (in float32: .001
        of them, if that is more) and the last step moved no parameter by more than a hundred times it.
    max_steps
        Stop unconverged after this many.
    """
    values = with_probability(problem, starting_values(problem) if start is None else start)

    def evaluated(values: Tensor) -> tuple[Counts, float]:
        parameters = with_logit(problem, values)
        counts = expected_counts(problem, parameters)
        return counts, counts.log_likelihood + log_prior(problem.priors, problem.guessing_free, parameters)

    counts, objective = evaluated(values)
    memory = StepMemory()
    small = tolerance if problem.nodes.dtype == torch.float64 else max(tolerance, FINEST_FLOAT32)
    change = float("inf")
    step = 0

    def stopped(converged: bool, reason: str) -> Mode:
        parameters = with_logit(problem, values)
        return Mode(parameters, counts.log_likelihood, objective, size, change, step, converged, reason)

    while True:
        derivatives = item_derivatives(problem, values, counts)
        uphill = scoring_step(problem, derivatives)
        size = distance(derivatives, uphill)
        if not size < float("inf"):
            return stopped(False, "a value is not finite")
        if bound := at_bound(problem, values):
            return stopped(False, bound)
        if size < small and change < 100 * tolerance:
            return stopped(
                True,
                f"largest gradient {size:.1e} standard errors, last change {change:.1e}: below {small:g} and "
                f"{100 * tolerance:g}",
            )
        if step == max_steps:
            return stopped(False, f"no convergence in {max_steps} steps: largest gradient {size:.1e} standard errors")
        # a step that lowers the objective by more than rounding is not taken
        rounding = 1e-12 * abs(objective) if problem.nodes.dtype == torch.float64 else 1e-7 * abs(objective)
        for taken in steps_to_try(problem, counts, derivatives, uphill, memory):
            candidate = values + taken
            new_counts, new_objective = evaluated(candidate)
            if new_objective >= objective - rounding:
                break
        else:
            return stopped(
                False, f"no step raises the likelihood any more: largest gradient {size:.1e} standard errors"
            )
        change = float(taken.abs().max())
        values, counts, objective = candidate, new_counts, new_objective
        step += 1


def steps_to_try(
    problem: Problem, counts: Counts, derivatives: ItemDerivatives, uphill: Tensor, memory: StepMemory
) -> Iterator[Tensor]:
    """Steps, the most promising first: the accelerated one, the one without memory, then shorter and shorter uphill."""
    values, gradient = derivatives.values, derivatives.gradient
    own = problem.without_held(taken_again(problem, counts, derivatives, uphill))
    step = problem.without_held(with_lost_information(problem, derivatives, own))
    memory.add(values, gradient, step)
    accelerated = problem.without_held(memory.accelerated()).clone()
    # an item whose own step leads onto c = 0 goes there
    onto_bound = values[:, -1] + own[:, -1] == 0
    accelerated[:, -1] = torch.where(onto_bound, own[:, -1], accelerated[:, -1])
    if float((accelerated * gradient).sum()) > 0:
        yield within_bounds(problem, values, accelerated)
    memory.forget()
    yield within_bounds(problem, values, step)
    uphill = problem.without_held(uphill)
    scale = 1.0
    while scale > SHORTEST_STEP:
        yield scale * uphill
        scale /= 2


def at_bound(problem: Problem, values: Tensor) -> str | None:
    """Say which parameter has run away, if one has: then the likelihood has no maximum among finite values."""
    slopes = values[:, :-2].abs()
    if float(slopes.max()) > SLOPE_BOUND:
        n_steep = int((slopes > SLOPE_BOUND).any(dim=1).sum())
        return f"{n_steep} items have a slope beyond {SLOPE_BOUND:g}: a parameter is at its bound"
    if not problem.guesses:
        return None
    outside = values[:, -1] > 1 - NEAREST_BOUND
    if problem.priors.guessing is not None:  # without a prior c = 0 is a maximum like any other
        outside |= values[:, -1] < NEAREST_BOUND
    if n_outside := int((problem.guessing_free & outside).sum()):
        return f"guessing of {n_outside} items is at its bound 0 or 1"
    return None
