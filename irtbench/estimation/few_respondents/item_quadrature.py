"""The posterior of each item's log |a| and b by quadrature, abilities being given.

With a dozen respondents an item's posterior is far from normal: its mode lies well below its mean. Given abilities
every item is a logistic regression on its own, whose two-dimensional posterior adaptive Gauss-Hermite quadrature
integrates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.estimation.item_quantiles import normal_points, weighted_quantiles
from irtbench.models.priors import Hierarchy
from irtbench.models.pyro_model.model import hierarchy_density
from irtbench.models.pyro_model.rows import DenseRows

NODES_PER_AXIS = 7
POINTS, WIDER = 512, 1.6  # of quantiles, and standard deviations of the density that they are drawn from
CHUNK_CELLS = 2**21  # respondents x items x nodes at once
NEWTON_STEPS = 6
LARGEST_STEP = 1.0


@dataclass(frozen=True)
class ItemModes:
    """Where each item's posterior is highest, and the sign of its slope.

    Parameters
    ----------
    places
        Values of (log |a|, b), shape (n_items, 2).
    sign
        Of a, shape (n_items,).
    """

    places: Tensor
    sign: Tensor

    def select(self, chosen: Tensor) -> ItemModes:
        """Some of the items."""
        return ItemModes(self.places[chosen], self.sign[chosen])


@dataclass(frozen=True)
class ItemQuadrature:
    """Nodes of each item's posterior with its likelihood there.

    Under a mixture the posterior is one of posteriors, each of which has nodes of its own; nodes are those of one
    component after the other.

    Parameters
    ----------
    nodes
        Values of (log |a|, b), shape (n_items, n_nodes, 2).
    log_weights
        Log-likelihood of the item's responses at the node, plus the log weight of the node (its area of the plane),
        shape (n_items, n_nodes); the prior is not in it.
    sign
        Of a, shape (n_items,).
    """

    nodes: Tensor
    log_weights: Tensor
    sign: Tensor

    def log_mass(self, prior: Hierarchy) -> Tensor:
        """Log of likelihood times prior density times area at each node, shape (n_items, n_nodes)."""
        own = self.nodes.chunk(len(prior.parts), dim=1)
        densities = [
            hierarchy_density(part, nodes).log_prob(nodes) + math.log(weight)
            for (weight, part), nodes in zip(prior.parts, own, strict=True)
        ]
        return self.log_weights + torch.cat(densities, dim=1)

    def mass(self, prior: Hierarchy) -> Tensor:
        """Posterior mass of each node under this prior, shape (n_items, n_nodes), rows summing to 1."""
        return torch.softmax(self.log_mass(prior), dim=1)

    def log_evidence(self, prior: Hierarchy) -> Tensor:
        """Log marginal likelihood of each item's responses under this prior, shape (n_items,)."""
        return torch.logsumexp(self.log_mass(prior), dim=1)

    @property
    def slopes(self) -> Tensor:
        """Values of a at the nodes, shape (n_items, n_nodes)."""
        return self.sign[:, None] * self.nodes[:, :, 0].exp()

    @property
    def modes(self) -> ItemModes:
        """The middle node of each item, around which the others are placed; under a mixture that of the first."""
        return ItemModes(self.nodes[:, NODES_PER_AXIS**2 // 2], self.sign)

    def moments(self, prior: Hierarchy) -> tuple[Tensor, Tensor]:
        """Posterior mean of (a, d = -a b) and their covariance, shapes (n_items, 2) and (n_items, 2, 2)."""
        mass = self.mass(prior)
        values = torch.stack([self.slopes, -self.slopes * self.nodes[:, :, 1]], dim=2)
        mean = torch.einsum("jg,jgk->jk", mass, values)
        excess = values - mean[:, None, :]
        return mean, torch.einsum("jg,jgk,jgl->jkl", mass, excess, excess)


def posterior_quantiles(rows: DenseRows, theta: Tensor, quadrature: ItemQuadrature, prior: Hierarchy) -> Tensor:
    """Posterior quantiles of each item's a and b, shape (3, n_items, 2).

    By quasi-random points of a normal density around the posterior mean of (log |a|, b), weighted to the posterior.

    Parameters
    ----------
    rows, theta, quadrature, prior
        Responses, abilities, and the posterior as `item_quadrature` has it under this prior.
    """
    mass = quadrature.mass(prior)
    centre = torch.einsum("jg,jgk->jk", mass, quadrature.nodes)
    away = quadrature.nodes - centre[:, None, :]
    root = WIDER * torch.linalg.cholesky((mass[:, :, None] * away).mT @ away)
    z = normal_points(2, POINTS, theta)
    found = []
    for chunk in chunks(len(theta), len(mass), POINTS):
        right, wrong = outcomes(rows, chunk, theta)
        sign = quadrature.sign[chunk, None]
        places = centre[chunk, None, :] + z @ root[chunk].mT
        level = log_likelihoods(places, sign, right, wrong, theta) + 0.5 * (z**2).sum(dim=1)
        weights = torch.softmax(level + log_density(prior, places), dim=1)
        values = (sign * places[:, :, 0].exp(), places[:, :, 1])
        found.append(torch.stack([weighted_quantiles(part, weights) for part in values], dim=2))
    return torch.cat(found, dim=1)


def log_density(prior: Hierarchy, places: Tensor) -> Tensor:
    """Of (log |a|, b) at places whose last dimension these are."""
    parts = [math.log(weight) + hierarchy_density(part, places).log_prob(places) for weight, part in prior.parts]
    return torch.stack(parts).logsumexp(dim=0)


def log_likelihoods(places: Tensor, sign: Tensor, right: Tensor, wrong: Tensor, theta: Tensor) -> Tensor:
    """Log-likelihood of items at places of (log |a|, b), shape (n_items, n_places).

    It is the sum of x z - log(1 + exp(z)) over responses x, z = a (theta - b).
    """
    slope = sign * places[..., 0].exp()
    by_slope, n_right = (right @ theta)[:, None], right.sum(dim=1, keepdim=True)
    z = log_odds(places, sign, theta)
    return slope * (by_slope - places[..., 1] * n_right) + (logsigmoid(-z) @ (right + wrong)[:, :, None])[:, :, 0]


def item_quadrature(rows: DenseRows, theta: Tensor, start: ItemModes, prior: Hierarchy) -> ItemQuadrature:
    """Place nodes around each item's mode under this prior, as wide as the curvature there, abilities being given.

    Parameters
    ----------
    rows
        The responses.
    theta
        Abilities, shape (n_respondents,).
    start
        From where the modes are sought.
    prior
        Density of (log |a|, b), perhaps a mixture.
    """
    axis, weights = np.polynomial.hermite_e.hermegauss(NODES_PER_AXIS)
    offsets = torch.from_numpy(np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)).to(theta)
    log_weights = torch.from_numpy(np.log(np.outer(weights, weights)).reshape(-1)).to(theta)
    log_weights = log_weights + 0.5 * (offsets**2).sum(dim=1)
    nodes, levels = [], []
    for chunk in chunks(len(theta), len(start.sign)):
        right, wrong = outcomes(rows, chunk, theta)
        sign = start.sign[chunk]
        by_component = []
        for _, part in prior.parts:
            place, factor = modes_of(start.places[chunk], sign, right, wrong, theta, part)
            placed = place[:, None, :] + offsets @ factor.transpose(1, 2)
            level = log_likelihoods(placed, sign[:, None], right, wrong, theta)
            level += log_weights + torch.diagonal(factor, dim1=1, dim2=2).log().sum(dim=1, keepdim=True)
            by_component.append((placed, level))
        nodes.append(torch.cat([placed for placed, _ in by_component], dim=1))
        levels.append(torch.cat([level for _, level in by_component], dim=1))
    return ItemQuadrature(torch.cat(nodes), torch.cat(levels), start.sign)


def chunks(n_respondents: int, n_items: int, n_nodes: int = NODES_PER_AXIS**2) -> list[slice]:
    """Ranges of items such that respondents x items x nodes stay small."""
    most = max(1, CHUNK_CELLS // (n_respondents * n_nodes))
    return [slice(first, min(first + most, n_items)) for first in range(0, n_items, most)]


def outcomes(rows: DenseRows, items: slice, like: Tensor) -> tuple[Tensor, Tensor]:
    """How often these items were answered right, and how often wrong, shape (n_items, n_respondents) each."""
    own = rows.of_items(items)
    right = own.right.T.to(like)
    return right, own.asked.T.to(like) - right


def log_odds(places: Tensor, sign: Tensor, theta: Tensor) -> Tensor:
    """Log odds a (theta - b) at places of (log |a|, b), with a last dimension for the respondents."""
    return (sign * places[..., 0].exp())[..., None] * (theta - places[..., 1:])


def modes_of(
    start: Tensor, sign: Tensor, right: Tensor, wrong: Tensor, theta: Tensor, prior: Hierarchy
) -> tuple[Tensor, Tensor]:
    """Mode of (log |a|, b) of each item by Newton's method, and the root of the inverse curvature there.

    Shapes (n_items, 2) and (n_items, 2, 2). The curvature is the expected one, which is positive.
    """
    precision = torch.linalg.inv(theta.new_tensor(prior.covariance))
    centre = theta.new_tensor(prior.mean)
    observed = right + wrong
    at = start
    for step in range(NEWTON_STEPS + 1):
        z = log_odds(at, sign, theta)  # which is its own derivative by log |a|; by b the derivative is -a
        by_b = -(sign * at[:, 0].exp())
        s = torch.sigmoid(z)
        residual, weight = right - observed * s, observed * s * (1 - s)
        across = by_b * (weight * z).sum(dim=1)
        by_log_a = (weight * z**2).sum(dim=1)
        curvature = torch.stack([by_log_a, across, across, by_b**2 * weight.sum(dim=1)], dim=1).view(-1, 2, 2)
        inverse = torch.linalg.inv(curvature + precision)
        if step == NEWTON_STEPS:
            break
        gradient = torch.stack([(residual * z).sum(dim=1), by_b * residual.sum(dim=1)], dim=1)
        move = inverse @ (gradient - (at - centre) @ precision)[:, :, None]
        at = at + move[:, :, 0].clamp(-LARGEST_STEP, LARGEST_STEP)
    return at, torch.linalg.cholesky(inverse)
