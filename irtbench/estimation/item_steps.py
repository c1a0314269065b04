"""Each item's own likelihood at given expected counts, and steps towards its maximum.

At given counts items are independent of each other, each with a likelihood of its two or three parameters:

    sum_q r log P + (n - r) log(1 - P),   P = c + (1 - c) s,   s the logistic function of z = a theta + d.

Maximising it is the M step of EM (Bock & Aitkin, 1981). Guessing is c itself here, not its logit as elsewhere: for
given slope and intercept the likelihood is concave in c, and c = 0, where many items have their maximum, is a bound
like any other. `values` are slopes, intercept and c of each item, shape (n_items, n_factors + 2).
"""

from __future__ import annotations

from functools import cache, cached_property

import torch
from torch import Tensor

from irtbench.estimation.prior_density import prior_derivatives
from irtbench.estimation.problem import Counts, Problem

LARGEST_STEP = 1.5  # in logits: no slope or intercept moves further in one step
LARGEST_GUESSING_STEP = 0.2
LEAST_SHARE = 0.1  # of c that a step leaves, where a prior forbids c = 0
HIGHEST_GUESSING = 0.9999  # beyond any c that is not at its bound
SHORT_STEP = 0.03  # no second Newton step at the same counts where the first was shorter


class ItemDerivatives:
    """Derivatives of the log-posterior by the items' values at given counts, each computed when it is asked for.

    By z and c, with t = 1 - s and m = n - r, the gradient is the sum over nodes of r s / P - n s and
    r t / P - m / (1 - c), and the negative Hessian that of s t (n - r c / P^2), r s t / P^2 and r (t / P)^2 +
    m / (1 - c)^2.

    Parameters
    ----------
    problem, values, counts
        The model, the items' values, and the expected counts, at these values or at others.
    """

    def __init__(self, problem: Problem, values: Tensor, counts: Counts) -> None:
        self.problem, self.values, self.counts = problem, values, counts
        self.s = torch.sigmoid(values[:, :-1] @ problem.nodes.basis.T)
        self.t = 1 - self.s
        self.prior_gradient, self.prior_information = prior_derivatives(problem.priors, values, by_probability=True)
        if counts.r is not None:
            c = torch.where(problem.guessing_free, values[:, -1], problem.guessing_fixed)[:, None]
            self.c, self.p = c, torch.addcmul(c, 1 - c, self.s)
            self.ratio = counts.r / self.p
            self.wrong = (counts.n - counts.r).sum(dim=1)

    @cached_property
    def gradient(self) -> Tensor:
        """0 where a parameter is held fixed and in held directions, shape (n_items, n_factors + 2)."""
        n, basis = self.counts.n, self.problem.nodes.basis
        if self.counts.r is None:
            by_z = self.counts.right - (n * self.s) @ basis
            by_c = torch.zeros_like(by_z[:, 0])
        else:
            by_z = (self.s * (self.ratio - n)) @ basis
            by_c = (self.ratio * self.t).sum(dim=1) - self.wrong / (1 - self.c[:, 0])
        gradient = self.prior_gradient + torch.cat([by_z, by_c[:, None]], dim=1)
        return self.problem.without_held(torch.where(self.problem.free, gradient, 0.0))

    @cached_property
    def observed(self) -> Tensor:
        """Negative Hessian of each item's own likelihood and prior, shape (n_items, n_factors + 2, n_factors + 2).

        The identity's row and column where a parameter is held fixed.
        """
        if self.counts.r is None:
            return self.expected
        cc = self.ratio * self.t / self.p
        zc = cc * self.s
        zz = torch.addcmul(self.counts.n * self.s * self.t, self.c, zc, value=-1)
        return self._information(zz, zc, cc * self.t, self.wrong / (1 - self.c[:, 0]) ** 2)

    @cached_property
    def expected(self) -> Tensor:
        """The same with r at its expectation n P: the Fisher information of each item if abilities were seen."""
        zz, zc = self._expected_weights
        if zc is None:
            return self._information(zz)
        wrong = self.counts.n * self.t
        return self._information(zz, zc, wrong * self.t / self.p, wrong.sum(dim=1) / (1 - self.c[:, 0]))

    @cached_property
    def shared(self) -> Tensor | None:
        """U, the information lost because abilities are not seen: over all items it is U U'.

        What is lost is sum_i Cov[s_i | x_i], s_i the score of respondent i if theta were known. s_i is expected to
        change by -u = -a dP/dz dP' / (P (1 - P)) with theta, and where posteriors are narrow, of variance
        v = 1 / (1 + I(theta)), the sum is that of n v u u' over nodes. Neighbouring nodes are taken together, which
        loses no more than there is to lose.

        Shape (n_items, n_factors + 2, n_columns); None for several abilities.
        """
        if self.problem.n_factors > 1:
            return None
        zz, zc = self._expected_weights
        slope, theta, bins = self.values[:, :1], self.problem.nodes.theta[:, 0], self.problem.nodes.bins
        precision = self.counts.respondents + slope[:, 0].square() @ zz
        weights = torch.stack([zz * theta, zz, torch.zeros_like(zz) if zc is None else zc], dim=1)
        shared = (weights @ bins) * (slope[:, None, :] * (precision @ bins).clamp(min=1e-300).rsqrt())
        return shared if self.problem.all_free else torch.where(self.problem.free[:, :, None], shared, 0.0)

    @cached_property
    def _expected_weights(self) -> tuple[Tensor, Tensor | None]:
        """Expected information by z, and by z and c, at each node, each of shape (n_items, n_nodes)."""
        solved = self.counts.n * self.s * self.t
        if self.counts.r is None:
            return solved, None
        zc = solved / self.p
        return zc * (self.p - self.c), zc

    def _information(
        self, zz: Tensor, zc: Tensor | None = None, cc: Tensor | None = None, more_cc: Tensor | None = None
    ) -> Tensor:
        """That of the prior and of what each node adds by z and c, shape (n_items, n_nodes) each, and by c besides."""
        products = self.problem.nodes.basis_products
        width = self.values.shape[1]
        if zc is None or cc is None:
            sums = (zz @ products).reshape(-1, width - 1, width - 1)
            information = self.prior_information + torch.nn.functional.pad(sums, (0, 1, 0, 1))
        else:
            sums = torch.stack([zz, zc, cc], dim=1) @ products
            information = self.prior_information + sums.flatten(1)[:, entries(width)]
            information[:, -1, -1] += 0.0 if more_cc is None else more_cc
        return information if self.problem.all_free else fixed_at(information, ~self.problem.free)


@cache
def entries(width: int) -> Tensor:
    """Where each entry of an information by (slopes, intercept, c) stands in the sums by zz, zc and cc.

    Each of the three sums is of the products of two columns of (theta, 1), row by row.
    """
    last, block = width - 2, (width - 1) ** 2
    place = torch.empty(width, width, dtype=torch.int64)
    place[:-1, :-1] = torch.arange(block).reshape(width - 1, width - 1)
    place[:-1, -1] = place[-1, :-1] = block + torch.arange(width - 1) * (width - 1) + last
    place[-1, -1] = 3 * block - 1
    return place


def with_probability(problem: Problem, parameters: Tensor) -> Tensor:
    """Values of these parameters: c in place of its logit."""
    values = parameters.clone()
    values[:, -1] = torch.where(problem.guessing_free, torch.sigmoid(parameters[:, -1]), parameters[:, -1])
    return values


def with_logit(problem: Problem, values: Tensor) -> Tensor:
    """Parameters of these values: the logit of c in place of c, minus infinity for 0."""
    parameters = values.clone()
    parameters[:, -1] = torch.where(problem.guessing_free, torch.logit(values[:, -1]), values[:, -1])
    return parameters


def fixed_at(information: Tensor, fixed: Tensor) -> Tensor:
    """The identity's rows and columns where a parameter is held fixed, shape (n_items, width)."""
    identity = torch.eye(information.shape[1], dtype=information.dtype, device=information.device)
    return torch.where(fixed[:, :, None] | fixed[:, None, :], identity, information)


def improved(problem: Problem, derivatives: ItemDerivatives) -> Tensor:
    """Values after a Newton step of each item, or a second at the same counts where the first moved an item far.

    Where an item's observed information is not positive definite its expected one takes its place.
    """
    values = derivatives.values
    first = newton_step(problem, derivatives, derivatives.observed)
    if float(first.abs().max()) < SHORT_STEP:
        return values + first
    again = ItemDerivatives(problem, values + first, derivatives.counts)
    return again.values + newton_step(problem, again, again.observed)


def newton_step(problem: Problem, derivatives: ItemDerivatives, information: Tensor) -> Tensor:
    """Each item's step to the maximum of the quadratic g'x - x'Ix / 2 within its bounds, no longer than may be.

    Parameters
    ----------
    information
        I, observed or expected; where it is not positive definite the expected one takes its place.
    """
    factor, failed = torch.linalg.cholesky_ex(information)
    if bool(failed.any()):
        information = torch.where(failed[:, None, None] > 0, derivatives.expected, information)
        factor, _ = torch.linalg.cholesky_ex(with_ridge(information))
    values, gradient = derivatives.values, derivatives.gradient
    step = torch.cholesky_solve(gradient[:, :, None], factor)[:, :, 0]
    if problem.guesses:
        lowest = lowest_guessing(problem, values) - values[:, -1]
        below = problem.guessing_free & (step[:, -1] < lowest)
        if bool(below.any()):
            at_bound = lowest[:, None]
            rest = gradient[:, :-1] - information[:, :-1, -1] * at_bound
            others = torch.linalg.solve_ex(with_ridge(information[:, :-1, :-1]), rest).result
            step = torch.where(below[:, None], torch.cat([others, at_bound], dim=1), step)
    return within_bounds(problem, values, step)


def with_ridge(information: Tensor) -> Tensor:
    """A little more on the diagonal, which matters only where the information is singular."""
    diagonal = torch.diagonal(information, dim1=1, dim2=2)
    return information + torch.diag_embed(1e-9 * diagonal.abs() + 1e-12)


def lowest_guessing(problem: Problem, values: Tensor) -> Tensor:
    """The lowest c that a step may lead to, shape (n_items,): 0 without a prior."""
    return torch.zeros_like(values[:, -1]) if problem.priors.guessing is None else LEAST_SHARE * values[:, -1]


def within_bounds(problem: Problem, values: Tensor, step: Tensor) -> Tensor:
    """Each item's step no longer than may be, and such that c stays where it may be."""
    reach = step.abs() / LARGEST_STEP
    if not problem.guesses:
        return step / reach.amax(dim=1, keepdim=True).clamp(min=1.0)
    reach[:, -1] *= LARGEST_STEP / LARGEST_GUESSING_STEP
    step = step / reach.amax(dim=1, keepdim=True).clamp(min=1.0)
    c = values[:, -1]
    step[:, -1] = step[:, -1].minimum(HIGHEST_GUESSING - c).maximum(lowest_guessing(problem, values) - c)
    return step if problem.all_free else torch.where(problem.free, step, 0.0)


def distance(derivatives: ItemDerivatives, step: Tensor) -> float:
    """How far the furthest item is from its maximum, in its own standard errors.

    sqrt(2 gain), the gain being that of the quadratic with the expected information; sqrt(g' I^-1 g) away from bounds.

    Parameters
    ----------
    step
        `newton_step` with the expected information.
    """
    gain = 2 * derivatives.gradient - (derivatives.expected @ step[:, :, None])[:, :, 0]
    return float((gain * step).sum(dim=1).clamp(min=0).max().sqrt())


def with_lost_information(problem: Problem, derivatives: ItemDerivatives, step: Tensor) -> Tensor:
    """The items' own steps, made what they are if the information that the items share is taken into account.

    With D = LL' the expected information and W = L^-1 U, a step D^-1 g becomes (D - U U')^-1 g = y of which
    L'y = (1 + W (1 - W'W)^-1 W') L' step                                     (Woodbury, 1950)
    Items that step onto c = 0 keep their c there.
    """
    information, by_item = derivatives.expected, derivatives.shared
    if by_item is None:
        return step
    if problem.guesses:
        onto = problem.guessing_free & (derivatives.values[:, -1] + step[:, -1] == 0)
        if bool(onto.any()):
            fixed = torch.zeros_like(problem.free)
            fixed[:, -1] = onto
            information = fixed_at(information, fixed)
            by_item = torch.where(fixed[:, :, None], 0.0, by_item)
    factor, _ = torch.linalg.cholesky_ex(with_ridge(information))
    whitened = (factor.mT @ step[:, :, None]).flatten(0, 1)
    lost = torch.linalg.solve_triangular(factor, by_item, upper=False).flatten(0, 1)
    left = torch.eye(lost.shape[1], dtype=lost.dtype, device=lost.device) - lost.T @ lost
    whitened = whitened + lost @ torch.linalg.solve_ex(left, lost.T @ whitened).result
    return torch.linalg.solve_triangular(factor.mT, whitened.reshape(*step.shape, 1), upper=True)[:, :, 0]
