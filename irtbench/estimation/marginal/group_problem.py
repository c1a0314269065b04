"""What a fit of several groups works on: items common to them, and a population for each.

The E step is that of one group, for each group on the same nodes with its own weights. Counts of all groups, those at
one group's nodes after those at another's, go into the M step of items with several slopes, see
`models.pyro_model.grouped_model`.
A group's mean and log standard deviation are a row of parameters below those of the items, in the columns of slope and
intercept; they have derivatives of their own and take the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from irtbench.estimation.marginal.e_step import Counts, expected_counts
from irtbench.estimation.marginal.m_step import ItemDerivatives, item_derivatives
from irtbench.estimation.marginal.problem import Evaluation, Problem
from irtbench.models.pyro_model.collapsed import CollapsedLogistic
from irtbench.models.pyro_model.grouped_model import items_of_group, nodes_by_group, population
from irtbench.models.pyro_model.item_tensors import INTERCEPT, ItemTensors
from irtbench.models.pyro_model.model import FILLS
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.pyro_model.rows import ResponseRows
from irtbench.models.pyro_model.sites import ItemModel, ItemPrior, item_prior, observed_sites, trace_sites

GROUP_SITES = ("difference", "group_mean", "group_log_deviation")


@dataclass(frozen=True)
class GroupPrior(ItemPrior):
    """Prior densities of items, and flat ones of differences and populations, over items and the rows below them.

    Parameters
    ----------
    items
        What the sites say of the items with one slope.
    differs
        Where differences are estimated, shape (n_items, 2 (n_groups - 1)).
    """

    items: ItemPrior
    differs: Tensor

    @classmethod
    def of(cls, items: ItemPrior, differs: Tensor) -> GroupPrior:
        """Extend the prior of items."""
        n_items, n_differences = differs.shape
        n_others = n_differences // 2
        estimated = torch.zeros(n_items + n_others, 1 + n_differences, dtype=torch.bool, device=differs.device)
        estimated[:, 0] = True
        estimated[:n_items, 1:] = differs
        below = (0, n_others)
        fixed = ItemTensors(
            torch.zeros(estimated.shape, dtype=torch.float64, device=differs.device),
            torch.nn.functional.pad(items.fixed.intercept, below),
            torch.nn.functional.pad(items.fixed.guessing, below),
        )
        free = torch.nn.functional.pad(items.guessing_free, below)
        return cls(items.densities, free, fixed, estimated, None, items, differs)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.differs)

    def split(self, parameters: ItemTensors) -> tuple[ItemTensors, Tensor, Tensor]:
        """The items with all their slopes, and means and log standard deviations of the groups but the reference."""
        n = self.n_items
        items = ItemTensors(parameters.slope[:n], parameters.intercept[:n], parameters.guessing[:n])
        return items, parameters.slope[n:, 0], parameters.intercept[n:]

    def joined(self, items: ItemTensors, mean: Tensor, log_deviation: Tensor) -> ItemTensors:
        """What `split` takes apart; items may have one slope, and do not differ then."""
        slope = torch.zeros_like(self.fixed.slope)
        slope[: self.n_items, : items.slope.shape[1]] = items.slope
        slope[self.n_items :, 0] = mean
        return ItemTensors(
            slope,
            torch.cat([items.intercept, log_deviation]),
            torch.cat([items.guessing, torch.zeros_like(log_deviation)]),
        )

    def values_of(self, items: ItemTensors) -> dict[str, Tensor]:
        """Values of the model's sites."""
        own, mean, log_deviation = self.split(items)
        values = self.items.values_of(items_of_group(own, 0))
        if bool(self.differs.any()):
            values["difference"] = own.slope[:, 1:][self.differs]
        return values | {"group_mean": mean, "group_log_deviation": log_deviation}

    def items_of(self, values: Mapping[str, Tensor]) -> ItemTensors:
        """Items and populations at these values of the model's sites."""
        parameters = self.joined(self.items.items_of(values), values["group_mean"], values["group_log_deviation"])
        if "difference" in values:
            parameters.slope[: self.n_items, 1:][self.differs] = values["difference"]
        return parameters

    def log_density(self, items: ItemTensors) -> Tensor:
        """Log prior density of the items."""
        return self.items.log_density(items_of_group(self.split(items)[0], 0))

    def derivatives(self, items: ItemTensors, *, by_logit: bool, positive: bool = True) -> tuple[Tensor, Tensor]:
        """Those of `ItemPrior`, zero for differences and populations."""
        own = items_of_group(self.split(items)[0], 0)
        gradient, information = self.items.derivatives(own, by_logit=by_logit, positive=positive)
        width = items.matrix.shape[1]
        kept = [0, width - 2, width - 1]
        wide = gradient.new_zeros(len(items), width)
        wider = gradient.new_zeros(len(items), width, width)
        wide[: self.n_items, kept] = gradient
        each = torch.arange(self.n_items, device=gradient.device)[:, None, None]
        wider[each, torch.tensor(kept)[:, None], torch.tensor(kept)] = information
        return wide, wider


@dataclass(frozen=True)
class GroupNodes(NodeTensors):
    """The nodes of one group after those of another; neighbours are of the same group."""

    n_groups: int = 1

    @cached_property
    def bins(self) -> Tensor:
        """As for `NodeTensors`, shape (n_groups n_nodes, n_groups n_bins)."""
        n_nodes = len(self.theta) // self.n_groups
        return torch.block_diag(*[NodeTensors(self.theta[:n_nodes], self.log_weights[:n_nodes]).bins] * self.n_groups)


@dataclass(frozen=True)
class GroupProblem(Problem):
    """Responses of several groups, the reference's population, and the prior, as a model states them.

    Parameters
    ----------
    model
        The Pyro model, called with the groups' rows and the reference's nodes.
    rows
        Those of the first group.
    nodes
        The nodes of all groups, see `GroupNodes`.
    groups
        Each group's rows, the reference first.
    reference
        The nodes with the reference group's weights.
    known
        What else is known of each group's respondents, see `expected_counts`; None if nothing.
    known_information
        Average Fisher information on ability in it, in each group at each node, shape (n_groups, n_nodes).
    """

    groups: tuple[ResponseRows, ...] = ()
    reference: NodeTensors | None = None
    known: tuple[Tensor, ...] | None = None
    known_information: Tensor | None = None

    @classmethod
    def of_groups(
        cls,
        model: ItemModel,
        groups: tuple[ResponseRows, ...],
        nodes: NodeTensors,
        *,
        known: tuple[Tensor, ...] | None = None,
        known_information: Tensor | None = None,
    ) -> GroupProblem:
        """Trace the model once."""
        drawn, trace = trace_sites(model, groups, nodes)
        items = items_of_group(observed_sites(trace)[0]["fn"].items, 0)
        differs = torch.zeros(len(items), 2 * (len(groups) - 1), dtype=torch.bool, device=nodes.theta.device)
        if "difference" in drawn:
            differs = drawn["difference"]["infer"][FILLS]
        own = item_prior({name: site for name, site in drawn.items() if name not in GROUP_SITES}, items)
        n_groups = len(groups)
        all_nodes = GroupNodes(
            nodes_by_group(nodes, n_groups), nodes.log_weights.repeat(n_groups), nodes.dtype, n_groups=n_groups
        )
        prior = GroupPrior.of(own, differs)
        return cls(
            model,
            groups[0],
            all_nodes,
            prior,
            groups=groups,
            reference=nodes,
            known=known,
            known_information=known_information,
        )

    @property
    def group_prior(self) -> GroupPrior:
        """The prior, of items and populations."""
        assert isinstance(self.prior, GroupPrior)
        return self.prior

    @cached_property
    def own_nodes(self) -> NodeTensors:
        """The reference group's."""
        assert self.reference is not None
        return self.reference

    def populations(self, parameters: ItemTensors) -> tuple[NodeTensors, ...]:
        """Each group's population."""
        _, mean, log_deviation = self.group_prior.split(parameters)
        others = (population(self.own_nodes, *pair) for pair in zip(mean, log_deviation, strict=True))
        return (self.own_nodes, *others)

    def group_rows(self, parameters: ItemTensors) -> tuple[CollapsedLogistic, ...]:
        """The distribution of a respondent's row in each group."""
        items = self.group_prior.split(parameters)[0]
        rows = []
        for group, nodes in enumerate(self.populations(parameters)):
            own = items_of_group(items, group)
            rows.append(
                CollapsedLogistic(own.slope, own.intercept, own.guessing.log() if self.guesses else None, nodes)
            )
        return tuple(rows)

    def rate(self, items: ItemTensors) -> Tensor:
        """Derivative of each item's logit by theta in each bin of nodes; populations have no logit."""
        own = self.group_prior.split(items)[0]
        slopes = torch.cat([items_of_group(own, group).slope for group in range(len(self.groups))], dim=1)
        n_bins = self.nodes.bins.shape[1] // len(self.groups)
        below = len(items) - len(own)
        return torch.nn.functional.pad(slopes.repeat_interleave(n_bins, dim=1), (0, 0, 0, below))

    def counts(self, items: ItemTensors, *, at_nodes: bool = False) -> Counts:
        """The E step in every group; zero for the rows below the items."""
        known = self.known or (None,) * len(self.groups)
        each = [
            expected_counts(rows, row, at_nodes=at_nodes, known=more)
            for rows, row, more in zip(self.groups, self.group_rows(items), known, strict=True)
        ]
        n_items, below = self.group_prior.n_items, (0, 0, 0, len(self.groups) - 1)
        right = items.slope.new_zeros(n_items, self.n_factors + 1)
        for group, counts in enumerate(each):
            right[:, [0, -1]] += counts.right
            if group:
                right[:, 2 * group - 1 : 2 * group + 1] = counts.right
        pad = torch.nn.functional.pad
        r = None if each[0].r is None else pad(torch.cat([part.r for part in each if part.r is not None], dim=1), below)
        return Counts(
            sum(part.log_likelihood for part in each),
            pad(torch.cat([part.n for part in each], dim=1), below),
            pad(right, below),
            r,
            torch.cat([part.respondents for part in each]),
        )

    def evaluate(self, items: ItemTensors) -> Evaluation:
        """One E step and the prior at these items and populations."""
        counts = self.counts(items)
        return Evaluation(items, counts, counts.log_likelihood + float(self.prior.log_density(items)))


def population_scores(nodes: NodeTensors, mean: Tensor, log_deviation: Tensor) -> Tensor:
    """Derivatives of the log-weights of a population by its mean and log standard deviation, shape (2, n_nodes).

    (z / s, z^2) with z = (theta - m) / s, less their means, since the weights are normalised on the nodes.
    """
    deviation = log_deviation.exp()
    z = (nodes.theta[:, 0] - mean) / deviation
    scores = torch.stack([z / deviation, z**2])
    return scores - (scores @ population(nodes, mean, log_deviation).log_weights.exp())[:, None]


@item_derivatives.register
def group_derivatives(problem: GroupProblem, parameters: ItemTensors, counts: Counts) -> ItemDerivatives:
    """Derivatives by items, as `item_derivatives` has them, and by each population's mean and log standard deviation.

    If abilities were seen, n respondents would tell n / s^2 of the mean and 2 n of the log standard deviation. Of
    ability itself the population tells 1 / s^2. The score of the mean changes with theta by 1 / s^2, that of the log
    standard deviation by 2 z / s; for the latter the missing information takes z sqrt(2) / s, which leaves the
    information of everything positive: its expectation is what the population tells.
    """
    _, mean, log_deviation = problem.group_prior.split(parameters)
    nodes, n_nodes = problem.own_nodes, len(problem.own_nodes.theta)
    precision = torch.cat([torch.ones_like(mean[:1]), torch.exp(-2 * log_deviation)]).repeat_interleave(n_nodes)
    if problem.known_information is not None:
        precision = precision + problem.known_information.flatten()
    given = replace(counts, respondents=counts.respondents * precision)
    derivatives = item_derivatives.dispatch(Problem)(problem, parameters, given)
    assert derivatives.missing is not None
    assert derivatives.precision is not None
    gradient, information, missing = derivatives.gradient, derivatives.information, derivatives.missing
    by_root = derivatives.precision.clamp(min=1e-300).rsqrt()
    for other in range(len(mean)):
        row = problem.group_prior.n_items + other
        place = slice((other + 1) * n_nodes, (other + 2) * n_nodes)
        respondents, deviation = counts.respondents[place], log_deviation[other].exp()
        gradient[row, [0, INTERCEPT]] = population_scores(nodes, mean[other], log_deviation[other]) @ respondents
        z = (nodes.theta[:, 0] - mean[other]) / deviation
        n = respondents.sum()
        information[row, 0, 0] = n / deviation**2
        information[row, INTERCEPT, INTERCEPT] = 2 * n.maximum(respondents @ z**2)
        lost = torch.stack([1 / deviation**2 * torch.ones_like(z), math.sqrt(2) * z / deviation]) * respondents
        missing[row, [0, INTERCEPT]] = -(lost @ problem.nodes.bins[place]) * by_root
    return derivatives
