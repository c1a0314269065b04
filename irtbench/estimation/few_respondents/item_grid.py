"""Posteriors of items on nodes of (log |a|, mean step b, distances, logit c), or (log |a|, d, logit c).

Adaptive quadrature (Naylor & Smith, 1982): Gauss-Hermite nodes lie where the posterior was found last, by its mean and
its covariance. Under a mixture the posterior is one of posteriors, each of which has nodes of its own. Estimates of
an item rest on more points, quasi-random ones weighted to the posterior.

An item of right and wrong is one of two categories. Of more the distances are those of the intercepts of neighbouring
steps, in logits: logarithms where steps rise (graded), and as they are where they need not (partial credit). Those of
all items of a model have one normal density, whose mean and standard deviation are learnt; an item with fewer than
others has standard normal values in their place, of which nothing depends. Over these many values nodes are random.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor

from irtbench.data.input_error import InputError
from irtbench.estimation.item_quantiles import normal_points, weighted_quantiles
from irtbench.models.item_models.graded import Graded
from irtbench.models.item_models.item_model import ItemModel
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_models.partial_credit import PartialCredit
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.categories import TORCH, Alike
from irtbench.models.pyro_model.model import guessing_density, hierarchy_density

NODES_PER_AXIS = {2: 7, 3: 5}  # by the number of an item's parameters
WIDER = 1.6  # standard deviations of the density of points that estimates rest on, in those of the nodes'
CELLS, FEWEST, MOST = 2**18, 7, 9  # items x points, and powers of two that are the numbers of points of two values
MOST_DIMENSIONS = 4  # for which points are as many again with every one
LEAST_VARIANCE = 1e-6
LEAST, FURTHEST = 1e-300, 600.0  # of a probability, and of a logit
SORTS: Mapping[type[ItemModel], str] = {Graded: "log(d_k - d_k+1) (grm)", PartialCredit: "2 d_k - d_k-1 - d_k+1 (gpcm)"}
FEWEST_POINTS, POINTS_PER_COEFFICIENT = 128, 8  # while abilities and densities settle
POINTS_WIDER = 1.25  # the same of random nodes
SMALLEST_SLOPE, SMALLEST_DISTANCE = 0.2, 0.05  # of a start: logarithms must be finite, and a slope keeps its sign
START_WIDTH, WIDEST_START = 3.0, 0.5  # of a posterior, over the root of the number of responses
FURTHEST_START = 3.0  # of b: with next to no slope it would be anywhere
MOST_CATEGORIES = 12
START_DISTANCES = (0.0, 1.0)
POWERS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)  # by which masses are flattened
MORE_THAN_COEFFICIENTS, LEAST_RIDGE = 3, 1e-9
CURVATURES, FURTHEST_STEP = (0.25, 25.0), 2.0  # of one placing, in standard deviations that nodes have
NEAR = 0.4  # standard deviations of a posterior that its nodes may be off, and the same of its logarithmic width
LOG_ROOT = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Rule:
    """Where nodes lie in standard deviations, shape (n_nodes, n_values), and log weights for plain integrals."""

    offsets: Tensor
    log_weights: Tensor

    @classmethod
    def hermite(cls, n_values: int, n_nodes: int, like: Tensor) -> Rule:
        """A grid of so many Gauss-Hermite nodes on each axis, for the density exp(-x^2 / 2)."""
        axis, weights = (torch.from_numpy(part).to(like) for part in np.polynomial.hermite_e.hermegauss(n_nodes))
        offsets = torch.cartesian_prod(*[axis] * n_values)
        log_weights = torch.cartesian_prod(*[weights.log()] * n_values).sum(dim=1)
        return cls(offsets, log_weights + 0.5 * (offsets**2).sum(dim=1))

    @classmethod
    def points(cls, n_values: int, n_points: int, like: Tensor, wider: float) -> Rule:
        """So many quasi-random points of a normal density, so many times as wide."""
        z = normal_points(n_values, n_points).to(like)
        return cls(wider * z, 0.5 * (z**2).sum(dim=1))


@dataclass(frozen=True)
class ItemGrid:
    """Nodes of each item's posterior with its likelihood there.

    Parameters
    ----------
    centre, root
        Where the nodes of each component lie, and how wide, shapes (n_items, n_components, n_values) and with another
        n_values.
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
    kinds, kind
        Models and numbers of categories that there are, and which of them each item has, shape (n_items,).
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
    kinds: tuple[Alike, ...]
    kind: Tensor
    of: str = "difficulty"

    @classmethod
    def around(
        cls, centre: Tensor, covariance: Tensor, sign: Tensor, free: Tensor, guessing: Tensor, of: str = "difficulty"
    ) -> ItemGrid:
        """Nodes of normal densities of items of right and wrong; their level is not known yet."""
        n_values, every = 3 if bool(free.any()) else 2, torch.arange(len(sign), device=sign.device)
        root, none = lower_root(covariance[:, :n_values, :n_values])[:, None], torch.zeros_like(sign)
        rule = Rule.hermite(n_values, NODES_PER_AXIS[n_values], centre)
        return cls(
            centre[:, None, :n_values], root, sign, free, guessing, rule, none[:, None], none + 1, none,
            right_or_wrong(every), 0 * every, of,
        )  # fmt: skip

    @classmethod
    def near(cls, kinds: tuple[Alike, ...], n_by_item: Tensor, x: Tensor) -> ItemGrid:
        """Nodes around items in categories of these parameters, about as wide as their numbers of responses say."""
        n_values, none = max(part.n_categories for part in kinds), torch.zeros_like(x[:, 0])
        centre, kind = x.new_zeros(len(x), n_values), torch.zeros_like(none, dtype=torch.int64)
        for k, part in enumerate(kinds):
            centre[part.items, : part.n_categories], kind[part.items] = values_of(part, x), k
        centre[:, 1].clamp_(-FURTHEST_START, FURTHEST_START)
        width = (START_WIDTH / n_by_item.to(x).sqrt()).clamp(max=WIDEST_START)
        root = width[:, None, None, None] * torch.eye(n_values).to(x)
        rule = Rule.hermite(2, NODES_PER_AXIS[2], x)
        if n_values > 2:
            enough = max(FEWEST_POINTS, POINTS_PER_COEFFICIENT * n_coefficients(n_values))
            rule = Rule.points(n_values, 1 << (enough - 1).bit_length(), x, POINTS_WIDER)
        sign = torch.where(x[:, 0] < 0, -1.0, 1.0).to(x)
        return cls(
            centre[:, None], root, sign, none > 0, none, rule, none[:, None], none + 1, none, kinds, kind,
        )  # fmt: skip

    @cached_property
    def parts(self) -> list[tuple[Alike, Tensor]]:
        """Items of one model and as many categories, and where they are among these."""
        places = [torch.nonzero(self.kind == k)[:, 0] for k in range(len(self.kinds))]
        return [(part, here) for part, here in zip(self.kinds, places, strict=True) if len(here)]

    @property
    def n_distances(self) -> int:
        """Most distances of steps of an item; nodes are random where there are any."""
        return max(part.n_categories for part in self.kinds) - 2

    @property
    def normal(self) -> Tensor:
        """Log of the density, up to a constant, that nodes would have were posteriors normal, shape (1, n_nodes)."""
        return -0.5 * (self.rule.offsets**2).sum(dim=1)[None]

    @cached_property
    def nodes(self) -> Tensor:
        """Values of (log |a|, b or d, distances, logit c), shape (n_items, n_nodes, n_values)."""
        return (self.centre[:, :, None, :] + self.rule.offsets @ self.root.mT).flatten(1, 2)

    @property
    def logit(self) -> Tensor:
        """Values of logit c, 0 where there are none, shape (n_items, n_nodes)."""
        return self.nodes[..., 2 + self.n_distances :].sum(dim=2)

    @property
    def values(self) -> Tensor:
        """Nodes with b as it is, shape (n_items, n_nodes, n_values)."""
        return self.nodes + torch.nn.functional.pad(self.expected[:, None, None], (1, self.centre.shape[2] - 2))

    @property
    def linear(self) -> Tensor:
        """The models' parameters at the nodes, shape (n_items, n_nodes, width)."""
        values, free = self.values, self.free[:, None]
        slope, step = self.sign[:, None] * values[..., 0].exp(), values[..., 1]
        step = step if self.of == "intercept" else -slope * step
        logit = torch.where(free, self.logit, torch.logit(self.guessing)[:, None])[..., None]
        found = values.new_zeros(*slope.shape, max(part.n_parameters for part in self.kinds))
        for part, here in self.parts:
            n, distances = part.n_categories, values[here, :, 2 : part.n_categories]
            found[here, :, :n] = parameters_of(part.model, slope[here], step[here], distances)
            found[here, :, n : part.n_parameters] = logit[here]
        return found

    @property
    def parameters(self) -> Tensor:
        """The same as they are read."""
        found = self.linear
        for part, here in self.parts:
            own = found[here, :, : part.n_parameters, None]
            found[here, :, : part.n_parameters] = part.model.natural(own, 1, TORCH)[..., 0]
        return found

    def curves(self, places: Tensor, theta: Tensor) -> tuple[Tensor, ...]:
        """Probabilities of each category at abilities, 1 of those that an item has not.

        Shapes (n_items, n_places, n_theta), for the models' parameters at places, shape (n_items, n_places, width).
        """
        each = [
            (here, probabilities(part.model, places[here, :, : part.n_parameters], theta)) for part, here in self.parts
        ]
        if len(self.kinds) == 1:
            return each[0][1]
        found = [places.new_ones(*places.shape[:2], len(theta)) for _ in range(self.n_distances + 2)]
        for here, own in each:
            for curve, p in zip(found, own, strict=False):
                curve[here] = p
        return tuple(found)

    @property
    def log_weights(self) -> Tensor:
        """Log-likelihood plus the logarithm of the node's area or volume."""
        widths, n = self.root.diagonal(dim1=2, dim2=3).log(), 2 + self.n_distances
        log_volumes = widths[..., :n].sum(dim=2) + torch.where(self.free[:, None], widths[..., n:].sum(dim=2), 0.0)
        return self.level + (log_volumes[:, :, None] + self.rule.log_weights).flatten(1)

    def log_mass(self, priors: Priors) -> Tensor:
        """Log of likelihood times prior density times volume at each node, shape (n_items, n_nodes)."""
        return self.log_weights + self.log_prior(priors)

    def log_prior(self, priors: Priors) -> Tensor:
        """Log prior density at the nodes, that of its component, shape (n_items, n_nodes)."""
        parts, distances = priors.pair.parts, [(mean, math.log(s)) for mean, s in priors.distances.values()]
        densities = [
            hierarchy_density(part, own).log_prob(own) + math.log(weight)
            for (weight, part), own in zip(parts, self.nodes[..., :2].chunk(len(parts), dim=1), strict=True)
        ]
        others = self.log_density_of_distances(self.level.new_tensor(distances).view(-1, 2))
        return torch.cat(densities, dim=1) + others + self.log_prior_of_guessing(priors)

    @cached_property
    def sorts(self) -> Tensor:
        """Place of the density of each distance among `names`, -1 where there is none, shape (n_items, n_distances)."""
        found = torch.full((len(self.kind), self.n_distances), -1, device=self.kind.device)
        for part, here in self.parts:
            if part.n_categories > 2:
                found[here, : part.n_categories - 2] = self.names.index(SORTS[type(part.model)])
        return found

    @property
    def names(self) -> list[str]:
        """Of the densities of distances that there are."""
        models = {type(part.model) for part in self.kinds if part.n_categories > 2}
        return [name for model, name in SORTS.items() if model in models]

    def log_density_of_distances(self, distances: Tensor) -> Tensor:
        """That of distances at the nodes under these means and log standard deviations, in the order of `names`."""
        with_standard_normal = torch.nn.functional.pad(distances, (0, 0, 0, 1))
        mean, log_s = with_standard_normal[self.sorts].unbind(-1)
        away = (self.nodes[..., 2 : 2 + self.n_distances] - mean[:, None]) * (-log_s[:, None]).exp()
        return (-0.5 * away**2 - log_s[:, None] - LOG_ROOT).sum(dim=2)

    def log_prior_of_guessing(self, priors: Priors) -> Tensor:
        """That of logit c at the nodes; 0 where c is fixed."""
        logit = self.logit
        if not bool(self.free.any()):
            return torch.zeros_like(logit)
        return torch.where(self.free[:, None], guessing_density(priors.guessing, logit).log_prob(logit), 0.0)

    def mass(self, priors: Priors) -> Tensor:
        """Posterior mass of each node under these priors, shape (n_items, n_nodes), rows summing to 1."""
        return torch.softmax(self.log_mass(priors), dim=1)

    def log_evidence(self, priors: Priors) -> float:
        """Log marginal likelihood of all items' responses under these priors, up to a constant."""
        return float(self.counts @ torch.logsumexp(self.log_mass(priors), dim=1))

    def placed(self, priors: Priors, *, gain: float = 1.0) -> ItemGrid:
        """Nodes where the posterior under these priors is, or part of the way there; their level is not known yet.

        Random ones stay while they are near it, so that sums over them settle.
        """
        n_components = self.centre.shape[1]
        log_mass = self.log_mass(priors).unflatten(1, (n_components, -1))
        if self.n_distances == 0:
            mean, covariance = weighted_moments(
                torch.softmax(log_mass, dim=2), self.nodes.unflatten(1, (n_components, -1))
            )
            return replace(
                self,
                centre=torch.lerp(self.centre, mean, gain),
                root=torch.lerp(self.root, lower_root(covariance), gain),
            )
        log_density = (self.level + self.log_prior(priors)).unflatten(1, (n_components, -1))
        step, covariance = normal_near(self.rule.offsets, log_mass, log_density)
        root: Tensor = torch.linalg.cholesky(covariance)
        moved = torch.maximum(step.abs().amax(dim=2), root.diagonal(dim1=2, dim2=3).log().abs().amax(dim=2)) > NEAR
        centre = self.centre + torch.where(moved[..., None], (self.root @ step[..., None])[..., 0], 0.0)
        return replace(self, centre=centre, root=torch.where(moved[..., None, None], self.root @ root, self.root))

    def of_items(self, chosen: Tensor | slice, counts: Tensor) -> ItemGrid:
        """Some of the items, so many of which have the responses of each."""
        return replace(
            self, centre=self.centre[chosen], root=self.root[chosen], sign=self.sign[chosen], free=self.free[chosen],
            guessing=self.guessing[chosen], level=self.level[chosen], counts=counts.to(self.level),
            expected=self.expected[chosen], kind=self.kind[chosen],
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
        n_values, wider = self.centre.shape[2], POINTS_WIDER if self.n_distances else WIDER
        return replace(self, rule=Rule.points(n_values, points_for(len(self.sign), n_values), self.level, wider))

    def estimates(self, weighted: Sequence[tuple[float, Priors]]) -> tuple[Tensor, Tensor, Tensor]:
        """Mean and covariance of each item's (a, d, c), and quantiles of (a, b, c), averaged over weighted priors.

        Shapes (n_items, 3), (n_items, 3, 3) and (3, n_items, 3); of an item in categories of its own parameters.
        """
        mass = torch.stack([weight * self.mass(priors) for weight, priors in weighted]).sum(dim=0)
        slope, intercept, *others = self.parameters.unbind(-1)
        quantiles = [weighted_quantiles(values, mass) for values in (slope, -intercept / slope, *others)]
        return *weighted_moments(mass, self.parameters), torch.stack(quantiles, dim=2)


def right_or_wrong(every: Tensor) -> tuple[Alike]:
    """Items of right and wrong of these numbers, guessed perhaps, as those of two categories."""
    return (Alike(Logistic(lower=True), 2, every, every[:, None], 3),)


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


def n_coefficients(n_values: int) -> int:
    """Of a quadratic function of so many values."""
    return (n_values + 1) * (n_values + 2) // 2


def normal_near(z: Tensor, log_mass: Tensor, log_density: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance of the normal density that is nearest to one known at points z, shape (n_points, n_values).

    By regression of its logarithm on z and their products, which finds it too where the points lie too close together
    or next to it. They count by their mass, which is flattened where it lies on fewer than the coefficients ask for.
    """
    n_values, few = z.shape[1], MORE_THAN_COEFFICIENTS * n_coefficients(z.shape[1])
    mass = torch.softmax(log_mass, dim=-1)
    for power in POWERS:
        on_few = mass.square().sum(dim=-1, keepdim=True) * few > 1
        mass = torch.where(on_few, torch.softmax(power * log_mass, dim=-1), mass)
    row, column = torch.triu_indices(n_values, n_values, device=z.device)
    by = torch.cat([torch.ones_like(z[:, :1]), z, z[:, row] * z[:, column]], dim=1)
    weighted = by.T * mass[..., None, :]
    level = log_density - log_density.amax(dim=-1, keepdim=True)
    ridge = LEAST_RIDGE * torch.eye(by.shape[1]).to(z)
    found = torch.linalg.solve(weighted @ by + ridge, (weighted @ level[..., None])[..., 0])
    gradient, products = found[..., 1 : n_values + 1], found[..., n_values + 1 :]
    curvature = z.new_zeros(*found.shape[:-1], n_values, n_values)
    curvature[..., row, column] -= products
    curvature[..., column, row] -= products
    sizes, directions = torch.linalg.eigh(curvature)
    covariance = (directions / sizes.clamp(*CURVATURES)[..., None, :]) @ directions.mT
    return (covariance @ gradient[..., None])[..., 0].clamp(-FURTHEST_STEP, FURTHEST_STEP), covariance


def away_from_zero(slope: Tensor) -> Tensor:
    """Slopes to start from, of the same sign."""
    return torch.where(slope < 0, -1.0, 1.0) * slope.abs().clamp(min=SMALLEST_SLOPE)


def values_of(part: Alike, x: Tensor) -> Tensor:
    """(log |a|, b, distances) of some items, shape (n_alike, n_categories)."""
    own = part.own(x)
    slope = away_from_zero(own[:, 0])
    natural = part.model.natural(own[:, :, None], 1, TORCH)[:, 1:, 0]
    steps = natural.diff(dim=1, prepend=torch.zeros_like(slope)[:, None]) if is_partial(part.model) else natural
    distances = -steps.diff(dim=1)
    if not is_partial(part.model):
        distances = distances.clamp(min=SMALLEST_DISTANCE).log()
    return torch.cat([slope.abs().log()[:, None], (-steps.mean(dim=1) / slope)[:, None], distances], dim=1)


def parameters_of(model: ItemModel, slope: Tensor, step: Tensor, distances: Tensor) -> Tensor:
    """The model's parameters but asymptotes, shape (n_items, n_nodes, n_categories).

    -a b_k = -a b - (c_k - mean c), c_k the sum of the distances up to it; `step` is -a b.
    """
    apart = distances if is_partial(model) else distances.exp()
    away = torch.nn.functional.pad(apart.cumsum(dim=-1), (1, 0))
    steps = step[..., None] - (away - away.mean(dim=-1, keepdim=True))
    rest = steps.cumsum(dim=-1) if is_partial(model) else torch.cat([steps[..., :1], distances], dim=-1)
    return torch.cat([slope[..., None], rest], dim=-1)


def probabilities(model: ItemModel, x: Tensor, theta: Tensor) -> tuple[Tensor, ...]:
    """Of each category, none of them zero, shapes (n_items, n_places, n_theta); x as for `ItemGrid.curves`."""
    if isinstance(model, Logistic):  # in the quickest way
        c = torch.sigmoid(x[..., 2:]) if model.lower else torch.zeros_like(x[..., :1])
        return curves(x[..., :1] * theta + x[..., 1:2], c)
    return model.log_probabilities(x[..., None], theta[None], TORCH).exp().clamp(min=LEAST).unbind(2)


def curves(z: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """1 - P and P = c + (1 - c) / (1 + exp(-z)), neither of them zero."""
    by_wrong = z.clamp(-FURTHEST, FURTHEST).exp()
    wrong = (1 - c) / (1 + by_wrong)
    return wrong, torch.addcmul(c, wrong, by_wrong)


def is_partial(model: ItemModel) -> bool:
    """Whether steps are sums, and need not rise."""
    return isinstance(model, PartialCredit)


def check_learnable(models: Sequence[ItemModel], n_categories: Sequence[int]) -> None:
    """Refuse items that have no density of slope, mean step and distances, or too many of these to integrate over."""
    for model, n in zip(models, n_categories, strict=True):
        if type(model) not in SORTS and model != Logistic():
            raise InputError(f"fit: prior hierarchical goes with 2pl, grm and gpcm but not with {model.name}")
        if n > MOST_CATEGORIES:
            raise InputError(f"fit: prior hierarchical goes with up to {MOST_CATEGORIES} categories but not with {n}")
