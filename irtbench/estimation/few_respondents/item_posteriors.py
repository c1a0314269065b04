"""What responses say of an item with abilities integrated out, and of abilities with the items integrated out.

Belief propagation (Pearl, 1988; Yedidia, Freeman & Weiss, 2005) on the graph of respondents and items, whose edges are
responses. What respondent i adds to the likelihood of item j is an average over theta's posterior given the responses
to all other items,

    p_ij(item) = sum_q w_iq P(x_ij | theta_q, item) / P_j(x_ij | theta_q)   (up to a constant),

w_iq the posterior given all responses and P_j item j's curve averaged over its own posterior. What item j adds to the
likelihood of theta_i is an average over the item's posterior given the responses of all others,

    m_ij(theta) = sum_g u_jg P(x_ij | theta, item_g) / p_ij(item_g),

u_jg the posterior given all. So no response is counted twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from irtbench.estimation.few_respondents.item_grid import LEAST, ItemGrid, probabilities, right_or_wrong
from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.missing_information import posteriors
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.categories import Alike
from irtbench.models.pyro_model.tensors import ItemTensors

CELLS = 2**18  # items x nodes x respondents at once
FEW_ANSWER = 0.5  # share of the respondents


@dataclass(frozen=True)
class Surroundings:
    """What the likelihood of an item needs to know of abilities and of all other items.

    Parameters
    ----------
    theta
        Nodes, shape (n_nodes,).
    posterior
        Of theta given all responses, shape (n_nodes, n_respondents).
    curves
        Probabilities of each category (wrong and right) at the nodes, averaged over each item's posterior, shape
        (n_categories, n_items, n_nodes).
    numbers
        Of responses in each category, shape (n_categories, n_respondents, n_items).
    outcomes
        Numbers that occur together.
    """

    theta: Tensor
    posterior: Tensor
    curves: Tensor
    numbers: Tensor
    outcomes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, problem: Problem, items: ItemTensors) -> Surroundings:
        """With the items as known."""
        (kinds, x), theta = kinds_of(problem, items), problem.nodes.theta[:, 0]
        posterior, given, asked = known_posteriors(problem, items)
        n = max(part.n_categories for part in kinds)
        numbers, known = asked.new_zeros(n, *asked.shape), x.new_ones(n, len(x), len(theta))
        for part in kinds:
            later = given[:, part.columns].permute(2, 0, 1)
            numbers[0, :, part.items] = asked[:, part.items] - later.sum(dim=0, dtype=asked.dtype)
            numbers[1 : part.n_categories, :, part.items] = later
            of_part = torch.cat(probabilities(part.model, part.own(x)[:, None], theta), dim=1)
            known[: part.n_categories, part.items] = of_part.transpose(0, 1)
        return cls(theta, posterior, known, numbers, outcomes_of(numbers))

    def of_items(self, chosen: Tensor) -> Surroundings:
        """With these items alone."""
        return replace(self, curves=self.curves[:, chosen], numbers=self.numbers[:, :, chosen])

    @cached_property
    def who(self) -> Tensor:
        """Respondents of each item: all, or those who answered where these are few, shape (n_items, n_who).

        An item with fewer than others has some who did not.
        """
        answered = self.numbers.sum(dim=0).T > 0
        most = int(answered.sum(dim=1).max())
        if most > FEW_ANSWER * answered.shape[1]:
            return torch.arange(answered.shape[1], device=answered.device).expand(len(answered), -1)
        return answered.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :most]

    def parts(self, grid: ItemGrid) -> Iterator[tuple[slice, Tensor, tuple[Tensor, ...], list[tuple[Tensor, Tensor]]]]:
        """A few items at a time: which, what each respondent's responses add to their likelihood at each node, curves.

        What is added has the shape (n_items, n_places, n_who), 1 where there is no response; last, for each set of
        numbers of responses that occurs, whose it is, shape (n_items, 1, n_who), and its probability at each place and
        node of ability, shape (n_items, n_places, n_nodes), as are the curves.
        """
        places, n_who, every = grid.linear, self.who.shape[1], torch.arange(len(grid.sign), device=self.who.device)
        for part in chunks(len(places), len(self.theta) * max(places.shape[1], n_who)):
            who, posterior = self.who[part], self.posterior
            if n_who < posterior.shape[1]:
                posterior = posterior[:, who].movedim(1, 0)
            curves = grid.of_items(part, grid.counts[part]).curves(places[part], self.theta)
            numbers = self.numbers[:, who, every[part, None]][:, :, None, :]
            added, outcomes = torch.ones_like(curves[0][:, :, :1]), []
            for times in self.outcomes:
                here = torch.stack([of == k for of, k in zip(numbers, times, strict=True)]).all(dim=0)
                curve, average = outcome(curves, times), outcome(self.curves[:, part], times)[:, None, :]
                of_others = (curve / average) @ posterior / (average.reciprocal() @ posterior)
                added = torch.where(here, of_others.clamp(min=LEAST), added)
                outcomes.append((here, curve))
            yield part, added, curves, outcomes

    def passed(self, grid: ItemGrid, mass_of: Callable[[slice, Tensor], Tensor]) -> tuple[Surroundings, Tensor]:
        """Abilities' posteriors given those of the items, and items' log-likelihoods at their nodes given abilities'.

        Parameters
        ----------
        grid
            Nodes of the items.
        mass_of
            Posterior mass of the nodes of some items, given their log-likelihoods.
        """
        levels, averages = [], []
        log_posterior = (-0.5 * self.theta**2).repeat(self.posterior.shape[1], 1)
        for part, added, curves, outcomes in self.parts(grid):
            level = added.log().sum(dim=2)
            mass = mass_of(part, level)
            share = mass[:, :, None] / added
            heard = [(share * here).mT @ curve for here, curve in outcomes]
            none = ~torch.stack([here for here, _ in outcomes]).any(dim=0).mT
            message = (torch.stack(heard).sum(dim=0) + none).log()
            message = grid.counts[part, None, None] * message
            log_posterior.index_add_(0, self.who[part].flatten(), message.flatten(0, 1))
            levels.append(level)
            averages.append(torch.stack([(mass[:, None, :] @ curve)[:, 0] for curve in curves]))
        posterior = torch.softmax(log_posterior, dim=1).T
        return replace(self, posterior=posterior, curves=torch.cat(averages, dim=1)), torch.cat(levels)

    @property
    def abilities(self) -> tuple[Tensor, Tensor]:
        """Posterior means and variances of theta, shape (n_respondents,) each."""
        mean = self.theta @ self.posterior
        return mean, self.theta**2 @ self.posterior - mean**2

    @property
    def standardised_abilities(self) -> tuple[Tensor, Tensor]:
        """Posterior means, and their covariance among abilities that keep their mean and standard deviation.

        Shapes (n_respondents,) and (n_respondents, n_respondents), of rank n_respondents - 2.
        """
        mean, variance = self.abilities
        free = torch.linalg.svd(torch.stack([torch.ones_like(mean), mean]), full_matrices=True).Vh[2:]
        return mean, free.T @ torch.linalg.inv((free / variance) @ free.T) @ free

    def log_likelihoods(self, grid: ItemGrid) -> Tensor:
        """Log-likelihood of the items at their nodes, up to a constant of each, shape (n_items, n_nodes)."""
        return torch.cat([added.log().sum(dim=2) for _, added, _, _ in self.parts(grid)])


def kinds_of(problem: Problem, items: ItemTensors) -> tuple[tuple[Alike, ...], Tensor]:
    """Models and numbers of categories that there are, and the models' parameters, shape (n_items, width)."""
    if isinstance(problem, CategoryProblem):
        return problem.scale.parts, items.matrix
    every = torch.arange(len(items), device=items.intercept.device)
    return right_or_wrong(every), torch.cat([items.linear, torch.logit(items.guessing)[:, None]], dim=1)


def known_posteriors(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor, Tensor]:
    """Of theta with the items as known, (n_nodes, n_respondents), and numbers of responses by column and by item."""
    each, given, asked = [], [], []
    for batch, posterior in posteriors(problem, items, 0):
        each.append(posterior)
        given.append(batch.correct.to_dense().to(torch.int16))
        n_asked = batch.observed if batch.observed is not None else batch.correct.new_ones(len(batch), len(items))
        asked.append(n_asked.to_dense().to(torch.int16))
    return torch.cat(each).T, torch.cat(given), torch.cat(asked)


def outcomes_of(numbers: Tensor) -> tuple[tuple[int, ...], ...]:
    """Numbers of responses of each kind that occur together, but for none at all."""
    together = numbers.flatten(1).T.unique(dim=0)
    return tuple(tuple(times) for times in together.tolist() if any(times))


def outcome(curves: Iterable[Tensor], times: tuple[int, ...]) -> Tensor:
    """Probability of so many responses of each kind in one order."""
    powers = [curve if k == 1 else curve**k for curve, k in zip(curves, times, strict=True) if k]
    return math.prod(powers[1:], start=powers[0])


def chunks(n_items: int, cells: int) -> Iterator[slice]:
    """Ranges of items such that items x `cells` stay few."""
    most = max(1, CELLS // cells)
    return (slice(first, min(first + most, n_items)) for first in range(0, n_items, most))
