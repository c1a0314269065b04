"""The observed information of a model with testlets.

It is what complete data would have told, less the sum over respondents of the posterior covariance of their score
(Louis, 1982). A respondent who was right x_j times in n_j responses to item j has the score
(x_j - n_j P_j) (theta_0, theta_s, 1) by its two slopes and its intercept. Given the general ability the scores of two
testlets are independent, so that with m_j the mean of an item's score given it,

    E[s_j s_k'] = E[m_j m_k'] for items of two testlets,

and only items of one testlet ask for sums over the grid of both abilities.
"""

from __future__ import annotations

import torch
from torch import Tensor

from irtbench.estimation.marginal.observed_information import observed_information
from irtbench.estimation.several_abilities.bifactor_problem import BifactorPosterior, BifactorProblem
from irtbench.models.pyro_model.bifactor_row import SPECIFIC
from irtbench.models.pyro_model.item_tensors import LINEAR, ItemTensors


@observed_information.register
def bifactor_information(problem: BifactorProblem, items: ItemTensors) -> Tensor:
    """Negative Hessian of the log-likelihood in the free slopes and intercepts, shape (n_free, n_free)."""
    problem = problem.in_float64()
    grid, together, n_items = problem.grid, problem.items_together, len(items)
    p = torch.sigmoid(items.logits(grid.basis))
    each = torch.arange(n_items, device=p.device)
    products = grid.basis.new_zeros(n_items, 3, n_items, 3)  # sum of E[s s'] - E[s] E[s]'
    for found in problem.posteriors(items, cells=3 * n_items * grid.n_general):
        given = scores_given_general(problem, p, found)
        weighted = (given * found.general.sqrt()[:, :, None, None]).flatten(0, 1).flatten(1)
        across = (weighted.T @ weighted).reshape(n_items, 3, n_items, 3)
        for testlet, members in enumerate(together.members):
            within = products_within(problem, p, found, testlet)
            across[members[:, None], :, members[None, :], :] = within.transpose(1, 2)
        mean = (given * found.general[:, :, None, None]).sum(dim=1).flatten(1)
        products += across - (mean.T @ mean).reshape(products.shape)
    complete = ((problem.counts(items).n * p * (1 - p)) @ grid.basis_products).reshape(n_items, 3, 3)
    information = -products
    information[each, :, each, :] += complete
    free = problem.free[:, LINEAR].flatten()
    return information.reshape(3 * n_items, 3 * n_items)[free][:, free]


def scores_given_general(problem: BifactorProblem, p: Tensor, found: BifactorPosterior) -> Tensor:
    """Mean score of each respondent given the general ability, shape (n_batch, n_general, n_items, 3)."""
    grid, together, batch = problem.grid, problem.items_together, found.batch
    right, asked = batch.correct, asked_of(batch.correct, batch.observed)
    curves = p.reshape(len(p), grid.n_general, grid.n_specific)
    specific = grid.theta[: grid.n_specific, SPECIFIC]
    excess = right.new_zeros(len(right), grid.n_general, len(p))
    along = torch.zeros_like(excess)  # excess times the specific ability
    alone = together.alone
    excess[:, :, alone] = right[:, None, alone] - asked[:, None, alone] * curves[alone, :, 0].T
    for testlet, members in enumerate(together.members):
        given = found.given_general[testlet]
        for sums, weights in ((excess, torch.ones_like(specific)), (along, specific)):
            expected = torch.einsum("iqr,jqr->iqj", given, curves[members] * weights)
            sums[:, :, members] = (
                right[:, None, members] * (given @ weights)[:, :, None] - asked[:, None, members] * expected
            )
    return torch.stack([excess * grid.general[:, None], along, excess], dim=3)


def products_within(problem: BifactorProblem, p: Tensor, found: BifactorPosterior, testlet: int) -> Tensor:
    """Sums of E[s_j s_k'] over a testlet's items and these respondents, shape (n_members, 3, n_members, 3).

    With x right of n responses, (x_j - n_j P_j) (x_k - n_k P_k) is multiplied out, so that what rests on the respondent
    and what rests on the abilities are sums of their own.
    """
    members, batch, joint = problem.items_together.members[testlet], found.batch, found.joint(testlet)
    right, asked = batch.correct[:, members], asked_of(batch.correct, batch.observed)[:, members]
    curves, n_members = p[members], len(members)

    def sums(first: Tensor, second: Tensor) -> Tensor:
        """Expected sums of the products of two numbers of each respondent, by item, item and node."""
        pairs = (first[:, :, None] * second[:, None, :]).flatten(1)
        return (pairs.T @ joint).reshape(n_members, n_members, -1)

    mixed = sums(right, asked) * curves
    products = sums(right, right) - mixed - mixed.transpose(0, 1)
    products += sums(asked, asked) * curves[:, None] * curves
    return (products @ problem.nodes.basis_products).reshape(n_members, n_members, 3, 3).transpose(1, 2)


def asked_of(correct: Tensor, observed: Tensor | None) -> Tensor:
    """Number of responses, of the shape of the number right."""
    return torch.ones_like(correct) if observed is None else observed
