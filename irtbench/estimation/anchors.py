"""Items on the scale of known ones, the anchors, which stay as they are: the mode next to them, and its errors.

These respondents' mean and standard deviation of ability are estimated with the other items. They are one of two groups
(`GroupProblem`), of which the other, of N(0, 1) on the anchors' scale, has no responses. All of that rests on the
anchors' parameters y as well, which have an error of their own, of covariance S, if they come from a bank. With x what
is estimated, all parameters E x + Y y, and I their observed information, the estimate moves by B dy with
B = -(E'IE)^-1 E'IY, and all parameters by T dy with T = E B + Y, so that their covariance is

    V = E (E'IE)^-1 E' + T S T'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.data.input_error import InputError, refuse_any
from irtbench.data.responses import name_first
from irtbench.estimation.marginal.fisher_scoring import find_mode
from irtbench.estimation.marginal.group_problem import (
    GroupProblem,
    find_group_mode,
    problem_of_groups,
    scores,
)
from irtbench.estimation.marginal.observed_information import (
    LEAST_SD,
    NOTHING,
    Errors,
    blocks_of,
    invert,
    natural_by_steps,
    observed_information,
    sampling_covariance,
)
from irtbench.estimation.marginal.problem import Estimate, Problem
from irtbench.estimation.settings import FitSettings
from irtbench.models.item_parameters import ItemParameters, JointError
from irtbench.models.parameter_table import ParametersLike, as_parameters
from irtbench.models.pyro_model.rows import MISSING, DenseRows, ResponseRows, SparseRows
from irtbench.models.pyro_model.tensors import ItemTensors

#: How the anchors' own error enters standard errors: by their joint covariance, by that of each, or not at all.
AnchorError = Literal["joint", "by item", "taken as known"]

MOST_COUPLED_ITEMS = 1000  # with more each item's error is that where the population is known
FEW, SAMPLE = 0.05, 2_000  # a tolerance for a start, and respondents it is from
DIFFERENCE = 1e-4  # of a mean or a log standard deviation


@dataclass(frozen=True, eq=False)
class KnownItems:
    """Anchors: their places among the items of a fit, and the sampling error that they have.

    Parameters
    ----------
    items
        The anchors.
    places
        Their positions among the items of the fit.
    covariance
        Of their parameters with each other, shape (n_anchors, width, n_anchors, width); None where it is not known, and
        they are taken as known.
    joint
        The joint error that this is from; None where it is that of each item by itself, or there is none.
    """

    items: ItemParameters
    places: tuple[int, ...]
    covariance: NDArray[np.float64] | None = None
    joint: JointError | None = None

    @property
    def error(self) -> AnchorError:
        """How it enters the standard errors."""
        if self.covariance is None or len(self.places) > MOST_COUPLED_ITEMS:
            return "taken as known"
        return "by item" if self.joint is None else "joint"


@dataclass(frozen=True)
class Placed:
    """Where the likelihood of items next to known ones is largest.

    Parameters
    ----------
    problem
        Of the two groups.
    parameters
        Of items and population.
    respondents
        The problem of the respondents alone, on the anchors' scale.
    found
        The items there.
    """

    problem: GroupProblem
    parameters: ItemTensors
    respondents: Problem
    found: Estimate

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and standard deviation of ability."""
        mean, log_deviation = self.problem.prior.populations(self.parameters)
        return float(mean), float(log_deviation.exp())

    @property
    def ability_vanishes(self) -> bool:
        """Whether the standard deviation has gone to its bound 0."""
        return self.moments[1] <= LEAST_SD


def fit_next_to_anchors(
    problem: Problem,
    *,
    n_nodes: int,
    tolerance: float,
    max_steps: int,
    start: ItemTensors | None = None,
    design: Tensor | None = None,
    find: Callable[..., Estimate] = find_mode,
) -> Placed:
    """The mode of the items that are not known, and of the population; `problem` has the known items as constants.

    `start` are items on the anchors' scale, `design` is that of `fit_scale`, and `find` finds the mode.
    """
    first = anchored_start(problem) if start is None else (known_in_place(problem, start),)

    def grouped(rows: ResponseRows) -> GroupProblem:
        both = nothing(rows), rows
        return problem_of_groups(replace(problem, rows=rows), both, n_nodes=n_nodes, start=first[0])[0]

    groups = grouped(problem.rows)
    at = groups.prior.joined(*first)
    stride = problem.rows.n_respondents // SAMPLE
    if stride >= 2 and not isinstance(problem.rows, SparseRows) and start is None:
        _, rough = find_group_mode(grouped(problem.rows.every(stride)), at, tolerance=FEW, max_steps=max_steps)
        at = rough.items if rough.status.converged else at
    groups = groups if design is None else groups.with_shared(design)
    groups, found = find_group_mode(groups, at, tolerance=tolerance, max_steps=max_steps, find=find)
    parameters = found.items
    items = groups.prior.items_of_group(parameters, 1)
    part = replace(groups.part(1, groups.log_moments(parameters)[1]), prior=problem.prior, model=problem.model)
    counts = None if found.counts is None else found.counts.each[1]  # type: ignore[attr-defined]
    return Placed(groups, parameters, part, replace(found, items=items, counts=counts))


def nothing(rows: ResponseRows) -> DenseRows:
    """A respondent who answered none of these items."""
    values = torch.full((1, rows.n_items), MISSING, dtype=torch.int8, device=rows.device)
    return DenseRows(values, torch.zeros_like(rows.n_correct), complete=False, categories=rows.categories)


def known_in_place(problem: Problem, items: ItemTensors) -> ItemTensors:
    """The items with the known parameters where these are known."""
    return ItemTensors.from_matrix(torch.where(problem.free, items.matrix, problem.prior.fixed.matrix))


def anchored_start(problem: Problem) -> tuple[ItemTensors, Tensor, Tensor]:
    """Items, mean and log standard deviation to start from: by the anchors on their scale and on that of N(0, 1).

    With ability m + s z slopes by z are s a and intercepts d + m a: s and m by least squares.
    """
    start, known, free = problem.starting_values(), problem.prior.fixed.matrix, problem.free
    known_slope = ~free[:, 0] & problem.has_one_slope
    a, d = known[known_slope, 0], known[known_slope, 1]
    size = (a @ a).clamp(min=1e-6)
    if float(a @ start.matrix[known_slope, 0]) < 0:
        start = problem.turned(start)
    mean, sd = (a @ (start.matrix[known_slope, 1] - d)) / size, (a @ start.matrix[known_slope, 0]) / size
    sd = sd.clamp(min=0.1) if bool(known_slope.any()) else torch.ones_like(sd)
    placed = problem.rescaled(start, float(-mean / sd), float(1 / sd))
    return known_in_place(problem, placed), mean[None], sd.log()[None]


def anchored_errors(placed: Placed, anchors: KnownItems) -> Errors:
    """The errors, with those of the anchors in them as far as these are known."""
    groups, everything = placed.problem, placed.parameters
    n_items, width = placed.respondents.free.shape
    if n_items > MOST_COUPLED_ITEMS:
        return errors_of_many(placed)
    n_rows, n_columns = groups.free.shape
    scale = natural_by_steps(groups, everything)
    every = groups.with_all_free(everything)
    chosen = torch.nonzero(every.free.reshape(-1))[:, 0]
    whole = torch.zeros(every.free.numel(), every.free.numel(), dtype=torch.float64, device=chosen.device)
    whole[chosen[:, None], chosen] = observed_information(every, everything)
    by_free = groups.by_estimated(torch.eye(groups.n_estimated, dtype=torch.float64, device=whole.device))
    inverse, loose = invert(by_free.T @ whole @ by_free)
    covariance = by_free @ inverse @ by_free.T
    if anchors.covariance is not None:
        places, own = torch.tensor(anchors.places, device=whole.device), slice(n_columns - width, None)
        by_known = torch.zeros(n_rows, n_columns, len(places), width, dtype=torch.float64, device=whole.device)
        each = torch.arange(len(places), device=whole.device)
        known = every.free[places, own]
        steps = torch.linalg.pinv(torch.where(known[:, :, None] & known[:, None], scale[places, own, own], 0.0))
        by_known[places, own, each] = steps
        moved = by_known.flatten(2).flatten(0, 1)
        moved = moved - by_free @ (inverse @ (by_free.T @ (whole @ moved)))
        error = torch.from_numpy(np.array(anchors.covariance)).to(whole).flatten(2).flatten(0, 1)
        covariance = covariance + moved @ error @ moved.T
    all_of_them = covariance.reshape(n_rows, n_columns, n_rows, n_columns)
    joint = torch.einsum("jab,jbkc,kdc->jakd", scale, all_of_them, scale)
    first = groups.prior.population_columns.start
    variances = [float(joint[n_items, k, n_items, k]) for k in (first, first + 1)]
    of_items = joint[:n_items, -width:, :n_items, -width:].cpu().numpy()
    of_items[np.abs(of_items) < NOTHING] = 0.0
    touched = (by_free[:, loose] != 0).any(dim=1).view(n_rows, n_columns)[:n_items].any(dim=1)
    touched |= bool(loose.any()) and not bool(touched.any())  # a population is determined by all
    return Errors(blocks_of(of_items), of_items, touched, (variances[0] ** 0.5, variances[1] ** 0.5))


def errors_of_many(placed: Placed) -> Errors:
    """The same of each item where the population is known, and of the population with items that are."""
    part, items, groups = placed.respondents, placed.found.items, placed.problem
    own, loose = sampling_covariance(part, items)
    at = groups.log_moments(placed.parameters)[1]
    rows = []
    for step in DIFFERENCE * torch.eye(2, dtype=at.dtype, device=at.device):
        above, below = (scores(groups, 1, items, at + sign * step)[1] for sign in (1, -1))
        rows.append((below - above) / (2 * DIFFERENCE))
    mean, log_deviation = torch.linalg.inv(torch.stack(rows)).diagonal().clamp(min=0).sqrt().tolist()
    errors = (mean, log_deviation * placed.moments[1])
    return Errors(own, None, loose, errors)


class Calibrated(Protocol):
    """Items with the sampling error of all of them together, as a `Scale` of a bank or a fit has them."""

    @property
    def items(self) -> ItemParameters: ...  # noqa: D102
    @property
    def joint_error(self) -> JointError | None: ...  # noqa: D102


#: Anchors in any form that `fit_model` takes.
AnchorsLike = Calibrated | ParametersLike


def anchors_among(item_ids: Sequence[str], given: AnchorsLike, settings: FitSettings) -> KnownItems:
    """The known items that are among these, with their error as far as that is known.

    Raises
    ------
    InputError
        If there are none with a slope, or anchors do not go with the settings.
    """
    alone = isinstance(given, ItemParameters | pd.DataFrame) or not hasattr(given, "joint_error")
    known = as_parameters(given if alone else given.items)  # type: ignore[union-attr, arg-type]
    joint = None if alone else given.joint_error  # type: ignore[union-attr]
    position = {item: k for k, item in enumerate(item_ids)}
    chosen = [k for k, item in enumerate(known.item_ids) if item in position]
    anchors = known.select([known.item_ids[k] for k in chosen])
    one_slope, priors = settings.kind == "1pl", settings.priors
    refuse_any((
        (anchors.categories is not None,
         "fit: the anchors are graded items; expected responses in categories and a model of these"),
        (not anchors.discrimination.any(),
         "fit: none of the anchors is among the items of the responses with a slope other than 0"),
        (settings.prior == "hierarchical" or settings.posterior is not None,
         "fit: anchors go with prior none or weak, and without a posterior"),
        (settings.population == "estimated", "fit: with anchors the population is normal; expected population normal"),
        (settings.optimiser == "adam" and one_slope,
         "fit: one slope for all items goes, with anchors, with optimiser fisher_scoring"),
        (settings.estimates_guessing and priors.guessing is None,
         "fit: anchors with guessing without a prior; expected prior weak, or a prior_guessing"),
        (one_slope and priors.slope is not None,
         "fit: anchors with a 1pl, which has one slope, go without a prior of slopes"),
        (anchors.upper_asymptote is not None and not settings.has_upper_asymptotes,
         "fit: the anchors have upper asymptotes; expected a model with them"),
    ))  # fmt: skip
    joint = None if joint is None else joint.select(chosen)
    return KnownItems(
        anchors,
        tuple(position[item] for item in anchors.item_ids),
        *error_of(anchors, joint, four=settings.has_upper_asymptotes),
    )


def error_of(
    anchors: ItemParameters, joint: JointError | None, *, four: bool
) -> tuple[NDArray[np.float64] | None, JointError | None]:
    """The anchors' covariance with each other, None where there is none; what is not known of one counts as known."""
    covariance = anchors.covariance
    if joint is None and covariance is not None and four and covariance.shape[1] == 3:  # none of an asymptote of 1
        covariance = np.pad(covariance, ((0, 0), (0, 1), (0, 1)))
    if joint is not None:
        covariance = np.pad(joint.covariance, ((0, 0), (0, 1)) * 2) if four else joint.covariance
    elif covariance is not None:
        each, width = np.arange(anchors.n_items), covariance.shape[1]
        blocks, covariance = np.nan_to_num(covariance), np.zeros((anchors.n_items, width, anchors.n_items, width))
        covariance[each, :, each, :] = blocks
    return (None if covariance is None or not covariance.any() else covariance), joint


def known_parameters(item_ids: Sequence[str], settings: FitSettings, anchors: KnownItems | None) -> NDArray[np.float64]:
    """What is known of a, d, c and u of each item, NaN where it is estimated, shape (n_items, 4)."""
    known, named = np.full((len(item_ids), 4), np.nan), np.isin(item_ids, [*settings.by_item])
    free, fixed = settings.guessing_of(item_ids)
    own_asymptotes = free | (~named & settings.has_upper_asymptotes)
    known[:, 2], known[named, 3] = np.where(own_asymptotes, np.nan, fixed), 1.0
    if anchors is not None:
        own = anchors.items
        if priors := [item for item in own.item_ids if item in settings.prior_items]:
            raise InputError(f"fit: prior_items: {name_first(priors)} is an anchor, which stays as it is; leave it out")
        if settings.kind == "rasch":
            known[:, 0] = 1.0
        upper = np.ones(own.n_items) if own.upper_asymptote is None else own.upper_asymptote
        known[list(anchors.places)] = np.stack([own.discrimination, own.intercept, own.guessing, upper], axis=1)
    return known
