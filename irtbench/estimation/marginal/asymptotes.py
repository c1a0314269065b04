"""Guessing without a prior: an item whose likelihood is highest at c = 0 is a 2PL item."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from irtbench.estimation.marginal.e_step import Problem, expected_counts
from irtbench.estimation.marginal.mode import Mode


def without_guessing_at_zero(problem: Problem, mode: Mode) -> tuple[Problem, Mode]:
    """Hold guessing at 0 where its maximum is there: such items have two parameters, and standard errors of these."""
    at_zero = problem.guessing_free & (mode.parameters[:, -1] == -torch.inf)
    if not bool(at_zero.any()):
        return problem, mode
    parameters = mode.parameters.clone()
    parameters[at_zero, -1] = 0.0
    reason = (
        f"{mode.stopped_because}; guessing of {int(at_zero.sum())} items held at 0, where their likelihood is highest"
    )
    problem = replace(problem, guessing_free=problem.guessing_free & ~at_zero)
    return problem, replace(mode, parameters=parameters, stopped_because=reason)


def slope_at_zero(problem: Problem, parameters: Tensor) -> Tensor:
    """Derivative of the log-likelihood by each item's c at c = 0, shape (n_items,).

    sum_q (r - n P) / P, since dP/dc = 1 - P there. Where it is not positive the 2PL is the maximum.
    """
    counts = expected_counts(problem, parameters, at_nodes=True)
    assert counts.r is not None
    p = torch.sigmoid(parameters[:, :-1] @ problem.nodes.basis.T)
    return ((counts.r - counts.n * p) / p).sum(dim=1)
