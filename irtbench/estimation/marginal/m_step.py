"""The M step: each item's own likelihood at given expected counts, and Fisher-scoring steps towards its maximum.

At given counts items are independent of each other, each with a likelihood of its two or three parameters:

    sum_q r log P + (n - r) log(1 - P),   P = c + (1 - c) s,   s the logistic function of z = a theta + d.

Maximising it is the M step of EM (Bock & Aitkin, 1981); one or two steps of Fisher scoring go most of the way. Guessing
is c itself here, not its logit as elsewhere: for given slope and intercept the likelihood is concave in c, and c = 0,
where many items have their maximum, is a bound like any other. Gradients and steps are matrices with the columns of
`models.pyro_model.tensors`.

With x_j the slope, intercept and guessing of item j, x_j = (its own parameters) + D_j y with y what items share. The
information of all is then an arrow: a block for each item's own parameters, and y next to them. Eliminating the former,

    K_j = D_j - M_j^-1 I_j D_j,   S = sum_j D_j' I_j K_j,   y = S^-1 sum_j K_j' g_j,   x_j = M_j^-1 g_j + K_j y,

with I_j the information of item j and M_j^-1 the inverse of its own block, zero elsewhere. Of several scales, the items
of one after those of the other, each has a y of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property, singledispatch

import torch
from torch import Tensor

from irtbench.estimation.marginal.e_step import Counts
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.tensors import GUESSING, LINEAR, ItemTensors, NodeTensors, SharedParameters


@dataclass(frozen=True)
class SharedSolver:
    """Solutions x of I x = g among the items that shared parameters allow.

    Parameters
    ----------
    own
        Which parameters are an item's own, shape (n_items, width).
    factor
        Lower triangular, of each item's own block, the identity elsewhere, of the shape of the items' information.
    response
        K_j, how item j moves with the shared parameters, shape (n_items, width, n_shared).
    inverse
        S^-1 of each scale, shape (n_scales, n_shared, n_shared).
    """

    own: Tensor
    factor: Tensor
    response: Tensor
    inverse: Tensor

    @classmethod
    def of(cls, shared: SharedParameters, own: Tensor, information: Tensor, *, n_scales: int = 1) -> SharedSolver:
        """From the information of each item, shape (n_items, width, width)."""
        identity = torch.eye(own.shape[1], dtype=information.dtype, device=information.device)
        block = torch.where(own[:, :, None] & own[:, None, :], information, identity)
        factor = torch.linalg.cholesky_ex(block).L
        design = shared.design.permute(1, 2, 0)
        moved = information @ design
        response = design - torch.cholesky_solve(torch.where(own[:, :, None], moved, 0.0), factor)
        by_scale = n_scales, -1, len(shared.design)
        left = moved.view(by_scale).mT @ response.view(by_scale)
        return cls(own, factor, response, torch.linalg.inv_ex((left + left.mT) / 2).inverse)

    def _by_scale(self, of_items: Tensor) -> Tensor:
        """Columns of all parameters of each scale, shape (n_scales, n_items / n_scales * width, n_columns)."""
        return of_items.reshape(len(self.inverse), -1, of_items.shape[2])

    def _by_shared(self, right: Tensor) -> Tensor:
        """S^-1 sum_j K_j' g_j, shape (n_scales, n_shared, n_columns)."""
        return self.inverse @ (self._by_scale(self.response).mT @ self._by_scale(right))

    def solve(self, right: Tensor) -> Tensor:
        """X for each column of g, shape (n_items, width, n_columns)."""
        alone = torch.cholesky_solve(torch.where(self.own[:, :, None], right, 0.0), self.factor)
        return alone + (self._by_scale(self.response) @ self._by_shared(right)).view(right.shape)

    def with_missing(self, missing: Tensor, step: Tensor) -> Tensor:
        """The step x of I x = g made that of (I - U U') x = g      (Woodbury, 1950).

        Parameters
        ----------
        missing
            U, shape (n_items, width, n_columns).
        step
            Shape (n_items, width).
        """
        across, left = self._across(missing)
        along = self._by_scale(missing).mT @ self._by_scale(step[:, :, None])
        return step + (self._by_scale(across) @ torch.linalg.solve_ex(left, along).result).view(step.shape)

    def _across(self, missing: Tensor) -> tuple[Tensor, Tensor]:
        """I^-1 U, and 1 - U' I^-1 U of each scale."""
        across = self.solve(missing)
        within = self._by_scale(missing).mT @ self._by_scale(across)
        return across, torch.eye(within.shape[1], dtype=within.dtype, device=within.device) - within

    def covariance(self, missing: Tensor) -> tuple[Tensor, Tensor]:
        """Blocks of (I - U U')^-1, the shared parameters behind each item's, and the items not determined: all or none.

        Of one scale; shape (n_items, width + n_shared, width + n_shared).
        """
        across, left = self._across(missing)
        shared_across = self._by_shared(missing)
        root, failed = torch.linalg.cholesky_ex(left)
        definite = not bool(failed) and bool(torch.isfinite(root).all())
        each = torch.where(self.own[:, :, None] & self.own[:, None, :], torch.cholesky_inverse(self.factor), 0.0)
        n_items, width, n_shared = self.response.shape
        joint = torch.zeros(n_items, width + n_shared, width + n_shared, dtype=each.dtype, device=each.device)
        joint[:, :width, :width] = each
        identity = torch.eye(n_shared, dtype=each.dtype, device=each.device).expand(n_items, -1, -1)
        response = torch.cat([self.response, identity], dim=1)
        both = torch.cat([across, shared_across.expand(n_items, -1, -1)], dim=1)
        joint += response @ self.inverse @ response.transpose(1, 2)
        joint += both @ torch.linalg.inv_ex(left).inverse @ both.transpose(1, 2)
        return joint, torch.full_like(self.own[:, 0], not definite)


LARGEST_STEP = 1.5  # in logits: no slope or intercept moves further in one step
LARGEST_GUESSING_STEP = 0.2
LEAST_SHARE = 0.1  # of c that a step leaves, where a prior forbids c = 0
SHORT_STEP = 0.03
MOST_CELLS = 2**17  # items x nodes at once: what is made of them stays in the processor's cache
HIGHEST_GUESSING = 0.9999  # beyond any c that is not at its bound


@dataclass(frozen=True)
class ItemDerivatives:
    """Derivatives of the log-posterior by slopes, intercept and c of each item.

    Parameters
    ----------
    items
        Where they were taken.
    gradient
        0 where a parameter is fixed and in fixed directions, shape (n_items, n_factors + 2).
    information
        Fisher information of each item if abilities were seen, and the curvature of the prior, shape (n_items,
        n_factors + 2, n_factors + 2); the identity's row and column where a parameter is fixed.
    missing
        U, of which U U' is the missing information (Orchard & Woodbury, 1972) over all items, shape (n_items,
        n_factors + 2, n_columns); None for several abilities.
    precision
        Posterior precisions of theta summed over respondents, in each bin of nodes, shape (n_scales, n_columns).
    """

    items: ItemTensors
    gradient: Tensor
    information: Tensor
    missing: Tensor | None
    precision: Tensor | None = None

    @classmethod
    def of(
        cls,
        problem: Problem,
        items: ItemTensors,
        gradient: Tensor,
        information: Tensor,
        missing: Tensor | None,
        precision: Tensor | None = None,
    ) -> ItemDerivatives:
        """Those by what is estimated, from those by all parameters."""
        if not problem.all_free:
            gradient = torch.where(problem.free, gradient, 0.0)
            information = torch.where(problem.estimated_pairs, information, problem.identity)
            missing = None if missing is None else torch.where(problem.free[:, :, None], missing, 0.0)
        return cls(items, problem.without_fixed_directions(gradient), information, missing, precision)

    def of_items(self, which: Tensor) -> ItemDerivatives:
        """Those of some items, without the precision."""
        missing = None if self.missing is None else self.missing[which]
        items = ItemTensors.from_matrix(self.items.matrix[which])
        return ItemDerivatives(items, self.gradient[which], self.information[which], missing)

    @cached_property
    def factor(self) -> Tensor:
        """Lower triangular L of each item, information = LL'."""
        return torch.linalg.cholesky_ex(with_ridge(self.information)).L


@singledispatch
def item_derivatives(problem: Problem, items: ItemTensors, counts: Counts) -> ItemDerivatives:
    """Derivatives at these items and the counts there; other kinds of problems register their own.

    By z and c, with t = 1 - s, the gradient is the sum over nodes of r s / P - n s and r t / P - (n - r) / (1 - c), and
    the information that of n s^2 t (1 - c) / P, n s t / P and n t^2 / P + n t / (1 - c).

    The missing information is sum_i Cov[s_i | x_i], s_i the score of respondent i if theta were known. s_i is expected
    to change by -u = -a dP/dz dP' / (P (1 - P)) with theta, and where posteriors are narrow, of variance
    v = 1 / (1 + I(theta)), the sum is that of n v u u' over nodes. Neighbouring nodes are taken together, which leaves
    no more out than there is, so that the information of all items less U U' stays positive.
    """
    gradient, information = problem.prior.derivatives(items, by_logit=False)
    rate = items.slope if problem.n_factors == 1 else None  # of logits by theta
    most = max(1, MOST_CELLS // len(problem.nodes.theta))
    parts = [
        sums_over_nodes(problem.nodes, items, counts, slice(first, first + most), binned=rate is not None)
        for first in range(0, len(items), most)
    ]
    by_items, by_pairs, in_bins = (torch.cat(sums) for sums in zip(*parts, strict=True))
    gradient += by_items
    information += by_pairs
    missing = precision = None
    if rate is not None:
        missing, by_z = in_bins, in_bins[:, problem.free.shape[1] - 2]
        of_items = (rate.square() * by_z).view(problem.n_scales, -1, by_z.shape[1]).sum(dim=1)
        precision = counts.respondents.view(problem.n_scales, -1) @ problem.nodes.bins + of_items
        missing *= (rate * problem.of_items(precision.clamp(min=1e-300).rsqrt()))[:, None, :]
    return ItemDerivatives.of(problem, items, gradient, information, missing, precision)


def sums_over_nodes(
    nodes: NodeTensors, items: ItemTensors, counts: Counts, which: slice, *, binned: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """What the data add to gradient and information of some items, and their weights in bins of nodes.

    Weights are by z and the abilities, by z alone, and by z and c, shape (n_items, n_factors + 2, n_bins); 0 bins where
    they are not wanted.
    """
    n, right, some = counts.n[which], counts.right[which], ItemTensors.from_matrix(items.matrix[which])
    width = some.matrix.shape[1]
    zeros = some.intercept.new_zeros
    gradient, information = zeros(len(n), width), zeros(len(n), width, width)
    s = some.logits(nodes.basis).sigmoid_()
    weight_zc = None
    if counts.r is None:  # nothing is guessed: P = s
        expected = n * s
        gradient[:, LINEAR] = right - expected @ nodes.basis
        weight_zz = expected.addcmul_(expected, s, value=-1)
        information[:, LINEAR, LINEAR] = (weight_zz @ nodes.basis_products).view(len(n), width - 1, width - 1)
    else:
        r, c, t = counts.r[which], some.guessing[:, None], 1 - s
        p, wrong = torch.addcmul(c, 1 - c, s), n * t
        ratio, share = r / p, wrong / p
        gradient[:, LINEAR] = (s * (ratio - n)) @ nodes.basis
        gradient[:, GUESSING] = (ratio * t).sum(dim=1) - (n.sum(dim=1) - right[:, -1]) / (1 - c[:, 0])
        weight_zc = s * share
        weight_zz = weight_zc * (p - c)
        sums = torch.stack([weight_zz, weight_zc, share * t], dim=1) @ nodes.basis_products
        information += sums.flatten(1)[:, entries(width)]
        information[:, GUESSING, GUESSING] += wrong.sum(dim=1) / (1 - c[:, 0])
    in_bins = zeros(len(n), width, nodes.bins.shape[1] if binned else 0)
    if binned:
        in_bins[:, LINEAR] = (weight_zz @ nodes.binned_basis).view(len(n), width - 1, -1)
        if weight_zc is not None:
            in_bins[:, GUESSING] = weight_zc @ nodes.bins
    return gradient, information, in_bins


@cache
def entries(width: int) -> Tensor:
    """Where each entry of an information by (slopes, intercept, c) is in the sums by zz, zc and cc.

    Each of the three sums is of the products of two columns of (theta, 1), row by row.
    """
    last, block = width - 2, (width - 1) ** 2
    place = torch.empty(width, width, dtype=torch.int64)
    place[:-1, :-1] = torch.arange(block).reshape(width - 1, width - 1)
    place[:-1, -1] = place[-1, :-1] = block + torch.arange(width - 1) * (width - 1) + last
    place[-1, -1] = 3 * block - 1
    return place


def shared_solver(problem: Problem, derivatives: ItemDerivatives) -> SharedSolver:
    """What solves for the steps of items that share parameters."""
    assert problem.prior.shared is not None
    information = with_ridge(derivatives.information)
    return SharedSolver.of(problem.prior.shared, problem.own, information, n_scales=problem.n_scales)


def scoring_step(problem: Problem, derivatives: ItemDerivatives) -> Tensor:
    """Each item's step to the maximum of the quadratic g'x - x'Ix / 2 within its bounds, no longer than may be."""
    items, gradient, information = derivatives.items, derivatives.gradient, derivatives.information
    if problem.prior.shared is not None:
        return within_bounds(problem, items, shared_solver(problem, derivatives).solve(gradient[:, :, None])[:, :, 0])
    step = torch.cholesky_solve(gradient[:, :, None], derivatives.factor)[:, :, 0]
    if problem.guesses:
        lowest = lowest_guessing(problem, items) - items.guessing
        below = problem.guessing_free & (step[:, GUESSING] < lowest)
        if bool(below.any()):
            at_bound = lowest[:, None]
            rest = gradient[:, LINEAR] - information[:, LINEAR, GUESSING] * at_bound
            others = torch.linalg.solve_ex(with_ridge(information[:, LINEAR, LINEAR]), rest).result
            step = torch.where(below[:, None], torch.cat([others, at_bound], dim=1), step)
    return within_bounds(problem, items, step)


def with_second_step(problem: Problem, counts: Counts, derivatives: ItemDerivatives, first: Tensor) -> Tensor:
    """The items' steps with a second M step at the same counts, where one of them was long.

    Counts cost a pass over all respondents, a step of the items next to nothing, but for many scales of categories.
    """
    if (problem.prior.on_logits and problem.n_scales > 1) or float(first.abs().max()) < SHORT_STEP:
        return first
    return first + scoring_step(problem, item_derivatives(problem, moved(derivatives.items, first), counts))


def moved(items: ItemTensors, step: Tensor) -> ItemTensors:
    """Items after a step in slopes, intercept and c."""
    return ItemTensors.from_matrix(items.matrix + step)


def with_ridge(information: Tensor) -> Tensor:
    """A little more on the diagonal, which matters only where the information is singular."""
    raised = information.clone()
    raised.diagonal(dim1=1, dim2=2).mul_(1 + 1e-9).add_(1e-12)
    return raised


def lowest_guessing(problem: Problem, items: ItemTensors) -> Tensor:
    """The lowest c that a step may lead to, shape (n_items,): 0 without a prior."""
    return torch.zeros_like(items.guessing) if problem.prior.guessing_is_flat else LEAST_SHARE * items.guessing


def within_bounds(problem: Problem, items: ItemTensors, step: Tensor) -> Tensor:
    """Each item's step no longer than may be, and such that c stays where it may be."""
    reach = step.abs() / LARGEST_STEP
    if problem.guesses:
        reach[:, GUESSING] *= LARGEST_STEP / LARGEST_GUESSING_STEP
    most = reach.amax(dim=1, keepdim=True)
    if problem.prior.shared is not None:  # what items share moves for all of them alike
        most = problem.of_items(most.view(problem.n_scales, -1).amax(dim=1, keepdim=True))
    step = step / most.clamp(min=1.0)
    if not problem.guesses:
        return step
    c = items.guessing
    step[:, GUESSING] = step[:, GUESSING].minimum(HIGHEST_GUESSING - c).maximum(lowest_guessing(problem, items) - c)
    return step if problem.all_free else torch.where(problem.free, step, 0.0)


def distances(problem: Problem, derivatives: ItemDerivatives, step: Tensor) -> Tensor:
    """How far the furthest item of each scale is from its maximum, in its own standard errors, shape (n_scales,).

    sqrt(2 gain), the gain of a `scoring_step` being that of the quadratic g'x - x'Ix / 2; away from bounds it is
    sqrt(g' I^-1 g). Where items share parameters the distance is that of all together.
    """
    by_item = gains(derivatives, step).view(problem.n_scales, -1)
    if problem.prior.shared is not None:  # an item alone may lose by what all gain
        by_item = by_item.sum(dim=1, keepdim=True)
    return by_item.clamp(min=0).amax(dim=1).sqrt()


def gains(derivatives: ItemDerivatives, step: Tensor) -> Tensor:
    """Twice the log-likelihood that each item's step gains, shape (n_items,)."""
    gain = 2 * derivatives.gradient - (derivatives.information @ step[:, :, None])[:, :, 0]
    return (gain * step).sum(dim=1)


def with_missing_information(problem: Problem, derivatives: ItemDerivatives, step: Tensor) -> Tensor:
    """The items' own steps, made what they are if the missing information, which couples the items, is subtracted.

    With D = LL' the items' information and W = L^-1 U, a step D^-1 g becomes (D - U U')^-1 g = y of which
    L'y = (1 + W (1 - W'W)^-1 W') L' step                                     (Woodbury, 1950)
    Items that step onto c = 0 keep their c there.
    """
    factor, by_item = derivatives.factor, derivatives.missing
    if by_item is None:
        return step
    if problem.prior.shared is not None:
        return shared_solver(problem, derivatives).with_missing(by_item, step)
    if problem.guesses:
        onto = problem.guessing_free & (derivatives.items.guessing + step[:, GUESSING] == 0)
        if bool(onto.any()):
            fixed = torch.zeros_like(problem.free)
            fixed[:, GUESSING] = onto
            pairs = fixed[:, :, None] | fixed[:, None, :]
            information = torch.where(pairs, problem.identity, derivatives.information)
            factor = torch.linalg.cholesky_ex(with_ridge(information)).L
            by_item = torch.where(fixed[:, :, None], 0.0, by_item)
    shape = problem.n_scales, step.numel() // problem.n_scales, -1
    whitened = (factor.mT @ step[:, :, None]).reshape(shape)
    missing = torch.linalg.solve_triangular(factor, by_item, upper=False).reshape(shape)
    left = torch.eye(missing.shape[2], dtype=missing.dtype, device=missing.device) - missing.mT @ missing
    whitened = whitened + missing @ torch.linalg.solve_ex(left, missing.mT @ whitened).result
    return torch.linalg.solve_triangular(factor.mT, whitened.reshape(*step.shape, 1), upper=True)[:, :, 0]
