"""Standard errors of many scales: the observed information of `observed_information`, batched.

A response adds x R(theta) + m B(theta) to the score of its item by (a, d), and logit c where any item is guessed, with
x and m the numbers right and asked, R the difference of the derivatives of log P and log(1 - P), and B the latter. The
missing information is

    sum_i sum_q p_iq s_iqj s_iql' - sum_i E_i[s_j] E_i[s_l]',

p_iq the posterior of respondent i at node q, s_iqj the score of item j there. The first sum is made of sums over
respondents, at each node, of x_j x_l, x_j m_l and m_j m_l, item by item for all scales at once. Where all is observed m
is 1, and sums with it are expected counts. Without guessing R is (theta, 1) for all items alike, so that sums with x
are of products of x_j and what respondent i is expected to have.

With one slope for all items only the sum of x_j x_l over all pairs of items is needed: there rows may be of many
respondents, as they are in the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from irtbench.estimation.many_scales.stack_problem import Chunk, StackProblem
from irtbench.estimation.marginal.m_step import item_derivatives
from irtbench.estimation.marginal.observed_information import (
    Errors,
    blocks_of,
    first_derivatives,
    invert,
    second_derivatives,
)
from irtbench.models.pyro_model.tensors import GUESSING, LINEAR, ItemTensors


def stack_information(problem: StackProblem, items: ItemTensors) -> Tensor:
    """By (a, d), or (a, d, logit c), of all items of each scale, prior included, shape (n_scales, k width, k width).

    What is not estimated has no meaning.
    """
    counts, basis = problem.counts(items), problem.nodes.basis
    if problem.guesses:
        assert counts.r is not None
        (first_p, base), (second_p, second_q) = first_derivatives(problem, items), second_derivatives(problem, items)
        complete = problem.prior.derivatives(items, by_logit=True, positive=False)[1]
        complete = complete - torch.einsum("jq,jqkl->jkl", counts.r, second_p)
        complete -= torch.einsum("jq,jqkl->jkl", counts.n - counts.r, second_q)
        right = problem.by_scale((first_p - base).mT.contiguous())
    else:
        complete = item_derivatives(problem, items, counts).information[:, LINEAR, LINEAR]
        base = -torch.sigmoid(items.logits(basis))[:, :, None] * basis
        right = basis.T.expand(problem.n_scales, 1, -1, -1)
    information = -missing_information(problem, items, right, problem.by_scale(base.mT.contiguous()))
    each = torch.arange(problem.stack.width, device=information.device)
    information[:, each, :, each] += problem.by_scale(complete).transpose(0, 1)
    return information.flatten(3, 4).flatten(1, 2)


def missing_information(problem: StackProblem, items: ItemTensors, right: Tensor, base: Tensor) -> Tensor:
    """Sum over respondents of the posterior covariance of their score, shape (n_scales, width, k, width, k).

    `right` and `base` are R and B of each item at the nodes, shape (n_scales, width, k, n_nodes), or (n_scales, 1, ...)
    where R is the same of all items.
    """
    row, found = problem.stack_row(items), []
    for chunk in problem.stack.chunks(len(problem.nodes.theta), torch.float64):
        own = right[chunk.scales], base[chunk.scales]
        posterior = torch.softmax(row.of_scales(chunk.scales).log_shape(chunk.correct, chunk.observed), dim=1)
        of_right, of_base = ((part.flatten(1, 2) @ posterior).unflatten(1, part.shape[1:3]) for part in own)
        asked = of_base if chunk.observed is None else chunk.observed[:, :, None] * of_base
        score = (chunk.correct[:, :, None] * of_right + asked).flatten(1, 2)
        posterior *= chunk.respondents[:, None]
        mixed = mixed_sums(chunk, posterior, *own)
        total = mixed + mixed.permute(0, 3, 4, 1, 2)
        for part in (sums_of_right(chunk.correct, posterior, own[0]), sums_of_base(chunk, posterior, own[1])):
            total += part
        found.append(total - ((score * chunk.respondents[:, None]) @ score.mT).view_as(total))
    return torch.cat(found)


def mixed_sums(chunk: Chunk, posterior: Tensor, right: Tensor, base: Tensor) -> Tensor:
    """Sum over respondents and nodes of what a right response to one item and any to another add to both scores.

    Parameters
    ----------
    posterior
        Shape (n_scales, n_nodes, n_respondents).
    right, base
        As of `missing_information`.
    """
    if chunk.observed is None:
        r = chunk.correct @ posterior.mT
        sums = (right * r[:, :, None]).flatten(1, 2) @ base.flatten(1, 2).mT
        return sums.unflatten(2, base.shape[1:3]).unflatten(1, base.shape[1:3])
    if right.shape[1] == 1:
        of_pairs = (right[:, 0, :, None, None] * base[:, None]).flatten(1, 3) @ posterior
        expected = of_pairs.unflatten(1, (-1, *base.shape[1:3])) * chunk.observed[:, None, :, None]
        sums = chunk.correct[:, None] @ expected.flatten(2, 3).mT
        return sums.unflatten(3, base.shape[1:3]).transpose(1, 2)
    rows = zip(chunk.correct.unbind(1), right.unbind(1), strict=True)
    return torch.stack([products(x, chunk.observed, posterior, of_item, base) for x, of_item in rows], dim=1)


def sums_of_right(correct: Tensor, posterior: Tensor, right: Tensor) -> Tensor:
    """The same of right responses to two items."""
    if right.shape[1] > 1:
        return sums_of_both(correct, posterior, right)
    moments = (right[:, 0, :, None] * right[:, 0, None]).flatten(1, 2) @ posterior
    sums = (correct[:, None] * moments[:, :, None]) @ correct[:, None].mT
    return sums.unflatten(1, (right.shape[2], -1)).permute(0, 3, 1, 4, 2)


def sums_of_base(chunk: Chunk, posterior: Tensor, base: Tensor) -> Tensor:
    """The same of any responses to two items."""
    if chunk.observed is not None:
        return sums_of_both(chunk.observed, posterior, base)
    flat = base.flatten(1, 2)
    sums = (flat * posterior.sum(dim=2)[:, None]) @ flat.mT
    return sums.unflatten(2, base.shape[1:3]).unflatten(1, base.shape[1:3])


def sums_of_both(responses: Tensor, posterior: Tensor, at_nodes: Tensor) -> Tensor:
    """The same of responses of one kind to two items.

    Parameters
    ----------
    responses
        Numbers, shape (n_scales, width, n_respondents).
    posterior
        Shape (n_scales, n_nodes, n_respondents).
    at_nodes
        What each adds to the score of its item, shape (n_scales, width, k, n_nodes).
    """
    n_scales, width, k, _ = at_nodes.shape
    total = posterior.new_empty(n_scales, width, k, width, k)
    for j in range(width):
        before = slice(0, j + 1)
        block = products(responses[:, j], responses[:, before], posterior, at_nodes[:, j], at_nodes[:, before])
        total[:, j, :, before] = block
        total[:, before, :, j] = block.permute(0, 2, 3, 1)
    return total


def products(first: Tensor, others: Tensor, posterior: Tensor, of_first: Tensor, of_others: Tensor) -> Tensor:
    """The same of one item with others, shape (n_scales, k, n_others, k)."""
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
    information, width = stack_information(problem, items), problem.stack.width
    k = information.shape[1] // width
    scale = problem.free.to(items.matrix)
    scale[:, GUESSING] *= items.guessing * (1 - items.guessing)  # dc = c (1 - c) dlogit
    free, scale = (problem.by_scale(part[:, :k]).flatten(1) for part in (problem.free, scale))
    if problem.prior.shared is None:
        covariance, definite = inverted(information, free)
        return StackCovariances(scale[:, :, None] * covariance * scale[:, None, :], None, definite)
    # by the intercepts and the slope of all items
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
