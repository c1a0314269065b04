"""Standard errors of many scales: the observed information of `observed_information`, batched.

With x the responses, m_i and v_i the posterior mean and variance of theta of respondent i, and f = -s (theta, 1) what
any response adds to the score of its item, the missing information is made of

    sum_i v_i x_i x_i',   sum_i x_i Cov_i[theta, f]',   sum_i Cov_i[f, f],

f being 0 where a response is missing. Where none is, f is given by its values at the nodes, and the posterior
covariances are those of the nodes' indicators, diag(p_i) - p_i p_i', summed over respondents before the items come in.
With one slope for all items only the first sum over all pairs of items is needed: there rows may be of many
respondents, as they are in the other two.

A response adds x R(theta) + m B(theta) to the score of its item by (a, d, logit c), with x and m the numbers right and
asked, R the difference of the derivatives of log P and log(1 - P), and B the latter. The missing information is

    sum_i sum_q p_iq s_iqj s_iql' - sum_i E_i[s_j] E_i[s_l]',

p_iq the posterior of respondent i at node q, s_iqj the score of item j there. The first sum is made of sums over
respondents, at each node, of x_j x_l, x_j m_l and m_j m_l, item by item for all scales at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from irtbench.estimation.many_scales.stack_problem import Chunk, StackProblem
from irtbench.estimation.marginal.observed_information import (
    Errors,
    blocks_of,
    first_derivatives,
    invert,
    second_derivatives,
)
from irtbench.models.pyro_model.tensors import GUESSING, LINEAR, ItemTensors

WIDTH = 3  # parameters of an item: a, d, logit c


def guessed_information(problem: StackProblem, items: ItemTensors) -> Tensor:
    """By (a, d, logit c) of all items of each scale, prior included, shape (n_scales, 3 width, 3 width).

    What is not estimated has no meaning.
    """
    (first_p, first_q), (second_p, second_q) = first_derivatives(problem, items), second_derivatives(problem, items)
    counts = problem.counts(items)
    assert counts.r is not None
    complete = problem.prior.derivatives(items, by_logit=True, positive=False)[1]
    complete = complete - torch.einsum("jq,jqkl->jkl", counts.r, second_p)
    complete -= torch.einsum("jq,jqkl->jkl", counts.n - counts.r, second_q)
    right, base = (problem.by_scale(part.mT.contiguous()) for part in (first_p - first_q, first_q))
    information = -guessed_missing_information(problem, items, right, base, problem.by_scale(counts.r))
    each = torch.arange(problem.stack.width, device=information.device)
    information[:, each, :, each] += problem.by_scale(complete).transpose(0, 1)
    return information.flatten(3, 4).flatten(1, 2)


def guessed_missing_information(
    problem: StackProblem, items: ItemTensors, right: Tensor, base: Tensor, r: Tensor
) -> Tensor:
    """Sum over respondents of the posterior covariance of their score, shape (n_scales, width, 3, width, 3).

    Parameters
    ----------
    right, base
        R and B of each item at the nodes, shape (n_scales, width, 3, n_nodes).
    r
        Expected number right, shape (n_scales, width, n_nodes).
    """
    row, found = problem.stack_row(items), []
    for chunk in problem.stack.chunks(len(problem.nodes.theta), torch.float64):
        own = right[chunk.scales], base[chunk.scales]
        posterior = torch.softmax(row.of_scales(chunk.scales).log_shape(chunk.correct, chunk.observed), dim=1)
        posterior *= chunk.respondents[:, None]
        if chunk.observed is None:
            total = sums_of_complete(chunk, posterior, *own, r[chunk.scales])
        else:
            total = sums_of_observed(chunk, chunk.observed, posterior, *own)
        expected = chunk.correct[:, :, None] * (own[0].flatten(1, 2) @ posterior).unflatten(1, (-1, WIDTH))
        asked = (own[1].flatten(1, 2) @ posterior).unflatten(1, (-1, WIDTH))
        expected += asked if chunk.observed is None else chunk.observed[:, :, None] * asked
        score = expected.flatten(1, 2)
        found.append(total - (score @ score.mT).view_as(total))
    return torch.cat(found)


def sums_of_complete(chunk: Chunk, posterior: Tensor, right: Tensor, base: Tensor, r: Tensor) -> Tensor:
    """The first of the sums where all is observed: m is 1, and sums with it are expected counts."""
    total = sums_of_both(chunk.correct, posterior, right)
    shape = total.shape
    asked = base * posterior.sum(dim=2)[:, None, None]
    across = (right * r[:, :, None]).flatten(1, 2) @ base.flatten(1, 2).mT
    return total + (across + across.mT + asked.flatten(1, 2) @ base.flatten(1, 2).mT).view(shape)


def sums_of_observed(chunk: Chunk, observed: Tensor, posterior: Tensor, right: Tensor, base: Tensor) -> Tensor:
    """The same with missing responses."""
    total = sums_of_both(chunk.correct, posterior, right) + sums_of_both(observed, posterior, base)
    for j in range(total.shape[1]):
        block = products(chunk.correct[:, j], observed, posterior, right[:, j], base)
        total[:, j] += block
        total[:, :, :, j] += block.permute(0, 2, 3, 1)
    return total


def sums_of_both(responses: Tensor, posterior: Tensor, at_nodes: Tensor) -> Tensor:
    """Sum over respondents and nodes of what responses of one kind to two items add to both scores.

    Parameters
    ----------
    responses
        Numbers, shape (n_scales, width, n_respondents).
    posterior
        Shape (n_scales, n_nodes, n_respondents).
    at_nodes
        What each adds to the score of its item, shape (n_scales, width, 3, n_nodes).
    """
    n_scales, width = responses.shape[:2]
    total = posterior.new_empty(n_scales, width, WIDTH, width, WIDTH)
    for j in range(width):
        before = slice(0, j + 1)
        block = products(responses[:, j], responses[:, before], posterior, at_nodes[:, j], at_nodes[:, before])
        total[:, j, :, before] = block
        total[:, before, :, j] = block.permute(0, 2, 3, 1)
    return total


def products(first: Tensor, others: Tensor, posterior: Tensor, of_first: Tensor, of_others: Tensor) -> Tensor:
    """The same of one item with others, shape (n_scales, 3, n_others, 3)."""
    both = (others * first[:, None]) @ posterior.mT
    return ((of_first[:, None] * both[:, :, None]) @ of_others.mT).transpose(1, 2)


@dataclass(frozen=True)
class StackCovariances:
    """Sampling covariances of the items of each scale, NaN where the information is singular.

    Parameters
    ----------
    items
        Of (a, d) of all items, those of each item together, shape (n_scales, 2 width, 2 width), or where any is guessed
        of (a, d, c), shape (n_scales, 3 width, 3 width); what fills a scale up has no meaning.
    common_slope
        Variance of the slope of all items, shape (n_scales,); None where each has its own.
    definite
        Whether the information is positive definite, shape (n_scales,).
    """

    items: Tensor
    common_slope: Tensor | None
    definite: Tensor

    def errors(self, k: int, n_items: int, *, guesses: bool, by_theta: bool) -> Errors:
        """The errors of one scale."""
        number = 3 if guesses else 2
        own = self.items[k, : number * n_items, : number * n_items].reshape(n_items, number, n_items, number)
        last = (0, 3 - number)  # nothing is known of c but its value
        joint = torch.nn.functional.pad(own, (*last, 0, 0, *last)).cpu().numpy()
        if by_theta:
            joint[:, 0] = joint[:, :, :, 0] = 0.0
        of_slope = 0.0 if self.common_slope is None else float(self.common_slope[k].sqrt())
        return Errors(blocks_of(joint), joint, torch.zeros(n_items, dtype=torch.bool), (0.0, of_slope))


def stack_covariances(problem: StackProblem, items: ItemTensors) -> StackCovariances:
    """Invert the observed information of each scale."""
    if problem.guesses:
        free = problem.by_scale(problem.free).flatten(1)
        covariance, definite = inverted(guessed_information(problem, items), free)
        scale = torch.ones_like(items.matrix)
        scale[:, GUESSING] = items.guessing * (1 - items.guessing)  # dc = c (1 - c) dlogit
        scale = problem.by_scale(scale).flatten(1) * free
        return StackCovariances(scale[:, :, None] * covariance * scale[:, None, :], None, definite)
    information = complete_information(problem, items) - missing_information(problem, items)
    free = (problem.stack.items > 0).repeat_interleave(2, dim=1)
    information = torch.where(free[:, :, None] & free[:, None, :], information, 0.0)
    if problem.prior.shared is None:
        covariance, definite = inverted(information, free)
        return StackCovariances(covariance, None, definite)
    # by the intercepts and the slope of all items
    width = problem.stack.width
    by_few = torch.nn.functional.pad(torch.eye(width).to(information).repeat_interleave(2, dim=0), (0, 1))
    by_few = by_few.expand(len(information), -1, -1).clone()
    by_few[:, ::2, :-1], by_few[:, ::2, -1] = 0.0, problem.stack.items
    estimated = torch.nn.functional.pad(problem.stack.items > 0, (0, 1), value=True)
    inverse, definite = inverted(by_few.mT @ information @ by_few, estimated)
    return StackCovariances(by_few @ inverse @ by_few.mT, inverse[:, -1, -1], definite)


def inverted(information: Tensor, free: Tensor) -> tuple[Tensor, Tensor]:
    """Inverse of many matrices, NaN where one is singular, and whether each is positive definite (`invert`).

    Parameters
    ----------
    information
        Shape (n_scales, n, n).
    free
        What is estimated, shape (n_scales, n); the rest has rows and columns of the identity.
    """
    identity = torch.eye(free.shape[1], dtype=information.dtype, device=free.device)
    information = torch.where(free[:, :, None] & free[:, None, :], information, identity)
    inverse, loose = invert(information)
    return inverse, ~loose.any(dim=1)


def complete_information(problem: StackProblem, items: ItemTensors) -> Tensor:
    """Information of the complete data, prior included, shape (n_scales, 2 width, 2 width)."""
    nodes, counts = problem.nodes, problem.counts(items)
    s = torch.sigmoid(items.logits(nodes.basis))
    own = problem.prior.derivatives(items, by_logit=True, positive=False)[1][:, LINEAR, LINEAR]
    own = own + ((counts.n * s * (1 - s)) @ nodes.basis_products).unflatten(1, (2, 2))
    blocks = problem.by_scale(own)
    whole = torch.diag_embed(blocks.permute(0, 2, 3, 1))  # (n_scales, 2, 2, width, width)
    return whole.permute(0, 3, 1, 4, 2).flatten(3, 4).flatten(1, 2)


def missing_information(problem: StackProblem, items: ItemTensors) -> Tensor:
    """Sum over respondents of the posterior covariance of their score, of the same shape."""
    nodes, stack, row = problem.nodes, problem.stack, problem.stack_row(items)
    base = problem.by_scale(-torch.sigmoid(items.logits(nodes.basis))[:, None] * nodes.basis.T).flatten(1, 2)
    found = []
    for chunk in stack.chunks(len(nodes.theta), torch.float64):
        joint = row.of_scales(chunk.scales).log_shape(chunk.correct, chunk.observed)
        posterior = torch.softmax(joint, dim=1)
        apart = nodes.theta - (nodes.theta.T @ posterior)
        posteriors = posterior * chunk.respondents[:, None]
        weighted = posteriors * apart
        variance = (weighted * apart).sum(dim=1, keepdim=True)
        if chunk.observed is None:
            by_nodes = torch.diag_embed(posteriors.sum(dim=2)) - posterior @ posteriors.mT
            mixed, total = mixed_and_base(chunk, weighted, base[chunk.scales], by_nodes)
        else:
            mixed, total = mixed_and_base_of_observed(chunk, posteriors, weighted, base[chunk.scales])
        # a and d of an item are neighbours; a correct response adds (theta, 1), of which 1 does not vary
        total[:, ::2] += mixed
        total[:, :, ::2] += mixed.mT
        total[:, ::2, ::2] += (chunk.correct * variance) @ chunk.correct.mT
        found.append(total)
    return torch.cat(found)


def mixed_and_base(chunk: Chunk, weighted: Tensor, base: Tensor, by_nodes: Tensor) -> tuple[Tensor, Tensor]:
    """The second and the third of the sums where all is observed.

    Parameters
    ----------
    weighted
        Posterior of each row, times its respondents and theta less its mean, shape (n_scales, n_nodes, n_respondents).
    base
        Of each item by a and d, shape (n_scales, 2 n_items, n_nodes).
    by_nodes
        Posterior covariances of the nodes' indicators, summed, shape (n_scales, n_nodes, n_nodes).
    """
    return chunk.correct @ weighted.mT @ base.mT, base @ by_nodes @ base.mT


def mixed_and_base_of_observed(
    chunk: Chunk, posterior: Tensor, weighted: Tensor, base: Tensor
) -> tuple[Tensor, Tensor]:
    """The same with missing responses, each row being one respondent with this posterior.

    The means of products are over those who answered both of two items.
    """
    observed, n_items = chunk.observed, chunk.correct.shape[1]
    assert observed is not None
    twice = observed.repeat_interleave(2, dim=1)
    mixed = chunk.correct @ (twice * (base @ weighted)).mT
    means = twice * (base @ posterior)
    products = base.new_zeros(len(base), 2 * n_items, 2 * n_items)
    by_item = base.unflatten(1, (n_items, 2))
    for j in range(n_items):
        both = (posterior * observed[:, j, None]) @ observed[:, : j + 1].mT  # respondents at nodes, (n_nodes, j + 1)
        block = torch.einsum("saq,sql,slbq->salb", by_item[:, j], both, by_item[:, : j + 1]).flatten(2)
        products[:, 2 * j : 2 * j + 2, : 2 * j + 2] = block
        products[:, : 2 * j + 2, 2 * j : 2 * j + 2] = block.mT
    return mixed, products - means @ means.mT
