"""The mode of the item parameters: Pyro's SVI with a Delta guide and Fisher scoring.

A pass over all respondents costs as many times one over a sample as they are more. At the mode of a twentieth of them
the items are off by some standard errors of the whole, and the sample's observed information, so many times as large,
is that of the whole to a few hundredths: with Newton steps by it, improved by the memory of steps, four or five passes
over all are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI
from torch import Tensor

from irtbench.estimation.driver import maximise, own_parameters
from irtbench.estimation.marginal.fisher_scoring import DeltaELBO, FisherScoring
from irtbench.estimation.marginal.nodes import with_right_nodes
from irtbench.estimation.marginal.observed_information import MOST_COUPLED_ITEMS, joint_parameter_covariance
from irtbench.estimation.marginal.problem import Estimate, Problem
from irtbench.estimation.status import Stop
from irtbench.models.pyro_model.rows import SparseRows
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors
from irtbench.models.quadrature import normal_grid


def delta_guide(start: Mapping[str, Tensor]) -> Callable[..., None]:
    """A guide with a parameter for each site, named after it.

    What Pyro's AutoDelta makes of a model, without running it: that would cost as much as a small fit.

    Parameters
    ----------
    start
        Values of the model's sites to start from.
    """

    def guide(*args: Any, **kwargs: Any) -> None:
        for name, value in start.items():
            point = pyro.param(f"{name}_point", value.clone)
            pyro.sample(name, dist.Delta(point, event_dim=point.dim()))

    return guide


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
    guide = delta_guide(problem.prior.values_of(problem.starting_values() if start is None else start))
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
    steps, placed = 0, problem
    for _ in range(MOST_PLACINGS):
        problem = placed
        mode = find_mode(problem, start=start, tolerance=tolerance, max_steps=max_steps, covariance=covariance)
        steps += mode.status.steps
        mode = replace(mode, status=replace(mode.status, steps=steps))
        if not mode.status.converged:
            return problem, mode
        assert mode.counts is not None
        placed, start = with_right_nodes(problem, mode.items, mode.counts), mode.items
        if placed is problem:
            return problem, mode
    return problem, replace(mode, status=replace(mode.status, stop=Stop.NODES_NOT_RIGHT))


SAMPLE, LEAST_STRIDE = 2_000, 4  # respondents from whom the start is estimated, and how many more there must be
FEWEST_FOR_CURVATURE = 200_000  # respondents from whom on a sample shows the curvature
SHARE_FOR_CURVATURE, MOST_FOR_CURVATURE = 20, 200_000  # one of so many, and no more of them
SHARE_OF_INCOMPLETE = 100  # with missing responses the curvature costs as much as many passes


@dataclass(frozen=True)
class RoughStart:
    """Items to start from.

    Parameters
    ----------
    items
        Near the mode.
    covariance
        Of the mode, nearly, by (slope, intercept, c) of all items, shape (n_items, 3, n_items, 3); None if not known.
    """

    items: ItemTensors
    covariance: Tensor | None = None


def rough_start(problem: Problem) -> RoughStart:
    """Starting values where a few steps on a smaller problem lead, which cost next to nothing.

    With many respondents the smaller problem has some of them, and with very many so many that they show the
    curvature too; with guessing, whose steps take longer and are more, it has every second node and single precision.
    """
    stride = problem.rows.n_respondents // SAMPLE
    if isinstance(problem.rows, SparseRows):
        return RoughStart(problem.starting_values())
    if stride >= LEAST_STRIDE:
        items = items_of(replace(problem, rows=problem.rows.every(stride)))
        return RoughStart(problem.starting_values()) if items is None else with_curvature(problem, items)
    if problem.guesses:
        coarse = normal_grid(len(problem.nodes.theta) // 2 + 1)
        nodes = NodeTensors.from_quadrature(coarse, dtype=torch.float32, device=problem.rows.device)
        items = items_of(replace(problem, nodes=nodes))
        return RoughStart(problem.starting_values() if items is None else items)
    return RoughStart(problem.starting_values())


def items_of(smaller: Problem, start: ItemTensors | None = None) -> ItemTensors | None:
    """Roughly the mode; None where it is not found."""
    mode = find_mode(smaller, start=start, tolerance=0.1, max_steps=20)
    return mode.items if mode.status.converged else None


def with_curvature(problem: Problem, items: ItemTensors) -> RoughStart:
    """The mode and the covariance of a larger sample, where respondents are so many that it is worth while.

    Not with guessing, whose logit the covariance is of, nor where items share parameters.
    """
    rows, n = problem.rows, problem.rows.n_respondents
    n_sample = min(n // (SHARE_FOR_CURVATURE if rows.complete else SHARE_OF_INCOMPLETE), MOST_FOR_CURVATURE)
    simple = not problem.guesses and problem.n_factors == 1 and problem.prior.shared is None
    if isinstance(rows, SparseRows) or n < FEWEST_FOR_CURVATURE or not simple or len(items) > MOST_COUPLED_ITEMS:
        return RoughStart(items)
    sample = replace(problem, rows=rows.every(n // n_sample))
    nearer = items_of(sample, items)
    if nearer is None:
        return RoughStart(items)
    covariance, loose = joint_parameter_covariance(sample, nearer)
    return RoughStart(nearer, covariance * len(sample.rows) / n if not bool(loose.any()) else None)
