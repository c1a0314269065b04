"""What a fit of items of any models works on: parameters as rows of a matrix, and derivatives that steps are made of.

The E step is that of right and wrong, with a column for every category; derivatives of the items' curves are those of
`models.item_models`, by automatic differentiation where a model has none of its own, so that a model is its curve and
nothing else.

As `observed_information` has it for right and wrong (Louis, 1982). A respondent's score is the sum over columns of the
responses in them, times functions of ability; its posterior covariances are those of `missing_information`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from irtbench.estimation.marginal import nodes
from irtbench.estimation.marginal.e_step import Counts, expected_counts
from irtbench.estimation.marginal.m_step import ItemDerivatives, item_derivatives
from irtbench.estimation.marginal.observed_information import natural_by_steps
from irtbench.estimation.marginal.problem import Problem, slope_of_correlation
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.pyro_model.categories import CategoryItems, CollapsedCategories
from irtbench.models.pyro_model.rows import Batch, DenseRows, ResponseRows, as_rows
from irtbench.models.pyro_model.sites import ItemModel, trace_model
from irtbench.models.pyro_model.tensors import ItemTensors, NodeTensors

MANY_RESPONSES = 2**17  # from which on single precision saves time
LEAST_ROOM = 1e-3  # of an asymptote that is given, to its bound
NEGLIGIBLE = 1e-12  # the same of one that is known to be at it


@dataclass(frozen=True)
class CategoryProblem(Problem):
    """Responses in categories, population and prior as a model states them.

    Parameters
    ----------
    scale
        The items' models.
    """

    scale: CategoryItems = field(kw_only=True)
    _latest: list[tuple[Tensor, Counts]] = field(default_factory=list, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, model: ItemModel, rows: Tensor | ResponseRows, nodes: NodeTensors) -> CategoryProblem:
        """Trace the model once."""
        prior, row = trace_model(model, rows, nodes)
        assert isinstance(row, CollapsedCategories)
        return cls(model, as_rows(rows), nodes, prior, scale=row.items_given)

    @cached_property
    def guesses(self) -> bool:
        """Bounds of c are none of these parameters', which are logits."""
        return False

    def with_all_free(self, items: ItemTensors) -> CategoryProblem:
        """The same without a prior, with all parameters estimated."""
        return replace(self, prior=replace(self.prior, densities={}, entries={"all": self.scale.free}))

    @cached_property
    def rough(self) -> CategoryProblem:
        """With sums over respondents in single precision, where they are dense and many and items share nothing."""
        many = isinstance(self.rows, DenseRows) and self.rows.values.numel() > MANY_RESPONSES
        simple = many and self.prior.shared is None
        return replace(self, nodes=replace(self.nodes, dtype=torch.float32)) if simple else self

    @property
    def column_scores(self) -> Tensor:
        """Categories as shares of the highest of their item, shape (n_columns,)."""
        return self.scale.column_scores

    @property
    def columns(self) -> tuple[Tensor, Tensor]:
        """Item and category of each column of numbers right, shape (n_columns,) each."""
        return self.scale.columns

    def slopes(self, items: ItemTensors) -> Tensor:
        """Slopes by each ability, 0 where an entry is none, shape (n_items, width)."""
        return torch.where(self.scale.where("slope"), items.matrix, 0.0)

    def expected_score(self, items: ItemTensors) -> Tensor:
        """Expected score of all items at each node, each category as a share of the highest."""
        odds, base = self.scale.log_odds(items.matrix, self.nodes.theta.T)
        return self.column_scores @ (odds + base[self.scale.item_of_column]).exp()

    def turned(self, items: ItemTensors) -> ItemTensors:
        """The same items for abilities of the opposite sign."""
        return ItemTensors.from_matrix(torch.where(self.scale.where("slope"), -items.matrix, items.matrix))

    def rescaled(self, items: ItemTensors, mean: float, deviation: float) -> ItemTensors:
        """The same curves for theta' with theta = mean + deviation theta', of one ability."""
        read = self.scale.natural(items.matrix)
        return self.of_read(read, lambda model, own: model.moved(own, 1 / deviation, -mean / deviation))

    def public(self, items: ItemTensors, item_ids: tuple[str, ...]) -> ItemParameters:
        """Items of right and wrong with both asymptotes, in their public form."""
        a, d, c, u = self.as_read(items.matrix).T.cpu().numpy()
        return ItemParameters(item_ids, a, d, c, self.free[:, 2].cpu().numpy(), upper_asymptote=u)

    def from_public(self, items: ItemParameters) -> ItemTensors:
        """The inverse of `public`."""
        u = np.ones(items.n_items) if items.upper_asymptote is None else items.upper_asymptote
        c = torch.logit(torch.from_numpy(np.stack([items.guessing, u], axis=1)), eps=LEAST_ROOM)
        linear = torch.from_numpy(np.stack([items.discrimination, items.intercept], axis=1))
        return ItemTensors.from_matrix(torch.cat([linear, c], dim=1).to(self.free.device))

    def unbounded(self, items: ItemTensors) -> Tensor:
        """What steps are taken in."""
        return items.matrix

    steps = unbounded

    def of_unbounded(self, unbounded: Tensor) -> ItemTensors:
        """The same."""
        return ItemTensors.from_matrix(unbounded)

    def as_read(self, unbounded: Tensor) -> Tensor:
        """(a, d, c, u) of right and wrong from their logits, shape (..., n_items, 4)."""
        shares = torch.sigmoid(unbounded[..., 2:])
        shares = torch.where(shares <= 2 * NEGLIGIBLE, 0.0, torch.where(shares >= 1 - 2 * NEGLIGIBLE, 1.0, shares))
        return torch.cat([unbounded[..., :2], shares], dim=-1)

    def of_read(
        self, parameters: Tensor, moved: Callable[..., NDArray[np.float64]] = lambda model, own: own
    ) -> ItemTensors:
        """Items whose parameters are read so, in the order of the models' names, or so once each is `moved`."""
        matrix, read = torch.zeros_like(parameters), parameters.cpu().numpy()
        for part in self.scale.parts:
            for item in part.items.tolist():
                own = part.model.unbounded(moved(part.model, read[item, : part.n_parameters]))
                matrix[item, : part.n_parameters] = torch.from_numpy(own).to(matrix)
        return ItemTensors.from_matrix(matrix)

    def row(self, items: ItemTensors) -> CollapsedCategories:
        """The distribution of a respondent's row at these items."""
        return CollapsedCategories(items.matrix, self.scale, self.nodes)

    def counts(self, items: ItemTensors, *, at_nodes: bool = True) -> Counts:
        """The E step at these items; the latest is kept, for standard errors begin where steps end."""
        if not self._latest or not torch.equal(self._latest[0][0], items.matrix):
            self._latest[:] = [(items.matrix, expected_counts(self.rows, self.row(items), at_nodes=True))]
        return self._latest[0][1]

    def scored(self, batch: Batch, mean: Tensor, deviation: Tensor) -> Tensor:
        """The mean score over observed items: standardised ones lead to lower maxima with an upper asymptote."""
        return (batch.correct @ self.column_scores) / batch.observed_sums(torch.ones_like(mean))

    def starting_values(self) -> ItemTensors:
        """By each category's share and each item's correlation with the score."""
        return self.start_at(self.rows.n_correct, self.n_by_item, self.score_correlations()[1])

    def start_at(self, n_correct: Tensor, n: Tensor, correlation: Tensor) -> ItemTensors:
        """By numbers of responses in columns and to items, and correlations of these with the score."""
        slopes = slope_of_correlation(correlation, self.prior.difficulty_drawn).tolist()
        found, n_abilities = np.zeros(self.free.shape), self.scale.n_abilities
        for part in self.scale.parts:
            own, later = n[part.items, None].clamp(min=1), n_correct[part.columns]
            shares = torch.cat([own - later.sum(dim=1, keepdim=True), later], dim=1) / own
            for item, share in zip(part.items.tolist(), shares.cpu().numpy(), strict=True):
                start = part.model.start(share, slopes[item])
                found[item, 0], found[item, n_abilities : part.n_parameters] = start[0], start[1:]
        matrix = torch.from_numpy(found).to(n_correct.device)
        return ItemTensors.from_matrix(torch.where(self.free, matrix, self.prior.fixed.matrix))


@nodes.information.register
def ability_information(problem: CategoryProblem, items: ItemTensors) -> Tensor:
    """Fisher information of each item on ability at each node, shape (n_items, n_nodes)."""
    x, theta = items.matrix, problem.nodes.theta.T
    found = x.new_zeros(len(problem.scale), theta.shape[1])
    for part in problem.scale.parts:
        log_p, _, score = part.derivatives(x, theta)
        found[part.items] = (log_p.exp() * score.square().sum(dim=1)).sum(dim=1)
    return found


@item_derivatives.register
def category_derivatives(problem: CategoryProblem, items: ItemTensors, counts: Counts) -> ItemDerivatives:
    """Derivatives at these items and the counts there, as `item_derivatives` has them for right and wrong.

    With r the expected numbers in each category, n their sum and l = log P: the gradient is the sum over nodes and
    categories of r dl/dx, the information of n P dl/dx dl/dx'. The score is expected to change with ability by
    -u = -P dl/dx dl/dtheta, so that the missing information is the sum over nodes of n u v u', 1 / v the posterior
    precision there.
    """
    x, nodes, scale = items.matrix, problem.nodes, problem.scale
    theta, (n_items, width) = nodes.theta.T, problem.free.shape
    gradient, information = problem.prior.derivatives(items, by_logit=True)
    missing, known = x.new_zeros(n_items, width, len(nodes.theta)), x.new_zeros(n_items, len(nodes.theta))
    for part in scale.parts:
        log_p, first, by_theta = part.derivatives(x, theta)
        own, of_part = part.expected(counts.n, counts.r), slice(part.n_parameters)
        p = log_p.exp() * counts.n[part.items, None]
        weighted, flat = p[:, None] * first, first.flatten(2)
        gradient[part.items, of_part] += (flat @ own.flatten(1)[:, :, None])[:, :, 0]
        information[part.items, of_part, of_part] += flat @ weighted.flatten(2).mT
        missing[part.items, of_part] = weighted.mul_(by_theta[:, :1]).sum(dim=2)
        known[part.items] = (p * by_theta[:, 0].square()).sum(dim=1)
    if len(theta) > 1:  # as with right and wrong: too many nodes to couple the items at each
        return ItemDerivatives.of(problem, items, gradient, information, None)
    respondents = counts.respondents.view(problem.n_scales, -1)
    precision = (respondents + known.view(len(respondents), -1, len(nodes.theta)).sum(dim=1)) @ nodes.bins
    missing = (missing @ nodes.bins) * problem.of_items(precision.clamp(min=1e-300).rsqrt())[:, None]
    return ItemDerivatives.of(problem, items, gradient, information, missing, precision)


@natural_by_steps.register
def natural_by_steps_of_categories(problem: CategoryProblem, items: ItemTensors) -> Tensor:
    """Derivatives of the parameters as they are read by those of steps, shape (n_items, width, width)."""
    found = torch.zeros_like(problem.identity).expand(len(items), -1, -1).clone()
    for part in problem.scale.parts:
        of_part = slice(part.n_parameters)
        found[part.items, of_part, of_part] = part.natural_by_parameters(items.matrix, problem.scale.n_abilities)
    return found
