"""Nodes for several abilities: a lattice as fine as the narrowest posterior asks, where respondents have mass.

For a normal posterior of covariance S the trapezoid rule on nodes h_k apart errs by about 2 exp(-2 pi^2 j' S j), with
j_k = m_k / h_k over whole numbers m. With h_k a share r of the standard deviation of ability k given the others, this
is at most 2 exp(-2 pi^2 / (r^2 l)), l the largest eigenvalue of the posterior's precision scaled to a diagonal of 1. A
curve of slopes a asks for nodes no further apart than 1.4 / |a_k| (see `marginal.nodes`).

The axes of the lattice are those on which slopes are simplest (varimax; Kaiser, 1958), since abilities known from
different items are then about independent of each other, and spacings the widest.

A respondent's likelihood is concave on the log scale, so that a few Newton steps find its top and curvature without any
nodes. Of the lattice only the nodes stay that hold some respondent's mass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from irtbench.estimation.marginal.nodes import STEEPEST
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.node_tensors import NodeTensors

VARIMAX_STEPS = 20
NEWTON_STEPS, LONGEST_STEP = 25, 1.0
REACH = 8.0  # standard deviations of a posterior on either side of its top that the lattice covers
RADIUS = math.sqrt(50.0)  # abilities further from 0 have a density of exp(-25) of that at 0
LEFT_OUT = 1e-7  # respondents, a response, that the nodes left out hold together
MOST_ON_LATTICE = 3_000_000  # nodes before those without mass are left out


@dataclass(frozen=True)
class AbilityModes:
    """The top of each respondent's posterior, and its curvature.

    Parameters
    ----------
    theta
        Shape (n_respondents, n_factors).
    precision
        Minus the second derivatives of the log posterior there, shape (n_respondents, n_factors, n_factors).
    log_likelihood
        Laplace's approximation to the log marginal likelihood, shape (n_respondents,).
    """

    theta: Tensor
    precision: Tensor
    log_likelihood: Tensor


def ability_modes(problem: Problem, items: ItemTensors) -> AbilityModes:
    """Find everybody's most likely abilities by Newton steps; without guessing the log posterior is concave."""
    slope, intercept, n_factors = items.slope, items.intercept, problem.n_factors
    squares = (slope[:, :, None] * slope[:, None, :]).flatten(1)
    identity = torch.eye(n_factors, dtype=slope.dtype, device=slope.device)
    places, precisions, heights = [], [], []
    for batch in problem.batches(dtype=torch.float64):
        observed = torch.ones_like(batch.correct) if batch.observed is None else batch.observed
        theta = slope.new_zeros(len(batch), n_factors)
        for _ in range(NEWTON_STEPS):
            p = torch.sigmoid(theta @ slope.T + intercept)
            precision = ((observed * p * (1 - p)) @ squares).reshape(-1, n_factors, n_factors) + identity
            gradient = (batch.correct - observed * p) @ slope - theta
            step = torch.linalg.solve(precision, gradient)
            step = step / (step.norm(dim=1, keepdim=True) / LONGEST_STEP).clamp(min=1.0)
            theta = theta + step
            if float(step.abs().max()) < 1e-6:
                break
        z = theta @ slope.T + intercept
        height = (batch.correct * z + observed * torch.nn.functional.logsigmoid(-z)).sum(dim=1)
        height = height - 0.5 * theta.square().sum(dim=1) - 0.5 * torch.logdet(precision)
        places.append(theta)
        precisions.append(precision)
        heights.append(height)
    return AbilityModes(torch.cat(places), torch.cat(precisions), torch.cat(heights))


def widest_spacing(modes: AbilityModes, items: ItemTensors) -> tuple[Tensor, Tensor]:
    """Standard deviation of the narrowest posterior on each axis, and the spacing right for the steepest item there.

    Both of shape (n_factors,). The former is given the other abilities, and less where abilities go together.
    """
    scale = torch.diagonal(modes.precision, dim1=1, dim2=2).sqrt()
    largest = torch.linalg.eigvalsh(modes.precision / (scale[:, :, None] * scale[:, None, :]))[:, -1:]
    narrowest = (1 / (scale * largest.sqrt())).amin(dim=0)
    return narrowest, STEEPEST / items.slope.abs().amax(dim=0).clamp(min=1e-300)


def simplest_axes(slope: Tensor) -> Tensor:
    """The rotation to axes on which squared slopes vary most (varimax), shape (n_factors, n_factors)."""
    rotation = torch.eye(slope.shape[1], dtype=slope.dtype, device=slope.device)
    for _ in range(VARIMAX_STEPS):
        turned = slope @ rotation
        left, _, right = torch.linalg.svd(slope.T @ (turned**3 - turned * turned.square().mean(dim=0)))
        rotation = left @ right
    return rotation


def lattice(
    problem: Problem,
    items: ItemTensors,
    *,
    room: float,
    radius: float = RADIUS,
    finer: float = 1.0,
    offset: float = 0.0,
) -> tuple[NodeTensors, AbilityModes]:
    """Nodes for the posteriors at these items, all within their reach, and where these are.

    Parameters
    ----------
    problem, items
        Whose posteriors.
    room
        Distance of nodes in standard deviations of the narrowest posterior.
    radius
        Of the ball about 0 within which nodes lie.
    finer
        Factor of all distances.
    offset
        How far the nodes are moved, in spacings.
    """
    rotation = simplest_axes(items.slope)
    modes = ability_modes(problem, items)
    turned = AbilityModes(modes.theta @ rotation, rotation.T @ modes.precision @ rotation, modes.log_likelihood)
    narrowest, steepest = widest_spacing(turned, replace(items, slope=items.slope @ rotation))
    spacing = finer * torch.minimum(room * narrowest, steepest * min(room, 1.0))
    nodes = grid_in_ball(turned, spacing, radius=radius, offset=offset)
    return replace(nodes, theta=nodes.theta @ rotation.T), modes


def grid_in_ball(modes: AbilityModes, spacing: Tensor, *, radius: float, offset: float) -> NodeTensors:
    """Nodes so far apart within a ball about 0, as far as posteriors reach.

    Parameters
    ----------
    modes
        Whose posteriors.
    spacing
        Distance of nodes on each axis, shape (n_factors,); wider where there would be far too many.
    radius
        Of the ball.
    offset
        How far the nodes are moved, in spacings.
    """
    deviation = torch.diagonal(torch.linalg.inv(modes.precision), dim1=1, dim2=2).sqrt()
    lowest = (modes.theta - REACH * deviation).amin(dim=0).clamp(min=-radius)
    highest = (modes.theta + REACH * deviation).amax(dim=0).clamp(max=radius)
    n_nodes = float(((highest - lowest) / spacing).clamp(min=1).prod())
    spacing = spacing * max(1.0, (n_nodes / MOST_ON_LATTICE) ** (1 / len(spacing)))
    axes = []
    for low, high, step in zip(lowest.tolist(), highest.tolist(), spacing.tolist(), strict=True):
        first, last = math.ceil(low / step - offset), math.floor(high / step - offset)
        whole = torch.arange(first, last + 1, dtype=torch.float64, device=spacing.device)
        axes.append((whole + offset) * step)
    theta = torch.cartesian_prod(*axes).reshape(-1, len(axes))
    theta = theta[theta.square().sum(dim=1) <= radius**2]
    cell = float(spacing.log().sum()) - 0.5 * len(axes) * math.log(2 * math.pi)
    return NodeTensors(theta, cell - 0.5 * theta.square().sum(dim=1))


def where_there_is_mass(problem: Problem, items: ItemTensors, nodes: NodeTensors, modes: AbilityModes) -> NodeTensors:
    """Leave out nodes that hold next to no mass of any respondent.

    Parameters
    ----------
    problem, items
        Whose respondents, at which items.
    nodes
        All of them.
    modes
        Of their posteriors, for the size of each respondent's likelihood.
    """
    mass = torch.zeros_like(nodes.log_weights)
    for rows, some, joint in replace(problem, nodes=nodes).log_joints(items):
        mass[some] += (joint - modes.log_likelihood[rows, None]).exp_().sum(dim=0)
    ordered, order = mass.sort()
    n_left_out = int((ordered.cumsum(0) < LEFT_OUT * problem.rows.n_responses).sum())
    kept = order[n_left_out:].sort().values
    return NodeTensors(nodes.theta[kept], nodes.log_weights[kept])
