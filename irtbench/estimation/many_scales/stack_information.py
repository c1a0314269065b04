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

import torch
from torch import Tensor

from irtbench.estimation.many_scales.stack_problem import Chunk, StackProblem
from irtbench.estimation.marginal.observed_information import (
    complete_information,
    first_derivatives,
    invert,
)
from irtbench.models.pyro_model.tensors import ItemTensors


def stack_inverses(problem: StackProblem, items: ItemTensors) -> list[tuple[Tensor, Tensor]]:
    """What `inverse_information` has of each scale."""
    information, present = stack_information(problem, items).flatten(3).flatten(1, 2), problem.stack.items > 0
    estimated = problem.by_scale(problem.free[:, : information.shape[1] // present.shape[1]]).flatten(1)
    if problem.prior.shared is not None:  # by the intercepts and the slope of all items
        by_few = torch.eye(estimated.shape[1]).to(information)[:, 1::2].expand(len(present), -1, -1)
        of_slope = torch.stack([problem.stack.items, torch.zeros_like(problem.stack.items)], dim=2).flatten(1)
        by_few = torch.cat([by_few, of_slope[:, :, None]], dim=2)
        information, estimated = by_few.mT @ information @ by_few, torch.nn.functional.pad(present, (0, 1), value=True)
    identity = torch.eye(estimated.shape[1]).to(information)
    inverse, loose = invert(torch.where(estimated[:, :, None] & estimated[:, None, :], information, identity))
    each = zip(inverse, loose, estimated, strict=True)
    return [(whole[own][:, own], undetermined[own]) for whole, undetermined, own in each]


def stack_information(problem: StackProblem, items: ItemTensors) -> Tensor:
    """By (a, d), or (a, d, logit c), of all items of each scale, prior included, shape (n_scales, width, k, width, k).

    What is not estimated has no meaning.
    """
    basis, of_steps = problem.nodes.basis, slice(3 if problem.guesses else 2)
    if problem.guesses:
        first_p, base = first_derivatives(problem, items)
        right = problem.by_scale((first_p - base).mT.contiguous())
    else:
        base = -torch.sigmoid(items.logits(basis))[:, :, None] * basis
        right = basis.T.expand(problem.n_scales, 1, -1, -1)
    complete = complete_information(problem, items)[:, of_steps, of_steps]
    information = -missing_information(problem, items, right, problem.by_scale(base.mT.contiguous()))
    each = torch.arange(problem.stack.width, device=information.device)
    information[:, each, :, each] += problem.by_scale(complete).transpose(0, 1)
    return information


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
