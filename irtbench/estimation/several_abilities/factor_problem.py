"""What a fit of several abilities works on, exploratory or with a pattern of zero slopes.

Nodes are a lattice where posteriors lie; where that of four abilities and more would have too many nodes they are
quasi-Monte Carlo points, whose error is told but not bounded. Exploratory slopes are reported on principal axes, on
which they satisfy sum_j a_jk a_jm = 0. The steps start from the principal axes of the items' correlations, turned to
the pattern.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.several_abilities.abilities_mode import AbilitiesProblem, Curvature, curvature, flat_model
from irtbench.estimation.several_abilities.lattice import RADIUS, lattice, where_there_is_mass
from irtbench.estimation.several_abilities.rotation_freedom import (
    positive_sign,
    principal_axes,
    towards_pattern,
    turns,
)
from irtbench.models.pyro_model.item_tensors import LINEAR, SLOPES, ItemTensors
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.pyro_model.rows import encode_responses
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
class FactorProblem(AbilitiesProblem):
    """A problem of several abilities, all of which an item may have a slope on.

    Parameters
    ----------
    seed
        Of quasi-Monte Carlo points.
    bounded
        Whether nodes are a lattice, so that the error of the integral is known to be small.
    """

    seed: int = 0
    bounded: bool = True

    def starts(self) -> list[ItemTensors]:
        """One of an exploratory model, two of a pattern."""
        return factor_starts(self)

    def placed(self, items: ItemTensors, *, room: float) -> Self:
        """On a lattice for the posteriors, or on quasi-Monte Carlo points, which stay."""
        if not self.bounded:
            return self
        nodes = where_there_is_mass(self, items, *lattice(self, items, room=room))
        bounded = self.n_factors <= 3 or len(nodes.theta) <= MOST_NODES
        nodes = nodes if bounded else sobol_nodes(self.n_factors, self.seed, self.rows.device)
        return replace(self, nodes=replace(nodes, dtype=self.nodes.dtype), bounded=bounded)

    def others(self, items: ItemTensors, *, room: float) -> NodeTensors:
        """A lattice that is finer, wider and moved, or points scrambled otherwise."""
        if not self.bounded:
            return sobol_nodes(self.n_factors, self.seed + 1, self.rows.device)
        radius = CHECKED_WIDER * RADIUS
        return lattice(self, items, room=room, radius=radius, finer=CHECKED_FINER, offset=CHECKED_OFFSET)[0]

    @property
    def words(self) -> str:
        """Which nodes these are."""
        number = len(self.nodes.theta)
        if self.bounded:
            return f"lattice of {number} nodes where posteriors lie"
        return f"quasi-Monte Carlo, {number} points, their error estimated and not bounded"

    @property
    def exploratory(self) -> bool:
        """Whether no slope is fixed."""
        return bool(self.free[:, SLOPES].all())

    def named(self, items: ItemTensors) -> ItemTensors:
        """On principal axes, or with abilities on which the sum of slopes is positive."""
        slope = items.slope.cpu().numpy()
        slope = principal_axes(slope) if self.exploratory else slope * positive_sign(slope)
        return replace(items, slope=torch.from_numpy(slope).to(self.rows.device))

    def turning(self, items: ItemTensors) -> Tensor:
        """Directions of the free parameters in which axes turn, shape (n_turns, n_free)."""
        free = self.free[:, LINEAR]
        turning = torch.nn.functional.pad(turns(items.slope, free[:, :-1]), (0, 1))
        return turning.flatten(1)[:, free.flatten()]

    def determined(self, items: ItemTensors) -> Tensor:
        """Directions in which axes do not turn."""
        return complement(self.turning(items))

    def reported(self, items: ItemTensors) -> Tensor:
        """Those that keep slopes on principal axes; where a pattern lets axes turn they are held."""
        if not self.exploratory:
            return self.determined(items)
        constraints = []
        for k, m in itertools.combinations(range(self.n_factors), 2):
            gradient = torch.zeros_like(items.linear)
            gradient[:, k], gradient[:, m] = items.slope[:, m], items.slope[:, k]
            constraints.append(gradient.flatten())
        return complement(torch.stack(constraints))

    def curvature(self, items: ItemTensors) -> Curvature | None:
        """The information on nodes as many as standard errors need; None where it would be too large."""
        if int(self.free.sum()) > MOST_PARAMETERS:
            return None
        return curvature(self.placed(items, room=INFORMATION_ROOM), items)


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
    responses: ResponseMatrix,
    n_factors: int,
    zero_loadings: NDArray[np.bool_] | None,
    seed: int = 0,
    *,
    device: torch.device = CPU,
    dtype: torch.dtype = torch.float64,
) -> FactorProblem:
    """Data of a model of several abilities without a prior, on nodes to begin with; `dtype` is that of the sums."""
    model = flat_model(responses, device)
    if zero_loadings is not None:
        model = partial(model, slopes_free=torch.from_numpy(~zero_loadings).to(device))
    nodes = replace(sobol_nodes(n_factors, seed, device), dtype=dtype)
    if n_factors == 1:
        nodes = NodeTensors.from_quadrature(normal_grid(), dtype=dtype, device=device)
    return replace(FactorProblem.of(model, encode_responses(responses, device), nodes), seed=seed)


def factor_starts(problem: Problem) -> list[ItemTensors]:
    """Starting values: one of an exploratory model, two of a pattern."""
    items = problem.starting_values()
    loadings = principal_loadings(problem)
    free = problem.free[:, SLOPES]
    if bool(free.all()):
        return [replace_slopes(items, loadings)]
    turned = torch.where(free, towards_pattern(loadings, free), 0.0)
    # or each ability takes the common part of the items that have slopes on it
    common = torch.where(free, items.slope[:, :1].abs().clamp(min=0.5), 0.0)
    return [replace_slopes(items, turned), replace(items, slope=common)]


def replace_slopes(items: ItemTensors, loadings: Tensor) -> ItemTensors:
    """The items with slopes from loadings, none so large that it leaves an item no variance of its own."""
    communality = loadings.square().sum(dim=1, keepdim=True)
    loadings = loadings * (LARGEST_COMMUNALITY / communality.clamp(min=LARGEST_COMMUNALITY)).sqrt()
    unique = (1 - communality.clamp(max=LARGEST_COMMUNALITY)).sqrt()
    return replace(items, slope=NORMAL_OGIVE * loadings / unique)


def principal_loadings(problem: Problem) -> Tensor:
    """Loadings on the principal axes of the items' correlations, shape (n_items, n_factors)."""
    return loadings_of(item_correlations(problem), problem.n_factors)


def loadings_of(correlation: Tensor, n_factors: int) -> Tensor:
    """Loadings on the principal axes of correlations, whose diagonal does not matter, shape (n_items, n_factors)."""
    # the largest correlation of each item with another stands for its communality
    off_diagonal = correlation - torch.diag(torch.diagonal(correlation))
    reduced = off_diagonal + torch.diag(off_diagonal.abs().max(dim=1).values)
    sizes, axes = torch.linalg.eigh(reduced)
    return axes[:, -n_factors:].flip(1) * sizes[-n_factors:].flip(0).clamp(min=SMALLEST_SIZE).sqrt()


def item_correlations(problem: Problem) -> Tensor:
    """Correlations of the items over those who answered both, shape (n_items, n_items)."""
    n_correct = problem.rows.n_correct
    both = both_correct = n_correct.new_zeros(len(n_correct), len(n_correct))
    counted = correct = torch.zeros_like(n_correct)
    for batch in problem.batches(dtype=torch.float64):
        observed = torch.ones_like(batch.correct) if batch.observed is None else batch.observed
        counted, correct = counted + observed.sum(dim=0), correct + batch.correct.sum(dim=0)
    p = correct / counted.clamp(min=1)
    deviation = (p * (1 - p)).sqrt().clamp(min=1e-6)
    for batch in problem.batches(dtype=torch.float64):
        observed = torch.ones_like(batch.correct) if batch.observed is None else batch.observed
        standard = (batch.correct - observed * p) / deviation
        both_correct, both = both_correct + standard.T @ standard, both + observed.T @ observed
    return both_correct / both.clamp(min=1)
