"""Guessing without a prior: an item whose likelihood is highest at c = 0 is a 2PL item."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from irtbench.estimation.estimate import Estimate
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.curve_tensors import curve
from irtbench.models.pyro_model.item_tensors import ItemTensors


def without_guessing_at_zero(problem: Problem, mode: Estimate) -> tuple[Problem, Estimate]:
    """Fix guessing at 0 where its maximum is there: such items have two parameters, and standard errors of these."""
    at_zero = problem.guessing_free & (mode.items.guessing == 0)
    if not bool(at_zero.any()):
        return problem, mode
    free = problem.guessing_free & ~at_zero
    fixed = replace(problem.prior.fixed, guessing=torch.where(at_zero, 0.0, problem.prior.fixed.guessing))
    problem = replace(problem, prior=replace(problem.prior, guessing_free=free, fixed=fixed))
    return problem, replace(mode, status=replace(mode.status, guessing_at_zero=int(at_zero.sum())))


def slope_at_zero(problem: Problem, items: ItemTensors) -> Tensor:
    """Derivative of the log-likelihood by each item's c at c = 0, shape (n_items,).

    sum_q r dlog P/dc + (n - r) dlog(1 - P)/dc. Where it is not positive the 2PL is the maximum.
    """
    counts = problem.counts(items, at_nodes=True)
    assert counts.r is not None
    at = curve(items.logits(problem.nodes.basis), torch.zeros_like(items.guessing)[:, None])
    return (counts.r * at.log_p_c + (counts.n - counts.r) * at.log_q_c).sum(dim=1)
