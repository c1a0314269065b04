"""Guessing without a prior: an item whose likelihood is highest at c = 0 is a 2PL item."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from irtbench.estimation.mode import Mode, Problem, expected_counts, find_mode

MOST_ROUNDS = 20
SUNK = -13.8  # logit of c = 1e-6, below which c is 0
FREED_AT = -2.0  # logit of c from which an item that was held at 0 is tried again


def find_mode_with_asymptotes(
    problem: Problem, start: Tensor, *, wanted: Tensor, tolerance: float, max_steps: int
) -> tuple[Problem, Mode]:
    """Mode of items and guessing, and the problem in which guessing is held at 0 where its maximum is there.

    Where the steps end, an item whose c is below 1e-6 is held at 0 and they go on without it; at the end the likelihood
    must fall as c leaves 0, or the item is freed again.

    Parameters
    ----------
    problem, start, tolerance, max_steps
        As for `find_mode`; guessing may be held at 0 already for some of the items wanted.
    wanted
        Items meant to be 3PL, shape (n_items,); the others keep what they have.
    """
    parameters, steps = start, 0
    for _ in range(MOST_ROUNDS):
        mode = find_mode(problem, start=parameters, tolerance=tolerance, max_steps=max_steps)
        steps += mode.steps
        parameters = mode.parameters.clone()
        sunk = problem.guessing_free & (parameters[:, -1] < SUNK)
        held = wanted & ~problem.guessing_free
        if bool(sunk.any()):
            free = problem.guessing_free & ~sunk
            parameters[sunk, -1] = 0.0
        elif mode.converged and bool((rising := held & (slope_at_zero(problem, parameters) > 0)).any()):
            free = problem.guessing_free | rising
            parameters[rising, -1] = FREED_AT
        else:
            break
        problem = replace(problem, guessing_free=free)
    else:
        return problem, replace(
            mode,
            steps=steps,
            converged=False,
            stopped_because="guessing of some items neither stays at 0 nor leaves it",
        )
    reason = mode.stopped_because
    if n_held := int(held.sum()):
        reason += f"; guessing of {n_held} items held at 0, where their likelihood is highest"
    return problem, replace(mode, steps=steps, stopped_because=reason)


def slope_at_zero(problem: Problem, parameters: Tensor) -> Tensor:
    """Derivative of the log-likelihood by each item's c at c = 0, shape (n_items,).

    sum_q (r - n P) / P, since dP/dc = 1 - P there. Where it is not positive the 2PL is the maximum.
    """
    counts = expected_counts(problem, parameters, at_nodes=True)
    assert counts.r is not None
    p = torch.sigmoid(parameters[:, :-1] @ problem.nodes.basis.T)
    return ((counts.r - counts.n * p) / p).sum(dim=1)
