"""Fit the 2PL or 3PL to several groups of respondents at once: common items, a population of abilities for each."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Unpack

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.data.checked_settings import shows_fields
from irtbench.data.given import ResponsesLike, as_responses
from irtbench.data.input_error import refuse_any
from irtbench.data.responses import ResponseMatrix, name_first, share_correct
from irtbench.data.shown import counted
from irtbench.estimation.doubts import unlinked, weakly_identified
from irtbench.estimation.driver import fenced
from irtbench.estimation.fit import check_estimable, problem_of, right_or_wrong_alone, with_kinds
from irtbench.estimation.fitted import FittedItems, software_versions
from irtbench.estimation.marginal.group_problem import GroupProblem, groups_of, problem_of_groups
from irtbench.estimation.scale_fit import fit_in_groups, with_names
from irtbench.estimation.settings import WORDS, FitKeywords, FitSettings, fit_settings
from irtbench.estimation.threads import threads_for
from irtbench.models.item_parameters import ItemParameters, JointError
from irtbench.models.pyro_model.rows import encode_responses
from irtbench.models.pyro_model.tensors import ItemTensors, common_slope
from irtbench.models.quadrature import normal_grid

FEWEST_IN_GROUP = 10


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupedModel(FittedItems, columns="group=groups, n_respondents=n_by_group, mean, sd, se_mean, se_sd"):
    """Items and the abilities of several groups, the first of which is the reference.

    Its table has one row a group.

    Parameters
    ----------
    groups
        Their names.
    items
        The items' parameters in each group, with their sampling covariance; the same in all groups but for those that
        were free.
    free_items
        Items with a slope and an intercept of their own in each group.
    mean, sd
        Of ability in each group, 0 and 1 in the reference, shape (n_groups,).
    se_mean, se_sd
        Their standard errors, 0 in the reference; NaN where they were not computed.
    log_likelihood
        Marginal log-likelihood of the responses.
    n_by_group
        Respondents of each group.
    status
        How the iterations ended.
    settings, seed, seconds
        How it was computed.
    nodes
        The nodes over which ability was integrated out, in words.
    n_by_item, n_correct_by_item
        Observed and correct responses to each item, of all groups, shape (n_items,).
    joint_error
        The sampling error of the reference group's items together; None where it was not computed.
    free_covariance
        Sampling covariance of (a, a_1, d_1, ..., d, c) of the free items, where group g has the slope a + a_g and the
        intercept d + d_g, shape (n_free, 2 n_groups + 1, n_free, 2 n_groups + 1); None where it was not computed.
    doubts
        Why items and groups may not be on one scale.
    """

    groups: tuple[str, ...]
    items: tuple[ItemParameters, ...]
    free_items: tuple[str, ...]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]
    se_mean: NDArray[np.float64]
    se_sd: NDArray[np.float64]
    n_by_group: tuple[int, ...]
    settings: FitSettings
    seconds: float
    n_correct_by_item: NDArray[np.int64]
    free_covariance: NDArray[np.float64] | None = None

    @property
    def n_parameters(self) -> int:
        """Number of estimated parameters: of items, of differences, of populations."""
        others, one_slope = len(self.groups) - 1, self.settings.has_common_slope
        own = int(self.items[0].n_free.sum()) + one_slope
        return own + (1 if one_slope else 2) * others * len(self.free_items) + 2 * others

    def common_table(self) -> pd.DataFrame:
        """One row an item, columns of items.csv: the reference group's parameters, the responses of all groups."""
        share = share_correct(self.n_correct_by_item, self.n_by_item)
        return self.items[0].table().assign(n_responses=self.n_by_item, proportion_correct=share)

    def summary(self) -> dict[str, Any]:
        """What fit.json holds."""
        return {
            **self.criteria(),
            "n_items": self.items[0].n_items,
            "n_responses": int(self.n_by_item.sum()),
            "model": self.settings.kind,
            "prior": self.settings.priors.describe(),
            "quadrature": self.nodes,
            "converged": self.converged,
            "stopped_because": str(self.status),
            "steps": self.status.steps,
            "seconds": round(self.seconds, 3),
            "seed": self.seed,
            "versions": software_versions(),
            "doubts": list(self.doubts),
            **self.not_identified(),
            "groups": self.table().to_dict("records"),
            "settings": asdict(self.settings),
        }

    def not_identified(self) -> dict[str, list[str]]:
        """Items of whose guessing, slope or difficulty the data say little in any group (`doubts.weakly_identified`).

        Ability is that of all respondents, whose mean and standard deviation are those of the groups' mixture.
        """
        share = np.array(self.n_by_group) / self.n_respondents
        mean = float(share @ self.mean)
        sd = math.sqrt(share @ (self.sd**2 + (self.mean - mean) ** 2))
        wanted, _ = self.settings.guessing_of(self.items[0].item_ids)
        found: dict[str, list[str]] = {}
        for items in self.items:
            for name, own in weakly_identified(items, self.settings.priors, wanted, mean, sd).items():
                found[name] = list(dict.fromkeys([*found.get(name, []), *own]))
        return found

    def items_table(self) -> pd.DataFrame:
        """One row an item and group: the parameters and their standard errors, as items.csv has them."""
        tables = [items.table().assign(group=group) for group, items in zip(self.groups, self.items, strict=True)]
        return pd.concat(tables, ignore_index=True)

    def in_short(self) -> str:
        """Groups and their sizes, items, and how the iterations ended."""
        sizes = ", ".join(f"{group} ({n})" for group, n in zip(self.groups, self.n_by_group, strict=True))
        return f"groups {sizes}, {counted(self.items[0].n_items, 'item')}, {self.outcome()}"


@shows_fields(FitSettings, words=WORDS)
def fit_groups(
    responses: ResponsesLike,
    groups: Sequence[str],
    settings: FitSettings | None = None,
    *,
    reference: str | None = None,
    free_items: Collection[str] = (),
    seed: int = 0,
    **keywords: Unpack[FitKeywords],
) -> GroupedModel:
    """Estimate items and each group's mean and standard deviation of ability by marginal maximum likelihood.

    Ability is N(0, 1) in the reference group and N(m, s^2) in each other one. Items have the same parameters in all
    groups, which makes the scale common, but for those in `free_items`, whose slope and intercept are free in every
    group (their guessing is common). With a prior, the estimates are modes; differences between groups and the
    populations have flat densities. The nodes are widened and refined where a group's abilities ask for it.

    Parameters
    ----------
    responses
        Graded responses (a matrix, array or data frame: `as_responses`); missing ones are left out of the likelihood.
    groups
        The group of each respondent.
    settings
        Model, prior (none or weak) and numerics; None for a 2PL without a prior.
    reference
        The group with mean 0 and standard deviation 1; None for the largest.
    free_items
        Items that may differ between groups; at least one must not be among them.
    seed
        For Pyro's random numbers; the steps draw none.
    keywords
        Of the settings, see `fit_model`.

    Raises
    ------
    InputError
        If the data do not determine the parameters (see `fit_model`), a group is unknown or has fewer than 10
        respondents, there are fewer than two, no item is common, the responses of a group to a free item are none or
        all the same, or the settings ask for what goes with one group only.

    Examples
    --------
    >>> import numpy as np
    >>> import irtbench
    >>> rng = np.random.default_rng(1)
    >>> items = irtbench.ItemParameters.from_difficulty([1.5] * 6, [-1.5, -0.9, -0.3, 0.3, 0.9, 1.5])
    >>> responses = irtbench.simulate_responses(rng.normal(size=300), items, rng=rng)
    >>> groups = ["old"] * 150 + ["new"] * 150
    >>> fitted = irtbench.fit_groups(responses, groups, reference="old")
    >>> fitted
    <GroupedModel: groups old (150), new (150), 6 items, log-likelihood -930.56, converged>
    >>> fitted.table().round(2)
      group  n_respondents  mean    sd  se_mean  se_sd
    0   old            150  0.00  1.00     0.00   0.00
    1   new            150  0.01  1.09     0.15   0.15
    """
    began = time.perf_counter()
    responses = as_responses(responses)
    settings = fit_settings(settings, keywords)
    labels = np.asarray(groups, dtype=object)
    names = check_groups(responses, labels, settings, reference)
    members = [labels == name for name in names]
    free = check_free(responses, members, names, free_items)
    with threads_for(responses.n_respondents * max(responses.n_items, settings.n_nodes)), fenced(seed), torch.no_grad():
        one_slope, grid = settings.has_common_slope, normal_grid(settings.n_nodes)
        pooled = problem_of(responses, replace(settings, kind="2pl") if one_slope else settings, grid)
        rows = tuple(encode_responses(responses.select_respondents(part), pooled.rows.device) for part in members)
        differs = torch.zeros_like(pooled.free)
        differs[:, 0], differs[:, 1] = torch.from_numpy(free & (not one_slope)), torch.from_numpy(free)
        grouped, start = problem_of_groups(pooled, rows, n_nodes=settings.n_nodes, differs=differs)
        design = common_slope(grouped.alone.free) if one_slope else None
        fit = fit_in_groups(grouped, start, settings, design=design)
        covariance = None if fit.errors is None or fit.errors.joint is None else torch.from_numpy(fit.errors.joint)
        of_groups, parameters = groups_of(fit.problem), fit.found.items
        unit = float(parameters.matrix[0, of_groups.prior.differs.shape[1]]) if settings.kind == "rasch" else 1.0
    items = [group_items(of_groups, parameters, covariance, g, responses.item_ids) for g in range(len(names))]
    mean, sd, se_mean, se_sd = group_populations(of_groups, parameters, covariance, unit)
    nodes = fit.problem.nodes.theta[:, 0]
    own = torch.from_numpy(np.flatnonzero(free))
    places = slope_intercept_guessing(of_groups, differences=True)
    return GroupedModel(
        groups=names,
        items=tuple(with_kinds(own, settings) for own in items),
        free_items=tuple(item for item, own in zip(responses.item_ids, free, strict=True) if own),
        mean=mean,
        sd=sd,
        se_mean=se_mean,
        se_sd=se_sd,
        log_likelihood=fit.found.log_likelihood,
        n_respondents=responses.n_respondents,
        n_by_group=tuple(int(part.sum()) for part in members),
        status=with_names(fit.status, responses),
        settings=settings,
        seed=seed,
        seconds=time.perf_counter() - began,
        nodes=f"grid of {len(nodes)} nodes on +-{float(nodes[-1]):g}, the same for all groups",
        n_by_item=responses.n_by_item,
        n_correct_by_item=responses.n_correct_by_item,
        joint_error=reference_joint_error(of_groups, covariance, int(members[0].sum())) if unit == 1.0 else None,
        free_covariance=None if covariance is None else covariance[own][:, places][:, :, own][..., places].numpy(),
        doubts=unlinked(of_groups, free),
    )


def check_groups(
    responses: ResponseMatrix, labels: NDArray[np.object_], settings: FitSettings, reference: str | None
) -> tuple[str, ...]:
    """Refuse what does not go with groups; their names, the reference first."""
    one_slope, priors = settings.has_common_slope, settings.priors
    refuse_any((
        (one_slope and not priors.is_flat,
         f"groups: a {settings.kind} has one slope for all items; expected no prior with it"),
        (priors.hierarchy is not None or settings.population == "estimated" or settings.posterior is not None,
         "groups: expected prior none or weak, a normal population and no variational posterior"),
        (settings.optimiser == "adam" and one_slope, f"groups: a {settings.kind} goes with optimiser fisher_scoring"),
    ))  # fmt: skip
    check_estimable(responses, settings.priors)
    return group_names(labels, responses.n_respondents, reference)


def group_names(labels: NDArray[np.object_], n_respondents: int, reference: str | None) -> tuple[str, ...]:
    """Names of the groups, the reference first, the others in the order of the respondents."""
    sizes = {name: int((labels == name).sum()) for name in dict.fromkeys(labels)}
    first: Any = max(sizes, key=lambda name: sizes[name], default=None) if reference is None else reference
    known = ", ".join(map(str, sizes))
    refuse_any((
        (labels.shape != (n_respondents,),
         f"groups: {labels.size} groups for {n_respondents} respondents; expected one each"),
        (len(sizes) < 2, "groups: all respondents are in one group; expected at least two"),
        *((n < FEWEST_IN_GROUP, f"groups: {n} respondents in group {name}; expected at least {FEWEST_IN_GROUP}")
          for name, n in sizes.items()),
        (first not in sizes, f"groups: no respondent is in group {first}; expected one of {known}"),
    ))  # fmt: skip
    return (first, *(name for name in sizes if name != first))


def check_free(
    responses: ResponseMatrix, members: Sequence[NDArray[np.bool_]], names: Sequence[str], free_items: Collection[str]
) -> NDArray[np.bool_]:
    """Which items are free, shape (n_items,)."""
    unknown, free = set(free_items) - set(responses.item_ids), np.isin(responses.item_ids, list(free_items))
    named = name_first([item for item in free_items if item in unknown])
    refuse_any((
        (unknown, f"groups: no item {named} among the responses; expected free items to be there"),
        (free.all(), "groups: all items are free; expected at least one common item, or there is no common scale"),
    ))  # fmt: skip
    for name, part in zip(names, members, strict=True):
        own = responses.select_respondents(part)
        varied = (own.n_correct_by_item > 0) & (own.n_correct_by_item < own.n_by_item)
        alike = [responses.item_ids[j] for j in np.flatnonzero(free & ~varied)]
        refuse_any((
            right_or_wrong_alone(own, f"groups: all responses of group {name}"),
            (not own.n_by_item[~free].any(),
             f"groups: group {name} has no response to a common item; expected some, for a common scale"),
            (alike, f"groups: responses of group {name} to item {name_first(alike)} are all the same or none; "
             "expected both right and wrong ones where an item is free"),
        ))  # fmt: skip
    return free


def group_items(
    problem: GroupProblem, parameters: ItemTensors, covariance: Tensor | None, group: int, item_ids: tuple[str, ...]
) -> ItemParameters:
    """The items as a group meets them; what differs is linear in the parameters."""
    prior, n_items = problem.prior, len(item_ids)
    items = problem.alone.public(prior.items_of_group(parameters, group), item_ids)
    if covariance is None:
        return items
    each = torch.arange(n_items)
    own = covariance[each, :, each, :]
    to_group = prior.of_group[group].cpu()
    return replace(items, covariance=(to_group @ own @ to_group.T).numpy())


def slope_intercept_guessing(problem: GroupProblem, *, differences: bool = False) -> list[int]:
    """Columns of (a, d, c) in the reference, or of (a, a_1, d_1, ..., d, c) with the differences."""
    width, before = problem.prior.width, problem.prior.differs.shape[1]
    others = [first + k for first in range(0, before, width) for k in (0, 1)] if differences else []
    return [before, *others, before + 1, before + 2]


def reference_joint_error(problem: GroupProblem, covariance: Tensor | None, n_reference: int) -> JointError | None:
    """Joint error of the items as the reference group meets them, whose mean and standard deviation are 0 and 1."""
    if covariance is None or not bool(torch.isfinite(covariance).all()) or problem.prior.width != 3:
        return None
    rows, columns = torch.arange(len(problem.prior.differs)), torch.tensor(slope_intercept_guessing(problem))
    own = covariance[rows][:, columns][:, :, rows][:, :, :, columns]
    return JointError(own.numpy(), 1 / n_reference, 1 / (2 * n_reference))


def group_populations(
    problem: GroupProblem, parameters: ItemTensors, covariance: Tensor | None, unit: float
) -> tuple[NDArray[np.float64], ...]:
    """Means and standard deviations of all groups and their standard errors, times the unit of Rasch items, a slope."""
    prior, first = problem.prior, problem.prior.population_columns.start
    values = problem.log_moments(parameters).cpu()
    values[:, 1] = values[:, 1].exp()
    errors = torch.full_like(values, torch.nan)
    errors[0] = 0.0
    if covariance is not None:
        others, pair = torch.arange(len(values) - 1) + len(prior.differs), slice(first, first + 2)
        own, across = torch.zeros_like(values), torch.zeros_like(values)
        own[1:] = covariance[others, pair, others, pair].diagonal(dim1=1, dim2=2)
        variance = unit**2 * own
        if unit != 1.0:
            across[1:] = covariance[0, first, others, pair]
            variance += 2 * unit * values * across + values**2 * covariance[0, first, 0, first]
        errors = variance.clamp(min=0).sqrt()
    return tuple(part.numpy() for part in (*(unit * values).T, *errors.T))
