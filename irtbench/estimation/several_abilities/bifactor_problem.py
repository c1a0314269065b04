"""What a fit with testlets works on: the E step by dimension reduction, and nodes fine enough for it.

Given the general ability a respondent's testlets are independent, so that the posterior of the general ability and of
one specific ability is that of the former times that of the latter given it. An item's likelihood rests on these two
abilities alone: its expected counts are on the grid of both, and its M step is that of an item with two slopes.

The information is that of complete data less the sum over respondents of the posterior covariance of their score
(Louis, 1982). Given the general ability the scores of two testlets are independent, so that with m_j the mean of an
item's score given it,

    E[s_j s_k'] = E[m_j m_k'] for items of two testlets,

and only items of one testlet ask for sums over the grid of both abilities.

Where all slopes on a specific ability are 0 the likelihood has no gradient by them, whatever the data; so the steps
start from slopes of one sign and from those that the correlations of a testlet's residuals ask for. A testlet of few
items says little of its ability, so that EM is slow at the end; so Newton steps are taken from there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import torch
from torch import Tensor

from irtbench.estimation.marginal.category_problem import CategoryProblem
from irtbench.estimation.marginal.e_step import Counts
from irtbench.estimation.marginal.missing_information import MOST_PRODUCTS, ScoreParts, numbers_of
from irtbench.estimation.marginal.nodes import STEEPEST
from irtbench.estimation.marginal.observed_information import (
    added_to_scores,
    invert,
    missing_information,
    observed_information,
    of_estimated,
)
from irtbench.estimation.several_abilities.abilities_mode import COARSE_ROOM, Abilities, with_slopes
from irtbench.estimation.several_abilities.answers import Answers
from irtbench.estimation.several_abilities.factor_problem import (
    CHECKED_FINER,
    CHECKED_OFFSET,
    CHECKED_WIDER,
    CPU,
    NORMAL_OGIVE,
    item_correlations,
    known_slopes,
    loadings_of,
    slopes_of,
)
from irtbench.estimation.several_abilities.rotation_freedom import with_positive_sums
from irtbench.models.item_models.logistic import START_GUESSING, START_UPPER
from irtbench.models.pyro_model.categories import (
    ALONE,
    GENERAL,
    SPECIFIC,
    BifactorNodes,
    CategoryItems,
    CollapsedBifactor,
    ItemGroups,
    category_model,
)
from irtbench.models.pyro_model.rows import Batch
from irtbench.models.pyro_model.tensors import ItemTensors

MOST_CELLS = {"cpu": 2**18, "cuda": 2**26}  # respondents x testlets x nodes in memory at once
LEAST_ROWS = 64  # at once, however many nodes there are
LEAST_EXPONENT = {torch.float64: -700.0, torch.float32: -80.0}  # exp() of less is a denormal number, which is slow
BOUND = 6.0  # abilities beyond are left out
COARSEST = 0.5  # spacing of nodes
MOST_NODES = 301  # on an axis
START_SLOPE = 0.5  # on a specific ability
N_LOOKED_AT = 121  # abilities at which an item may tell most


@dataclass(frozen=True)
class BifactorPosterior:
    """Posteriors of some respondents.

    Parameters
    ----------
    batch
        Their responses.
    log_likelihood
        Of each row, shape (n_batch,).
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
class BifactorProblem(CategoryProblem):
    """A problem whose items have a slope on a general ability and one on that of their testlet.

    Parameters
    ----------
    testlets
        Which items are of one testlet.
    """

    nodes: BifactorNodes
    testlets: ItemGroups = field(kw_only=True)

    def row(self, items: ItemTensors) -> CollapsedBifactor:
        """The distribution of a respondent's row at these items."""
        return CollapsedBifactor(items.matrix, self.scale, self.nodes, self.testlets)

    def posteriors(self, items: ItemTensors, *, cells: int = 0) -> Iterator[BifactorPosterior]:
        """Posteriors of all respondents at these items, in batches; `cells` is what else a respondent takes."""
        row, dtype = self.row(items), self.nodes.dtype
        least = LEAST_EXPONENT[dtype]
        each = max(len(self.testlets) * len(self.nodes.theta), self.rows.n_items, cells)
        most = max(LEAST_ROWS, MOST_CELLS[self.rows.device.type] // each)
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

    def log_likelihood(self, items: ItemTensors) -> float:
        """Marginal log-likelihood of all respondents."""
        return sum(float(found.log_likelihood.sum()) for found in self.posteriors(items))

    def counts(self, items: ItemTensors, *, at_nodes: bool = True) -> Counts:
        """The E step at these items; items in no testlet have their counts at the first node of a specific ability."""
        grid, together, row = self.nodes, self.testlets, self.row(items)
        n = grid.theta.new_zeros(len(self.scale), len(grid.theta))
        r = grid.theta.new_zeros(len(self.scale.item_of_column), len(grid.theta))
        n_general, r_general = (part.reshape(len(part), grid.n_general, -1)[:, :, 0] for part in (n, r))
        respondents, log_likelihood = grid.theta.new_zeros(len(grid.theta)), 0.0
        for found in self.posteriors(items):
            batch, alone, columns = found.batch, together.alone, row.columns_alone
            log_likelihood += float(found.log_likelihood.sum(dtype=torch.float64))
            respondents += torch.outer(found.general.sum(dim=0), grid.log_specific.exp()).flatten()
            n_general[alone] += sums_by_item(batch, alone, found.general)
            r_general[columns] += batch.correct_by_item[columns] @ found.general
            for testlet, (members, columns) in enumerate(zip(together.members, row.columns, strict=True)):
                joint = found.joint(testlet)
                n[members] += sums_by_item(batch, members, joint)
                r[columns] += batch.correct_by_item[columns] @ joint
        return Counts(log_likelihood, n, r @ grid.basis, r, respondents)


@dataclass(frozen=True)
class Testlets(Abilities):
    """A general ability, and one of each testlet.

    Parameters
    ----------
    testlets
        Which items are of one testlet.
    alike
        Which items have a specific slope that is all their testlet's, shape (n_items,).
    """

    problem: BifactorProblem
    testlets: ItemGroups = field(kw_only=True)
    alike: Tensor = field(kw_only=True)
    coarse_first = False

    def starts(self) -> list[ItemTensors]:
        """Slopes of one sign on each specific ability; where free also those that residual correlations say."""
        problem = self.problem
        items = problem.starting_values()
        slopes = items.matrix[:, : SPECIFIC + 1].clone()
        general = slopes[:, GENERAL]
        slopes[self.testlets.of_item != ALONE, SPECIFIC] = START_SLOPE
        found = [slopes]
        if bool((problem.free[:, SPECIFIC] & ~self.alike).any()):
            loading = general / (NORMAL_OGIVE**2 + general**2).sqrt()
            residual = item_correlations(self) - torch.outer(loading, loading)
            own = torch.zeros_like(slopes)
            for members in self.testlets.members:
                own[members, SPECIFIC] = loadings_of(residual[members][:, members], 1)[:, 0]
            own = torch.where(self.alike[:, None], slopes, slopes_of(own, self.scale))
            found.append(torch.stack([general, own[:, SPECIFIC]], dim=1))
        return [with_slopes(items, each) for each in found]

    def placed(self, items: ItemTensors, *, room: float) -> Self:
        """On a grid close enough for anybody's posterior."""
        return self.on(grid_for(self.scale, items, self.testlets, room=room))

    def others(self, items: ItemTensors, *, room: float) -> BifactorNodes:
        """A grid that is finer, wider and moved."""
        bound = CHECKED_WIDER * BOUND
        finer = {"finer": CHECKED_FINER, "offset": CHECKED_OFFSET}
        return grid_for(self.scale, items, self.testlets, room=room, bound=bound, **finer)

    @property
    def words(self) -> str:
        """Which nodes these are."""
        nodes = self.problem.nodes
        assert isinstance(nodes, BifactorNodes)
        return f"grid of {nodes.n_general} x {nodes.n_specific} nodes, a specific ability at a time"

    def named(self, items: ItemTensors) -> ItemTensors:
        """Every ability turned so that the sum of the slopes on it is positive."""
        slopes = items.matrix[:, : SPECIFIC + 1].clone()
        slopes[:, GENERAL] = with_positive_sums(slopes[:, GENERAL])
        for members in self.testlets.members:
            slopes[members, SPECIFIC] = with_positive_sums(slopes[members, SPECIFIC])
        return with_slopes(items, slopes)

    def inverse_information(self, items: ItemTensors) -> Tensor | None:
        """Where it is positive definite: a testlet of few items says little of its ability, so that EM is slow."""
        problem = self.problem.in_float64()
        inverse, loose = invert(of_estimated(problem, observed_information(problem, items)), most=math.inf)
        if bool(loose.any()):
            return None
        shape = problem.free.shape
        return problem.by_estimated(problem.by_estimated(inverse).T).view(*shape, *shape)


def sums_by_item(batch: Batch, items: Tensor, values: Tensor) -> Tensor:
    """Sums of values over the responses to each of some items, shape (n_items, n_columns) or one row for all."""
    return values.sum(dim=0) if batch.observed_by_item is None else batch.observed_by_item[items] @ values


def grid_for(
    scale: CategoryItems,
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
    has slopes on (of right and wrong sum a^2 / 4).

    Parameters
    ----------
    scale, items, testlets
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
    slopes = items.matrix[:, : SPECIFIC + 1]
    general, specific = (largest_information(scale, items.matrix, axis) for axis in (GENERAL, SPECIFIC))
    of_testlets = torch.stack([specific[members].sum() for members in testlets.members])
    axes = []
    for column, total in ((GENERAL, general.sum()), (SPECIFIC, of_testlets.max())):
        narrowest = 1 / math.sqrt(1 + float(total))
        steepest = STEEPEST / max(float(slopes[:, column].abs().max()), 1e-300)
        spacing = finer * min(room * narrowest, steepest * min(room, 1.0), COARSEST)
        spacing = max(spacing, 2 * bound / MOST_NODES)
        n_each = math.floor(bound / spacing)
        whole = torch.arange(-n_each, n_each + 1, dtype=torch.float64, device=slopes.device)
        axes.append((whole + offset) * spacing)
    return BifactorNodes.grid(*axes)


def largest_information(scale: CategoryItems, x: Tensor, axis: int) -> Tensor:
    """The most that a response to each item tells of an ability, the others 0, shape (n_items,)."""
    theta = x.new_zeros(scale.n_abilities, N_LOOKED_AT)
    theta[axis] = torch.linspace(-BOUND, BOUND, N_LOOKED_AT, dtype=torch.float64, device=x.device)
    found = x.new_zeros(len(scale))
    for part in scale.parts:
        log_p, _, by_theta = part.derivatives(x, theta)
        found[part.items] = (log_p.exp() * by_theta[:, axis].square()).sum(dim=1).amax(dim=1)
    return found


def bifactor_problem(
    answers: Answers,
    testlets: ItemGroups,
    *,
    equal: bool = False,
    device: torch.device = CPU,
    dtype: torch.dtype = torch.float64,
) -> Testlets:
    """A general ability and testlets behind answers, without a prior but of asymptotes.

    Parameters
    ----------
    answers, testlets
        The data.
    equal
        Whether the items of each testlet have one specific slope; those of a testlet of two always have, and all where
        they have one slope on the general ability.
    device, dtype
        Where to compute, and the precision of the sums.
    """
    testlets, scale = testlets.to(device), answers.scale(2, device)
    slopes_free = torch.ones(len(scale), 2, dtype=torch.bool, device=device)
    slopes_free[testlets.alone, SPECIFIC] = False
    usual = torch.zeros(scale.free.shape, dtype=torch.float64, device=device)
    usual[:, : SPECIFIC + 1] = slopes_free.to(usual)
    usual[scale.where("guessing")], usual[scale.where("upper")] = START_GUESSING, START_UPPER
    nodes = replace(grid_for(scale, ItemTensors.from_matrix(usual), testlets, room=COARSE_ROOM), dtype=dtype)
    model = partial(
        category_model, items=scale, priors=answers.priors, known=known_slopes(scale, slopes_free),
        row=partial(CollapsedBifactor, testlets=testlets),
    )  # fmt: skip
    flat = CategoryProblem.of(model, answers.rows(scale), nodes)
    problem = BifactorProblem(flat.model, flat.rows, nodes, flat.prior, scale=scale, testlets=testlets)
    alike, sets = torch.zeros(len(scale), dtype=torch.bool, device=device), list[Sequence[int]]()
    if answers.one_slope:
        sets.append(range(GENERAL, len(scale) * scale.width, scale.width))
    for members in testlets.members:
        if equal or answers.one_slope or len(members) == 2:
            alike[members] = True
            sets.append((members * scale.width + SPECIFIC).tolist())
    return Testlets(answers.designed(problem, scale, sets), scale, testlets=testlets, alike=alike)


@missing_information.register
def missing_of_testlets(problem: BifactorProblem, items: ItemTensors, complete: Tensor, *, own: bool = False) -> Tensor:
    """That of items of a general and specific abilities."""
    every = ScoreParts.of(problem, *added_to_scores(problem, items))
    n_items, n_nodes = len(items), len(problem.nodes.theta)
    testlets = [every.of_items(members) for members in problem.testlets.members]
    free, width = every.free.flatten(), every.free.shape[1]
    columns = torch.arange(width, device=free.device)
    places = [(members[:, None] * width + columns).flatten() for members in problem.testlets.members]
    squares, of_means = (items.matrix.new_zeros(len(free), len(free)) for _ in range(2))
    within = [squares.new_zeros(len(own), len(own)) for own in places]
    at_once = max(1, MOST_PRODUCTS // sum(part.n_factors**2 for part, _ in testlets))
    for some in torch.arange(n_nodes, device=free.device).split(at_once):
        sums = [squares.new_zeros(part.n_factors, part.n_factors, len(some)) for part, _ in testlets]
        for found in problem.posteriors(items, cells=4 * len(free) * problem.nodes.n_general):
            numbers = numbers_of(found.batch.correct, found.batch.observed, n_items)
            if some[0] == 0:
                given = scores_given_general(problem, every, testlets, numbers, found)
                mean = (given * found.general[:, :, None]).sum(dim=1)
                of_means.addmm_(mean.T, mean)
                given = given.mul_(found.general.sqrt()[:, :, None]).flatten(0, 1)
                squares.addmm_(given.T, given)
            for testlet, ((part, at), of_testlet) in enumerate(zip(testlets, sums, strict=True)):
                part.add_products(of_testlet, numbers[:, at], found.joint(testlet)[:, some])
        for (part, _), of_numbers, of_testlet in zip(testlets, sums, within, strict=True):
            of_testlet += part.products(of_numbers, some)
    for place, of_testlet in zip(places, within, strict=True):
        squares[place[:, None], place] = of_testlet
    return (squares - of_means).view(n_items, width, n_items, width)


def scores_given_general(
    problem: BifactorProblem,
    every: ScoreParts,
    testlets: Sequence[tuple[ScoreParts, Tensor]],
    numbers: Tensor,
    found: BifactorPosterior,
) -> Tensor:
    """Mean score of each respondent given the general ability, shape (n_batch, n_general, n_items width)."""
    shape = problem.nodes.n_general, problem.nodes.n_specific
    result = numbers.new_zeros(len(numbers), shape[0], *every.free.shape)
    alone, at = every.of_items(problem.testlets.alone)
    result[:, :, problem.testlets.alone] = alone.scores(numbers[:, None, at], alone.added[:: shape[1]])
    for members, given, (part, at) in zip(problem.testlets.members, found.given_general, testlets, strict=True):
        by_general = part.added.flatten(1).unflatten(0, shape)  # (n_general, n_specific, n_numbers width)
        each = (given.transpose(0, 1) @ by_general).transpose(0, 1).unflatten(2, part.added.shape[1:])
        result[:, :, members] = part.scores(numbers[:, None, at], each)
    return result.flatten(2)
