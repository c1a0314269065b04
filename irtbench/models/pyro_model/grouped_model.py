"""The generative model of groups of respondents: common items, a population of abilities for each group.

In the first group, the reference, ability is N(0, 1); in each other one N(m, s^2). Items are common to all groups, but
for some whose slope or intercept differs in a group:

    group 0: a theta + d,      group g: (a + a_g) theta + d + d_g,

so that the differences are parameters like the others. They are slopes on the group: with the abilities
(theta, theta in group 1 and else 0, 1 in group 1 and else 0, ...) an item has the slopes (a, a_1, d_1, ...).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyro
import pyro.distributions as dist
import torch
from pyro.distributions import constraints
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.models.priors import Priors
from irtbench.models.pyro_model.collapsed import CollapsedLogistic
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.model import FILLS, guessing_density, normal_or_flat
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.pyro_model.rows import ResponseRows


def items_of_group(items: ItemTensors, group: int) -> ItemTensors:
    """The items as a group meets them, with one slope.

    Parameters
    ----------
    items
        Slopes (a, a_1, d_1, a_2, d_2, ...), shape (n_items, 2 n_groups - 1).
    group
        0 for the reference.
    """
    slope, intercept = items.slope[:, :1], items.intercept
    if group:
        slope, intercept = slope + items.slope[:, 2 * group - 1 : 2 * group], intercept + items.slope[:, 2 * group]
    return ItemTensors(slope, intercept, items.guessing)


def nodes_by_group(nodes: NodeTensors, n_groups: int) -> Tensor:
    """Abilities (theta, theta in group 1, 1 in group 1, ...) at the nodes of one group after the other.

    Shape (n_groups n_nodes, 2 n_groups - 1).
    """
    n_nodes = len(nodes.theta)
    abilities = nodes.theta.new_zeros(n_groups, n_nodes, 2 * n_groups - 1)
    abilities[:, :, 0] = nodes.theta[:, 0]
    for group in range(1, n_groups):
        abilities[group, :, 2 * group - 1] = nodes.theta[:, 0]
        abilities[group, :, 2 * group] = 1.0
    return abilities.flatten(0, 1)


def population(nodes: NodeTensors, mean: Tensor, log_deviation: Tensor) -> NodeTensors:
    """N(mean, deviation^2) on the same equally spaced nodes, normalised."""
    z = (nodes.theta[:, 0] - mean) / log_deviation.exp()
    return NodeTensors(nodes.theta, torch.log_softmax(-0.5 * z**2, dim=0), nodes.dtype)


def grouped_logistic_model(
    rows: Sequence[Tensor | ResponseRows],
    nodes: NodeTensors,
    *,
    priors: Priors,
    guessing_free: Tensor,
    guessing_fixed: Tensor,
    differs: Tensor,
) -> None:
    """Items drawn from their priors, and each group's rows from `CollapsedLogistic` at its items and population.

    The sites are ``slope``, ``intercept``, ``guessing_logit`` where c is estimated, ``difference`` where items differ,
    ``group_mean`` and ``group_log_deviation`` of the groups but the reference, and ``responses_0``, ``responses_1`` ...
    Differences and populations have flat densities.

    Parameters
    ----------
    rows
        Responses of each group, the reference first: tensors as for `logistic_model`, or encoded rows.
    nodes
        The population of the reference group; equally spaced.
    priors
        Densities of slopes, intercepts and guessing; no hierarchy.
    guessing_free, guessing_fixed
        As for `logistic_model`.
    differs
        Where (a_1, d_1, a_2, d_2, ...) are estimated, elsewhere they are zero; shape (n_items, 2 (n_groups - 1)).

    Examples
    --------
    >>> import pyro
    >>> import torch
    >>> import irtbench
    >>> people, machines = torch.tensor([[1, 0], [1, -1]], dtype=torch.int8), torch.tensor([[0, 0]], dtype=torch.int8)
    >>> grid, cpu = irtbench.normal_grid(), torch.device("cpu")
    >>> nodes = irtbench.NodeTensors.from_quadrature(grid, dtype=torch.float64, device=cpu)
    >>> populations = {name: torch.zeros(1, dtype=torch.float64) for name in ("group_mean", "group_log_deviation")}
    >>> model = pyro.poutine.condition(irtbench.grouped_logistic_model, populations)
    >>> trace = pyro.poutine.trace(model).get_trace(
    ...     [people, machines], nodes,
    ...     priors=irtbench.Priors.named("weak"), differs=torch.zeros(2, 2, dtype=torch.bool),
    ...     guessing_free=torch.zeros(2, dtype=torch.bool), guessing_fixed=torch.zeros(2, dtype=torch.float64),
    ... )
    >>> [site for site in ("slope", "group_mean", "difference", "responses_0", "responses_1") if site in trace]
    ['slope', 'group_mean', 'responses_0', 'responses_1']
    """
    n_items, n_groups = len(guessing_free), len(rows)
    like = nodes.theta.new_zeros
    slope = pyro.sample("slope", normal_or_flat(priors.slope, like((n_items, 1))).to_event(2))
    intercept = pyro.sample("intercept", normal_or_flat(priors.intercept, like(n_items)).to_event(1))
    guessing = guessing_fixed
    if bool(guessing_free.any()):
        density = guessing_density(priors.guessing, like(int(guessing_free.sum()))).to_event(1)
        logit = pyro.sample("guessing_logit", density, infer={FILLS: guessing_free})
        guessing = guessing.masked_scatter(guessing_free, logsigmoid(logit).exp())
    difference = like((n_items, 2 * (n_groups - 1)))
    if bool(differs.any()):
        values = pyro.sample("difference", flat(int(differs.sum())), infer={FILLS: differs})
        difference = difference.masked_scatter(differs, values)
    mean = pyro.sample("group_mean", flat(n_groups - 1))
    log_deviation = pyro.sample("group_log_deviation", flat(n_groups - 1))
    items = ItemTensors(torch.cat([slope, difference], dim=1), intercept, guessing)
    for group, own_rows in enumerate(rows):
        own = nodes if group == 0 else population(nodes, mean[group - 1], log_deviation[group - 1])
        with pyro.plate(f"respondents_{group}", len(own_rows)):
            row = CollapsedLogistic.of(items_of_group(items, group), own)
            pyro.sample(f"responses_{group}", row, obs=own_rows)


def flat(size: int) -> dist.TorchDistribution:
    """Flat densities of so many values."""
    return dist.ImproperUniform(constraints.real, torch.Size([size]), ()).to_event(1)
