"""Observed information of items of any models: what complete data would tell, less the missing information.

As `observed_information` has it for right and wrong (Louis, 1982). A respondent's score is the sum over columns of the
responses in them, times functions of ability; its posterior covariances are sums over nodes of products of columns.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.e_step import at
from irtbench.estimation.marginal.observed_information import observed_information, own_information, told_scale
from irtbench.estimation.spans import summed
from irtbench.models.pyro_model.categories import Alike, CollapsedCategories
from irtbench.models.pyro_model.item_tensors import ItemTensors
from irtbench.models.pyro_model.rows import ResponseRows

NOBODY = 1e-14  # share of a batch's respondents at a node, below which it is left out


def score_functions(problem: CategoryProblem, items: ItemTensors) -> Tensor:
    """What a response adds to the score of its item, shape (n_nodes, n_columns + n_items, n_items * width).

    Of a category but the first its derivative less that of the first, and of any response that of the first.
    """
    x, theta, scale = items.matrix, problem.nodes.theta.T, problem.scale
    n_items, width = problem.free.shape
    n_columns = len(scale.item_of_column)
    found = x.new_zeros(theta.shape[1], n_columns + n_items, n_items, width)
    for part in scale.parts:
        _, first, _ = part.derivatives(x, theta)
        for k, item in enumerate(part.items.tolist()):
            rest = first[k, 1:] - first[k, :1]
            found[:, part.columns[k], item, : part.n_parameters] = rest.transpose(0, 1)
            found[:, n_columns + item, item, : part.n_parameters] = first[k, 0]
    return found.flatten(2)


@observed_information.register
def category_information(problem: CategoryProblem, items: ItemTensors) -> Tensor:
    """Negative Hessian of the log-posterior in the free parameters, shape (n_free, n_free)."""
    chosen = problem.free.reshape(-1)
    functions = score_functions(problem, items)[:, :, chosen]
    if problem.rows.complete:  # all were asked every item: what that adds is one sum
        of_categories, of_any = functions.split([functions.shape[1] - len(items), len(items)], dim=1)
        functions = torch.cat([of_categories, of_any.sum(dim=1, keepdim=True)], dim=1)
    found = torch.block_diag(*complete_information(problem, items))[chosen][:, chosen]
    place = (*at(problem.in_float64().row(items)), functions)
    products, means = summed(
        problem.rows,
        "products of categories",
        place,
        lambda rows: products_of(replace(problem.in_float64(), rows=rows), items, functions),
    )
    for own, by_parameter in zip(products, functions, strict=True):
        found -= by_parameter.T @ own @ by_parameter
    return found + means


def complete_information(problem: CategoryProblem, items: ItemTensors) -> Tensor:
    """What complete data would tell of each item, prior included, shape (n_items, width, width)."""
    x, theta, counts = items.matrix, problem.nodes.theta.T, problem.counts(items)
    complete = problem.prior.derivatives(items, by_logit=True, positive=False)[1]
    for part in problem.scale.parts:
        own, of_part = part.expected(counts.n, counts.r), slice(part.n_parameters)
        complete[part.items, of_part, of_part] += part.curvature(x, theta, own)
    return complete


def products_of(problem: CategoryProblem, items: ItemTensors, functions: Tensor) -> tuple[Tensor, Tensor]:
    """Sums over respondents of products of their responses at each node, and of products of their mean scores.

    Shapes (n_nodes, n_given, n_given) and (n_free, n_free).
    """
    row, (n_nodes, n_given, n_free) = problem.row(items), functions.shape
    products, means = functions.new_zeros(n_nodes, n_given, n_given), functions.new_zeros(n_free, n_free)
    for batch in problem.batches(n_free + n_given, dtype=torch.float64):
        posterior = torch.softmax(row.log_shape(batch.correct, batch.observed), dim=1)
        correct = batch.correct.to_dense()
        asked = correct.new_ones(len(batch), 1) if batch.observed is None else batch.observed.to_dense()
        given = torch.cat([correct, asked], dim=1)
        mean = given.new_zeros(len(given), n_free)
        for q in torch.nonzero(posterior.sum(dim=0) > NOBODY * len(given))[:, 0].tolist():
            weighted = given * posterior[:, q, None]
            mean.addmm_(weighted, functions[q])
            products[q].addmm_(weighted.T, given)
        means += mean.T @ mean
    return products, means


@own_information.register
def own_category_information(problem: CategoryProblem, items: ItemTensors) -> Tensor:
    """The diagonal blocks of `category_information`, with the identity's row and column for what is no parameter."""
    found = complete_information(problem, items)
    functions = score_functions(problem, items).unflatten(2, problem.free.shape)
    row, scale = problem.in_float64().row(items), problem.scale
    n_columns = len(scale.item_of_column)
    for part in scale.parts:
        columns = torch.cat([part.columns, n_columns + part.items[:, None]], dim=1)
        own = torch.stack([functions[:, c, j] for c, j in zip(columns, part.items.tolist(), strict=True)])
        found[part.items] -= missing_of(problem, row, part, own)
    return torch.where(problem.estimated_pairs, found, problem.identity)


def missing_of(problem: CategoryProblem, row: CollapsedCategories, part: Alike, functions: Tensor) -> Tensor:
    """Posterior covariances of the items' own scores, summed over respondents, shape (n_alike, width, width).

    `functions` are what categories but the first and any response add, shape (n_alike, n_nodes, n_categories, width).
    """

    def of_rows(rows: ResponseRows) -> tuple[Tensor, ...]:
        found = functions.new_zeros(len(part.items), functions.shape[3], functions.shape[3])
        for batch in replace(problem, rows=rows).batches(dtype=torch.float64):
            posterior = torch.softmax(row.log_shape(batch.correct, batch.observed), dim=1)
            correct = batch.correct.to_dense()
            asked = (
                correct.new_ones(len(batch), len(problem.free)) if batch.observed is None else batch.observed.to_dense()
            )
            for k, (columns, item) in enumerate(zip(part.columns, part.items.tolist(), strict=True)):
                given = torch.cat([correct[:, columns], asked[:, item, None]], dim=1)
                own = functions[k].transpose(0, 1)  # by response, node, parameter
                mean = torch.einsum("ic,iq,cqp->ip", given, posterior, own)
                products = torch.einsum("ic,id,iq->qcd", given, given, posterior)
                found[k] += torch.einsum("qcd,cqa,dqb->ab", products, own, own) - mean.T @ mean
        return (found,)

    place = (*at(row), functions)
    return summed(problem.rows, f"own products of {part.n_categories} categories", place, of_rows)[0]


@told_scale.register
def told_categories(problem: CategoryProblem, items: ItemTensors) -> Tensor:
    """Derivatives of the parameters as they are read by those of steps, shape (n_items, width, width)."""
    found = torch.zeros_like(problem.identity).expand(len(items), -1, -1).clone()
    for part in problem.scale.parts:
        of_part = slice(part.n_parameters)
        found[part.items, of_part, of_part] = part.told_by_parameters(items.matrix, problem.scale.n_abilities)
    return found
