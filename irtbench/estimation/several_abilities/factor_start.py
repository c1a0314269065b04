"""Where the steps start with several abilities: the principal axes of the items' correlations, turned to a pattern."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.marginal.start import starting_values
from irtbench.estimation.several_abilities.rotation_freedom import towards_pattern
from irtbench.models.pyro_model.item_tensors import ItemTensors

NORMAL_OGIVE = 1.702
LARGEST_COMMUNALITY = 0.8
SMALLEST_SIZE = 0.01  # of a principal axis


def factor_starts(problem: Problem) -> list[ItemTensors]:
    """Starting values: one of an exploratory model, two of a pattern."""
    items = starting_values(problem)
    loadings = principal_loadings(problem)
    free = problem.prior.slopes_free
    if free is None:
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
