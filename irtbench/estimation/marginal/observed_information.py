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

from dataclasses import dataclass
from functools import singledispatch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.estimation.marginal.e_step import Counts
from irtbench.estimation.marginal.m_step import item_derivatives, shared_solver
from irtbench.estimation.marginal.missing_information import (
    missing_by_nodes,
    missing_of_complete_rows,
    score_covariances,
)
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.tensors import GUESSING, LINEAR, ItemTensors

MOST_COUPLED_ITEMS = 500  # the whole information of more would be a matrix of gigabytes
MOST_INFLATION = 1e4  # of a variance by the other parameters' not being known: standard errors a hundred times as wide


def complete_information(problem: Problem, items: ItemTensors, counts: Counts | None = None) -> Tensor:
    """The information of complete data on each item, prior included, shape (n_items, width, width).

    By the expected counts there; None where they are to be found.
    Where the log odds are linear it is the sum of n s (1 - s) (theta, 1) (theta, 1)', whatever the responses.
    """
    complete = problem.prior.derivatives(items, by_logit=True, positive=False)[1]
    counts = counts or problem.counts(items, at_nodes=problem.guesses)
    if counts.r is None:
        s, products = items.logits(problem.nodes.basis).sigmoid_(), problem.nodes.basis_products
        linear = complete[:, LINEAR, LINEAR]
        linear += ((counts.n * s).mul_(1 - s) @ products).view(linear.shape)
        return complete
    x, theta = problem.steps(items), problem.nodes.theta.T
    for part in problem.scale.parts:
        own, of_part = part.expected(counts.n, counts.r), slice(part.n_parameters)
        complete[part.items, of_part, of_part] += part.curvature(x, theta, own)
    return complete


def added_to_scores(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor]:
    """What a response in each column adds to the score of its item, and what any response to an item adds.

    Shapes (n_columns, n_nodes, width), (n_items, n_nodes, width): of any the derivative of the log-probability of the
    lowest category (log(1 - P)), of one in a later category what that of its own is more.
    """
    x, theta, width, scale = problem.steps(items), problem.nodes.theta.T, problem.free.shape[1], problem.scale
    later, lowest = (x.new_zeros(n, theta.shape[1], width) for n in (len(scale.item_of_column), len(scale)))
    for part in scale.parts:
        by_x, of_part = part.derivatives(x, theta)[1], slice(part.n_parameters)
        later[part.columns, :, of_part] = (by_x[:, :, 1:] - by_x[:, :, :1]).permute(0, 2, 3, 1)
        lowest[part.items, :, of_part] = by_x[:, :, 0].mT
    return later, lowest


@singledispatch
def missing_information(problem: Problem, items: ItemTensors, complete: Tensor, *, own: bool = False) -> Tensor:
    """The sum of the scores' posterior covariances, shape (n_items, width, n_items, width)."""
    if problem.rows.complete and not (problem.guesses or problem.prior.on_logits):
        return missing_of_complete_rows(problem, items, own=own)
    added = added_to_scores(problem, items)
    if problem.n_factors > 1:
        return missing_by_nodes(problem, items, *added)
    return score_covariances(problem, items, *added, complete, own=own)


@singledispatch
def observed_information(problem: Problem, items: ItemTensors) -> Tensor:
    """Negative Hessian of the log-posterior in the free parameters, item by item, shape (n_free, n_free)."""
    complete, chosen = complete_information(problem, items), problem.free.reshape(-1)
    missing = missing_information(problem, items, complete).flatten(2).flatten(0, 1)
    return (torch.block_diag(*complete) - missing)[chosen][:, chosen]


def inverse_information(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor]:
    """Inverse of the observed information by what is estimated (`Problem.by_estimated`), and what is loose."""
    return problem.inverse or invert(of_estimated(problem, observed_information(problem, items)))


def of_estimated(problem: Problem, information: Tensor) -> Tensor:
    """An information by what is free as one by what is estimated, shape (n_estimated, n_estimated)."""
    if problem.prior.shared is None:
        return information
    each = torch.eye(problem.n_estimated, dtype=information.dtype, device=information.device)
    by_estimated = problem.by_estimated(each)[problem.free.flatten()]
    return by_estimated.T @ information @ by_estimated


def own_information(problem: Problem, items: ItemTensors) -> Tensor:
    """The diagonal blocks of `observed_information`, with the identity's row and column for what is fixed.

    Shape (n_items, width, width).
    """
    complete = complete_information(problem, items)
    found = complete - missing_information(problem, items, complete, own=True)
    return torch.where(problem.estimated_pairs, found, problem.identity)


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
    moved = (scale @ whole.flatten(2)).unflatten(2, whole.shape[2:]).flatten(0, 1)
    return (moved.transpose(0, 1) @ scale.mT).transpose(0, 1).unflatten(0, (len(scale), -1)).cpu().numpy(), loose


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
    shape = problem.free.shape
    inverse, loose = inverse_information(problem, items)
    full = problem.by_estimated(problem.by_estimated(inverse).T)
    touched = problem.by_estimated(torch.diag(loose.to(torch.float64))) != 0
    return full.view(*shape, *shape), touched.view(len(problem.free), -1).any(dim=1)


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


def shared_errors(problem: Problem, items: ItemTensors) -> Errors:
    """The errors of items of one slope, from the observed information of all up to `MOST_SHARING`.

    Beyond they are from the information of the M step, in which the missing information is linear in theta: the items'
    standard errors are the same to half a percent, that of the common slope comes out a tenth too small.
    """
    if len(items) <= MOST_SHARING:
        return errors_of_joint(problem, *joint_sampling_covariance(problem, items))
    derivatives = item_derivatives(problem, items, problem.counts(items))
    assert derivatives.missing is not None
    with_slope, loose = shared_solver(problem, derivatives).covariance(derivatives.missing)
    each, of_slope = with_slope[:, :3, :3].cpu().numpy(), float(with_slope[0, 3, 3])
    if problem.prior.by_theta:
        each[:, 0, :] = each[:, :, 0] = 0.0
    each[np.abs(each) < NOTHING] = 0.0
    return Errors(each, None, loose, (0.0, of_slope**0.5))


def errors_of_joint(problem: Problem, joint: NDArray[np.float64], loose: Tensor) -> Errors:
    """The errors from what `joint_sampling_covariance` has of a scale."""
    if not problem.prior.one_slope:
        return Errors(blocks_of(joint), joint, loose)
    joint[np.abs(joint) < NOTHING] = 0.0
    of_slope = float(joint[0, 0, 0, 0])
    if problem.prior.by_theta:
        joint[:, 0] = joint[:, :, :, 0] = 0.0
    return Errors(blocks_of(joint), joint, loose, (0.0, of_slope**0.5))
