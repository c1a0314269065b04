"""Each item's posterior, abilities integrated out and the other items being at the mode.

With up to 500 respondents by quadrature around the item's mode: what respondent i adds to the likelihood of item j is
an average over theta's posterior given the responses to all other items,

    p(x_ij | a, d, c) = sum_q w_iq P(x_ij | theta_q, a, d, c) / P(x_ij | theta_q, mode)   (up to a constant),

w_iq the posterior given all responses. With more the posterior is taken as normal in (log |a|, d, logit c) around the
mode (Laplace's approximation).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from irtbench.estimation.few_respondents.item_moments import ItemMoments, moments_of
from irtbench.estimation.marginal.observed_information import complete_information, own_information
from irtbench.estimation.marginal.problem import Problem
from irtbench.models.priors import Hierarchy
from irtbench.models.pyro_model.item_tensors import GUESSING, INTERCEPT, LINEAR, ItemTensors
from irtbench.models.pyro_model.model import hierarchy_density

MOST_RESPONDENTS = 500  # with more the items' posteriors are normal enough
NODES_PER_AXIS = {2: 7, 3: 5}  # by the number of an item's parameters
NODES_OF_GUESSING = 15  # where the posterior is normal
CELLS = 2**20  # items x nodes x respondents at once
LEAST, FURTHEST = 1e-300, 600.0  # of a probability, and of a logit
MEAN_UPDATES = 5
SIGN_REACH, SIGN_NODES = 4.0, 17  # of a grid around the prior's mean of log |a|, and around d


@dataclass(frozen=True)
class ItemPosteriors:
    """Posterior moments of all items.

    Parameters
    ----------
    log_evidence
        Log-likelihood of the responses with each item integrated out around the mode of the others, up to a constant.
    logs
        Moments of (log |a|, d, logit c).
    moments
        Those of (a, d, c).
    log_guessing
        Means of log c and log(1 - c) over all items whose c is estimated, shape (2,).
    """

    log_evidence: float
    logs: ItemMoments
    moments: ItemMoments
    log_guessing: Tensor


def item_posteriors(problem: Problem, items: ItemTensors, prior: Hierarchy, log_posterior: float) -> ItemPosteriors:
    """By quadrature where respondents are few, and otherwise by Laplace's approximation.

    Parameters
    ----------
    problem, items
        With this prior, and the mode there.
    prior
        Density of (log |a|, d). Its mean is that of the items.
    log_posterior
        At the mode.
    """
    if len(problem.rows) <= MOST_RESPONDENTS:
        return by_quadrature(problem, items, prior)
    return by_laplace(problem, items, log_posterior)


def own_covariances(problem: Problem, items: ItemTensors) -> tuple[Tensor, Tensor]:
    """Inverse of the information on each item, the others being what they are.

    Where that is not positive definite, which it is at a mode, the information of complete data is taken.

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


def by_laplace(problem: Problem, items: ItemTensors, log_posterior: float) -> ItemPosteriors:
    """Normal densities of (log |a|, d, logit c) around the mode."""
    covariance, log_determinant = own_covariances(problem, items)
    values, free = log_values(items), problem.guessing_free
    axis, weights = hermite_axis(NODES_OF_GUESSING, values)
    logit = values[free, GUESSING, None] + covariance[free, GUESSING, GUESSING, None].sqrt() * axis
    mass = (weights / weights.sum()).expand(logit.shape)
    return ItemPosteriors(
        log_posterior - 0.5 * float(log_determinant.sum()),
        ItemMoments(values, by_logs(items, covariance)),
        moments_of(items, covariance, free),
        mean_log_guessing(logit, mass),
    )


def log_values(items: ItemTensors) -> Tensor:
    """(log |a|, d, logit c) as columns; 0 for logit c where c is 0."""
    guessed = items.guessing > 0
    logit = torch.where(guessed, torch.logit(torch.where(guessed, items.guessing, 0.5)), 0.0)
    return torch.stack([items.slope[:, 0].abs().log(), items.intercept, logit], dim=1)


def by_logs(items: ItemTensors, covariance: Tensor) -> Tensor:
    """Covariance of (log |a|, d, logit c) from that of (a, d, logit c), shape (n_items, 3, 3)."""
    ones = torch.ones_like(items.intercept)
    rate = torch.stack([1 / items.slope[:, 0], ones, ones], dim=1)
    return covariance * rate[:, :, None] * rate[:, None, :]


def mean_log_guessing(logit: Tensor, mass: Tensor) -> Tensor:
    """Means of log c and log(1 - c) over items, of posteriors on nodes of logit c, both of shape (n_items, n_nodes)."""
    return torch.stack([(mass * logsigmoid(side * logit)).sum(dim=1).mean() for side in (1.0, -1.0)])


def by_quadrature(problem: Problem, items: ItemTensors, prior: Hierarchy) -> ItemPosteriors:
    """Gauss-Hermite nodes around the mode of each item, as wide as the information on it says."""
    covariance = by_logs(items, own_covariances(problem, items)[0])
    offsets, log_weights = hermite_grid(problem.guesses, items.intercept)
    factor = root_of_covariance(covariance, problem, prior)
    nodes = log_values(items)[:, None, :] + offsets @ factor.mT
    around = Surroundings.of(problem, items)
    level = around.log_likelihoods(nodes, items.slope[:, 0].sign(), torch.arange(len(items), device=nodes.device))
    level = level + log_weights + torch.diagonal(factor[:, LINEAR, LINEAR], dim1=1, dim2=2).log().sum(1, keepdim=True)
    if problem.guesses:
        level = level + log_guessing_prior(problem, nodes) + factor[:, GUESSING, GUESSING].log()[:, None]
    pairs = nodes[:, :, LINEAR]
    centre = pairs[:, len(offsets) // 2].mean(dim=0)
    for _ in range(MEAN_UPDATES):
        at = replace(prior, mean=(float(centre[0]), float(centre[1])))
        log_mass = level + hierarchy_density(at, pairs).log_prob(pairs)
        mass = torch.softmax(log_mass, dim=1)
        mean = torch.einsum("jg,jgk->jk", mass, pairs)
        centre = mean.mean(dim=0)
    slope = items.slope.sign() * nodes[:, :, 0].exp()
    guessing = torch.where(
        problem.guessing_free[:, None], torch.sigmoid(nodes[:, :, GUESSING]), items.guessing[:, None]
    )
    free = problem.guessing_free
    return ItemPosteriors(
        around.log_likelihood + float(torch.logsumexp(log_mass, dim=1).sum()),
        weighted_moments(mass, nodes),
        weighted_moments(mass, torch.stack([slope, nodes[:, :, INTERCEPT], guessing], dim=2)),
        mean_log_guessing(nodes[free, :, GUESSING], mass[free]),
    )


def weighted_moments(mass: Tensor, values: Tensor) -> ItemMoments:
    """Moments of values of shape (n_items, n_nodes, 3) under masses of shape (n_items, n_nodes)."""
    mean = torch.einsum("jg,jgk->jk", mass, values)
    away = values - mean[:, None, :]
    return ItemMoments(mean, (mass[:, :, None] * away).mT @ away)


def root_of_covariance(covariance: Tensor, problem: Problem, prior: Hierarchy) -> Tensor:
    """Lower triangular roots of covariances of (log |a|, d, logit c), shape (n_items, 3, 3).

    Where one is not positive definite, as on the way of an item that hardly anybody answered, the prior's takes its
    place: the nodes then lie as wide as what is known without the item's responses.
    """
    not_free = torch.diag_embed(1e-12 * (~problem.free).to(covariance))
    root, failed = torch.linalg.cholesky_ex(covariance + not_free)
    if not bool((failed > 0).any()):
        return root
    width = torch.eye(3, dtype=covariance.dtype, device=covariance.device)
    width[:2, :2] = width.new_tensor(prior.covariance)
    width = torch.where(problem.estimated_pairs, width, 0.0) + not_free
    return torch.where((failed > 0)[:, None, None], torch.linalg.cholesky_ex(width).L, root)


def hermite_grid(guesses: bool, like: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes in standard deviations, shape (n_nodes, 3), the third 0 where nothing is guessed, and log weights.

    The weights are those of the plain integral, the normal density taken out.
    """
    dimensions = 3 if guesses else 2
    axis, weights = hermite_axis(NODES_PER_AXIS[dimensions], like)
    offsets = torch.cartesian_prod(*[axis] * dimensions)
    log_weights = torch.cartesian_prod(*[weights.log()] * dimensions).sum(dim=1) + 0.5 * (offsets**2).sum(dim=1)
    return (offsets if guesses else torch.nn.functional.pad(offsets, (0, 1))), log_weights


def hermite_axis(n_nodes: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes and weights of the Gauss-Hermite rule for the density exp(-x^2 / 2), each of shape (n_nodes,)."""
    axis, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    return torch.from_numpy(axis).to(like), torch.from_numpy(weights).to(like)


def log_guessing_prior(problem: Problem, nodes: Tensor) -> Tensor:
    """Log density of logit c at the nodes, shape (n_items, n_nodes); 0 where c is fixed."""
    at = nodes.new_zeros(nodes.shape[:2])
    density = problem.prior.densities.get("guessing_logit")
    if density is not None:
        free = problem.guessing_free
        at[free] = density.log_prob(nodes[free][:, :, GUESSING].T).T
    return at


@dataclass(frozen=True)
class Surroundings:
    """What the likelihood of an item needs to know of all others, which are at the mode.

    Parameters
    ----------
    problem, items
        Responses, and the mode.
    right, asked
        Numbers of correct and of all responses, shape (n_respondents, n_items).
    posterior
        Of theta given all responses, shape (n_nodes, n_respondents).
    log_likelihood
        At the mode.
    """

    problem: Problem
    items: ItemTensors
    right: Tensor
    asked: Tensor
    posterior: Tensor
    log_likelihood: float

    @classmethod
    def of(cls, problem: Problem, items: ItemTensors) -> Surroundings:
        """One E step."""
        row = replace(problem, nodes=replace(problem.nodes, dtype=torch.float64)).row(items)
        joint, right, asked = [], [], []
        for batch in problem.batches(dtype=torch.float64):
            joint.append(row.log_joint(batch.correct, batch.observed))
            right.append(batch.correct.to_dense().to(torch.int16))
            asked.append(
                torch.ones_like(right[-1]) if batch.observed is None else batch.observed.to_dense().to(torch.int16)
            )
        whole = torch.cat(joint)
        total = float(torch.logsumexp(whole, dim=1).sum())
        return cls(problem, items, torch.cat(right), torch.cat(asked), torch.softmax(whole, dim=1).T, total)

    @cached_property
    def outcomes(self) -> list[tuple[int, int]]:
        """Numbers of right and of wrong responses that occur, right ones alone first."""
        pairs = torch.stack([self.right, self.asked - self.right], dim=2).flatten(0, 1).unique(dim=0)
        return [(k, m) for k, m in reversed(pairs.tolist()) if k + m > 0]

    def log_likelihoods(self, places: Tensor, sign: Tensor, chosen: Tensor) -> Tensor:
        """Log-likelihood with one item somewhere else, less that at the mode, shape (n_chosen, n_places).

        Parameters
        ----------
        places
            Values of (log |a|, d, logit c), shape (n_chosen, n_places, 3).
        sign
            Of the slopes there, shape (n_chosen,).
        chosen
            Numbers of the items.
        """
        theta, levels = self.problem.nodes.theta[:, 0], []
        right_here, wrong_here = curves(self.items.logits(self.problem.nodes.basis), self.items.guessing[:, None])
        for chunk in chunks(len(places), max(places.shape[1], len(theta)) * len(self.right)):
            at, own = places[chunk], chosen[chunk]
            free = self.problem.guessing_free[own, None, None]
            c = torch.where(free, torch.sigmoid(at[:, :, GUESSING, None]), self.items.guessing[own, None, None])
            slope = (sign[chunk, None] * at[:, :, 0].exp())[:, :, None]
            right, wrong = curves(slope * theta + at[:, :, INTERCEPT, None], c)
            n_right, n_asked = (counts[:, own].T[:, None, :] for counts in (self.right, self.asked))
            # `others`: posteriors but for this item's responses, shape (n_items, n_nodes, n_respondents)
            if self.problem.rows.most_trials is None:
                here = torch.where(n_right == 1, right_here[own, :, None], wrong_here[own, :, None])
                others = self.posterior / here
                p = torch.where(n_right == 1, right @ others, wrong @ others)
                levels.append(torch.where(n_asked == 0, 0.0, p.clamp(min=LEAST).log()).sum(dim=2))
                continue
            level = right.new_zeros(*right.shape[:2], len(self.right))
            for k, m in self.outcomes:
                others = self.posterior / (right_here[own] ** k * wrong_here[own] ** m)[:, :, None]
                p = (right**k * wrong**m) @ others
                level = torch.where((n_right == k) & (n_asked == k + m), p.clamp(min=LEAST).log(), level)
            levels.append(level.sum(dim=2))
        return torch.cat(levels)


def reversed_for_good(problem: Problem, items: ItemTensors, prior: Hierarchy) -> Tensor:
    """Items whose slope is negative and likelier so than positive, shape (n_items,); see `outweigh_the_odds`.

    The likelihoods of either sign are averaged over the prior of (log |a|, d) on a grid; items that are guessed keep
    their c. With more than 500 respondents signs are taken as they are.
    """
    negative = items.slope[:, 0] < 0
    if len(problem.rows) > MOST_RESPONDENTS or not bool(negative.any()):
        return negative
    chosen = torch.nonzero(negative)[:, 0]
    around = Surroundings.of(problem, items)
    axis = torch.linspace(-SIGN_REACH, SIGN_REACH, SIGN_NODES, dtype=torch.float64, device=chosen.device)
    offsets = torch.cartesian_prod(axis * prior.deviation[0], axis)
    places = log_values(items)[chosen, None, :].repeat(1, len(offsets), 1)
    places[:, :, 0] = log_values(items)[:, 0].mean() + offsets[:, 0]
    places[:, :, INTERCEPT] += offsets[:, 1]
    pairs = places[:, :, LINEAR]
    centre = log_values(items)[:, LINEAR].mean(dim=0)
    log_prior = hierarchy_density(replace(prior, mean=(float(centre[0]), float(centre[1]))), pairs).log_prob(pairs)
    ones = torch.ones_like(items.intercept[chosen])
    as_it_is, turned = (
        torch.logsumexp(log_prior + around.log_likelihoods(places, sign, chosen), dim=1) for sign in (-ones, ones)
    )
    stays = torch.zeros_like(negative)
    stays[chosen] = outweigh_the_odds(turned - as_it_is, len(items))
    return stays


def outweigh_the_odds(against: Tensor, n_items: int) -> Tensor:
    """Which of the reversed items stay: those whose responses say so against the odds, the share of reversed items.

    With a dozen respondents the correlation of an item with the score is negative by chance for many items.

    Parameters
    ----------
    against
        Log marginal likelihood of a positive slope less that of a negative one, of the reversed items.
    n_items
        Number of all items.
    """
    stays = torch.ones_like(against, dtype=torch.bool)
    while bool(stays.any()):
        share = min(float(stays.sum()) / n_items, 0.5)
        still = stays & (against < math.log(share / (1 - share)))
        if bool((still == stays).all()):
            break
        stays = still
    return stays


def curves(z: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """P = c + (1 - c) / (1 + exp(-z)) and 1 - P, neither of them zero."""
    by_wrong = z.clamp(-FURTHEST, FURTHEST).exp()
    wrong = (1 - c) / (1 + by_wrong)
    return torch.addcmul(c, wrong, by_wrong), wrong


def chunks(n_items: int, cells: int) -> Iterator[slice]:
    """Ranges of items such that items x `cells` stay few."""
    most = max(1, CELLS // cells)
    return (slice(first, min(first + most, n_items)) for first in range(0, n_items, most))
