"""The densities of the items drawn given the items: their conditional posteriors, for Gibbs sampling.

The densities of the standard deviation of log |a| and of the mean of c are those of `learnt_prior`.
"""

from __future__ import annotations

import math

import pyro.distributions as dist
import torch
from scipy.special import betaln, polygamma
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.estimation.few_respondents.learnt_prior import SEEN, SEEN_DEVIATION
from irtbench.models.priors import GuessingPrior, Hierarchy

WALK = 2.38  # standard deviations of a random walk, by the root of the dimension (Roberts, Gelman & Gilks, 1997)
STEPS_OF_MEAN = 4  # of the mean of c, given items


def hierarchy_given(values: Tensor) -> Hierarchy:
    """Mean and covariance of (log |a|, b) drawn given these of all items, shape (n_items, 2).

    The variance of log |a| is scaled inverse chi-square, of the items and of what was seen before; b is a
    regression on log |a| whose residual standard deviation has a density proportional to it, the rest being flat.
    """
    n, mean = len(values), values.mean(dim=0)
    sums = (values - mean).T @ (values - mean)
    variance = (sums[0, 0] + SEEN * SEEN_DEVIATION**2) / chi_square(n - 1 + SEEN, values)
    rise = sums[0, 1] / sums[0, 0]
    rest = (sums[1, 1] - rise * sums[0, 1]) / chi_square(n - 4, values)
    z = torch.randn(3, dtype=values.dtype)
    rise = rise + (rest / sums[0, 0]).sqrt() * z[0]
    by_slope = (variance / n).sqrt() * z[1]
    deviation = (rest + rise**2 * variance).sqrt()
    middle = mean[0] + by_slope, mean[1] + (rest / n).sqrt() * z[2] + rise * by_slope
    correlation = float(rise * variance.sqrt() / deviation)
    return Hierarchy(
        (float(middle[0]), float(middle[1])), (float(variance.sqrt()), float(deviation)), correlation, of="difficulty"
    )


def chi_square(freedom: float, like: Tensor) -> Tensor:
    """A draw with so many degrees of freedom."""
    draw: Tensor = dist.Chi2(like.new_tensor(freedom)).sample()
    return draw


def guessing_given(logit: Tensor, guessing: GuessingPrior, start: GuessingPrior) -> GuessingPrior:
    """The density of c with its mean drawn given logit c of all items, by a few steps of a random walk."""
    weight = guessing.first + guessing.second
    by_right, by_wrong = float(logsigmoid(logit).sum()), float(logsigmoid(-logit).sum())
    sure = polygamma(1, guessing.first) + polygamma(1, guessing.second)
    width = WALK / math.sqrt(len(logit) * float(sure)) * weight / (guessing.first * guessing.second)

    def log_density(density: GuessingPrior) -> float:
        own = density.first * by_right + density.second * by_wrong - len(logit) * betaln(density.first, density.second)
        return float(own) + log_density_of_mean(density, start)

    for step in (width * torch.randn(STEPS_OF_MEAN, dtype=logit.dtype)).tolist():
        other = moved(guessing, step)
        if bool(accepted(logit.new_tensor(log_density(other) - log_density(guessing)))):
            guessing = other
    return guessing


def moved(guessing: GuessingPrior, by: float) -> GuessingPrior:
    """The Beta density of the same weight with another logit of its mean."""
    weight = guessing.first + guessing.second
    mean = 1 / (1 + math.exp(-math.log(guessing.first / guessing.second) - by))
    return GuessingPrior("beta", weight * mean, weight * (1 - mean))


def log_density_of_mean(guessing: GuessingPrior, start: GuessingPrior) -> float:
    """Of the logit of the mean of c: that of c before anything was learnt, up to a constant."""
    weight = guessing.first + guessing.second
    return start.first * math.log(guessing.first / weight) + start.second * math.log(guessing.second / weight)


def accepted(gain: Tensor) -> Tensor:
    """Which steps are taken, `gain` being the logarithm of the ratio of Metropolis and Hastings."""
    return torch.rand_like(gain).log() < gain
