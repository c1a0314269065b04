"""The prior of (log |a|, d), and the mean of that of c, learnt from the items' posteriors; and how sure it is.

What is maximised over the prior's covariance is the likelihood of the responses with each item integrated out, the
others being at the mode and abilities integrated out (`item_posteriors`). With few responses an item that likelihood is
flat in the standard deviation s of log |a|, and often highest at zero: slopes would then be taken for alike, with
intervals too short for all of them. So s^2 has itself a density, the scaled inverse chi-square of 2 degrees of freedom
at .5^2, as if two slopes had been seen before: s lies between .26 and 3.1 with 95%. And items are averaged over s, by
its posterior on the scale of its logarithm. The standard deviation of d, of which the responses tell much more, has the
density Gamma(2, rate -> 0), which is proportional to it and keeps a mode off zero (Chung, Rabe-Hesketh, Dorie, Gelman &
Liu, 2013).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from scipy.special import digamma
from torch import Tensor

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
SEEN, SEEN_DEVIATION = 2.0, 0.5  # the density of s: as many slopes seen before, of that standard deviation of log |a|
LEAST_DEVIATION = 0.02  # items alike in slope would drive it to nothing


def learn(posteriors: ItemPosteriors) -> Hierarchy:
    """Mean and covariance of (log |a|, d) over items: an EM step from their posteriors.

    With m the posterior mean of each of J items, the sum over items of (m - mean)(m - mean)' and of the covariance is
    divided by J - 2: 1 for the mean, which is estimated, and 1 for the density of the standard deviation of d. For log
    |a| it is the mode under the density of s^2, on the scale of log s: what was seen before is added to the sum, and to
    J - 1. The correlation is that of the sums.
    """
    values = posteriors.logs.mean[:, :2]
    n, mean = len(values), values.mean(dim=0)
    sums = (values - mean).T @ (values - mean) + posteriors.logs.covariance[:, :2, :2].sum(dim=0)
    by_slope, by_intercept = float(sums[0, 0]), float(sums[1, 1])
    spread = math.sqrt((by_slope + SEEN * SEEN_DEVIATION**2) / (n - 1 + SEEN))
    return Hierarchy(
        (float(mean[0]), float(mean[1])),
        (max(spread, LEAST_DEVIATION), max(math.sqrt(by_intercept / max(n - 2, 1)), LEAST_DEVIATION)),
        float(sums[0, 1]) / math.sqrt(by_slope * by_intercept),
    )


def log_density_of_deviation(log_deviation: float) -> float:
    """Of log s under the scaled inverse chi-square density of s^2, up to a constant."""
    return -SEEN * (log_deviation + 0.5 * SEEN_DEVIATION**2 * math.exp(-2 * log_deviation))


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
        density = there.log_evidence + log_density_of_deviation(log_deviation)
        places.append(Place(log_deviation, density, there))
    weights = torch.softmax(middle.logs.mean.new_tensor([place.log_density for place in places]), dim=0)
    at = weights.new_tensor([place.log_deviation for place in places])
    spread = float((weights @ (at - weights @ at) ** 2).sqrt())
    logs, moments = (
        mixed(list(parts), weights)
        for parts in zip(*((place.posteriors.logs, place.posteriors.moments) for place in places), strict=True)
    )
    return replace(prior, uncertainty=spread), replace(middle, logs=logs, moments=moments)


def with_shared_error(problem: Problem, mode: ItemTensors, averaged: ItemPosteriors) -> tuple[ItemPosteriors, Tensor]:
    """Posteriors with the covariances that items have from abilities being uncertain, and the items not determined.

    What the inverse of the whole information at the mode (`parameter_covariance`) has more than that of each item's own
    is added.
    """
    whole, loose = parameter_covariance(problem, mode)
    own = own_covariances(problem, mode)[0]
    free = problem.guessing_free
    shared = moments_of(mode, whole, free).covariance - moments_of(mode, own, free).covariance
    moments = replace(averaged.moments, covariance=averaged.moments.covariance + shared)
    logs = replace(averaged.logs, covariance=averaged.logs.covariance + by_logs(mode, whole - own))
    return replace(averaged, logs=logs, moments=moments), loose
