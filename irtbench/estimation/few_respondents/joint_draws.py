"""Abilities, items and the items' densities drawn together: few respondents, more items, guessing.

Where items outnumber respondents and are guessed, neither can be taken as known for the other: the posterior of an
item's (log |a|, d, logit c) is skewed, and an ability's error depends on all of it. Normal approximations around the
mode made intervals of abilities too short. So their joint posterior is drawn from (`joint_chain`), from where empirical
Bayes has led. Whether the chains agree is judged by R-hat (Gelman & Rubin, 1992, each chain in halves).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from pyro.ops.stats import split_gelman_rubin
from torch import Tensor

from irtbench.estimation.few_respondents.item_posteriors import ItemPosteriors
from irtbench.estimation.few_respondents.joint_abilities import joint_abilities
from irtbench.estimation.few_respondents.joint_chain import Chain, State
from irtbench.estimation.few_respondents.prior_draws import moved
from irtbench.estimation.item_quantiles import QUANTILES
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.priors import Hierarchy, Priors
from irtbench.models.pyro_model.item_tensors import GUESSING, INTERCEPT, LINEAR, ItemTensors
from irtbench.models.pyro_model.rows import DenseRows

MOST_RESPONDENTS = 500
MOST_CELLS = 500_000  # respondents x items: a sweep looks at all of them six times
CHAINS, WARM_UP, SWEEPS = 2, 150, 500  # sweeps that are left out, and that are kept, of each chain
MOST_ROUNDS = 4  # of so many sweeps
MOST_R_HAT = 1.1


@dataclass(frozen=True)
class JointDraws:
    """Moments and quantiles over the draws.

    Parameters
    ----------
    theta
        Posterior means of abilities, which in every draw have mean 0 and standard deviation 1, shape (n_respondents,).
    theta_covariance
        Shape (n_respondents, n_respondents).
    items
        Posterior means of (a, d, c).
    covariance
        Of each item's (a, d, c), shape (n_items, 3, 3).
    quantiles
        Of each item's (a, b, c), shape (3, n_items, 3).
    priors
        Posterior means of the densities' parameters.
    r_hat
        Largest of any ability and any parameter of an item.
    n_draws
        Kept.
    """

    theta: Tensor
    theta_covariance: Tensor
    items: ItemTensors
    covariance: Tensor
    quantiles: Tensor
    priors: Priors
    r_hat: float
    n_draws: int

    @property
    def agree(self) -> bool:
        """Whether the chains have come together."""
        return self.r_hat < MOST_R_HAT


def drawn_together(problem: Problem) -> bool:
    """Whether abilities and items are: guessing is estimated, and items outnumber up to 500 respondents."""
    n, n_items = len(problem.rows), len(problem.guessing_free)
    few = n < n_items and n <= MOST_RESPONDENTS and n * n_items <= MOST_CELLS
    return bool(problem.guessing_free.any()) and few and isinstance(problem.rows, DenseRows)


def draw_together(
    problem: Problem,
    mode: ItemTensors,
    posteriors: ItemPosteriors,
    priors: Priors,
    start: Priors,
    *,
    progress: Callable[[str], None] = lambda message: None,
) -> JointDraws:
    """Draw until the chains agree, by torch's random numbers.

    Parameters
    ----------
    problem
        Dense rows of responses.
    mode
        Items whose slopes have the sign, and whose c is that of items where it is fixed.
    posteriors
        Where proposals come from: items' posteriors as they are without drawing.
    priors, start
        Learnt so far, and before anything was learnt.
    progress
        Told of each round of sweeps.
    """
    abilities = joint_abilities(problem, mode)
    assert abilities is not None
    chain = Chain.of(problem, mode, posteriors, abilities, priors, start)
    states = [chain.started(priors) for _ in range(CHAINS)]
    for _ in range(WARM_UP):
        states = [chain.swept(state) for state in states]
    theta, items, densities = [], [], []
    for done in range(1, MOST_ROUNDS + 1):
        for _ in range(SWEEPS):
            states = [chain.swept(state) for state in states]
            theta.append(torch.stack([state.theta for state in states]))
            items.append(torch.stack([state.items for state in states]))
            densities.append(torch.stack([numbers_of(state) for state in states]))
        found = summary(chain, torch.stack(theta, 1), torch.stack(items, 1), torch.stack(densities, 1), priors)
        progress(f"{done * SWEEPS} sweeps of {CHAINS} chains, largest R-hat {found.r_hat:.3f}")
        if found.agree:
            break
    return found


def numbers_of(state: State) -> Tensor:
    """Means of log |a| and b, log standard deviations, Fisher's z of the correlation, and logit of the mean of c."""
    prior, guessing = state.hierarchy, state.guessing
    values = [*prior.mean, *(math.log(deviation) for deviation in prior.deviation), math.atanh(prior.correlation)]
    if guessing is not None and guessing.density == "beta":
        values.append(math.log(guessing.first / guessing.second))
    return state.items.new_tensor(values)


def summary(chain: Chain, theta: Tensor, items: Tensor, densities: Tensor, priors: Priors) -> JointDraws:
    """Moments and quantiles of draws whose first two dimensions are chains and sweeps."""
    together = torch.cat([theta, items[..., LINEAR].flatten(2), items[:, :, chain.free, GUESSING]], dim=2)
    r_hat = float(split_gelman_rubin(together).max())
    theta, items, densities = (part.flatten(0, 1) for part in (theta, items, densities))
    slope, intercept = chain.sign * items[:, :, 0].exp(), items[:, :, INTERCEPT]
    c = chain.guessing_of(items)
    values = torch.stack([slope, intercept, c], dim=2)
    mean = values.mean(dim=0)
    away = (values - mean).transpose(0, 1)
    levels = mean.new_tensor(list(QUANTILES.values()))
    quantiles = torch.quantile(torch.stack([slope, -intercept / slope, c], dim=2), levels, dim=0)
    n = len(theta)
    return JointDraws(
        theta.mean(dim=0), torch.cov(theta.T), ItemTensors.from_matrix(mean), away.mT @ away / (n - 1), quantiles,
        learnt(densities, priors), r_hat, n,
    )  # fmt: skip


def learnt(densities: Tensor, priors: Priors) -> Priors:
    """The priors with the mean of the numbers of the draws, shape (n_draws, n_numbers)."""
    log_a, b, log_deviation, log_deviation_b, z, *logit = densities.mean(dim=0).tolist()
    deviation = math.exp(log_deviation), math.exp(log_deviation_b)
    uncertainty = float(densities[:, 2].std())
    hierarchy = Hierarchy((log_a, b), deviation, math.tanh(z), of="difficulty", uncertainty=uncertainty)
    guessing = priors.guessing
    if logit and guessing is not None:
        guessing = moved(guessing, logit[0] - math.log(guessing.first / guessing.second))
    return replace(priors, hierarchy=hierarchy, guessing=guessing)
