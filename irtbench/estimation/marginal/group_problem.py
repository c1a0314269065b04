"""What a fit of several groups works on: items common to them, and a population for each.

The problem of one group, whatever its items, is solved for each group at the group's own items and population, and what
each says of the common parameters is added up. A group's mean and log standard deviation are a row of parameters below
those of the items; they have derivatives of their own and take the same steps. Nodes reach all of the groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import torch
from torch import Tensor
from torch.nn.functional import pad

from irtbench.estimation.marginal.e_step import Counts, expected_counts
from irtbench.estimation.marginal.m_step import ItemDerivatives, item_derivatives
from irtbench.estimation.marginal.nodes import information as ability_information
from irtbench.estimation.marginal.nodes import with_right_nodes
from irtbench.estimation.marginal.observed_information import natural_by_steps, observed_information
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.model import grouped_model, population
from irtbench.models.pyro_model.rows import ResponseRows
from irtbench.models.pyro_model.sites import ItemPrior
from irtbench.models.pyro_model.tensors import GUESSING, ItemTensors, NodeTensors
from irtbench.models.quadrature import normal_grid

BOUND = 8.0  # nodes reach that far, or further where a group lies there
REACH = 6.0  # standard deviations of a population that nodes are to cover
FURTHEST = 60.0
NARROW = 0.12  # posteriors narrower than this need nodes closer to each other than the usual .2
MOST_NODES = 2_001
DIFFERENCE = 1e-4  # of a mean or a log standard deviation, for numerical derivatives


@dataclass(frozen=True)
class GroupPrior(ItemPrior):
    """Prior densities of items, and flat ones of differences and populations, over items and the rows below them.

    The columns are the differences of each group but the reference, and last the parameters of the reference's items.

    Parameters
    ----------
    items
        What the sites say of the items of one group.
    differs
        Where differences are estimated, shape (n_items, (n_groups - 1) width).
    """

    items: ItemPrior
    differs: Tensor

    @classmethod
    def of(cls, items: ItemPrior, differs: Tensor) -> GroupPrior:
        """Extend the prior of items."""
        width = items.fixed.matrix.shape[1]
        below = differs.shape[1] // width
        fixed = pad(items.fixed.matrix, (differs.shape[1], 0, 0, below))
        return cls(items.densities, {}, ItemTensors.from_matrix(fixed), items, differs)

    @property
    def guessing_free(self) -> Tensor:
        """Where c itself is estimated, of items and the rows below them."""
        return pad(self.items.guessing_free, (0, len(self.fixed) - len(self.differs)))

    @property
    def width(self) -> int:
        """Parameters of an item in one group."""
        return self.items.fixed.matrix.shape[1]

    @property
    def population_columns(self) -> slice:
        """Of mean and log standard deviation, in the rows below the items."""
        first = self.differs.shape[1]
        return slice(first, first + 2)

    @cached_property
    def of_group(self) -> tuple[Tensor, ...]:
        """Each group's parameters of an item by all of the item's, shapes (width, n_columns)."""
        n_groups = self.differs.shape[1] // self.width + 1
        own = torch.eye(self.width, dtype=torch.float64, device=self.differs.device)
        added = torch.eye(n_groups, dtype=torch.float64, device=own.device).roll(1, 0)
        added[:, -1] = 1.0  # those of the reference are last
        return tuple(torch.kron(row[None], own) for row in added)

    def items_of_group(self, parameters: ItemTensors, group: int) -> ItemTensors:
        """The items as a group meets them."""
        return ItemTensors.from_matrix(parameters.matrix[: len(self.differs)] @ self.of_group[group].T)

    def populations(self, parameters: ItemTensors) -> tuple[Tensor, Tensor]:
        """Means and log standard deviations of the groups but the reference."""
        mean, log_deviation = parameters.matrix[len(self.differs) :, self.population_columns].unbind(1)
        return mean, log_deviation

    def joined(self, items: ItemTensors, *moments: Tensor, difference: Tensor | None = None) -> ItemTensors:
        """Items of the reference, means and log standard deviations (none: 0), and differences (None: 0), together."""
        matrix = torch.zeros_like(self.fixed.matrix)
        matrix[: len(items), -self.width :] = items.matrix
        if difference is not None:
            matrix[: len(items), : -self.width] = difference
        for column, values in enumerate(moments, start=self.population_columns.start):
            matrix[len(items) :, column] = values
        return ItemTensors.from_matrix(matrix)

    def values_of(self, items: ItemTensors) -> dict[str, Tensor]:
        """Values of the model's sites."""
        mean, log_deviation = self.populations(items)
        values = self.items.values_of(self.items_of_group(items, 0))
        if bool(self.differs.any()):
            values["difference"] = items.matrix[: len(self.differs), : self.differs.shape[1]][self.differs]
        return values | {"group_mean": mean, "group_log_deviation": log_deviation}

    def items_of(self, values: Mapping[str, Tensor]) -> ItemTensors:
        """Items and populations at these values of the model's sites."""
        own, difference = self.items.items_of(values), None
        if "difference" in values:
            none = torch.zeros(self.differs.shape, dtype=torch.float64, device=self.differs.device)
            difference = none.masked_scatter(self.differs, values["difference"])
        return self.joined(own, values["group_mean"], values["group_log_deviation"], difference=difference)

    def log_density(self, items: ItemTensors) -> Tensor:
        """Log prior density of the items."""
        return self.items.log_density(self.items_of_group(items, 0))

    def derivatives(self, items: ItemTensors, *, by_logit: bool, positive: bool = True) -> tuple[Tensor, Tensor]:
        """Those of `ItemPrior`, zero for differences and populations."""
        own = self.items_of_group(items, 0)
        gradient, information = self.items.derivatives(own, by_logit=by_logit, positive=positive)
        before, below = self.differs.shape[1], len(items) - len(own)
        return pad(gradient, (before, 0, 0, below)), pad(information, (before, 0, before, 0, 0, below))


@dataclass(frozen=True)
class GroupCounts(Counts):
    """Expected counts of the reference, and of each group."""

    each: tuple[Counts, ...]


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
        The nodes, the same for all groups, with the reference group's weights.
    of_one_group
        The problem of the first group alone.
    groups
        Each group's rows, the reference first.
    known
        What else is known of each group's respondents, see `expected_counts`; None if nothing.
    known_information
        Average Fisher information on ability in it, in each group at each node, shape (n_groups, n_nodes).
    """

    prior: GroupPrior
    of_one_group: Problem = field(kw_only=True)
    groups: tuple[ResponseRows, ...] = field(kw_only=True)
    known: tuple[Tensor, ...] | None = None
    known_information: Tensor | None = None

    @classmethod
    def of_groups(
        cls,
        problem: Problem,
        groups: tuple[ResponseRows, ...],
        differs: Tensor,
        *,
        known: tuple[Tensor, ...] | None = None,
        known_information: Tensor | None = None,
    ) -> GroupProblem:
        """The problem of one group made that of several."""
        prior = GroupPrior.of(problem.prior, differs)
        model = partial(grouped_model, model=problem.model, differs=differs)
        flat = replace(problem.prior, densities={})
        alone = replace(problem, rows=groups[0], prior=flat)
        return cls(
            model, groups[0], problem.nodes, prior, of_one_group=alone, groups=groups, known=known,
            known_information=known_information,
        )  # fmt: skip

    def with_differs(self, differs: Tensor) -> GroupProblem:
        """The same with other parameters free to differ."""
        model = partial(self.model, differs=differs)
        return replace(self, model=model, prior=replace(self.prior, differs=differs))

    def with_all_free(self, items: ItemTensors) -> GroupProblem:
        """The same with all parameters of items estimated; their prior stays."""
        return replace(self, of_one_group=self.of_one_group.with_all_free(self.prior.items_of_group(items, 0)))

    def with_shared(self, design: Tensor) -> GroupProblem:
        """The same with parameters of the reference's items that are made of shared ones."""
        return super().with_shared(pad(design, (self.prior.differs.shape[1], 0, 0, len(self.groups) - 1)))

    @property
    def observed(self) -> tuple[ResponseRows, ...]:
        """Each group's rows."""
        return self.groups

    @cached_property
    def alone(self) -> Problem:
        """The problem of the first group alone, without a prior, on these nodes."""
        return replace(self.of_one_group, nodes=self.nodes)

    @cached_property
    def guesses(self) -> bool:
        """Whether any item has a lower asymptote."""
        return self.alone.guesses

    @cached_property
    def free(self) -> Tensor:
        """Which entries are estimated, of items and of populations below, shape (n_items + n_groups - 1, n_columns)."""
        prior = self.prior
        free = pad(torch.cat([prior.differs, self.alone.free], dim=1), (0, 0, 0, len(self.groups) - 1))
        free[len(prior.differs) :, prior.population_columns] = True
        return free

    def slopes(self, items: ItemTensors) -> Tensor:
        """Those of each group's items, and below the populations' means."""
        prior, alone = self.prior, self.alone
        own = [alone.slopes(prior.items_of_group(items, group)) for group in range(len(self.groups))]
        means = prior.populations(items)[0][:, None].expand(-1, sum(part.shape[1] for part in own))
        return torch.cat([torch.cat(own, dim=1), means])

    def log_moments(self, parameters: ItemTensors) -> Tensor:
        """Mean and log standard deviation of each group, shape (n_groups, 2)."""
        return pad(torch.stack(self.prior.populations(parameters), dim=1), (0, 0, 1, 0))

    def part(self, group: int, moments: Tensor) -> Problem:
        """The problem of one group with this mean and log standard deviation, without a prior."""
        nodes = population(self.nodes, *moments) if group else self.nodes
        return replace(self.alone, rows=self.groups[group], nodes=nodes)

    def respondents(self, parameters: ItemTensors, group: int = 1) -> tuple[Problem, ItemTensors]:
        """The problem of one group with the prior of items, and these."""
        part = self.part(group, self.log_moments(parameters)[group])
        return replace(part, prior=self.prior.items), self.prior.items_of_group(parameters, group)

    def each(self, parameters: ItemTensors) -> Iterator[tuple[Problem, ItemTensors]]:
        """Each group's problem and its items."""
        for group, moments in enumerate(self.log_moments(parameters)):
            yield self.part(group, moments), self.prior.items_of_group(parameters, group)

    def counts(self, items: ItemTensors, *, at_nodes: bool = False) -> GroupCounts:
        """The E step in every group."""
        each = []
        for group, (part, own) in enumerate(self.each(items)):
            if self.known is None:
                each.append(part.counts(own, at_nodes=at_nodes))
            else:
                each.append(expected_counts(part.rows, part.row(own), at_nodes=at_nodes, known=self.known[group]))
        first = each[0]
        total = sum(counts.log_likelihood for counts in each)
        return GroupCounts(total, first.n, first.right, first.r, first.respondents, tuple(each))

    def starting_values(self) -> ItemTensors:
        """All groups alike, with the items of the reference."""
        return self.prior.joined(self.alone.starting_values())


def population_scores(nodes: NodeTensors, mean: Tensor, log_deviation: Tensor) -> Tensor:
    """Derivatives of the log-weights of a population by its mean and log standard deviation, shape (2, n_nodes).

    (z / s, z^2) with z = (theta - m) / s, less their means, since the weights are normalised on the nodes.
    """
    deviation = log_deviation.exp()
    z = (nodes.theta[:, 0] - mean) / deviation
    scores = torch.stack([z / deviation, z**2])
    return scores - (scores @ population(nodes, mean, log_deviation).log_weights.exp())[:, None]


@item_derivatives.register
def group_derivatives(problem: GroupProblem, parameters: ItemTensors, counts: GroupCounts) -> ItemDerivatives:
    """Derivatives by items: the sums of the groups' own; and by each population's mean and log standard deviation.

    If abilities were seen, the information of n respondents would be n / s^2 on the mean and 2 n on the log standard
    deviation. That of the population on ability itself is 1 / s^2. The score of the mean changes with theta by 1 / s^2,
    that of the log standard deviation by 2 z / s; for the latter the missing information takes z sqrt(2) / s, which
    leaves the information of everything positive: its expectation is the population's information.
    """
    prior, nodes = problem.prior, problem.nodes
    n_items, at = len(prior.differs), prior.population_columns
    gradient, information = prior.derivatives(parameters, by_logit=False)
    missing = []
    for group, (mean, log_deviation) in enumerate(problem.log_moments(parameters)):
        own, deviation = counts.each[group], log_deviation.exp()
        known = deviation**-2 if problem.known_information is None else deviation**-2 + problem.known_information[group]
        counted = replace(own, respondents=own.respondents * known)
        found = item_derivatives(problem.alone, prior.items_of_group(parameters, group), counted)
        assert found.missing is not None
        assert found.precision is not None
        of_group = prior.of_group[group]
        gradient[:n_items] += found.gradient @ of_group
        information[:n_items] += of_group.T @ found.information @ of_group
        lost = pad(of_group.T @ found.missing, (0, 0, 0, 0, 0, len(gradient) - n_items))
        if group:
            row, z, n = n_items + group - 1, (nodes.theta[:, 0] - mean) / deviation, own.respondents.sum()
            gradient[row, at] = population_scores(nodes, mean, log_deviation) @ own.respondents
            seen = torch.stack([n / deviation**2, 2 * n.maximum(own.respondents @ z**2)])
            information[row, at, at] = torch.diag(seen)
            rate = torch.stack([torch.ones_like(z) / deviation**2, math.sqrt(2) * z / deviation]) * own.respondents
            lost[row, at] = -(rate @ nodes.bins) * found.precision.clamp(min=1e-300).rsqrt()
        missing.append(lost)
    return ItemDerivatives.of(problem, parameters, gradient, information, torch.cat(missing, dim=2))


@observed_information.register
def group_information(problem: GroupProblem, parameters: ItemTensors) -> Tensor:
    """Negative Hessian of the log-posterior in the free parameters, row by row, shape (n_free, n_free).

    The sum of the groups' own; what belongs to a population is the difference of two gradients, near enough.
    """
    prior = problem.prior
    n_items, width = len(prior.differs), prior.width
    n_rows, n_columns = problem.free.shape
    found = torch.zeros(n_rows, n_columns, n_rows, n_columns, dtype=torch.float64, device=problem.free.device)
    each = torch.arange(n_rows, device=problem.free.device)
    found[each, :, each, :] = prior.derivatives(parameters, by_logit=True, positive=False)[1]
    for group, (part, items) in enumerate(problem.each(parameters)):
        if part.rows.n_responses == 0:
            continue
        chosen = torch.nonzero(part.free.reshape(-1))[:, 0]
        own = found.new_zeros(n_items * width, n_items * width)
        own[chosen[:, None], chosen] = observed_information(part, items)
        of_group = prior.of_group[group]
        own = own.view(n_items, width, n_items, width)
        found[:n_items, :, :n_items] += torch.einsum("ap,jakb,bq->jpkq", of_group, own, of_group)
        if group:
            row, first = n_items + group - 1, prior.population_columns.start
            for k, (by_items, by_population) in enumerate(by_differences(problem, group, parameters)):
                found[:n_items, :, row, first + k] = found[row, first + k, :n_items] = by_items @ of_group
                found[row, first : first + 2, row, first + k] = by_population
    flat = problem.free.reshape(-1)
    return found.reshape(n_rows * n_columns, -1)[flat][:, flat]


def by_differences(problem: GroupProblem, group: int, parameters: ItemTensors) -> Iterator[tuple[Tensor, Tensor]]:
    """Information on a group's mean, and on its log standard deviation, with its items and with these two."""
    items, moments = problem.prior.items_of_group(parameters, group), problem.log_moments(parameters)[group]
    for step in DIFFERENCE * torch.eye(2, dtype=moments.dtype, device=moments.device):
        above, below = (scores(problem, group, items, moments + sign * step) for sign in (1, -1))
        by_items, by_population = ((low - high) / (2 * DIFFERENCE) for low, high in zip(below, above, strict=True))
        yield by_items, by_population


def scores(problem: GroupProblem, group: int, items: ItemTensors, moments: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient of a group's log-likelihood by its items, with logit c, and by its mean and log standard deviation."""
    part = problem.part(group, moments)
    counts = part.counts(items)
    gradient = item_derivatives(part, items, counts).gradient
    if part.guesses:
        gradient[:, GUESSING] *= items.guessing * (1 - items.guessing)
    return gradient, population_scores(problem.nodes, *moments) @ counts.respondents


@natural_by_steps.register
def natural_by_steps_of_groups(problem: GroupProblem, parameters: ItemTensors) -> Tensor:
    """Derivatives of parameters and of (mean, standard deviation) by those of steps, (n_rows, n_columns, n_columns).

    A difference is one of the parameters that steps are taken in.
    """
    prior = problem.prior
    n_items, width = len(prior.differs), prior.width
    scale = problem.identity.expand(len(parameters), -1, -1).clone()
    scale[:n_items, -width:, -width:] = natural_by_steps(problem.alone, prior.items_of_group(parameters, 0))
    deviation = prior.population_columns.stop - 1
    scale[n_items:, deviation, deviation] = prior.populations(parameters)[1].exp()
    return scale


@with_right_nodes.register
def with_nodes_for_groups(problem: GroupProblem, parameters: ItemTensors, counts: Counts | None) -> GroupProblem:
    """With nodes that reach further, where a population does, or are closer, where posteriors are narrow.

    A posterior is no narrower than 1 / sqrt(1 / s^2 + I(theta)) where the test's information I is largest.
    """
    nodes = problem.nodes
    theta = nodes.theta[:, 0]
    mean, log_deviation = problem.prior.populations(parameters)
    bound = float(theta[-1])
    furthest = min(float((mean.abs() + REACH * log_deviation.exp()).max()), FURTHEST)
    narrowest = math.inf
    for (part, items), (_, own) in zip(problem.each(parameters), problem.log_moments(parameters), strict=True):
        if part.rows.n_responses == 0:
            continue
        of_items, trials = ability_information(part, items), part.rows.most_trials
        known = float((of_items if trials is None else of_items * trials[:, None]).sum(dim=0).max())
        narrowest = min(narrowest, (known + float(torch.exp(-2 * own))) ** -0.5)
    step = float(theta[1] - theta[0])
    finer = step > narrowest / NARROW * 0.2 + 1e-9 and len(theta) < MOST_NODES
    if furthest <= bound and not finer:
        return problem
    # a little more than is needed now, since the next mode is another
    wider = bound if furthest <= bound else min(1.1 * furthest, FURTHEST)
    return replace(problem, nodes=group_nodes(wider, 0.9 * narrowest if finer else step, nodes.dtype, theta.device))


def problem_of_groups(
    pooled: Problem,
    rows: tuple[ResponseRows, ...],
    *,
    n_nodes: int,
    differs: Tensor | None = None,
    start: ItemTensors | None = None,
) -> tuple[GroupProblem, ItemTensors]:
    """The problem of the groups' rows, the reference first, and where it starts: all groups alike.

    `differs` says which parameters of an item differ in the other groups, shape (n_items, width); None for none.
    """
    nodes = group_nodes(BOUND, 12 / (n_nodes - 1), pooled.nodes.dtype, pooled.rows.device)
    each = torch.zeros_like(pooled.free) if differs is None else differs
    problem = GroupProblem.of_groups(replace(pooled, nodes=nodes), rows, each.repeat(1, len(rows) - 1))
    return problem, problem.prior.joined(pooled.starting_values() if start is None else start)


def group_nodes(bound: float, step: float, dtype: torch.dtype, device: torch.device) -> NodeTensors:
    """Nodes on [-bound, bound], no further than a step from each other, with the weights of N(0, 1)."""
    n_nodes = min(2 * math.ceil(bound / step - 1e-9) + 1, MOST_NODES)
    return NodeTensors.from_quadrature(normal_grid(n_nodes, bound=bound), dtype=dtype, device=device)


def groups_of(problem: Problem) -> GroupProblem:
    """A problem of groups."""
    assert isinstance(problem, GroupProblem)
    return problem
