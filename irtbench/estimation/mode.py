"""The mode of the item parameters: preconditioned steps on the collapsed model.

The gradient of the marginal likelihood is made of expected counts: n_jq, the expected number of respondents at node
q who answered item j, and r_jq, the expected number who answered it right. Each item's own Fisher information at
these counts (2x2 or 3x3) preconditions the step; the memory of past steps (limited-memory BFGS, Nocedal, 1980)
accounts for what the items share, which is what the missing abilities take away. For a Delta guide this is the
natural-gradient form of SVI; without the memory it would be EM (Bock & Aitkin, 1981).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.estimation.prior_density import log_prior, prior_derivatives
from irtbench.models.logistic import MISSING, CollapsedLogistic, NodeTensors
from irtbench.models.priors import Priors

MEMORY = 10  # pairs of past steps and gradient changes kept
BATCH_CELLS = 2**23  # respondents x nodes held at once
LARGEST_STEP = 1.5  # in logits: no parameter moves further in one step
SLOPE_BOUND = 30.0  # |a| beyond this means that the likelihood has no maximum in it
GUESSING_LOGIT_BOUND = 7.0  # c within a thousandth of 0 or 1: the likelihood is flat beyond


@dataclass(frozen=True)
class Problem:
    """What is maximised.

    Parameters
    ----------
    rows
        Responses 1, 0, -1 for missing, int8, shape (n_respondents, n_items).
    nodes
        The population of abilities.
    priors
        Densities of the item parameters.
    guessing_free, guessing_fixed
        Where c is estimated, and its value elsewhere, shape (n_items,).
    complete
        Whether no response is missing.
    slopes_free
        Where slopes are estimated, shape (n_items, n_factors); elsewhere they stay as they start. None for all.
    held
        Directions in which no step goes, orthonormal, shape (n_directions, n_items, n_factors + 2). Where items are
        many and respondents few, theta's origin and unit are set by standardising the respondents, and the steps
        leave them alone.
    """

    rows: Tensor
    nodes: NodeTensors
    priors: Priors
    guessing_free: Tensor
    guessing_fixed: Tensor
    complete: bool
    slopes_free: Tensor | None = None
    held: Tensor | None = None

    @property
    def n_factors(self) -> int:
        """Number of abilities."""
        return self.nodes.theta.shape[1]

    def free(self) -> Tensor:
        """Which parameters (slopes, intercept, logit guessing) are estimated, shape (n_items, n_factors + 2)."""
        free = torch.ones(self.rows.shape[1], self.n_factors + 2, dtype=torch.bool, device=self.rows.device)
        free[:, -1] = self.guessing_free
        if self.slopes_free is not None:
            free[:, :-2] = self.slopes_free
        return free

    def log_guessing(self, parameters: Tensor) -> Tensor:
        """Log c at these parameters, minus infinity for a 2PL item, shape (n_items,)."""
        return torch.where(self.guessing_free, logsigmoid(parameters[:, -1]), self.guessing_fixed.log())


@dataclass(frozen=True)
class Counts:
    """Expected counts at given parameters, and the marginal log-likelihood there.

    n_jq and r_jq have shape (n_items, n_nodes); with complete data all rows of n are the same. `respondents` is the
    expected number of respondents at each node, shape (n_nodes,).
    """

    log_likelihood: float
    n: Tensor
    r: Tensor
    respondents: Tensor


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
    """

    parameters: Tensor
    log_likelihood: float
    log_posterior: float
    gradient: float
    change: float
    steps: int
    converged: bool
    stopped_because: str


def expected_counts(problem: Problem, parameters: Tensor) -> Counts:
    """Expected counts over respondents' posteriors (the E step), in batches of respondents."""
    dtype = problem.nodes.dtype
    row = CollapsedLogistic(
        parameters[:, :-2],
        parameters[:, -2],
        problem.log_guessing(parameters),
        problem.nodes,
        complete=problem.complete,
    )
    n_items = problem.rows.shape[1]
    n_nodes = problem.nodes.log_weights.shape[0]
    n = torch.zeros(n_items, n_nodes, dtype=torch.float64, device=problem.rows.device)
    respondents = torch.zeros(n_nodes, dtype=torch.float64, device=problem.rows.device)
    r = torch.zeros(n_items, n_nodes, dtype=torch.float64, device=problem.rows.device)
    log_likelihood = torch.zeros((), dtype=torch.float64, device=problem.rows.device)
    tiny = -80.0 if dtype == torch.float32 else -700.0  # below this exp() makes denormal numbers, which are slow
    for rows in problem.rows.split(max(1, BATCH_CELLS // n_nodes)):
        joint = row.log_joint(rows)
        top = joint.max(dim=1, keepdim=True).values
        posterior = joint.sub_(top).clamp_(min=tiny).exp_()
        total = posterior.sum(dim=1, keepdim=True)
        log_likelihood += (top + total.log()).sum(dtype=torch.float64)
        posterior /= total
        r += ((rows == 1).to(dtype).T @ posterior).to(torch.float64)
        respondents += posterior.sum(dim=0, dtype=torch.float64)
        if not problem.complete:
            n += ((rows != MISSING).to(dtype).T @ posterior).to(torch.float64)
    if problem.complete:
        n = respondents.expand(n_items, n_nodes)
    return Counts(float(log_likelihood), n, r, respondents)


def gradient_and_information(problem: Problem, parameters: Tensor, counts: Counts) -> tuple[Tensor, Tensor]:
    """Gradient of the log-posterior and each item's Fisher information at these counts, prior included.

    With z = a theta + d, s its logistic, P = c + (1 - c) s: d log-likelihood = sum_q (r - n P) / (P (1 - P)) dP, and
    the information is sum_q n / (P (1 - P)) dP dP', dP/dz = (1 - c) s (1 - s), dP/dlogit(c) = c (1 - c) (1 - s).

    Returns
    -------
    gradient
        Shape (n_items, n_factors + 2), 0 where a parameter is held fixed.
    information
        Shape (n_items, n_factors + 2, n_factors + 2), the identity's row and column where fixed.
    """
    theta = problem.nodes.theta
    z = parameters[:, :-2] @ theta.T + parameters[:, -2:-1]
    c = problem.log_guessing(parameters).exp()[:, None]
    s = torch.sigmoid(z)
    one_minus_s = torch.sigmoid(-z)
    p = c + (1 - c) * s
    # dP / (P (1 - P)) with 1 - P = (1 - c)(1 - s): the factor (1 - c)(1 - s) cancels, so nothing divides by zero
    score_z = s / p
    score_c = (c / p).expand_as(p)
    residual = counts.r - counts.n * p
    basis = torch.cat([theta, torch.ones_like(theta[:, :1])], dim=1)
    gradient = torch.cat(
        [(residual * score_z) @ basis, (residual * score_c).sum(dim=1, keepdim=True)],
        dim=1,
    )
    weight = counts.n * p * (1 - c) * one_minus_s
    within = torch.einsum("jq,qk,ql->jkl", weight * score_z**2, basis, basis)
    across = (weight * score_z * score_c) @ basis
    guess = (weight * score_c**2).sum(dim=1)
    information = torch.cat(
        [
            torch.cat([within, across[:, :, None]], dim=2),
            torch.cat([across, guess[:, None]], dim=1)[:, None, :],
        ],
        dim=1,
    )
    prior_gradient, prior_information = prior_derivatives(problem.priors, parameters)
    gradient = gradient + prior_gradient
    information = information + prior_information
    free = problem.free()
    both = free[:, :, None] & free[:, None, :]
    identity = torch.eye(free.shape[1], dtype=torch.float64, device=free.device)
    return without_held(problem, torch.where(free, gradient, 0.0)), torch.where(both, information, identity)


def without_held(problem: Problem, vector: Tensor) -> Tensor:
    """Take the held directions out of a gradient or a step."""
    if problem.held is None:
        return vector
    along = torch.einsum("hjk,jk->h", problem.held, vector)
    return vector - torch.einsum("h,hjk->jk", along, problem.held)


def starting_values(problem: Problem) -> Tensor:
    """Slopes from the correlation of each item with the standardised score, intercepts from its proportion correct.

    With several abilities these are the slopes on the first; the others are zero.
    """
    rows = problem.rows
    observed = rows != MISSING
    n_observed = observed.sum(dim=0).clamp(min=1).to(torch.float64)
    n_correct = (rows == 1).sum(dim=0).to(torch.float64)
    p = (n_correct + 0.5) / (n_observed + 1)
    spread = (p * (1 - p)).sqrt()
    # the sum over observed items of (x - p) / spread, as two products without a float copy of the matrix
    score = torch.zeros(rows.shape[0], dtype=torch.float64, device=rows.device)
    for part, block in zip(score.split(65536), rows.split(65536), strict=True):
        seen = (block != MISSING).to(torch.float64)
        part += (block == 1).to(torch.float64) @ (1 / spread) - seen @ (p / spread)
        part /= seen.sum(dim=1).clamp(min=1).sqrt()
    score = (score - score.mean()) / score.std().clamp(min=1e-12)
    covariance = torch.zeros_like(p)
    for part, block in zip(score.split(65536), rows.split(65536), strict=True):
        seen = (block != MISSING).to(torch.float64)
        covariance += (block == 1).to(torch.float64).T @ part - p * (seen.T @ part)
    correlation = (covariance / n_observed / spread).clamp(-0.9, 0.9)
    slope = 1.7 * correlation / (1 - correlation**2).sqrt()
    c = torch.where(problem.guessing_free, torch.sigmoid(torch.tensor(-1.7, device=p.device)), problem.guessing_fixed)
    above_guessing = ((p - c) / (1 - c)).clamp(0.05, 0.999)
    p_start = torch.where(c > 0, above_guessing, p)
    intercept = torch.logit(p_start) * (1 + slope**2 / 2.89).sqrt()
    parameters = torch.zeros(len(p), problem.n_factors + 2, dtype=torch.float64, device=rows.device)
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
        Converged when no item's gradient exceeds this many of its own standard errors and the last step moved no
        parameter by more than a hundred times it.
    max_steps
        Stop unconverged after this many.
    """
    parameters = starting_values(problem) if start is None else start.clone()
    counts = expected_counts(problem, parameters)
    objective = counts.log_likelihood + log_prior(problem.priors, problem.guessing_free, parameters)
    gradient, information = gradient_and_information(problem, parameters, counts)
    memory: deque[tuple[Tensor, Tensor]] = deque(maxlen=MEMORY)
    change = float("inf")
    step = 0
    while True:
        natural = without_held(problem, solve_each(information, gradient))
        size = float((gradient * natural).sum(dim=1).clamp(min=0).max().sqrt())
        if not size < float("inf"):
            return Mode(
                parameters, counts.log_likelihood, objective, size, change, step, False, "a value is not finite"
            )
        if bound := at_bound(problem, parameters):
            return Mode(parameters, counts.log_likelihood, objective, size, change, step, False, bound)
        if size < tolerance and change < 100 * tolerance:
            reason = (
                f"largest gradient {size:.1e} standard errors, last change {change:.1e}: below {tolerance:g} and "
                f"{100 * tolerance:g}"
            )
            return Mode(parameters, counts.log_likelihood, objective, size, change, step, True, reason)
        if step == max_steps:
            reason = f"no convergence in {max_steps} steps: largest gradient {size:.1e} standard errors"
            return Mode(parameters, counts.log_likelihood, objective, size, change, step, False, reason)
        direction = without_held(problem, remembered_direction(gradient, information, memory))
        if float((direction * gradient).sum()) <= 0:
            memory.clear()
            direction = without_held(problem, natural)
        direction = direction * min(1.0, LARGEST_STEP / float(direction.abs().max()))
        # a step that lowers the objective by more than rounding is halved
        rounding = 1e-12 * abs(objective) if problem.nodes.dtype == torch.float64 else 1e-7 * abs(objective)
        scale = 1.0
        while True:
            candidate = parameters + scale * direction
            new_counts = expected_counts(problem, candidate)
            new_objective = new_counts.log_likelihood + log_prior(problem.priors, problem.guessing_free, candidate)
            if new_objective >= objective - rounding or scale < 1e-8:
                break
            scale /= 2
        if scale < 1e-8:
            reason = f"no step raises the likelihood any more: largest gradient {size:.1e} standard errors"
            return Mode(parameters, counts.log_likelihood, objective, size, change, step, False, reason)
        new_gradient, information = gradient_and_information(problem, candidate, new_counts)
        moved, bent = candidate - parameters, gradient - new_gradient
        if float((moved * bent).sum()) > 1e-12 * float(moved.norm() * bent.norm()):
            memory.append((moved, bent))
        change = float(torch.where(problem.free(), moved, 0.0).abs().max())
        parameters, counts, objective, gradient = candidate, new_counts, new_objective, new_gradient
        step += 1


def solve_each(information: Tensor, vector: Tensor) -> Tensor:
    """Each item's information solved for its own vector, with a ridge that matters only where it is singular."""
    diagonal = torch.diagonal(information, dim1=1, dim2=2)
    ridge = torch.diag_embed(1e-9 * diagonal + 1e-12)
    return torch.linalg.solve(information + ridge, vector[:, :, None])[:, :, 0]


def remembered_direction(gradient: Tensor, information: Tensor, memory: deque[tuple[Tensor, Tensor]]) -> Tensor:
    """Limited-memory BFGS direction whose first guess of the curvature is the items' Fisher information."""
    q = gradient.clone()
    weights = []
    for moved, bent in reversed(memory):
        weight = (moved * q).sum() / (moved * bent).sum()
        weights.append(weight)
        q -= weight * bent
    direction = solve_each(information, q)
    for (moved, bent), weight in zip(memory, reversed(weights), strict=True):
        direction = direction + moved * (weight - (bent * direction).sum() / (moved * bent).sum())
    return direction


def at_bound(problem: Problem, parameters: Tensor) -> str | None:
    """Say which parameter has run away, if one has: then the likelihood has no maximum among finite values."""
    steep = (parameters[:, :-2].abs() > SLOPE_BOUND).any(dim=1)
    if bool(steep.any()):
        return f"{int(steep.sum())} items have a slope beyond {SLOPE_BOUND:g}: a parameter is at its bound"
    guessing = problem.guessing_free & (parameters[:, -1].abs() > GUESSING_LOGIT_BOUND)
    if bool(guessing.any()):
        return f"guessing of {int(guessing.sum())} items is at its bound 0 or 1"
    return None
