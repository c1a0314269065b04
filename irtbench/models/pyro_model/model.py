"""The generative model of a response matrix, for Pyro: 2PL and 3PL with ability integrated out.

Its sample sites are the one place in which the likelihood and the priors of items are stated; every fit reads them from
here (`sites`). There is one model: an item's lower asymptote is free (3PL), or fixed at a value; fixed at zero the item
is a 2PL. A respondent's row is one draw from `CollapsedLogistic`, so inference is over items only.

A model of your own is a function of (rows, nodes) with the same sites, of which any may have another density.

Groups of respondents have common items, and each a population of abilities of its own (`grouped_model`): N(0, 1) in the
first group, the reference, and N(m, s^2) in each other one. Of some items a group may have other parameters,

    group 0: x,      group g: x + x_g,

so that the differences are parameters like the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from pyro import poutine
from pyro.distributions import constraints
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.models.priors import GuessingPrior, Hierarchy, Priors
from irtbench.models.pyro_model.collapsed import CollapsedLogistic
from irtbench.models.pyro_model.rows import ResponseRows
from irtbench.models.pyro_model.tensors import COMMON_SLOPE, LINEAR, KnownLinear, NodeTensors, SharedParameters


@dataclass(frozen=True)
class DifficultyPrior:
    """Normal densities of the difficulty of some items, in place of one of the intercept d = -a b.

    Features predict b, whatever the slope of a new item turns out to be; a prior of d would be one of b only for a
    slope that is known, which after ten answers it is not.

    Parameters
    ----------
    chosen
        Of which items, shape (n_items,).
    mean, deviation
        Of each of these, in their order, shape (n_chosen,).
    """

    chosen: Tensor
    mean: Tensor
    deviation: Tensor

    @classmethod
    def of_items(
        cls, item_ids: Sequence[str], known: Mapping[str, tuple[float, float]], device: torch.device
    ) -> DifficultyPrior | None:
        """That of the items of which means and standard deviations are known; None if it is none."""
        if not any(item in known for item in item_ids):
            return None
        moments = torch.tensor([known[item] for item in item_ids if item in known], dtype=torch.float64, device=device)
        chosen = torch.tensor([item in known for item in item_ids], device=device)
        return cls(chosen, moments[:, 0], moments[:, 1])

    @property
    def density(self) -> dist.Normal:
        """Of the difficulties of these items, independent of each other."""
        return dist.Normal(self.mean, self.deviation)


def difficulty_of(slope: Tensor, intercept: Tensor, *, by_theta: bool) -> Tensor:
    """B = -d / a; or -d, where slopes by theta are 1 and the slope is the standard deviation of theta (Rasch).

    Parameters
    ----------
    slope, intercept
        Shape (n_items,).
    by_theta
        Whether slopes by theta are 1.
    """
    return -intercept if by_theta else -intercept / slope


def intercept_of(slope: Tensor, difficulty: Tensor, *, by_theta: bool) -> Tensor:
    """The inverse of `difficulty_of`: d = -a b, or -b."""
    return -difficulty if by_theta else -slope * difficulty


def by_slope_and_intercept(
    slope: Tensor, intercept: Tensor, first: Tensor, second: Tensor, *, by_theta: bool, positive: bool
) -> tuple[Tensor, Tensor]:
    """Derivatives by (a, d) of a log density of b.

    With J = (db/da, db/dd) = (-b, -1) / a and H the Hessian of b, the gradient is l' J and minus the Hessian
    -l'' J J' - l' H; the second term is left out where that is to be positive.

    Parameters
    ----------
    slope, intercept
        Shape (n,).
    first, second
        l' and -l'' by b, shape (n,).
    by_theta
        See `difficulty_of`.
    positive
        Whether the second term is left out.

    Returns
    -------
    gradient
        Shape (n, 2).
    information
        Shape (n, 2, 2).
    """
    ones, zeros = torch.ones_like(slope), torch.zeros_like(slope)
    b = difficulty_of(slope, intercept, by_theta=by_theta)
    rate = torch.stack([zeros, -ones] if by_theta else [-b / slope, -1 / slope], dim=1)
    information = second[:, None, None] * rate[:, :, None] * rate[:, None, :]
    if not positive and not by_theta:
        bend = torch.stack([2 * b, ones, ones, zeros], dim=1).view(-1, 2, 2) / slope.square()[:, None, None]
        information = information - first[:, None, None] * bend
    return first[:, None] * rate, information


#: Key of a sample statement's ``infer``: which items (or slopes) the values of the site belong to, in their order.
FILLS = "fills"
#: Key of a sample statement's ``infer``: the `SharedParameters` that the site is one of.
SHARED = "shared"
#: Key of the responses' ``infer``: c as it was given where it is not estimated, without the rounding of its logarithm.
FIXED_GUESSING = "fixed_guessing"
#: Key of the responses' ``infer``: what is known of the items and drawn by no site, None where nothing is.
KNOWN = "known"


def logistic_model(
    rows: Tensor | ResponseRows,
    nodes: NodeTensors,
    *,
    priors: Priors,
    guessing_free: Tensor,
    guessing_fixed: Tensor,
    slopes_free: Tensor | None = None,
    slope_sign: Tensor | None = None,
    shared: SharedParameters | None = None,
    known: KnownLinear | None = None,
    difficulty: DifficultyPrior | None = None,
    learn_mean: bool = False,
    batch_size: int | None = None,
) -> None:
    """Items drawn from their priors, and rows of responses from `CollapsedLogistic` at these items.

    The sites are ``slope`` (or ``log_slope``, if that has the prior) and ``intercept`` (``difficulty`` of the items
    whose difficulty has one), or ``log_slope_and_intercept`` under a hierarchy; ``guessing_logit`` where c is
    estimated, and ``responses``; ``common_slope`` where items share one (Rasch, 1PL).

    Parameters
    ----------
    rows
        Responses: a tensor of 1, 0 and -1 for missing, shape (n_respondents, n_items), or encoded rows.
    nodes
        The population of abilities; as many factors as its second dimension.
    priors
        Densities of the item parameters.
    guessing_free
        Where c is estimated, shape (n_items,).
    guessing_fixed
        The value of c elsewhere, shape (n_items,).
    slopes_free
        Where slopes are estimated, shape (n_items, n_factors); elsewhere they are zero. None for all.
    slope_sign
        1 or -1 for each slope, shape (n_items,), where the prior is one of ``log |a|``; None for all positive.
    shared
        What slopes and intercepts are made of that are not an item's own; None where all are.
    known
        Slopes and intercepts that are known, which no site draws; None for none.
    difficulty
        Items that have a prior of b, in place of one of the intercept; by z, or by theta where one slope is shared and
        slopes by theta are 1. None for none.
    learn_mean
        Whether the mean of a hierarchy is a Pyro parameter, ``hierarchy_mean``, and not a number.
    batch_size
        Number of respondents in a minibatch, for rows given as a tensor; None for all.

    Examples
    --------
    >>> import pyro
    >>> import torch
    >>> import irtbench
    >>> rows = torch.tensor([[1, 0], [1, -1]], dtype=torch.int8)
    >>> grid, cpu = irtbench.normal_grid(), torch.device("cpu")
    >>> nodes = irtbench.NodeTensors.from_quadrature(grid, dtype=torch.float64, device=cpu)
    >>> trace = pyro.poutine.trace(irtbench.logistic_model).get_trace(
    ...     rows, nodes, priors=irtbench.Priors.named("weak"),
    ...     guessing_free=torch.zeros(2, dtype=torch.bool), guessing_fixed=torch.zeros(2, dtype=torch.float64),
    ... )
    >>> [site for site in ("slope", "intercept", "guessing_logit", "responses") if site in trace]
    ['slope', 'intercept', 'responses']
    """
    n_respondents = len(rows) if isinstance(rows, Tensor) else rows.n_respondents
    n_items = len(guessing_free)
    n_factors = nodes.theta.shape[1]
    like = nodes.theta.new_zeros
    linear, own, by_theta = like((n_items, n_factors + 1)), None, False
    if shared is not None:
        common = pyro.sample(COMMON_SLOPE, normal_or_flat(priors.slope, like(())), infer={SHARED: shared})
        linear, own, by_theta = shared.at(common), ~shared.made[:, LINEAR], shared.unit_slopes
    elif known is not None:
        linear, own = known.values, known.free
    elif slopes_free is not None:
        own = torch.nn.functional.pad(slopes_free, (0, 1), value=True)
    slope, intercept = linear[:, :-1], linear[:, -1]
    if priors.hierarchy is not None and shared is None:
        pair = hierarchy_density(priors.hierarchy, nodes.theta, learn_mean=learn_mean)
        log_slope, intercept = pyro.sample("log_slope_and_intercept", pair.expand((n_items,)).to_event(1)).unbind(-1)
        slope = signed_slope(log_slope, slope_sign)
    else:
        if priors.log_slope is not None and shared is None:
            values = pyro.sample("log_slope", normal_or_flat(priors.log_slope, like(n_items)).to_event(1))
            slope = signed_slope(values, slope_sign)
        elif own is None:
            slope = pyro.sample("slope", normal_or_flat(priors.slope, like((n_items, n_factors))).to_event(2))
        elif bool((slopes_own := own[:, :-1]).any()):
            density = normal_or_flat(priors.slope, like(int(slopes_own.sum()))).to_event(1)
            slope = slope.masked_scatter(slopes_own, pyro.sample("slope", density, infer={FILLS: slopes_own}))
        free = torch.ones_like(guessing_free) if own is None else own[:, -1]
        drawn = own_intercepts(priors, slope[:, 0], free, difficulty, by_theta=by_theta)
        intercept = torch.where(free, drawn, intercept)
    log_guessing = torch.log(guessing_fixed) if bool((guessing_free | (guessing_fixed > 0)).any()) else None
    if log_guessing is not None and bool(guessing_free.any()):
        density = guessing_density(priors.guessing, like(int(guessing_free.sum()))).to_event(1)
        logit = pyro.sample("guessing_logit", density, infer={FILLS: guessing_free})
        log_guessing = log_guessing.masked_scatter(guessing_free, logsigmoid(logit))
    with pyro.plate("respondents", n_respondents, subsample_size=batch_size) as chosen:
        row = CollapsedLogistic(slope, intercept, log_guessing, nodes)
        observed = rows if batch_size is None else rows[chosen]  # type: ignore[index]
        pyro.sample("responses", row, obs=observed, infer={FIXED_GUESSING: guessing_fixed, KNOWN: known})


def signed_slope(log_slope: Tensor, sign: Tensor | None) -> Tensor:
    """Slopes of these logarithms, shape (n_items, 1)."""
    return (log_slope.exp() if sign is None else sign * log_slope.exp())[:, None]


def own_intercepts(
    priors: Priors, slope: Tensor, own: Tensor, difficulty: DifficultyPrior | None, *, by_theta: bool = False
) -> Tensor:
    """Draw the intercepts of the items that have their own, by their difficulty where that has a prior; else 0."""
    intercept, rest = torch.zeros_like(slope), own if difficulty is None else own & ~difficulty.chosen
    if bool(rest.any()):
        density = normal_or_flat(priors.intercept, slope.new_zeros(int(rest.sum()))).to_event(1)
        intercept = intercept.masked_scatter(rest, pyro.sample("intercept", density, infer={FILLS: rest}))
    if difficulty is not None:
        chosen = difficulty.chosen
        b = pyro.sample("difficulty", difficulty.density.to_event(1), infer={FILLS: chosen})
        intercept = intercept.masked_scatter(chosen, intercept_of(slope[chosen], b, by_theta=by_theta))
    return intercept


def normal_or_flat(moments: tuple[float, float] | None, like: Tensor) -> dist.TorchDistribution:
    """Independent normal densities of the shape of ``like``, or flat ones."""
    if moments is None:
        return dist.ImproperUniform(constraints.real, like.shape, ())
    return dist.Normal(torch.full_like(like, moments[0]), torch.full_like(like, moments[1]))


def guessing_density(prior: GuessingPrior | None, like: Tensor) -> dist.TorchDistribution:
    """Independent densities of logit c (or logit u), normal or such that c is Beta, or flat ones."""
    if prior is None or prior.density == "normal":
        return normal_or_flat(None if prior is None else (prior.first, prior.second), like)
    beta = dist.Beta(torch.full_like(like, prior.first), torch.full_like(like, prior.second))
    return dist.TransformedDistribution(beta, [dist.transforms.SigmoidTransform().inv])


def hierarchy_density(hierarchy: Hierarchy, like: Tensor, *, learn_mean: bool = False) -> dist.TorchDistribution:
    """Density of one item's log |a| and d (or b): normal, or a mixture of normal ones."""
    if hierarchy.components:
        weights = like.new_tensor([weight for weight, _ in hierarchy.parts])
        means = like.new_tensor([part.mean for _, part in hierarchy.parts])
        covariances = like.new_tensor([part.covariance for _, part in hierarchy.parts])
        return dist.MixtureSameFamily(dist.Categorical(weights), dist.MultivariateNormal(means, covariances))
    mean = like.new_tensor(hierarchy.mean)
    if learn_mean:
        mean = pyro.param("hierarchy_mean", mean)
    return dist.MultivariateNormal(mean, like.new_tensor(hierarchy.covariance))


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
    others, difference = len(rows) - 1, nodes.theta.new_zeros(differs.shape)
    if bool(differs.any()):
        flat = normal_or_flat(None, difference[differs]).to_event(1)
        difference = difference.masked_scatter(differs, pyro.sample("difference", flat, infer={FILLS: differs}))
    of_groups = normal_or_flat(None, nodes.theta.new_zeros(others)).to_event(1)
    mean, log_deviation = pyro.sample("group_mean", of_groups), pyro.sample("group_log_deviation", of_groups)
    each = zip(rows[1:], difference.chunk(others, dim=1), mean, log_deviation, strict=True)
    for group, (own_rows, own, *moments) in enumerate(each, start=1):
        with pyro.plate(f"respondents_{group}", len(own_rows)):
            pyro.sample(f"responses_{group}", row.moved(own, population(nodes, *moments)), obs=own_rows)
