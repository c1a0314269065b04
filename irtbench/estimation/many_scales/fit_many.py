"""Fit many scales at once: every task of a benchmark, every sample of a bootstrap."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import InputError
from irtbench.data.responses import ResponseMatrix, name_first, numbered
from irtbench.estimation.doubts import find_doubts
from irtbench.estimation.estimate import Estimate
from irtbench.estimation.fit import (
    check_estimable,
    choose_device,
    fit_model,
    joint_error,
    likelihood_intervals,
    more_than_patterns_tell,
    problem_of,
)
from irtbench.estimation.fitted import FittedModel
from irtbench.estimation.many_scales.fitted_scales import FittedScales
from irtbench.estimation.many_scales.stack import Stack, groups_of
from irtbench.estimation.many_scales.stack_information import StackCovariances, stack_covariances
from irtbench.estimation.many_scales.stack_mode import (
    StackModes,
    find_modes,
    is_clearly_ability,
    nodes_are_right,
    rises_with_correct,
)
from irtbench.estimation.many_scales.stack_problem import StackProblem
from irtbench.estimation.marginal.e_step import Counts
from irtbench.estimation.marginal.nodes import (
    ROOM,
    describe_nodes,
    is_usual_grid,
    with_adapted_nodes,
    with_right_nodes,
)
from irtbench.estimation.marginal.observed_information import MOST_COUPLED_ITEMS
from irtbench.estimation.marginal.shared_scale import NormalMoments
from irtbench.estimation.settings import FitSettings, fit_settings
from irtbench.estimation.status import Status, Stop
from irtbench.estimation.threads import one_thread
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.priors import Priors
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.quadrature import Quadrature, normal_grid, rescaled

logger = logging.getLogger(__name__)

MOST_CELLS = 2**21  # respondents x (nodes or items) of a scale; with more a fit is mostly arithmetic, alone or not
FEWEST_TOGETHER = 3


def fit_many(
    scales: Mapping[str, ResponsesLike] | Sequence[ResponsesLike],
    settings: FitSettings | None = None,
    *,
    start: ItemParameters | None = None,
    seed: int = 0,
    **keywords: Any,
) -> FittedScales:
    """Estimate the parameters of the items of many scales, each with respondents of its own.

    Every scale has the estimates that `fit_model` gives it, up to the tolerance of both, and has converged by the same
    criterion. Scales of up to some 30,000 respondents take their steps together, which is several times quicker where
    they are small. Fitted one by one, by `fit_model` itself, are those with guessing estimated without a prior, or of
    items with one slope, with a prior learnt from the items, or of single items, an estimated population, or a
    posterior; with trials or very steep or many items (which need nodes of their own), and those that do not converge
    with the others: so their status is that of a single fit.

    Parameters
    ----------
    scales
        Graded responses to each scale (`as_responses`), by name or in order (then named ``scale1 ...``). Their sizes
        may differ, and responses be missing.
    settings
        Model, prior and numerics, as for `fit_model`.
    start
        Parameters from which all start, where all have the same items, as samples of a bootstrap do.
    seed
        As for `fit_model`.
    keywords
        Of the settings, see `fit_model`.

    Raises
    ------
    InputError
        If a scale is no matrix of responses, or ``start`` is of other items. Responses that do not determine a model
        (an item that everybody got right) are no error here: the scale has none, and the result says why.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> tasks = {name: irtbench.simulate_responses(rng.normal(size=300), items, rng=rng) for name in ("sums", "words")}
    >>> tasks["easy"] = np.ones((300, 6))
    >>> fitted = irtbench.fit_many(tasks, standard_errors=False)
    >>> fitted
    <FittedScales: 3 scales, 2 converged, 1 not fitted>
    >>> fitted["sums"]
    <FittedModel: 6 items (2pl), 300 respondents, log-likelihood -930.74, converged>
    >>> fitted.table()[["scale", "n_items", "converged"]]
       scale  n_items  converged
    0   sums        6       True
    1  words        6       True
    2   easy     <NA>      False
    """
    began = time.perf_counter()
    settings = fit_settings(settings, keywords)
    names = tuple(scales) if isinstance(scales, Mapping) else numbered("scale", len(scales))
    given = [as_responses(one, name=f"scale {name}") for name, one in _named(scales, names)]
    if start is not None and any(one.item_ids != start.item_ids for one in given):
        other = [name for name, one in zip(names, given, strict=True) if one.item_ids != start.item_ids]
        raise InputError(f"fit: start is of other items than scale {name_first(other)}; expected the same in all")
    fits: list[FittedModel | None] = [None] * len(given)
    reasons = [_not_estimable(one, settings) for one in given]
    left = [k for k, reason in enumerate(reasons) if not reason]
    grid = normal_grid(settings.n_nodes)
    if takes_steps_together(settings, grid):
        small = [k for k in left if is_small(given[k], settings)]
        groups = groups_of([given[k] for k in small], settings.n_nodes, choose_device(settings.device))
        groups = [[small[k] for k in group] for group in groups if len(group) >= FEWEST_TOGETHER]
        for group, found in zip(groups, fit_groups(given, groups, settings, start, seed), strict=True):
            for k, fitted in zip(group, found, strict=True):
                fits[k] = fitted
    alone = [k for k in left if fits[k] is None]
    for k in alone:
        fits[k] = fit_model(given[k], settings, seed=seed, start=start)
    logger.info("fit: %d scales, %d of them alone", len(given), len(alone))
    return FittedScales(names, tuple(fits), tuple(reasons), time.perf_counter() - began)


def _named(
    scales: Mapping[str, ResponsesLike] | Sequence[ResponsesLike], names: tuple[str, ...]
) -> list[tuple[str, ResponsesLike]]:
    return list(scales.items()) if isinstance(scales, Mapping) else list(zip(names, scales, strict=True))


def _not_estimable(responses: ResponseMatrix, settings: FitSettings) -> str:
    """Why these responses do not determine the parameters; empty where they do."""
    try:
        check_estimable(responses, settings.priors)
    except InputError as error:
        return str(error)
    return ""


def takes_steps_together(settings: FitSettings, grid: Quadrature) -> bool:
    """Whether these settings are those of a model on the usual grid, with priors that are each item's own.

    Guessing has a prior where it is estimated, and does not go with one slope for all items.
    """
    nodes = NodeTensors.from_quadrature(grid, dtype=torch.float64, device=torch.device("cpu"))
    if settings.has_common_slope and (settings.by_item or settings.guessing > 0):
        return False
    plain = not settings.prior_items and not (settings.estimates_guessing and settings.priors.guessing is None)
    usual = settings.population == "normal" and settings.optimiser == "fisher_scoring" and settings.posterior is None
    return (
        plain and usual and settings.priors.hierarchy is None and settings.dtype == "float64" and is_usual_grid(nodes)
    )


def is_small(responses: ResponseMatrix, settings: FitSettings) -> bool:
    """Whether a scale is one that gains by being fitted with others."""
    n_cells = responses.n_respondents * max(responses.n_items, settings.n_nodes)
    # with a prior and more items than respondents abilities are estimated too
    few_items = responses.n_items <= min(responses.n_respondents, MOST_COUPLED_ITEMS)
    return responses.trials is None and n_cells <= MOST_CELLS and few_items


def fit_groups(
    scales: Sequence[ResponseMatrix],
    groups: list[list[int]],
    settings: FitSettings,
    start: ItemParameters | None,
    seed: int,
) -> list[list[FittedModel | None]]:
    """Fit each group of scales, in as many threads as torch has: a thread has groups of its own."""

    def alone(group: list[int]) -> list[FittedModel | None]:
        torch.set_num_threads(1)  # of this thread
        return fit_group([scales[k] for k in group], settings, start, seed)

    n_threads = min(torch.get_num_threads(), len(groups))
    with one_thread():
        if n_threads < 2 or choose_device(settings.device).type != "cpu":
            return [fit_group([scales[k] for k in group], settings, start, seed) for group in groups]
        with ThreadPoolExecutor(n_threads) as pool:
            return list(pool.map(alone, groups))


def fit_group(
    scales: Sequence[ResponseMatrix], settings: FitSettings, start: ItemParameters | None, seed: int
) -> list[FittedModel | None]:
    """Fit scales that take their steps together; None for those that are to be fitted alone."""
    began = time.perf_counter()
    grid, device = normal_grid(settings.n_nodes), choose_device(settings.device)
    nodes = NodeTensors.from_quadrature(grid, dtype=torch.float64, device=device)
    with torch.no_grad():
        stack = Stack.of(scales, device)
        problem = StackProblem.of_stack(stack, nodes, settings, guessing_of(scales, settings, stack))
        first = problem.start() if start is None else started(problem, start)
        modes = find_modes(problem, first, tolerance=settings.tolerance, max_steps=settings.max_steps)
        found = modes.converged & rises_with_correct(problem, modes.items)
        if settings.priors.is_flat and not settings.has_common_slope:
            n_free = problem.by_scale(problem.free).flatten(1).sum(dim=1)
            found &= ~more_than_patterns_tell(n_free, stack.items.sum(dim=1))
        covariance = None
        if settings.standard_errors:
            covariance = stack_covariances(problem, modes.items)
            found &= covariance.definite
        seconds = (time.perf_counter() - began) / len(scales)
        group = Group(scales, settings, seed, grid, problem, modes, covariance, seconds)
        return [group.fitted(k) if good else None for k, good in enumerate(found.tolist())]


def guessing_of(scales: Sequence[ResponseMatrix], settings: FitSettings, stack: Stack) -> tuple[Tensor, Tensor]:
    """Where guessing of the items is estimated, and what it is elsewhere, shape (n_scales, width) each."""
    free, fixed = torch.zeros_like(stack.items, dtype=torch.bool), torch.zeros_like(stack.items)
    for k, scale in enumerate(scales):
        own = settings.guessing_of(scale.item_ids)
        free[k, : scale.n_items], fixed[k, : scale.n_items] = (torch.from_numpy(part).to(free.device) for part in own)
    return free, fixed


def started(problem: StackProblem, start: ItemParameters) -> ItemTensors:
    """The same items for every scale."""
    a, d, c = (
        torch.tensor(part, dtype=torch.float64, device=problem.nodes.theta.device).repeat(problem.n_scales)
        for part in (start.discrimination, start.intercept, start.guessing)
    )
    c = torch.where(problem.guessing_free, c, problem.prior.fixed.guessing)
    return problem.allowed(ItemTensors(a[:, None], d, c))


@dataclass(frozen=True)
class Group:
    """Scales whose steps were taken together, and where these led.

    Parameters
    ----------
    scales, settings, seed, grid
        What was fitted, and how.
    problem, modes
        The fit.
    covariance
        Of all items of each scale; None if it is not wanted.
    seconds
        That a scale took.
    """

    scales: Sequence[ResponseMatrix]
    settings: FitSettings
    seed: int
    grid: Quadrature
    problem: StackProblem
    modes: StackModes
    covariance: StackCovariances | None
    seconds: float

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """Slopes, intercepts and guessing, shape (n_scales, width, 3)."""
        return self.problem.by_scale(self.modes.matrix).cpu().numpy()

    @cached_property
    def guessing_free(self) -> NDArray[np.bool_]:
        """Where guessing is estimated, shape (n_scales, width)."""
        return self.problem.by_scale(self.problem.guessing_free).cpu().numpy()

    @cached_property
    def statuses(self) -> list[Status]:
        """How the steps of those that converged ended."""
        steps, gradients, changes = (
            part.tolist() for part in (self.modes.steps, self.modes.gradient, self.modes.change)
        )
        return [
            Status(Stop.CONVERGED, n, gradient, change, tolerance=self.settings.tolerance)
            for n, gradient, change in zip(steps, gradients, changes, strict=True)
        ]

    @cached_property
    def log_likelihoods(self) -> list[float]:
        """Of each scale."""
        found: list[float] = self.modes.counts.log_likelihoods.tolist()
        return found

    @cached_property
    def common_slope_errors(self) -> list[float]:
        """Standard errors of the slope of all items; NaN where they are not wanted."""
        if self.covariance is None or self.covariance.common_slope is None:
            return [math.nan] * len(self.scales)
        found: list[float] = self.covariance.common_slope.sqrt().tolist()
        return found

    @cached_property
    def nodes_are_right(self) -> list[bool]:
        """Whether the bounds say so of the nodes."""
        found: list[bool] = nodes_are_right(self.problem, self.modes.items, self.modes.counts).tolist()
        return found

    @cached_property
    def is_clearly_ability(self) -> list[bool]:
        """Whether there is no doubt about what a scale measures."""
        found: list[bool] = is_clearly_ability(self.problem, self.modes.items, self.modes.counts).tolist()
        return found

    @cached_property
    def in_words(self) -> str:
        """The nodes, which all scales share."""
        return describe_nodes(self.problem.nodes)

    @cached_property
    def priors(self) -> Priors:
        """Those of the settings."""
        return self.settings.priors

    def estimate(self, k: int) -> Estimate:
        """What was found of one scale, as of a single fit."""
        counts, width = self.modes.counts, self.problem.stack.width
        own = slice(k * width, k * width + self.scales[k].n_items)
        found = self.log_likelihoods[k]
        r = None if counts.r is None else counts.r[own]
        its_counts = Counts(found, counts.n[own], counts.right[own], r, counts.respondents[k])
        items = ItemTensors.from_matrix(self.modes.matrix[own])
        return Estimate(items, "mode", found, found, self.statuses[k], its_counts)

    def doubts(self, k: int) -> tuple[str, ...] | None:
        """What speaks against taking theta for ability; None where the nodes are not right."""
        if self.nodes_are_right[k] and self.is_clearly_ability[k]:
            return ()
        found = self.estimate(k)
        problem = problem_of(self.scales[k], self.settings, self.grid)
        assert found.counts is not None
        if not self.nodes_are_right[k]:
            # with guessing a single fit places nodes at a rough mode already, and these are finer
            placed = with_adapted_nodes(problem, found.items, room=ROOM) if problem.guesses else problem
            if placed is not problem or with_right_nodes(problem, found.items, found.counts) is not problem:
                return None
        return find_doubts(problem, found, self.priors)

    def fitted(self, k: int) -> FittedModel | None:
        """The model of one scale; None where its nodes are not right."""
        responses, doubts = self.scales[k], self.doubts(k)
        if doubts is None:
            return None
        kind, n_items, joint, own = self.settings.kind, responses.n_items, None, None
        slope, intercept, guessing = self.matrix[k, :n_items].T
        if self.covariance is not None:
            joint = self.covariance.of_scale(k, n_items, guesses=self.problem.guesses).cpu().numpy()
        population, moments = self.grid, None
        if kind == "rasch":  # slopes are 1, and their common value by z is the standard deviation of theta
            moments = NormalMoments(0.0, float(slope[0]), 0.0, self.common_slope_errors[k])
            population, slope = rescaled(self.grid, 0.0, moments.sd), np.ones(n_items)
            if joint is not None:
                joint[:, 0] = joint[:, :, :, 0] = 0.0
        if joint is not None:
            own = joint[np.arange(n_items), :, np.arange(n_items), :]
        items = ItemParameters(
            responses.item_ids, slope, intercept, guessing, self.guessing_free[k, :n_items], covariance=own,
            kind=(kind,) * n_items if kind in ("rasch", "1pl") else None,
        )  # fmt: skip
        intervals = None
        if joint is not None and self.settings.estimates_guessing:
            problem = problem_of(responses, self.settings, self.grid)
            intervals = likelihood_intervals(problem, items, self.settings, joint)
        return FittedModel(
            items=items,
            quadrature=population,
            nodes=self.in_words,
            log_likelihood=self.log_likelihoods[k],
            priors=self.priors,
            n_respondents=responses.n_respondents,
            n_responses=responses.n_responses,
            kind="mode",
            status=self.statuses[k],
            doubts=doubts,
            seconds=self.seconds,
            seed=self.seed,
            n_by_item=responses.n_by_item,
            n_correct_by_item=responses.n_correct_by_item,
            settings=self.settings,
            likelihood_intervals=intervals,
            moments=moments,
            joint_error=joint_error(joint, population, responses.n_respondents, self.settings),
        )
