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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO
from pyro.optim import PyroOptim
from torch import Tensor

from irtbench.estimation.driver import maximise, own_parameters
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
from irtbench.models.pyro_model.sites import inside
from irtbench.models.pyro_model.tensors import GUESSING, ItemTensors, NodeTensors
from irtbench.models.quadrature import normal_grid

FAR = 0.05  # standard errors from the mode that passes may be rough
FINEST_FLOAT32 = 1e-3  # standard errors; in float32 the gradient is hardly known better
SLOPE_BOUND = 30.0  # |a| beyond this means that the likelihood has no maximum in it
NEAREST_BOUND = 1e-3  # c closer to 1 than this, or to 0 where a prior keeps it off, has run away
SHORTENED = (1.0, 1 / 4, 1 / 16)  # parts of a step that are tried before another one is
SHARES = (*SHORTENED, *SHORTENED, *(0.5**k for k in range(27)))  # of the accelerated step, the other, and that uphill


class DeltaELBO(Trace_ELBO):
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
                density = inside(dist.Independent, site["fn"])
                if not isinstance(density, dist.Delta):
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
        self._climb: Climb | None = None

    @torch.no_grad()
    def __call__(self, params: Iterable[Tensor], *args: Any, **kwargs: Any) -> None:
        """Judge the step that led here, and take the next."""
        problem, here, climb = self.loss.problem, self.loss.current, self._climb
        assert problem is not None
        assert here is not None
        if self.status is None:
            posterior, taken = here.items.intercept.new_tensor([here.log_posterior]), True
            if climb is None:
                climb = self._climb = Climb.begin(problem, here.items, here.counts, posterior, self.covariance)
            else:
                taken = bool(climb.take(here.items, here.counts, posterior, rough=self._rough))
                self.steps += taken
            if taken:
                self.best, self._rough = here, self.loss.roughly and problem.rough is not problem
                self.status = self._judged(climb)
            elif int(climb.refused) == len(SHARES):
                self.status = self._ended(Stop.NO_ASCENT)
            if self.status is None:
                self.loss.move_to(climb.next_items())
                return
        assert self.best is not None
        self.loss.move_to(self.best.items)

    def _ended(self, stop: Stop, **numbers: Any) -> Status:
        assert self._climb is not None
        return Status(stop, self.steps, float(self._climb.size), float(self._climb.change), **numbers)

    def _judged(self, climb: Climb) -> Status | None:
        """How it ended, if here is the end: where a parameter has run away the likelihood has no finite maximum."""
        size, exact = float(climb.size), climb.problem.nodes.dtype == torch.float64
        self.loss.roughly = size > FAR
        small = self.tolerance if exact else max(self.tolerance, FINEST_FLOAT32)
        if not size < math.inf:
            return self._ended(Stop.NOT_FINITE)
        for name, where in zip(("steep", "guessing_at_bound"), climb.run_away, strict=False):
            if bool(where.any()):
                return self._ended(Stop.AT_BOUND, **{name: tuple(torch.nonzero(where)[:, 0].tolist())})
        if not self._rough and size < small and float(climb.change) < 100 * self.tolerance:
            return self._ended(Stop.CONVERGED, tolerance=small)
        return self._ended(Stop.STEP_LIMIT, tolerance=small) if self.steps == self.max_steps else None


@dataclass
class Climb:
    """Where one scale, or each of several side by side, is on its way to its mode.

    Every scale climbs as it would alone: its step is accelerated by its own memory, and taken back where it lowers its
    own log-posterior.

    Parameters
    ----------
    problem
        The scales.
    items, counts, log_posterior
        The best so far, the log-posterior of each scale, shape (n_scales,).
    which
        Their positions among all that began together, shape (n_scales,).
    memory
        Of past steps.
    change
        Largest change of a parameter in the last step, shape (n_scales,).
    refused
        Number of steps that were taken back since the last one that was not, shape (n_scales,).
    covariance
        See `FisherScoring`.
    step
        The last that was tried.
    """

    problem: Problem
    items: ItemTensors
    counts: Counts
    log_posterior: Tensor
    which: Tensor
    memory: StepMemory
    change: Tensor
    refused: Tensor
    covariance: Tensor | None = None
    step: Tensor = field(init=False)

    @classmethod
    def begin(
        cls,
        problem: Problem,
        items: ItemTensors,
        counts: Counts,
        log_posterior: Tensor,
        covariance: Tensor | None = None,
        memory: StepMemory | None = None,
    ) -> Self:
        """At these items, with the memory of past steps."""
        far, memory = torch.full_like(log_posterior, math.inf), memory or StepMemory(problem.n_scales)
        which, refused = torch.arange(len(far), device=far.device), torch.zeros_like(far, dtype=torch.int64)
        return cls(problem, items, counts, log_posterior, which, memory, far, refused, covariance)

    @cached_property
    def derivatives(self) -> ItemDerivatives:
        """Of the log-posterior."""
        return item_derivatives(self.problem, self.items, self.counts)

    @cached_property
    def uphill(self) -> Tensor:
        """The items' own steps."""
        return scoring_step(self.problem, self.derivatives)

    @cached_property
    def size(self) -> Tensor:
        """How far each scale is from its maximum, see `distances`."""
        return distances(self.problem, self.derivatives, self.uphill)

    @property
    def run_away(self) -> tuple[Tensor, ...]:
        """Items with a slope, and with a c where any has one, that has run away, shape (n_items,) each."""
        problem, c = self.problem, self.items.guessing
        steep = (problem.slopes(self.items).abs() > SLOPE_BOUND).any(dim=1)
        if not problem.guesses:
            return (steep,)
        # without a prior c = 0 is a maximum like any other
        lowest = 0.0 if problem.prior.guessing_is_flat else NEAREST_BOUND
        return steep, problem.guessing_free & ((c > 1 - NEAREST_BOUND) | (c < lowest))

    @cached_property
    def directions(self) -> tuple[Tensor, Tensor]:
        """The accelerated step, and the one without memory, shape (n_items, width) each."""
        problem, derivatives, items = self.problem, self.derivatives, self.items
        if self.covariance is not None:
            own = step = torch.einsum("jakb,kb->ja", self.covariance, derivatives.gradient)
        else:
            own = problem.without_fixed_directions(with_second_step(problem, self.counts, derivatives, self.uphill))
            step = problem.without_fixed_directions(with_missing_information(problem, derivatives, own))
        self.memory.add(items.matrix, derivatives.gradient, step)
        accelerated = problem.without_fixed_directions(self.memory.accelerated()).clone()
        # an item whose own step leads onto c = 0 goes there
        onto_bound = items.guessing + own[:, GUESSING] == 0
        accelerated[:, GUESSING] = torch.where(onto_bound, own[:, GUESSING], accelerated[:, GUESSING])
        return accelerated, step

    def next_items(self) -> ItemTensors:
        """Where the next step of each scale leads: the most promising one that was not taken back, see `SHARES`.

        Directions are shortened before they are given up: where several items are very steep they point the right way,
        but lead too far, and the items' own steps uphill take hundreds. Those that lead down are given up at once.
        """
        (step, plain), gradient, tries = self.directions, self.derivatives.gradient, len(SHORTENED)
        of_scales = self.problem.n_scales, -1
        ascends = (step * gradient).view(of_scales).sum(dim=1) > 0
        if bool((self.refused > 0).any()) or not bool(ascends.all()):
            self.refused = torch.where(ascends, self.refused, self.refused.clamp(min=tries))
            downwards = ((plain * gradient).view(of_scales).sum(dim=1) <= 0) & (self.refused >= tries)
            self.refused = torch.where(downwards, self.refused.clamp(min=2 * tries), self.refused)
            self.memory.forget((self.refused >= tries).cpu())
            each = torch.stack([step, plain, self.problem.without_fixed_directions(self.uphill)])
            chosen = (self.refused // tries).clamp(max=2), torch.arange(len(ascends), device=each.device)
            shares = self.log_posterior.new_tensor(SHARES)[self.refused]
            step = (shares[:, None] * each.view(3, *of_scales)[chosen]).view(step.shape)
        self.step = within_bounds(self.problem, self.items, step)
        return moved(self.items, self.step)

    def take(self, items: ItemTensors, counts: Counts, log_posterior: Tensor, *, rough: bool = False) -> Tensor:
        """Accept these items on scales whose log-posterior does not fall, but for rounding; which scales these are."""
        rounding = 1e-12 if self.problem.nodes.dtype == torch.float64 and not rough else 1e-7
        taken = log_posterior >= self.log_posterior - rounding * self.log_posterior.abs()
        lengths = self.step.abs().view(len(taken), -1).amax(dim=1)
        self.change, self.refused = torch.where(taken, lengths, self.change), torch.where(taken, 0, self.refused + 1)
        if bool(taken.any()):
            self.move(taken, items, counts, log_posterior)
            for name in ("derivatives", "uphill", "size", "directions"):
                self.__dict__.pop(name, None)
        return taken

    def move(self, taken: Tensor, items: ItemTensors, counts: Counts, log_posterior: Tensor) -> None:
        """Go on to these items; of several scales, those that take the step."""
        self.items, self.counts, self.log_posterior = items, counts, log_posterior


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
    start = problem.starting_values() if start is None else start
    if problem.prior.shared is not None:
        start = ItemTensors.from_matrix(problem.prior.shared.onto(start.matrix))
    guide = delta_guide(problem.prior.values_of(start))
    loss = DeltaELBO(problem)
    optimiser = FisherScoring(loss, tolerance=tolerance, max_steps=max_steps, covariance=covariance)
    svi = SVI(problem.model, guide, optimiser, loss)
    with own_parameters():
        status = maximise(svi, problem.rows, problem.nodes, stopped=lambda step, loss: optimiser.status)
    best = optimiser.best
    assert best is not None
    return Estimate(best.items, "mode", best.counts.log_likelihood, best.log_posterior, status, best.counts)


def find_mode_on_right_nodes(
    problem: Problem,
    start: ItemTensors,
    *,
    tolerance: float,
    max_steps: int,
    find: Callable[..., Estimate] = find_mode,
) -> tuple[Problem, Estimate]:
    """The mode by `find` on nodes that are right for everybody, found once more where they turn out not to be."""
    steps, placed = 0, problem
    for _ in range(MOST_PLACINGS):
        problem = placed
        mode = find(problem, start=start, tolerance=tolerance, max_steps=max_steps)
        steps += mode.status.steps
        mode = replace(mode, status=replace(mode.status, steps=steps))
        if not mode.status.converged:
            return problem, mode
        placed, start = with_right_nodes(problem, mode.items, mode.counts), mode.items
        if placed is problem:
            return problem, mode
    return problem, replace(mode, status=replace(mode.status, stop=Stop.NODES_NOT_RIGHT))


SAMPLE, LEAST_STRIDE = 2_000, 4  # respondents from whom the start is estimated, and how many more there must be
FEWEST_FOR_CURVATURE = 200_000  # respondents from whom on a sample shows the curvature
SHARE_FOR_CURVATURE, MOST_FOR_CURVATURE = 20, 200_000  # one of so many, and no more of them
SHARE_OF_INCOMPLETE = 100  # with missing responses the curvature costs as much as many passes


def rough_start(problem: Problem) -> tuple[ItemTensors, Tensor | None]:
    """Starting values where a few steps on a smaller problem lead, which cost next to nothing.

    Items near the mode, and its covariance, nearly, by (slope, intercept, c) of all items, shape (n_items, 3, n_items,
    3); None if that is not known.

    With many respondents the smaller problem has some of them, and with very many so many that they show the
    curvature too; with guessing, whose steps take longer and are more, it has every second node and single precision.
    """
    stride, smaller = problem.rows.n_respondents // SAMPLE, problem
    if isinstance(problem.rows, SparseRows):
        return problem.starting_values(), None
    if stride >= LEAST_STRIDE:
        smaller = replace(problem, rows=problem.rows.every(stride))
    elif problem.guesses:
        coarse = normal_grid(len(problem.nodes.theta) // 2 + 1)
        nodes = NodeTensors.from_quadrature(coarse, dtype=torch.float32, device=problem.rows.device)
        smaller = replace(problem, nodes=nodes)
    items = None if smaller is problem else items_of(smaller)
    return (problem.starting_values(), None) if items is None else with_curvature(problem, items)


def items_of(smaller: Problem, start: ItemTensors | None = None) -> ItemTensors | None:
    """Roughly the mode; None where it is not found."""
    mode = find_mode(smaller, start=start, tolerance=0.1, max_steps=20)
    return mode.items if mode.status.converged else None


def with_curvature(problem: Problem, items: ItemTensors) -> tuple[ItemTensors, Tensor | None]:
    """The mode and the covariance of a larger sample, where respondents are so many that it is worth while.

    Not with guessing, whose logit the covariance is of, nor where the model draws one slope.
    """
    rows, n = problem.rows, problem.rows.n_respondents
    n_sample = min(n // (SHARE_FOR_CURVATURE if rows.complete else SHARE_OF_INCOMPLETE), MOST_FOR_CURVATURE)
    simple = not problem.guesses and problem.n_factors == 1 and not problem.prior.one_slope
    if isinstance(rows, SparseRows) or n < FEWEST_FOR_CURVATURE or not simple or len(items) > MOST_COUPLED_ITEMS:
        return items, None
    sample = replace(problem, rows=rows.every(n // n_sample))
    nearer = items_of(sample, items)
    if nearer is None:
        return items, None
    covariance, loose = joint_parameter_covariance(sample, nearer)
    return nearer, covariance * len(sample.rows) / n if not bool(loose.any()) else None
