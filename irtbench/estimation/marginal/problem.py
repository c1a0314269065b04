"""What a fit works on, a Pyro model of items traced once, with responses and population; and what it returns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import torch
from torch import Tensor

from irtbench.estimation.marginal.e_step import Counts, batches, expected_counts
from irtbench.estimation.status import Status
from irtbench.estimation.threads import total
from irtbench.models.item_models.logistic import Logistic
from irtbench.models.item_parameters import ItemParameters
from irtbench.models.pyro_model.categories import CategoryItems
from irtbench.models.pyro_model.collapsed import CollapsedLogistic
from irtbench.models.pyro_model.rows import Batch, ResponseRows, as_rows
from irtbench.models.pyro_model.sites import ItemModel, ItemPrior, trace_model
from irtbench.models.pyro_model.tensors import GUESSING, ItemTensors, NodeTensors, SharedParameters

LEAST_SLOPE = 0.5  # where difficulty has a prior
START_GUESSING = 1 / (1 + math.exp(1.7))
MOST_NODES = 8192  # whose curves are held at a time


@dataclass(frozen=True)
class Evaluation:
    """The log-posterior at some items.

    Parameters
    ----------
    items
        Where.
    counts
        Expected counts there, with the marginal log-likelihood.
    log_posterior
        The log-likelihood plus the log prior density.
    """

    items: ItemTensors
    counts: Counts
    log_posterior: float


#: What an estimate is of the items' posterior (without a prior: of the likelihood).
EstimateKind = Literal["mode", "mean"]


@dataclass(frozen=True)
class Estimate:
    """Items, and how sure they are.

    Parameters
    ----------
    items
        The estimates.
    kind
        Whether they are modes or posterior means.
    log_likelihood
        Marginal log-likelihood there.
    log_posterior
        The same plus the log prior density; with the items integrated out, the log-likelihood of the abilities.
    status
        Whether the iterations converged, and how they ended.
    counts
        Expected counts at the items, where the estimator keeps them.
    covariance
        Posterior covariance of each item's (a, d, c) where the estimator gives it, shape (n_items, 3, 3).
    quantiles
        The 2.5, 50 and 97.5% posterior quantiles of each item's (a, b, c) where the estimator gives them, shape
        (3, n_items, 3).
    abilities
        Of the respondents with their covariance, where they were estimated too, shapes (n_respondents,) and
        (n_respondents, n_respondents).
    mode
        Where the posterior is highest, if the items are its means; None where it was not found, or where they are it.
    n_density_parameters
        Number of parameters of an estimated density of ability.
    """

    items: ItemTensors
    kind: EstimateKind
    log_likelihood: float
    log_posterior: float
    status: Status
    counts: Counts | None = None
    covariance: Tensor | None = None
    quantiles: Tensor | None = None
    abilities: tuple[Tensor, Tensor] | None = None
    mode: ItemTensors | None = None
    n_density_parameters: int = 0


@dataclass(frozen=True)
class Problem:
    """Responses, population and prior as a model states them.

    Parameters
    ----------
    model
        The Pyro model, called with rows and nodes.
    rows
        The respondents' responses.
    nodes
        The population of abilities.
    prior
        What the model's sites say of the items.
    fixed_directions
        Directions in which no step goes, orthonormal, shape (n_directions, n_items, n_factors + 2). Where items are
        many and respondents few, location and scale of theta are set by standardising the respondents, and the steps
        leave them alone.
    inverse
        What `inverse_information` has at the mode; None where that is not known.
    """

    model: ItemModel
    rows: ResponseRows
    nodes: NodeTensors
    prior: ItemPrior
    fixed_directions: Tensor | None = None
    inverse: tuple[Tensor, Tensor] | None = None

    @classmethod
    def of(cls, model: ItemModel, rows: Tensor | ResponseRows, nodes: NodeTensors) -> Self:
        """Trace the model once."""
        prior, _ = trace_model(model, rows, nodes)
        return cls(model, as_rows(rows), nodes, prior)

    @property
    def observed(self) -> Any:
        """What the model is called with: rows, or those of each group."""
        return self.rows

    @property
    def n_factors(self) -> int:
        """Number of abilities."""
        return self.nodes.theta.shape[1]

    @property
    def n_scales(self) -> int:
        """Number of scales, each with items and respondents of its own: one, but in `many_scales`."""
        return 1

    def of_items(self, of_scales: Tensor) -> Tensor:
        """A row for each scale as rows for its items, or one for all of them, shape (n_items or 1, ...)."""
        return of_scales

    @property
    def guessing_free(self) -> Tensor:
        """Where c is estimated, shape (n_items,)."""
        return self.prior.guessing_free

    @cached_property
    def guesses(self) -> bool:
        """Whether any item has a lower asymptote; without one the log odds are linear in theta."""
        fixed = self.prior.fixed.guessing > 0
        return bool((self.guessing_free | fixed).any())

    @cached_property
    def scale(self) -> CategoryItems:
        """The items by the models of their curves, of which `steps` are the parameters."""
        each = [Logistic(lower=guessed) for guessed in (self.guessing_free | (self.prior.fixed.guessing > 0)).tolist()]
        return CategoryItems(each, [2] * len(each), self.n_factors, self.free.device)

    @cached_property
    def free(self) -> Tensor:
        """Which parameters (slopes, intercept, guessing) are not constants, shape (n_items, n_factors + 2)."""
        return self.prior.free

    def with_shared(self, design: Tensor) -> Self:
        """The same with parameters that are made of shared ones, see `SharedParameters`."""
        shared = SharedParameters(design) if len(design) else None
        return replace(self, prior=replace(self.prior, shared=shared))

    @cached_property
    def own(self) -> Tensor:
        """Which parameters are estimated of an item alone, shaped as `free`."""
        return self.free if self.prior.shared is None else self.free & ~self.prior.shared.made

    @property
    def n_estimated(self) -> int:
        """Number of parameters: the items' own, and then the shared ones."""
        return int(self.own.sum()) + (0 if self.prior.shared is None else len(self.prior.shared.design))

    def by_estimated(self, values: Tensor) -> Tensor:
        """Columns of what is estimated as columns of all parameters, shape (n_items * width, n_columns)."""
        n_own, own = int(self.own.sum()), self.own.flatten()
        found = values.new_zeros(len(own), values.shape[1])
        found[own] = values[:n_own]
        return found if self.prior.shared is None else found + self.prior.shared.design.flatten(1).T @ values[n_own:]

    def with_all_free(self, items: ItemTensors) -> Self:
        """The same without a prior, with all parameters estimated but those of asymptotes at their bound."""
        every, guessed = torch.ones_like(self.free), torch.zeros_like(self.free)
        every[:, GUESSING] = False
        guessed[:, GUESSING] = self.guessing_free | (items.guessing > 0)
        entries = {"linear": every, "guessing_logit": guessed}
        return replace(self, prior=replace(self.prior, densities={}, entries=entries))

    @property
    def n_cells(self) -> int:
        """Numbers that a pass works on: respondents times nodes."""
        return self.rows.n_respondents * len(self.nodes.theta)

    @cached_property
    def all_free(self) -> bool:
        """Whether every parameter is estimated."""
        return bool(self.free.all())

    @cached_property
    def estimated_pairs(self) -> Tensor:
        """Where both parameters are estimated, shape (n_items, n_factors + 2, n_factors + 2)."""
        return self.free[:, :, None] & self.free[:, None, :]

    @cached_property
    def identity(self) -> Tensor:
        """Of the width of an item's parameters."""
        return torch.eye(self.free.shape[1], dtype=torch.float64, device=self.free.device)

    @property
    def column_scores(self) -> Tensor:
        """What a response in each column of numbers right adds to the number right of its item, shape (n_columns,)."""
        return torch.ones_like(self.rows.n_correct)

    @property
    def columns(self) -> tuple[Tensor, Tensor]:
        """Item and category of each column of numbers right, shape (n_columns,) each."""
        each = torch.arange(len(self.rows.n_correct), device=self.rows.device)
        return each, torch.ones_like(each)

    def of_columns(self, by_column: Tensor) -> Tensor:
        """Scores of items from values of their columns, shape (n_items,)."""
        own = self.column_scores * by_column
        return own.new_zeros(self.rows.n_items).index_add_(0, self.columns[0], own)

    def slopes(self, items: ItemTensors) -> Tensor:
        """Slopes by each ability, shape (n_items, n_slopes)."""
        return items.slope

    def expected_score(self, items: ItemTensors) -> Tensor:
        """Expected number right of all items at each node, but for what does not change with ability."""
        return torch.sigmoid(items.logits(self.nodes.basis)).T @ (1 - items.guessing)

    def turned(self, items: ItemTensors) -> ItemTensors:
        """The same items for abilities of the opposite sign."""
        return items.turned()

    def rescaled(self, items: ItemTensors, mean: float, deviation: float) -> ItemTensors:
        """The same curves for theta' with theta = mean + deviation theta'."""
        return items.rescaled(mean, deviation)

    def public(self, items: ItemTensors, item_ids: tuple[str, ...]) -> ItemParameters:
        """Items of one ability, in their public form."""
        return ItemParameters(
            item_ids,
            items.slope[:, 0].cpu().numpy(),
            items.intercept.cpu().numpy(),
            items.guessing.cpu().numpy(),
            self.guessing_free.cpu().numpy(),
        )

    def from_public(self, items: ItemParameters) -> ItemTensors:
        """The inverse of `public`."""
        columns = (items.discrimination[:, None], items.intercept, items.guessing)
        return ItemTensors(*(torch.tensor(column, dtype=torch.float64, device=self.rows.device) for column in columns))

    def unbounded(self, items: ItemTensors) -> Tensor:
        """(a, d, logit c) of each item, 0 in the last column where c is fixed, shape (n_items, 3)."""
        logit = torch.where(self.guessing_free, torch.logit(items.guessing), 0.0)
        return torch.cat([items.linear, logit[:, None]], dim=1)

    def steps(self, items: ItemTensors) -> Tensor:
        """(a, d, logit c) of each item, what its curve's derivatives are by, shape (n_items, 3)."""
        return torch.cat([items.linear, torch.logit(items.guessing)[:, None]], dim=1)

    def of_unbounded(self, unbounded: Tensor) -> ItemTensors:
        """The inverse of `unbounded`."""
        return ItemTensors.from_matrix(self.as_read(unbounded))

    def as_read(self, unbounded: Tensor) -> Tensor:
        """(a, d, c) from (a, d, logit c), shape (..., n_items, 3); where c is fixed, that value."""
        c = torch.where(self.guessing_free, torch.sigmoid(unbounded[..., 2]), self.prior.fixed.guessing)
        return torch.cat([unbounded[..., :2], c[..., None]], dim=-1)

    def of_read(self, parameters: Tensor) -> ItemTensors:
        """Items of which these are read, shape (n_items, 3)."""
        return ItemTensors.from_matrix(parameters)

    def probability_right(self, items: ItemTensors, theta: Tensor) -> Tensor:
        """P of each item of right and wrong at abilities of shape (n, n_factors), shape (n, n_items)."""
        return -torch.expm1(self.scale.log_odds(self.steps(items), theta.T)[1]).T

    def without_fixed_directions(self, matrix: Tensor) -> Tensor:
        """Take the fixed directions out of a gradient or a step."""
        if self.fixed_directions is None:
            return matrix
        along = torch.einsum("hjk,jk->h", self.fixed_directions, matrix)
        return matrix - torch.einsum("h,hjk->jk", along, self.fixed_directions)

    def row(self, items: ItemTensors) -> CollapsedLogistic:
        """The distribution of a respondent's row at these items."""
        log_guessing = items.guessing.log() if self.guesses else None
        return CollapsedLogistic(items.slope, items.intercept, log_guessing, self.nodes)

    def in_float64(self) -> Self:
        """The same with sums over respondents in float64."""
        return replace(self, nodes=replace(self.nodes, dtype=torch.float64))

    def log_joints(self, items: ItemTensors) -> Iterator[tuple[slice, slice, Tensor]]:
        """Log of weight times likelihood of some respondents at some nodes: who, where, shape (n_batch, n_nodes).

        Curves at all of very many nodes need not be held.
        """
        nodes, most = self.nodes, MOST_NODES if self.nodes.divisible else len(self.nodes.theta)
        for first_node in range(0, len(nodes.theta), most):
            some = slice(first_node, first_node + most)
            part = replace(self, nodes=replace(nodes, theta=nodes.theta[some], log_weights=nodes.log_weights[some]))
            row, first = part.row(items), 0
            for batch in part.batches():
                yield slice(first, first + len(batch)), some, row.log_joint(batch.correct, batch.observed)
                first += len(batch)

    def log_likelihood(self, items: ItemTensors) -> float:
        """Marginal log-likelihood of all respondents."""
        found = items.intercept.new_full((len(self.rows),), -math.inf)
        for rows, _, joint in self.log_joints(items):
            found[rows] = torch.logaddexp(found[rows], torch.logsumexp(joint, dim=1).to(found))
        return float(total(self.rows, found.sum())[0])

    @cached_property
    def n_by_item(self) -> Tensor:
        """Number of responses to each item, shape (n_items,)."""
        n = self.rows.n_correct.new_zeros(self.rows.n_items)
        for batch in self.batches(dtype=torch.float64):
            n += batch.observed_by_item_sums(n.new_ones(len(batch)))
        return total(self.rows, n)[0]

    @property
    def n_correct_by_item(self) -> Tensor:
        """Number of correct responses to each item that is right or wrong, shape (n_items,)."""
        return self.rows.n_correct

    def score_correlations(self) -> tuple[Tensor, Tensor]:
        """The mean score of each item, and its correlation with the respondents' `scored`, shape (n_items,) each."""
        rows, n = self.rows, self.n_by_item
        mean = (self.of_columns(rows.n_correct) + 0.5) / (n + 1)
        square = (self.of_columns(self.column_scores * rows.n_correct) + 0.5) / (n + 1)
        deviation = (square - mean.square()).clamp(min=1e-6).sqrt()
        scores, sums = [], n.new_zeros(2)
        for batch in self.batches(dtype=torch.float64):
            scores.append(self.scored(batch, mean, deviation))
            sums += torch.stack([scores[-1].sum(), scores[-1].square().sum()])
        centre, square = total(rows, sums)[0] / rows.n_respondents
        spread = ((square - centre.square()) * rows.n_respondents / (rows.n_respondents - 1)).clamp(min=1e-24).sqrt()
        covariance = torch.zeros_like(n)
        for batch, own in zip(self.batches(dtype=torch.float64), scores, strict=True):
            standard = (own - centre) / spread
            covariance += self.of_columns(batch.correct_by_item @ standard)
            covariance -= mean * batch.observed_by_item_sums(standard)
        return mean, total(rows, covariance)[0] / n / deviation

    def scored(self, batch: Batch, mean: Tensor, deviation: Tensor) -> Tensor:
        """The sum over observed items of (x - mean) / deviation, over the root of their number, shape (n_batch,)."""
        number = batch.observed_sums(torch.ones_like(mean)).clamp(min=1)
        return (batch.correct @ (1 / deviation) - batch.observed_sums(mean / deviation)) / number.sqrt()

    def starting_values(self) -> ItemTensors:
        """Slopes from the correlation of each item with the standardised score, intercepts from its proportion correct.

        With several abilities these are the slopes on the first; the others are zero. Where difficulty has a prior
        slopes are positive, for between slopes of either sign there is no way of finite difficulties.
        """
        p, correlation = self.score_correlations()
        c = torch.where(self.guessing_free, START_GUESSING, self.prior.fixed.guessing)
        return items_of_correlations(p, correlation, c, self.n_factors, drawn=self.prior.difficulty_drawn)

    @cached_property
    def rough(self) -> Self:
        """The same for passes far from the mode, of which some digits are enough, where that is quicker."""
        return self

    def batches(self, cells: int = 0, *, dtype: torch.dtype | None = None) -> Iterator[Batch]:
        """Batches of respondents such that matrices of respondents x nodes, items (or `cells`) stay small."""
        return batches(self.rows, len(self.nodes.theta), cells, dtype=dtype or self.nodes.dtype)

    def counts(self, items: ItemTensors, *, at_nodes: bool = False) -> Counts:
        """The E step at these items, see `expected_counts`."""
        return expected_counts(self.rows, self.row(items), at_nodes=at_nodes)

    def evaluate(self, items: ItemTensors) -> Evaluation:
        """One E step and the prior at these items."""
        counts = self.counts(items)
        return Evaluation(items, counts, counts.log_likelihood + float(self.prior.log_density(items)))


def items_of_correlations(
    p: Tensor, correlation: Tensor, c: Tensor, n_factors: int = 1, *, drawn: Tensor | None = None
) -> ItemTensors:
    """Items by their proportions correct, their correlations with the score and their guessing, shape (n_items,).

    Where difficulty has a prior (`drawn`), slopes are not near 0 at first.
    """
    slope = slope_of_correlation(correlation, drawn)
    above_guessing = ((p - c) / (1 - c)).clamp(0.05, 0.999)
    p_start = torch.where(c > 0, above_guessing, p)
    intercept = torch.logit(p_start) * (1 + slope**2 / 2.89).sqrt()
    slopes = torch.zeros(len(p), n_factors, dtype=torch.float64, device=p.device)
    slopes[:, 0] = slope
    return ItemTensors(slopes, intercept, c)


def slope_of_correlation(correlation: Tensor, drawn: Tensor | None) -> Tensor:
    """The slope of an item with this correlation with ability, not near 0 where difficulty is `drawn`."""
    correlation = correlation.clamp(-0.9, 0.9)
    slope = 1.7 * correlation / (1 - correlation**2).sqrt()
    return slope if drawn is None else torch.where(drawn, slope.clamp(min=LEAST_SLOPE), slope)


def common_slope(free: Tensor) -> Tensor:
    """The design by which all slopes that are estimated, of the first column, are one parameter."""
    return equal_parameters(free, [range(0, free.numel(), free.shape[1])])


def equal_parameters(free: Tensor, sets: Sequence[Sequence[int]]) -> Tensor:
    """The design by which the entries of each set, places in the flattened parameters, are one.

    A set of which nothing is estimated is none.
    """
    found = torch.zeros(len(sets), free.numel(), dtype=torch.float64, device=free.device)
    for k, places in enumerate(sets):
        found[k, list(places)] = 1.0
    found *= free.flatten()
    return found[found.any(dim=1)].view(-1, *free.shape)


def rating_scale(free: Tensor, n_abilities: int = 1) -> Tensor:
    """The design of the steps of a rating scale, d_jk = t_k + k c_j with c_1 = 0, behind the slopes (Andrich, 1978).

    What is shared are t_1, t_2, ... that all items have, and c_2, c_3, ...; an item has d_1, d_2, ...
    """
    (n_items, width), behind = free.shape, slice(n_abilities, None)
    n_steps = width - n_abilities
    found = torch.zeros(n_steps + n_items - 1, n_items, width, dtype=torch.float64, device=free.device)
    found[:n_steps, :, behind] = torch.eye(n_steps, dtype=torch.float64, device=free.device)[:, None]
    for item in range(1, n_items):
        found[n_steps + item - 1, item, behind] = torch.arange(1, n_steps + 1)
    return found
