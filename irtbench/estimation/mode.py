"""The mode of the item parameters: preconditioned steps on the collapsed model.

The gradient of the marginal likelihood is made of expected counts: n_jq, the expected number of respondents at node
q who answered item j, and r_jq, the expected number who answered it right. Without guessing the sums of 1 and theta
over those who answered right take the place of r. Each item's own Fisher information at these counts (2x2 or 3x3),
less an approximation of what is lost because abilities are not seen, preconditions the step; the memory of past steps
(limited-memory BFGS, Nocedal, 1980) accounts for the rest. For a Delta guide this is the natural-gradient form of SVI;
with the first part alone it would be EM (Bock & Aitkin, 1981).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.estimation.guessing_scale import by_root, with_logit, with_root
from irtbench.estimation.prior_density import log_prior, prior_derivatives
from irtbench.estimation.response_rows import Batch, ResponseRows
from irtbench.models.logistic import CollapsedLogistic, NodeTensors
from irtbench.models.priors import Priors

MEMORY = 10  # pairs of past steps and gradient changes kept
BATCH_CELLS = {"cpu": 2**19, "cuda": 2**26}  # respondents x (nodes or items) held at once
MOST_SHARED = 32  # nodes at which the information lost is summed
LARGEST_STEP = 1.5  # in logits: no parameter moves further in one step
LARGEST_ROOT_STEP = 0.125  # where guessing is sought by its root
FINEST_FLOAT32 = 1e-3  # standard errors; in float32 the gradient is hardly known better
SLOPE_BOUND = 30.0  # |a| beyond this means that the likelihood has no maximum in it
GUESSING_LOGIT_BOUND = 7.0  # c within a thousandth of 0 or 1: the likelihood is flat beyond


@dataclass(frozen=True)
class Problem:
    """What is maximised.

    Parameters
    ----------
    rows
        The respondents' responses.
    nodes
        The population of abilities.
    priors
        Densities of the item parameters.
    guessing_free, guessing_fixed
        Where c is estimated, and its value elsewhere, shape (n_items,).
    slopes_free
        Where slopes are estimated, shape (n_items, n_factors); elsewhere they stay as they start. None for all.
    held
        Directions in which no step goes, orthonormal, shape (n_directions, n_items, n_factors + 2). Where items are
        many and respondents few, theta's origin and unit are set by standardising the respondents, and the steps
        leave them alone.
    """

    rows: ResponseRows
    nodes: NodeTensors
    priors: Priors
    guessing_free: Tensor
    guessing_fixed: Tensor
    slopes_free: Tensor | None = None
    held: Tensor | None = None

    @property
    def n_factors(self) -> int:
        """Number of abilities."""
        return self.nodes.theta.shape[1]

    @cached_property
    def guesses(self) -> bool:
        """Whether any item has a lower asymptote; without one the log odds are linear in theta."""
        return bool((self.guessing_free | (self.guessing_fixed > 0)).any())

    @cached_property
    def free(self) -> Tensor:
        """Which parameters (slopes, intercept, logit guessing) are estimated, shape (n_items, n_factors + 2)."""
        free = torch.ones(self.rows.n_items, self.n_factors + 2, dtype=torch.bool, device=self.rows.device)
        free[:, -1] = self.guessing_free
        if self.slopes_free is not None:
            free[:, :-2] = self.slopes_free
        return free

    @cached_property
    def by_root(self) -> Tensor | None:
        """Where guessing is sought on the scale of `guessing_scale`, shape (n_items,): all of it without a prior."""
        return self.guessing_free if self.priors.guessing is None and bool(self.guessing_free.any()) else None

    def log_guessing(self, parameters: Tensor) -> Tensor:
        """Log c at these parameters, minus infinity for a 2PL item, shape (n_items,)."""
        return torch.where(self.guessing_free, logsigmoid(parameters[:, -1]), self.guessing_fixed.log())

    def row(self, parameters: Tensor) -> CollapsedLogistic:
        """The distribution of a respondent's row at these parameters."""
        log_guessing = self.log_guessing(parameters) if self.guesses else None
        return CollapsedLogistic(parameters[:, :-2], parameters[:, -2], log_guessing, self.nodes)

    def batches(self, cells: int = 0, *, dtype: torch.dtype | None = None) -> Iterator[Batch]:
        """Batches of respondents such that matrices of respondents x nodes, items (or `cells`) stay small."""
        widest = max(self.rows.n_items, len(self.nodes.theta), cells)
        return self.rows.batches(BATCH_CELLS[self.rows.device.type] // widest, dtype or self.nodes.dtype)


@dataclass(frozen=True)
class Counts:
    """Expected counts at given parameters, and the marginal log-likelihood there.

    Parameters
    ----------
    log_likelihood
        Of all rows.
    n
        Expected number of respondents at each node who answered an item, shape (n_items, n_nodes); with complete data
        all rows are the same.
    right
        Of those who answered it right: the expected sums of theta and of 1, shape (n_items, n_factors + 1).
    r
        Their expected number at each node, shape (n_items, n_nodes); None where `right` says enough.
    respondents
        Expected number of respondents at each node, shape (n_nodes,).
    """

    log_likelihood: float
    n: Tensor
    right: Tensor
    r: Tensor | None
    respondents: Tensor


@dataclass(frozen=True)
class Curvature:
    """The negative Hessian of the log-posterior, approximately: each item's information less U U'.

    Parameters
    ----------
    information
        Fisher information of each item if abilities were seen, prior included, shape (n_items, n_factors + 2,
        n_factors + 2); the identity's row and column where a parameter is held fixed.
    shared
        U, the information lost because they are not, shape (n_items, n_factors + 2, n_columns); None for several
        abilities.
    """

    information: Tensor
    shared: Tensor | None

    def solve(self, right: Tensor) -> tuple[Tensor, Tensor]:
        """The inverses of the information alone and of the whole, times vectors of shape (n_items, width, k).

        (D - U U')^-1 = D^-1 + D^-1 U (1 - U' D^-1 U)^-1 U' D^-1        (Woodbury, 1950)
        """
        diagonal = torch.diagonal(self.information, dim1=1, dim2=2)
        ridge = torch.diag_embed(1e-9 * diagonal + 1e-12)  # matters only where the information is singular
        inverse = torch.linalg.inv(self.information + ridge)
        alone = inverse @ right
        if self.shared is None:
            return alone, alone
        shared, lost = self.shared.flatten(0, 1), (inverse @ self.shared).flatten(0, 1)
        left = torch.eye(shared.shape[1], dtype=shared.dtype, device=shared.device) - shared.T @ lost
        whole = lost @ torch.linalg.solve(left, shared.T @ alone.flatten(0, 1))
        return alone, alone + whole.reshape(right.shape)


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


def expected_counts(problem: Problem, parameters: Tensor, *, at_nodes: bool = False) -> Counts:
    """Expected counts over respondents' posteriors (the E step), in batches of respondents.

    Parameters
    ----------
    problem, parameters
        Data and current parameters.
    at_nodes
        Whether r is wanted node by node though no item is guessed.
    """
    row = problem.row(parameters)
    basis, theta = problem.nodes.basis, problem.nodes.theta.to(problem.nodes.dtype)
    n_items, n_nodes = problem.rows.n_items, len(basis)
    at_nodes = at_nodes or problem.guesses
    n = basis.new_zeros(n_items, n_nodes)
    r = basis.new_zeros(n_items, n_nodes if at_nodes else problem.n_factors)
    respondents, log_likelihood = basis.new_zeros(n_nodes), basis.new_zeros(())
    tiny = -80.0 if theta.dtype == torch.float32 else -700.0  # below this exp() makes denormal numbers, which are slow
    for batch in problem.batches():
        joint = problem.rows.scratch.matrix("joint", len(batch), n_nodes, theta)
        row.log_shape(batch.correct, batch.observed, out=joint)
        top = joint.amax(dim=1)
        posterior = joint.sub_(top[:, None]).clamp_(min=tiny).exp_()
        total = posterior.sum(dim=1)
        log_likelihood += (top + total.log()).sum(dtype=torch.float64)
        respondents += posterior.T @ total.reciprocal()
        if batch.observed_by_item is not None or at_nodes:
            posterior /= total[:, None]
        if batch.observed_by_item is not None:
            n += batch.observed_by_item @ posterior
        if at_nodes:
            r += batch.correct_by_item @ posterior
        else:
            share = 1.0 if batch.observed_by_item is not None else total.reciprocal()
            for k, ability in enumerate(theta.unbind(1)):
                r[:, k] += batch.correct_by_item @ ((posterior @ ability) * share)
    if problem.rows.complete:
        n = respondents.expand(n_items, n_nodes)
    n_correct = problem.rows.n_correct
    if not problem.guesses:
        log_likelihood += n_correct @ parameters[:, -2]  # the constants that `log_shape` leaves out
    right = r @ basis if at_nodes else torch.cat([r, n_correct[:, None]], dim=1)
    return Counts(float(log_likelihood), n, right, r if at_nodes else None, respondents)


def gradient_and_curvature(problem: Problem, parameters: Tensor, counts: Counts) -> tuple[Tensor, Curvature]:
    """Gradient of the log-posterior and its approximate curvature at these counts.

    With z = a theta + d, s its logistic, P = c + (1 - c) s: d log-likelihood = sum_q (r - n P) / (P (1 - P)) dP, and
    the information is sum_q n / (P (1 - P)) dP dP', dP/dz = (1 - c) s (1 - s), dP/dlogit(c) = c (1 - c) (1 - s).

    What is lost is sum_i Cov[s_i | x_i], s_i the score of respondent i if theta were known. With one ability, s_i is
    expected to change by -u = -a dP/dz dP' / (P (1 - P)) with theta, and where posteriors are narrow, of variance
    v = 1 / (1 + I(theta)), the sum is that of n v u u' over nodes.

    Returns
    -------
    gradient
        Shape (n_items, n_factors + 2), 0 where a parameter is held fixed.
    curvature
        The Fisher information of the items and what of it is lost.
    """
    basis = problem.nodes.basis
    n_items, width = parameters.shape
    s = torch.sigmoid(parameters[:, :-1] @ basis.T)
    gradient, information = prior_derivatives(problem.priors, parameters)
    if counts.r is None:  # no guessing: c = 0, P = s
        expected = counts.n * s
        weight = expected * (1 - s)
        gradient[:, :-1] += counts.right - expected @ basis
    else:
        c = problem.log_guessing(parameters).exp()[:, None]
        p = c + (1 - c) * s
        # dP / (P (1 - P)) with 1 - P = (1 - c)(1 - s): the factor (1 - c)(1 - s) cancels, so nothing divides by zero
        score_z, score_c = s / p, c / p
        residual = counts.r - counts.n * p
        gradient[:, :-1] += (residual * score_z) @ basis
        gradient[:, -1] += (residual * score_c).sum(dim=1)
        weight = counts.n * p * (1 - c) * (1 - s)
        weight_zc, weight_cc, weight = weight * score_z * score_c, weight * score_c**2, weight * score_z**2
        across = weight_zc @ basis
        information[:, :-1, -1] += across
        information[:, -1, :-1] += across
        information[:, -1, -1] += weight_cc.sum(dim=1)
    products = (basis[:, :, None] * basis[:, None, :]).flatten(1)
    information[:, :-1, :-1] += (weight @ products).reshape(n_items, width - 1, width - 1)
    shared = None
    if problem.n_factors == 1:
        stride = -(-len(basis) // MOST_SHARED)
        slope = parameters[:, :1]
        precision = counts.respondents + slope[:, 0].square() @ weight
        scale = slope * (stride / precision.clamp(min=1e-300)).sqrt()
        by_z = (weight * scale)[:, ::stride]
        by_c = (weight_zc * scale)[:, ::stride] if counts.r is not None else torch.zeros_like(by_z)
        shared = torch.stack([by_z * basis[::stride, 0], by_z, by_c], dim=1)
    gradient, information, shared = by_root(gradient, information, shared, parameters, problem.by_root)
    free = problem.free
    gradient = torch.where(free, gradient, 0.0)
    if not bool(free.all()):
        identity = torch.eye(width, dtype=torch.float64, device=free.device)
        information = torch.where(free[:, :, None] & free[:, None, :], information, identity)
        shared = None if shared is None else torch.where(free[:, :, None], shared, 0.0)
    return without_held(problem, gradient), Curvature(information, shared)


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
        Converged when no item's gradient exceeds this many of its own standard errors (in float32: .001 of them,
        if that is more) and the last step moved no parameter by more than a hundred times it.
    max_steps
        Stop unconverged after this many.
    """
    parameters = starting_values(problem) if start is None else start.clone()
    counts = expected_counts(problem, parameters)
    objective = counts.log_likelihood + log_prior(problem.priors, problem.guessing_free, parameters)
    gradient, curvature = gradient_and_curvature(problem, parameters, counts)
    memory: deque[tuple[Tensor, Tensor]] = deque(maxlen=MEMORY)
    small = tolerance if problem.nodes.dtype == torch.float64 else max(tolerance, FINEST_FLOAT32)
    change = float("inf")
    step = 0

    def stopped(converged: bool, reason: str) -> Mode:
        return Mode(parameters, counts.log_likelihood, objective, size, change, step, converged, reason)

    while True:
        natural, direction = directions(gradient, curvature, memory)
        natural = without_held(problem, natural)
        size = float((gradient * natural).sum(dim=1).clamp(min=0).max().sqrt())
        if not size < float("inf"):
            return stopped(False, "a value is not finite")
        if bound := at_bound(problem, parameters):
            return stopped(False, bound)
        if size < small and change < 100 * tolerance:
            return stopped(
                True,
                f"largest gradient {size:.1e} standard errors, last change {change:.1e}: below {small:g} and "
                f"{100 * tolerance:g}",
            )
        if step == max_steps:
            return stopped(False, f"no convergence in {max_steps} steps: largest gradient {size:.1e} standard errors")
        direction = without_held(problem, shortened(problem, direction))
        if float((direction * gradient).sum()) <= 0:
            memory.clear()
            direction = shortened(problem, natural)
        # a step that lowers the objective by more than rounding is halved
        rounding = 1e-12 * abs(objective) if problem.nodes.dtype == torch.float64 else 1e-7 * abs(objective)
        scale, origin = 1.0, with_root(parameters, problem.by_root)
        while True:
            candidate = with_logit(origin + scale * direction, problem.by_root)
            new_counts = expected_counts(problem, candidate)
            new_objective = new_counts.log_likelihood + log_prior(problem.priors, problem.guessing_free, candidate)
            if new_objective >= objective - rounding or scale < 1e-8:
                break
            scale /= 2
        if scale < 1e-8:
            return stopped(
                False, f"no step raises the likelihood any more: largest gradient {size:.1e} standard errors"
            )
        new_gradient, curvature = gradient_and_curvature(problem, candidate, new_counts)
        moved, bent = with_root(candidate, problem.by_root) - origin, gradient - new_gradient
        if float((moved * bent).sum()) > 1e-12 * float(moved.norm() * bent.norm()):
            memory.append((moved, bent))
        change = float(torch.where(problem.free, moved, 0.0).abs().max())
        parameters, counts, objective, gradient = candidate, new_counts, new_objective, new_gradient
        step += 1


def shortened(problem: Problem, direction: Tensor) -> Tensor:
    """The direction no longer than may be; where guessing is sought by its root, each item's step for itself."""
    reach = direction.abs() / LARGEST_STEP
    if problem.by_root is None:
        return direction / reach.max().clamp(min=1.0)
    reach[:, -1] *= torch.where(problem.by_root, LARGEST_STEP / LARGEST_ROOT_STEP, 1.0)
    return direction / reach.amax(dim=1, keepdim=True).clamp(min=1.0)


def directions(
    gradient: Tensor, curvature: Curvature, memory: Collection[tuple[Tensor, Tensor]] = ()
) -> tuple[Tensor, Tensor]:
    """The natural gradient of each item, and the limited-memory BFGS direction with the curvature as its first guess.

    With S and Y the remembered steps and gradient changes, R the upper triangle of S'Y and D its diagonal, and H the
    inverse of the curvature, the direction is (Byrd, Nocedal & Schnabel, 1994, in compact form)

        H g + S R'^-1 ((D + Y'HY) R^-1 S'g - Y'H g) - HY R^-1 S'g.
    """
    right = torch.stack([gradient, *(bent for _, bent in memory)], dim=2)
    alone, solved = curvature.solve(right)
    natural, direction = alone[:, :, 0], solved[:, :, 0].flatten()
    if memory:
        steps = torch.stack([moved for moved, _ in memory], dim=2).flatten(0, 1)
        bends, solved_bends = right[:, :, 1:].flatten(0, 1), solved[:, :, 1:].flatten(0, 1)
        upper = torch.triu(steps.T @ bends)
        along = torch.linalg.solve_triangular(upper, (steps.T @ gradient.flatten())[:, None], upper=True)
        middle = torch.diag(torch.diagonal(upper)) + bends.T @ solved_bends
        rest = middle @ along - (bends.T @ direction)[:, None]
        across = torch.linalg.solve_triangular(upper.T, rest, upper=False)
        direction = direction + (steps @ across - solved_bends @ along)[:, 0]
    return natural, direction.reshape(gradient.shape)


def at_bound(problem: Problem, parameters: Tensor) -> str | None:
    """Say which parameter has run away, if one has: then the likelihood has no maximum among finite values."""
    steep = (parameters[:, :-2].abs() > SLOPE_BOUND).any(dim=1)
    if bool(steep.any()):
        return f"{int(steep.sum())} items have a slope beyond {SLOPE_BOUND:g}: a parameter is at its bound"
    logit = parameters[:, -1] if problem.by_root is not None else parameters[:, -1].abs()  # by root 0 is no bound
    guessing = problem.guessing_free & (logit > GUESSING_LOGIT_BOUND)
    if bool(guessing.any()):
        return f"guessing of {int(guessing.sum())} items is at its bound 0 or 1"
    return None
