"""What a fit of several abilities works on, exploratory or with a pattern of zero slopes.

Nodes are a lattice where posteriors lie; where that of four abilities and more would have too many nodes they are
quasi-Monte Carlo points, whose error is estimated but not bounded. Exploratory slopes are reported on principal axes,
on which they satisfy sum_j a_jk a_jm = 0. The steps start from the principal axes of the items' correlations, turned to
the pattern.

Items of right and wrong without asymptotes have sums of their own in the E step (`Problem`); all others have the
probabilities of their categories (`CategoryProblem`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.several_abilities.abilities_mode import Abilities, Curvature, with_slopes
from irtbench.estimation.several_abilities.answers import Answers
from irtbench.estimation.several_abilities.lattice import RADIUS, lattice, where_there_is_mass
from irtbench.estimation.several_abilities.rotation_freedom import (
    in_planes,
    principal_axes,
    towards_pattern,
    turns,
    with_positive_sums,
)
from irtbench.models.pyro_model.categories import CategoryItems, category_model
from irtbench.models.pyro_model.model import logistic_model
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors
from irtbench.models.quadrature import factor_quadrature, normal_grid

CPU = torch.device("cpu")
MOST_NODES = 60_000  # with more, four abilities and more are integrated by quasi-Monte Carlo
CHECKED_FINER, CHECKED_WIDER, CHECKED_OFFSET = 0.8, 1.25, 0.37  # the lattice that a result is checked on
INFORMATION_ROOM = 1.5  # standard errors need no closer nodes
MOST_PARAMETERS = 3_000  # whose information is computed at once
NORMAL_OGIVE = 1.702
LARGEST_COMMUNALITY = 0.8
SMALLEST_SIZE = 0.01  # of a principal axis


@dataclass(frozen=True)
class Factors(Abilities):
    """Several abilities, all of which an item may have a slope on.

    Parameters
    ----------
    free_slopes
        Where a pattern lets slopes be estimated, shape (n_items, n_factors); None if exploratory.
    seed
        Of quasi-Monte Carlo points.
    near
        Abilities near the respondents', shape (n_respondents, n_factors); None where they are not known yet.
    """

    free_slopes: Tensor | None = None
    seed: int = 0
    near: Tensor | None = None

    @property
    def n_factors(self) -> int:
        """Number of abilities."""
        return self.scale.n_abilities

    def starts(self) -> list[ItemTensors]:
        """One of an exploratory model, two of a pattern."""
        items = self.problem.starting_values()
        loadings = loadings_of(item_correlations(self), self.n_factors)
        free = self.free_slopes
        if free is None:
            return [with_slopes(items, slopes_of(loadings, self.scale))]
        turned = torch.where(free, towards_pattern(loadings, free), 0.0)
        # or each ability takes the common part of the items that have slopes on it
        common = torch.where(free, items.matrix[:, :1].abs().clamp(min=0.5), 0.0)
        return [with_slopes(items, slopes) for slopes in (slopes_of(turned, self.scale), common)]

    def placed(self, items: ItemTensors, *, room: float) -> Self:
        """On a lattice for the posteriors, or on quasi-Monte Carlo points, which stay."""
        if not self.bounded:
            return self
        every, modes = lattice(self, items, room=room, start=self.near)
        nodes = where_there_is_mass(self, items, every, modes)
        bounded = self.n_factors <= 3 or len(nodes.theta) <= MOST_NODES
        nodes = nodes if bounded else sobol_nodes(self.n_factors, self.seed, self.problem.rows.device)
        return replace(self.on(nodes), bounded=bounded, near=modes.theta)

    def others(self, items: ItemTensors, *, room: float) -> NodeTensors:
        """A lattice that is finer, wider and moved, or points scrambled otherwise."""
        if not self.bounded:
            return sobol_nodes(self.n_factors, self.seed + 1, self.problem.rows.device)
        radius = CHECKED_WIDER * RADIUS
        finer = {"finer": CHECKED_FINER, "offset": CHECKED_OFFSET}
        return lattice(self, items, room=room, start=self.near, radius=radius, **finer)[0]

    @property
    def words(self) -> str:
        """Which nodes these are."""
        number = len(self.problem.nodes.theta)
        if self.bounded:
            return f"lattice of {number} nodes where posteriors lie"
        return f"quasi-Monte Carlo, {number} points, their error estimated and not bounded"

    def named(self, items: ItemTensors) -> ItemTensors:
        """On principal axes, or with abilities on which the sum of slopes is positive."""
        slopes = items.matrix[:, : self.n_factors]
        slopes = principal_axes(slopes) if self.free_slopes is None else slopes
        return with_slopes(items, with_positive_sums(slopes))

    def of_slopes(self, directions: Tensor) -> Tensor:
        """Directions of slopes, shape (n, n_items, n_factors), in the free parameters, shape (n, n_free)."""
        free = self.problem.free
        whole = torch.nn.functional.pad(directions, (0, free.shape[1] - self.n_factors))
        return whole.flatten(1)[:, free.flatten()]

    def determined(self, items: ItemTensors) -> Tensor:
        """Directions in which axes do not turn; none does where items share slopes."""
        if self.problem.prior.shared is not None:
            return super().determined(items)
        slopes, free = items.matrix[:, : self.n_factors], self.problem.free[:, : self.n_factors]
        return complement(self.of_slopes(turns(slopes, free)))

    def reported(self, items: ItemTensors) -> Tensor:
        """Those that keep slopes on principal axes; where a pattern lets axes turn they are fixed."""
        if self.free_slopes is not None:
            return self.determined(items)
        return complement(self.of_slopes(in_planes(items.matrix[:, : self.n_factors], 1.0)))

    def curvature(self, items: ItemTensors) -> Curvature | None:
        """The information on nodes as many as standard errors need; None where it would be too large."""
        if self.problem.n_estimated > MOST_PARAMETERS:
            return None
        return super(Factors, self.placed(items, room=INFORMATION_ROOM)).curvature(items)


def complement(rows: Tensor) -> Tensor:
    """Orthonormal columns that span what is orthogonal to some rows."""
    if not len(rows):
        return torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)
    return torch.linalg.qr(rows.T, mode="complete").Q[:, len(rows) :]


def sobol_nodes(n_factors: int, seed: int, device: torch.device = CPU) -> NodeTensors:
    """Scrambled Sobol' points for many abilities, or the usual coarse grid for few."""
    quadrature = factor_quadrature(n_factors, seed=seed)
    places, log_weights = (torch.from_numpy(part).to(device) for part in (quadrature.nodes, quadrature.log_weights))
    return NodeTensors(places.reshape(len(log_weights), -1), log_weights)


def factor_problem(
    answers: Answers,
    n_factors: int,
    zero_loadings: NDArray[np.bool_] | None,
    seed: int = 0,
    *,
    device: torch.device = CPU,
    dtype: torch.dtype = torch.float64,
) -> Factors:
    """Several abilities behind answers, without a prior but of asymptotes, on nodes to begin with.

    `dtype` is that of the sums.
    """
    scale, priors = answers.scale(n_factors, device), answers.priors
    free = None if zero_loadings is None else torch.from_numpy(~zero_loadings).to(device)
    nodes = replace(sobol_nodes(n_factors, seed, device), dtype=dtype)
    if n_factors == 1:
        nodes = NodeTensors.from_quadrature(normal_grid(), dtype=dtype, device=device)
    rows = answers.rows(scale)
    if answers.linear:
        zeros = torch.zeros(len(scale), dtype=torch.float64, device=device)
        model = partial(
            logistic_model, priors=priors, guessing_free=zeros.to(torch.bool), guessing_fixed=zeros, slopes_free=free
        )
        problem: Problem = Problem.of(model, rows, nodes)
    else:
        known = None if free is None else known_slopes(scale, free)
        problem = CategoryProblem.of(partial(category_model, items=scale, priors=priors, known=known), rows, nodes)
    if answers.one_slope:
        every = torch.ones_like(problem.free[:, :n_factors]) if free is None else free
        width = problem.free.shape[1]
        sets = [(torch.nonzero(every[:, k])[:, 0] * width + k).tolist() for k in range(n_factors)]
        problem = answers.designed(problem, scale, sets)
    return Factors(problem, scale, free_slopes=free, seed=seed)


def known_slopes(scale: CategoryItems, free: Tensor) -> Tensor:
    """Slopes of 0 where they are not free, NaN for what is estimated, shape (n_items, width)."""
    known = torch.full(scale.free.shape, torch.nan, dtype=torch.float64, device=free.device)
    known[:, : free.shape[1]][~free] = 0.0
    return known


def slopes_of(loadings: Tensor, scale: CategoryItems) -> Tensor:
    """Slopes from loadings, none so large that it leaves an item no variance of its own."""
    communality = loadings.square().sum(dim=1, keepdim=True)
    loadings = loadings * (LARGEST_COMMUNALITY / communality.clamp(min=LARGEST_COMMUNALITY)).sqrt()
    unique = (1 - communality.clamp(max=LARGEST_COMMUNALITY)).sqrt()
    pairs = zip(scale.models, scale.n_categories, strict=True)
    unit = loadings.new_tensor([model.start(np.full(k, 1 / k), 1.0)[0] for model, k in pairs])
    return NORMAL_OGIVE * loadings / unique * unit[:, None]


def loadings_of(correlation: Tensor, n_factors: int) -> Tensor:
    """Loadings on the principal axes of correlations, whose diagonal does not matter, shape (n_items, n_factors)."""
    # the largest correlation of each item with another is taken for its communality
    off_diagonal = correlation - torch.diag(torch.diagonal(correlation))
    reduced = off_diagonal + torch.diag(off_diagonal.abs().max(dim=1).values)
    sizes, axes = torch.linalg.eigh(reduced)
    return axes[:, -n_factors:].flip(1) * sizes[-n_factors:].flip(0).clamp(min=SMALLEST_SIZE).sqrt()


def item_correlations(abilities: Abilities) -> Tensor:
    """Correlations of the items' scores over those who answered both, shape (n_items, n_items)."""
    problem, scale = abilities.problem, abilities.scale
    score = problem.rows.n_correct.new_zeros(len(scale.item_of_column), len(scale))
    score[torch.arange(len(score), device=score.device), scale.item_of_column] = scale.column_scores
    both = both_scores = score.new_zeros(len(scale), len(scale))
    number = abilities.problem.n_by_item.clamp(min=1)
    mean, square = (problem.rows.n_correct @ part / number for part in (score, score.square()))
    deviation = (square - mean.square()).clamp(min=1e-12).sqrt()
    for batch in problem.batches(dtype=torch.float64):
        own = batch.correct @ score
        observed = torch.ones_like(own) if batch.observed is None else batch.observed
        standard = (own - observed * mean) / deviation
        both_scores, both = both_scores + standard.T @ standard, both + observed.T @ observed
    return both_scores / both.clamp(min=1)
