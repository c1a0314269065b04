"""Nodes for several abilities: a lattice as fine as the narrowest posterior asks, where respondents have mass.

For a normal posterior of covariance S the trapezoid rule on nodes h_k apart errs by about 2 exp(-2 pi^2 j' S j), with
j_k = m_k / h_k over whole numbers m. With h_k a share r of the standard deviation of ability k given the others, this
is at most 2 exp(-2 pi^2 / (r^2 l)), l the largest eigenvalue of the posterior's precision scaled to a diagonal of 1. A
curve of slopes a asks for nodes no further apart than 1.4 / |a_k| (see `marginal.nodes`).

The axes of the lattice are those on which slopes are simplest (varimax; Kaiser, 1958), since abilities known from
different items are then about independent of each other, and spacings the widest.

A respondent's likelihood is concave on the log scale, so that a few steps of Fisher scoring find its top and curvature
without any nodes. Of the lattice only the nodes stay that hold some respondent's mass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from irtbench.estimation.marginal.nodes import STEEPEST
from irtbench.estimation.several_abilities.abilities_mode import Abilities
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors

VARIMAX_STEPS = 20
SCORING_STEPS, LONGEST_STEP, SMALL_STEP = 25, 1.0, 1e-5
MOST_CELLS = 2**17  # respondents x columns at once
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


def ability_modes(abilities: Abilities, items: ItemTensors, start: Tensor | None = None) -> AbilityModes:
    """Find everybody's most likely abilities by Fisher scoring; without guessing the log posterior is concave.

    `start` are abilities to begin with, shape (n_respondents, n_factors); None for 0.
    """
    scale, n_factors, rows = abilities.scale, abilities.scale.n_abilities, abilities.problem.rows
    identity = torch.eye(n_factors, dtype=torch.float64, device=rows.device)
    start = identity.new_zeros(rows.n_respondents, n_factors) if start is None else start
    found = AbilityModes(start.clone(), start.new_zeros(*start.shape, n_factors), start.new_zeros(len(start)))
    first = 0
    for batch in rows.batches(MOST_CELLS // len(scale.item_of_column), torch.float64):
        some, first = torch.arange(first, first + len(batch), device=rows.device), first + len(batch)
        correct, observed = batch.correct_by_item, batch.observed_by_item
        for _ in range(SCORING_STEPS):
            theta = found.theta[some]
            height, gradient, precision = -0.5 * theta.square().sum(dim=1), -theta, identity
            for part in scale.parts:
                log_p, _, by_theta = part.derivatives(items.matrix, theta.T)
                later = correct[part.columns]
                asked = torch.ones_like(later[:, 0]) if observed is None else observed[part.items]
                chosen = torch.cat([(asked - later.sum(dim=1))[:, None], later], dim=1)
                height = height + (chosen * log_p).sum(dim=(0, 1))
                gradient = gradient + (chosen[..., None] * by_theta).sum(dim=(0, 1))
                weighted = (log_p.exp_() * asked[:, None])[..., None] * by_theta
                each = [(weighted * by_theta[..., k, None]).sum(dim=(0, 1)) for k in range(n_factors)]
                precision = precision + torch.stack(each, dim=1)
            step = torch.linalg.solve(precision, gradient)
            step = step / (step.norm(dim=1, keepdim=True) / LONGEST_STEP).clamp(min=1.0)
            found.theta[some], found.precision[some], found.log_likelihood[some] = theta + step, precision, height
            far = step.abs().amax(dim=1) > SMALL_STEP
            if not bool(far.any()):
                break
            some, correct = some[far], correct[:, far]
            observed = None if observed is None else observed[:, far]
    return replace(found, log_likelihood=found.log_likelihood - 0.5 * torch.logdet(found.precision))


def widest_spacing(modes: AbilityModes, slopes: Tensor) -> tuple[Tensor, Tensor]:
    """Standard deviation of the narrowest posterior on each axis, and the spacing right for the steepest item there.

    Both of shape (n_factors,). The former is given the other abilities, and less where abilities go together.
    """
    scale = torch.diagonal(modes.precision, dim1=1, dim2=2).sqrt()
    largest = torch.linalg.eigvalsh(modes.precision / (scale[:, :, None] * scale[:, None, :]))[:, -1:]
    narrowest = (1 / (scale * largest.sqrt())).amin(dim=0)
    return narrowest, STEEPEST / slopes.abs().amax(dim=0).clamp(min=1e-300)


def simplest_axes(slope: Tensor) -> Tensor:
    """The rotation to axes on which squared slopes vary most (varimax), shape (n_factors, n_factors)."""
    rotation = torch.eye(slope.shape[1], dtype=slope.dtype, device=slope.device)
    for _ in range(VARIMAX_STEPS):
        turned = slope @ rotation
        left, _, right = torch.linalg.svd(slope.T @ (turned**3 - turned * turned.square().mean(dim=0)))
        rotation = left @ right
    return rotation


def lattice(
    abilities: Abilities,
    items: ItemTensors,
    *,
    room: float,
    start: Tensor | None = None,
    radius: float = RADIUS,
    finer: float = 1.0,
    offset: float = 0.0,
) -> tuple[NodeTensors, AbilityModes]:
    """Nodes for the posteriors at these items, all within their reach, and where these are.

    Parameters
    ----------
    abilities, items
        Whose posteriors.
    room
        Distance of nodes in standard deviations of the narrowest posterior.
    start
        As of `ability_modes`.
    radius
        Of the ball about 0 within which nodes lie.
    finer
        Factor of all distances.
    offset
        How far the nodes are moved, in spacings.
    """
    slopes = items.matrix[:, : abilities.scale.n_abilities]
    rotation, modes = simplest_axes(slopes), ability_modes(abilities, items, start)
    turned = AbilityModes(modes.theta @ rotation, rotation.T @ modes.precision @ rotation, modes.log_likelihood)
    narrowest, steepest = widest_spacing(turned, slopes @ rotation)
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


def where_there_is_mass(
    abilities: Abilities, items: ItemTensors, nodes: NodeTensors, modes: AbilityModes
) -> NodeTensors:
    """Leave out nodes that hold next to no mass of any respondent.

    Parameters
    ----------
    abilities, items
        Whose respondents, at which items.
    nodes
        All of them.
    modes
        Of their posteriors, for the size of each respondent's likelihood.
    """
    problem, mass = abilities.problem, torch.zeros_like(nodes.log_weights)
    for rows, some, joint in replace(problem, nodes=nodes).log_joints(items):
        mass[some] += (joint - modes.log_likelihood[rows, None]).exp_().sum(dim=0)
    ordered, order = mass.sort()
    n_left_out = int((ordered.cumsum(0) < LEFT_OUT * problem.rows.n_responses).sum())
    kept = order[n_left_out:].sort().values
    return NodeTensors(nodes.theta[kept], nodes.log_weights[kept])
