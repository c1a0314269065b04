"""Posteriors of items in categories on nodes of (log |a|, mean step b, distances), and what is heard of them.

Distances are those of the intercepts of neighbouring steps, in logits: logarithms where steps rise (graded), and as
they are where they need not (partial credit). Those of all items of a model have one normal density, whose mean and
standard deviation are learnt; an item with fewer than others has standard normal values in their place, of which
nothing depends. With two categories there are none, and the item is one of right and wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from irtbench.data.input_error import InputError
from irtbench.estimation.few_respondents.item_grid import ItemGrid, Rule, points_for
from irtbench.estimation.few_respondents.item_posteriors import (
    LEAST,
    Surroundings,
    known_posteriors,
    outcomes_of,
)
from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.item_models.graded import Graded
from irtbench.models.item_models.item_model import ItemModel
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_models.partial_credit import PartialCredit
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.categories import TORCH, Alike, CategoryItems
from irtbench.models.pyro_model.tensors import ItemTensors

SORTS: Mapping[type[ItemModel], str] = {Graded: "log(d_k - d_k+1) (grm)", PartialCredit: "2 d_k - d_k-1 - d_k+1 (gpcm)"}
SORT_LIST = tuple(SORTS.values())
FEWEST_POINTS, POINTS_PER_COEFFICIENT = 128, 8  # while abilities and densities settle
POINTS_WIDER = 1.25
SMALLEST_SLOPE, SMALLEST_DISTANCE = 0.2, 0.05  # of a start, whose logarithms must be finite
START_WIDTH, WIDEST_START = 3.0, 0.5  # of a posterior, over the root of the number of responses
FURTHEST_START = 3.0  # of b: with next to no slope it would be anywhere
MOST_CATEGORIES = 12
START_DISTANCES = (0.0, 1.0)
POWERS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)  # by which masses are flattened
MORE_THAN_COEFFICIENTS, LEAST_RIDGE = 3, 1e-9
CURVATURES, FURTHEST_STEP = (0.25, 25.0), 2.0  # of one placing, in standard deviations that nodes have
LARGEST_UPDATE = 0.1
NEAR = 0.4  # standard deviations of a posterior that its nodes may be off, and the same of its logarithmic width
LOG_ROOT = 0.5 * float(np.log(2 * np.pi))


@dataclass(frozen=True)
class CategoryGrid(ItemGrid):
    """`ItemGrid` of items in categories; `free` and `guessing` are none.

    Parameters
    ----------
    scale
        The items of the scale.
    chosen
        Which of them these are, shape (n_items,).
    """

    scale: CategoryItems = field(kw_only=True)
    chosen: Tensor = field(kw_only=True)

    @classmethod
    def near(cls, around: CategorySurroundings, items: ItemTensors) -> CategoryGrid:
        """Nodes around these items, about as wide as their numbers of responses say."""
        scale, x = around.scale, items.matrix
        ones, n_values = x.new_ones(len(x)), max(scale.n_categories)
        centre = torch.zeros(len(x), n_values, dtype=x.dtype, device=x.device)
        for part in scale.parts:
            centre[part.items, : part.n_categories] = values_of(part, x)
        centre[:, 1].clamp_(-FURTHEST_START, FURTHEST_START)
        n = torch.stack(around.numbers).sum(dim=(0, 1)).to(x)
        width = (START_WIDTH / n.sqrt()).clamp(max=WIDEST_START)
        root = width[:, None, None, None] * torch.eye(n_values).to(x)
        if n_values < 3:
            rule = Rule.hermite(n_values, x, n_values)
        else:
            enough = max(FEWEST_POINTS, POINTS_PER_COEFFICIENT * n_coefficients(n_values))
            rule = Rule.points(n_values, 1 << (enough - 1).bit_length(), x, n_values, POINTS_WIDER)
        sign = torch.where(x[:, 0] < 0, -ones, ones)
        every = torch.arange(len(x), device=x.device)
        return cls(
            centre[:, None],
            root,
            sign,
            ones == 0,
            0 * ones,
            rule,
            0 * ones[:, None],
            ones,
            0 * ones,
            scale=scale,
            chosen=every,
        )

    @property
    def largest_update(self) -> float:
        """Less of random nodes: far from where they lie the likelihood is that of the few furthest of them."""
        return super().largest_update if self.centre.shape[2] < 3 else LARGEST_UPDATE

    @property
    def log_volumes(self) -> Tensor:
        """Of all values."""
        return self.root.diagonal(dim1=2, dim2=3).log().sum(dim=2)

    @cached_property
    def parts(self) -> list[tuple[Alike, Tensor]]:
        """Items of one model and as many categories, and where they are among these."""
        found = [(part, torch.nonzero(torch.isin(self.chosen, part.items))[:, 0]) for part in self.scale.parts]
        return [(part, here) for part, here in found if len(here)]

    @cached_property
    def sorts(self) -> Tensor:
        """Place of the density of each distance among `SORTS`, -1 where there is none, shape (n_items, n_distances)."""
        found = torch.full((len(self.chosen), self.centre.shape[2] - 2), -1, device=self.chosen.device)
        for part, here in self.parts:
            if (name := SORTS.get(type(part.model))) is not None:
                found[here, : part.n_categories - 2] = SORT_LIST.index(name)
        return found

    @property
    def names(self) -> list[str]:
        """Of the densities that there are."""
        return [name for k, name in enumerate(SORT_LIST) if bool((self.sorts == k).any())]

    def log_prior_of_others(self, priors: Priors) -> Tensor:
        """Of distances."""
        values = [(mean, float(np.log(s))) for mean, s in priors.distances.values()]
        return self.log_density_of_distances(self.level.new_tensor(values).view(-1, 2))

    def log_density_of_distances(self, distances: Tensor) -> Tensor:
        """Normal under these means and log standard deviations, in the order of `names`."""
        every = distances.new_zeros(len(SORT_LIST) + 1, 2)  # the last is standard normal
        for place, name in enumerate(self.names):
            every[SORT_LIST.index(name)] = distances[place]
        mean, log_s = every[self.sorts].unbind(-1)
        away = (self.nodes[..., 2:] - mean[:, None]) * (-log_s[:, None]).exp()
        return (-0.5 * away**2 - log_s[:, None] - LOG_ROOT).sum(dim=2)

    def placed(self, priors: Priors, *, gain: float = 1.0) -> ItemGrid:
        """Nodes where the posterior is; random ones stay while they are near it, so that sums over them settle."""
        n_components, n_values = self.centre.shape[1:]
        if n_values < 3:
            return super().placed(priors, gain=gain)
        step, covariance = normal_near(
            self.rule.offsets,
            *(
                part.unflatten(1, (n_components, -1))
                for part in (self.log_mass(priors), self.level + self.log_prior(priors))
            ),
        )
        root: Tensor = torch.linalg.cholesky(covariance)
        moved = torch.maximum(step.abs().amax(dim=2), root.diagonal(dim1=2, dim2=3).log().abs().amax(dim=2)) > NEAR
        centre = self.centre + torch.where(moved[..., None], (self.root @ step[..., None])[..., 0], 0.0)
        return replace(self, centre=centre, root=torch.where(moved[..., None, None], self.root @ root, self.root))

    def of_items(self, chosen: Tensor, counts: Tensor) -> CategoryGrid:
        """Some of the items."""
        found = super().of_items(chosen, counts)
        assert isinstance(found, CategoryGrid)
        return replace(found, chosen=self.chosen[chosen])

    @property
    def on_points(self) -> CategoryGrid:
        """Many points in place of the nodes; their level is not known yet."""
        n_values = self.centre.shape[2]
        wider = {} if n_values < 3 else {"wider": POINTS_WIDER}
        rule = Rule.points(n_values, points_for(len(self.sign), n_values), self.level, n_values, **wider)
        return replace(self, rule=rule)

    @property
    def linear(self) -> Tensor:
        """The models' parameters at the nodes, shape (n_items, n_nodes, width)."""
        found = self.nodes.new_zeros(*self.nodes.shape[:2], self.scale.width)
        for part, here in self.parts:
            found[here, :, : part.n_parameters] = parameters_of(part, self.values[here], self.sign[here])[0]
        return found

    @property
    def parameters(self) -> Tensor:
        """The same as they are read."""
        found = self.nodes.new_zeros(*self.nodes.shape[:2], self.scale.width)
        for part, here in self.parts:
            found[here, :, : part.n_parameters] = parameters_of(part, self.values[here], self.sign[here])[1]
        return found


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


def values_of(part: Alike, x: Tensor) -> Tensor:
    """(log |a|, b, distances) of some items, shape (n_alike, n_categories)."""
    own = part.own(x)
    slope = torch.where(own[:, 0] < 0, -1.0, 1.0) * own[:, 0].abs().clamp(min=SMALLEST_SLOPE)
    natural = part.model.natural(own[:, :, None], 1, TORCH)[:, 1:, 0]
    steps = natural.diff(dim=1, prepend=torch.zeros_like(slope)[:, None]) if is_partial(part.model) else natural
    distances = -steps.diff(dim=1)
    if not is_partial(part.model):
        distances = distances.clamp(min=SMALLEST_DISTANCE).log()
    return torch.cat([slope.abs().log()[:, None], (-steps.mean(dim=1) / slope)[:, None], distances], dim=1)


def parameters_of(part: Alike, values: Tensor, sign: Tensor) -> tuple[Tensor, Tensor]:
    """The model's parameters and those that are read, shapes (n_items, n_nodes, n_parameters).

    -a b_k = -a b - (c_k - mean c), c_k the sum of the distances up to it.
    """
    b, distances = values[..., 1], values[..., 2 : part.n_categories]
    slope = (sign[:, None] * values[..., 0].exp())[..., None]
    apart = distances if is_partial(part.model) else distances.exp()
    away = torch.nn.functional.pad(apart.cumsum(dim=-1), (1, 0))
    steps = -slope * b[..., None] - (away - away.mean(dim=-1, keepdim=True))
    if is_partial(part.model):
        found = torch.cat([slope, steps.cumsum(dim=-1)], dim=-1)
        return found, found
    return torch.cat([slope, steps[..., :1], distances], dim=-1), torch.cat([slope, steps], dim=-1)


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


@dataclass(frozen=True)
class CategorySurroundings(Surroundings):
    """`Surroundings` of items in categories, `scale`."""

    scale: CategoryItems = field(kw_only=True)

    @classmethod
    def of(cls, problem: Problem, items: ItemTensors) -> CategorySurroundings:
        """With the items as known."""
        assert isinstance(problem, CategoryProblem)
        scale, x = problem.scale, items.matrix
        joint, given, asked = known_posteriors(problem, items)
        numbers = [torch.zeros_like(asked) for _ in range(max(scale.n_categories))]
        for part in scale.parts:
            own = [given[:, column] for column in part.columns.T]
            for k, of_category in enumerate([asked[:, part.items] - torch.stack(own).sum(dim=0), *own]):
                numbers[k][:, part.items] = of_category.to(asked.dtype)
        none, every = x.new_zeros(len(x)), torch.arange(len(x), device=x.device)
        found = cls(
            problem.nodes.theta[:, 0], joint, (), tuple(numbers), none > 0, none, outcomes_of(numbers), scale=scale
        )
        known = found.curves_at(x[:, None], none, every)
        return replace(found, curves=tuple(curve[:, 0] for curve in known))

    def curves_at(self, places: Tensor, sign: Tensor, own: Tensor) -> tuple[Tensor, ...]:
        """Probabilities of each category at the nodes, 1 of those that an item has not."""
        curves = [places.new_ones(*places.shape[:2], len(self.theta)) for _ in self.numbers]
        for part in self.scale.parts:
            here = torch.nonzero(torch.isin(own, part.items))[:, 0]
            if len(here):
                x = places[here][:, :, : part.n_parameters, None]
                p = part.model.log_probabilities(x, self.theta[None], TORCH).exp().clamp(min=LEAST)
                for k in range(part.n_categories):
                    curves[k][here] = p[:, :, k]
        return tuple(curves)
