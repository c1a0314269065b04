"""Sampling covariance of item parameters, and of what they share, from the observed information.

The observed information of the marginal likelihood is what complete data would have given, less the missing
information, abilities not being seen (Louis, 1982):

    I = sum_i E[-H_i | x_i] - sum_i Cov[s_i | x_i],

with s_i and H_i the score and Hessian of respondent i's row if theta were known, and expectations over the posterior
of theta_i. The second term couples all items, so the whole matrix is inverted.

Where all items have one slope, the model's ability is z ~ N(0, 1) with logit s z + d_j (1PL); a Rasch item is read by
theta = s z, with slope 1 and intercept d_j, and ability N(0, s^2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.estimation.marginal.e_step import at
from irtbench.estimation.marginal.m_step import item_derivatives, shared_solver
from irtbench.estimation.marginal.missing_information import ScoreBasis, missing_information, posterior_covariances
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.threads import summed
from irtbench.models.pyro_model.tensors import GUESSING, LINEAR, ItemTensors, curve

MOST_COUPLED_ITEMS = 500  # the whole information of more would be a matrix of gigabytes
SPAN_TOLERANCE = 1e-10  # relative size of what the shared basis may leave out
MOST_SPANNING = 1024  # functions of which a basis is made at first
LEFT_OVER = 1e-7  # relative size of what it may leave out of the others
MOST_INFLATION = 1e4  # of a variance by the other parameters' not being known: standard errors a hundred times as wide


def curve_derivatives(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """First and second derivatives of log P and log(1 - P) by (slopes, intercept, logit guessing) at each node.

    Returns
    -------
    first_p, first_q
        Shape (n_items, n_nodes, n_factors + 2).
    second_p, second_q
        Shape (n_items, n_nodes, n_factors + 2, n_factors + 2).
    """
    basis = problem.nodes.basis
    at = curve(items.logits(basis), items.guessing[:, None])
    zeros = torch.zeros_like(at.s)

    def first(by_z: Tensor, by_c: Tensor) -> Tensor:
        return torch.cat([by_z[:, :, None] * basis, by_c[:, :, None]], dim=2)

    def second(zz: Tensor, zc: Tensor, cc: Tensor) -> Tensor:
        across = zc[:, :, None] * basis
        top = torch.cat([zz[:, :, None, None] * basis[:, :, None] * basis[:, None, :], across[:, :, :, None]], dim=3)
        bottom = torch.cat([across, cc[:, :, None]], dim=2)[:, :, None, :]
        return torch.cat([top, bottom], dim=2)

    return (
        first(at.log_p_z, at.log_p_l),
        first(at.log_q_z, zeros + at.log_q_l),
        second(at.log_p_zz, at.log_p_zl, at.log_p_ll),
        second(at.log_q_zz, zeros, zeros + at.log_q_ll),
    )


def span(functions: Tensor, importance: Tensor) -> tuple[Tensor, Tensor]:
    """Express functions on the nodes by few: functions = coefficients @ basis, up to a constant each.

    A constant has no posterior variance, so each function is centred first; `importance` weights the nodes.

    Parameters
    ----------
    functions
        Shape (n_functions, n_nodes).
    importance
        Share of the respondents near each node, shape (n_nodes,).

    Returns
    -------
    coefficients
        Shape (n_functions, rank).
    basis
        Shape (rank, n_nodes).
    """
    root = importance.sqrt()
    weighted = (functions - (functions @ importance)[:, None]).mul_(root)
    largest = torch.linalg.vector_norm(weighted, torch.inf).clamp(min=1e-300)
    # smooth functions all alike: some of many show what spans them, and those that they do not span come to them
    chosen = torch.arange(len(functions), device=functions.device) % (-(-len(functions) // MOST_SPANNING) | 1) == 0
    while True:
        _, sizes, right = torch.linalg.svd(weighted[chosen], full_matrices=False)
        right = right[sizes > SPAN_TOLERANCE * sizes.max().clamp(min=1e-300)]
        coefficients = weighted @ right.T
        left = torch.addmm(weighted, coefficients, right, alpha=-1).abs_().amax(dim=1)
        beyond = (left > LEFT_OVER * largest) & ~chosen
        if not bool(beyond.any()):
            break
        chosen |= beyond
    return coefficients, right / root


def complete_information(problem: Problem, items: ItemTensors) -> tuple[Tensor, ScoreBasis]:
    """The information of complete data on each item, prior included, and the basis of the scores.

    A response contributes to its item's score x * (dlog P - dlog Q) + m * dlog Q. As functions of theta these lie in
    a space of few dimensions, shared by all items, so the posterior covariance of a respondent's score needs only the
    covariance of a few basis functions.
    """
    if not problem.guesses:
        return complete_information_without_guessing(problem, items)
    counts = problem.counts(items, at_nodes=True)
    first_p, first_q, second_p, second_q = curve_derivatives(problem, items)
    n_items, n_nodes, width = first_p.shape
    assert counts.r is not None
    complete = -torch.einsum("jq,jqkl->jkl", counts.r, second_p)
    complete -= torch.einsum("jq,jqkl->jkl", counts.n - counts.r, second_q)
    complete += problem.prior.derivatives(items, by_logit=True, positive=False)[1]
    free = problem.free.reshape(-1, 1)
    importance = (counts.n.mean(dim=0) / counts.n.mean(dim=0).sum()).clamp(min=1e-12)
    right_functions = (first_p - first_q).transpose(1, 2).reshape(n_items * width, n_nodes)
    base_functions = first_q.transpose(1, 2).reshape(n_items * width, n_nodes)
    right, right_basis = span(right_functions * free, importance)
    base, base_basis = span(base_functions * free, importance)
    return complete, ScoreBasis(
        right.reshape(n_items, width, -1), base.reshape(n_items, width, -1), torch.cat([right_basis, base_basis])
    )


def complete_information_without_guessing(problem: Problem, items: ItemTensors) -> tuple[Tensor, ScoreBasis]:
    """The same where the log odds are linear: a correct response adds (theta, 1), and any response -s (theta, 1).

    The information of complete data is then the sum of n s (1 - s) (theta, 1) (theta, 1)', whatever the responses.
    """
    counts = problem.counts(items)
    basis = problem.nodes.basis
    n_items, width = problem.free.shape
    s = items.logits(basis).sigmoid_()
    complete = problem.prior.derivatives(items, by_logit=True, positive=False)[1]
    complete[:, LINEAR, LINEAR] += ((counts.n * s).mul_(1 - s) @ problem.nodes.basis_products).reshape(
        n_items, width - 1, width - 1
    )
    importance = (counts.respondents / counts.respondents.sum()).clamp(min=1e-12)
    right, right_basis = span(basis.T, importance)
    base, base_basis = span((-s[:, None, :] * basis.T).flatten(0, 1), importance)
    free = problem.free[:, :, None]
    last = (0, 0, 0, 1)  # nothing is added by guessing
    return complete, ScoreBasis(
        torch.where(free, torch.nn.functional.pad(right.expand(n_items, -1, -1), last), 0.0),
        torch.where(free, torch.nn.functional.pad(base.reshape(n_items, width - 1, -1), last), 0.0),
        torch.cat([right_basis, base_basis]),
    )


@singledispatch
def observed_information(problem: Problem, items: ItemTensors) -> Tensor:
    """Negative Hessian of the log-posterior in the free parameters, item by item, shape (n_free, n_free)."""
    complete, basis = complete_information(problem, items)
    n_items, width = problem.free.shape
    information = -missing_information(problem, items, basis, complete)
    each = torch.arange(n_items, device=items.intercept.device)
    information[each, :, each, :] += complete
    flat = information.reshape(n_items * width, n_items * width)
    chosen = problem.free.reshape(-1)
    return flat[chosen][:, chosen]


@singledispatch
def own_information(problem: Problem, items: ItemTensors) -> Tensor:
    """The diagonal blocks of `observed_information`, with the identity's row and column for what is fixed.

    Shape (n_items, n_factors + 2, n_factors + 2).
    """
    complete, basis = complete_information(problem, items)
    by_right, by_both, by_base = own_sums(problem, items, basis)
    across = basis.right @ by_both @ basis.base.transpose(1, 2)
    missing = (
        basis.right @ by_right @ basis.right.transpose(1, 2)
        + across
        + across.transpose(1, 2)
        + basis.base @ by_base.expand(len(items), -1, -1) @ basis.base.transpose(1, 2)
    )
    free = problem.free
    identity = torch.eye(free.shape[1], dtype=torch.float64, device=free.device)
    return torch.where(free[:, :, None] & free[:, None, :], complete - missing, identity)


def own_sums(problem: Problem, items: ItemTensors, basis: ScoreBasis) -> tuple[Tensor, Tensor, Tensor]:
    """Posterior covariances of the basis, summed over each item's respondents: k^2 of right functions with each other,
    k n of right with base, and n^2 of base functions, shape (n_items, rank, rank) each.

    k is the number of a respondent's correct responses to the item and n that of all of them. The last is one for all
    items if it is the same.
    """
    place = (*at(problem.in_float64().row(items)), basis.functions)
    n_right, n_functions = basis.right.shape[2], len(basis.functions)
    by_right, by_both, by_base = summed(
        problem.rows, "own information", place, lambda rows: own_sums_of(replace(problem, rows=rows), items, basis)
    )
    return (
        by_right.view(-1, n_right, n_right),
        by_both.view(-1, n_right, n_functions - n_right),
        by_base.view(-1, n_functions - n_right, n_functions - n_right),
    )


def own_sums_of(problem: Problem, items: ItemTensors, basis: ScoreBasis) -> tuple[Tensor, ...]:
    """The same of some respondents, each matrix as a row."""
    n_right, n_functions = basis.right.shape[2], len(basis.functions)
    n_base, n_rows = n_functions - n_right, 1 if problem.rows.complete else len(items)
    several = problem.rows.most_trials is not None
    by_right = items.intercept.new_zeros(len(items), n_right**2)
    by_both = items.intercept.new_zeros(len(items), n_right * n_base)
    by_base = items.intercept.new_zeros(n_rows, n_base**2)
    for batch, covariance in posterior_covariances(problem, items, basis.functions):
        whole = covariance.view(-1, n_functions, n_functions)
        right, both, base = (
            part.flatten(1)
            for part in (whole[:, :n_right, :n_right], whole[:, :n_right, n_right:], whole[:, n_right:, n_right:])
        )
        squares = batch.squares_by_item() if several else (batch.correct_by_item, batch.correct_by_item, None)
        by_right += squares[0] @ right
        by_both += squares[1] @ both
        by_base += batch.observed_by_item_sums(base) if squares[2] is None else squares[2] @ base
    return by_right, by_both, by_base


def sampling_covariance(problem: Problem, items: ItemTensors) -> tuple[NDArray[np.float64], Tensor]:
    """Covariance of (a, d, c) of each item from the observed information, see `parameter_covariance`."""
    covariance, loose = parameter_covariance(problem, items)
    return on_guessing_scale(problem, items, covariance), loose


def joint_sampling_covariance(problem: Problem, items: ItemTensors) -> tuple[NDArray[np.float64], Tensor]:
    """Covariance of (a, d, c) of all items with each other, shape (n_items, width, n_items, width).

    Of up to `MOST_COUPLED_ITEMS`; NaN where the information is singular, with the items that are not determined.
    """
    whole, loose = joint_parameter_covariance(problem, items)
    scale = natural_by_steps(problem, items)
    return torch.einsum("jab,jbkc,kdc->jakd", scale, whole, scale).cpu().numpy(), loose


def blocks_of(joint: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each item's own of the covariance of all items, shape (n_items, width, width)."""
    each = np.arange(len(joint))
    return joint[each, :, each, :]


def parameter_covariance(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor]:
    """Covariance of (a, d, logit c) of each item from the observed information.

    The whole matrix is inverted up to `MOST_COUPLED_ITEMS`; with more items each block is inverted for itself, since
    abilities are then known so well that what items share is little.

    Returns
    -------
    covariance
        Shape (n_items, 3, 3); NaN where the information is singular.
    loose
        Items that the responses do not determine, see `invert`, shape (n_items,): without any is this a maximum.
    """
    free = problem.free
    n_items = len(free)
    if n_items > MOST_COUPLED_ITEMS:
        blocks, loose = invert(own_information(problem, items))
        return torch.where(free[:, :, None] & free[:, None, :], blocks, 0.0), loose.any(dim=1)
    whole, loose = joint_parameter_covariance(problem, items)
    each = torch.arange(n_items, device=free.device)
    return whole[each, :, each, :], loose


def joint_parameter_covariance(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor]:
    """Inverse of the observed information, 0 for what is fixed, and the items that the responses do not determine.

    By (a, d, logit c) of all items, shape (n_items, width, n_items, width).
    """
    free = problem.free
    n_items, width = free.shape
    inverse, loose = invert(observed_information(problem, items))
    full = torch.zeros(n_items * width, n_items * width, dtype=torch.float64, device=free.device)
    chosen = torch.nonzero(free.reshape(-1))[:, 0]
    full[chosen[:, None], chosen[None, :]] = inverse
    return full.reshape(n_items, width, n_items, width), items_of(loose, free)


def items_of(loose: Tensor, free: Tensor) -> Tensor:
    """Items of which any free parameter is loose, shape (n_items,)."""
    found = torch.zeros_like(free)
    found[free] = loose
    return found.any(dim=1)


def invert(information: Tensor, *, most: float = MOST_INFLATION) -> tuple[Tensor, Tensor]:
    """Inverse of one matrix or of many, NaN where one is singular, and which rows the responses do not determine.

    Those are rows whose variance the others' not being known multiplies by more than `most`, I_jj (I^-1)_jj, which no
    unit changes; or where a matrix is not positive definite those that its lowest direction moves most.
    """
    factor, failed = torch.linalg.cholesky_ex(information)
    definite = (failed == 0) & torch.isfinite(factor).flatten(-2).all(dim=-1)
    identity = torch.eye(information.shape[-1], dtype=information.dtype, device=information.device)
    inverse = torch.cholesky_inverse(torch.where(definite[..., None, None], factor, identity))
    size = information.diagonal(dim1=-2, dim2=-1)
    loose = definite[..., None] & (size * inverse.diagonal(dim1=-2, dim2=-1) > most)
    if not bool(definite.all()):
        unit = torch.where(size > 0, size, 1.0).rsqrt()
        scaled = torch.nan_to_num(unit[..., :, None] * information * unit[..., None, :])
        lowest = torch.linalg.eigh(scaled)[1][..., 0].abs()
        loose |= ~definite[..., None] & (lowest > lowest.amax(dim=-1, keepdim=True) / 2)
    right = ~loose.any(dim=-1)
    return torch.where(right[..., None, None], inverse, torch.nan), loose


def on_guessing_scale(problem: Problem, items: ItemTensors, blocks: Tensor) -> NDArray[np.float64]:
    """Covariance of each item's (a, d, c) from that of (a, d, logit c)."""
    scale = natural_by_steps(problem, items)
    return (scale @ blocks @ scale.mT).cpu().numpy()


@singledispatch
def natural_by_steps(problem: Problem, items: ItemTensors) -> Tensor:
    """Derivatives of the parameters as they are read by those of steps, shape (n_items, width, width).

    Of (a, d, c) by (a, d, logit c): dc = c (1 - c) dlogit.
    """
    scale = torch.ones_like(problem.free, dtype=torch.float64)
    scale[:, GUESSING] = items.guessing * (1 - items.guessing)
    return torch.diag_embed(scale)


MOST_SHARING = 1000  # with more the standard errors of what they share are approximate
LEAST_SD = 1e-3  # of ability: below it the likelihood is highest where ability does not vary
NOTHING = 1e-15  # variance that rounding leaves of a parameter that does not vary


@dataclass(frozen=True)
class NormalMoments:
    """The population on the scale of theta, with standard errors; 0 where a moment is fixed, NaN where not known.

    Parameters
    ----------
    mean, sd
        Of ability.
    se_mean, se_sd
        Their standard errors.
    """

    mean: float
    sd: float
    se_mean: float
    se_sd: float


@dataclass(frozen=True)
class Errors:
    """Sampling error of items and population, on the scale on which they are read.

    Parameters
    ----------
    items
        Covariance of each item's parameters, shape (n_items, width, width); those of anchors their own.
    joint
        Of all items with each other, shape (n_items, width, n_items, width); None where items are too many.
    loose
        Items that are not determined, shape (n_items,).
    moments
        Standard errors of the population's mean and standard deviation, where these are estimated.
    """

    items: NDArray[np.float64]
    joint: NDArray[np.float64] | None
    loose: Tensor
    moments: tuple[float, float] = (0.0, 0.0)


def slope_of_all(problem: Problem, items: ItemTensors) -> float:
    """The slope that all items have, the standard deviation of a Rasch model's ability; no less than `LEAST_SD`."""
    assert problem.prior.shared is not None
    return max(float(problem.prior.shared.nearest(items.linear)[0]), LEAST_SD)


def ability_vanishes(problem: Problem, items: ItemTensors) -> bool:
    """Whether the slope of all items has gone to its bound 0."""
    shared = problem.prior.shared
    return shared is not None and float(shared.nearest(items.linear)[0].abs()) <= LEAST_SD


def shared_errors(problem: Problem, items: ItemTensors) -> Errors:
    """The errors of items of one slope, from the observed information of all up to `MOST_SHARING`.

    Beyond they are from the information of the M step, in which the missing information is linear in theta: the items'
    standard errors are the same to half a percent, that of the common slope comes out a tenth too small.
    """
    joint = None
    if len(items) > MOST_SHARING:
        derivatives = item_derivatives(problem, items, problem.counts(items))
        assert derivatives.missing is not None
        with_slope, loose = shared_solver(problem, derivatives).covariance(derivatives.missing)
        each, of_slope = with_slope[:, :3, :3].cpu().numpy(), with_slope[0, 3, 3]
    else:
        free, by_estimated = problem.free, problem.by_estimated
        determined = by_estimated[free.flatten()]
        inverse, undetermined = invert(determined.T @ observed_information(problem, items) @ determined)
        moved = natural_by_steps(problem, items) @ by_estimated.view(*free.shape, -1)
        loose = (moved[:, :, undetermined] != 0).flatten(1).any(dim=1)
        whole = moved.flatten(0, 1) @ inverse @ moved.flatten(0, 1).T
        joint = whole.view(*free.shape, *free.shape).cpu().numpy()
        joint[np.abs(joint) < NOTHING] = 0.0
        each, of_slope = blocks_of(joint), inverse[-1, -1]  # the common slope is estimated last
    if problem.prior.by_theta:
        each[:, 0, :] = each[:, :, 0] = 0.0
        if joint is not None:
            joint[:, 0] = joint[:, :, :, 0] = 0.0
    each[np.abs(each) < NOTHING] = 0.0
    return Errors(each, joint, loose, (0.0, float(of_slope.sqrt())))
