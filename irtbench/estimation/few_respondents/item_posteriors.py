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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from irtbench.estimation.few_respondents.item_grid import ItemGrid
from irtbench.estimation.marginal.missing_information import posteriors
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.pyro_model.tensors import GUESSING, INTERCEPT, ItemTensors

CELLS = 2**18  # items x nodes x respondents at once
FEW_ANSWER = 0.5  # share of the respondents
LEAST, FURTHEST = 1e-300, 600.0  # of a probability, and of a logit


@dataclass(frozen=True)
class Part:
    """Some items: which, their curves at places, and what each respondent's responses add to their likelihood there.

    Parameters
    ----------
    chosen
        Of the places given.
    who
        The respondents of each item, see `Surroundings.who`.
    outcomes
        For each set of numbers of responses that occurs, whose it is, shape (n_items, 1, n_who), and its
        probability at each place and node, shape (n_items, n_places, n_nodes).
    curves
        Probabilities of right and of wrong, or of each category, at each place and node.
    added
        Shape (n_items, n_places, n_who); 1 where there is no response.
    """

    chosen: slice
    who: Tensor
    outcomes: list[tuple[Tensor, Tensor]]
    curves: tuple[Tensor, ...]
    added: Tensor


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
        Probabilities of right and of wrong, or of each category, at the nodes, averaged over each item's posterior,
        shapes (n_items, n_nodes).
    numbers
        Of right and of wrong responses, or of those in each category, shapes (n_respondents, n_items).
    free, guessing
        Where c is estimated, and its value elsewhere, shape (n_items,).
    outcomes
        Numbers that occur together.
    """

    theta: Tensor
    posterior: Tensor
    curves: tuple[Tensor, ...]
    numbers: tuple[Tensor, ...]
    free: Tensor
    guessing: Tensor
    outcomes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, problem: Problem, items: ItemTensors) -> Surroundings:
        """With the items as known."""
        joint, right, asked = known_posteriors(problem, items)
        numbers = right, asked - right
        return cls(
            problem.nodes.theta[:, 0],
            joint,
            curves(items.logits(problem.nodes.basis), items.guessing[:, None]),
            numbers,
            problem.guessing_free,
            items.guessing,
            outcomes_of(numbers),
        )

    def of_items(self, chosen: Tensor) -> Surroundings:
        """With these items alone."""
        return replace(
            self,
            curves=tuple(curve[chosen] for curve in self.curves),
            numbers=tuple(own[:, chosen] for own in self.numbers),
            free=self.free[chosen],
            guessing=self.guessing[chosen],
        )

    @cached_property
    def who(self) -> Tensor:
        """Respondents of each item: all, or those who answered where these are few, shape (n_items, n_who).

        An item with fewer than others has some who did not.
        """
        answered = torch.stack(self.numbers).sum(dim=0).T > 0
        most = int(answered.sum(dim=1).max())
        if most > FEW_ANSWER * answered.shape[1]:
            return torch.arange(answered.shape[1], device=answered.device).expand(len(answered), -1)
        return answered.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :most]

    def curves_at(self, places: Tensor, sign: Tensor, own: Tensor) -> tuple[Tensor, ...]:
        """Probabilities of right and of wrong at the nodes; arguments as for `log_likelihoods`."""
        fixed = self.guessing[own, None, None]
        c = torch.where(self.free[own, None, None], torch.sigmoid(places[:, :, GUESSING, None]), fixed)
        slope = (sign[:, None] * places[:, :, 0].exp())[:, :, None]
        return curves(slope * self.theta + places[:, :, INTERCEPT, None], c)

    def parts(self, places: Tensor, sign: Tensor, chosen: Tensor) -> Iterator[Part]:
        """A few items at a time; arguments as for `log_likelihoods`."""
        n_who = self.who.shape[1]
        for part in chunks(len(places), len(self.theta) * max(places.shape[1], n_who)):
            own = chosen[part]
            who, posterior = self.who[own], self.posterior
            if n_who < posterior.shape[1]:
                posterior = posterior[:, who].movedim(1, 0)
            here_curves, averages = self.curves_at(places[part], sign[part], own), [curve[own] for curve in self.curves]
            numbers = [of_outcome[who, own[:, None]][:, None, :] for of_outcome in self.numbers]
            added, outcomes = torch.ones_like(here_curves[0][:, :, :1]), []
            for times in self.outcomes:
                here = torch.stack([of == k for of, k in zip(numbers, times, strict=True)]).all(dim=0)
                curve, average = outcome(here_curves, times), outcome(averages, times)[:, None, :]
                of_others = (curve / average) @ posterior / (average.reciprocal() @ posterior)
                added = torch.where(here, of_others.clamp(min=LEAST), added)
                outcomes.append((here, curve))
            yield Part(part, who, outcomes, here_curves, added)

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
        for part in self.parts(grid.linear, grid.sign, grid.all):
            level = part.added.log().sum(dim=2)
            mass = mass_of(part.chosen, level)
            share = mass[:, :, None] / part.added
            heard = [(share * here).mT @ curve for here, curve in part.outcomes]
            none = ~torch.stack([here for here, _ in part.outcomes]).any(dim=0).mT
            message = (torch.stack(heard).sum(dim=0) + none).log()
            message = grid.counts[part.chosen, None, None] * message
            log_posterior.index_add_(0, part.who.flatten(), message.flatten(0, 1))
            levels.append(level)
            averages.append(torch.stack([(mass[:, None, :] @ curve)[:, 0] for curve in part.curves]))
        posterior, known = torch.softmax(log_posterior, dim=1).T, tuple(torch.cat(averages, dim=1))
        return replace(self, posterior=posterior, curves=known), torch.cat(levels)

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

    def log_likelihoods(self, places: Tensor, sign: Tensor, chosen: Tensor) -> Tensor:
        """Log-likelihood of items somewhere, up to a constant of each, shape (n_chosen, n_places).

        Parameters
        ----------
        places
            Values of (log |a|, d, logit c), shape (n_chosen, n_places, 3).
        sign
            Of the slopes there, shape (n_chosen,).
        chosen
            Numbers of the items.
        """
        return torch.cat([part.added.log().sum(dim=2) for part in self.parts(places, sign, chosen)])


def known_posteriors(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor, Tensor]:
    """Of theta with the items as known, (n_nodes, n_respondents), and numbers of responses by column and by item."""
    each, given, asked = [], [], []
    for batch, posterior in posteriors(problem, items, 0):
        each.append(posterior)
        given.append(batch.correct.to_dense().to(torch.int16))
        n_asked = batch.observed if batch.observed is not None else batch.correct.new_ones(len(batch), len(items))
        asked.append(n_asked.to_dense().to(torch.int16))
    return torch.cat(each).T, torch.cat(given), torch.cat(asked)


def outcomes_of(numbers: Sequence[Tensor]) -> tuple[tuple[int, ...], ...]:
    """Numbers of responses of each kind that occur together, but for none at all."""
    together = torch.stack(list(numbers), dim=2).flatten(0, 1).unique(dim=0)
    return tuple(tuple(times) for times in together.tolist() if any(times))


def outcome(curves: Sequence[Tensor], times: tuple[int, ...]) -> Tensor:
    """Probability of so many responses of each kind in one order."""
    powers = [curve if k == 1 else curve**k for curve, k in zip(curves, times, strict=True) if k]
    return math.prod(powers[1:], start=powers[0])


def curves(z: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """P = c + (1 - c) / (1 + exp(-z)) and 1 - P, neither of them zero."""
    by_wrong = z.clamp(-FURTHEST, FURTHEST).exp()
    wrong = (1 - c) / (1 + by_wrong)
    return torch.addcmul(c, wrong, by_wrong), wrong


def chunks(n_items: int, cells: int) -> Iterator[slice]:
    """Ranges of items such that items x `cells` stay few."""
    most = max(1, CELLS // cells)
    return (slice(first, min(first + most, n_items)) for first in range(0, n_items, most))
