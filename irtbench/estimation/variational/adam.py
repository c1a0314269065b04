"""Adam on the ELBO of a Delta guide: Pyro's plain way to the mode, slower than Fisher scoring and independent of it."""

from __future__ import annotations

import torch
from pyro.infer import SVI
from pyro.infer.autoguide import AutoDelta
from pyro.infer.autoguide.initialization import init_to_value
from pyro.optim import ClippedAdam

from irtbench.estimation.driver import maximise, own_parameters
from irtbench.estimation.marginal.m_step import distances, item_derivatives, scoring_step
from irtbench.estimation.marginal.problem import Estimate, Problem
from irtbench.estimation.status import Status, Stop
from irtbench.estimation.variational.loss import MarginalELBO
from irtbench.models.pyro_model.item_tensors import ItemTensors

CHECKED_EVERY = 50  # steps
LOOSER = 100  # than Fisher scoring: Adam circles the maximum at the size of its rate


def adam_mode(problem: Problem, start: ItemTensors, *, tolerance: float, max_steps: int) -> Estimate:
    """Maximise the ELBO with Pyro's AutoDelta guide by Adam.

    The learning rate decays to a hundredth over 3,000 steps. Convergence is judged by the gradient, as Fisher scoring
    does, every 50 steps, a hundred times more loosely: no item is far from its maximum, in its own standard errors,
    and parameters hardly move.

    Parameters
    ----------
    problem
        Responses, population and prior.
    start
        Items to start from.
    tolerance
        Of Fisher scoring.
    max_steps
        A hundredth of the steps of Adam allowed.
    """
    guide = AutoDelta(problem.model, init_loc_fn=init_to_value(values=problem.prior.values_of(start)))
    optimiser = ClippedAdam({"lr": 0.05, "lrd": 0.01 ** (1 / 3000), "clip_norm": 1e9})
    small, most, before = LOOSER * tolerance, 100 * max_steps, torch.full_like(start.matrix, torch.inf)

    @torch.no_grad()
    def settled(step: int, loss: float) -> Estimate | None:
        nonlocal before
        if step % CHECKED_EVERY and step < most:
            return None
        items = problem.prior.items_of({name: value.detach() for name, value in guide.median().items()})
        here = problem.evaluate(items)
        derivatives = item_derivatives(problem, items, here.counts)
        gradient = float(distances(problem, derivatives, scoring_step(problem, derivatives)))
        change, before = float((items.matrix - before).abs().max()), items.matrix
        if step < most and not (gradient < small and change < 10 * small):
            return None
        stop = Stop.CONVERGED if gradient < small else Stop.STEP_LIMIT
        status = Status(stop, step, gradient, change, tolerance=small)
        return Estimate(items, "mode", here.counts.log_likelihood, here.log_posterior, status)

    with own_parameters(), torch.enable_grad():
        svi = SVI(problem.model, guide, optimiser, loss=MarginalELBO())
        return maximise(svi, problem.observed, problem.nodes, stopped=settled)
