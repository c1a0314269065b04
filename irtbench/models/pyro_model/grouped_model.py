"""The generative model of groups of respondents: common items, a population of abilities for each group.

In the first group, the reference, ability is N(0, 1); in each other one N(m, s^2). Items are common to all groups, but
for some of whose parameters x a group has others,

    group 0: x,      group g: x + x_g,

so that the differences are parameters like the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyro
import torch
from pyro import poutine
from torch import Tensor

from irtbench.models.pyro_model.model import FILLS, flat
from irtbench.models.pyro_model.node_tensors import NodeTensors
from irtbench.models.pyro_model.rows import ResponseRows


def population(nodes: NodeTensors, mean: Tensor, log_deviation: Tensor) -> NodeTensors:
    """N(mean, deviation^2) on the same equally spaced nodes, normalised."""
    z = (nodes.theta[:, 0] - mean) / log_deviation.exp()
    return NodeTensors(nodes.theta, torch.log_softmax(-0.5 * z**2, dim=0), nodes.dtype)


def grouped_model(
    rows: Sequence[Tensor | ResponseRows], nodes: NodeTensors, *, model: Callable[..., Any], differs: Tensor
) -> None:
    """A model of items in its reference group, and each other group's rows at its items and population.

    The sites are those of the model, and ``difference`` where items differ, ``group_mean`` and ``group_log_deviation``
    of the groups but the reference, and ``responses_1``, ``responses_2`` ... Differences and populations have flat
    densities.

    Parameters
    ----------
    rows
        Responses of each group, the reference first: tensors as for `logistic_model`, or encoded rows.
    nodes
        The population of the reference group; equally spaced.
    model
        Of one group, called with its rows and nodes: `logistic_model` with its priors, or any other that draws items
        and a row of responses.
    differs
        Which parameters of an item (slope, intercept, guessing) differ in group 1, in group 2, ...; elsewhere the
        differences are zero; shape (n_items, (n_groups - 1) n_parameters).

    Examples
    --------
    >>> from functools import partial
    >>> import pyro
    >>> import torch
    >>> import irtbench
    >>> people, machines = torch.tensor([[1, 0], [1, -1]], dtype=torch.int8), torch.tensor([[0, 0]], dtype=torch.int8)
    >>> grid, cpu = irtbench.normal_grid(), torch.device("cpu")
    >>> nodes = irtbench.NodeTensors.from_quadrature(grid, dtype=torch.float64, device=cpu)
    >>> populations = {name: torch.zeros(1, dtype=torch.float64) for name in ("group_mean", "group_log_deviation")}
    >>> items = partial(
    ...     irtbench.logistic_model, priors=irtbench.Priors.named("weak"),
    ...     guessing_free=torch.zeros(2, dtype=torch.bool), guessing_fixed=torch.zeros(2, dtype=torch.float64),
    ... )
    >>> model = pyro.poutine.condition(irtbench.grouped_model, populations)
    >>> trace = pyro.poutine.trace(model).get_trace(
    ...     [people, machines], nodes, model=items, differs=torch.zeros(2, 3, dtype=torch.bool)
    ... )
    >>> [site for site in ("slope", "group_mean", "difference", "responses", "responses_1") if site in trace]
    ['slope', 'group_mean', 'responses', 'responses_1']
    """
    with poutine.trace() as reference:
        model(rows[0], nodes)
    row = reference.trace.nodes["responses"]["fn"]
    difference = torch.zeros(differs.shape, dtype=torch.float64, device=differs.device)
    if bool(differs.any()):
        values = pyro.sample("difference", flat(int(differs.sum())), infer={FILLS: differs})
        difference = difference.masked_scatter(differs, values)
    others = len(rows) - 1
    mean = pyro.sample("group_mean", flat(others))
    log_deviation = pyro.sample("group_log_deviation", flat(others))
    each = zip(rows[1:], difference.chunk(others, dim=1), mean, log_deviation, strict=True)
    for group, (own_rows, own, *moments) in enumerate(each, start=1):
        with pyro.plate(f"respondents_{group}", len(own_rows)):
            pyro.sample(f"responses_{group}", row.moved(own, population(nodes, *moments)), obs=own_rows)
