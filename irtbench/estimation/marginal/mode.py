"""The mode of the item parameters: Pyro's SVI with a Delta guide and Fisher scoring."""

from __future__ import annotations

from dataclasses import replace

from pyro.infer import SVI
from torch import Tensor

from irtbench.estimation.driver import maximise, own_parameters
from irtbench.estimation.estimate import Estimate
from irtbench.estimation.marginal.delta_guide import delta_guide
from irtbench.estimation.marginal.fisher_scoring import DeltaELBO, FisherScoring
from irtbench.estimation.marginal.nodes import with_right_nodes
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.marginal.start import starting_values
from irtbench.estimation.status import Stop
from irtbench.models.pyro_model.item_tensors import ItemTensors

MOST_PLACINGS = 5  # of nodes


def find_mode(
    problem: Problem,
    *,
    start: ItemTensors | None = None,
    tolerance: float = 1e-5,
    max_steps: int = 500,
    covariance: Tensor | None = None,
) -> Estimate:
    """Maximise the log-posterior (the marginal likelihood, if no prior is set) over the item parameters.

    Parameters
    ----------
    problem
        Responses, population and prior.
    start
        Items to start from; None for `starting_values`.
    tolerance, max_steps, covariance
        See `FisherScoring`.
    """
    guide = delta_guide(problem.prior.values_of(starting_values(problem) if start is None else start))
    loss = DeltaELBO(problem)
    optimiser = FisherScoring(loss, tolerance=tolerance, max_steps=max_steps, covariance=covariance)
    svi = SVI(problem.model, guide, optimiser, loss)
    with own_parameters():
        status = maximise(svi, problem.rows, problem.nodes, stopped=optimiser.stopped)
    best = optimiser.best
    assert best is not None
    return Estimate(best.items, "mode", best.counts.log_likelihood, best.log_posterior, status, best.counts)


def find_mode_on_right_nodes(
    problem: Problem, start: ItemTensors, *, tolerance: float, max_steps: int, covariance: Tensor | None = None
) -> tuple[Problem, Estimate]:
    """The mode on nodes that are right for everybody, found once more where they turn out not to be."""
    steps = 0
    for _ in range(MOST_PLACINGS):
        mode = find_mode(problem, start=start, tolerance=tolerance, max_steps=max_steps, covariance=covariance)
        steps += mode.status.steps
        mode = replace(mode, status=replace(mode.status, steps=steps))
        if not mode.status.converged:
            return problem, mode
        assert mode.counts is not None
        better = with_right_nodes(problem, mode.items, mode.counts)
        if better is problem:
            return problem, mode
        problem, start = better, mode.items
    return problem, replace(mode, status=replace(mode.status, stop=Stop.NODES_NOT_RIGHT))
