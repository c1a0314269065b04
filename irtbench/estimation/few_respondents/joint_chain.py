"""A Markov chain of abilities, items and the items' densities, whose stationary density is their joint posterior.

The model is

    theta_i ~ N(0, 1),   (log |a_j|, b_j) ~ N(mean, covariance),   c_j ~ Beta(w m, w (1 - m)),

with densities of covariance and m as `learnt_prior` states them; a normal density of b remains one when location and
scale of theta change, as one of d would not. Gibbs sampling with Metropolis steps (Tierney, 1994): given abilities
items are independent of each other, and given items abilities, so that a step of all of either costs one look at every
response. Steps are in turns proposals from a t density and random walks. Location and scale of the latent trait are
fixed as elsewhere: in every sweep respondents are standardised, and items with them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pyro.distributions as dist
import torch
from torch import Tensor

from irtbench.estimation.few_respondents.item_posteriors import ItemPosteriors, curves, root_of_covariance
from irtbench.estimation.few_respondents.learnt_prior import log_density_of_deviation, uncertainty
from irtbench.estimation.few_respondents.prior_draws import (
    WALK,
    accepted,
    guessing_given,
    hierarchy_given,
    log_density_of_mean,
    moved,
)
from irtbench.estimation.few_respondents.random_items import standardise
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.priors import GuessingPrior, Hierarchy, Priors
from irtbench.models.pyro_model.item_tensors import GUESSING, INTERCEPT, ItemTensors
from irtbench.models.pyro_model.model import guessing_density, hierarchy_density
from irtbench.models.pyro_model.rows import DenseRows

FREEDOM = 6.0  # degrees of freedom of the proposals' t density
WIDER = 1.15  # its standard deviations, in those found by empirical Bayes
TOGETHER = 1.2  # standard deviations of a step of all items together: four in ten are taken, with WALK two
LEAST_TOLD = 0.05  # share of a prior's variance that responses are taken to remove at least


@dataclass(frozen=True)
class State:
    """Where a chain is.

    Parameters
    ----------
    theta
        Abilities, shape (n_respondents,).
    items
        Values of (log |a|, d, logit c), shape (n_items, 3); 0 for logit c where c is fixed.
    level
        Log-likelihood of each respondent's responses to each item, shape (n_respondents, n_items).
    hierarchy, guessing
        Densities of (log |a|, b) and of c.
    """

    theta: Tensor
    items: Tensor
    level: Tensor
    hierarchy: Hierarchy
    guessing: GuessingPrior | None


@dataclass(frozen=True)
class Chain:
    """What the steps need to know.

    Parameters
    ----------
    right, wrong
        Numbers of responses, shape (n_respondents, n_items).
    sign
        Of the slopes, shape (n_items,).
    free, fixed
        Where c is estimated, and its value elsewhere, shape (n_items,).
    of_items, of_abilities
        Densities that proposals are drawn from, a row for each.
    widths
        Standard deviations of what is known of the mean of log |a|, of its log standard deviation, and of logit m.
    start
        Priors before anything was learnt.
    """

    right: Tensor
    wrong: Tensor
    sign: Tensor
    free: Tensor
    fixed: Tensor
    of_items: dist.MultivariateStudentT
    of_abilities: dist.MultivariateStudentT
    widths: tuple[float, float, float]
    start: Priors

    @classmethod
    def of(
        cls,
        problem: Problem,
        mode: ItemTensors,
        posteriors: ItemPosteriors,
        abilities: tuple[Tensor, Tensor],
        priors: Priors,
        start: Priors,
    ) -> Chain:
        """The chain of these data; see `draw_together`."""
        assert isinstance(problem.rows, DenseRows)
        theta, covariance = abilities
        right = problem.rows.right.to(theta)
        root = root_of_covariance(posteriors.logs.covariance, problem, Hierarchy())
        deviation = covariance.diagonal().sqrt()[:, None, None]
        freedom = theta.new_tensor(FREEDOM)
        assert priors.hierarchy is not None
        assert priors.guessing is not None
        own = posteriors.logs.covariance
        widths = (
            width_of_mean(own[:, 0, 0], priors.hierarchy.deviation[0]),
            uncertainty(posteriors, priors.hierarchy),
            width_of_mean(own[problem.guessing_free, GUESSING, GUESSING], priors.guessing.logit_deviation),
        )
        return cls(
            right,
            problem.rows.asked.to(theta) - right,
            mode.slope[:, 0].sign(),
            problem.guessing_free,
            mode.guessing,
            dist.MultivariateStudentT(freedom, posteriors.logs.mean, WIDER * root),
            dist.MultivariateStudentT(freedom, theta[:, None], WIDER * deviation),
            widths,
            start,
        )

    def started(self, priors: Priors) -> State:
        """A place drawn from the proposals."""
        theta, items = self.of_abilities.sample()[:, 0], self.of_items.sample()
        hierarchy = hierarchy_given(self.pairs_of(items))
        return State(theta, items, self.levels(theta, items), hierarchy, priors.guessing)

    def levels(self, theta: Tensor, items: Tensor) -> Tensor:
        """Log-likelihood of each response, shape (n_respondents, n_items)."""
        slope, c = self.sign * items[:, 0].exp(), self.guessing_of(items)
        right, wrong = curves(torch.addcmul(items[:, INTERCEPT], theta[:, None], slope), c)
        return self.right * right.log() + self.wrong * wrong.log()

    def guessing_of(self, items: Tensor) -> Tensor:
        """Asymptotes c of items whose last dimension is (log |a|, d, logit c)."""
        return torch.where(self.free, torch.sigmoid(items[..., GUESSING]), self.fixed)

    def pairs_of(self, items: Tensor) -> Tensor:
        """Values (log |a|, b) of items whose last dimension is (log |a|, d, logit c)."""
        log_slope = items[..., 0]
        return torch.stack([log_slope, -self.sign * items[..., INTERCEPT] * (-log_slope).exp()], dim=-1)

    def log_prior(self, items: Tensor, state: State) -> Tensor:
        """Log density of each item's (log |a|, d, logit c), the last dimension of `items`."""
        pairs = self.pairs_of(items)
        own = hierarchy_density(state.hierarchy, pairs).log_prob(pairs) - items[..., 0]  # db = dd / |a|
        return own + self.log_prior_of_guessing(items, state.guessing)

    def log_prior_of_guessing(self, items: Tensor, guessing: GuessingPrior | None) -> Tensor:
        """That of logit c alone; 0 where c is fixed."""
        logit = items[..., GUESSING]
        return torch.where(self.free, guessing_density(guessing, logit).log_prob(logit), 0.0)

    def swept(self, state: State) -> State:
        """Every parameter drawn once more, items and abilities twice."""
        for walking in (False, True):
            state = self.with_items(state, walking=walking)
            state = self.with_abilities(state, walking=walking)
        state = self.with_standard_abilities(state)
        state = replace(state, hierarchy=hierarchy_given(self.pairs_of(state.items)))
        state = self.with_slopes_together(state)
        if state.guessing is None or self.start.guessing is None or state.guessing.density != "beta":
            return state
        guessing = guessing_given(state.items[self.free, GUESSING], state.guessing, self.start.guessing)
        return self.with_guessing_together(replace(state, guessing=guessing), self.start.guessing)

    def with_items(self, state: State, *, walking: bool) -> State:
        """A step of each item, given abilities and densities."""
        at = self.walk_from(state.items, self.of_items) if walking else self.of_items.sample()
        level = self.levels(state.theta, at)
        both = torch.stack([at, state.items])
        worth = self.log_prior(both, state)
        if not walking:
            worth -= self.of_items.log_prob(both)
        gain = level.sum(dim=0) - state.level.sum(dim=0) + worth[0] - worth[1]
        taken = accepted(gain)
        return replace(
            state,
            items=torch.where(taken[:, None], at, state.items),
            level=torch.where(taken, level, state.level),
        )

    def with_abilities(self, state: State, *, walking: bool) -> State:
        """A step of each ability, given items."""
        before = state.theta[:, None]
        at = self.walk_from(before, self.of_abilities) if walking else self.of_abilities.sample()
        level = self.levels(at[:, 0], state.items)
        both = torch.stack([at, before])
        worth = -0.5 * both[..., 0] ** 2
        if not walking:
            worth -= self.of_abilities.log_prob(both)
        gain = level.sum(dim=1) - state.level.sum(dim=1) + worth[0] - worth[1]
        taken = accepted(gain)
        return replace(
            state,
            theta=torch.where(taken, at[:, 0], state.theta),
            level=torch.where(taken[:, None], level, state.level),
        )

    def walk_from(self, values: Tensor, proposals: dist.MultivariateStudentT) -> Tensor:
        """A step of a random walk from each row, as wide as suits a normal density of the proposals' width."""
        root = proposals.scale_tril * (WALK / WIDER / math.sqrt(values.shape[1]))
        return values + (root @ torch.randn_like(values)[:, :, None])[:, :, 0]

    def with_standard_abilities(self, state: State) -> State:
        """The same curves for abilities of mean 0 and standard deviation 1."""
        mean, deviation = state.theta.mean(), state.theta.std(correction=0)
        items = state.items.clone()
        items[:, INTERCEPT] += self.sign * items[:, 0].exp() * mean
        items[:, 0] += deviation.log()
        return replace(state, theta=standardise(state.theta), items=items)

    def with_slopes_together(self, state: State) -> State:
        """A step of mean and deviation of log |a| with all items, each of which keeps its place in the density.

        Responses say little of a single slope, so that given all of them their density hardly moves: hence this step
        besides (Papaspiliopoulos, Roberts & Skoeld, 2007).
        """
        before = state.hierarchy
        by_mean, by_deviation = (TOGETHER / math.sqrt(2) * torch.randn(2, dtype=torch.float64)).tolist()
        mean = before.mean[0] + self.widths[0] * by_mean
        ratio = math.exp(self.widths[1] * by_deviation)
        items = state.items.clone()
        items[:, 0] = mean + ratio * (items[:, 0] - before.mean[0])
        items[:, INTERCEPT] *= (items[:, 0] - state.items[:, 0]).exp()
        deviation = ratio * before.deviation[0]
        after = replace(before, mean=(mean, before.mean[1]), deviation=(deviation, before.deviation[1]))
        level = self.levels(state.theta, items)
        gain = (level - state.level).sum() + log_density_of_deviation(math.log(deviation))
        gain -= log_density_of_deviation(math.log(before.deviation[0]))
        return replace(state, items=items, hierarchy=after, level=level) if bool(accepted(gain)) else state

    def with_guessing_together(self, state: State, start: GuessingPrior) -> State:
        """A step of the mean of the density of c and of logit c of all items, for the same reason."""
        before = state.guessing
        assert before is not None
        by = TOGETHER * self.widths[2] * float(torch.randn(()))
        items = state.items.clone()
        items[self.free, GUESSING] += by
        after = moved(before, by)
        level = self.levels(state.theta, items)
        gain = (level - state.level).sum() + log_density_of_mean(after, start) - log_density_of_mean(before, start)
        gain += self.log_prior_of_guessing(items, after).sum() - self.log_prior_of_guessing(state.items, before).sum()
        return replace(state, items=items, guessing=after, level=level) if bool(accepted(gain)) else state


def width_of_mean(left: Tensor, deviation: float) -> float:
    """Standard deviation of what is known of the mean of values with this standard deviation.

    Parameters
    ----------
    left
        Variance of each in its own posterior, shape (n_items,).
    deviation
        Of the values.
    """
    told = (1 - left / deviation**2).clamp(LEAST_TOLD, 1).sum()
    return deviation / math.sqrt(float(told))
