"""What a fit with testlets works on: the E step by dimension reduction, and nodes fine enough for it.

Given the general ability a respondent's testlets are independent, so that the posterior of the general ability and of
one specific ability is that of the former times that of the latter given it. An item's likelihood rests on these two
abilities alone: its expected counts are on the grid of both, and its M step is that of an item with two slopes.

It is what complete data would have told, less the sum over respondents of the posterior covariance of their score
(Louis, 1982). A respondent who was right x_j times in n_j responses to item j has the score
(x_j - n_j P_j) (theta_0, theta_s, 1) by its two slopes and its intercept. Given the general ability the scores of two
testlets are independent, so that with m_j the mean of an item's score given it,

    E[s_j s_k'] = E[m_j m_k'] for items of two testlets,

and only items of one testlet ask for sums over the grid of both abilities.

Where all slopes on a specific ability are 0 the likelihood has no gradient by them, whatever the data; so the steps
start from slopes of one sign and from those that the correlations of a testlet's residuals ask for. A testlet of few
items says little of its ability, so that EM is slow at the end; once the observed information is positive definite
Newton steps go first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import torch
from torch import Tensor

from irtbench.data.responses import ResponseMatrix
from irtbench.estimation.marginal.e_step import Counts
from irtbench.estimation.marginal.m_step import LARGEST_STEP, item_derivatives, moved
from irtbench.estimation.marginal.nodes import STEEPEST
from irtbench.estimation.marginal.observed_information import invert, observed_information
from irtbench.estimation.marginal.problem import Problem
from irtbench.estimation.several_abilities.abilities_mode import COARSE_ROOM, AbilitiesProblem, along, flat_model
from irtbench.estimation.several_abilities.factor_problem import (
    CHECKED_FINER,
    CHECKED_OFFSET,
    CHECKED_WIDER,
    CPU,
    NORMAL_OGIVE,
    item_correlations,
    loadings_of,
    replace_slopes,
)
from irtbench.models.pyro_model.bifactor_row import (
    ALONE,
    GENERAL,
    SPECIFIC,
    BifactorNodes,
    CollapsedBifactor,
    ItemGroups,
)
from irtbench.models.pyro_model.item_tensors import LINEAR, ItemTensors
from irtbench.models.pyro_model.rows import Batch, encode_responses
from irtbench.models.pyro_model.shared import SharedParameters

MOST_CELLS = {"cpu": 2**18, "cuda": 2**26}  # respondents x testlets x nodes held at once
LEAST_ROWS = 64  # at once, however many nodes there are
LEAST_EXPONENT = {torch.float64: -700.0, torch.float32: -80.0}  # exp() of less is a denormal number, which is slow
BOUND = 6.0  # abilities beyond are left out
COARSEST = 0.5  # spacing of nodes
MOST_NODES = 301  # on an axis
START_SLOPE = 0.5  # on a specific ability
MOST_NEWTON_STEPS, MOST_HALVINGS = 20, 6


@dataclass(frozen=True)
class BifactorPosterior:
    """Posteriors of some respondents.

    Parameters
    ----------
    batch
        Their responses.
    log_likelihood
        Of each row, but for the constants that `CollapsedLogistic.log_shape` leaves out, shape (n_batch,).
    general
        Of the general ability, shape (n_batch, n_general).
    given_general
        Of each testlet's specific ability at each node of the general one, shapes (n_batch, n_general, n_specific).
    """

    batch: Batch
    log_likelihood: Tensor
    general: Tensor
    given_general: tuple[Tensor, ...]

    def joint(self, testlet: int) -> Tensor:
        """Of the general and a specific ability, shape (n_batch, n_general n_specific)."""
        return (self.given_general[testlet] * self.general[:, :, None]).flatten(1)


@dataclass(frozen=True)
class BifactorProblem(AbilitiesProblem):
    """A problem whose items have a slope on a general ability and one on that of their testlet.

    Parameters
    ----------
    testlets
        Which items are of one testlet.
    """

    nodes: BifactorNodes
    testlets: ItemGroups = field(kw_only=True)
    coarse_first = False

    def row(self, items: ItemTensors) -> CollapsedBifactor:
        """The distribution of a respondent's row at these items."""
        return CollapsedBifactor(items.slope, items.intercept, self.nodes, self.testlets)

    def posteriors(self, items: ItemTensors, *, cells: int = 0) -> Iterator[BifactorPosterior]:
        """Posteriors of all respondents at these items, in batches; `cells` is what else is held for a respondent."""
        row, dtype = self.row(items), self.nodes.dtype
        least = LEAST_EXPONENT[dtype]
        held = max(len(self.testlets) * len(self.nodes.theta), self.rows.n_items, cells)
        most = max(LEAST_ROWS, MOST_CELLS[self.rows.device.type] // held)
        for batch in self.rows.batches(most, dtype):
            log_general, given_general = row.outside(batch.correct, batch.observed), []
            for testlet in range(len(self.testlets)):
                within = row.within(testlet, batch.correct, batch.observed)
                top = within.amax(dim=2, keepdim=True)
                within = within.sub_(top).clamp_(min=least).exp_()
                total = within.sum(dim=2, keepdim=True)
                given_general.append(within.div_(total))
                log_general += (top + total.log())[:, :, 0]
            log_likelihood = log_general.logsumexp(dim=1)
            general = (log_general - log_likelihood[:, None]).clamp_(min=least).exp_()
            yield BifactorPosterior(batch, log_likelihood, general, tuple(given_general))

    def starts(self) -> list[ItemTensors]:
        """Slopes of one sign on each specific ability; where free also those that residual correlations say."""
        items = self.starting_values()
        free = self.free[:, SPECIFIC] if self.prior.shared is None else self.prior.shared.own[:, SPECIFIC]
        alike = items.slope.clone()
        alike[self.testlets.of_item != ALONE, SPECIFIC] = START_SLOPE
        if not bool(free.any()):
            return [replace(items, slope=alike)]
        general = items.slope[:, GENERAL]
        loading = general / (NORMAL_OGIVE**2 + general**2).sqrt()
        residual = item_correlations(self) - torch.outer(loading, loading)
        by_residuals = alike.clone()
        for members in self.testlets.members:
            if bool(free[members].all()):
                own = loadings_of(residual[members][:, members], 1)
                by_residuals[members, SPECIFIC] = replace_slopes(items, own).slope[:, 0]
        return [replace(items, slope=slope) for slope in (alike, by_residuals)]

    def placed(self, items: ItemTensors, *, room: float) -> Self:
        """On a grid close enough for anybody's posterior."""
        grid = grid_for(items, self.testlets, room=room)
        return replace(self, nodes=replace(grid, dtype=self.nodes.dtype))

    def others(self, items: ItemTensors, *, room: float) -> BifactorNodes:
        """A grid that is finer, wider and moved."""
        bound = CHECKED_WIDER * BOUND
        return grid_for(items, self.testlets, room=room, bound=bound, finer=CHECKED_FINER, offset=CHECKED_OFFSET)

    @property
    def words(self) -> str:
        """Which nodes these are."""
        return f"grid of {self.nodes.n_general} x {self.nodes.n_specific} nodes, a specific ability at a time"

    def log_likelihood(self, items: ItemTensors) -> float:
        """Marginal log-likelihood of all respondents."""
        total = sum(float(found.log_likelihood.sum()) for found in self.posteriors(items))
        return total + float(self.rows.n_correct @ items.intercept)

    def determined(self, items: ItemTensors) -> Tensor:
        """Slopes and intercepts by the parameters that are estimated, shape (n_free, n_estimated)."""
        return self.by_estimated[self.free.flatten()]

    def named(self, items: ItemTensors) -> ItemTensors:
        """Every ability turned so that the sum of the slopes on it is positive."""
        slope = items.slope.clone()
        slope[:, GENERAL] *= sign_of_sum(slope[:, GENERAL])
        for members in self.testlets.members:
            slope[members, SPECIFIC] *= sign_of_sum(slope[members, SPECIFIC])
        return replace(items, slope=slope)

    def nearer(self, items: ItemTensors, tolerance: float) -> tuple[ItemTensors, int]:
        """Go uphill by Newton steps as long as the observed information is positive definite; and how many these are.

        A step is halved until the likelihood rises by it.
        """
        problem, by_free = self.in_float64(), self.determined(items)
        here = problem.evaluate(items)
        for number in range(MOST_NEWTON_STEPS):
            gradient = by_free.T @ item_derivatives(problem, items, here.counts).gradient[self.free]
            inverse, loose = invert(by_free.T @ observed_information(problem, items) @ by_free, most=math.inf)
            if bool(loose.any()) or float(gradient @ inverse @ gradient) < tolerance**2:
                return items, number
            step = along(self, by_free @ inverse @ gradient)
            step /= (step.abs().max() / LARGEST_STEP).clamp(min=1.0)
            tried = (problem.evaluate(moved(items, step / 2**halvings)) for halvings in range(MOST_HALVINGS))
            there = next((found for found in tried if found.log_posterior > here.log_posterior), None)
            if there is None:
                return items, number
            items, here = there.items, there
        return items, MOST_NEWTON_STEPS

    def counts(self, items: ItemTensors, *, at_nodes: bool = False) -> Counts:
        """The E step at these items; items in no testlet have their counts at the first node of a specific ability."""
        assert not at_nodes
        grid, together = self.nodes, self.testlets
        n = grid.theta.new_zeros(self.rows.n_items, len(grid.theta))
        at_general = n.reshape(len(n), grid.n_general, grid.n_specific)
        right = grid.theta.new_zeros(self.rows.n_items, 3)
        right[:, -1] = self.rows.n_correct
        respondents = grid.theta.new_zeros(len(grid.theta))
        log_likelihood = self.rows.n_correct @ items.intercept
        general, theta = grid.general.to(grid.dtype), grid.theta.to(grid.dtype)
        for found in self.posteriors(items):
            batch, alone = found.batch, together.alone
            log_likelihood = log_likelihood + found.log_likelihood.sum(dtype=torch.float64)
            respondents += torch.outer(found.general.sum(dim=0), grid.log_specific.exp()).flatten()
            at_general[alone, :, 0] += sums_by_item(batch, alone, found.general)
            right[alone, GENERAL] += batch.correct_by_item[alone] @ (found.general @ general)
            for testlet, members in enumerate(together.members):
                joint = found.joint(testlet)
                n[members] += sums_by_item(batch, members, joint)
                right[members, :-1] += batch.correct_by_item[members] @ (joint @ theta)
        return Counts(float(log_likelihood), n, right, None, respondents)


def sums_by_item(batch: Batch, items: Tensor, values: Tensor) -> Tensor:
    """Sums of values over the responses to each of some items, shape (n_items, n_columns) or one row for all."""
    return values.sum(dim=0) if batch.observed_by_item is None else batch.observed_by_item[items] @ values


def grid_for(
    items: ItemTensors,
    testlets: ItemGroups,
    *,
    room: float,
    bound: float = BOUND,
    finer: float = 1.0,
    offset: float = 0.0,
) -> BifactorNodes:
    """Nodes close enough for the narrowest posterior that somebody may have, and for the steepest item.

    A posterior is no narrower than 1 / sqrt(1 + I), with I the largest information of all the items that the ability
    has slopes on, sum a^2 / 4.

    Parameters
    ----------
    items, testlets
        Whose posteriors.
    room
        Distance of nodes in standard deviations of the narrowest posterior.
    bound
        Abilities beyond are left out.
    finer
        Factor of both distances.
    offset
        How far nodes are moved, in spacings.
    """
    squares = items.slope.square()
    of_testlets = torch.stack([squares[members, SPECIFIC].sum() for members in testlets.members])
    axes = []
    for column, total in ((GENERAL, squares[:, GENERAL].sum()), (SPECIFIC, of_testlets.max())):
        narrowest = 1 / math.sqrt(1 + float(total) / 4)
        steepest = STEEPEST / max(float(items.slope[:, column].abs().max()), 1e-300)
        spacing = finer * min(room * narrowest, steepest * min(room, 1.0), COARSEST)
        spacing = max(spacing, 2 * bound / MOST_NODES)
        n_each = math.floor(bound / spacing)
        whole = torch.arange(-n_each, n_each + 1, dtype=torch.float64, device=squares.device)
        axes.append((whole + offset) * spacing)
    return BifactorNodes.grid(*axes)


def bifactor_problem(
    responses: ResponseMatrix,
    testlets: ItemGroups,
    nodes: BifactorNodes | None = None,
    *,
    equal: bool = False,
    device: torch.device = CPU,
    dtype: torch.dtype = torch.float64,
) -> BifactorProblem:
    """Data of a model with testlets, without a prior.

    Parameters
    ----------
    responses, testlets
        The data.
    nodes
        None for some to begin with.
    equal
        Whether the items of each testlet have one specific slope; those of a testlet of two always have.
    device, dtype
        Where to compute, and the precision of the sums; nodes that are given are there.
    """
    testlets = testlets.to(device)
    slopes_free = torch.ones(responses.n_items, 2, dtype=torch.bool, device=device)
    slopes_free[testlets.alone, SPECIFIC] = False
    alike = [members for members in testlets.members if equal or len(members) == 2]
    model = partial(
        flat_model(responses, device),
        slopes_free=None if alike else slopes_free,
        shared=SharedParameters.alike(slopes_free, SPECIFIC, alike) if alike else None,
        testlets=testlets,
    )
    if nodes is None:
        zeros = torch.zeros(responses.n_items, dtype=torch.float64, device=device)
        usual = ItemTensors(slopes_free.to(torch.float64), zeros, zeros)
        nodes = replace(grid_for(usual, testlets, room=COARSE_ROOM), dtype=dtype)
    flat = Problem.of(model, encode_responses(responses, device), nodes)
    return BifactorProblem(flat.model, flat.rows, nodes, flat.prior, testlets=testlets)


def sign_of_sum(slopes: Tensor) -> float:
    """-1 where slopes have a negative sum, else 1."""
    return -1.0 if float(slopes.sum()) < 0 else 1.0


@observed_information.register
def bifactor_information(problem: BifactorProblem, items: ItemTensors) -> Tensor:
    """Negative Hessian of the log-likelihood in the free slopes and intercepts, shape (n_free, n_free)."""
    problem = problem.in_float64()
    grid, together, n_items = problem.nodes, problem.testlets, len(items)
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
    grid, together, batch = problem.nodes, problem.testlets, found.batch
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
    members, batch, joint = problem.testlets.members[testlet], found.batch, found.joint(testlet)
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
