"""The prior of (log |a|, d) learnt from the items' posteriors, and how sure it is.

What is maximised over the prior's covariance is the likelihood of the responses with the items integrated out, in
Laplace's approximation: around the mode of the items, each with the information that the responses have on it once
abilities are integrated out. With few responses an item that likelihood is flat in the standard deviation of log |a|,
and often highest at zero. So each standard deviation has itself the density Gamma(2, rate -> 0), which is proportional
to it and keeps a mode off zero (Chung, Rabe-Hesketh, Dorie, Gelman & Liu, 2013); and items are averaged over the
standard deviation of log |a|, whose own posterior that density of it, on the scale of its logarithm, is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from irtbench.estimation.estimate import Estimate
from irtbench.estimation.few_respondents.item_moments import ItemMoments, mixed, moments_of
from irtbench.estimation.marginal.observed_information import (
    complete_information,
    own_information,
    parameter_covariance,
)
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.priors import Hierarchy
from irtbench.models.pyro_model.item_tensors import LINEAR, ItemTensors

PLACES = (
    -2.4,
    -1.2,
    0.0,
    1.2,
    2.4,
)  # standard deviations of log sd: spaced so, equal weights integrate a normal density
WIDEST = 0.6  # standard deviation of log sd that places are made for
SURE = 0.02  # with a smaller one nothing is gained by other places than the middle one
LEAST_DEVIATION = 0.02  # items alike in slope would drive it to nothing


def own_covariances(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor]:
    """Laplace's approximation item by item, the others being what they are.

    Where the information on an item is not positive definite, which it is at a mode, that of complete data is taken.

    Returns
    -------
    covariance
        Of (a, d, logit c), shape (n_items, 3, 3); zeros where c is fixed.
    log_determinant
        Of the information by (log |a|, d, logit c), shape (n_items,).
    """
    information = own_information(problem, items)
    failed = torch.linalg.cholesky_ex(information).info > 0
    if bool(failed.any()):
        information = torch.where(failed[:, None, None], complete_information(problem, items)[0], information)
        information = torch.where(problem.estimated_pairs, information, problem.identity)
    covariance = torch.where(problem.estimated_pairs, torch.linalg.inv(information), 0.0)
    return covariance, torch.logdet(information) + 2 * items.slope[:, 0].abs().log()


def learn(problem: Problem, items: ItemTensors) -> Hierarchy:
    """Mean and covariance of (log |a|, d) over items: an EM step from the mode.

    The sum over items of (mode - mean)(mode - mean)' and of their posterior covariance, divided by their number less 2:
    1 for the mean, which is estimated, and 1 for the density of the standard deviations.
    """
    covariance, _ = own_covariances(problem, items)
    by_log = torch.stack([1 / items.slope[:, 0], torch.ones_like(items.intercept)], dim=1)
    values = torch.stack([items.slope[:, 0].abs().log(), items.intercept], dim=1)
    mean = values.mean(dim=0)
    within = (covariance[:, LINEAR, LINEAR] * by_log[:, :, None] * by_log[:, None, :]).sum(dim=0)
    total = ((values - mean).T @ (values - mean) + within) / max(len(values) - 2, 1)
    deviation = torch.diagonal(total).sqrt()
    return Hierarchy(
        (float(mean[0]), float(mean[1])),
        (max(float(deviation[0]), LEAST_DEVIATION), max(float(deviation[1]), LEAST_DEVIATION)),
        float(total[0, 1] / (deviation[0] * deviation[1])),
    )


@dataclass(frozen=True)
class Place:
    """A value of the standard deviation of log |a|, and the items' posterior there.

    Parameters
    ----------
    log_deviation
        Its logarithm.
    log_density
        Of the posterior of that logarithm, up to a constant.
    moments
        Of the items.
    """

    log_deviation: float
    log_density: float
    moments: ItemMoments


def with_deviation(prior: Hierarchy, deviation: float) -> Hierarchy:
    """The prior with another standard deviation of log |a|, the regression of d on log |a| being as it was."""
    slope = prior.correlation * prior.deviation[1] / prior.deviation[0]
    rest = prior.deviation[1] * math.sqrt(1 - prior.correlation**2)
    total = math.hypot(slope * deviation, rest)
    return replace(prior, deviation=(deviation, total), correlation=slope * deviation / total)


def uncertainty(problem: Problem, items: ItemTensors, prior: Hierarchy) -> float:
    """Approximate standard deviation of log sd of log |a|: 1 / sqrt(2 sum (1 - r)^2).

    r is the share of the prior's variance that is left in an item's posterior: the sum is the information of normal
    values that are known with error.
    """
    covariance, _ = own_covariances(problem, items)
    left = covariance[:, 0, 0] / (items.slope[:, 0] * prior.deviation[0]) ** 2
    return float((2 * (1 - left.clamp(0, 1)).square().sum()).clamp(min=WIDEST**-2).rsqrt())


def averaged_over_prior(
    mode_under: Callable[[Hierarchy], tuple[Problem, Estimate]], problem: Problem, items: ItemTensors, prior: Hierarchy
) -> tuple[Hierarchy, ItemMoments]:
    """Moments of the items averaged over the standard deviation of log |a|, and the prior with what is known of that.

    Parameters
    ----------
    mode_under
        The problem with a prior, and the mode there.
    problem, items
        With the learnt prior, and the mode there.
    prior
        The learnt one.
    """
    width = uncertainty(problem, items, prior)
    places = []
    for step in PLACES if width > SURE else (0.0,):
        log_deviation = math.log(prior.deviation[0]) + step * width
        there, mode = mode_under(with_deviation(prior, math.exp(log_deviation)))
        covariance, log_determinant = own_covariances(there, mode.items)
        log_density = mode.log_posterior - 0.5 * float(log_determinant.sum()) + log_deviation
        places.append(Place(log_deviation, log_density, moments_of(mode.items, covariance, problem.guessing_free)))
    weights = torch.softmax(items.intercept.new_tensor([place.log_density for place in places]), dim=0)
    at = items.intercept.new_tensor([place.log_deviation for place in places])
    mean = float(weights @ at)
    spread = float((weights @ (at - mean) ** 2).sqrt()) if len(places) > 1 else width
    return replace(prior, uncertainty=spread), mixed([place.moments for place in places], weights)


def with_shared_error(problem: Problem, mode: ItemTensors, averaged: ItemMoments) -> tuple[ItemMoments, bool]:
    """Moments with the covariances that items have from abilities being uncertain, and whether this is a maximum.

    Around the mode of the learnt prior the whole information is inverted, see `parameter_covariance`; what the average
    over the prior adds to the items' own covariances there is added to that.
    """
    covariance, definite = parameter_covariance(problem, mode)
    free = problem.guessing_free
    shared = moments_of(mode, covariance, free).covariance
    alone = moments_of(mode, own_covariances(problem, mode)[0], free).covariance
    return replace(averaged, covariance=averaged.covariance + shared - alone), definite
