"""Posteriors of items on nodes of (log |a|, b, logit c), or (log |a|, d, logit c).

Adaptive quadrature (Naylor & Smith, 1982): Gauss-Hermite nodes lie where the posterior was found last, by its mean and
its covariance. Under a mixture the posterior is one of posteriors, each of which has nodes of its own. Estimates of
an item rest on more points, quasi-random ones weighted to the posterior.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor

from irtbench.estimation.item_quantiles import normal_points, weighted_quantiles
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.model import guessing_density, hierarchy_density
from irtbench.models.pyro_model.tensors import GUESSING, LINEAR

NODES_PER_AXIS = {2: 7, 3: 5}  # by the number of an item's parameters
WIDER = 1.6  # standard deviations of the density of points that estimates rest on, in those of the nodes'
CELLS, FEWEST, MOST = 2**18, 7, 9  # items x points, and powers of two that are the numbers of points of two values
MOST_DIMENSIONS = 4  # for which points are as many again with every one
LEAST_VARIANCE = 1e-6
LARGEST_UPDATE = 0.5


@dataclass(frozen=True)
class Rule:
    """Where nodes lie in standard deviations, shape (n_nodes, n_values), and log weights for plain integrals.

    Values behind those of `dimensions` are 0: the third where nothing is guessed.
    """

    offsets: Tensor
    log_weights: Tensor

    @classmethod
    def hermite(cls, dimensions: int, like: Tensor, n_values: int = 3) -> Rule:
        """A grid of Gauss-Hermite nodes."""
        axis, weights = hermite_axis(NODES_PER_AXIS[dimensions], like)
        offsets = torch.cartesian_prod(*[axis] * dimensions)
        log_weights = torch.cartesian_prod(*[weights.log()] * dimensions).sum(dim=1)
        log_weights = log_weights + 0.5 * (offsets**2).sum(dim=1)
        return cls(torch.nn.functional.pad(offsets, (0, n_values - dimensions)), log_weights)

    @classmethod
    def points(cls, dimensions: int, n_points: int, like: Tensor, n_values: int = 3, wider: float = WIDER) -> Rule:
        """So many quasi-random points of a normal density, so many times as wide."""
        z = normal_points(dimensions, n_points, like)
        return cls(torch.nn.functional.pad(wider * z, (0, n_values - dimensions)), 0.5 * (z**2).sum(dim=1))


@dataclass(frozen=True)
class ItemGrid:
    """Nodes of each item's posterior with its likelihood there.

    Parameters
    ----------
    centre, root
        Where the nodes of each component lie, and how wide, shapes (n_items, n_components, 3) and with another 3.
    sign
        Of a, shape (n_items,).
    free, guessing
        Where c is estimated, and its value elsewhere, shape (n_items,).
    rule
        Of the nodes.
    level
        Log-likelihood at the nodes, those of one component after the other, shape (n_items, n_nodes).
    counts
        How many items have the same responses as each, shape (n_items,).
    expected
        Of b, by features, which the second value is less; 0 where there are none, shape (n_items,).
    of
        Whether the second value is d or b.
    """

    centre: Tensor
    root: Tensor
    sign: Tensor
    free: Tensor
    guessing: Tensor
    rule: Rule
    level: Tensor
    counts: Tensor
    expected: Tensor
    of: str = "difficulty"

    @classmethod
    def around(
        cls, centre: Tensor, covariance: Tensor, sign: Tensor, free: Tensor, guessing: Tensor, of: str = "difficulty"
    ) -> ItemGrid:
        """Nodes of normal densities; their level is not known yet."""
        rule = Rule.hermite(3 if bool(free.any()) else 2, centre)
        root, level = lower_root(covariance)[:, None], torch.zeros_like(sign)[:, None]
        ones, nothing = torch.ones_like(sign), torch.zeros_like(sign)
        return cls(centre[:, None], root, sign, free, guessing, rule, level, ones, nothing, of)

    @property
    def largest_update(self) -> float:
        """Of means, log standard deviations and log weights, for the nodes lie where they were."""
        return LARGEST_UPDATE

    @property
    def normal(self) -> Tensor:
        """Log of the density, up to a constant, that nodes would have were posteriors normal, shape (1, n_nodes)."""
        return -0.5 * (self.rule.offsets**2).sum(dim=1)[None]

    @property
    def all(self) -> Tensor:
        """Numbers of the items."""
        return torch.arange(len(self.sign), device=self.sign.device)

    @cached_property
    def nodes(self) -> Tensor:
        """Values of (log |a|, b or d, logit c), shape (n_items, n_nodes, 3)."""
        return (self.centre[:, :, None, :] + self.rule.offsets @ self.root.mT).flatten(1, 2)

    @property
    def values(self) -> Tensor:
        """Nodes with b as it is, shape (n_items, n_nodes, n_values)."""
        return self.nodes + torch.nn.functional.pad(self.expected[:, None, None], (1, self.centre.shape[2] - 2))

    @property
    def linear(self) -> Tensor:
        """Values of (log |a|, d, logit c)."""
        if self.of == "intercept":
            return self.nodes
        log_slope, b, logit = self.values.unbind(-1)
        return torch.stack([log_slope, -self.sign[:, None] * log_slope.exp() * b, logit], dim=2)

    @property
    def log_weights(self) -> Tensor:
        """Log-likelihood plus the logarithm of the node's area or volume."""
        return self.level + (self.log_volumes[:, :, None] + self.rule.log_weights).flatten(1)

    @property
    def log_volumes(self) -> Tensor:
        """Logarithms of the volume of a unit of the rule, shape (n_items, n_components)."""
        widths = self.root.diagonal(dim1=2, dim2=3).log()
        return widths[:, :, LINEAR].sum(dim=2) + torch.where(self.free[:, None], widths[:, :, GUESSING], 0.0)

    def log_mass(self, priors: Priors) -> Tensor:
        """Log of likelihood times prior density times volume at each node, shape (n_items, n_nodes)."""
        return self.log_weights + self.log_prior(priors)

    def log_prior(self, priors: Priors) -> Tensor:
        """Log prior density at the nodes, that of its component, shape (n_items, n_nodes)."""
        parts = priors.pair.parts
        densities = [
            hierarchy_density(part, own).log_prob(own) + math.log(weight)
            for (weight, part), own in zip(parts, self.nodes[..., :2].chunk(len(parts), dim=1), strict=True)
        ]
        return torch.cat(densities, dim=1) + self.log_prior_of_others(priors)

    def log_prior_of_others(self, priors: Priors) -> Tensor:
        """That of values but the first two, at the nodes; 0 where there are none."""
        return self.log_prior_of_guessing(priors)

    def log_density_of_distances(self, distances: Tensor) -> Tensor | float:
        """That of distances of steps under means and log standard deviations of each sort, where items have any."""
        return 0.0

    def log_prior_of_guessing(self, priors: Priors) -> Tensor:
        """That of logit c at the nodes; 0 where c is fixed."""
        logit = self.nodes[..., GUESSING]
        if not bool(self.free.any()):
            return torch.zeros_like(logit)
        return torch.where(self.free[:, None], guessing_density(priors.guessing, logit).log_prob(logit), 0.0)

    def mass(self, priors: Priors) -> Tensor:
        """Posterior mass of each node under these priors, shape (n_items, n_nodes), rows summing to 1."""
        return torch.softmax(self.log_mass(priors), dim=1)

    def log_evidence(self, priors: Priors) -> float:
        """Log marginal likelihood of all items' responses under these priors, up to a constant."""
        return float(self.counts @ torch.logsumexp(self.log_mass(priors), dim=1))

    def variance(self, mass: Tensor, column: int) -> Tensor:
        """Of one of the values under this mass of the nodes, shape (n_items,)."""
        values = self.nodes[..., column]
        return (mass * values**2).sum(dim=1) - (mass * values).sum(dim=1) ** 2

    def placed(self, priors: Priors, *, gain: float = 1.0) -> ItemGrid:
        """Nodes where the posterior under these priors is, or part of the way there; their level is not known yet."""
        n_components = self.centre.shape[1]
        mass = torch.softmax(self.log_mass(priors).unflatten(1, (n_components, -1)), dim=2)
        mean, covariance = weighted_moments(mass, self.nodes.unflatten(1, (n_components, -1)))
        return replace(
            self, centre=torch.lerp(self.centre, mean, gain), root=torch.lerp(self.root, lower_root(covariance), gain)
        )

    def of_items(self, chosen: Tensor, counts: Tensor) -> ItemGrid:
        """Some of the items, so many of which have the responses of each."""
        return replace(
            self, centre=self.centre[chosen], root=self.root[chosen], sign=self.sign[chosen], free=self.free[chosen],
            guessing=self.guessing[chosen], level=self.level[chosen], counts=counts.to(self.level),
            expected=self.expected[chosen],
        )  # fmt: skip

    def with_components(self, chosen: list[int]) -> ItemGrid:
        """The nodes of some components, perhaps of one more than once."""
        level = self.level.expand(len(self.level), self.nodes.shape[1])
        level = level.unflatten(1, (self.centre.shape[1], -1))[:, chosen].flatten(1)
        return replace(self, centre=self.centre[:, chosen], root=self.root[:, chosen], level=level)

    def rescaled(self, mean: float, deviation: float) -> ItemGrid:
        """The same curves for theta' with theta = mean + deviation theta'; of b."""
        unit, move = torch.ones_like(self.centre[0, 0]), torch.zeros_like(self.centre[0, 0])
        unit[1], move[0], move[1] = 1 / deviation, math.log(deviation), -mean / deviation
        centre, root = self.centre * unit + move, self.root * unit[:, None]
        return replace(self, centre=centre, root=root, expected=self.expected / deviation)

    def about(self, expected: Tensor) -> Self:
        """The same nodes with other values expected of b."""
        moved = torch.nn.functional.pad((self.expected - expected)[:, None, None], (1, self.centre.shape[2] - 2))
        return replace(self, centre=self.centre + moved, expected=expected)

    @property
    def on_points(self) -> ItemGrid:
        """Many points in place of the nodes, fewer where items are many; their level is not known yet."""
        dimensions = 3 if bool(self.free.any()) else 2
        return replace(self, rule=Rule.points(dimensions, points_for(len(self.sign), dimensions), self.level))

    @property
    def parameters(self) -> Tensor:
        """Values of (a, d, c) at the nodes, shape (n_items, n_nodes, 3)."""
        log_slope, intercept, logit = self.linear.unbind(-1)
        c = torch.where(self.free[:, None], torch.sigmoid(logit), self.guessing[:, None])
        return torch.stack([self.sign[:, None] * log_slope.exp(), intercept, c], dim=2)

    def estimates(self, weighted: Sequence[tuple[float, Priors]]) -> tuple[Tensor, Tensor, Tensor]:
        """Mean and covariance of each item's (a, d, c), and quantiles of (a, b, c), averaged over weighted priors.

        Shapes (n_items, 3), (n_items, 3, 3) and (3, n_items, 3).
        """
        mass = torch.stack([weight * self.mass(priors) for weight, priors in weighted]).sum(dim=0)
        slope, intercept, *others = self.parameters.unbind(-1)
        quantiles = [weighted_quantiles(values, mass) for values in (slope, -intercept / slope, *others)]
        return *weighted_moments(mass, self.parameters), torch.stack(quantiles, dim=2)


def points_for(n_items: int, dimensions: int) -> int:
    """Number of points that estimates of so many items rest on."""
    return int(2 ** (min(max(int(math.log2(CELLS / n_items)), FEWEST), MOST) + min(dimensions, MOST_DIMENSIONS) - 2))


def weighted_moments(mass: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Means and covariances of values of shape (..., n_nodes, 3) under masses of shape (..., n_nodes)."""
    mean = (mass[..., None, :] @ values)[..., 0, :]
    away = values - mean[..., None, :]
    return mean, (mass[..., None] * away).mT @ away


def lower_root(covariance: Tensor) -> Tensor:
    """Lower triangular roots of covariances, none of which is quite nothing."""
    least = LEAST_VARIANCE * torch.eye(covariance.shape[-1]).to(covariance)
    root: Tensor = torch.linalg.cholesky(covariance + least)
    return root


def hermite_axis(n_nodes: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights of the Gauss-Hermite rule for the density exp(-x^2 / 2), each of shape (n_nodes,)."""
    axis, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    return torch.from_numpy(axis).to(like), torch.from_numpy(weights).to(like)
