"""The prior of (log |a|, d), and the mean of that of c, learnt from the items' posteriors; and how sure it is.

What is maximised over the prior's covariance is the likelihood of the responses with each item integrated out, the
others being at the mode and abilities integrated out (`item_posteriors`). With few responses an item that
likelihood is flat in the standard deviation of log |a|,
and often highest at zero. So each standard deviation has itself the density Gamma(2, rate -> 0), which is proportional
to it and keeps a mode off zero (Chung, Rabe-Hesketh, Dorie, Gelman & Liu, 2013); and items are averaged over the
standard deviation of log |a|, whose own posterior that density of it, on the scale of its logarithm, is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from scipy.special import digamma

from irtbench.estimation.few_respondents.item_moments import mixed, moments_of
from irtbench.estimation.few_respondents.item_posteriors import ItemPosteriors, by_logs, own_covariances
from irtbench.estimation.marginal.observed_information import parameter_covariance
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.priors import GuessingPrior, Hierarchy
from irtbench.models.pyro_model.item_tensors import ItemTensors

PLACES = (-2.4, -1.2, 0.0, 1.2, 2.4)  # of log sd, in its standard deviations: sums so far apart integrate normal ones
WIDEST = 0.6  # standard deviation of log sd that places are made for
SURE = 0.02  # with a smaller one nothing is gained by other places than the middle one
HALVINGS = 50  # of the bracket of the mean of c
LEAST_DEVIATION = 0.02  # items alike in slope would drive it to nothing


def learn(posteriors: ItemPosteriors) -> Hierarchy:
    """Mean and covariance of (log |a|, d) over items: an EM step from their posteriors.

    The sum over items of (m - mean)(m - mean)' and of the covariance, m the posterior mean, divided by their number
    less 2: 1 for the mean, which is estimated, and 1 for the density of the standard deviations.
    """
    values = posteriors.logs.mean[:, :2]
    mean = values.mean(dim=0)
    within = posteriors.logs.covariance[:, :2, :2].sum(dim=0)
    total = ((values - mean).T @ (values - mean) + within) / max(len(values) - 2, 1)
    deviation = torch.diagonal(total).sqrt()
    return Hierarchy(
        (float(mean[0]), float(mean[1])),
        (max(float(deviation[0]), LEAST_DEVIATION), max(float(deviation[1]), LEAST_DEVIATION)),
        float(total[0, 1] / (deviation[0] * deviation[1])),
    )


def learn_guessing(
    posteriors: ItemPosteriors, n_items: int, guessing: GuessingPrior, start: GuessingPrior
) -> GuessingPrior:
    """The Beta density of c with its mean m learnt: an EM step from the items' posteriors.

    The weight w = alpha + beta stays. m maximises, with J items,

        J E[log Beta(c; w m, w (1 - m))] + alpha_0 log m + beta_0 log(1 - m),

    the last two being the density of logit m: that of c before anything was learnt.

    Parameters
    ----------
    posteriors
        Of the items.
    n_items
        Number of items whose c is estimated.
    guessing
        The density.
    start
        That which learning started from.
    """
    weight = guessing.first + guessing.second
    by_right, by_wrong = posteriors.log_guessing.tolist()

    def slope(m: float) -> float:
        """Derivative by m, which falls."""
        own = weight * (by_right - by_wrong - digamma(weight * m) + digamma(weight * (1 - m)))
        return float(n_items * own + start.first / m - start.second / (1 - m))

    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return GuessingPrior("beta", weight * middle, weight * (1 - middle))


@dataclass(frozen=True)
class Place:
    """A value of the standard deviation of log |a|, and the items' posterior there.

    Parameters
    ----------
    log_deviation
        Its logarithm.
    log_density
        Of the posterior of that logarithm, up to a constant.
    posteriors
        Of the items.
    """

    log_deviation: float
    log_density: float
    posteriors: ItemPosteriors


def with_deviation(prior: Hierarchy, deviation: float) -> Hierarchy:
    """The prior with another standard deviation of log |a|, the regression of d on log |a| being as it was."""
    slope = prior.correlation * prior.deviation[1] / prior.deviation[0]
    rest = prior.deviation[1] * math.sqrt(1 - prior.correlation**2)
    total = math.hypot(slope * deviation, rest)
    return replace(prior, deviation=(deviation, total), correlation=slope * deviation / total)


def uncertainty(posteriors: ItemPosteriors, prior: Hierarchy) -> float:
    """Approximate standard deviation of log sd of log |a|: 1 / sqrt(2 sum (1 - r)^2).

    r is the share of the prior's variance that is left in an item's posterior: the sum is the information of normal
    values that are known with error.
    """
    left = posteriors.logs.covariance[:, 0, 0] / prior.deviation[0] ** 2
    return float((2 * (1 - left.clamp(0, 1)).square().sum()).clamp(min=WIDEST**-2).rsqrt())


def averaged_over_prior(
    posteriors_under: Callable[[Hierarchy], ItemPosteriors], prior: Hierarchy
) -> tuple[Hierarchy, ItemPosteriors]:
    """The items' posteriors averaged over the standard deviation of log |a|, and the prior with what is known of that.

    Parameters
    ----------
    posteriors_under
        The items' posteriors under a prior.
    prior
        The learnt one.
    """
    middle = posteriors_under(prior)
    width = uncertainty(middle, prior)
    if width < SURE:
        return replace(prior, uncertainty=width), middle
    places = []
    for step in PLACES:
        log_deviation = math.log(prior.deviation[0]) + step * width
        there = middle if step == 0 else posteriors_under(with_deviation(prior, math.exp(log_deviation)))
        places.append(Place(log_deviation, there.log_evidence + log_deviation, there))
    weights = torch.softmax(middle.logs.mean.new_tensor([place.log_density for place in places]), dim=0)
    at = weights.new_tensor([place.log_deviation for place in places])
    spread = float((weights @ (at - weights @ at) ** 2).sqrt())
    logs, moments = (
        mixed(list(parts), weights)
        for parts in zip(*((place.posteriors.logs, place.posteriors.moments) for place in places), strict=True)
    )
    return replace(prior, uncertainty=spread), replace(middle, logs=logs, moments=moments)


def with_shared_error(problem: Problem, mode: ItemTensors, averaged: ItemPosteriors) -> tuple[ItemPosteriors, bool]:
    """Posteriors with the covariances that items have from abilities being uncertain, and whether this is a maximum.

    What the inverse of the whole information at the mode (`parameter_covariance`) has more than that of each item's own
    is added.
    """
    whole, definite = parameter_covariance(problem, mode)
    own = own_covariances(problem, mode)[0]
    free = problem.guessing_free
    shared = moments_of(mode, whole, free).covariance - moments_of(mode, own, free).covariance
    moments = replace(averaged.moments, covariance=averaged.moments.covariance + shared)
    logs = replace(averaged.logs, covariance=averaged.logs.covariance + by_logs(mode, whole - own))
    return replace(averaged, logs=logs, moments=moments), definite
