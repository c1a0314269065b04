"""The observed information of many scales with guessing: `observed_information`, batched.

A response adds x R(theta) + m B(theta) to the score of its item by (a, d, logit c), with x and m the numbers right and
asked, R the difference of the derivatives of log P and log(1 - P), and B the latter. The missing information is

    sum_i sum_q p_iq s_iqj s_iql' - sum_i E_i[s_j] E_i[s_l]',

p_iq the posterior of respondent i at node q, s_iqj the score of item j there. The first sum is made of sums over
respondents, at each node, of x_j x_l, x_j m_l and m_j m_l, item by item for all scales at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from irtbench.estimation.many_scales.stack import Chunk
from irtbench.estimation.many_scales.stack_problem import StackProblem
from irtbench.estimation.marginal.observed_information import curve_derivatives
from irtbench.models.pyro_model.item_tensors import ItemTensors

WIDTH = 3  # parameters of an item: a, d, logit c


def guessed_information(problem: StackProblem, items: ItemTensors) -> Tensor:
    """By (a, d, logit c) of all items of each scale, prior included, shape (n_scales, 3 width, 3 width).

    What is not estimated has no meaning.
    """
    first_p, first_q, second_p, second_q = curve_derivatives(problem, items)
    counts = problem.counts(items)
    assert counts.r is not None
    complete = problem.prior.derivatives(items, by_logit=True, positive=False)[1]
    complete = complete - torch.einsum("jq,jqkl->jkl", counts.r, second_p)
    complete -= torch.einsum("jq,jqkl->jkl", counts.n - counts.r, second_q)
    right, base = (problem.by_scale(part.mT.contiguous()) for part in (first_p - first_q, first_q))
    information = -missing_information(problem, items, right, base, problem.by_scale(counts.r))
    each = torch.arange(problem.stack.width, device=information.device)
    information[:, each, :, each] += problem.by_scale(complete).transpose(0, 1)
    return information.flatten(3, 4).flatten(1, 2)


def missing_information(problem: StackProblem, items: ItemTensors, right: Tensor, base: Tensor, r: Tensor) -> Tensor:
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
