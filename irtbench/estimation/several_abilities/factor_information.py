"""The observed information of a model with several abilities, and the sampling covariance it gives.

As in `marginal.observed_information` it is what complete data would have told, less the sum over respondents of the
posterior covariance of their score (Louis, 1982). A respondent who was right x_j times in n_j responses to item j has
the score (x_j - n_j P_j) (theta, 1) by its slopes and intercept, so that the sums needed are of products of two curves
with products of two abilities; with several abilities these functions are too many for a shared basis, and the sums are
taken over the nodes themselves.

Where axes may turn the information is singular. Standard errors are then those of the solution named: slopes on
principal axes satisfy sum_j a_jk a_jm = 0, and the covariance is that under these constraints (Silvey, 1959).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from irtbench.estimation.marginal.observed_information import MOST_INFLATION
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.several_abilities.rotation_freedom import turns
from irtbench.models.pyro_model.item_tensors import LINEAR, ItemTensors
from irtbench.models.pyro_model.rows import Batch

SMALLEST_CURVATURE = 1e-7  # of the largest: with less a direction counts as flat


@dataclass(frozen=True)
class Curvature:
    """The information in the directions in which axes do not turn.

    Parameters
    ----------
    information
        In the free slopes and intercepts, item by item, shape (n_free, n_free).
    turns
        Directions in which axes turn, shape (n_turns, n_free).
    sizes, directions
        Eigenvalues in the other directions, rising, and the eigenvectors as columns, shape (n_free, n_others).
    """

    information: Tensor
    turns: Tensor
    sizes: Tensor
    directions: Tensor

    @property
    def definite(self) -> bool:
        """Whether these parameters are a maximum, but for turns."""
        return not bool(self.loose.any())

    @property
    def loose(self) -> Tensor:
        """Free parameters that the responses do not determine, see `observed_information.invert`, shape (n_free,)."""
        if float(self.sizes[0]) <= SMALLEST_CURVATURE * float(self.sizes[-1]):
            lowest = self.directions[:, 0].abs()
            return lowest > lowest.max() / 2
        variance = (self.directions**2 / self.sizes).sum(dim=1)
        return self.information.diagonal() * variance > MOST_INFLATION

    @property
    def saddle(self) -> bool:
        """Whether the likelihood rises in some direction."""
        return float(self.sizes[0]) < -SMALLEST_CURVATURE * float(self.sizes[-1])


def factor_information(problem: Problem, items: ItemTensors) -> Tensor:
    """Negative Hessian of the log-likelihood in the free slopes and intercepts, shape (n_free, n_free)."""
    n_items, width = problem.rows.n_items, problem.n_factors + 1
    basis = problem.nodes.basis
    pairs = list(itertools.combinations_with_replacement(range(width), 2))
    products = torch.stack([basis[:, a] * basis[:, b] for a, b in pairs], dim=1)
    p = torch.sigmoid(items.logits(basis))
    curves = (p[:, None, :] * products.T).reshape(n_items * len(pairs), -1)
    squares = items.intercept.new_zeros(len(pairs), n_items, n_items)  # sum of E[score score'] by product
    means = items.intercept.new_zeros(n_items * width, n_items * width)
    n = items.intercept.new_zeros(n_items, len(basis))
    row = problem.row(items)
    for batch in problem.batches(n_items * len(pairs)):
        posterior = torch.softmax(row.log_shape(batch.correct, batch.observed), dim=1)
        observed = torch.ones_like(batch.correct) if batch.observed is None else batch.observed
        n += posterior.sum(dim=0) if batch.observed is None else batch.observed.T @ posterior
        expected = (posterior @ curves.T).reshape(len(batch), n_items, len(pairs)) * observed[:, :, None]
        ability = posterior @ products
        for t in range(len(pairs)):
            squares[t] += batch.correct.T @ (batch.correct * ability[:, t, None])
            mixed = batch.correct.T @ expected[:, :, t]
            squares[t] -= mixed + mixed.T
        if batch.observed is not None:
            squares += curve_products(p, products, posterior, batch)
        linear = [pairs.index((k, width - 1)) for k in range(width)]
        score = batch.correct[:, :, None] * ability[:, None, linear] - expected[:, :, linear]
        means += score.flatten(1).T @ score.flatten(1)
    if problem.rows.complete:
        for t in range(len(pairs)):
            squares[t] += (p * (n[0] * products[:, t])) @ p.T
    missing = -means.reshape(n_items, width, n_items, width)
    information = items.intercept.new_zeros(n_items, width, n_items, width)
    weighted = (n * p * (1 - p)) @ products
    each = torch.arange(n_items, device=basis.device)
    for t, (a, b) in enumerate(pairs):
        for first, second in {(a, b), (b, a)}:
            missing[:, first, :, second] += squares[t]
            information[each, first, each, second] = weighted[:, t]
    free = problem.free[:, LINEAR].flatten()
    whole = (information - missing).reshape(n_items * width, n_items * width)
    return whole[free][:, free]


def curve_products(p: Tensor, products: Tensor, posterior: Tensor, batch: Batch) -> Tensor:
    """Sums over those who answered two items of n_j n_l E[P_j P_l product], shape (n_products, n_items, n_items).

    n_j is the number of a respondent's responses to an item.
    """
    assert batch.observed is not None
    result = p.new_empty(products.shape[1], len(p), len(p))
    for j in range(len(p)):
        answered = batch.observed[:, j] > 0
        both = (batch.observed[answered] * batch.observed[answered, j, None]).T @ posterior[answered]
        result[:, j] = (products.T * p[j]) @ (both * p).T
    return result


def curvature(problem: Problem, items: ItemTensors) -> Curvature:
    """The information at these items, split into directions in which axes turn and others."""
    information = factor_information(problem.in_float64(), items)
    free = problem.free[:, LINEAR]
    turning = turns(items.slope, free[:, :-1])
    turning = torch.nn.functional.pad(turning, (0, 1)).flatten(1)[:, free.flatten()]
    others = complement(turning)
    sizes, directions = torch.linalg.eigh(others.T @ information @ others)
    return Curvature(information, turning, sizes, others @ directions)


def complement(rows: Tensor) -> Tensor:
    """Orthonormal columns that span what is orthogonal to some rows."""
    if not len(rows):
        return torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)
    return torch.linalg.qr(rows.T, mode="complete").Q[:, len(rows) :]


def along(problem: Problem, values: Tensor) -> Tensor:
    """Values of the free slopes and intercepts as a step of items, shape (n_items, n_factors + 2)."""
    step = values.new_zeros(problem.free.shape)
    chosen = problem.free.clone()
    step[chosen] = values
    return step


def covariance_of(problem: Problem, items: ItemTensors, found: Curvature, *, on_principal_axes: bool) -> Tensor:
    """Sampling covariance of slopes and intercept of each item, shape (n_items, n_factors + 1, n_factors + 1).

    Parameters
    ----------
    problem, items
        The model, and its maximum; on principal axes if so said.
    found
        The information there, which must be definite.
    on_principal_axes
        Whether slopes are fixed to be on principal axes; otherwise axes are held where the pattern lets them turn.
    """
    free = problem.free[:, LINEAR]
    fixed = found.turns
    if on_principal_axes:
        constraints = []
        for k, m in itertools.combinations(range(problem.n_factors), 2):
            gradient = items.slope.new_zeros(free.shape)
            gradient[:, k], gradient[:, m] = items.slope[:, m], items.slope[:, k]
            constraints.append(gradient.flatten())
        fixed = torch.stack(constraints)[:, free.flatten()]
    others = complement(fixed)
    within = torch.linalg.inv(others.T @ found.information @ others)
    whole = items.slope.new_zeros(free.numel(), free.numel())
    chosen = torch.nonzero(free.flatten())[:, 0]
    whole[chosen[:, None], chosen[None, :]] = others @ within @ others.T
    each = torch.arange(len(items), device=free.device)
    return whole.reshape(*free.shape, *free.shape)[each, :, each, :]
