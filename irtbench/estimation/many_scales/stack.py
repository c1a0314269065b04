"""What a fit of many scales works on: their items one after the other, with the prior of one Pyro model.

Responses are in one tensor, those of smaller scales filled up with what is missing. The modes are found by the steps of
`fisher_scoring`, taken by all at once and judged scale by scale: a scale that has converged leaves, and so does one in
trouble (a slope that runs away, no step that helps, no convergence in time), which is to be fitted alone.

Standard errors are from the observed information of `observed_information`, batched.

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

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.driver import own_parameters
from irtbench.estimation.marginal.e_step import Counts
from irtbench.estimation.marginal.fisher_scoring import SHORTENED, Climb
from irtbench.estimation.marginal.observed_information import (
    added_to_scores,
    complete_information,
    invert,
)
from irtbench.estimation.marginal.problem import START_GUESSING, Estimate, Problem, items_of_correlations
from irtbench.estimation.settings import FitSettings
from irtbench.estimation.status import Status, Stop
from irtbench.models.coded_scores import CodedScores
from irtbench.models.pyro_model.collapsed import CollapsedScales
from irtbench.models.pyro_model.model import logistic_model
from irtbench.models.pyro_model.rows import MISSING, Scratch, as_rows, encode_responses
from irtbench.models.pyro_model.sites import ItemPrior, log_densities, trace_model
from irtbench.models.pyro_model.tensors import COMMON_SLOPE, GUESSING, ItemTensors, NodeTensors, SharedParameters
from irtbench.models.quadrature import normal_grid

CHUNK_BYTES = {"cpu": 2**22, "cuda": 2**29}  # of scales x respondents x (nodes or items) computed at once
GROUP_CELLS = {"cpu": 2**18, "cuda": 2**25}  # scales x items x nodes that take their steps together
MOST_FILLING = 2.0  # respondents x nodes of a group, each scale taken to be as large as the largest, over its own


@dataclass(frozen=True)
class Chunk:
    """Some consecutive scales of a stack as matrices of floating point numbers, respondents last.

    Parameters
    ----------
    scales
        Which they are.
    correct
        Number of correct responses, shape (n_scales, n_columns, n_respondents).
    observed
        Number of responses, shape (n_scales, n_items, n_respondents); None if every scale is complete.
    respondents
        How many respondents each row is, 0 for what fills a scale up, shape (n_scales, n_respondents).
    """

    scales: slice
    correct: Tensor
    observed: Tensor | None
    respondents: Tensor


@dataclass(frozen=True)
class Stack:
    """Responses of scales, each with respondents and items of its own.

    Parameters
    ----------
    values
        1, 0, and -1 where missing or filled up, shape (n_scales, n_columns, n_respondents), a column being an item, or
        one of its categories; where a row is of many respondents, the share of them that were right.
    n_correct
        Number of correct responses in each column, float64, shape (n_scales, n_columns).
    n_observed
        Number of responses to each item, float64, shape (n_scales, n_items).
    respondents
        How many respondents each row is, 0 for what fills a scale up, shape (n_scales, n_respondents).
    items
        1 for items, 0 for what fills a scale up, float64, shape (n_scales, n_items).
    complete
        Whether every respondent of a scale answered all of its items.
    asked
        1 where there is a response to an item, else 0, shape (n_scales, n_items, n_respondents), if columns are
        categories.
    """

    values: Tensor
    n_correct: Tensor
    n_observed: Tensor
    respondents: Tensor
    items: Tensor
    complete: bool = field(kw_only=True)
    asked: Tensor | None = field(default=None, kw_only=True)
    scratch: Scratch = field(default_factory=Scratch, repr=False, compare=False, kw_only=True)

    @classmethod
    def of(cls, scales: Sequence[ResponseMatrix], device: torch.device) -> Stack:
        """Encode responses."""
        sizes = np.array([scale.correct.shape for scale in scales])
        values = np.full((len(scales), *sizes.max(axis=0)[::-1]), MISSING, dtype=np.int8)
        for own, scale in zip(values, scales, strict=True):
            part = own[: scale.n_items, : scale.n_respondents]
            np.copyto(part, scale.correct.T, casting="unsafe", where=scale.observed.T)
        n_correct, n_observed = np.zeros((2, *values.shape[:2]))
        for right, asked, scale in zip(n_correct, n_observed, scales, strict=True):
            right[: scale.n_items], asked[: scale.n_items] = scale.n_correct_by_item, scale.n_by_item
        respondents = np.arange(values.shape[2]) < sizes[:, :1]
        parts = values, n_correct, n_observed, respondents.astype(np.float64), (n_observed > 0).astype(np.float64)
        complete = all(scale.is_complete for scale in scales)
        return cls(*(torch.from_numpy(part).to(device) for part in parts), complete=complete)

    @classmethod
    def of_scores(cls, scales: Sequence[CodedScores], columns: tuple[Tensor, Tensor]) -> Stack:
        """Those in categories; `columns` are the place in its scale of the item of each, and its category, or 0.

        Shape (n_scales, n_columns) each.
        """
        sizes = np.array([scale.codes.shape for scale in scales])
        codes = np.full((len(scales), *sizes.max(axis=0)[::-1]), MISSING, dtype=np.int8)
        for own, scale in zip(codes, scales, strict=True):
            own[: scale.n_items, : scale.n_respondents] = scale.codes.T
        item, category = columns
        given = torch.from_numpy(codes).to(item.device)
        at_item = given.gather(1, item[:, :, None].expand(-1, -1, given.shape[2]))
        values = (at_item == category[:, :, None]) & (category > 0)[:, :, None]
        asked, there = (given != MISSING).to(torch.int8), np.arange(codes.shape[2]) < sizes[:, :1]
        n_observed = asked.sum(dim=2, dtype=torch.float64)
        return cls(
            values.to(torch.int8), values.sum(dim=2, dtype=torch.float64), n_observed,
            torch.from_numpy(there.astype(np.float64)).to(item.device), (n_observed > 0).to(torch.float64),
            complete=all(scale.is_complete for scale in scales), asked=asked,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.values)

    @property
    def width(self) -> int:
        """Number of items of the largest scale, those of all with what fills them up."""
        return self.items.shape[1]

    def by_number_right(self) -> Stack:
        """The same with respondents of one number right as one row, of the shares of them that were right.

        With complete responses, one slope for all items and no guessing they have the same posterior (Andersen, 1977),
        and sums over respondents of what is linear in their responses are the same.
        """
        assert self.complete
        shares, numbers = [], []
        for chunk in self.chunks(self.width + 1, torch.float32):
            number_right = chunk.correct.sum(dim=1, dtype=torch.int64)[:, :, None]
            of_number = chunk.correct.new_zeros(*chunk.respondents.shape, self.width + 1)
            of_number.scatter_(2, number_right, chunk.respondents[:, :, None])
            number = of_number.sum(dim=1).to(torch.float64)
            right = torch.bmm(chunk.correct, of_number).to(torch.float64)
            shares.append(right / number.clamp(min=1)[:, None])
            numbers.append(number)
        parts = torch.cat(shares), self.n_correct, self.n_observed, torch.cat(numbers), self.items
        return Stack(*parts, complete=True, scratch=self.scratch)

    def of_scales(self, which: Tensor) -> Stack:
        """Some of the scales."""
        parts: dict[str, Any] = {name: part[which] for name, part in vars(self).items() if isinstance(part, Tensor)}
        return replace(self, **parts)

    def chunks(self, n_nodes: int, dtype: torch.dtype) -> Iterator[Chunk]:
        """All scales, so many at a time that matrices of respondents x nodes stay where they are quickly found.

        Each is written over by the next.
        """
        _, n_columns, n_respondents = self.values.shape
        most = max(
            1, CHUNK_BYTES[self.values.device.type] // (dtype.itemsize * n_respondents * max(n_columns, n_nodes))
        )
        like = self.values.new_empty(0, dtype=dtype)

        def copied(name: str, values: Tensor) -> Tensor:
            n_rows = len(values) * values.shape[1]
            return self.scratch.matrix(name, n_rows, n_respondents, like).view(values.shape).copy_(values)

        for first in range(0, len(self), most):
            some = slice(first, first + most)
            values = self.values[some]
            correct, observed = copied("correct", values.clamp(min=0)), None
            if not self.complete:
                observed = copied("observed", (values + 1).clamp_(max=1) if self.asked is None else self.asked[some])
            yield Chunk(some, correct, observed, self.respondents[some].to(dtype))


def groups_of(
    sizes: Sequence[tuple[tuple[object, ...], int, int]], n_nodes: int, device: torch.device
) -> list[list[int]]:
    """Positions of scales of one kind and like sizes, in groups that take their steps together.

    `sizes` are the kind, and numbers of respondents and columns, of each scale.
    """
    groups: list[list[int]] = []
    most_rows = most_columns = cells = 0
    for k in sorted(range(len(sizes)), key=lambda k: sizes[k]):
        kind, n_rows, n_columns = sizes[k]
        own = n_rows * max(n_columns, n_nodes)
        if groups and sizes[groups[-1][0]][0] == kind:
            number, rows, columns = len(groups[-1]) + 1, max(most_rows, n_rows), max(most_columns, n_columns)
            filled = number * rows * max(columns, n_nodes)
            if number * columns * n_nodes <= GROUP_CELLS[device.type] and filled <= MOST_FILLING * (cells + own):
                groups[-1].append(k)
                most_rows, most_columns, cells = rows, columns, cells + own
                continue
        groups.append([k])
        most_rows, most_columns, cells = n_rows, n_columns, own
    return groups


@dataclass(frozen=True)
class StackCounts(Counts):
    """Expected counts of several scales, see `Counts`: `respondents` has a row a scale.

    Parameters
    ----------
    log_likelihoods
        Marginal log-likelihood of each scale, shape (n_scales,).
    """

    log_likelihoods: Tensor

    def mapped(self, change: Callable[..., Tensor], *others: StackCounts) -> StackCounts:
        """What `change` makes of each of the numbers, whose first dimension it sees as that of scales."""
        every = (self, *others)

        def of_items(name: str) -> Tensor:
            parts = (getattr(one, name).unflatten(0, (len(one.log_likelihoods), -1)) for one in every)
            return change(*parts).flatten(0, 1)

        likelihoods = change(*(one.log_likelihoods for one in every))
        r = None if self.r is None else of_items("r")
        respondents = change(*(one.respondents for one in every))
        return StackCounts(float(likelihoods.sum()), of_items("n"), of_items("right"), r, respondents, likelihoods)


@dataclass(frozen=True)
class Stacked(Problem):
    """A problem of several scales, each with as many rows in what belongs to items, and in what belongs to columns.

    Parameters
    ----------
    stack
        The responses.
    """

    stack: Stack = field(kw_only=True)

    @property
    def n_scales(self) -> int:
        """Number of scales."""
        return len(self.stack)

    def of_items(self, of_scales: Tensor) -> Tensor:
        """A row for each scale as rows for its items."""
        return of_scales.repeat_interleave(self.stack.width, dim=0)

    def by_scale(self, of_items: Tensor) -> Tensor:
        """The same with a dimension of scales before that of items."""
        return of_items.unflatten(0, (self.n_scales, -1))

    @abstractmethod
    def of_scales(self, which: Tensor) -> Self:
        """The problem of some scales."""

    @abstractmethod
    def size_of(self, k: int) -> tuple[int, int, int]:
        """Numbers of items, of columns and of parameters of an item of a scale."""

    @abstractmethod
    def stack_row(self, items: ItemTensors) -> CollapsedScales:
        """The distribution of a respondent's row of each scale."""

    def log_priors(self, items: ItemTensors) -> Tensor:
        """Log prior density of each scale, shape (n_scales,); that of what fills scales up is a constant."""
        total = items.intercept.new_zeros(self.n_scales)
        values = self.prior.values_of(items) if self.prior.informative else {}
        for name, density in self.prior.informative.items():
            each = log_densities(density, values[name])
            if name in self.prior.entries:
                each = torch.zeros_like(items.matrix).masked_scatter(self.prior.entries[name], each)
            total = total + each.reshape(self.n_scales, -1).sum(dim=1)
        return total

    def counts(self, items: ItemTensors, *, at_nodes: bool = False) -> StackCounts:
        """One E step, see `e_step.posterior_sums`."""
        nodes, stack, row = self.nodes, self.stack, self.stack_row(items)
        basis, n_nodes = nodes.basis.T.to(nodes.dtype), len(nodes.theta)
        tiny = -80.0 if nodes.dtype == torch.float32 else -700.0
        # where no exponential can be 0 or infinite there is nothing to be taken off before
        moderate = nodes.dtype == torch.float64 and row.largest_exponent() < -tiny
        right, respondents, likelihoods = [], [], []
        asked: list[Tensor] = []
        for chunk in stack.chunks(n_nodes, nodes.dtype):
            n_scales, _, n_rows = chunk.correct.shape
            joint = stack.scratch.matrix("joint", n_scales * n_nodes, n_rows, basis).view(n_scales, n_nodes, n_rows)
            row.of_scales(chunk.scales).log_shape(chunk.correct, chunk.observed, out=joint)
            if moderate:
                top, posterior = joint.new_zeros(n_scales, 1, n_rows), joint.exp_()
            else:
                top = joint.amax(dim=1, keepdim=True)
                posterior = joint.sub_(top).clamp_(min=tiny).exp_()
            theta, total = torch.bmm(basis.repeat(n_scales, 1, 1), posterior).unbind(1)
            share = chunk.respondents / total
            likelihoods.append(((top[:, 0] + total.log()) * chunk.respondents).sum(dim=1, dtype=torch.float64))
            # a row times a matrix takes a third of the time of the matrix times a column
            respondents.append(torch.bmm(share[:, None], posterior.mT)[:, 0])
            linear = row.theta is not None
            if linear:
                right.append(torch.bmm((theta * share)[:, None], chunk.correct.mT)[:, 0])
            if not linear or chunk.observed is not None:
                posterior.mul_(share[:, None])
            if not linear:
                right.append(torch.bmm(chunk.correct, posterior.mT))
            if chunk.observed is not None:
                asked.append(torch.bmm(chunk.observed, posterior.mT))
        by_scale, by_right = torch.cat(respondents).to(torch.float64), torch.cat(right).to(torch.float64)
        n = torch.cat(asked).to(torch.float64) if asked else by_scale[:, None, :] * stack.items[:, :, None]
        n, each = n.flatten(0, 1), torch.cat(likelihoods)
        if row.theta is None:
            r = by_right.flatten(0, 1)
            return StackCounts(float(each.sum()), n, r @ nodes.basis, r, by_scale, each)
        # the constants that `log_shape` leaves out
        each = each + (stack.n_correct * self.by_scale(items.intercept)).sum(dim=1)
        sums = torch.stack([by_right, stack.n_correct], dim=2).flatten(0, 1)
        return StackCounts(float(each.sum()), n, sums, None, by_scale, each)

    def evaluated(self, items: ItemTensors) -> tuple[ItemTensors, StackCounts, Tensor]:
        """The items, one E step there, and the log-posterior of each scale."""
        counts = self.counts(items)
        return items, counts, counts.log_likelihoods + self.log_priors(items)


@dataclass(frozen=True)
class StackProblem(Stacked):
    """A problem of several scales of right and wrong.

    Parameters
    ----------
    of_one_item
        What the model says of a single item.
    """

    of_one_item: ItemPrior = field(kw_only=True)

    @classmethod
    def of_stack(
        cls,
        stack: Stack,
        nodes: NodeTensors,
        settings: FitSettings,
        guessing: tuple[Tensor, Tensor],
    ) -> StackProblem:
        """The Pyro model of one item, whose prior every item of every scale has for itself.

        Parameters
        ----------
        stack, nodes, settings
            The responses, the population, and the model.
        guessing
            Where c is estimated, and what it is elsewhere, shape (n_scales, width) each.
        """
        device = stack.values.device
        model = partial(
            logistic_model,
            priors=settings.priors,
            guessing_free=guessing[0].any().view(1),
            guessing_fixed=torch.zeros(1, dtype=torch.float64, device=device),
            shared=SharedParameters.common_slope(torch.ones_like(stack.items[0, :1]), rasch=settings.kind == "rasch")
            if settings.has_common_slope
            else None,
        )
        if settings.has_common_slope and stack.complete:
            stack = stack.by_number_right()
        one_response = as_rows(torch.zeros(1, 1, dtype=torch.int8, device=device))
        with own_parameters():
            prior, _ = trace_model(model, one_response, nodes)
        return cls(model, one_response, nodes, prior, stack=stack, of_one_item=prior).for_stack(stack, *guessing)

    def for_stack(self, stack: Stack, guessing_free: Tensor, guessing_fixed: Tensor) -> Self:
        """The same model of the items of other scales; guessing as in `of_stack`."""
        return replace(self, prior=self.prior_of(stack.items, guessing_free, guessing_fixed), stack=stack)

    def prior_of(self, present: Tensor, guessing_free: Tensor, guessing_fixed: Tensor) -> ItemPrior:
        """The prior of the items of scales, or of a single one: arguments of shape (n_scales, width) or (n_items,)."""
        one, free, given = self.of_one_item, guessing_free.flatten(), guessing_fixed.flatten()
        number_of = {COMMON_SLOPE: len(present) if present.dim() > 1 else 1, "guessing_logit": int(free.sum())}
        densities = {
            name: density.expand(torch.Size([number_of.get(name, len(free)), *density.batch_shape[1:]]))
            for name, density in one.densities.items()
        }
        nothing = torch.zeros_like(given)
        fixed = ItemTensors(nothing[:, None], nothing, given)
        shared = None if one.shared is None else SharedParameters.common_slope(present, rasch=one.shared.unit_slopes)
        entries = {name: where.expand(len(free), -1) for name, where in one.entries.items()}
        if "guessing_logit" in entries:
            entries["guessing_logit"] = entries["guessing_logit"] & free[:, None]
        return replace(one, densities=densities, entries=entries, fixed=fixed, shared=shared)

    def of_scale(self, k: int, responses: ResponseMatrix) -> Problem:
        """The problem of one scale, of these responses."""
        own = slice(k * self.stack.width, k * self.stack.width + responses.n_items)
        present = torch.ones_like(self.stack.items[k, : responses.n_items])
        prior = self.prior_of(present, self.guessing_free[own], self.prior.fixed.guessing[own])
        rows = encode_responses(responses, present.device)
        return Problem(self.model, rows, self.nodes, prior)

    @cached_property
    def n_by_item(self) -> Tensor:
        """Number of responses to each item, shape (n_scales * width,)."""
        return self.stack.n_observed.flatten()

    @property
    def n_correct_by_item(self) -> Tensor:
        """Number of correct responses to each item, of the same shape."""
        return self.stack.n_correct.flatten()

    @cached_property
    def free(self) -> Tensor:
        """Parameters of the items that there are, the items' own or not, shape (n_scales * width, 3)."""
        free = (self.stack.items.flatten()[:, None] > 0).repeat(1, 3)
        free[:, GUESSING] = self.guessing_free
        return free

    def of_scales(self, which: Tensor) -> Self:
        """The problem of some scales."""
        guessing = self.guessing_free, self.prior.fixed.guessing
        return self.for_stack(self.stack.of_scales(which), *(self.by_scale(part)[which] for part in guessing))

    def size_of(self, k: int) -> tuple[int, int, int]:
        """Columns are items."""
        n_items = int(self.stack.items[k].sum())
        return n_items, n_items, self.free.shape[1]

    def stack_row(self, items: ItemTensors) -> CollapsedScales:
        """The distribution of a respondent's row of each scale."""
        present = self.stack.items if self.stack.complete else None
        guessing = self.by_scale(items.guessing).log() if self.guesses else None
        return CollapsedScales(
            self.by_scale(items.slope), self.by_scale(items.intercept), guessing, self.nodes, present
        )

    def starting_values(self) -> ItemTensors:
        """Those of each scale."""
        stack = self.stack
        dtype, present = torch.float32, stack.items > 0
        number = stack.n_observed.clamp(min=1)
        p = torch.where(present, (stack.n_correct + 0.5) / (number + 1), 0.5)
        deviation = (p * (1 - p)).sqrt()
        rate, share = (1 / deviation).to(dtype)[:, None], (p / deviation).to(dtype)[:, None]
        covariances = []
        for chunk in stack.chunks(1, dtype):
            respondents = chunk.respondents[:, None]
            score = torch.bmm(rate[chunk.scales], chunk.correct)
            if chunk.observed is not None:
                score -= torch.bmm(share[chunk.scales], chunk.observed)
                score /= chunk.observed.sum(dim=1, keepdim=True).clamp(min=1).sqrt()
            n = respondents.sum(dim=2, keepdim=True)
            score = (score - (score * respondents).sum(dim=2, keepdim=True) / n) * respondents
            standard = score / (score.square().sum(dim=2, keepdim=True) / (n - 1)).sqrt().clamp(min=1e-12)
            covariance = torch.bmm(standard, chunk.correct.mT)[:, 0]
            if chunk.observed is not None:
                covariance -= p.to(dtype)[chunk.scales] * torch.bmm(standard, chunk.observed.mT)[:, 0]
            covariances.append(covariance)
        correlation = torch.cat(covariances).to(torch.float64) / number / deviation * present
        c = torch.where(self.guessing_free, START_GUESSING, self.prior.fixed.guessing)
        return items_of_correlations(p.flatten(), correlation.flatten(), c)


Some = TypeVar("Some", bound=Stacked)
COARSE_TOLERANCE = 3e-3  # standard errors; on half the nodes in single precision the gradient is known that well
MOST_COARSE, NEARLY_ALL = 30, 0.8  # steps there, and the share of the scales that are to be as near as that
MOST_BINS = 16  # of nodes in the missing information: as many steps as with 32 for scales of tens of items
ALONE = 2 * len(SHORTENED)  # steps that were taken back one after the other before a scale is fitted alone


@dataclass
class StackClimb(Climb):
    """Where scales are on their way."""

    problem: Stacked
    counts: StackCounts

    def of_scales(self, which: Tensor) -> StackClimb:
        """The way of some of the scales, by their positions among these."""
        rows = self.problem.by_scale(torch.arange(len(self.items), device=which.device))[which].flatten()
        some = StackClimb(
            self.problem.of_scales(which), ItemTensors.from_matrix(self.items.matrix[rows]),
            self.counts.mapped(lambda own: own[which]), self.log_posterior[which], self.which[which],
            self.memory.of(which), self.change[which], self.refused[which],
        )  # fmt: skip
        some.derivatives, some.uphill = self.derivatives.of_items(rows), self.uphill[rows]
        return some

    def advance(self) -> Tensor:
        """Take the next step of each scale, where it is no worse; where that was, shape (n_scales,)."""
        return self.take(*self.problem.evaluated(self.next_items()))

    def estimate(self, k: int, steps: int, tolerance: float) -> Estimate:
        """That of a scale which has converged."""
        n_items, n_columns, width = self.problem.size_of(k)
        counts = self.counts.mapped(lambda own: own[k, None])
        r = None if counts.r is None else counts.r[:n_columns]
        likelihood = counts.log_likelihood
        its_counts = Counts(likelihood, counts.n[:n_items], counts.right[:n_columns], r, counts.respondents[0])
        status = Status(Stop.CONVERGED, steps, float(self.size[k]), float(self.change[k]), tolerance=tolerance)
        items = ItemTensors.from_matrix(self.problem.by_scale(self.items.matrix)[k, :n_items, :width])
        return Estimate(items, "mode", likelihood, likelihood, status, its_counts)

    def move(self, taken: Tensor, items: ItemTensors, counts: Counts, log_posterior: Tensor) -> None:
        """Those that take the step go on to these items."""
        assert isinstance(counts, StackCounts)
        if not bool(taken.all()):

            def better(own: Tensor, other: Tensor) -> Tensor:
                return torch.where(taken.view(-1, *[1] * (own.dim() - 1)), other, own)

            matrix = better(*(self.problem.by_scale(each.matrix) for each in (self.items, items)))
            items, counts = ItemTensors.from_matrix(matrix.flatten(0, 1)), self.counts.mapped(better, counts)
            log_posterior = better(self.log_posterior, log_posterior)
        super().move(taken, items, counts, log_posterior)


def find_modes(
    problem: Some, start: ItemTensors, *, tolerance: float, max_steps: int
) -> tuple[Some, ItemTensors, dict[int, Estimate]]:
    """Maximise the log-posterior of every scale: first on half the nodes in single precision, then on all.

    Returns the problem of the scales with a maximum, their items, and the estimate of each by its position among all;
    the others are to be fitted alone.
    """
    start = problem.prior.items_of(problem.prior.values_of(start))
    coarse_grid, device = normal_grid(len(problem.nodes.theta) // 2 + 1), problem.nodes.theta.device
    coarse = replace(NodeTensors.from_quadrature(coarse_grid, dtype=torch.float32, device=device), most_bins=MOST_BINS)
    fine = replace(problem, nodes=replace(problem.nodes, most_bins=MOST_BINS))
    way = StackClimb.begin(replace(problem, nodes=coarse), *replace(problem, nodes=coarse).evaluated(start))
    steps = torch.zeros_like(way.which)
    for _ in range(min(MOST_COARSE, max_steps)):
        if float((way.size < COARSE_TOLERANCE).double().mean()) >= NEARLY_ALL:
            break
        steps += way.advance()
    way = StackClimb.begin(fine, *fine.evaluated(way.items), memory=way.memory)
    matrix, found = climb(way, steps, tolerance=tolerance, max_steps=max_steps)
    if 0 < len(found) < len(matrix):
        which = torch.tensor([*found], device=device)
        problem, matrix = problem.of_scales(which), matrix[which]
    return problem, ItemTensors.from_matrix(matrix.flatten(0, 1)), found


def climb(way: StackClimb, steps: Tensor, *, tolerance: float, max_steps: int) -> tuple[Tensor, dict[int, Estimate]]:
    """Take steps until every scale has left: it has converged by the criterion of `FisherScoring`, or is in trouble.

    Returns the items of all, shape (n_scales, n_items, width), and the estimates of those with a maximum.
    """
    found: dict[int, Estimate] = {}
    matrix = torch.empty_like(way.problem.by_scale(way.items.matrix))
    while True:
        size, away = way.size, way.problem.by_scale(torch.stack(way.run_away).any(dim=0)).any(dim=1)
        lost = ~(size < math.inf) | away | (way.refused >= ALONE) | (steps[way.which] >= max_steps)
        there = (size < tolerance) & (way.change < 100 * tolerance) & ~lost
        matrix[way.which] = way.problem.by_scale(way.items.matrix)
        for k in torch.nonzero(there)[:, 0].tolist():
            place = int(way.which[k])
            found[place] = way.estimate(k, int(steps[place]), tolerance)
        left = torch.nonzero(~(there | lost))[:, 0]
        if not len(left):
            return matrix, dict(sorted(found.items()))
        if len(left) < len(way.which):
            way = way.of_scales(left)
        steps[way.which] += way.advance()


def stack_covariances(problem: StackProblem, items: ItemTensors, counts: Counts) -> tuple[Tensor, Tensor]:
    """What `joint_sampling_covariance` has of each scale, and whether all is determined; `counts` are those there.

    Shapes (n_scales, width, 3, width, 3), 0 of what fills scales up, and (n_scales,).
    """
    information, present = stack_information(problem, items, counts).flatten(3).flatten(1, 2), problem.stack.items > 0
    width, each = present.shape[1], information.shape[1] // present.shape[1]
    estimated = problem.by_scale(problem.free[:, :each]).flatten(1)
    by_few = torch.eye(estimated.shape[1]).to(information)
    if problem.prior.shared is not None:  # by the intercepts and the slope of all items
        by_few = by_few[:, 1::2].expand(len(present), -1, -1)
        of_slope = torch.stack([problem.stack.items, torch.zeros_like(problem.stack.items)], dim=2).flatten(1)
        by_few = torch.cat([by_few, of_slope[:, :, None]], dim=2)
        information, estimated = by_few.mT @ information @ by_few, torch.nn.functional.pad(present, (0, 1), value=True)
    identity, pairs = torch.eye(estimated.shape[1]).to(information), estimated[:, :, None] & estimated[:, None, :]
    inverse, loose = invert(torch.where(pairs, information, identity))
    inverse = by_few @ torch.where(pairs, inverse, 0.0) @ by_few.mT
    joint = information.new_zeros(len(present), width, 3, width, 3)
    joint[:, :, :each, :, :each] = inverse.unflatten(2, (width, each)).unflatten(1, (width, each))
    rate = problem.by_scale(items.guessing * (1 - items.guessing))
    joint[:, :, GUESSING] *= rate[:, :, None, None]
    joint[..., GUESSING] *= rate[:, None, None, :]
    return joint, ~(loose & estimated).any(dim=1)


def stack_information(problem: StackProblem, items: ItemTensors, counts: Counts) -> Tensor:
    """By (a, d), or (a, d, logit c) where it is estimated, of all items of each scale, prior included.

    Shape (n_scales, width, k, width, k).

    What is not estimated has no meaning.
    """
    basis, of_steps = problem.nodes.basis, slice(3 if bool(problem.guessing_free.any()) else 2)
    if problem.guesses:
        each, base = (part[:, :, of_steps] for part in added_to_scores(problem, items))
        right = problem.by_scale(each.mT.contiguous())
    else:
        base = -torch.sigmoid(items.logits(basis))[:, :, None] * basis
        right = basis.T.expand(problem.n_scales, 1, -1, -1)
    complete = complete_information(problem, items, counts)[:, of_steps, of_steps]
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
        posterior = row.of_scales(chunk.scales).posterior(chunk.correct, chunk.observed)
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
