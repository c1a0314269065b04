"""The mode of the items: accelerated Fisher scoring as an optimiser for Pyro's SVI with a Delta guide.

At the expected counts of the current items each takes a step or two of Fisher scoring (`m_step`), lengthened by the
missing information; the memory of past steps (`acceleration`) accounts for the rest. For a Delta guide this is the
natural-gradient form of SVI; with the first part alone it would be EM (Bock & Aitkin, 1981).

    loss = DeltaELBO()
    svi = SVI(model, guide, FisherScoring(loss), loss)

Every call of `svi.step` is one E step and one M step. A step that lowers the log-posterior is taken back, and the next
best is tried.

A pass over all respondents costs as many times one over a sample as they are more. At the mode of a twentieth of them
the items are off by some standard errors of the whole, and the sample's observed information, so many times as large,
is that of the whole to a few hundredths: with Newton steps by it, improved by the memory of steps, four or five passes
over all are enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.infer import SVI
from pyro.optim import PyroOptim
from torch import Tensor

from irtbench.estimation.driver import TracedELBO, maximise, own_parameters
from irtbench.estimation.marginal.acceleration import StepMemory
from irtbench.estimation.marginal.e_step import Counts
from irtbench.estimation.marginal.m_step import (
    ItemDerivatives,
    distances,
    item_derivatives,
    moved,
    scoring_step,
    with_missing_information,
    with_second_step,
    within_bounds,
)
from irtbench.estimation.marginal.nodes import with_right_nodes
from irtbench.estimation.marginal.observed_information import MOST_COUPLED_ITEMS, joint_parameter_covariance
from irtbench.estimation.marginal.problem import Estimate, Evaluation, Problem
from irtbench.estimation.status import Status, Stop
from irtbench.models.pyro_model.rows import SparseRows
from irtbench.models.pyro_model.sites import without_independent
from irtbench.models.pyro_model.tensors import GUESSING, ItemTensors, NodeTensors
from irtbench.models.quadrature import normal_grid

FAR = 0.05  # standard errors from the mode that passes may be rough
FINEST_FLOAT32 = 1e-3  # standard errors; in float32 the gradient is hardly known better
SLOPE_BOUND = 30.0  # |a| beyond this means that the likelihood has no maximum in it
NEAREST_BOUND = 1e-3  # c closer to 1 than this, or to 0 where a prior keeps it off, has run away
SHORTENED = (1.0, 1 / 4, 1 / 16)  # parts of a step that are tried before another one is
SHORTEST_STEP = 1e-8


class DeltaELBO(TracedELBO):
    """Pyro's ELBO of a Delta guide over the items: the log-posterior, by one E step.

    Model and guide are traced at the first step; after that only the guide's parameters change, and the densities of
    the model's sites are evaluated at them.

    Parameters
    ----------
    problem
        The model traced already; None to trace the model that the loss is called with.

    Attributes
    ----------
    current
        The log-posterior and the expected counts where the loss was last computed; None before.
    roughly
        Whether they may be rough, the mode being far, see `Problem.rough`.
    """

    def __init__(self, problem: Problem | None = None) -> None:
        super().__init__()
        self.problem = problem
        self.current: Evaluation | None = None
        self.roughly = True
        self._sites: dict[str, Tensor] = {}
        self._names: tuple[str, ...] = ()
        self._items: ItemTensors | None = None

    def loss(self, model: Callable[..., Any], guide: Callable[..., Any], *args: Any, **kwargs: Any) -> float:
        """Minus the log-posterior at the guide's parameters."""
        if self.problem is None:
            self.problem = Problem.of(model, *args, **kwargs)
        if not self._sites:
            self._trace_guide(guide, args, kwargs)
        for name in self._names:
            pyro.param(name)
        with torch.no_grad():
            # copies, for steps overwrite the guide's parameters and the best items must stay as they were
            items = self._items or self.problem.prior.items_of({name: at.clone() for name, at in self._sites.items()})
            self.current = (self.problem.rough if self.roughly else self.problem).evaluate(items)
        return -self.current.log_posterior

    def loss_and_grads(self, model: Callable[..., Any], guide: Callable[..., Any], *args: Any, **kwargs: Any) -> float:
        """The same; the gradient is made of the counts in `current`, and no parameter has one of its own."""
        return self.loss(model, guide, *args, **kwargs)

    @torch.no_grad()
    def move_to(self, items: ItemTensors) -> None:
        """Set the guide's parameters to these items."""
        assert self.problem is not None
        self._items = items
        for name, value in self.problem.prior.values_of(items).items():
            self._sites[name].copy_(value)

    def _trace_guide(self, guide: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        trace = poutine.trace(guide).get_trace(*args, **kwargs)
        self._names = tuple(name for name, site in trace.nodes.items() if site["type"] == "param")
        for name, site in trace.nodes.items():
            if site["type"] == "sample":
                density = without_independent(site["fn"])
                if not isinstance(density, pyro.distributions.Delta):
                    raise NotImplementedError(f"site {name}: Fisher scoring needs a Delta guide over the items")
                self._sites[name] = density.v


class FisherScoring(PyroOptim):
    """Steps to the mode of the items; `status` says when it is reached, or why it is not.

    Parameters
    ----------
    loss
        The loss of the same SVI, whose expected counts the steps are made of.
    tolerance
        Converged when no item is further from its maximum than this many of its own standard errors (in float32: .001
        of them, if that is more) and the last step moved no parameter by more than a hundred times it.
    max_steps
        Stop unconverged after this many.
    covariance
        Of the mode, nearly, by (slopes, intercept, c) of all items, shape (n_items, width, n_items, width): the steps
        are this times the gradient, in place of those at expected counts. None if it is not known.
    """

    def __init__(
        self,
        loss: DeltaELBO,
        *,
        tolerance: float = 1e-5,
        max_steps: int = 500,
        covariance: Tensor | None = None,
    ) -> None:
        super().__init__(torch.optim.SGD, {"lr": 1.0})  # Pyro asks for one; the steps below are not taken by it
        self.loss, self.tolerance, self.max_steps = loss, tolerance, max_steps
        self.covariance = covariance
        self.status: Status | None = None
        self.best: Evaluation | None = None
        self.steps = 0
        self._rough = False
        self._change = math.inf
        self._memory = StepMemory()
        self._tries: Iterator[Tensor] = iter(())
        self._step: Tensor | None = None

    @torch.no_grad()
    def __call__(self, params: Iterable[Tensor], *args: Any, **kwargs: Any) -> None:
        """Judge the step that led here, and take the next."""
        problem, here = self.loss.problem, self.loss.current
        assert problem is not None
        assert here is not None
        if self.best is None or here.log_posterior >= self.best.log_posterior - self._rounding(problem):
            if self._step is not None:
                self.steps += 1
                self._change = float(self._step.abs().max())
            self.best, self._rough = here, self.loss.roughly and problem.rough is not problem
            self._tries = self._from_here(problem, here)
        self._step = next(self._tries, None)
        if self._step is not None:
            self.loss.move_to(moved(self.best.items, self._step))
            return
        if self.status is None:
            self.status = self._ended(Stop.NO_ASCENT)
        self.loss.move_to(self.best.items)

    def stopped(self, step: int, loss: float) -> Status | None:
        """The rule for `driver.maximise`."""
        return self.status

    def _rounding(self, problem: Problem) -> float:
        """A step that lowers the log-posterior by no more than rounding is taken."""
        assert self.best is not None
        exact = problem.nodes.dtype == torch.float64 and not self._rough
        return (1e-12 if exact else 1e-7) * abs(self.best.log_posterior)

    def _ended(self, stop: Stop, **numbers: Any) -> Status:
        return Status(stop, self.steps, self._size, self._change, **numbers)

    def _from_here(self, problem: Problem, here: Evaluation) -> Iterator[Tensor]:
        """Judge where we are; unless this is the end, the steps to try from here."""
        derivatives = item_derivatives(problem, here.items, here.counts)
        uphill = scoring_step(problem, derivatives)
        self._size = float(distances(problem, derivatives, uphill))
        self.loss.roughly = self._size > FAR
        small = self.tolerance if problem.nodes.dtype == torch.float64 else max(self.tolerance, FINEST_FLOAT32)
        if not self._size < math.inf:
            self.status = self._ended(Stop.NOT_FINITE)
        elif (status := self._at_bound(problem, here.items)) is not None:
            self.status = status
        elif not self._rough and self._size < small and self._change < 100 * self.tolerance:
            self.status = self._ended(Stop.CONVERGED, tolerance=small)
        elif self.steps == self.max_steps:
            self.status = self._ended(Stop.STEP_LIMIT, tolerance=small)
        else:
            return steps_to_try(problem, here.counts, derivatives, uphill, self._memory, covariance=self.covariance)
        return iter(())

    def _at_bound(self, problem: Problem, items: ItemTensors) -> Status | None:
        """Whether a parameter has run away: then the likelihood has no maximum among finite values."""
        steep = (problem.slopes(items).abs() > SLOPE_BOUND).any(dim=1)
        if bool(steep.any()):
            return self._ended(Stop.AT_BOUND, steep=tuple(torch.nonzero(steep)[:, 0].tolist()))
        if not problem.guesses:
            return None
        outside = items.guessing > 1 - NEAREST_BOUND
        if not problem.prior.guessing_is_flat:  # without a prior c = 0 is a maximum like any other
            outside |= items.guessing < NEAREST_BOUND
        places = tuple(torch.nonzero(problem.guessing_free & outside)[:, 0].tolist())
        return self._ended(Stop.AT_BOUND, guessing_at_bound=places) if places else None


def steps_to_try(
    problem: Problem,
    counts: Counts,
    derivatives: ItemDerivatives,
    uphill: Tensor,
    memory: StepMemory,
    *,
    covariance: Tensor | None = None,
) -> Iterator[Tensor]:
    """Steps, the most promising first: the accelerated one, the one without memory, then shorter and shorter uphill.

    The first two are shortened before they are given up: where several items are very steep they point the right way,
    but lead too far, and the items' own steps uphill take hundreds.
    """
    items, gradient = derivatives.items, derivatives.gradient
    if covariance is not None:
        own = step = torch.einsum("jakb,kb->ja", covariance, gradient)
    else:
        own = problem.without_fixed_directions(with_second_step(problem, counts, derivatives, uphill))
        step = problem.without_fixed_directions(with_missing_information(problem, derivatives, own))
    memory.add(items.matrix, gradient, step)
    accelerated = problem.without_fixed_directions(memory.accelerated()).clone()
    # an item whose own step leads onto c = 0 goes there
    onto_bound = items.guessing + own[:, GUESSING] == 0
    accelerated[:, GUESSING] = torch.where(onto_bound, own[:, GUESSING], accelerated[:, GUESSING])
    if float((accelerated * gradient).sum()) > 0:
        for share in SHORTENED:
            yield within_bounds(problem, items, share * accelerated)
    memory.forget()
    for share in SHORTENED if float((step * gradient).sum()) > 0 else (1.0,):
        yield within_bounds(problem, items, share * step)
    uphill = problem.without_fixed_directions(uphill)
    scale = 1.0
    while scale > SHORTEST_STEP:
        yield scale * uphill
        scale /= 2


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
